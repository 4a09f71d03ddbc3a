//! What can leave the supervisor: wishes that the edges carry out.

use super::event::ReplyTo;
use super::rules::Rules;
use crate::outcome::{Skip, Trigger};
use crate::record::{Accepted, AttemptRecord, InvocationRecord, Payload, RunResult};
use fnd_wire::ids::{Attempt, FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// Everything the supervisor can wish.
#[derive(Debug)]
pub enum Action {
    /// Store a new invocation; where it is durable, `Stored` or `StoreFailed` must follow.
    Store(Box<Accepted>),
    /// Store, synced, that the next attempt of a durable invocation begins, as it will stand then; `Claimed` or `ClaimFailed`
    /// must follow. No function sees it before. What is stored of it later replaces this.
    Claim(Box<InvocationRecord>),
    /// Start a worker; `Spawned`, `SpawnFailed` or `NodeCannotStart` must follow, and after `Spawned` an `Exited`.
    Spawn(Box<SpawnOrder>),
    /// Submit an invocation of a service with trigger `load`, durable and without payload: one of its processes is missing.
    Run(FunctionName),
    /// Hand a call to a handler's worker; `Answered`, `Closed`, `Broken` or `Exited` must follow.
    Call(Box<CallOrder>),
    /// Tell a handler's worker to finish and exit. Only between `Spawned` and `Exited`.
    Stop(WorkerId),
    /// SIGTERM to a worker's processes. Only between `Spawned` and `Exited`.
    Term(WorkerId),
    /// SIGKILL to them. Only between `Spawned` and `Exited`.
    Kill(WorkerId),
    /// Nothing is to be recorded of this worker's end (any more): the spawner may forget it.
    Forget(WorkerId),
    /// Store an ended attempt and, with it, where its invocation stands now (which may be its end).
    Record(Box<AttemptRecord>, Box<InvocationRecord>),
    /// Store where an invocation stands, without an attempt (running, cancelled in the queue, skipped).
    Update(Box<InvocationRecord>),
    /// This attempt could not be started and has not begun, whatever was stored of it: store where its invocation stands now.
    PutBack(Attempt, Box<InvocationRecord>),
    /// The invocation's temporary files can go.
    Release {
        /// The function.
        function: FunctionId,
        /// The invocation.
        invocation: InvocationId,
    },
    /// Answer.
    Reply(ReplyTo, Box<Answer>),
    /// Write the function's status file: something in it changed. It does not change for attempts that begin: the end of
    /// each writes it anyway. Where the supervisor no longer knows the function, its file can go.
    Status(FunctionName),
    /// Remember whether a person disabled the function.
    StoreEnabled {
        /// The function.
        function: FunctionName,
        /// Which of both.
        enabled: bool,
    },
    /// Tell people; goes to the journal.
    Notice(Notice),
    /// After a drain: nothing runs any more, and every acceptance has been answered; after a hand-over only the latter. WorkerMessage
    /// once.
    Drained,
}

/// What a worker is to run.
#[derive(Debug, Clone)]
pub struct SpawnOrder {
    /// Its number.
    pub worker: WorkerId,
    /// The function.
    pub function: FunctionName,
    /// Its number at the spawner.
    pub id: FunctionId,
    /// The version.
    pub version: Version,
    /// What its manifest says.
    pub rules: Arc<Rules>,
    /// The attempt it is; absent: a handler's worker, which gets ready and is then [called](Action::Call).
    pub attempt: Option<AttemptOrder>,
    /// The time until the attempt's end: the spawner ends it itself if no fnd is there.
    pub lasts: Option<Duration>,
}

/// A call to a handler's worker.
#[derive(Debug, Clone)]
pub struct CallOrder {
    /// The worker.
    pub worker: WorkerId,
    /// The call's number, above every earlier one.
    pub call: u64,
    /// The function.
    pub function: FunctionName,
    /// What the manifest of the worker's version says.
    pub rules: Arc<Rules>,
    /// The attempt it is.
    pub attempt: AttemptOrder,
}

/// What an attempt is about.
#[derive(Debug, Clone)]
pub struct AttemptOrder {
    /// The invocation.
    pub invocation: InvocationId,
    /// Which try.
    pub attempt: Attempt,
    /// Polls before it.
    pub poll: u32,
    /// What made it.
    pub trigger: Trigger,
    /// What it gets.
    pub payload: Payload,
    /// Result of the attempt before, after execute-again.
    pub previous: Option<RunResult>,
    /// End of this attempt, Unix milliseconds, for `FND_DEADLINE`.
    pub deadline_ms: Option<u64>,
}

/// What a caller is told.
#[derive(Debug)]
pub enum Answer {
    /// Accepted, and on disk.
    Queued(InvocationId),
    /// Ended. For a caller who waits.
    Finished(Box<InvocationRecord>),
    /// The attempt's timeout or the invocation's deadline was reached; the final record follows.
    TimedOut {
        /// The invocation.
        id: InvocationId,
        /// Which limit, in words.
        message: String,
    },
    /// Not accepted.
    Rejected(Rejection),
    /// Done (cancel accepted, enabled, disabled).
    Done,
    /// There is no such function or invocation, or it has ended.
    NotFound,
    /// Accepted but could not be made durable.
    StoreFailed,
}

/// Why a request to run was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// No function of that name.
    NoSuchFunction,
    /// It is a service: it runs by itself and takes no invocations.
    Service,
    /// It has no version that could run.
    Invalid {
        /// Why.
        error: String,
    },
    /// Queue full, rate, overlap with policy `reject`, disabled, expired.
    Skipped {
        /// Which.
        skip: Skip,
        /// When to try again, if that can be said.
        retry_after: Option<Duration>,
    },
    /// Draining, or no spawner.
    Unavailable {
        /// Why.
        reason: String,
    },
}

/// Something people should know, beside records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An attempt began.
    AttemptStarted {
        /// The function.
        function: FunctionName,
        /// The invocation.
        invocation: InvocationId,
        /// Which try.
        attempt: Attempt,
        /// The worker.
        worker: WorkerId,
        /// What made it.
        trigger: Trigger,
    },
    /// A function's public state changed, other than between ready and running and on its first appearance.
    StateChanged {
        /// The function.
        function: FunctionName,
        /// From.
        from: super::FunctionState,
        /// To.
        to: super::FunctionState,
    },
    /// A request to run was refused on arrival.
    Rejected {
        /// The function.
        function: FunctionName,
        /// What made it.
        trigger: Trigger,
        /// Why.
        skip: Skip,
    },
    /// A worker did not end within its time after SIGKILL.
    Unkillable {
        /// The worker.
        worker: WorkerId,
        /// The function.
        function: FunctionName,
    },
    /// Whether the node can start workers, or whether its spawner answers, is another than before.
    StartsChanged,
    /// An event that should be impossible: a defect of fnd, made safe.
    Defect(String),
}
