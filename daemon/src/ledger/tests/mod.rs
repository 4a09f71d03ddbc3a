//! The ledger on real files.
//!
//! Files:
//! - `asynchronous`: dead letters, runs again, keys that last, lists of a large history, and what is forgotten
//! - `crash`: SIGKILL and a full disk, each in a process of its own
//! - `damage`: a damaged database is set aside, and nothing that waits is lost without a word
//! - `forgetting`: how quickly the history forgets, and that it lets a stop and new work through
//! - `in_flight`: attempts that had begun and were not stored when fnd was killed
//! - `model`: random work and restarts against a map
//! - `model_retention`: random work against a map, while history is forgotten and ledgers go without a word
//! - `present`: the database's files are deleted, replaced or truncated while it is open
//! - `unwritable`: a start on a disk without room

mod asynchronous;
mod crash;
mod damage;
mod forgetting;
mod in_flight;
mod model;
mod model_retention;
mod present;
mod unwritable;

use super::*;
use fnd_core::outcome::{Exhausted, Reason, State, Trigger};
use fnd_core::protocol::HttpRequest;
use fnd_core::record::{
    Accepted, AttemptRecord, InvocationFilter, InvocationRecord, Payload, Response, RunResult, Usage,
};
use fnd_wire::ids::{Attempt, FunctionName, Version, WorkerId};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

struct Ledger {
    opened: Opened,
    acknowledged: Receiver<Acknowledged>,
}

impl Ledger {
    fn open(state: &Path) -> Self {
        // Times of these tests are of 1970.
        Self::open_with(state, forever())
    }

    fn open_with(state: &Path, retention: Retention) -> Self {
        let (sender, acknowledged) = channel();
        // The receiver may be gone at the end.
        let acknowledge = move |event| {
            if !matches!(event, Acknowledged::Recorded(_) | Acknowledged::HealthChanged) {
                drop(sender.send(event));
            }
        };
        let opened = open(site(state), retention, &[], acknowledge).unwrap();
        Self { opened, acknowledged }
    }

    fn submit(&self, command: Command) {
        self.opened.writer.submit(command).unwrap();
    }

    /// Stores a durable invocation and waits for its acknowledgement.
    fn store(&self, accepted: Accepted) -> Result<(), Arc<str>> {
        let id = accepted.id;
        self.submit(Command::Store(Box::new(accepted)));
        match self.acknowledged.recv_timeout(LIMIT).unwrap() {
            Acknowledged::Stored { id: stored, result } if stored == id => result,
            other => panic!("{other:?}"),
        }
    }

    /// The attempt that runs by this record begins.
    fn begins(&self, record: &InvocationRecord) {
        self.opened.writer.begins(&Begun {
            invocation: record.id,
            attempt: Attempt(record.attempts),
            function: record.function.clone(),
            trigger: record.trigger.as_str().to_owned(),
            started_ms: 0,
        });
    }

    /// Claims the next attempt of a durable invocation and waits for its acknowledgement.
    fn claim(&self, record: InvocationRecord) -> Result<(), Arc<str>> {
        let id = record.id;
        self.submit(Command::Claim(Box::new(record)));
        match self.acknowledged.recv_timeout(LIMIT).unwrap() {
            Acknowledged::Claimed { ids, result } if ids == [id] => result,
            other => panic!("{other:?}"),
        }
    }

    fn list(&self, filter: InvocationFilter) -> Page {
        wait(self.opened.reader.list(filter)).unwrap()
    }

    fn ids(&self, filter: InvocationFilter) -> Vec<u128> {
        self.list(filter)
            .records
            .iter()
            .map(|record| record.id.0 >> 80)
            .collect()
    }

    fn get(&self, id: InvocationId) -> Option<(InvocationRecord, Vec<AttemptRecord>)> {
        let whole = wait(self.opened.reader.get(id)).unwrap();
        whole.map(|whole| (whole.record, whole.attempts))
    }

    fn stop(self) {
        self.opened.writer.stop();
    }
}

