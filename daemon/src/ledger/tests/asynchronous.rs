//! Dead letters, runs again, keys that last, lists of a large history, and what is forgotten.

use super::*;
use crate::ledger::forget::{Scope, sql};
use crate::ledger::list::{CHECK_MAX, statement};
use crate::ledger::sweeper::Sweeper;
use rusqlite::params_from_iter;

/// Stores and ends a durable invocation.
fn over(ledger: &Ledger, second: u64, function: &str, reason: Reason) -> Accepted {
    let accepted = accepted(second, function);
    ledger.store(accepted.clone()).unwrap();
    end(ledger, &accepted, reason, None);
    accepted
}

fn dead(ledger: &Ledger) -> Vec<u128> {
    let page = wait(ledger.opened.reader.dead_letters(InvocationFilter::default())).unwrap();
    page.letters.iter().map(|letter| letter.invocation.id.0 >> 80).collect()
}

fn count(ledger: &Ledger, function: &str) -> u64 {
    ledger.opened.writer.dead_letters_of(&name(function))
}

#[test]
fn asynchronous_work_that_failed_is_a_dead_letter_until_it_is_redriven_or_dropped() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    over(&ledger, 1, "f", Reason::Ok);
    let failed = over(&ledger, 2, "f", Reason::Exit(3));
    over(&ledger, 3, "f", Reason::Interrupted);
    over(&ledger, 4, "f", Reason::Cancelled);
    let called = Accepted {
        durable: false,
        ..accepted(5, "f")
    };
    ledger.submit(Command::Store(Box::new(called.clone())));
    end(&ledger, &called, Reason::Exit(3), None);
    let loaded = Accepted {
        trigger: Trigger::Load,
        ..accepted(6, "f")
    };
    ledger.store(loaded.clone()).unwrap();
    end(&ledger, &loaded, Reason::Exit(3), None);
    let other = over(&ledger, 7, "g", Reason::Timeout);
    assert_eq!(dead(&ledger), [7000, 3000, 2000]);
    assert_eq!((count(&ledger, "f"), count(&ledger, "g")), (2, 1));

    let letter = wait(ledger.opened.reader.dead_letter(failed.id)).unwrap().unwrap();
    assert_eq!((letter.payload.as_deref(), letter.payload_bytes), (Some("{}"), Some(2)));
    let stored = wait(ledger.opened.reader.stored_invocation(failed.id))
        .unwrap()
        .unwrap();
    assert_eq!((stored.dead, stored.payload.as_ref()), (true, Some(&failed.payload)));

    let again = Accepted {
        trigger: Trigger::Redrive,
        origin: Some(failed.id),
        ..accepted(8, "f")
    };
    ledger.store(again.clone()).unwrap();
    assert_eq!(dead(&ledger), [7000, 3000]);
    ledger.submit(Command::DiscardDeadLetter(other.id));
    assert_eq!(dead(&ledger), [3000]);
    // Ended twice, as after a write that was tried again: it does not come back.
    end(&ledger, &failed, Reason::Exit(3), None);
    assert_eq!(dead(&ledger), [3000]);
    ledger.stop();

    let ledger = Ledger::open(state.path());
    assert_eq!(dead(&ledger), [3000]);
    assert_eq!((count(&ledger, "f"), count(&ledger, "g")), (1, 0));
    let whole = wait(ledger.opened.reader.get(again.id)).unwrap().unwrap();
    assert_eq!(whole.origin, Some(failed.id));
    end(&ledger, &again, Reason::Exit(3), None);
    assert_eq!(dead(&ledger), [8000, 3000]);
}

