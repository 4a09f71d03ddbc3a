//! How quickly the history forgets, and that it lets a stop and new work through.

use super::*;
use crate::ledger::sweeper::Sweeper;
use fnd_core::run::Now;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bounds `keep` of every function and nothing else.
fn keep(keep: u32) -> Retention {
    Retention {
        others: KeepOf {
            keep,
            ..forever().others
        },
        ..forever()
    }
}

/// Fills the history as calls do that come without a pause: ten in a millisecond, in turn to so many functions.
fn fill(db: &rusqlite::Connection, count: u64, functions: u64) {
    let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
        INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, started_ms, ended_ms, attempts, polls,
            reason, message, version, result_json, result, response)
        SELECT unhex(printf('%012x7%019x', i / 10, i)), printf('f%d', i % ?2), 'manual',
            'succeeded', 0, i / 10, i / 10, i / 10, 1, 0, 'ok', '', randomblob(32), 1, x'7b2268656c6c6f223a22416461227d', NULL FROM n";
    db.execute(sql, [count, functions]).unwrap();
    let sql =
        "INSERT INTO attempt (invocation, n, poll, worker, version, started_ms, ended_ms, duration_us, reason, message,
            cpu_us, peak_of_largest, throttled_us, stdout_bytes, stderr_bytes, dropped_bytes, cold)
        SELECT id, 1, 0, 7, version, started_ms, ended_ms, 80, reason, message, 50, 0, 0, 10, 0, 0, 0 FROM invocation";
    db.execute(sql, []).unwrap();
}

/// Returns a clock that stands still.
pub(super) fn stopped(unix_ms: u64) -> crate::ledger::sweeper::SweepClock {
    set(&Arc::new(AtomicU64::new(unix_ms)))
}

/// Returns a clock that a test sets; both of its times go together.
fn set(unix_ms: &Arc<AtomicU64>) -> crate::ledger::sweeper::SweepClock {
    set_both(unix_ms, unix_ms)
}

/// Returns a clock that a test sets, in milliseconds.
pub(super) fn set_both(unix_ms: &Arc<AtomicU64>, mono_ms: &Arc<AtomicU64>) -> crate::ledger::sweeper::SweepClock {
    let (unix_ms, mono_ms) = (Arc::clone(unix_ms), Arc::clone(mono_ms));
    Box::new(move || Now {
        unix_ms: unix_ms.load(Ordering::Relaxed),
        mono: Duration::from_millis(mono_ms.load(Ordering::Relaxed)),
    })
}

/// Forgets until there is nothing to forget. Returns what is left.
pub(super) fn forget_all(db: &rusqlite::Connection, sweeper: &mut Sweeper, low: bool) -> u64 {
    let mut steps = 0;
    while sweeper.step(db, low) {
        steps += 1;
        assert!(steps < 100_000, "it comes to an end");
    }
    count(db, "1")
}

fn count(db: &rusqlite::Connection, which: &str) -> u64 {
    let sql = format!("SELECT count(*) FROM invocation WHERE {which}");
    db.query_row(&sql, [], |row| row.get(0)).unwrap()
}

const DAY: u64 = 86_400_000;
/// Now, in tests with a clock of their own.
const NOW: u64 = 20_000 * DAY;

/// Stores so many ended invocations of a function, from one time on to another. Returns the statement's condition for them.
fn history(db: &rusqlite::Connection, function: &str, count: u64, from: u64, until: u64) -> String {
    let sql = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
        INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, ended_ms, attempts, polls, reason, message)
        SELECT unhex(printf('%012x7%019x', ?2 + i * ?3, i)), ?4, 'manual', 'succeeded', 1, ?2 + i * ?3, ?2 + i * ?3, 1, 0,
            'ok', '' FROM n";
    db.execute(sql, rusqlite::params![count, from, (until - from) / count, function])
        .unwrap();
    format!("function = '{function}'")
}

