//! A damaged database is set aside, and nothing that waits is lost without a word.

use super::messages::{mark, of_message};
use super::*;
use std::collections::BTreeSet;

pub(super) fn setting_aside(state: &Path) -> Site<'_> {
    Site {
        on_damage: OnDamage::SetAside,
        ..site(state)
    }
}

/// Opens it as an fnd does by default.
pub(super) fn open_again(state: &Path) -> Ledger {
    let (sender, acknowledged) = channel();
    let acknowledge = move |event| {
        if !matches!(event, Acknowledged::Recorded(_) | Acknowledged::HealthChanged) {
            drop(sender.send(event));
        }
    };
    let opened = open(setting_aside(state), forever(), &[], acknowledge).unwrap();
    Ledger { opened, acknowledged }
}

/// Records that must not be lost.
const QUEUED: std::ops::Range<u64> = 1000..1020;
const LOADED: std::ops::Range<u64> = 2000..2010;
const DEAD: std::ops::Range<u64> = 10..20;

fn loaded(second: u64) -> Version {
    Version([u8::try_from(second % 256).unwrap(); 32])
}

/// Makes a ledger of some pages, closed as at a planned stop. Returns its bytes.
fn filled(state: &Path) -> Vec<u8> {
    let ledger = Ledger::open(state);
    for second in 1..60 {
        let accepted = accepted(second, "hello");
        ledger.store(accepted.clone()).unwrap();
        let reason = if DEAD.contains(&second) {
            Reason::Error
        } else {
            Reason::Ok
        };
        let result = if second % 9 == 0 { vec![7; 70_000] } else { vec![7; 100] };
        end(&ledger, &accepted, reason, Some(&result));
    }
    for second in LOADED {
        let load = Accepted {
            trigger: Trigger::Load,
            load_key: Some(loaded(second)),
            ..accepted(second, "once")
        };
        ledger.store(load.clone()).unwrap();
        end(&ledger, &load, Reason::Ok, None);
    }
    for second in QUEUED {
        let mut queued = accepted(second, "later");
        queued.payload.data = Some(vec![b'x'; 500].into());
        ledger.store(queued).unwrap();
    }
    ledger.submit(LedgerCommand::StoreEnabled {
        function: name("off"),
        disabled: Some(DisabledBy { uid: 7, since_ms: 8 }),
    });
    ledger.stop();
    for suffix in ["-wal", "-shm"] {
        drop(std::fs::remove_file(state.join(format!("{FILE}{suffix}"))));
    }
    std::fs::read(state.join(FILE)).unwrap()
}

/// Returns the queued work and the scripts run as `load` that a ledger has.
fn there(ledger: &Ledger) -> (BTreeSet<u64>, BTreeSet<[u8; 32]>) {
    let restored = &ledger.opened.restored;
    let queued = restored
        .unfinished
        .iter()
        .filter(|found| found.accepted.payload.data.is_some());
    let queued = queued.map(|found| u64::try_from(found.record.id.0 >> 80).unwrap() / 1000);
    let loaded = restored.loaded.iter().map(|(_, version)| version.0);
    (queued.collect(), loaded.collect())
}

fn all() -> (BTreeSet<u64>, BTreeSet<[u8; 32]>) {
    (QUEUED.collect(), LOADED.map(|second| loaded(second).0).collect())
}

