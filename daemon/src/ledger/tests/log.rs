//! A ledger whose log is damaged or gone after a kill: nothing that was accepted is lost in silence, and nothing that may
//! have ended runs again before that is confirmed.

use super::damage::{open_again, setting_aside};
use super::*;
use crate::database::log::{self, LogEnd};
use fnd_core::verify_report::FindingLevel;

const QUEUED: std::ops::Range<u64> = 100..120;
const ENDED: std::ops::Range<u64> = 200..220;
const FILES: [&str; 4] = ["ledger.db", "ledger.db-wal", "ledger.db-end", "in-flight"];

/// The files of a ledger as a kill leaves them. They can be put back into the same files.
struct Killed {
    state: tempfile::TempDir,
    files: Vec<(&'static str, Vec<u8>)>,
}

impl Killed {
    /// A ledger whose newest work is in its log only.
    fn new() -> Self {
        let state = directory();
        let ledger = Ledger::open(state.path());
        for second in QUEUED {
            ledger.store(accepted(second, "later")).unwrap();
        }
        for second in ENDED {
            let accepted = accepted(second, "hello");
            ledger.store(accepted.clone()).unwrap();
            if second == ENDED.start {
                // The acceptances so far are now in the database file; the ends that follow are in the log.
                let db = rusqlite::Connection::open(state.path().join(FILE)).unwrap();
                db.query_row("PRAGMA wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
            }
            end(&ledger, &accepted, Reason::Ok, Some(b"done"));
        }
        ledger.opened.writer.flush(LIMIT);
        // A kill is one moment, and this is several: the writer waits meanwhile.
        let database = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
        database.execute_batch("BEGIN IMMEDIATE").unwrap();
        let read = |name| (name, std::fs::read(state.path().join(name)).unwrap());
        let mut files = FILES.map(read);
        // Old pages follow the end of a log that has begun anew; no damage of those matters.
        let found = log::scan(&*files[1].1).unwrap();
        files[1]
            .1
            .truncate(32 + usize::try_from(found.committed).unwrap() * 4120);
        drop(database);
        ledger.stop();
        // The reading thread may still close it: SQLite would share its index of the log with the next connection.
        let is_open = || {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            open.filter_map(|entry| std::fs::read_link(entry.path()).ok())
                .any(|path| path.starts_with(state.path()))
        };
        let until = crate::clock::monotonic() + LIMIT;
        while is_open() {
            assert!(crate::clock::monotonic() < until, "it is not closed");
            std::thread::yield_now();
        }
        let killed = Self {
            state,
            files: files.into(),
        };
        killed.put_back();
        killed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.state.path().join(name)
    }

    /// Returns whether the file of the database is the same one as before.
    fn put_back(&self) {
        for (name, bytes) in &self.files {
            std::fs::write(self.path(name), bytes).unwrap();
        }
        drop(std::fs::remove_file(self.path("ledger.db-shm")));
    }

    fn log(&self) -> Vec<u8> {
        self.files[1].1.clone()
    }
}

/// Checks that a start says what happened and that everything waits until that is confirmed. Returns how many queued
/// invocations were read.
fn is_held(killed: &Killed, what: &str) -> usize {
    let examined = examine::site(setting_aside(killed.state.path()), false);
    let error = examined
        .findings
        .iter()
        .find(|finding| finding.level == FindingLevel::Error);
    assert!(
        error.is_some_and(|error| error.what.contains("ledger.db")),
        "{what}: {examined:?}"
    );
    let ledger = open_again(killed.state.path());
    let health = ledger.opened.writer.health();
    let hold = health.hold.unwrap_or_else(|| panic!("{what}: it is not held"));
    assert!(
        hold.contains("the newest records") && hold.contains("queued work waits"),
        "{what}: {hold}"
    );
    assert!(health.set_aside.is_some(), "{what}");
    assert_eq!(ledger.store(accepted(5000, "hello")).unwrap_err(), hold, "{what}");
    let unfinished = &ledger.opened.restored.unfinished;
    let queued = unfinished.iter().filter(|found| found.record.function == name("later"));
    let queued: Vec<_> = queued.map(|found| found.record.clone()).collect();
    if let Some(record) = queued.first() {
        let mut record = record.clone();
        (record.state, record.attempts) = (RunState::Running, 1);
        assert_eq!(ledger.claim(record.clone()).unwrap_err(), hold, "{what}");
        let other = rusqlite::Connection::open(killed.path(FILE)).unwrap();
        crate::ledger::notices::clear(&other).unwrap();
        let until = crate::clock::monotonic() + LIMIT;
        while ledger.claim(record.clone()).is_err() {
            assert!(crate::clock::monotonic() < until, "{what}: it stays held");
        }
    }
    ledger.stop();
    // The replacement has all that it needs, and is no other damage.
    let ledger = open_again(killed.state.path());
    ledger.stop();
    queued.len()
}

/// Makes the damaged one the present one again.
fn renew(killed: &mut Killed) {
    *killed = Killed::new();
}

#[test]
fn a_ledger_that_was_killed_and_is_whole_goes_on() {
    let killed = Killed::new();
    let ledger = open_again(killed.state.path());
    assert_eq!(ledger.opened.writer.health(), WriterHealth::default());
    assert_eq!(ledger.opened.restored.unfinished.len(), QUEUED.count());
    ledger.store(accepted(5000, "hello")).unwrap();
    ledger.stop();
}

#[test]
fn each_damage_of_the_log_is_said_and_holds_everything() {
    let mut killed = Killed::new();
    let whole = killed.log();
    let last = whole.len() / 2;
    let mut queued = Vec::new();
    let bits = [0, 5, 17, 24, 31, 32, 37, 41, 50, 60, 4000, last, last + 4120];
    for at in bits {
        let mut log = killed.log();
        let at = at.min(log.len() - 1);
        log[at] ^= 1 << (at % 8);
        std::fs::write(killed.path("ledger.db-wal"), log).unwrap();
        queued.push(is_held(&killed, &format!("byte {at}")));
        renew(&mut killed);
    }
    // The frames behind a damaged one are read, too.
    let all = queued.iter().filter(|count| **count == QUEUED.count()).count();
    assert!(all + 2 >= bits.len(), "{queued:?}");
    let log = killed.log();
    for (what, bytes) in [
        ("20 bytes", [&log[..9000], &[0x5a; 20][..], &log[9020..]].concat()),
        ("truncated", log[..log.len() / 2].to_vec()),
        ("emptied", Vec::new()),
    ] {
        std::fs::write(killed.path("ledger.db-wal"), bytes).unwrap();
        is_held(&killed, what);
        renew(&mut killed);
    }
    std::fs::remove_file(killed.path("ledger.db-wal")).unwrap();
    is_held(&killed, "deleted");
    renew(&mut killed);
    let other = Killed::new();
    std::fs::write(killed.path("ledger.db-wal"), other.log()).unwrap();
    is_held(&killed, "replaced");
}

#[test]
fn a_fnd_that_may_not_set_a_ledger_aside_leaves_a_damaged_log_as_it_is() {
    let killed = Killed::new();
    let mut log = killed.log();
    log[9000] ^= 1;
    std::fs::write(killed.path("ledger.db-wal"), &log).unwrap();
    let refused = open(site(killed.state.path()), forever(), &[], |_| {}).err().unwrap();
    assert!(matches!(refused, OpenError::Corrupt { .. }), "{refused}");
    assert_eq!(std::fs::read(killed.path("ledger.db-wal")).unwrap(), log);
    assert_eq!(std::fs::read(killed.path(FILE)).unwrap(), killed.files[0].1);
    let examined = examine::site(site(killed.state.path()), true);
    assert!(!examined.repaired.is_empty(), "{examined:?}");
    let ledger = Ledger::open(killed.state.path());
    assert!(ledger.opened.writer.health().hold.is_none(), "the repair confirms it");
    ledger.stop();
}

/// The database is gone or another one.
#[test]
fn a_database_that_is_gone_after_a_kill_or_a_stop_is_said() {
    for stops in [false, true] {
        let killed = Killed::new();
        if stops {
            Ledger::open(killed.state.path()).stop();
        }
        std::fs::remove_file(killed.path(FILE)).unwrap();
        let ledger = open_again(killed.state.path());
        let health = ledger.opened.writer.health();
        assert!(health.hold.is_some() && health.set_aside.is_some_and(|note| note.contains("gone")));
        ledger.stop();
    }
}

/// Nothing of a salvage that left the log out is claimed: some of it may have ended since.
#[test]
fn a_salvage_without_the_log_claims_nothing() {
    let killed = Killed::new();
    // The log has a first page of its own, with which nothing can be read.
    let mut log = killed.log();
    let end = LogEnd {
        salts: log::salts(log.first_chunk().unwrap()),
        frames: u32::try_from((log.len() - 32) / 4120).unwrap(),
    };
    let last = log.len() - 4120;
    log[last..last + 4].copy_from_slice(&1_u32.to_be_bytes());
    log[last + 24..].fill(0x5a);
    let mut new = Vec::new();
    log::write_anew(&*log, &end, 1000, &mut new).unwrap();
    std::fs::write(killed.path("ledger.db-wal"), new).unwrap();
    // An fnd that keeps no record wrote it.
    std::fs::remove_file(killed.path("ledger.db-end")).unwrap();
    let queued = is_held(&killed, "a log that is left out");
    assert_eq!(queued, QUEUED.count());
}
