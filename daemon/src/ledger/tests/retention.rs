//! Records are forgotten by count, age and bytes, and on a disk that is nearly full.

use super::lists::fill;
use super::*;
use crate::ledger::sweeper::Sweeper;
use fnd_core::idempotency::IdempotencyKey;

#[test]
fn old_history_goes_but_not_what_matters() {
    let state = directory();
    let retention = Retention {
        others: KeepOf {
            keep: 50,
            ..KeepOf::default()
        },
        keep_for: Duration::from_secs(3600),
        ..Retention::default()
    };
    let ledger = Ledger::open_with(state.path(), retention.clone());
    let now = crate::clock::unix_ms() / 1000;
    let unfinished = accepted(1, "hello");
    ledger.store(unfinished).unwrap();
    let only = Accepted {
        load_key: Some(Version([2; 32])),
        ..accepted(2, "once")
    };
    ledger.store(only.clone()).unwrap();
    end(&ledger, &only, Reason::Ok, None);
    for second in now - 1000..now - 1000 + 700 {
        let accepted = Accepted {
            durable: false,
            ..accepted(second, "hello")
        };
        ledger.submit(LedgerCommand::Store(Box::new(accepted.clone())));
        end(&ledger, &accepted, Reason::Ok, Some(&vec![0; 70_000]));
    }
    // Stopping writes what waits; the sweep follows work, so some more comes after the restart.
    ledger.stop();
    let ledger = Ledger::open_with(state.path(), retention);
    for second in now - 200..now - 60 {
        let accepted = Accepted {
            durable: false,
            ..accepted(second, "hello")
        };
        end(&ledger, &accepted, Reason::Ok, None);
        ledger.opened.writer.flush(LIMIT);
    }
    let count = |function: &str| {
        let filter = filtered(|filter| (filter.function, filter.limit) = (Some(name(function)), Some(1000)));
        ledger.ids(filter).len()
    };
    // Between two sweeps a hundred more may gather, and the unfinished one stays. The sweep follows when nothing waits.
    let begun = crate::clock::monotonic();
    while count("hello") > 50 + 100 + 1 {
        assert!(begun.elapsed() < LIMIT, "{} left", count("hello"));
    }
    assert!(ledger.get(id(1)).is_some(), "unfinished");
    assert!(ledger.get(id(2)).is_some(), "last run of its function");
    ledger.stop();
    let db = rusqlite::Connection::open(state.path().join(FILE)).unwrap();
    let orphans = "SELECT (SELECT count(*) FROM attempt WHERE invocation NOT IN (SELECT id FROM invocation))
        + (SELECT count(*) FROM body WHERE invocation NOT IN (SELECT id FROM invocation))";
    assert_eq!(db.query_row(orphans, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

/// Forgets until there is nothing to forget, an hour after the newest record; returns how many are left of a function.
fn sweep(db: &rusqlite::Connection, retention: Retention, low: bool) -> i64 {
    let newest: Option<u64> = db
        .query_row("SELECT max(accepted_ms) FROM invocation", [], |row| row.get(0))
        .unwrap();
    let unix_ms = newest.unwrap_or(0) + 3_600_000;
    let mut sweeper = Sweeper::with_clock(db, retention, super::forgetting::stopped(unix_ms)).unwrap();
    let mut steps = 0;
    while sweeper.step(db, low) {
        steps += 1;
        assert!(steps < 100_000, "it comes to an end");
    }
    db.query_row("SELECT count(*) FROM invocation WHERE function = 'f1'", [], |row| {
        row.get(0)
    })
    .unwrap()
}

#[test]
fn what_exceeds_count_age_or_bytes_goes_also_when_less_is_kept_than_before() {
    let state = directory();
    let path = state.path().join(FILE);
    let db = crate::ledger::schema::open(&path).unwrap();
    fill(&db, 100_000); // 1000 of each function, f0 has the failed ones
    let keep = |keep, keep_failed| Retention {
        functions: [(
            name("f1"),
            KeepOf {
                keep,
                keep_failed,
                ..forever().others
            },
        )]
        .into_iter()
        .collect(),
        ..forever()
    };
    assert_eq!(sweep(&db, forever(), false), 1000);
    assert_eq!(sweep(&db, keep(2000, 0), false), 1000);
    assert_eq!(sweep(&db, keep(300, 0), false), 300);
    assert_eq!(sweep(&db, keep(0, 0), false), 0);
    let failed = Retention {
        functions: [(
            name("f0"),
            KeepOf {
                keep: 10,
                keep_failed: 20,
                ..forever().others
            },
        )]
        .into_iter()
        .collect(),
        ..forever()
    };
    sweep(&db, failed, false);
    let left = |which: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM invocation WHERE function = 'f0' AND {which}");
        db.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    // The newest ten, one of which failed, and beside them the newest twenty that failed.
    assert_eq!((left("1"), left("state = 'failed'")), (29, 20));

    let size = || {
        let pages = crate::database::LogPages::of(&db).unwrap();
        crate::ledger::schema::checkpoint(&db, pages);
        std::fs::metadata(&path).unwrap().len()
    };
    let large = size();
    let bytes = Retention {
        keep_bytes: 4 << 20,
        ..forever()
    };
    sweep(&db, bytes, false);
    db.execute_batch("PRAGMA wal_checkpoint(truncate)").unwrap();
    assert!(size() < large && size() < 24 << 20, "{} of {large}", size());
    let newest: i64 = db
        .query_row("SELECT max(accepted_ms) FROM invocation", [], |row| row.get(0))
        .unwrap();
    assert_eq!(newest, 100_000_000);
    let age = Retention {
        keep_for: Duration::from_secs(60),
        ..forever()
    };
    sweep(&db, age, false);
    let all: i64 = db
        .query_row("SELECT count(*) FROM invocation", [], |row| row.get(0))
        .unwrap();
    assert_eq!(all, 0);
}

#[test]
fn what_was_cancelled_before_its_function_ever_ran_goes_as_well() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    fill(&db, 1200);
    let never_ran = "UPDATE invocation SET function = printf('f%d', accepted_ms / 1000); DELETE FROM function";
    db.execute_batch(never_ran).unwrap();
    let keep = |keep| Retention {
        others: KeepOf {
            keep,
            ..forever().others
        },
        ..forever()
    };
    let left = |retention| {
        sweep(&db, retention, false);
        let sql = "SELECT count(*) FROM invocation";
        db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(left(keep(1)), 1200);
    assert_eq!(left(keep(0)), 0);
}

#[test]
fn a_key_does_not_wait_for_others_to_gather() {
    let store = |key: Option<&str>| {
        LedgerCommand::Store(Box::new(Accepted {
            durable: false,
            key: key.map(|key| IdempotencyKey::stored(key.into())),
            ..accepted(1, "hello")
        }))
    };
    assert!(!store(None).is_waited_for());
    assert!(store(Some("order-17")).is_waited_for());
}

#[test]
fn a_function_keeps_its_newest_within_its_bytes() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    fill(&db, 100_000);
    let newest =
        "SELECT id, 'payload', zeroblob(1048576) FROM invocation WHERE function = 'f1' ORDER BY id DESC LIMIT 4";
    db.execute(&format!("INSERT INTO body (invocation, kind, data) {newest}"), [])
        .unwrap();
    let keep = |keep_bytes| Retention {
        functions: [(
            name("f1"),
            KeepOf {
                keep_bytes,
                ..forever().others
            },
        )]
        .into_iter()
        .collect(),
        ..forever()
    };
    assert_eq!(sweep(&db, keep(8 << 20), false), 1000);
    let left = sweep(&db, keep((4 << 20) + (100 << 10)), false);
    assert!((100..1000).contains(&left), "records count as well: {left}");
    assert_eq!(sweep(&db, keep((2 << 20) + (64 << 10)), false), 2);
    assert_eq!(
        sweep(&db, keep(64 << 10), false),
        0,
        "it is the newest that is too large"
    );
    let others = "SELECT count(*) FROM invocation WHERE function = 'f2'";
    assert_eq!(db.query_row(others, [], |row| row.get::<_, i64>(0)).unwrap(), 1000);
}

#[test]
fn on_a_disk_that_is_nearly_full_old_history_makes_room_inside_the_database() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    fill(&db, 50_000);
    // They are of half a day, eight days ago.
    let known = "INSERT INTO meta (key, value) VALUES ('clock_known', '741200000')";
    db.execute(known, []).unwrap();
    let pages = || crate::ledger::room::Pages::of(&db).unwrap();
    let before = pages();
    assert!(before.reusable() < 4 << 20);
    let clock = super::forgetting::stopped(741_200_000);
    super::forgetting::forget_all(&db, &mut Sweeper::with_clock(&db, forever(), clock).unwrap(), true);
    assert!(pages().reusable() >= 4 << 20, "{:?}", pages());
    assert_eq!(pages().all, before.all);
    let left: i64 = db
        .query_row("SELECT count(*) FROM invocation", [], |row| row.get(0))
        .unwrap();
    assert!(left > 1000, "no more than it takes: {left}");
}

/// `cargo nextest run -p fnd --release ten_million -- --ignored --nocapture`: takes minutes and 4 GB.
#[test]
#[ignore = "a measurement: minutes and gigabytes"]
fn ten_million() {
    let rows: u64 = std::env::var("FND_ROWS").map_or(10_000_000, |rows| rows.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE);
    let db = crate::ledger::schema::open(&path).unwrap();
    let begun = crate::clock::monotonic();
    fill(&db, rows);
    let size = crate::ledger::room::Pages::of(&db).unwrap().used() >> 20;
    println!("filled {rows} rows, {size} MiB in {:?}", begun.elapsed());
    drop(db);
    let begun = crate::clock::monotonic();
    let ledger = Ledger::open(directory.path());
    println!("opened in {:?}", begun.elapsed());
    let measure = |what: &str, filter: InvocationFilter| {
        let mut times = Vec::new();
        let mut after = None;
        for _ in 0..200 {
            let begun = crate::clock::monotonic();
            let page = ledger.list(InvocationFilter {
                after,
                ..filter.clone()
            });
            times.push(begun.elapsed());
            after = page.next;
        }
        times.sort();
        println!("page of {what}: p50 {:?} p99 {:?}", times[100], times[197]);
    };
    measure("all", unfiltered());
    measure("a function", filtered(|filter| filter.function = Some(name("f7"))));
    measure("what failed", filtered(|filter| filter.state = Some(RunState::Failed)));
    measure(
        "a text, rare",
        filtered(|filter| filter.text = Some("nowhere".to_owned())),
    );
    let rare = filtered(|filter| (filter.function, filter.reason) = (Some(name("f7")), Some(Reason::Oom)));
    measure("a reason of a function, rare", rare);
    ledger.stop();
    let db = crate::ledger::schema::open(&path).unwrap();
    db.pragma_update(None, "synchronous", "normal").unwrap();
    for (what, retention) in [
        (
            "count",
            Retention {
                others: KeepOf {
                    keep: 1000,
                    keep_failed: 0,
                    ..forever().others
                },
                ..forever()
            },
        ),
        (
            "bytes",
            Retention {
                keep_bytes: 1 << 20,
                ..forever()
            },
        ),
    ] {
        let mut sweeper = Sweeper::new(&db, retention).unwrap();
        let mut times = Vec::new();
        for _ in 0..3000 {
            let begun = crate::clock::monotonic();
            let more = sweeper.step(&db, false);
            times.push(begun.elapsed());
            if !more {
                break;
            }
        }
        times.sort();
        let count = times.len();
        println!(
            "{count} steps by {what}: p50 {:?} p99 {:?} max {:?}",
            times[count / 2],
            times[count * 99 / 100],
            times[count - 1]
        );
    }
}