fn asides(state: &Path) -> Vec<Vec<u8>> {
    let found = crate::database::Replacement::of(state, FILE).asides().into_iter();
    let databases =
        found.filter(|path| !path.to_str().unwrap().ends_with("-wal") && !path.to_str().unwrap().ends_with("-shm"));
    databases.map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn a_damaged_page_of_the_history_costs_a_part_of_it_and_no_queued_work() {
    let state = directory();
    filled(state.path());
    fill_root(state.path(), "attempt");
    let damaged = std::fs::read(state.path().join(FILE)).unwrap();

    let ledger = open_again(state.path());
    assert_eq!(there(&ledger), all());
    assert_eq!(ledger.opened.restored.disabled, [name("off")]);
    let letters = wait(ledger.opened.reader.dead_letters(unfiltered())).unwrap().letters;
    assert_eq!(letters.len(), DEAD.count());
    assert_eq!(ledger.opened.writer.dead_letters_of(&name("hello")), 10);
    let health = ledger.opened.writer.health();
    assert_eq!(health.hold, None);
    let note = health.set_aside.expect("it says what happened");
    assert!(
        note.contains("damaged-") && note.contains("rows may be missing in: attempt"),
        "{note}"
    );
    assert_eq!(asides(state.path()), [damaged], "the damaged one is as it was");
    ledger.store(accepted(5000, "hello")).unwrap();
    ledger.stop();
    // It is said until somebody has confirmed it.
    let ledger = open_again(state.path());
    assert_eq!(ledger.opened.writer.health().set_aside, Some(note));
    assert!(ledger.get(id(5000)).is_some());
    ledger.stop();
    assert_eq!(asides(state.path()).len(), 1);
}

#[test]
fn durable_work_is_refused_while_queued_work_may_be_missing_until_that_is_confirmed() {
    let state = directory();
    let mut damaged = filled(state.path());
    // Nothing but the first pages.
    damaged.truncate(5000);
    std::fs::write(state.path().join(FILE), &damaged).unwrap();
    let ledger = open_again(state.path());
    let hold = ledger.opened.writer.health().hold.expect("durable work is refused");
    assert!(
        hold.contains("queued work") && hold.contains("fndctl verify --repair"),
        "{hold}"
    );
    let refused = ledger.store(accepted(5000, "hello")).unwrap_err();
    assert_eq!(refused, hold);
    // Work that was not promised to be kept is still recorded.
    let call = Accepted {
        durable: false,
        ..accepted(5001, "hello")
    };
    end(&ledger, &call, Reason::Ok, None);
    assert!(ledger.get(id(5001)).is_some() && ledger.get(id(5000)).is_none());
    ledger.stop();
    let ledger = open_again(state.path());
    assert!(ledger.store(accepted(5002, "hello")).is_err(), "also after a restart");
    // While it runs, by another program.
    let other = rusqlite::Connection::open(state.path().join(FILE)).unwrap();
    let cleared = crate::ledger::notices::clear(&other).unwrap();
    assert_eq!(cleared.hold.as_deref(), Some(&*hold));
    let until = crate::clock::monotonic() + LIMIT;
    while ledger.opened.writer.health() != WriterHealth::default() {
        assert!(crate::clock::monotonic() < until, "it is not noticed");
        std::thread::yield_now();
    }
    ledger.store(accepted(5003, "hello")).unwrap();
    ledger.stop();
}

/// Another node may get such a message, too.
#[test]
fn durable_work_is_refused_while_it_is_not_known_which_messages_queued_work_has() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for second in 1..=3 {
        ledger.store(of_message(second, mark(second))).unwrap();
    }
    ledger.stop();
    fill_root(state.path(), "message");
    let ledger = open_again(state.path());
    let hold = ledger.opened.writer.health().hold.expect("durable work is refused");
    assert!(hold.contains("which messages of NATS queued work has"), "{hold}");
    assert_eq!(ledger.store(accepted(5000, "hello")).unwrap_err(), hold);
    // The server is told nothing about messages that are not known.
    assert_eq!(ledger.opened.messages, []);
    ledger.stop();
}

/// Damages the first page of a table.
fn fill_root(state: &Path, table: &str) {
    let path = state.join(FILE);
    let db = rusqlite::Connection::open(&path).unwrap();
    let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let root: usize = db.query_row(sql, [table], |row| row.get(0)).unwrap();
    // The last thread of the ledger may be closing it.
    let until = crate::clock::monotonic() + LIMIT;
    let is_busy = || db.query_row("PRAGMA wal_checkpoint(truncate)", [], |row| row.get::<_, bool>(0));
    while is_busy().unwrap_or(true) {
        assert!(crate::clock::monotonic() < until, "somebody has it");
        std::thread::yield_now();
    }
    drop(db);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(root - 1) * 4096..root * 4096].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
}

/// Flips some bytes of every page, so places of each kind: queued work is still there, or durable work is refused.
#[test]
fn no_flipped_bit_loses_queued_work_in_silence() {
    let state = directory();
    let whole = filled(state.path());
    assert!(whole.len() > 20 * 4096, "{}", whole.len());
    let (mut set_aside, mut held, mut quiet) = (0, 0, 0);
    let places = (0..whole.len()).step_by(1031).chain(0..110);
    for (n, at) in places.enumerate() {
        let copy = directory();
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (n % 8);
        std::fs::write(copy.path().join(FILE), &bytes).unwrap();
        let ledger = open_again(copy.path());
        let health = ledger.opened.writer.health();
        let (queued, loaded) = there(&ledger);
        match (&health.set_aside, &health.hold) {
            (Some(_), None) => assert_eq!((queued, loaded), all(), "byte {at}"),
            (Some(_), Some(_)) => held += 1,
            // A digit of a message, for example, is another one. All of the work is there.
            (None, _) => {
                assert_eq!((queued.len(), loaded.len()), (20, 10), "byte {at}");
                quiet += 1;
            }
        }
        set_aside += usize::from(health.set_aside.is_some());
        ledger.stop();
        if health.set_aside.is_some() {
            assert_eq!(asides(copy.path()).len(), 1, "byte {at}");
        }
        let ledger = Ledger::open(copy.path());
        ledger.stop();
    }
    assert!(
        set_aside > 40 && held * 4 < set_aside,
        "{set_aside} set aside, {held} of them held, {quiet} harmless"
    );
}

