//! Actions that the supervisor requests and the edges carry out.

use super::ReplyTo;
use super::publication::{Delivered, Shares};
use super::rules::Rules;
use crate::records::cause::{Cause, DEPTH_MAX};
use crate::records::outcome::{Skip, Trigger};
use crate::records::{Accepted, AttemptRecord, InvocationRecord, Payload, RunResult};
use fnd_manifest::function::payload_schema::{self, PayloadMistake};
use fnd_wire::ids::{Attempt, FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// Everything that the supervisor can request.
#[derive(Debug)]
pub enum Action {
    /// Store a new invocation. If it is durable, `Stored` or `StoreFailed` must follow.
    Store(Box<Accepted>),
    /// Store durably that an accepted invocation is durable from now on; `Stored` or `StoreFailed` must follow.
    MakeDurable {
        /// The invocation, which has an idempotency key.
        id: InvocationId,
        /// Whether it becomes a dead letter if it fails.
        dead_letter: bool,
    },
    /// Store who called an invocation that an earlier fnd has accepted, unless the ledger knows it.
    StoreCaller(Box<Accepted>),
    /// Store the shares of events, all in one transaction; `Published` or `PublishFailed` must follow.
    Publish(Box<Shares>),
    /// Store durably that the next attempt of a durable invocation begins, with the record as it will be then; exactly one of
    /// `Claimed`, `ClaimFailed` and `ClaimPutOff` must follow. No function sees the attempt before that. Later records of the
    /// invocation replace this one. Work that several nodes share is claimed in their register at the same time.
    Claim(Box<InvocationRecord>),
    /// Start a worker; `Spawned`, `SpawnFailed` or `NodeCannotStart` must follow, and after `Spawned` an `Exited`.
    Spawn(Box<SpawnOrder>),
    /// Submit an invocation of a service with trigger `load`, durable and without payload, because one of its processes
    /// is missing.
    Run(FunctionName),
    /// Hand a call to a handler's worker; `Answered`, `Closed`, `Broken` or `Exited` must follow,
    /// or [`DropCall`](Self::DropCall).
    Call(Box<CallOrder>),
    /// Tell a worker to end one call, or close the connection of its request; `Answered` should follow. A worker that does
    /// not know the message skips it.
    CancelCall {
        /// The worker that has the call.
        worker: WorkerId,
        /// The call's number, from [`CallOrder::call`].
        call: u64,
    },
    /// End the output of a call: its record follows, and its answer will be ignored.
    DropCall {
        /// The worker that has the call.
        worker: WorkerId,
        /// The call's number, from [`CallOrder::call`].
        call: u64,
    },
    /// Tell a handler's worker to finish and exit. Only between `Spawned` and `Exited`.
    Stop(WorkerId),
    /// Send SIGTERM, or its stop signal, to a worker's processes. Only between `Spawned` and `Exited`.
    Term(WorkerId),
    /// Have the spawner keep for the next fnd why a script is being ended: the reason has changed since its SIGTERM.
    /// Only between `Spawned` and `Exited`.
    KeepReason(WorkerId),
    /// Send SIGKILL to a worker's processes. Only between `Spawned` and `Exited`.
    Kill(WorkerId),
    /// The spawner may forget this worker of a function: everything about its end is recorded. The function is absent if the
    /// supervisor does not know the worker.
    Forget(WorkerId, Option<FunctionName>),
    /// Store an ended attempt together with the current state of its invocation, which may be final.
    Record(Box<AttemptRecord>, Box<InvocationRecord>),
    /// Store the current state of an invocation without an attempt (running, cancelled in the queue, skipped). The answers to
    /// those who are told of its end come right after it.
    Update(Box<InvocationRecord>),
    /// Delete an accepted invocation of which nothing has begun: another node has its work, or may have it.
    Withdraw(InvocationId),
    /// An accepted invocation could not be stored and is gone without a record: wake the callers that wait for its end.
    Dropped(InvocationId),
    /// Store the final record of an invocation with which another node goes on, and the name of that node. It does not count: no
    /// calls follow it, and it is no dead letter.
    Supersede(Box<InvocationRecord>, Box<str>),
    /// Store the current state of an invocation whose attempt could not be started. The attempt has not begun, whatever
    /// was stored before.
    PutBack(Attempt, Box<InvocationRecord>),
    /// The final record of this invocation follows, and with it the calls of its function's hooks. Only for functions
    /// that have hooks, and for calls whose failure the record of another invocation shows.
    Follow(InvocationId, Box<Payload>),
    /// Delete the invocation's temporary files.
    Release {
        /// The function's number at the spawner.
        function: FunctionId,
        /// The invocation whose files are deleted.
        invocation: InvocationId,
    },
    /// An attempt of this function's canary failed.
    CanaryFailed(FunctionName),
    /// Answer the caller that [`ReplyTo`] names.
    Reply(ReplyTo, Answer),
    /// A function is there that nobody knew. Comes before its [`Status`](Self::Status), like the next five.
    Known(FunctionName),
    /// A function is no longer there.
    Gone(FunctionName),
    /// Another version serves now.
    Serves(FunctionName, Version),
    /// The newest content does not serve; and why.
    Refused(FunctionName, Box<str>),
    /// This version gets a share of the calls. May come again while it does.
    CanaryServes(FunctionName, Version),
    /// A version on trial could not be loaded.
    TrialFailed {
        /// The function that the version is of.
        function: FunctionName,
        /// The version that was tried, which does not serve.
        version: Version,
        /// Why, for people.
        error: Box<str>,
    },
    /// Write the function's status file, because its content changed. The start of an attempt does not count as a
    /// change, since the attempt's end writes the file anyway. If the supervisor no longer knows the function, delete
    /// the file.
    Status(FunctionName),
    /// Follow that a person has enabled or disabled the function: its schedules and its watcher depend on it. That it is so
    /// was stored before.
    EnabledChanged(FunctionName),
    /// Write a notice to the journal.
    Notice(Notice),
    /// The drain is over: nothing runs any more, and every accepted request was answered. After a hand-over attempts
    /// may still run. Sent once.
    Drained,
}

/// An order to start a worker.
#[derive(Debug, Clone)]
pub struct SpawnOrder {
    /// The worker's number, greater than every earlier one.
    pub worker: WorkerId,
    /// The function for which the worker runs.
    pub function: FunctionName,
    /// The function's number at the spawner.
    pub id: FunctionId,
    /// The installed version that the worker runs.
    pub version: Version,
    /// The rules from the manifest.
    pub rules: Arc<Rules>,
    /// The attempt to run; absent for a handler's worker, which becomes ready and is then [called](Action::Call).
    pub attempt: Option<AttemptOrder>,
    /// Time until the attempt's end. If no fnd is there then, the spawner ends the attempt.
    pub lasts: Option<Duration>,
}

/// A call to a handler's worker.
#[derive(Debug, Clone)]
pub struct CallOrder {
    /// The worker that gets the call.
    pub worker: WorkerId,
    /// The call's number, greater than every earlier one.
    pub call: u64,
    /// The function that is called.
    pub function: FunctionName,
    /// The rules from the manifest of the worker's version.
    pub rules: Arc<Rules>,
    /// The attempt to run.
    pub attempt: AttemptOrder,
}

/// Everything an attempt needs to know.
#[derive(Debug, Clone)]
pub struct AttemptOrder {
    /// The invocation of which this is an attempt.
    pub invocation: InvocationId,
    /// Number of the attempt.
    pub attempt: Attempt,
    /// Polls before this attempt.
    pub poll: u32,
    /// The invocation's trigger.
    pub trigger: Trigger,
    /// The input of the attempt.
    pub payload: Payload,
    /// Result of the previous attempt, after execute-again.
    pub previous: Option<RunResult>,
    /// End of this attempt, Unix milliseconds, for `FND_DEADLINE`.
    pub deadline_ms: Option<u64>,
}

impl AttemptOrder {
    /// Returns the trigger as the function sees it: an event is one, also where a message of NATS has brought it.
    #[must_use]
    pub fn seen_trigger(&self) -> Trigger {
        match self.payload.cause.as_deref() {
            Some(Cause::Event(_)) if self.trigger == Trigger::Nats => Trigger::Event,
            _ => self.trigger,
        }
    }
}

/// An answer to a caller.
#[derive(Debug)]
pub enum Answer {
    /// Accepted, and on disk.
    Queued(InvocationId),
    /// The invocation has ended. Only for a caller who waits.
    Finished(Box<InvocationRecord>),
    /// The attempt's timeout or the invocation's deadline was reached; the final record follows.
    TimedOut {
        /// The invocation that has reached the limit.
        id: InvocationId,
        /// Message that names the limit.
        message: String,
    },
    /// The request was not accepted, so nothing runs for it.
    Rejected(Rejection),
    /// The shares of each event are on disk.
    Published(Vec<Delivered>),
    /// No function takes one of the events, so that nothing was accepted.
    NotPublished {
        /// Place of the event in the request.
        event: usize,
        /// The first function that would have taken it.
        function: FunctionName,
        /// Why it does not.
        rejection: Rejection,
    },
    /// The request was carried out (cancel accepted, enabled, disabled).
    Done,
    /// There is no such function or invocation, or it has ended.
    NotFound,
    /// Could not be made durable. An invocation that the request would have shared goes on.
    StoreFailed,
}

/// Why a request to run was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// No function of that name.
    NoSuchFunction,
    /// The function is a service: it runs by itself and takes no invocations.
    Service,
    /// The function has no version that could run.
    Invalid {
        /// Why no version can run, in one line.
        error: String,
    },
    /// Queue full, rate, overlap with policy `reject`, disabled, expired.
    Skipped {
        /// The reason, as the history would show it.
        skip: Skip,
        /// When to retry; absent if unknown.
        retry_after: Option<Duration>,
    },
    /// Its home or its cache is over its quota.
    Quota {
        /// How much is there, and what to do.
        why: String,
    },
    /// fnd is draining, or the spawner is missing or does not answer.
    Unavailable {
        /// Why nothing is accepted, for people.
        reason: String,
    },
    /// Another request has the same idempotency key.
    KeyReused,
    /// A function calls it, and the chain of calls does not allow that.
    Chain(ChainRefusal),
    /// The payload does not match the schema of the function (`[input] schema`).
    Input(Vec<PayloadMistake>),
}

