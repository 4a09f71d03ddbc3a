//! Runs the function of a request. The fields of [`RunRequest`] have all differences between the API and the public listener.

use super::answer::{is_lambda, of_passed, of_run, of_stream, wait};
use super::payload::{put, put_event};
use crate::backend::{Answering, Backend, LiveCaller, PageBounds};
use crate::clock::unix_ms;
use crate::http::body::Body;
use crate::http::headers::upgrade;
use crate::http::live_answer::LiveBody;
use crate::http::paced::Paced;
use crate::http::request::{IncomingRequest, RequestBody};
use crate::http::response::{Answered, Refusal, refuse, refuse_for_now};
use crate::stores::replays::Replays;
use fnd_core::api::problem::Code;
use fnd_core::data::Data;
use fnd_core::idempotency::IdempotencyKey;
use fnd_core::records::Response;
use fnd_core::records::outcome::RunState;
use fnd_core::run::{Answer, Submit};
use fnd_core::triggers::credentials::ReplayKey;
use fnd_core::triggers::lambda;
use fnd_core::triggers::replays::Replayed;
use fnd_core::triggers::route::Route;
use fnd_wire::ids::Attempt;
use std::ops::ControlFlow;
use std::rc::Rc;

/// A request to run a function. Its headers are checked, its body is not read.
pub(crate) struct RunRequest<'a, D> {
    pub(crate) request: &'a IncomingRequest,
    /// The route of the public listener; absent at the API.
    pub(crate) route: Option<&'a Route>,
    /// The run, without id, data and idempotency key.
    pub(crate) submit: Submit,
    pub(crate) bounds: PageBounds,
    pub(crate) body: RequestBody,
    /// Whether the whole body is needed before the run, although the function could get it as a stream.
    pub(crate) needs_body: bool,
    /// Makes the idempotency key from the body, or the answer if nothing is to run. The body is empty if it is passed on as a
    /// stream.
    pub(crate) decide: D,
    pub(crate) signature: OneTimeSignature<'a>,
    /// Whether the answer waits until the function's status file contains the end.
    pub(crate) in_status_file: bool,
}

/// The idempotency key of a request, or the answer to a request that runs nothing.
pub(crate) type Decision = ControlFlow<Answered, Option<IdempotencyKey>>;

/// The signature that admitted a request, if a signature admits only one request, also over restarts.
pub(crate) struct OneTimeSignature<'a>(pub(crate) Option<(&'a Replays, ReplayKey)>);

impl OneTimeSignature<'_> {
    /// Remembers the signature; refuses one that was used before.
    pub(crate) async fn use_up(&self) -> Result<(), Refusal> {
        let Some((replays, key)) = self.0 else {
            return Ok(());
        };
        let admitted = replays.admit(key, unix_ms() / 1000).await;
        admitted.map_err(|refused| match refused {
            Replayed::Before => refuse(
                Code::Replayed,
                "a request with this signature and this time was admitted before",
            ),
            Replayed::Full => refuse_for_now(Code::Unavailable, "too many signed requests are remembered"),
        })
    }

    /// Forgets the signature: nothing ran, so the sender may try again with it.
    pub(crate) fn forget(&self) {
        if let Some((replays, key)) = self.0 {
            replays.forget(key);
        }
    }
}

/// Runs the function of a request, and returns its answer. If the caller leaves, a run that has begun goes on; one that
/// has not begun may be cancelled.
///
/// # Errors
/// Every answer of fnd itself, except an acceptance.
pub(crate) async fn run_and_answer<D>(backend: &Backend, run: RunRequest<'_, D>) -> Result<Answered, Refusal>
where
    D: FnOnce(&Submit, &Data) -> Result<Decision, Refusal>,
{
    let (request, mut submit, bounds) = (run.request, run.submit, run.bounds);
    let function = submit.function.clone();
    let limit = (bounds.body, "limits.body");
    let is_event = is_lambda(run.route);
    // The function gets this body as a stream while it runs.
    if bounds.passes && submit.wait && !run.needs_body && !matches!(run.body, RequestBody::Read(_)) {
        if let ControlFlow::Break(skipped) = (run.decide)(&submit, &Data::from(Vec::new()))? {
            return Ok(skipped);
        }
        let body = request.take_body(limit)?;
        // At the API a body may take any time.
        let body = Paced::new(body, run.route.map(|_| request.pace));
        let passed = backend.pass(submit, body, upgrade(&request.parts.headers));
        return of_passed(passed, &function, &request.parts.method).await;
    }
    let is_strangers = matches!(run.body, RequestBody::OfStranger(_));
    let data = request.read_body(&backend.buffers(), run.body, limit).await?;
    // A body that was read for a signature may be as large as the largest limit of the host's routes.
    if data.size() > bounds.body {
        return Err(refuse(Code::TooLarge, "the body is larger than limits.body"));
    }
    match (run.decide)(&submit, &data)? {
        ControlFlow::Break(skipped) => return Ok(skipped),
        ControlFlow::Continue(key) => submit.idempotency_key = key,
    }
    if is_event {
        // The event names its invocation.
        submit.id = backend.next_id();
        put_event(&mut submit, data, (&backend.buffers(), is_strangers)).await?;
    } else {
        put(&mut submit.payload, data, bounds.mode)?;
    }
    // This is the last step before the submission. So a request that was refused earlier may come again with its signature.
    run.signature.use_up().await?;
    let answer = if is_event {
        // Boxed, because each call is moved with the largest future that it may wait for.
        match Box::pin(submit_event(backend, submit)).await? {
            ControlFlow::Continue(answer) => answer,
            ControlFlow::Break(streamed) => return Ok(streamed),
        }
    } else {
        wait(backend.submit(submit)).await?
    };
    if matches!(answer, Answer::Rejected(_) | Answer::StoreFailed) {
        run.signature.forget();
    }
    if run.in_status_file && matches!(answer, Answer::Finished(_) | Answer::TimedOut { .. }) {
        // After a timeout the supervisor answers before the invocation has ended.
        if let Answer::TimedOut { id, .. } = answer
            && let Some(ended) = backend.ended(id)
        {
            ended.await; // or fnd stops
        }
        backend.status_written(&function).await;
    }
    of_run(answer, &function, run.route)
}

/// Submits a run with an event. Returns its end, or the answer where its result comes as a stream.
async fn submit_event(backend: &Backend, submit: Submit) -> Result<ControlFlow<Answered, Answer>, Refusal> {
    let (id, function, waits) = (submit.id, submit.function.clone(), submit.wait);
    let (caller, mut answering) = backend.submit_live(submit);
    let response = tokio::select! {
        biased;
        // The end of a run has the whole answer.
        answer = wait(&mut answering) => return Ok(ControlFlow::Continue(answer?)),
        begun = caller.answer.head(head), if waits => begun,
    };
    let body = live_body(&caller, answering);
    Ok(ControlFlow::Break(of_stream((&function, id), &response, body)))
}

/// Reads the head of a result that comes as a stream. Without a valid one, the end of the run says what is wrong.
fn head(stated: &Response, bytes: &[u8]) -> Option<(Response, usize)> {
    lambda::begun(stated, bytes).ok().flatten()
}

/// Returns the body of a stream behind its head.
fn live_body(caller: &LiveCaller, answering: Answering) -> Body {
    let end = async move {
        match answering.await {
            Ok(Answer::Finished(record)) if record.state == RunState::Succeeded => {
                Some((Attempt(record.attempts), record.result?))
            }
            _ => None,
        }
    };
    Body::live(LiveBody::new(Rc::clone(&caller.answer), end))
}
