//! Events that the supervisor handles: facts and requests.

use super::ReplyTo;
use super::adoption_records::{Adopted, AdoptedMember};
use super::publication::{Delivered, Publish};
use super::rules::Rules;
use super::submit::Submit;
use crate::records::outcome::{Reason, Trigger};
use crate::records::{AttemptRecord, RunResult, Unfinished, Usage};
use fnd_wire::frame::ExitStatus;
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Everything that the supervisor handles.
#[derive(Debug)]
pub enum Event {
    /// The state that the ledger has; the first event, and sent once. Unfinished invocations whose function is not
    /// installed yet wait for it, until [`Event::Scanned`] says that it was deleted.
    Restored(Box<Restored>),
    /// A version of a function is installed. It serves from now on. If it runs by itself, it does so at the next
    /// [`Event::Quiet`].
    Installed(Box<InstalledVersion>),
    /// A version of a function is installed and gets a share of the calls, if another one serves.
    Canary {
        /// The version that gets the share.
        installed: Box<InstalledVersion>,
        /// Its share of the calls, 1 to 100.
        percent: u32,
    },
    /// The version that gets a share of the calls gets no more, and a version that is tried for that is given up.
    CanaryOver(FunctionName),
    /// New content of a function is invalid. The version before it goes on serving; without one the function is
    /// `invalid`.
    Refused {
        /// The function whose new content is invalid.
        function: FunctionName,
        /// Why, in one line.
        error: String,
    },
    /// New content of a function waits for its dependencies. The version before it goes on serving; without one the
    /// function is `building`.
    Building(FunctionName),
    /// The function's file is gone.
    Removed(FunctionName),
    /// The first scan of the functions directories is over. If all directories could be read, absent functions were
    /// deleted. Otherwise they may be in a directory that cannot be read; the event comes again when all can.
    Scanned {
        /// Whether every directory could be read.
        whole: bool,
    },
    /// Nothing has changed in the functions directories for a while, and all that changed before is installed or
    /// refused: contents that run by themselves may run now, except for these functions, which wait for the next such
    /// event. Earlier, a file might be half of what a person copies.
    Quiet(BTreeSet<FunctionName>),
    /// A request to run.
    Submit(Box<Submit>),
    /// Events for the functions that subscribe to them.
    Publish(Box<Publish>),
    /// The shares of events are on disk.
    Published {
        /// The number of the shares.
        number: u64,
        /// For each event, what came of it when it was sent before; absent: it was not.
        earlier: Vec<Option<Delivered>>,
    },
    /// The shares of events with this number could not be stored: nothing of them runs.
    PublishFailed(u64),
    /// A durable invocation is on disk.
    Stored(InvocationId),
    /// A durable invocation could not be stored: the caller gets an error, nothing runs. One that was to become durable goes on
    /// as it was.
    StoreFailed(InvocationId),
    /// The claims of these attempts are on disk, and in the register that all nodes share, if it has them: they may begin.
    Claimed(Vec<InvocationId>),
    /// Claims could not be stored: the invocations wait and are claimed again after a pause.
    ClaimFailed(Vec<InvocationId>),
    /// The register that all nodes share has not taken a claim, or fnd cannot tell whether it has: the invocation is claimed again
    /// after this pause. Other claims go on. It is also the answer to a claim of an invocation that is not there any more.
    ClaimPutOff {
        /// The invocation whose claim it was.
        id: InvocationId,
        /// Time until the next claim.
        pause: Duration,
    },
    /// The lease of this node on these invocations was not renewed in time, each for so long: attempts that run are ended, and what
    /// was claimed and has not begun is claimed again.
    LeaseLost(Vec<(InvocationId, Duration)>),
    /// Another node goes on with an invocation: nothing of it begins here any more. An attempt that runs goes on, and its end
    /// says by itself that it does not count.
    Superseded {
        /// The invocation of this node, not that of the other one.
        id: InvocationId,
        /// The name of the other node.
        node: Box<str>,
    },
    /// Another node may have the work of an invocation that has not begun. One that has begun goes on.
    Withdraw(InvocationId),
    /// Ends an invocation, whether it waits or runs.
    Cancel {
        /// The invocation to end.
        id: InvocationId,
        /// Where the answer goes.
        reply: ReplyTo,
    },
    /// A caller that waited for an end closed its connection. If nobody waits for the invocation any more and it has
    /// not begun, it is cancelled; one that has begun goes on.
    CallerLeft {
        /// The invocation the caller waited for.
        id: InvocationId,
        /// Where its answer would have gone.
        reply: ReplyTo,
    },
    /// Enables or disables a function. Disabling does not end running attempts; waiting invocations are skipped.
    SetEnabled {
        /// The function to enable or disable.
        function: FunctionName,
        /// Whether to enable it.
        enabled: bool,
        /// Where the answer goes.
        reply: ReplyTo,
    },
    /// A person restarts a function: the processes of a service end and begin anew at once, and the workers of others are
    /// replaced, each after its calls.
    Restart(FunctionName),
    /// A function's home or cache is over its quota, or no longer: while it is, the function begins nothing new.
    Full {
        /// The function whose directories were measured.
        function: FunctionName,
        /// How much is there, and what to do; absent: there is room.
        why: Option<Box<str>>,
    },
    /// The processes of a function that are started from now on see other directories: its workers are replaced.
    ViewChanged(FunctionName),
    /// The wall clock was set: what waits for one of its times waits for another instant now.
    ClockSet,
    /// Accept nothing new and finish the running attempts; then send [`Action::Drained`](super::action::Action::Drained).
    Drain,
    /// Accept and start work again after a drain; nothing if there is none, or if fnd stops.
    CancelDrain,
    /// Accept and start nothing more, and answer all callers; running attempts go on under the next fnd. Then send
    /// [`Action::Drained`](super::action::Action::Drained).
    HandOver,
    /// Kill the running attempts; comes with the second Ctrl-C.
    StopNow,
    /// The spawner started a worker.
    Spawned(WorkerId),
    /// A worker could not be started because of its function.
    SpawnFailed {
        /// The worker that could not be started.
        worker: WorkerId,
        /// Why the worker could not be started, for people.
        message: String,
    },
    /// A worker could not be started because of the node, which has run out of descriptors, processes, memory or disk
    /// space. No attempt of this worker has begun.
    NodeCannotStart {
        /// The worker that could not be started.
        worker: WorkerId,
        /// The operation that fails on this node, with the cause.
        message: String,
    },
    /// The spawner has been silent for too long (`false`), or answers again (`true`).
    SpawnerAnswers(bool),
    /// A worker has ended, and its end will be reported when there is room for its result. From now on no limit of time
    /// counts for it.
    EndsLater(WorkerId),
    /// A worker ended and its leaf is empty.
    Exited(Box<Exited>),
    /// A handler's worker has loaded its code.
    WorkerReady {
        /// The worker that is ready.
        worker: WorkerId,
        /// Most calls it can have in flight.
        concurrency: u32,
        /// Whether it can end one call while others go on.
        cancels: bool,
    },
    /// A readiness probe of a worker failed. The reason is shown if the worker is not ready in time.
    NotReady {
        /// The worker whose probe failed.
        worker: WorkerId,
        /// Why the probe failed.
        why: String,
    },
    /// A handler's worker could not load its code; it is about to end.
    LoadFailed {
        /// The worker that could not load its code.
        worker: WorkerId,
        /// Why the code could not be loaded, for people.
        message: String,
    },
    /// A handler's worker answered a call.
    Answered(Box<Answered>),
    /// A handler's worker closed its end of the connection.
    Closed(WorkerId),
    /// A handler's worker sent a message that is not in the protocol.
    Broken {
        /// The worker that sent the message.
        worker: WorkerId,
        /// The mistake in the message.
        message: String,
    },
    /// The spawner is gone, and with it every worker. Nothing starts any more: fnd ends, and the next fnd goes on.
    SpawnerLost,
    /// Time passed: [`next_deadline`](crate::run::Supervisor::next_deadline) was reached.
    Tick,
}