/// Its acceptance was refused by SQLite, so there is no payload to run again.
#[test]
fn durable_work_whose_acceptance_is_not_stored_is_no_dead_letter() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let accepted = accepted(1, "f");
    let waiting = record(&accepted, State::Waiting);
    ledger.submit(Command::Update(Box::new(waiting)));
    ledger.opened.writer.flush(LIMIT);
    end(&ledger, &accepted, Reason::Exit(3), None);
    assert_eq!((dead(&ledger), count(&ledger, "f")), (Vec::new(), 0));
    let stored = wait(ledger.opened.reader.stored_invocation(accepted.id)).unwrap();
    assert_eq!(stored.unwrap().payload, None);
}

#[test]
fn payloads_are_kept_of_all_but_calls_that_went_well() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for (second, durable, reason, kept) in [
        (1, true, Reason::Ok, true),
        (2, true, Reason::Exit(1), true),
        (3, false, Reason::Exit(1), true),
        (4, false, Reason::Ok, false),
    ] {
        let accepted = Accepted {
            durable,
            ..accepted(second, "f")
        };
        ledger.submit(Command::Store(Box::new(accepted.clone())));
        if second % 2 == 0 {
            // Written before it ends, or with its end: it makes no difference.
            ledger.opened.writer.flush(LIMIT);
        }
        end(&ledger, &accepted, reason, None);
        let stored = wait(ledger.opened.reader.stored_invocation(accepted.id))
            .unwrap()
            .unwrap();
        assert_eq!(stored.payload, kept.then_some(accepted.payload), "{second}");
    }
}

#[test]
fn a_key_is_found_as_long_as_its_invocation_is_there() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let keyed = Accepted {
        key: Some("k".into()),
        durable: false,
        priority: -3,
        ..accepted(1, "f")
    };
    ledger.submit(Command::Store(Box::new(keyed.clone())));
    end(&ledger, &keyed, Reason::Ok, Some(b"1"));
    let live = Accepted {
        key: Some("live".into()),
        priority: 7,
        ..accepted(2, "f")
    };
    ledger.store(live.clone()).unwrap();
    ledger.stop();
    let ledger = Ledger::open(state.path());
    let found = |function, key: &str| wait(ledger.opened.reader.keyed(name(function), key.into())).unwrap();
    assert_eq!(found("f", "k"), Some(keyed.id));
    assert_eq!((found("g", "k"), found("f", "other")), (None, None));
    let [restored] = ledger.opened.restored.unfinished.as_slice() else {
        panic!()
    };
    assert_eq!(
        (restored.accepted.priority, restored.accepted.key.as_deref()),
        (7, Some("live"))
    );
}

#[test]
fn filters_fit_and_pages_do_not_shift_while_new_ones_come() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for second in 1..=20 {
        let reason = if second % 5 == 0 { Reason::Exit(3) } else { Reason::Ok };
        over(&ledger, second, "f", reason);
    }
    let failed = InvocationFilter {
        state: Some(State::Failed),
        ..InvocationFilter::default()
    };
    assert_eq!(ledger.ids(failed.clone()), [20_000, 15_000, 10_000, 5_000]);
    let version = |hex: &str| {
        ledger
            .ids(InvocationFilter {
                version: Some(hex.to_owned()),
                ..InvocationFilter::default()
            })
            .len()
    };
    assert_eq!((version("0707"), version("08")), (20, 0));
    let text = |text: &str| {
        ledger
            .ids(InvocationFilter {
                text: Some(text.to_owned()),
                ..failed.clone()
            })
            .len()
    };
    assert_eq!((text("In Words"), text("%"), text("no")), (4, 0, 0));

    let mut seen = Vec::new();
    let mut after = None;
    for round in 0.. {
        let page = ledger.list(InvocationFilter {
            limit: Some(6),
            after,
            ..InvocationFilter::default()
        });
        seen.extend(page.records.iter().map(|record| record.id.0 >> 80));
        over(&ledger, 100 + round, "f", Reason::Ok);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected: Vec<u128> = (1..=20).rev().map(|second| second * 1000).collect();
    assert_eq!(seen, expected);
}

