//! What the control server needs of the daemon: one trait in plain types of core, so that it is tested with a fake.
//!
//! Everything runs on one `current_thread` runtime, so nothing here is `Send`. What is in memory is answered at once;
//! what is on disk, or takes time, is a [`Pending`]. It decides nothing about HTTP.

use super::connections::Connections;
use crate::buffers::Buffers;
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

/// Something that comes later.
pub type Pending<T> = LocalBoxFuture<'static, T>;

/// An answer of the supervisor that comes later; a dropped sender means that fnd is stopping. Dropped before it came, it
/// says that its caller has left.
pub struct Answering {
    answer: oneshot::Receiver<Answer>,
    caller: Option<Caller>,
}

/// Who waits for an answer, and who hears that nobody does any more.
struct Caller {
    hears: Rc<dyn Leaving>,
    id: InvocationId,
    reply: ReplyTo,
}

/// Hears of callers that left before their answer came.
pub trait Leaving {
    /// A caller that waited for the end of an invocation has gone.
    fn left(&self, id: InvocationId, reply: ReplyTo);
}

impl Answering {
    /// Returns an answer that ends an invocation with its caller: `hears` decides whether it does.
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

/// Lines of output, oldest first; closed after the last one.
pub type LogLines = mpsc::Receiver<LogLine>;

/// Why the daemon could not do what it can usually do (a read of the ledger failed). The text is for the journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);

/// The daemon behind the control socket.
pub trait Backend {
    /// Returns what bodies and answers may take of memory.
    fn buffers(&self) -> Arc<Buffers>;

    /// Returns where the server keeps account of its connections.
    fn connections(&self) -> Rc<Connections>;

    /// Returns why fnd is not able to run functions, or nothing where it is: `GET /healthz`.
    ///
    /// # Errors
    /// In words for people: "no spawner".
    fn health(&self) -> Result<(), String>;

    /// Returns the node with its functions, by name.
    fn node_status(&self) -> NodeStatus;

    /// Returns every function, by name.
    fn functions(&self) -> Vec<FunctionStatus>;

    /// Returns one function with everything known about it; nothing where there is none of that name.
    fn function(&self, name: &FunctionName) -> Option<FunctionDetail>;

    /// Why a function that is not there cannot run.
    fn unknown(&self, _name: &FunctionName) -> Rejection {
        Rejection::NoSuchFunction
    }

    /// Returns what a request to run may ask of a function; nothing where it has no version that could run.
    fn bounds(&self, name: &FunctionName) -> Option<Bounds>;

    /// Hands a request to run to the supervisor. Dropped, the answer cancels what has not begun and nobody else waits for.
    fn submit(&self, request: SubmitRequest) -> Answering;

    /// Hands a request to run to the supervisor whose body goes to a program that serves HTTP as it comes.
    fn pass(&self, request: SubmitRequest, body: Incoming) -> PassedOn;

    /// Asks for the end of an invocation: [`Answer::Done`] or [`Answer::NotFound`].
    fn cancel(&self, id: InvocationId) -> Answering;

    /// Lets a function run, or not: [`Answer::Done`] or [`Answer::NotFound`].
    fn set_enabled(&self, name: &FunctionName, enabled: bool) -> Answering;

    /// Returns an invocation with its attempts, whether it is in memory or only in the history.
    fn invocation(&self, id: InvocationId) -> Pending<Result<Option<InvocationView>, Failure>>;

    /// Returns what resolves when the invocation ends and its end can be read, or fnd stops; nothing where it is not
    /// in memory, which means that it has ended or never was.
    fn ended(&self, id: InvocationId) -> Option<Pending<()>>;

    /// Resolves when the function's status file says all that has happened to it so far.
    fn status_written(&self, name: &FunctionName) -> Pending<()>;

    /// Returns a page of the history, newest first, without details of attempts.
    fn invocations(&self, filter: InvocationFilter) -> Pending<Result<InvocationList, Failure>>;

    /// Queues what an invocation brought once more, as [`Trigger::Replay`], or as [`Trigger::Redrive`] if it is a dead letter.
    fn repeat(&self, id: InvocationId, trigger: Trigger) -> Pending<Result<Repeated, Failure>>;

    /// Returns a page of the dead letters, newest first.
    fn dead_letters(&self, filter: InvocationFilter) -> Pending<Result<DeadLetterList, Failure>>;

    /// Returns a dead letter; nothing where there is none of that id.
    fn dead_letter(&self, id: InvocationId) -> Pending<Result<Option<DeadLetter>, Failure>>;

    /// Takes an invocation off the dead letters, durably; says whether it was one. Its record stays in the history.
    fn drop_dead_letter(&self, id: InvocationId) -> Pending<Result<bool, Failure>>;

    /// Returns a copy of the ledger as it is now: its size and its bytes.
    fn backup(&self) -> Pending<Result<(u64, Pieces), Failure>>;

    /// Returns the result of the last attempt; nothing where it has none (or it was deleted).
    fn result(&self, id: InvocationId) -> Pending<Result<Option<RunResult>, Failure>>;

    /// Returns kept output and, where [`LogQuery::follow`] says so, what comes after it without a gap. Following one
    /// invocation ends with its end, following anything else with the receiver.
    fn logs(&self, query: LogQuery) -> Pending<Result<LogLines, Failure>>;