/// Opens a second ledger on what a killed fnd would leave now: the first goes on, so its last words must not count.
fn killed(state: &Path) -> (tempfile::TempDir, Ledger) {
    killed_with(state, forever())
}

fn killed_with(state: &Path, retention: Retention) -> (tempfile::TempDir, Ledger) {
    let copy = copy_of(state);
    let ledger = Ledger::open_with(copy.path(), retention);
    (copy, ledger)
}

/// Returns a state directory as a kill would leave it now.
fn copy_of(state: &Path) -> tempfile::TempDir {
    let copy = directory();
    let mut names: Vec<_> = std::fs::read_dir(state)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    // A kill is one moment, and this is several: the writer waits meanwhile.
    let database = crate::ledger::schema::open(&state.join(FILE)).unwrap();
    database.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The table is copied last: a record that is forgotten meanwhile was removed from the table before.
    names.sort_by_key(|name| name == "in-flight");
    for name in names {
        std::fs::copy(state.join(&name), copy.path().join(name)).unwrap();
    }
    drop(database);
    copy
}

fn forever() -> Retention {
    Retention {
        others: KeepOf {
            keep_for: Duration::MAX,
            ..KeepOf::default()
        },
        keep_for: Duration::MAX,
        ..Retention::default()
    }
}

/// Everything in one directory, so that it is copied as one.
fn site(state: &Path) -> Site<'_> {
    Site {
        state,
        run: state,
        on_damage: OnDamage::Refuse,
    }
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, future).await.expect("within the limit") })
}

/// Returns a directory where a synced write is quick, if there is one with room for all tests: a container's has 64 MiB.
fn directory() -> tempfile::TempDir {
    const ROOM: u64 = 1 << 30;
    let memory = Path::new("/dev/shm");
    let has_room = rustix::fs::statvfs(memory).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= ROOM);
    let quick = has_room.then(|| tempfile::tempdir_in(memory).ok()).flatten();
    quick.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

fn name(text: &str) -> FunctionName {
    FunctionName::new(text).unwrap()
}

/// Returns the id of a second.
fn id(second: u64) -> InvocationId {
    InvocationId(u128::from(second * 1000) << 80)
}

fn accepted(second: u64, function: &str) -> Accepted {
    Accepted {
        id: id(second),
        function: name(function),
        trigger: Trigger::Manual,
        accepted_ms: second * 1000,
        payload: Payload {
            data: Some(b"{}".into()),
            content_type: Some("application/json".to_owned()),
            context: Some("{\"a\":1}".into()),
            trace: None,
            request: Some(Arc::new(HttpRequest {
                method: "POST".to_owned(),
                path: "/".to_owned(),
                query: String::new(),
                headers: vec![("event-type".to_owned(), "order \"é\"".to_owned())],
            })),
        },
        durable: true,
        load_key: None,
        timeout_ms: Some(5),
        not_before_ms: None,
        expires_ms: Some(u64::MAX),
        deadline_ms: Some(7),
        priority: 0,
        key: None,
        origin: None,
    }
}

fn record(accepted: &Accepted, state: State) -> InvocationRecord {
    InvocationRecord {
        id: accepted.id,
        function: accepted.function.clone(),
        trigger: accepted.trigger,
        durable: accepted.durable,
        state,
        accepted_ms: accepted.accepted_ms,
        started_ms: None,
        ended_ms: None,
        attempts: 0,
        polls: 0,
        reason: None,
        message: String::new(),
        exhausted: None,
        next_attempt_ms: None,
        version: None,
        result: None,
    }
}

fn ended(accepted: &Accepted, reason: Reason, result: Option<&[u8]>) -> (AttemptRecord, InvocationRecord) {
    let record = InvocationRecord {
        state: reason.final_state(),
        started_ms: Some(accepted.accepted_ms + 1),
        ended_ms: Some(accepted.accepted_ms + 2),
        attempts: 1,
        reason: Some(reason),
        message: "in words".to_owned(),
        exhausted: Some(Exhausted::Retries),
        version: Some(Version([7; 32])),
        result: result.map(|data| RunResult {
            json: false,
            data: data.into(),
            response: Some(Arc::new(chosen())),
        }),
        ..record(accepted, State::Running)
    };
    (attempt(accepted, 1, reason), record)
}