/// Fills the history of `f` directly: as many as these, each second one.
fn fill(db: &rusqlite::Connection, count: u64) {
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
        INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, started_ms, ended_ms, attempts, polls,
            reason, message, version, priority)
        SELECT unhex(printf('%012x00000000000000000000', i * 1000)), printf('f%d', i % 100), 'manual',
            iif(i % 1000 = 0, 'failed', 'succeeded'), i % 2, i * 1000, i * 1000 + 1, i * 1000 + 9, 1, 0,
            iif(i % 1000 = 0, 'exit-1', 'ok'), iif(i % 1000 = 0, 'no such host', ''), randomblob(32), 0 FROM n";
    db.execute(sql, [count]).unwrap();
    let sql = "INSERT INTO attempt (invocation, n, poll, started_ms, ended_ms, duration_us, reason, message, cpu_us,
            peak_of_largest, throttled_us, stdout_bytes, stderr_bytes, dropped_bytes)
        SELECT id, 1, 0, started_ms, ended_ms, 8000, reason, message, 5000, 0, 0, 10, 0, 0 FROM invocation";
    db.execute(sql, []).unwrap();
    let sql = "INSERT OR IGNORE INTO function (name) SELECT printf('f%d', value) FROM
        (WITH RECURSIVE n(value) AS (SELECT 0 UNION ALL SELECT value + 1 FROM n WHERE value < 99) SELECT value FROM n)";
    db.execute(sql, []).unwrap();
}

#[test]
fn a_page_checks_so_many_and_the_next_goes_on_from_there() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    let checked = CHECK_MAX as u64;
    fill(&db, checked * 2 + 10);
    let only_first = InvocationFilter {
        until_ms: Some(1001),
        ..InvocationFilter::default()
    };
    let mut pages = Vec::new();
    let mut after = None;
    loop {
        let page = crate::ledger::list::list(
            &db,
            &InvocationFilter {
                after,
                ..only_first.clone()
            },
        )
        .unwrap();
        pages.push(page.records.len());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [0, 0, 1]);
}