/// Makes the newest invocation of a function its last run; returns it.
fn newest_is_last(db: &rusqlite::Connection, function: &str) -> InvocationId {
    let sql = "INSERT OR REPLACE INTO function (name, last_invocation, last_attempt)
        SELECT function, max(id), 1 FROM invocation WHERE function = ?1 RETURNING last_invocation";
    let id: [u8; 16] = db.query_row(sql, [function], |row| row.get(0)).unwrap();
    InvocationId(u128::from_be_bytes(id))
}

#[test]
fn the_last_run_of_a_function_goes_when_there_is_a_newer_one() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    let others = KeepOf {
        keep_for: Duration::from_secs(120),
        ..forever().others
    };
    let retention = Retention { others, ..forever() };
    let first = history(&db, "f", 1, NOW, NOW + 1);
    let old = newest_is_last(&db, "f");
    let unix_ms = Arc::new(AtomicU64::new(NOW + 1));
    let mut sweeper = Sweeper::with_clock(&db, retention, set(&unix_ms)).unwrap();
    assert_eq!(forget_all(&db, &mut sweeper, false), 1);
    unix_ms.store(NOW + 200_000, Ordering::Relaxed);
    assert_eq!(forget_all(&db, &mut sweeper, false), 1, "its status shows it");
    history(&db, "f", 1, NOW + 201_000, NOW + 201_001);
    let new = newest_is_last(&db, "f");
    sweeper.ended(&name("f"), new);
    unix_ms.store(NOW + 203_000, Ordering::Relaxed);
    assert_eq!(forget_all(&db, &mut sweeper, false), 1);
    let left: Vec<u8> = db
        .query_row(&format!("SELECT id FROM invocation WHERE {first}"), [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!((left, old < new), (new.0.to_be_bytes().to_vec(), true));
}

#[test]
fn for_room_nothing_recent_goes_of_a_small_history_and_what_goes_is_counted() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    let recent = history(&db, "recent", 300, NOW - 6 * DAY, NOW);
    let dead = history(&db, "dead", 30, NOW - 25 * DAY, NOW - DAY);
    db.execute(
        &format!("UPDATE invocation SET state = 'failed', dead = 1 WHERE {dead}"),
        [],
    )
    .unwrap();
    let old = history(&db, "old", 20, NOW - 20 * DAY, NOW - 8 * DAY);
    let mut sweeper = Sweeper::with_clock(&db, Retention::default(), stopped(NOW)).unwrap();
    assert_eq!(forget_all(&db, &mut sweeper, false), 350);
    forget_all(&db, &mut sweeper, true);
    assert_eq!((count(&db, &recent), count(&db, &dead), count(&db, &old)), (300, 30, 0));
    assert_eq!(sweeper.forgetting.for_room, 20);
    assert_eq!(sweeper.figures(&db).unwrap().forgotten, 0);
}

#[test]
fn for_room_a_large_history_gives_its_oldest_but_dead_letters_and_fresh_keys() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    let dead = history(&db, "dead", 3, NOW - 6 * DAY, NOW - 5 * DAY);
    let keyed = history(&db, "keyed", 2, NOW - DAY + 1000, NOW - DAY + 3000);
    let stale = history(&db, "stale", 2, NOW - 4 * DAY, NOW - 3 * DAY);
    let plain = history(&db, "plain", 80, NOW - 2 * DAY, NOW);
    db.execute(
        &format!("UPDATE invocation SET state = 'failed', dead = 1 WHERE {dead}"),
        [],
    )
    .unwrap();
    let keys = format!("UPDATE invocation SET key = hex(id) WHERE {keyed} OR {stale}");
    db.execute(&keys, []).unwrap();
    let bodies = format!(
        "INSERT INTO body (invocation, kind, data) SELECT id, 'result', zeroblob(1048576) FROM invocation WHERE {plain}"
    );
    db.execute(&bodies, []).unwrap();
    let mut sweeper = Sweeper::with_clock(&db, Retention::default(), stopped(NOW)).unwrap();
    forget_all(&db, &mut sweeper, true);
    assert_eq!((count(&db, &dead), count(&db, &keyed), count(&db, &stale)), (3, 2, 0));
    let left = count(&db, &plain);
    assert!((50..80).contains(&left), "no more than it takes: {left}");
    assert_eq!(sweeper.forgetting.for_room, 2 + 80 - left);
}