fn chosen() -> Response {
    Response {
        content_type: Some("text/csv".to_owned()),
        status: Some(201),
        headers: vec![("x-name".to_owned(), "value".to_owned())],
    }
}

fn attempt(accepted: &Accepted, number: u32, reason: Reason) -> AttemptRecord {
    AttemptRecord {
        invocation: accepted.id,
        function: accepted.function.clone(),
        attempt: Attempt(number),
        poll: 0,
        worker: Some(WorkerId(9)),
        cold: Some(number == 1),
        version: Some(Version([7; 32])),
        started_ms: accepted.accepted_ms + 1,
        ended_ms: accepted.accepted_ms + 2,
        duration_us: 1234,
        reason,
        message: "in words".to_owned(),
        exit_code: Some(0),
        signal: None,
        usage: Usage {
            cpu_us: 1,
            memory_peak_bytes: Some(2),
            peak_of_largest: true,
            dropped_bytes: 3,
            scope_worker: true,
            ..Usage::default()
        },
        next_attempt_ms: None,
    }
}

fn end(ledger: &Ledger, accepted: &Accepted, reason: Reason, result: Option<&[u8]>) {
    let (attempt, record) = ended(accepted, reason, result);
    ledger.submit(Command::Record(Box::new(attempt), Box::new(record)));
}

#[test]
fn what_is_stored_is_there_after_a_restart() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    assert!(ledger.opened.restored.unfinished.is_empty() && ledger.opened.last_id.is_none());
    let load = Accepted {
        load_key: Some(Version([1; 32])),
        trigger: Trigger::Load,
        ..accepted(1, "hello")
    };
    ledger.store(load.clone()).unwrap();
    let waiting = accepted(2, "ops/backup");
    ledger.store(waiting.clone()).unwrap();
    end(&ledger, &load, Reason::Exit(3), Some(b"\xffresult"));
    ledger.submit(Command::StoreEnabled {
        function: name("other"),
        enabled: false,
    });
    assert_eq!(
        ledger.ids(InvocationFilter::default()),
        [2000, 1000],
        "what was submitted before the question is in the answer"
    );
    ledger.stop();

    let ledger = Ledger::open(state.path());
    let restored = &ledger.opened.restored;
    assert_eq!(restored.loaded, [(name("hello"), Version([1; 32]))]);
    assert_eq!(restored.disabled, [name("other")]);
    assert_eq!(restored.counts, [(name("hello"), 1, 1), (name("other"), 0, 0)]);
    assert_eq!(restored.unfinished.len(), 1);
    // Beyond what SQLite can hold means never, as before.
    let expected = Accepted {
        expires_ms: Some(i64::MAX as u64),
        ..waiting.clone()
    };
    assert_eq!(restored.unfinished[0].accepted, expected);
    assert_eq!(restored.unfinished[0].record, record(&waiting, State::Queued));
    assert_eq!(ledger.opened.last_id, Some(id(2)));
    let (attempt, record) = ended(&load, Reason::Exit(3), Some(b"\xffresult"));
    assert_eq!(
        ledger.opened.last_runs,
        [LastRun {
            attempt: attempt.clone(),
            record: record.clone()
        }]
    );
    assert_eq!(ledger.get(load.id), Some((record, vec![attempt])));
    assert_eq!(ledger.get(id(9)), None);
}

