//! Requests of routes about invocations: to run something, to wait for it, to read the history.

use crate::backend::{Answering, Failure, NotStored, PassedOn, Pending, Repeated};
use crate::http::paced::Paced;
use fnd_core::api::{DeadLetter, DeadLetterList, InvocationList, InvocationView};
use fnd_core::records::outcome::Trigger;
use fnd_core::records::{InvocationFilter, RunResult};
use fnd_core::supervisor::Submit;
use fnd_wire::ids::{FunctionName, InvocationId};
use hyper::header::HeaderValue;

pub trait InvocationBackend {
    /// Gives a request to run its id and passes it to the supervisor. If the answer is dropped, an invocation that has
    /// not begun and that no other caller waits for is cancelled.
    fn submit(&self, submit: Submit) -> Answering;

    /// Gives a request to run its id, passes it to the supervisor, and streams its body to a program that serves HTTP.
    fn pass(&self, submit: Submit, body: Paced, upgrade: Option<HeaderValue>) -> PassedOn;

    /// Requests the end of an invocation: `Answer::Done` or `Answer::NotFound`. One that waits is not ended while that
    /// cannot be stored (`Answer::StoreFailed`): the next fnd would run it.
    fn cancel(&self, id: InvocationId) -> Answering;

    /// Returns an invocation with its attempts, whether it is in memory or only in the history.
    fn invocation(&self, id: InvocationId) -> Pending<Result<Option<InvocationView>, Failure>>;

    /// Returns the function of an invocation; nothing if there is no such invocation.
    fn function_of(&self, id: InvocationId) -> Pending<Result<Option<FunctionName>, Failure>>;

    /// Returns a future that resolves when the invocation has ended and its end can be read, or when fnd stops. Returns
    /// nothing if the invocation is not in memory: then it has ended or never existed.
    fn ended(&self, id: InvocationId) -> Option<Pending<()>>;

    /// Returns a page of the history, newest first, without details of attempts.
    fn invocations(&self, filter: InvocationFilter) -> Pending<Result<InvocationList, Failure>>;

    /// Returns the result of the last attempt; nothing if it has no result, or if the result was deleted.
    fn result(&self, id: InvocationId) -> Pending<Result<Option<RunResult>, Failure>>;

    /// Queues the payload of an invocation again, as [`Trigger::Replay`], or as [`Trigger::Redrive`] if it is a dead
    /// letter.
    fn repeat(&self, id: InvocationId, trigger: Trigger) -> Pending<Result<Repeated, Failure>>;

    /// Returns a page of the dead letters, newest first.
    fn dead_letters(&self, filter: InvocationFilter) -> Pending<Result<DeadLetterList, Failure>>;

    /// Returns a dead letter; nothing if no dead letter has that id.
    fn dead_letter(&self, id: InvocationId) -> Pending<Result<Option<DeadLetter>, Failure>>;

    /// Removes an invocation from the dead letters, durably; returns whether it was one. Its record stays in the
    /// history.
    fn drop_dead_letter(&self, id: InvocationId) -> Pending<Result<Result<bool, NotStored>, Failure>>;
}