    /// Returns what happens; ends with the receiver, without [`StreamQuery::follow`] with what is kept.
    fn stream(&self, query: StreamQuery) -> mpsc::Receiver<StreamEvent>;

    /// Returns everything that is measured, as text.
    fn metrics(&self, form: Form) -> Pending<String>;

    /// Returns every function of a filter as it is now, and from then on each that changes; ends with the receiver.
    fn watch(&self, filter: FunctionFilter) -> Changes;

    /// Reads configuration and functions again and waits until every difference is applied or refused.
    fn reload(&self, accept_empty: bool) -> Pending<Result<ReloadReport, Failure>>;

    /// Judges a file as if it lay in the functions directory; it is not run, and nothing is kept of it.
    fn validate(&self, request: ValidateRequest) -> Pending<Result<ValidateReport, Failure>>;

    /// Accepts nothing new from now on; resolves when nothing runs any more. Asking twice is the same as once.
    fn drain(&self) -> oneshot::Receiver<()>;

    /// Returns the runtimes, by id.
    fn runtimes(&self) -> Vec<RuntimeSummary>;

    /// Returns the sizes, smallest first.
    fn sizes(&self) -> Vec<SizeView>;

    /// Returns the effective configuration: every key of `fnd.toml` that has an effect, defaults filled in.
    fn config(&self) -> serde_json::Value;
}

/// What comes of a request whose body is passed on: its answer's head, or where there is none what became of it.
pub struct PassedOn {
    /// The head, with the body to come; a dropped sender means that the other says what happened.
    pub head: oneshot::Receiver<Headed>,
    /// How it ended.
    pub answer: Answering,
    /// Kept until there is a head: dropped, the caller has gone.
    pub caller: Box<dyn std::any::Any>,
}

/// The beginning of an answer that is passed on.
pub enum Headed {
    /// Its head, with the body to come.
    Answer(InvocationId, Box<Response<Passing>>),
    /// There is none: the body of the request is larger than its limit.
    TooLarge(InvocationId),
}

/// A file piece by piece; closed after the last, or where it could not be read to its end.
pub type Pieces = mpsc::Receiver<Vec<u8>>;

/// What became of a request to run something again.
#[derive(Debug)]
pub enum Repeated {
    /// There is no such invocation.
    Unknown,
    /// It has not ended.
    NotEnded(FunctionName, State),
    /// It is no dead letter.
    NotDead(FunctionName, State),
    /// What it brought was not kept.
    NotKept(FunctionName),
    /// It was asked for.
    Asked(FunctionName, Answering),
}

/// Functions as they change.
pub type Changes = mpsc::Receiver<FunctionChange>;

/// Which functions to list or watch. What is absent does not restrict.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FunctionFilter {
    /// This one.
    pub function: Option<FunctionName>,
    /// Those with all of these labels, key and value.
    pub labels: Vec<(String, String)>,
}

impl FunctionFilter {
    /// Says whether a function is meant; of one that is gone nobody knows the labels.
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

/// What a request to run may ask of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// `limits.body`: most bytes of a payload.
    pub body: u64,
    /// `limits.timeout`: a caller may ask for less only.
    pub timeout: Option<Duration>,
    /// How it is run.
    pub mode: Mode,
    /// Whether bodies can be passed on as they come: to a program that serves HTTP, and where nothing is tried again.
    pub passes: bool,
}

/// A request to run, checked as far as the edge can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitRequest {
    /// The function.
    pub function: FunctionName,
    /// What it brings.
    pub payload: Payload,
    /// Whether the caller waits for the end; otherwise it is answered when the invocation is on disk.
    pub wait: bool,
    /// Shorter timeout.
    pub timeout: Option<Duration>,
    /// Not before, Unix milliseconds.
    pub not_before_ms: Option<u64>,
    /// Skipped when not started by then, Unix milliseconds.
    pub expires_ms: Option<u64>,
    /// Among those that wait, greater ones begin first.
    pub priority: i8,
    /// The same again with the same key is the same invocation, as long as that is in the history.
    pub idempotency_key: Option<Arc<str>>,
}

/// Which invocations to list. Absent fields do not restrict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvocationFilter {
    /// Of this function.
    pub function: Option<FunctionName>,
    /// In this state.
    pub state: Option<State>,
    /// With this reason of the last attempt.
    pub reason: Option<Reason>,
    /// With this trigger.
    pub trigger: Option<Trigger>,
    /// Whose last attempt ran a version that begins like this, in lower-case hexadecimal.
    pub version: Option<String>,
    /// With this text in their message, whatever the case of its letters.
    pub text: Option<String>,
    /// Accepted at or after, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Accepted before, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Most of them, at least 1.
    pub limit: u32,
    /// Those after this one in the list, which are older: the cursor.
    pub after: Option<InvocationId>,
}

/// Which lines of output to return. Absent fields do not restrict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogQuery {
    /// Of this function.
    pub function: Option<FunctionName>,
    /// Of this invocation.
    pub invocation: Option<InvocationId>,
    /// Arrived at or after, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Arrived before, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Most kept lines, the newest of those that fit, at least 1; lines that come while following are not counted.
    pub limit: u32,
    /// Whether to go on with what comes.
    pub follow: bool,
}