/// The beginning of the file is what everything else is found by.
#[test]
fn a_file_without_its_first_page_gives_all_rows_back() {
    for vacuumed in [false, true] {
        let state = directory();
        let mut damaged = filled(state.path());
        if vacuumed {
            let db = rusqlite::Connection::open(state.path().join(FILE)).unwrap();
            // The last thread of the ledger may be closing it.
            let until = crate::clock::monotonic() + LIMIT;
            while let Err(error) = db.execute_batch("PRAGMA journal_mode = delete; VACUUM") {
                assert!(crate::clock::monotonic() < until, "{error}");
                std::thread::yield_now();
            }
            drop(db);
            damaged = std::fs::read(state.path().join(FILE)).unwrap();
        }
        damaged[..4096].fill(0);
        std::fs::write(state.path().join(FILE), &damaged).unwrap();
        let ledger = open_again(state.path());
        let health = ledger.opened.writer.health();
        assert_eq!((health.hold, there(&ledger)), (None, all()), "{:?}", health.set_aside);
        assert_eq!(ledger.list(unfiltered()).records.len(), 89);
        ledger.stop();
        let names: Vec<_> = std::fs::read_dir(state.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(
            !names.iter().any(|name| name.to_str().unwrap().contains("salvage")),
            "{names:?}"
        );
    }
}

/// A crash between any two steps: the next start goes on, and never begins with nothing.
#[test]
fn a_salvage_that_was_interrupted_is_ended_by_the_next_start() {
    let state = directory();
    let whole = filled(state.path());
    let damaged = vec![0x5a; whole.len()];
    let at = |name: &str| state.path().join(name);
    for moved in [&[][..], &["ledger.db"], &["ledger.db", "ledger.db-wal"]] {
        for name in ["ledger.db", "ledger.db-wal"] {
            std::fs::write(at(name), &damaged).unwrap();
        }
        std::fs::write(at("ledger.db.salvaged-20261122T"), &whole).unwrap();
        for name in moved {
            let aside = name.replace("ledger.db", "ledger.db.damaged-20261122T");
            std::fs::rename(at(name), at(&aside)).unwrap();
        }
        let ledger = open_again(state.path());
        assert_eq!(
            (there(&ledger), ledger.opened.writer.health()),
            (all(), WriterHealth::default())
        );
        ledger.stop();
        for suffix in ["", "-wal"] {
            let aside = std::fs::read(at(&format!("ledger.db.damaged-20261122T{suffix}"))).unwrap();
            assert_eq!(aside, damaged);
        }
    }
    // Begun and not complete: it is of no use.
    std::fs::write(at("ledger.db"), &damaged).unwrap();
    std::fs::write(at("ledger.db.salvage"), b"half").unwrap();
    let ledger = open_again(state.path());
    assert!(ledger.opened.writer.health().hold.is_some());
    ledger.stop();
    assert!(!at("ledger.db.salvage").exists());
}

/// SQLite sees no damage in the bytes of a value. A function would run with another payload.
#[test]
fn a_bit_of_a_payload_or_a_result_is_noticed() {
    let state = directory();
    let whole = filled(state.path());
    let payload = whole.windows(500).position(|place| place == [b'x'; 500]).unwrap();
    let result = whole.windows(2000).rposition(|place| place == [7; 2000]).unwrap();
    for (at, is_payload) in [(payload + 250, true), (result + 1000, false)] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(state.path().join(FILE), &damaged).unwrap();
        let examined = examine::site(setting_aside(state.path()), false);
        let is_error = |finding: &fnd_core::verify_report::LedgerFinding| finding.what.contains("not what was written");
        assert!(examined.findings.iter().any(is_error), "{examined:?}");
        let ledger = open_again(state.path());
        let health = ledger.opened.writer.health();
        let (queued, loaded) = there(&ledger);
        assert_eq!(loaded.len(), LOADED.count());
        if is_payload {
            assert_eq!(queued.len() + 1, QUEUED.count());
            assert!(health.hold.unwrap().contains("queued work"));
        } else {
            // A result is found to be damaged when somebody asks for it.
            assert_eq!((health, queued.len()), (WriterHealth::default(), QUEUED.count()));
            let broken = (1..60).filter(|second| wait(ledger.opened.reader.result(id(*second))).is_err());
            assert_eq!(broken.count(), 1);
        }
        ledger.stop();
    }
}