/// The state that the ledger has at the start.
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
    /// Workers of scripts that an earlier fnd started and the spawner still knows, by number.
    pub adopted: Vec<Adopted>,
    /// Workers of handlers that an earlier fnd handed over.
    pub members: Vec<AdoptedMember>,
    /// Attempts of `adopted` and `members` with a stored end, or with a stored end of their invocation.
    pub ended: BTreeSet<(InvocationId, u32)>,
    /// Attempts of `adopted` of which an earlier fnd recorded that nothing but the function ended them. It may have told that
    /// to a caller, so a SIGTERM that the spawner had sent is no reason any more.
    pub ended_by_themselves: BTreeSet<(InvocationId, u32)>,
    /// Invocations whose end somebody has asked for. Those that have ended are passed over.
    pub cancelled: Vec<InvocationId>,
    /// Each function's last attempt, so that a status file written after a restart still shows it.
    pub last: Vec<LastAttempt>,
    /// When each function whose last attempt did not succeed last succeeded, Unix milliseconds; without an entry, the history
    /// knows of no success.
    pub successes: BTreeMap<FunctionName, u64>,
}

/// The last attempt a function had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastAttempt {
    /// The record of the attempt, which has ended.
    pub attempt: AttemptRecord,
    /// The trigger of its invocation.
    pub trigger: Trigger,
    /// The attempt's result; absent where there was none and where it was larger than [`LAST_RESULT_MAX`].
    pub result: Option<RunResult>,
    /// Since when the function fails: the end of its first failed attempt after its last success, Unix milliseconds.
    pub failing_since_ms: Option<u64>,
}