#[test]
fn results_of_any_size_come_back() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let result = |id| wait(ledger.opened.reader.result(id)).unwrap();
    for (second, size) in [(1, 0), (2, 64 << 10), (3, (64 << 10) + 1), (4, 6 << 20)] {
        let accepted = accepted(second, "hello");
        ledger.store(accepted.clone()).unwrap();
        assert_eq!(result(accepted.id), ResultOf::Unfinished(State::Queued));
        let data = vec![b'x'; size];
        end(&ledger, &accepted, Reason::Ok, Some(&data));
        assert_eq!(
            result(accepted.id),
            ResultOf::Ended(Some(RunResult {
                json: false,
                data: data.into(),
                response: Some(Arc::new(chosen())),
            }))
        );
    }
    let none = accepted(5, "hello");
    ledger.store(none.clone()).unwrap();
    end(&ledger, &none, Reason::Ok, None);
    assert_eq!(
        (result(none.id), result(id(9))),
        (ResultOf::Ended(None), ResultOf::Unknown)
    );
}

#[test]
fn lists_are_filtered_and_paged() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for second in 1..=9_u64 {
        let accepted = Accepted {
            durable: false,
            ..accepted(second * 1000, if second % 2 == 0 { "even" } else { "odd" })
        };
        ledger.submit(Command::Store(Box::new(accepted.clone())));
        if second > 2 {
            end(
                &ledger,
                &accepted,
                if second == 5 { Reason::Timeout } else { Reason::Ok },
                None,
            );
        }
    }
    let all = InvocationFilter::default();
    let check = |filter: InvocationFilter, expected: &[u128]| {
        let found: Vec<u128> = ledger.ids(filter).iter().map(|ms| ms / 1_000_000).collect();
        assert_eq!(found, expected);
    };
    check(
        InvocationFilter {
            function: Some(name("even")),
            ..all.clone()
        },
        &[8, 6, 4, 2],
    );
    check(
        InvocationFilter {
            state: Some(State::Queued),
            ..all.clone()
        },
        &[2, 1],
    );
    check(
        InvocationFilter {
            reason: Some(Reason::Timeout),
            ..all.clone()
        },
        &[5],
    );
    check(
        InvocationFilter {
            trigger: Some(Trigger::Load),
            ..all.clone()
        },
        &[],
    );
    check(
        InvocationFilter {
            since_ms: Some(3_000_000),
            until_ms: Some(5_000_000),
            ..all.clone()
        },
        &[4, 3],
    );
    let page = ledger.list(InvocationFilter {
        limit: Some(4),
        ..all.clone()
    });
    assert_eq!(page.next, Some(id(6000)));
    // New ones do not shift the pages.
    ledger.store(accepted(20_000, "odd")).unwrap();
    check(
        InvocationFilter {
            limit: Some(4),
            after: page.next,
            ..all.clone()
        },
        &[5, 4, 3, 2],
    );
    let last = ledger.list(InvocationFilter {
        limit: Some(4),
        after: Some(id(2000)),
        ..all
    });
    assert_eq!((last.records.len(), last.next), (1, None));
}

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
        ledger.submit(Command::Store(Box::new(accepted.clone())));
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
        ledger
            .ids(InvocationFilter {
                function: Some(name(function)),
                limit: Some(1000),
                ..InvocationFilter::default()
            })
            .len()
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

#[test]
fn a_database_of_the_first_schema_is_migrated_to_this_one() {
    let state = directory();
    let file = state.path().join(FILE);
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute_batch(schema::STEPS[0]).unwrap();
    db.execute_batch(
        "INSERT INTO meta VALUES ('schema', '1');
        INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, attempts, polls, message, reason,
                ended_ms, result_json, result)
            VALUES (x'00000000000000000000000000000001', 'hello', 'manual', 'succeeded', 1, 1, 1, 0, 'm', 'ok', 2, 1, x'7b7d'),
                (x'00000000000000000000000000000002', 'hello', 'manual', 'queued', 1, 1, 0, 0, '', NULL, NULL, NULL, NULL);
        INSERT INTO attempt VALUES (x'00000000000000000000000000000001', 1, 0, 7, NULL, 1, 2, 3, 'ok', 'm', 0, NULL, 4, 5,
            0, 6, 7, 8, 9, NULL);",
    )
    .unwrap();
    drop(db);
    for _ in 0..2 {
        let ledger = Ledger::open(state.path());
        let (record, attempts) = ledger.get(InvocationId(1)).unwrap();
        let result = record.result.unwrap();
        assert_eq!((result.json, &*result.data, result.response), (true, &b"{}"[..], None));
        assert_eq!((attempts[0].cold, attempts[0].usage.scope_worker), (None, false));
        assert_eq!((attempts[0].usage.cpu_us, attempts[0].usage.dropped_bytes), (4, 9));
        assert_eq!(ledger.opened.restored.unfinished[0].accepted.payload.request, None);
        ledger.stop();
    }
    let db = rusqlite::Connection::open(&file).unwrap();
    let version = db.query_row("SELECT value FROM meta WHERE key = 'schema'", [], |row| {
        row.get::<_, String>(0)
    });
    assert_eq!(version.unwrap(), schema::VERSION.to_string());
}

