//! Report events: news of functions, runs and the node for people and programs outside of fnd.
//!
//! fnd reports each event once. The journal, the stream, the metrics, the watchers of the list of functions and the status files
//! each take from it what they show. An event borrows its data, so that reporting copies only what one of them keeps.

use crate::records::outcome::Trigger;
use crate::records::{AttemptRecord, InvocationRecord, Usage};
use crate::run::Notice;
use crate::trace::Span;
use crate::triggers::alerts::Alert;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::InvocationId;
use fnd_wire::ids::{FunctionName, Version};
use std::fmt::Arguments;
use std::path::Path;
use std::time::Duration;

/// Something that happened to a function or to the node.
#[derive(Debug, Clone, Copy)]
pub enum ReportEvent<'a> {
    /// A function is known from now on.
    FunctionKnown(&'a FunctionName),
    /// A function was deleted.
    FunctionRemoved(&'a FunctionName),
    /// A version serves from now on.
    VersionLoaded(&'a FunctionName, Version),
    /// The newest content does not serve, or does not serve for another reason than before.
    VersionRefused {
        /// The function whose content does not serve.
        function: &'a FunctionName,
        /// Why, in one line.
        message: &'a str,
        /// The problems of the content.
        diagnostics: &'a [Diagnostic],
    },
    /// The judge or the spawner refused new content.
    ContentRefused {
        /// The function whose files the judge or the spawner read.
        function: &'a FunctionName,
        /// The problems as text of several lines.
        error: &'a str,
        /// Whether the version before it goes on serving.
        serving: bool,
    },
    /// An interpreter was replaced, or is gone.
    InterpreterChanged {
        /// Path of the interpreter; links in it are not resolved.
        path: &'a str,
        /// The file behind the path; absent if it is gone.
        real: Option<&'a Path>,
        /// Number of functions that use it.
        functions: usize,
    },
    /// A scan of the functions directories that was asked for is over.
    Rescanned,
    /// Something that the function's status file shows has changed.
    StatusChanged(&'a FunctionName),
    /// News of a function that only the journal shows.
    News(&'a FunctionName, &'a FunctionNews),
    /// A notice of the supervisor: an attempt began, a function's state changed, a request was refused on arrival.
    Notice(&'a Notice),
    /// A request to run was accepted.
    Accepted {
        /// The function that is to run.
        function: &'a FunctionName,
        /// The invocation that the request has made.
        id: InvocationId,
        /// The trigger that made the invocation.
        trigger: Trigger,
    },
    /// The spawner was asked for a process.
    WorkerRequested(&'a FunctionName),
    /// A process of this function ended; its usage goes with it.
    WorkerEnded(&'a FunctionName, &'a Usage),
    /// The number of processes of a pool changed: the numbers before and after.
    PoolScaled(&'a FunctionName, (u32, u32)),
    /// An attempt could not be started because of the node; it is started again.
    AttemptPutBack,
    /// An attempt ended, and its record is final.
    AttemptEnded {
        /// The final record of the attempt.
        attempt: &'a AttemptRecord,
        /// The state of its invocation after it.
        record: &'a InvocationRecord,
        /// Its position in the trace of the caller, or in a trace of its own.
        span: Span,
        /// The method of the request as the metrics label it; they have a word for no request.
        method: &'static str,
    },
    /// An invocation ended while it waited: it was skipped or cancelled, or ran out of time.
    EndedWaiting(&'a InvocationRecord),
    /// An invocation ended. It follows the end of its last attempt, or [`ReportEvent::EndedWaiting`].
    InvocationEnded(&'a InvocationRecord),
    /// Slots of a schedule are due.
    SlotsDue {
        /// The function that the schedule belongs to.
        function: &'a FunctionName,
        /// How late the latest slot is.
        late: Duration,
        /// Whether the function runs.
        runs: bool,
        /// Number of slots that were missed for too long.
        missed: u64,
    },
    /// Somebody sent events: they were accepted or refused, which the outcome says.
    EventsSent {
        /// Their result, as the metrics label it.
        outcome: &'static str,
        /// How many events had this result.
        count: u64,
    },
    /// The main loop woke at a time that it had chosen: how much later than that time; zero if in time.
    WokeLate(Duration),
    /// A request to the public listener is over.
    Requested(&'a RequestEnd<'a>),
    /// Somebody is told of a change of a function or of the node.
    Alert {
        /// The change, and the function or node that it is about.
        alert: &'a Alert,
        /// The function that is called.
        called: &'a FunctionName,
    },
    /// fnd failed to do something, and only the journal tells of it.
    NodeError(Arguments<'a>),
    /// Something about the node that people should know, and only the journal tells of it.
    NodeWarning(Arguments<'a>),
    /// A problem of the node began or is over.
    Problem {
        /// The kind of problem.
        code: &'static str,
        /// The problem, its place, and what to do.
        text: &'a str,
        /// Whether the problem began; if not, it is over.
        lasts: bool,
    },
}

/// News of a function that only the journal shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionNews {
    /// A release gets a share of the calls.
    CanaryBegan(Version),
    /// A release that got a share of the calls gets none any more, and why.
    CanaryRolledBack(Version, String),
    /// The release that got a share of the calls gets all of them, because its time is over.
    CanaryPromoted,
    /// Why the release cannot get all calls although its time is over.
    CanaryNotPromoted(String),
    /// The dependencies of the newest content are installed first, as a tree with this version.
    WaitsForBuild(Version),
    /// Why the judge's verdict on the content cannot be read.
    VerdictUnread(String),
    /// A text for the author.
    Warning(String),
    /// Why the function does not run any more: its home or its cache is too large.
    QuotaExceeded(String),
    /// The function may run again after [`FunctionNews::QuotaExceeded`].
    QuotaKept,
    /// The clock was set back, so the schedules forget their last slots.
    SchedulesBeginAnew,
    /// The ledger has no room for a call that a hook or an alert makes. The next fnd makes it.
    CallPostponed,
}

/// The end of a request to the public listener.
#[derive(Debug, Clone, Copy)]
pub struct RequestEnd<'a> {
    /// The function and the path of its route; absent if the request found none, or was not admitted.
    pub route: Option<(&'a FunctionName, &'a str)>,
    /// The invocation that it led to.
    pub invocation: Option<InvocationId>,
    /// The method of the request.
    pub method: &'a str,
    /// The path, shortened.
    pub path: &'a str,
    /// The status of the answer; absent if the caller left before it.
    pub status: Option<u16>,
    /// Size of the answer in bytes; absent if it was sent in pieces.
    pub bytes: Option<u64>,
    /// The caller's address, or `unix`.
    pub caller: &'a str,
    /// How long it took until the answer began.
    pub took: Duration,
    /// The bytes that passed after the answer, if another protocol followed it.
    pub upgraded: Option<Upgraded>,
    /// Whether the journal has a line for it.
    pub is_logged: bool,
}

/// A connection that spoke another protocol after an answer, for example a WebSocket.
#[derive(Debug, Clone, Copy)]
pub struct Upgraded {
    /// Bytes from the function to the caller.
    pub to_caller: u64,
    /// Bytes from the caller to the function.
    pub from_caller: u64,
    /// How long the connection lasted after the answer.
    pub lasted: Duration,
}

impl RequestEnd<'_> {
    /// All values of [`RequestEnd::class`].
    pub const CLASSES: [&'static str; 6] = ["left", "1xx", "2xx", "3xx", "4xx", "5xx"];

    /// Returns the class of its status: `2xx`; `left` if the caller left before the answer.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self.status.map(|status| status / 100) {
            None => "left",
            Some(1) => "1xx",
            Some(2) => "2xx",
            Some(3) => "3xx",
            Some(4) => "4xx",
            Some(_) => "5xx",
        }
    }
}