impl Rejection {
    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable { reason: reason.into() }
    }

    /// Returns the reason with which the request would be recorded as skipped; absent if it would not be.
    pub(crate) fn skip(&self) -> Option<Skip> {
        match self {
            Self::Skipped { skip, .. } => Some(*skip),
            Self::Quota { .. } => Some(Skip::Quota),
            _ => None,
        }
    }

    /// Returns the reason in words.
    #[must_use]
    pub fn words(&self, function: &FunctionName) -> String {
        match self {
            Self::NoSuchFunction => format!("there is no function `{function}`: `fndctl list` shows all functions"),
            Self::Service => format!("`{function}` is a service: it runs by itself and cannot be invoked"),
            Self::Invalid { error } => format!("`{function}` has no version that can run: {error}"),
            Self::Unavailable { reason } => reason.clone(),
            Self::Quota { why } => format!("`{function}` is over its quota: {why}"),
            Self::KeyReused => {
                "this idempotency key has come with another request (another body, path or query); a new request needs \
                                a key of its own"
                    .to_owned()
            }
            Self::Chain(refusal) => refusal.words(function),
            Self::Input(mistakes) => format!(
                "the payload does not match the `[input]` schema of `{function}`: {}",
                payload_schema::words(mistakes)
            ),
            Self::Skipped { skip, .. } => skip_words(*skip, function),
        }
    }
}