#[test]
fn a_clock_that_is_far_ahead_forgets_nothing_for_its_age_until_it_has_been_so_for_a_day() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    history(&db, "f", 50, NOW - 20 * DAY, NOW);
    let clock = Arc::new(AtomicU64::new(NOW + 40 * DAY));
    let begin = || Sweeper::with_clock(&db, Retention::default(), set(&clock)).unwrap();
    let mut sweeper = begin();
    assert_eq!(forget_all(&db, &mut sweeper, false), 50);
    assert_eq!(
        forget_all(&db, &mut sweeper, true),
        18,
        "for room what is old without it"
    );
    let newest = sweeper.forgetting.clock_ahead_of.expect("it is told");
    assert!((NOW - DAY..NOW).contains(&newest));
    // Records made at that time are no evidence that the clock is right, and a restart changes nothing.
    history(&db, "g", 1, NOW + 40 * DAY, NOW + 40 * DAY + 1);
    let mut sweeper = begin();
    for _ in 0..23 {
        clock.fetch_add(3_600_000, Ordering::Relaxed);
        assert_eq!(forget_all(&db, &mut sweeper, false), 19);
    }
    clock.fetch_add(3_600_000, Ordering::Relaxed);
    assert_eq!(forget_all(&db, &mut sweeper, false), 1);
    assert_eq!(
        sweeper.forgetting,
        Forgetting {
            for_room: 0,
            clock_ahead_of: None
        }
    );
}

#[test]
fn what_is_kept_for_minutes_is_checked_when_it_is_due() {
    const MINUTES: u64 = 5;
    let short = Duration::from_secs(MINUTES * 60);
    let of_function = Retention {
        functions: [(
            name("f"),
            KeepOf {
                keep_for: short,
                ..KeepOf::default()
            },
        )]
        .into_iter()
        .collect(),
        ..Retention::default()
    };
    let of_all = Retention {
        keep_for: short,
        ..Retention::default()
    };
    for retention in [of_function, of_all] {
        let state = directory();
        let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
        history(&db, "f", 100, NOW - 60_000, NOW);
        let clock = Arc::new(AtomicU64::new(NOW));
        let mut sweeper = Sweeper::with_clock(&db, retention, set(&clock)).unwrap();
        let mut lasted = forget_all(&db, &mut sweeper, false);
        assert_eq!(lasted, 100);
        while lasted > 0 {
            let pause = u64::try_from(sweeper.pause().as_millis()).unwrap();
            let now = clock.fetch_add(pause, Ordering::Relaxed) + pause;
            assert!(
                now <= NOW + MINUTES * 66_000 + 1000,
                "{lasted} are there after {} ms",
                now - NOW
            );
            lasted = forget_all(&db, &mut sweeper, false);
        }
        // Another one, of which nothing is known before it ends.
        let now = clock.load(Ordering::Relaxed);
        history(&db, "f", 1, now, now + 1);
        sweeper.ended(&name("f"), InvocationId(u128::from(now) << 80));
        if sweeper.pause() < Duration::from_secs(3600) {
            clock.fetch_add(u64::try_from(sweeper.pause().as_millis()).unwrap(), Ordering::Relaxed);
            assert_eq!(forget_all(&db, &mut sweeper, false), 0);
        } else {
            panic!("it is looked at by the hour");
        }
    }
}

#[test]
fn a_stop_ends_forgetting_within_a_step() {
    let state = directory();
    let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
    let all = 60_000;
    fill(&db, all, 1);
    let ledger = Ledger::open_with(state.path(), keep(10));
    ledger.submit(LedgerCommand::DiscardDeadLetter(id(1)));
    let begun = crate::clock::monotonic();
    while count(&db, "1") == all {
        assert!(begun.elapsed() < LIMIT, "it forgets");
    }
    ledger.stop();
    assert!(count(&db, "1") > all / 2, "{} are left", count(&db, "1"));
}

