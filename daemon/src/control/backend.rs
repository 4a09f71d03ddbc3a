//! The interface of the daemon for the control server: one trait in plain types of core, so that the server can be
//! tested with a fake.
//!
//! Everything runs on one `current_thread` runtime, so nothing here is `Send`. Data in memory is returned at once; data
//! on disk and slow operations are a [`Pending`]. The trait knows nothing about HTTP.

use crate::buffers::Buffers;
use crate::http::connections::Connections;
use crate::metrics::Form;
use crate::stream::StreamQuery;
use crate::workers::exchange::Passing;
use fnd_core::api::{
    DeadLetter, DeadLetterList, FunctionChange, FunctionDetail, FunctionStatus, InvocationList, InvocationView,
    LogLine, NodeStatus, ReloadReport,
};
use fnd_core::api::{SizeView, ValidateReport, ValidateRequest};
use fnd_core::happening::StreamEvent;
use fnd_core::manifest::Mode;
use fnd_core::outcome::{Reason, State, Trigger};
use fnd_core::record::{Payload, RunResult};
use fnd_core::runtime::RuntimeSummary;
use fnd_core::supervisor::{Answer, Rejection, ReplyTo};
use fnd_wire::ids::{FunctionName, InvocationId};
use futures_util::future::LocalBoxFuture;
use hyper::Response;
use hyper::body::Incoming;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// A value that comes later.
pub type Pending<T> = LocalBoxFuture<'static, T>;

/// An answer of the supervisor that comes later. A dropped sender means that fnd is stopping. If this is dropped before
/// the answer came, it reports that its caller has left.
pub struct Answering {
    answer: oneshot::Receiver<Answer>,
    caller: Option<Caller>,
}

/// The caller that waits for an answer, and the listener for its leaving.
struct Caller {
    hears: Rc<dyn Leaving>,
    id: InvocationId,
    reply: ReplyTo,
}

/// Listens for callers that left before their answer came.
pub trait Leaving {
    /// Called when a caller that waited for the end of an invocation has left.
    fn left(&self, id: InvocationId, reply: ReplyTo);
}

impl Answering {
    /// Returns an answer that reports its caller's leaving to `hears`, which decides whether the invocation ends with
    /// the caller.
    #[must_use]
    pub fn for_caller(
        answer: oneshot::Receiver<Answer>,
        hears: Rc<dyn Leaving>,
        id: InvocationId,
        reply: ReplyTo,
    ) -> Self {
        let caller = Some(Caller { hears, id, reply });
        Self { answer, caller }
    }
}

impl std::fmt::Debug for Answering {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Answering")
    }
}

impl From<oneshot::Receiver<Answer>> for Answering {
    fn from(answer: oneshot::Receiver<Answer>) -> Self {
        Self { answer, caller: None }
    }
}

impl Future for Answering {
    type Output = Result<Answer, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.answer).poll(cx));
        self.caller = None;
        Poll::Ready(answer)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(Caller { hears, id, reply }) = self.caller.take() {
            hears.left(id, reply);
        }
    }
}

/// Lines of output, oldest first; the channel closes after the last one.
pub type LogLines = mpsc::Receiver<LogLine>;

/// Why the daemon could not do an operation that usually works (for example, a read of the ledger failed). The text is
/// for the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// The daemon behind the control socket.
pub trait Backend {
    /// Returns the memory budget of bodies and answers.
    fn buffers(&self) -> Arc<Buffers>;

    /// Returns the accounting of the server's connections.
    fn connections(&self) -> Rc<Connections>;

    /// Returns an error if fnd cannot run functions: `GET /healthz`.
    ///
    /// # Errors
    /// The reason as text for people, such as "no spawner".
    fn health(&self) -> Result<(), String>;

    /// Returns the node with its functions, sorted by name.
    fn node_status(&self) -> NodeStatus;

    /// Returns every function, sorted by name.
    fn functions(&self) -> Vec<FunctionStatus>;

    /// Returns one function with all details; nothing if there is no function of that name.
    fn function(&self, name: &FunctionName) -> Option<FunctionDetail>;

    /// Returns why a function that does not exist cannot run.
    fn unknown(&self, _name: &FunctionName) -> Rejection {
        Rejection::NoSuchFunction
    }

    /// Returns the limits for requests to a function; nothing if it has no version that can run.
    fn bounds(&self, name: &FunctionName) -> Option<Bounds>;