#[test]
fn no_question_steps_over_the_whole_history_or_sorts_it() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    let plan = |sql: &str, values: Vec<rusqlite::types::Value>| {
        let mut explained = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let rows = explained.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
        rows.unwrap().map(Result::unwrap).collect::<Vec<_>>().join("; ")
    };
    let function = Some(name("f"));
    let since_ms = Some(1);
    for (filter, index) in [
        (InvocationFilter::default(), "PRIMARY KEY"),
        (
            InvocationFilter {
                since_ms,
                ..InvocationFilter::default()
            },
            "PRIMARY KEY",
        ),
        (
            InvocationFilter {
                text: Some("x".to_owned()),
                ..InvocationFilter::default()
            },
            "PRIMARY KEY",
        ),
        (
            InvocationFilter {
                function: function.clone(),
                ..InvocationFilter::default()
            },
            "by_function",
        ),
        (
            InvocationFilter {
                state: Some(State::Failed),
                ..InvocationFilter::default()
            },
            "INDEX failed ",
        ),
        (
            InvocationFilter {
                state: Some(State::Interrupted),
                function: function.clone(),
                ..InvocationFilter::default()
            },
            "failed_of",
        ),
        (
            InvocationFilter {
                state: Some(State::Running),
                ..InvocationFilter::default()
            },
            "unfinished",
        ),
        (
            InvocationFilter {
                dead: true,
                function,
                ..InvocationFilter::default()
            },
            "INDEX dead ",
        ),
    ] {
        let statement = statement(&filter);
        let plan = plan(&statement.sql, statement.values);
        assert!(plan.starts_with("SEARCH") && plan.contains(index), "{filter:?}: {plan}");
        assert!(
            !plan.contains("SCAN") && !plan.contains("TEMP B-TREE"),
            "{filter:?}: {plan}"
        );
    }
    for scope in [Scope::All, Scope::Of(name("f"))] {
        let nothing = vec![rusqlite::types::Value::Null; 2 + usize::from(scope != Scope::All)];
        let plan = plan(&sql(&scope), nothing);
        assert!(
            !plan.contains("SCAN") && !plan.contains("TEMP B-TREE"),
            "{scope:?}: {plan}"
        );
    }
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
        .into(),
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
        .into(),
        ..forever()
    };
    sweep(&db, failed, false);
    let left = |which: &str| -> i64 {
        let sql = format!("SELECT count(*) FROM invocation WHERE function = 'f0' AND {which}");
        db.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    // The newest ten, one of which failed, and beside them the newest twenty that failed.
    assert_eq!((left("1"), left("state = 'failed'")), (29, 20));

    let size = || std::fs::metadata(&path).unwrap().len();
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
        Command::Store(Box::new(Accepted {
            durable: false,
            key: key.map(Into::into),
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
        .into(),
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

#[test]
fn a_ledger_of_the_schema_before_is_taken_over() {
    let state = directory();
    let path = state.path().join(FILE);
    let db = rusqlite::Connection::open(&path).unwrap();
    for step in &crate::ledger::schema::STEPS[..2] {
        db.execute_batch(step).unwrap();
    }
    db.execute_batch(
        "INSERT INTO meta VALUES ('schema', '2');
        INSERT INTO function (name, runs) VALUES ('f', 1);
        INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, attempts, polls, message, reason)
            VALUES (unhex('00000000003e80000000000000000000'), 'f', 'manual', 'failed', 1, 1, 1, 0, 'old', 'exit-1'),
                (unhex('00000000003e80000000000000000001'), 'f', 'manual', 'queued', 1, 1, 0, 0, '', NULL);
        INSERT INTO body VALUES (unhex('00000000003e80000000000000000001'), 'payload', x'31');",
    )
    .unwrap();
    drop(db);
    let ledger = Ledger::open(state.path());
    assert_eq!(ledger.opened.restored.unfinished.len(), 1);
    assert_eq!(dead(&ledger), [0_u128; 0]);
    let old = ledger.list(InvocationFilter::default()).records;
    assert_eq!(old.len(), 2);
    let stored = wait(ledger.opened.reader.stored_invocation(old[1].id))
        .unwrap()
        .unwrap();
    assert_eq!((stored.dead, stored.payload), (false, None));
    ledger.stop();
    let db = crate::ledger::schema::open(&path).unwrap();
    let can_shrink: i64 = db.query_row("PRAGMA auto_vacuum", [], |row| row.get(0)).unwrap();
    assert_eq!(can_shrink, 2);
}

#[test]
fn a_copy_has_everything_and_no_name() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    over(&ledger, 1, "f", Reason::Ok);
    let mut copy = crate::ledger::copy(state.path()).unwrap();
    let other = directory();
    let mut to = std::fs::File::create(other.path().join(FILE)).unwrap();
    std::io::copy(&mut copy, &mut to).unwrap();
    let names: Vec<_> = std::fs::read_dir(state.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        names
            .iter()
            .all(|name| name == "in-flight" || name.to_str().unwrap().starts_with("ledger.db")),
        "{names:?}"
    );
    let restored = Ledger::open(other.path());
    assert!(restored.get(id(1)).is_some());
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
    measure("all", InvocationFilter::default());
    measure(
        "a function",
        InvocationFilter {
            function: Some(name("f7")),
            ..InvocationFilter::default()
        },
    );
    measure(
        "what failed",
        InvocationFilter {
            state: Some(State::Failed),
            ..InvocationFilter::default()
        },
    );
    measure(
        "a text, rare",
        InvocationFilter {
            text: Some("nowhere".to_owned()),
            ..InvocationFilter::default()
        },
    );
    measure(
        "a reason of a function, rare",
        InvocationFilter {
            function: Some(name("f7")),
            reason: Some(Reason::Oom),
            ..InvocationFilter::default()
        },
    );
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