#[test]
fn calls_that_are_over_within_a_batch_leave_their_ends_and_counts() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let large = vec![b'x'; rows::INLINE_MAX + 1];
    let call = |second| Accepted {
        durable: false,
        ..accepted(second, "hello")
    };
    let begin = |call: &Accepted| ledger.submit(Command::Store(Box::new(call.clone())));
    for (second, reason, result) in [
        (1, Reason::Ok, None),
        (2, Reason::Failed, Some(&b"why"[..])),
        (3, Reason::Ok, Some(&large[..])),
    ] {
        begin(&call(second));
        end(&ledger, &call(second), reason, result);
    }
    // The result of the first attempt is gone after the second attempt, which had none.
    let again = call(4);
    begin(&again);
    let (first, mut unended) = ended(&again, Reason::ExecuteAgain, Some(&large));
    unended.state = State::Polling;
    ledger.submit(Command::Record(Box::new(first), Box::new(unended)));
    let (_, mut last) = ended(&again, Reason::Ok, None);
    last.attempts = 2;
    ledger.submit(Command::Record(
        Box::new(attempt(&again, 2, Reason::Ok)),
        Box::new(last),
    ));
    assert_eq!(ledger.ids(InvocationFilter::default()), [4000, 3000, 2000, 1000]);
    assert_eq!(ledger.get(again.id).unwrap().1.len(), 2);
    let result = wait(ledger.opened.reader.result(call(3).id)).unwrap();
    assert!(matches!(result, ResultOf::Ended(Some(result)) if *result.data == *large));
    ledger.stop();
    let db = rusqlite::Connection::open(state.path().join(FILE)).unwrap();
    let counts = db.query_row("SELECT runs, failures, last_attempt FROM function", [], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    });
    // To ask to be run again is no success.
    assert_eq!(counts.unwrap(), (5, 2, 2));
    let bodies = db.query_row("SELECT count(*), max(kind) FROM body", [], |row| {
        Ok((row.get(0)?, row.get(1)?))
    });
    // The other is the payload of the one that failed, to run it again.
    assert_eq!(bodies.unwrap(), (2, "result".to_owned()));
}

#[test]
fn a_copy_that_a_kill_left_behind_is_removed() {
    let state = directory();
    Ledger::open(state.path()).stop();
    for name in ["backup-17.db", "backup-17.db-journal"] {
        std::fs::write(state.path().join(name), "half a copy").unwrap();
    }
    Ledger::open(state.path()).stop();
    let left = std::fs::read_dir(state.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        left.into_iter()
            .all(|name| !name.to_string_lossy().starts_with("backup"))
    );
}

#[test]
fn the_request_is_kept_where_the_payload_is() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    let queued = accepted(1, "hello");
    ledger.store(queued.clone()).unwrap();
    end(&ledger, &queued, Reason::Ok, None);
    let called = Accepted {
        durable: false,
        ..accepted(2, "hello")
    };
    ledger.submit(Command::Store(Box::new(called.clone())));
    ledger.opened.writer.flush(LIMIT);
    end(&ledger, &called, Reason::Ok, None);
    ledger.stop();
    let db = rusqlite::Connection::open(state.path().join(FILE)).unwrap();
    let kept = db.query_row("SELECT group_concat(request IS NOT NULL) FROM invocation", [], |row| {
        row.get::<_, String>(0)
    });
    assert_eq!(kept.unwrap(), "1,0");
}

