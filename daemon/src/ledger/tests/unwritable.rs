//! A start on a disk without room: fnd reads what the ledger has, and writes later what it cannot write now.

use super::*;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::OnceLock;

/// Ids of now: on a small disk what is a week old is forgotten for room.
fn at(second: u64) -> u64 {
    static NOW: OnceLock<u64> = OnceLock::new();
    NOW.get_or_init(|| crate::clock::unix_ms() / 1000) + second
}

/// A small disk with a state directory, and a run directory that is not on it.
struct Disk {
    state: tempfile::TempDir,
    run: tempfile::TempDir,
}

impl Disk {
    /// Mounts one; nothing where this process may not.
    fn mount() -> Option<Self> {
        let (state, run) = (directory(), directory());
        let mounted = mount("fnd-test", state.path(), "tmpfs", MountFlags::empty(), c"size=1m");
        if let Err(error) = mounted {
            eprintln!("skipped: no disk of its own can be mounted: {error}");
            return None;
        }
        Some(Self { state, run })
    }

    /// Mounts one that is full, with what was left behind on it.
    fn full(files: &Files) -> Option<Self> {
        let disk = Self::mount()?;
        for (name, bytes) in &files.0 {
            let directory = if name == "in-flight" { &disk.run } else { &disk.state };
            std::fs::write(directory.path().join(name), bytes).unwrap();
        }
        let filler = disk.state.path().join("filler");
        let mut filler = OpenOptions::new().append(true).create(true).open(filler).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        Some(disk)
    }

    fn make_room(&self) {
        std::fs::remove_file(self.state.path().join("filler")).unwrap();
    }

    fn try_open(&self) -> Result<Ledger, OpenError> {
        let (sender, acknowledged) = channel();
        let acknowledge = move |event| {
            if !matches!(event, Acknowledged::Recorded(_) | Acknowledged::HealthChanged) {
                drop(sender.send(event));
            }
        };
        let site = Site {
            run: self.run.path(),
            ..site(self.state.path())
        };
        let opened = open(site, forever(), &[], acknowledge)?;
        Ok(Ledger { opened, acknowledged })
    }

    fn open(&self) -> Ledger {
        self.try_open()
            .unwrap_or_else(|error| panic!("{}", crate::chain(&error)))
    }