    /// Passes a request to run to the supervisor. If the answer is dropped, an invocation that has not begun and that
    /// no other caller waits for is cancelled.
    fn submit(&self, request: SubmitRequest) -> Answering;

    /// Passes a request to run to the supervisor, and streams its body to a program that serves HTTP.
    fn pass(&self, request: SubmitRequest, body: Incoming) -> PassedOn;

    /// Requests the end of an invocation: [`Answer::Done`] or [`Answer::NotFound`].
    fn cancel(&self, id: InvocationId) -> Answering;

    /// Enables or disables a function: [`Answer::Done`] or [`Answer::NotFound`].
    fn set_enabled(&self, name: &FunctionName, enabled: bool) -> Answering;

    /// Returns an invocation with its attempts, whether it is in memory or only in the history.
    fn invocation(&self, id: InvocationId) -> Pending<Result<Option<InvocationView>, Failure>>;

    /// Returns a future that resolves when the invocation has ended and its end can be read, or when fnd stops. Returns
    /// nothing if the invocation is not in memory: then it has ended or never existed.
    fn ended(&self, id: InvocationId) -> Option<Pending<()>>;

    /// Resolves when the function's status file contains all that has happened to the function so far.
    fn status_written(&self, name: &FunctionName) -> Pending<()>;

    /// Returns a page of the history, newest first, without details of attempts.
    fn invocations(&self, filter: InvocationFilter) -> Pending<Result<InvocationList, Failure>>;

    /// Queues the payload of an invocation again, as [`Trigger::Replay`], or as [`Trigger::Redrive`] if it is a dead
    /// letter.
    fn repeat(&self, id: InvocationId, trigger: Trigger) -> Pending<Result<Repeated, Failure>>;

    /// Returns a page of the dead letters, newest first.
    fn dead_letters(&self, filter: InvocationFilter) -> Pending<Result<DeadLetterList, Failure>>;

    /// Returns a dead letter; nothing if no dead letter has that id.
    fn dead_letter(&self, id: InvocationId) -> Pending<Result<Option<DeadLetter>, Failure>>;

    /// Removes an invocation from the dead letters, durably; returns whether it was one. Its record stays in the
    /// history.
    fn drop_dead_letter(&self, id: InvocationId) -> Pending<Result<bool, Failure>>;

    /// Returns a copy of the ledger in its present state: its size and its bytes.
    fn backup(&self) -> Pending<Result<(u64, Pieces), Failure>>;

    /// Returns the result of the last attempt; nothing if it has no result, or if the result was deleted.
    fn result(&self, id: InvocationId) -> Pending<Result<Option<RunResult>, Failure>>;

    /// Returns kept output and, with [`LogQuery::follow`], the output after it without a gap. Following one invocation
    /// ends with its end; following anything else ends with the receiver.
    fn logs(&self, query: LogQuery) -> Pending<Result<LogLines, Failure>>;

    /// Returns events. The stream ends with the receiver; without [`StreamQuery::follow`] it ends after the kept
    /// events.
    fn stream(&self, query: StreamQuery) -> mpsc::Receiver<StreamEvent>;

    /// Returns all metrics as text.
    fn metrics(&self, form: Form) -> Pending<String>;

    /// Returns the present state of every function that matches the filter, and then each function that changes; ends
    /// with the receiver.
    fn watch(&self, filter: FunctionFilter) -> Changes;

    /// Reads configuration and functions again, and waits until every difference is applied or refused.
    fn reload(&self, accept_empty: bool) -> Pending<Result<ReloadReport, Failure>>;

    /// Checks a file as if it were in the functions directory; the file is neither run nor kept.
    fn validate(&self, request: ValidateRequest) -> Pending<Result<ValidateReport, Failure>>;

    /// Accepts no new work from now on; resolves when nothing runs any more. Calling it twice has the same effect as
    /// once.
    fn drain(&self) -> oneshot::Receiver<()>;

    /// Returns the runtimes, sorted by id.
    fn runtimes(&self) -> Vec<RuntimeSummary>;

    /// Returns the sizes, smallest first.
    fn sizes(&self) -> Vec<SizeView>;

    /// Returns the effective configuration: every key of `fnd.toml` that has an effect, defaults filled in.
    fn config(&self) -> serde_json::Value;
}