#[test]
fn a_newer_schema_is_refused_untouched() {
    let state = directory();
    Ledger::open(state.path()).stop();
    let file = state.path().join(FILE);
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute("UPDATE meta SET value = '99'", []).unwrap();
    drop(db);
    let before = std::fs::read(&file).unwrap();
    let error = open(site(state.path()), Retention::default(), &[], |_| {})
        .err()
        .unwrap();
    assert!(
        matches!(&error, OpenError::Newer { found, .. } if found == "99"),
        "{error}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn a_damaged_database_is_refused_untouched_and_never_read_as_empty() {
    let state = directory();
    let ledger = Ledger::open(state.path());
    for second in 1..200 {
        let accepted = Accepted {
            durable: false,
            ..accepted(second, "hello")
        };
        ledger.submit(Command::Store(Box::new(accepted)));
    }
    ledger.stop();
    drop(std::fs::remove_file(state.path().join("ledger.db-wal")));
    let file = state.path().join(FILE);
    let whole = std::fs::read(&file).unwrap();
    for damage in [
        &|bytes: &mut Vec<u8>| bytes[0] = b'X',
        &|bytes: &mut Vec<u8>| bytes[4096..6000].fill(0x5a),
        &|bytes: &mut Vec<u8>| bytes.truncate(5000),
    ] as [&dyn Fn(&mut Vec<u8>); 3]
    {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        std::fs::write(&file, &bytes).unwrap();
        let error = open(site(state.path()), Retention::default(), &[], |_| {})
            .err()
            .unwrap();
        assert!(matches!(error, OpenError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("fndctl verify --repair"), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
}

#[test]
fn a_state_directory_is_held_by_one() {
    let state = directory();
    let held = lock_state(state.path()).unwrap();
    assert!(matches!(lock_state(state.path()), Err(LockError::Held(_))));
    drop(held);
    drop(lock_state(state.path()).unwrap());
    assert!(matches!(
        lock_state(&state.path().join("absent")),
        Err(LockError::Io { .. })
    ));
}

#[test]
fn the_ledger_reports_which_held_attempts_have_ended_and_when_ends_are_on_disk() {
    let state = directory();
    let (sender, acknowledged) = channel();
    let opened = open(site(state.path()), forever(), &[], move |event| {
        drop(sender.send(event));
    })
    .unwrap();
    let [running, over, never] = [1, 2, 3].map(|second| Accepted {
        durable: false,
        ..accepted(second, "f")
    });
    for accepted in [&running, &over] {
        opened
            .writer
            .submit(Command::Store(Box::new(accepted.clone())))
            .unwrap();
    }
    let (attempt, record) = ended(&over, Reason::Ok, None);
    // An attempt of a script: the worker of a call goes on, and fnd does not wait to forget it.
    let attempt = AttemptRecord { cold: None, ..attempt };
    let worker = attempt.worker.expect("it was started");
    opened
        .writer
        .submit(Command::Record(Box::new(attempt), Box::new(record)))
        .unwrap();
    match acknowledged.recv_timeout(LIMIT).unwrap() {
        Acknowledged::Recorded(workers) => assert_eq!(workers, [worker]),
        other => panic!("{other:?}"),
    }
    // Its second attempt has begun, and the end of the first is not stored.
    opened.writer.begins(&Begun {
        invocation: running.id,
        attempt: Attempt(2),
        function: running.function.clone(),
        trigger: running.trigger.as_str().to_owned(),
        started_ms: 0,
    });
    opened.writer.stop();
    let held_attempts = [(running.id, 1), (over.id, 1), (never.id, 1)];
    let opened = open(site(state.path()), forever(), &held_attempts, |_| {}).unwrap();
    assert_eq!(opened.restored.ended, [(over.id, 1)].into());
    assert_eq!(opened.restored.unfinished[0].record.attempts, 2);
    opened.writer.stop();
}