/// Why a call of a function is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChainRefusal {
    /// The invocation that the request names is not one of the calling function that runs now.
    NotRunning(FunctionName),
    /// The chain of calls would be longer than [`DEPTH_MAX`].
    TooLong,
    /// The invocations that would wait for this call have the place that it needs, of its function, its group or its key: the call
    /// would wait for itself.
    WaitsForItself,
}

impl ChainRefusal {
    /// Returns the reason in words.
    #[must_use]
    pub fn words(&self, function: &FunctionName) -> String {
        match self {
            Self::NotRunning(caller) => format!(
                "`Fnd-Invocation` must name an invocation of `{caller}` that runs now; `FND_INVOCATION` has its id"
            ),
            Self::TooLong => format!(
                "`{function}` would be call {} in a chain of functions that call functions: at most {DEPTH_MAX} are allowed",
                u32::from(DEPTH_MAX) + 1
            ),
            Self::WaitsForItself => format!(
                "functions that wait for this call have the place that `{function}` needs (pool.max, or that of its group or its key): the \
                 call would wait for itself; queue it (`--async`), or raise that number"
            ),
        }
    }
}

/// Returns why a request to a function was skipped, in words.
#[must_use]
pub fn skip_words(skip: Skip, function: &FunctionName) -> String {
    match skip {
        Skip::QueueFull => format!("the queue of `{function}` is full (queue.max)"),
        Skip::Rate => format!("more requests for `{function}` than its rate allows (queue.rate)"),
        Skip::Overlap => format!("`{function}` is running and refuses overlap (queue.overlap)"),
        Skip::Disabled => format!("`{function}` is disabled: `fndctl enable {function}` enables it"),
        Skip::Expired => "it expired before it could start".to_owned(),
        Skip::Deleted => format!("`{function}` was deleted"),
        Skip::Missed => "its time had passed".to_owned(),
        Skip::Unknown => format!("there is no function `{function}`"),
        Skip::Invalid => format!("`{function}` cannot be called"),
        Skip::Depth => "the chain of hooks is too long".to_owned(),
        Skip::Quota => format!("`{function}` is over its quota (limits.home, limits.cache)"),
    }
}

/// A notice for people, besides the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// An attempt began; its worker is being started, or gets the call.
    AttemptStarted {
        /// The function that runs.
        function: FunctionName,
        /// The invocation of which this is an attempt.
        invocation: InvocationId,
        /// Number of the attempt.
        attempt: Attempt,
        /// The worker that runs the attempt.
        worker: WorkerId,
        /// The invocation's trigger.
        trigger: Trigger,
    },
    /// A function's public state changed. Not sent for changes between ready and running, nor for a new function's
    /// first state.
    StateChanged {
        /// The function whose state changed.
        function: FunctionName,
        /// The state before the change.
        from: super::FunctionState,
        /// The state after the change.
        to: super::FunctionState,
    },
    /// A request to run was refused on arrival.
    Rejected {
        /// The function that was to run.
        function: FunctionName,
        /// The request's trigger.
        trigger: Trigger,
        /// The reason of the refusal.
        skip: Skip,
    },
    /// A worker did not end within the allowed time after SIGKILL.
    Unkillable {
        /// The worker that did not end.
        worker: WorkerId,
        /// The function for which the worker runs.
        function: FunctionName,
    },
    /// The node can start workers again, or no longer; or the spawner answers again, or no longer.
    StartsChanged,
    /// An event that should be impossible. fnd has a defect; the supervisor ignored the event safely.
    Defect(String),
}