    /// Returns the files that a kill would leave now.
    fn files(&self, names: &[&str]) -> Files {
        // A kill is one moment, and this is several: the writer waits meanwhile.
        let db = rusqlite::Connection::open(self.state.path().join(FILE)).unwrap();
        let _ = db.execute_batch("BEGIN IMMEDIATE"); // where nothing can be written, nothing is
        let read = |name: &&str| {
            let directory = if *name == "in-flight" { &self.run } else { &self.state };
            Some(((*name).to_owned(), std::fs::read(directory.path().join(name)).ok()?))
        };
        Files(names.iter().filter_map(read).collect())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(self.state.path(), UnmountFlags::DETACH); // a directory in a full one is removed with its parent
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Files(Vec<(String, Vec<u8>)>);

const DATABASE: &str = "ledger.db";
const LOG: &str = "ledger.db-wal";
const INDEX: &str = "ledger.db-shm";

fn found(ledger: &Ledger) -> Vec<(InvocationId, RunState, u32)> {
    let unfinished = ledger.opened.restored.unfinished.iter();
    unfinished
        .map(|found| (found.record.id, found.record.state, found.record.attempts))
        .collect()
}

/// One waits, one was claimed and has not begun, one runs, and the end of a call is in the table only.
fn some_of_each(ledger: &Ledger) {
    for second in 1..4 {
        ledger.store(accepted(at(second), "hello")).unwrap();
    }
    for second in [2, 3] {
        ledger.claim(claim(second)).unwrap();
    }
    ledger.begins(&claim(3));
    answered_not_stored(ledger, 4);
}

fn claim(second: u64) -> InvocationRecord {
    InvocationRecord {
        attempts: 1,
        started_ms: Some(9),
        ..record(&accepted(at(second), "hello"), RunState::Running)
    }
}

/// A call that was answered and is not stored.
fn answered_not_stored(ledger: &Ledger, second: u64) -> (AttemptRecord, InvocationRecord) {
    let (attempt, record) = ended(&accepted(at(second), "hello"), Reason::Ok, None);
    ledger.begins(&record);
    ledger.opened.writer.ends(&attempt, &record, false);
    (attempt, record)
}

fn is_refused(ledger: &Ledger, second: u64) {
    for refused in [
        ledger.store(accepted(at(second), "hello")).unwrap_err(),
        ledger.claim(claim(1)).unwrap_err(),
    ] {
        assert!(
            refused.contains("bytes and") && refused.contains("ledger.db"),
            "{refused}"
        );
    }
    let health = ledger.opened.writer.health();
    assert!(health.failing.is_some() && health.failed > 0, "{health:?}");
}

fn wait_written(ledger: &Ledger) {
    let until = crate::clock::monotonic() + LIMIT;
    while let Some(failing) = ledger.opened.writer.health().failing {
        assert!(crate::clock::monotonic() < until, "{failing}");
        std::thread::yield_now();
    }
}

#[test]
fn what_was_accepted_is_read_without_room_and_stored_when_there_is_some() {
    // After a kill; after a power cut that took the index; and where the index has its room and the log has none.
    for names in [&[DATABASE, LOG, "in-flight"][..], &[DATABASE, LOG, INDEX, "in-flight"]] {
        let Some(before) = Disk::mount() else { return };
        let ledger = before.open();
        some_of_each(&ledger);
        let Some(disk) = Disk::full(&before.files(names)) else {
            return;
        };
        ledger.stop();
        let each = [
            (id(at(1)), RunState::Queued, 0),
            (id(at(2)), RunState::Queued, 0),
            (id(at(3)), RunState::Running, 1),
        ];
        let ledger = disk.open();
        assert_eq!(found(&ledger), each);
        is_refused(&ledger, 10);
        assert!(ledger.get(id(at(1))).is_some(), "questions are answered");
        let _ = answered_not_stored(&ledger, 5);
        // A kill while there is no room changes nothing, nor hides it what began meanwhile.
        let Some(disk) = Disk::full(&disk.files(&[DATABASE, LOG, "in-flight"])) else {
            return;
        };
        ledger.stop();
        let ledger = disk.open();
        assert_eq!(found(&ledger), each);
        is_refused(&ledger, 10);
        let (attempt, record) = answered_not_stored(&ledger, 6);
        ledger.submit(LedgerCommand::Record(Box::new(attempt), Box::new(record)));
        disk.make_room();
        wait_written(&ledger);
        assert_eq!(ledger.opened.writer.health().lost, 0);
        let state = |second| {
            ledger
                .get(id(at(second)))
                .map(|(record, attempts)| (record.state, attempts.len()))
        };
        assert_eq!(state(1), Some((RunState::Queued, 0)));
        assert_eq!(
            state(2),
            Some((RunState::Queued, 0)),
            "it was claimed, and has not begun"
        );
        assert_eq!(state(3), Some((RunState::Running, 0)));
        for second in 4..7 {
            assert_eq!(state(second), Some((RunState::Succeeded, 1)), "{second}");
        }
        assert_eq!(state(10), None, "what was refused does not appear later");
        ledger.claim(claim(2)).unwrap();
        ledger.begins(&claim(2));
        ledger.store(accepted(at(7), "hello")).unwrap();
        // As any other ledger from now on, also for other programs.
        crate::ledger::schema::inspect(&disk.state.path().join(FILE)).unwrap();
        let Some(next) = Disk::full(&disk.files(&[DATABASE, LOG, INDEX, "in-flight"])) else {
            return;
        };
        ledger.stop();
        next.make_room();
        let ledger = next.open();
        let running = (id(at(2)), RunState::Running, 1);
        assert_eq!(
            found(&ledger),
            [each[0], running, each[2], (id(at(7)), RunState::Queued, 0)]
        );
        assert_eq!(ledger.opened.restored.counts, [(name("hello"), 3, 0)], "counted once");
        assert_eq!(ledger.opened.writer.health(), WriterHealth::default());
        ledger.stop();
    }
}

/// A power cut takes the table, and the next fnd finds no room: what it answers must outlive the kill that comes then.
#[test]
fn an_end_that_was_answered_without_room_after_a_power_cut_outlives_a_kill() {
    // The power cut may also undo that the database has recorded the number of its table.
    outlives_a_kill("");
    outlives_a_kill("DELETE FROM meta WHERE key = 'in-flight'");
}

fn outlives_a_kill(undone: &str) {
    let Some(before) = Disk::mount() else { return };
    let ledger = before.open();
    some_of_each(&ledger);
    let db = rusqlite::Connection::open(before.state.path().join(FILE)).unwrap();
    db.execute_batch(undone).unwrap();
    drop(db);
    let Some(disk) = Disk::full(&before.files(&[DATABASE, LOG])) else {
        return;
    };
    ledger.stop();
    let ledger = disk.open();
    let _ = answered_not_stored(&ledger, 5);
    let Some(disk) = Disk::full(&disk.files(&[DATABASE, LOG, "in-flight"])) else {
        return;
    };
    ledger.stop();
    let ledger = disk.open();
    disk.make_room();
    wait_written(&ledger);
    let state = |second| ledger.get(id(at(second))).map(|(record, _)| record.state);
    assert_eq!(state(5), Some(RunState::Succeeded));
    assert_eq!(state(1), Some(RunState::Queued));
    for second in [2, 3] {
        let why = "it was claimed before the power cut, so it may have begun";
        assert_eq!(state(second), Some(RunState::Running), "{why}");
    }
    // From now on the table is complete again: what is claimed now and does not begin waits for the next fnd.
    ledger.store(accepted(at(8), "hello")).unwrap();
    ledger.claim(claim(8)).unwrap();
    let Some(next) = Disk::full(&disk.files(&[DATABASE, LOG, INDEX, "in-flight"])) else {
        return;
    };
    ledger.stop();
    next.make_room();
    let ledger = next.open();
    assert!(found(&ledger).contains(&(id(at(8)), RunState::Queued, 0)));
    ledger.stop();
}

#[test]
fn a_ledger_begins_when_there_is_room_for_it() {
    let Some(disk) = Disk::full(&Files(Vec::new())) else {
        return;
    };
    let ledger = disk.open();
    assert_eq!(found(&ledger), []);
    is_refused(&ledger, 1);
    assert_eq!(ledger.ids(unfiltered()), [0; 0]);
    let (attempt, record) = answered_not_stored(&ledger, 5);
    ledger.submit(LedgerCommand::Record(Box::new(attempt), Box::new(record)));
    is_refused(&ledger, 2);
    disk.make_room();
    wait_written(&ledger);
    ledger.store(accepted(at(3), "hello")).unwrap();
    assert_eq!(
        ledger.ids(unfiltered()),
        [5, 3].map(|second| u128::from(at(second)) * 1000)
    );
    assert_eq!(
        ledger.opened.writer.health(),
        WriterHealth {
            failed: ledger.opened.writer.health().failed,
            ..WriterHealth::default()
        }
    );
    let Some(next) = Disk::full(&disk.files(&[DATABASE, LOG, "in-flight"])) else {
        return;
    };
    assert_eq!(found(&next.open()), [(id(at(3)), RunState::Queued, 0)]);
    // Replaced from now on it is noticed.
    std::fs::rename(disk.state.path().join(LOG), disk.state.path().join("moved")).unwrap();
    assert!(
        ledger
            .store(accepted(at(4), "hello"))
            .unwrap_err()
            .contains("was moved away")
    );
    ledger.stop();
}

#[test]
fn without_room_nothing_is_guessed() {
    let Some(before) = Disk::mount() else { return };
    let ledger = before.open();
    some_of_each(&ledger);
    ledger.opened.writer.stop();
    drop(ledger);
    let path = before.state.path().join(FILE);
    let older = rusqlite::Connection::open(&path).unwrap();
    older
        .execute_batch("UPDATE meta SET value = '2' WHERE key = 'schema'; PRAGMA wal_checkpoint(truncate)")
        .unwrap();
    drop(older);
    let older = before.files(&[DATABASE]);
    let mut damaged = before.files(&[DATABASE]);
    damaged.0[0].1[4096..20_000].fill(0x5a);
    for files in [older, damaged] {
        let Some(disk) = Disk::full(&files) else { return };
        let error = crate::chain(&disk.try_open().err().expect("it is refused"));
        assert!(
            error.contains("ledger.db") && error.contains("disk I/O error"),
            "{error}"
        );
        assert_eq!(disk.files(&[DATABASE]), files, "it was not changed");
    }
}