/// CPU time of this thread.
fn cpu() -> Duration {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap()
}

/// `cargo nextest run -p fnd forgetting_costs --run-ignored only --no-capture`
#[test]
#[ignore = "a measurement"]
fn forgetting_costs() {
    for functions in [1, 10, 1000] {
        let state = directory();
        let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
        db.pragma_update(None, "synchronous", "normal").unwrap();
        let rows = 200_000;
        fill(&db, rows, functions);
        let mut sweeper = Sweeper::new(&db, keep(10)).unwrap();
        let (begun, used, mut steps, mut longest) = (crate::clock::monotonic(), cpu(), 0_u32, Duration::ZERO);
        loop {
            let begun = crate::clock::monotonic();
            let more = sweeper.step(&db, false);
            longest = longest.max(begun.elapsed());
            if !more {
                break;
            }
            steps += 1;
        }
        let (took, used) = (begun.elapsed(), cpu() - used);
        let left: u64 = db
            .query_row("SELECT count(*) FROM invocation", [], |row| row.get(0))
            .unwrap();
        let gone = u32::try_from(rows - left).unwrap();
        println!(
            "{functions} functions: {gone} forgotten in {took:?}, {steps} steps, CPU of each {:?}, longest step {longest:?}",
            used / gone
        );
    }
}

/// CPU time of the thread that writes the ledger.
fn cpu_of_writer() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .map(|task| task.unwrap().path());
    let of = |task: std::path::PathBuf| -> Option<u64> {
        let name = std::fs::read_to_string(task.join("comm")).ok()?;
        let used = std::fs::read_to_string(task.join("schedstat")).ok()?;
        (name.trim() == "ledger").then(|| used.split(' ').next().unwrap().parse().unwrap())
    };
    Duration::from_nanos(tasks.filter_map(of).sum())
}

/// `cargo nextest run -p fnd forgetting_keeps_up --run-ignored only --no-capture`: calls at 10,000 a second.
#[test]
#[ignore = "a measurement"]
fn forgetting_keeps_up() {
    const SECONDS: u32 = 8;
    let functions = std::env::var("FND_FUNCTIONS").map_or(vec![1, 10, 100], |one| vec![one.parse().unwrap()]);
    for functions in functions {
        for retention in [keep(u32::MAX), keep(1000)] {
            let state = directory();
            let ledger = Ledger::open_with(state.path(), retention);
            let mut ids = crate::clock::Ids::after(None);
            let begun = crate::clock::monotonic();
            let (used, mut waited) = (cpu_of_writer(), 0);
            for number in 0..SECONDS * 10_000 {
                let due = Duration::from_micros(100) * number;
                if let Some(early) = due.checked_sub(begun.elapsed()) {
                    #[expect(clippy::disallowed_methods, reason = "the pace of the load")]
                    std::thread::sleep(early);
                }
                let accepted = Accepted {
                    id: ids.next(crate::clock::unix_ms()),
                    durable: false,
                    ..accepted(u64::from(number), &format!("f{}", number % functions))
                };
                let (attempt, record) = ended(&accepted, Reason::Ok, Some(b"{}"));
                let both = [
                    LedgerCommand::Store(Box::new(accepted)),
                    LedgerCommand::Record(Box::new(attempt), Box::new(record)),
                ];
                for command in both {
                    let mut refused = ledger.opened.writer.submit(command).err();
                    while let Some(command) = refused {
                        ledger.opened.writer.flush(LIMIT);
                        waited += 1;
                        refused = ledger.opened.writer.submit(command).err();
                    }
                }
            }
            let (took, used) = (begun.elapsed(), cpu_of_writer() - used);
            ledger.opened.writer.flush(LIMIT);
            ledger.stop();
            let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
            println!(
                "{functions} functions: {took:?}, the ledger used {used:?}, its queue was full {waited} times, {} records are there",
                count(&db, "1")
            );
        }
    }
}
