//! The ledger on real files.
//!
//! Files:
//! - `asynchronous`: dead letters, runs again, and keys that last
//! - `crash`: SIGKILL and a full disk, each in a process of its own
//! - `damage`: a damaged database is set aside, and nothing that waits is lost without a word
//! - `events`: the shares of events
//! - `files`: which contents of watched files are handled
//! - `forgetting`: how quickly the history forgets, and that it lets a stop and new work through
//! - `in_flight`: attempts that had begun and were not stored when fnd was killed
//! - `lists`: lists of a large history
//! - `messages`: messages of NATS, with their invocations
//! - `log`: a log that is damaged or gone after a kill
//! - `migration`: a ledger of release 0.1.0
//! - `model`: random work and restarts against a map
//! - `model_retention`: random work against a map, while history is forgotten and ledgers go without a word
//! - `opening`: ledgers of other schemas, damaged ones, ones that another fnd holds, and copies
//! - `present`: the database's files are deleted, replaced or truncated while it is open
//! - `records`: what is stored is there again
//! - `retention`: what is forgotten
//! - `together`: an end and what follows it
//! - `turns`: the writer and the reader without threads, on a disk whose verdicts the test chooses
//! - `unwritable`: a start on a disk without room

mod asynchronous;
mod crash;
mod damage;
mod events;
mod files;
mod forgetting;
mod in_flight;
mod lists;
mod log;
mod messages;
mod migration;
mod model;
mod model_retention;
mod opening;
mod present;
mod records;
mod retention;
mod together;
mod turns;
mod unwritable;

use super::*;
use fnd_core::access::Permissions;
use fnd_core::records::cause::{Cause, CauseSlots};
use fnd_core::records::outcome::{Exhausted, Reason, RunState, Trigger};
use fnd_core::records::protocol::HttpRequest;
use fnd_core::records::{
    Accepted, AttemptRecord, InvocationFilter, InvocationRecord, Payload, Response, RunResult, Usage,
};
use fnd_wire::ids::{Attempt, FunctionName, Version, WorkerId};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

impl Default for KeepOf {
    fn default() -> Self {
        Self {
            keep: 1000,
            keep_failed: 0,
            keep_for: Duration::from_secs(30 * 86_400),
            keep_bytes: u64::MAX,
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            functions: LimitsOf::default(),
            others: KeepOf::default(),
            keep_for: KeepOf::default().keep_for,
            keep_bytes: 1 << 30,
        }
    }
}

struct Ledger {
    opened: OpenedLedger,
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

    fn submit(&self, command: LedgerCommand) {
        self.opened.writer.submit(command).unwrap();
    }

    /// Stores a durable invocation and waits for its acknowledgement.
    fn store(&self, accepted: Accepted) -> Result<(), Arc<str>> {
        let id = accepted.id;
        self.submit(LedgerCommand::Store(Box::new(accepted)));
        match self.acknowledged.recv_timeout(LIMIT).unwrap() {
            Acknowledged::Stored { id: stored, result } if stored == id => result,
            other => panic!("{other:?}"),
        }
    }

    /// The attempt that runs by this record begins.
    fn begins(&self, record: &InvocationRecord) {
        self.opened.writer.begins(Begun {
            invocation: record.id,
            attempt: Attempt(record.attempts),
            function: record.function.clone(),
            trigger: record.trigger.as_str().into(),
            started_ms: 0,
        });
    }

    /// Claims the next attempt of a durable invocation and waits for its acknowledgement.
    fn claim(&self, record: InvocationRecord) -> Result<(), Arc<str>> {
        let id = record.id;
        self.submit(LedgerCommand::Claim(Box::new(record)));
        match self.acknowledged.recv_timeout(LIMIT).unwrap() {
            Acknowledged::Claimed { ids, result } if ids == [id] => result,
            other => panic!("{other:?}"),
        }
    }

    fn list(&self, filter: InvocationFilter) -> RecordPage {
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
        payload: Payload {
            data: Some(b"{}".into()),
            content_type: Some("application/json".into()),
            context: Some("{\"a\":1}".into()),
            trace: None,
            request: Some(Arc::new(HttpRequest {
                method: "POST".to_owned(),
                path: "/".to_owned(),
                query: String::new(),
                route: "/{any}".to_owned(),
                params: vec![("any".to_owned(), "a b".to_owned())],
                remote: "192.0.2.7".to_owned(),
                headers: vec![("event-type".to_owned(), "order \"é\"".to_owned())],
                ..HttpRequest::default()
            })),
            cause: Some(Arc::new(Cause::Schedule(CauseSlots::new(1, 2, 2)))),
        },
        dead_letter: true,
        timeout_ms: Some(5),
        expires_ms: Some(u64::MAX),
        deadline_ms: Some(7),
        ..Accepted::new(id(second), name(function), Trigger::Manual, second * 1000)
    }
}

fn record(accepted: &Accepted, state: RunState) -> InvocationRecord {
    InvocationRecord {
        state,
        ..InvocationRecord::of(accepted)
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
            data: data.to_vec().into(),
            response: Some(Arc::new(chosen())),
            kept: None,
        }),
        ..record(accepted, RunState::Running)
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
    ledger.submit(LedgerCommand::Record(Box::new(attempt), Box::new(record)));
}

/// Stores and ends a durable invocation.
fn over(ledger: &Ledger, second: u64, function: &str, reason: Reason) -> Accepted {
    let accepted = accepted(second, function);
    ledger.store(accepted.clone()).unwrap();
    end(ledger, &accepted, reason, None);
    accepted
}

fn dead(ledger: &Ledger) -> Vec<u128> {
    let page = wait(ledger.opened.reader.dead_letters(unfiltered())).unwrap();
    page.letters.iter().map(|letter| letter.invocation.id.0 >> 80).collect()
}

/// Returns a filter that every invocation passes.
fn unfiltered() -> InvocationFilter {
    InvocationFilter {
        reach: Permissions::own(),
        ..InvocationFilter::default()
    }
}

/// Returns that filter with a change.
fn filtered(change: impl FnOnce(&mut InvocationFilter)) -> InvocationFilter {
    let mut filter = unfiltered();
    change(&mut filter);
    filter
}