/// Largest last result that is kept in memory for status files, in bytes. With the default `limits.result` of 6 MiB,
/// ten thousand functions would otherwise hold 60 GiB. Larger results are in the ledger.
pub const LAST_RESULT_MAX: usize = 64 << 10;

/// A version that the spawner has installed, with everything that the supervisor needs to run it.
#[derive(Debug, Clone)]
pub struct InstalledVersion {
    /// The function that it is a version of.
    pub function: FunctionName,
    /// The function's number at the spawner.
    pub id: FunctionId,
    /// The hash of the version.
    pub version: Version,
    /// The content key by which "once per content" is decided.
    pub load_key: Version,
    /// A fresh id, used if this content runs by itself.
    pub load_id: InvocationId,
    /// The rules from the manifest.
    pub rules: Arc<Rules>,
}

/// A result that exceeds `limits.result`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// Size of the result in bytes, more than `limits.result`.
    pub bytes: u64,
    /// Whether it was printed on standard output, which is also the log: then it is a result only where somebody asked for
    /// one.
    pub is_output: bool,
}

/// A worker's end, with everything that is known about it.
#[derive(Debug, Clone)]
pub struct Exited {
    /// The worker that ended.
    pub worker: WorkerId,
    /// How long ago the worker ended and how long it had run, where no fnd heard of the end at once.
    pub late: Option<(Duration, Duration)>,
    /// Exit status of the worker's first process.
    pub status: ExitStatus,
    /// Resource usage and output counts.
    pub usage: Usage,
    /// Processes that the kernel killed for lack of memory.
    pub oom_kills: u64,
    /// Whether `oom_kills` may have been in other workers of the function.
    pub oom_shared: bool,
    /// Forks refused at the pids limit.
    pub pids_refused: u64,
    /// Whether other processes of the worker still ran when its first one ended; these were killed.
    pub stragglers: bool,
    /// `$FND_RESULT` if it was written, else standard output.
    pub result: Option<RunResult>,
    /// The result that exceeded `limits.result` (`result` is then absent).
    pub result_too_large: Option<TooLarge>,
    /// Why standard output is no CGI document (`response = "cgi"`; the result is then absent).
    pub bad_answer: Option<String>,
    /// The line of standard error that says why the program failed, at most 4 KiB.
    pub last_error_line: Option<String>,
}

/// A worker's answer to a call.
#[derive(Debug)]
pub struct Answered {
    /// The worker that answered.
    pub worker: WorkerId,
    /// The call's number, from [`CallOrder::call`](super::action::CallOrder::call).
    pub call: u64,
    /// [`Reason::Ok`], or why the call failed.
    pub reason: Reason,
    /// Message for people; empty where the call succeeded.
    pub message: String,
    /// The result; after execute-again the state for the next poll.
    pub result: Option<RunResult>,
}
