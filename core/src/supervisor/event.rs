//! What can arrive at the supervisor: facts and requests.

use super::calls::Answered;
use super::handover::AdoptedMember;
use super::rules::Rules;
use super::takeover::Adopted;
use crate::outcome::Trigger;
use crate::record::{AttemptRecord, Payload, RunResult, Unfinished, Usage};
use fnd_wire::frame::ExitStatus;
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The time an event is handled at: both clocks, read once by the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Now {
    /// On a clock that only goes forward, counted from boot; deadlines and delays are on it.
    pub mono: Duration,
    /// Unix milliseconds; for records only.
    pub unix_ms: u64,
}

impl Now {
    /// Returns the instant that is so much later.
    #[must_use]
    pub fn after(self, pause: Duration) -> Self {
        Self {
            mono: self.mono.saturating_add(pause),
            unix_ms: self
                .unix_ms
                .saturating_add(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Where an answer goes: a number the driver gave out, used at most once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyTo(pub u64);

/// Everything that can happen.
#[derive(Debug)]
pub enum Event {
    /// What the ledger knows, first of all events and once. Unfinished invocations whose function is not installed yet
    /// wait for it (until [`Event::Scanned`] says that it was deleted).
    Restored(Restored),
    /// A version of a function is installed: it serves from now on.
    Installed(Box<Installed>),
    /// New content of a function is invalid: what served before goes on; without that the function is `invalid`.
    Refused {
        /// The function.
        function: FunctionName,
        /// Why, in one line.
        error: String,
    },
    /// The function's file is gone.
    Removed(FunctionName),
    /// The first scan of the functions directories is over. If the `whole` of them could be read, what is not there was deleted;
    /// otherwise it may be where fnd cannot look, and this comes once more when it can.
    Scanned {
        /// Whether every directory could be read.
        whole: bool,
    },
    /// A request to run.
    Submit(Box<Submit>),
    /// A durable invocation is on disk.
    Stored(InvocationId),
    /// It is not: the caller is told, nothing runs.
    StoreFailed(InvocationId),
    /// That attempts begin is on disk.
    Claimed(Vec<InvocationId>),
    /// It is not: they wait, and are claimed again after a while.
    ClaimFailed(Vec<InvocationId>),
    /// Ends an invocation.
    Cancel {
        /// Which.
        id: InvocationId,
        /// Where the answer goes.
        reply: ReplyTo,
    },
    /// A caller that waited for an end closed its connection. An invocation that nobody waits for any more and that has
    /// not begun is cancelled; one that has begun goes on.
    CallerLeft {
        /// What the caller asked for.
        id: InvocationId,
        /// Where its answer would have gone.
        reply: ReplyTo,
    },
    /// Lets a function run again, or not. Disabling ends nothing that runs; what waits in the queue is skipped.
    SetEnabled {
        /// The function.
        function: FunctionName,
        /// Which of both.
        enabled: bool,
        /// Where the answer goes.
        reply: ReplyTo,
    },
    /// Accept nothing new, finish what runs; then [`Action::Drained`](super::Action::Drained).
    Drain,
    /// Accept and start nothing more, and answer everybody; what runs goes on under the next fnd. Then
    /// [`Action::Drained`](super::Action::Drained).
    HandOver,
    /// Kill what runs: the second Ctrl-C.
    StopNow,
    /// The spawner started a worker.
    Spawned(WorkerId),
    /// It could not, and the function is the reason.
    SpawnFailed {
        /// The worker that never was.
        worker: WorkerId,
        /// Why.
        message: String,
    },
    /// A worker could not be started, and the node is the reason: it has run out of descriptors, processes, memory or room.
    /// Nothing of it has begun.
    NodeCannotStart {
        /// The worker that never was.
        worker: WorkerId,
        /// What the node cannot do.
        message: String,
    },
    /// Whether the spawner answers: it was silent for too long, or answers again.
    SpawnerAnswers(bool),
    /// A worker ended and its leaf is empty.
    Exited(Box<Exited>),
    /// A handler's worker has loaded its code.
    WorkerReady {
        /// The worker.
        worker: WorkerId,
        /// Calls it can have in flight.
        concurrency: u32,
    },
    /// A worker that serves HTTP is not ready yet: what people are told if it never is.
    NotReady {
        /// The worker.
        worker: WorkerId,
        /// What stands in the way.
        why: String,
    },
    /// It could not; it is about to end.
    LoadFailed {
        /// The worker.
        worker: WorkerId,
        /// Why.
        message: String,
    },
    /// It answered a call.
    Answered(Box<Answered>),
    /// It closed its end of the connection.
    Closed(WorkerId),
    /// It said something that is not in the protocol.
    Broken {
        /// The worker.
        worker: WorkerId,
        /// What.
        message: String,
    },
    /// The spawner is gone and with it every worker. Nothing starts any more: fnd ends, and the next one goes on.
    SpawnerLost,
    /// Time passed: [`next_deadline`](super::Supervisor::next_deadline) was reached.
    Tick,
}

/// What the ledger knew at start.
#[derive(Debug, Default)]
pub struct Restored {
    /// Invocations without an end, oldest first.
    pub unfinished: Vec<Unfinished>,
    /// Contents that have run as `load`.
    pub loaded: Vec<(FunctionName, Version)>,
    /// Functions disabled by a person.
    pub disabled: Vec<FunctionName>,
    /// Counts per function: runs, failures.
    pub counts: Vec<(FunctionName, u64, u64)>,
    /// Workers of an earlier fnd that the spawner still knows, by number.
    pub adopted: Vec<Adopted>,
    /// Workers of handlers that it handed over.
    pub members: Vec<AdoptedMember>,
    /// Those of their attempts whose end is stored, or that of their invocation.
    pub ended: BTreeSet<(InvocationId, u32)>,
    /// Each function's last attempt, so that a status file written after a restart still shows it.
    pub last: Vec<LastAttempt>,
}

/// The last attempt a function had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastAttempt {
    /// The attempt.
    pub attempt: AttemptRecord,
    /// What made its invocation.
    pub trigger: Trigger,
    /// Its result; absent where there was none and where it was larger than [`LAST_RESULT_MAX`].
    pub result: Option<RunResult>,
}

/// Most bytes of a last result kept in memory for status files: with the default `limits.result` of 6 MiB, ten thousand
/// functions would otherwise hold 60 GiB. Larger ones are in the ledger.
pub const LAST_RESULT_MAX: usize = 64 << 10;

/// A version in place.
#[derive(Debug, Clone)]
pub struct Installed {
    /// The function.
    pub function: FunctionName,
    /// Its number at the spawner.
    pub id: FunctionId,
    /// The version.
    pub version: Version,
    /// What "once per content" goes by.
    pub load_key: Version,
    /// A fresh id, used if this content is to run by itself.
    pub load_id: InvocationId,
    /// What its manifest says.
    pub rules: Rules,
}

/// A request to run.
#[derive(Debug)]
pub struct Submit {
    /// The id it gets if accepted.
    pub id: InvocationId,
    /// The function.
    pub function: FunctionName,
    /// What made it.
    pub trigger: Trigger,
    /// What it brings; without data the manifest's `data` and `context` are used.
    pub payload: Payload,
    /// Where the answer goes: the end if `wait`, else the acceptance.
    pub reply: Option<ReplyTo>,
    /// Whether the caller waits for the end. Otherwise the invocation is made durable before it is acknowledged.
    pub wait: bool,
    /// Shorter timeout.
    pub timeout: Option<Duration>,
    /// Not before, Unix milliseconds.
    pub not_before_ms: Option<u64>,
    /// Skipped when not started by then, Unix milliseconds.
    pub expires_ms: Option<u64>,
    /// Among those that wait, greater ones begin first.
    pub priority: i8,
    /// The same again with the same key is the same invocation. Here that holds while it runs; the ledger has the keys of
    /// those that have ended.
    pub idempotency_key: Option<Arc<str>>,
    /// The invocation whose payload it has.
    pub origin: Option<InvocationId>,
}

impl Submit {
    /// Returns one that nobody waits for and that asks for nothing special.
    #[must_use]
    pub fn new(id: InvocationId, function: FunctionName, trigger: Trigger) -> Self {
        Self {
            id,
            function,
            trigger,
            payload: Payload::default(),
            reply: None,
            wait: false,
            timeout: None,
            not_before_ms: None,
            expires_ms: None,
            priority: 0,
            idempotency_key: None,
            origin: None,
        }
    }
}

/// A worker's end with everything known about it.
#[derive(Debug, Clone)]
pub struct Exited {
    /// The worker.
    pub worker: WorkerId,
    /// Where no fnd was there to hear of it at once: how long ago it was, and how long it had run.
    pub late: Option<(Duration, Duration)>,
    /// How its first process ended.
    pub status: ExitStatus,
    /// What it used and printed.
    pub usage: Usage,
    /// Processes the kernel killed for memory.
    pub oom_kills: u64,
    /// Whether those may have been in other workers of the function.
    pub oom_shared: bool,
    /// Forks the pids limit refused.
    pub pids_refused: u64,
    /// `$FND_RESULT` if it was written, else standard output.
    pub result: Option<RunResult>,
    /// The result's size, if it exceeded `limits.result` (it is then absent).
    pub result_too_large: Option<u64>,
    /// Last non-empty line of standard error, at most 4 KiB.
    pub last_error_line: Option<String>,
}