/// The result of a request whose body is passed on: the head of the answer, or the end of the run if there is no head.
pub struct PassedOn {
    /// The head, with the body to come; if the sender is dropped, `answer` says what happened.
    pub head: oneshot::Receiver<Headed>,
    /// The end of the run.
    pub answer: Answering,
    /// Must be kept until the head comes; dropping it reports that the caller has left.
    pub caller: Box<dyn std::any::Any>,
}

/// The beginning of an answer that is passed on.
pub enum Headed {
    /// The head, with the body to come.
    Answer(InvocationId, Box<Response<Passing>>),
    /// There is no head: the body of the request is larger than its limit.
    TooLarge(InvocationId),
}

/// A file in pieces; the channel closes after the last piece, or when the file could not be read further.
pub type Pieces = mpsc::Receiver<Vec<u8>>;

/// The result of a request to run an invocation again.
#[derive(Debug)]
pub enum Repeated {
    /// There is no such invocation.
    Unknown,
    /// The invocation has not ended.
    NotEnded(FunctionName, State),
    /// The invocation is no dead letter.
    NotDead(FunctionName, State),
    /// The payload of the invocation was not kept.
    NotKept(FunctionName),
    /// The run was requested.
    Asked(FunctionName, Answering),
}

/// The changes of functions.
pub type Changes = mpsc::Receiver<FunctionChange>;

/// Which functions to list or watch. An absent field does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FunctionFilter {
    /// Only this function.
    pub function: Option<FunctionName>,
    /// Only functions with all of these labels, key and value.
    pub labels: Vec<(String, String)>,
}

impl FunctionFilter {
    /// Returns whether a function matches. The labels of a function that is gone are unknown, so only its name counts.
    #[must_use]
    pub fn takes(&self, name: &FunctionName, now: Option<&FunctionStatus>) -> bool {
        let named = self.function.as_ref().is_none_or(|function| function == name);
        let labelled = |now: &FunctionStatus| {
            self.labels
                .iter()
                .all(|(key, value)| now.labels.get(key) == Some(value))
        };
        named && now.is_none_or(labelled)
    }
}

/// The limits for requests to a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// `limits.body`: most bytes of a payload.
    pub body: u64,
    /// `limits.timeout`: a caller may only shorten it.
    pub timeout: Option<Duration>,
    /// The mode of the function.
    pub mode: Mode,
    /// Whether bodies can be passed on as a stream: only to a program that serves HTTP, and only without retries.
    pub passes: bool,
}

/// A request to run, checked as far as the control server can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitRequest {
    /// The function.
    pub function: FunctionName,
    /// The payload.
    pub payload: Payload,
    /// Whether the caller waits for the end; otherwise the caller is answered when the invocation is on disk.
    pub wait: bool,
    /// A shorter timeout.
    pub timeout: Option<Duration>,
    /// Earliest start, Unix milliseconds.
    pub not_before_ms: Option<u64>,
    /// The invocation is skipped if it has not started by then, Unix milliseconds.
    pub expires_ms: Option<u64>,
    /// Of the waiting invocations, those with greater priority begin first.
    pub priority: i8,
    /// A retry with the same key is the same invocation, as long as that is in the history.
    pub idempotency_key: Option<Arc<str>>,
}

/// Which invocations to list. An absent field does not restrict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvocationFilter {
    /// Invocations of this function.
    pub function: Option<FunctionName>,
    /// Invocations in this state.
    pub state: Option<State>,
    /// Invocations whose last attempt has this reason.
    pub reason: Option<Reason>,
    /// Invocations with this trigger.
    pub trigger: Option<Trigger>,
    /// Invocations whose last attempt ran a version that begins with this text, in lower-case hexadecimal.
    pub version: Option<String>,
    /// Invocations whose message contains this text, ignoring the case of ASCII letters.
    pub text: Option<String>,
    /// Accepted at this time or later, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Accepted before this time, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Most invocations of the page, at least 1.
    pub limit: u32,
    /// The cursor: only invocations after this one in the list, which are older.
    pub after: Option<InvocationId>,
}

/// Which lines of output to return. An absent field does not restrict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogQuery {
    /// Lines of this function.
    pub function: Option<FunctionName>,
    /// Lines of this invocation.
    pub invocation: Option<InvocationId>,
    /// Lines that arrived at this time or later, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Lines that arrived before this time, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Most kept lines, at least 1: the newest that match. Lines that arrive while following do not count.
    pub limit: u32,
    /// Whether to continue with new lines.
    pub follow: bool,
}
