//! Translates the end of a run into HTTP (docs/errors-and-reasons.md).

use super::refusal::{about_run, no_function, rejected};
use crate::backend::PassedOn;
use crate::http::body::Body;
use crate::http::headers;
use crate::http::response::{self, Answered, INVOCATION, Refusal, header, internal, name_run};
use crate::http::streaming_body::Headed;
use fnd_core::api::problem::Code;
use fnd_core::api::{InvocationView, Problem};
use fnd_core::records::outcome::{Reason, RunState};
use fnd_core::records::{InvocationRecord, Response, RunResult};
use fnd_core::run::Answer;
use fnd_core::triggers::lambda;
use fnd_core::triggers::route::Route;
use fnd_manifest::function::keys::RouteAnswer;
use fnd_manifest::function::route::HttpPayload;
use fnd_wire::ids::{FunctionName, InvocationId};
use hyper::header::{HeaderMap, LOCATION, UPGRADE};
use hyper::{Method, StatusCode};
use std::sync::Arc;
use tokio::sync::oneshot::error::RecvError;

/// Waits for an answer.
///
/// # Errors
/// [`Code::Unavailable`] if fnd stops before the answer comes.
pub(crate) async fn wait(answering: impl Future<Output = Result<Answer, RecvError>>) -> Result<Answer, Refusal> {
    answering.await.map_err(|_| response::stopping())
}

/// Returns the answer for a caller that requested a run. `route` is the route of the public listener; absent at the API.
///
/// # Errors
/// Every result except a success and an acceptance.
pub(crate) fn of_run(answer: Answer, function: &FunctionName, route: Option<&Route>) -> Result<Answered, Refusal> {
    match answer {
        Answer::Finished(record) => match &record.result {
            Some(result) if is_lambda(route) && record.state == RunState::Succeeded => of_lambda(&record, result),
            result => of_end(&Ended::from(&*record), result.as_ref()),
        },
        Answer::TimedOut { id, message } => {
            let detail = format!("Timeout while processing the function: {message}");
            Err(about_run(Code::Timeout, detail, (function, id), Some(Reason::Timeout)))
        }
        Answer::Queued(id) => queued(id, route),
        Answer::Rejected(rejection) => Err(rejected(&rejection, function)),
        Answer::NotFound => Err(no_function(function)),
        Answer::StoreFailed => {
            let detail = "the invocation could not be stored durably, so it was not accepted; see fnd's journal";
            Err(Problem::new(Code::Unavailable, detail).of(function).into())
        }
        Answer::Done | Answer::Published(_) | Answer::NotPublished { .. } => Err(internal(
            "run",
            &"the supervisor answered a request to run with another answer",
        )),
    }
}

/// The parts of an ended invocation that an answer uses.
pub(crate) struct Ended<'a> {
    id: InvocationId,
    function: &'a FunctionName,
    state: RunState,
    reason: Option<Reason>,
    message: &'a str,
}

impl<'a> From<&'a InvocationRecord> for Ended<'a> {
    fn from(record: &'a InvocationRecord) -> Self {
        Self {
            id: record.id,
            function: &record.function,
            state: record.state,
            reason: record.reason,
            message: &record.message,
        }
    }
}

impl<'a> From<&'a InvocationView> for Ended<'a> {
    fn from(view: &'a InvocationView) -> Self {
        Self {
            id: view.id,
            function: &view.function,
            state: view.state,
            reason: view.reason,
            message: &view.message,
        }
    }
}

/// Returns the answer for the end of an invocation: its result, if it succeeded.
///
/// # Errors
/// Every other end.
pub(crate) fn of_end(ended: &Ended<'_>, result: Option<&RunResult>) -> Result<Answered, Refusal> {
    // A program that serves HTTP reports its own failure with an answer of its own.
    let worded = |result: &RunResult| {
        result
            .response
            .as_deref()
            .is_some_and(|chosen| chosen.status >= Some(500))
    };
    let failed = ended.state == RunState::Failed && ended.reason == Some(Reason::Error);
    if ended.state == RunState::Succeeded || (failed && result.is_some_and(worded)) {
        let mut answer = response::result(result);
        if let Some(chosen) = result.and_then(|result| result.response.as_deref()) {
            let kept = result.and_then(|result| result.kept.as_deref());
            choose((ended.function, ended.id), (chosen, kept), &mut answer);
        }
        name_run(answer.headers_mut(), ended.id, ended.state);
        return Ok(answer);
    }
    let reason = ended.reason.unwrap_or(Reason::Error);
    let code = Code::of_end(reason);
    let detail = match code {
        Code::Timeout => format!("Timeout while processing the function: {}", ended.message),
        _ if ended.message.is_empty() => reason.to_string(),
        _ => ended.message.to_owned(),
    };
    Err(about_run(code, detail, (ended.function, ended.id), Some(reason)))
}

/// Returns whether a route gives its function the event of AWS Lambda.
pub(crate) fn is_lambda(route: Option<&Route>) -> bool {
    route.is_some_and(|route| route.entry.payload == HttpPayload::Lambda)
}

/// Returns the answer that a result in the form of AWS Lambda stands for.
///
/// # Errors
/// [`Code::BadAnswer`] if it stands for none.
fn of_lambda(record: &InvocationRecord, result: &RunResult) -> Result<Answered, Refusal> {
    let ended = Ended::from(record);
    match lambda::read(result) {
        Ok(None) => of_end(&ended, Some(result)),
        Ok(Some(lambda::HttpAnswer { response, body })) => {
            let stated = RunResult {
                json: false,
                data: body,
                response: Some(Arc::new(response)),
                // It says that the body has values of secrets.
                kept: result.kept.clone(),
            };
            of_end(&ended, Some(&stated))
        }
        Err(why) => Err(no_answer(record, result, &why)),
    }
}

/// Returns the answer of a run whose result comes as a stream. It states no end of the run: the run may still fail.
pub(crate) fn of_stream((function, id): (&FunctionName, InvocationId), chosen: &Response, body: Body) -> Answered {
    let mut answer = Answered::new(body);
    choose((function, id), (chosen, None), &mut answer);
    answer.headers_mut().insert(INVOCATION, header(&id.to_string()));
    answer
}

/// Returns the refusal for a result that is no answer, and notes it in the journal.
fn no_answer(record: &InvocationRecord, result: &RunResult, why: &lambda::BadAnswer) -> Refusal {
    let why = match &result.kept {
        None => why.to_string(),
        // The reason may quote the result, so it must come from the one without values of secrets.
        Some(kept) => match lambda::read(kept) {
            Err(masked) => masked.to_string(),
            Ok(_) => "it has the value of a secret where an answer cannot have it".to_owned(),
        },
    };
    let (function, id) = (&record.function, record.id);
    tracing::warn!(
        fnd_function = function.as_str(),
        fnd_invocation = tracing::field::display(id),
        "{function}  its result is no answer to a request: {why}"
    );
    let detail = format!("the result of the function is no answer to a request: {why}");
    about_run(Code::BadAnswer, detail, (function, id), None)
}

/// Returns the answer for a caller whose body was passed on to a program that serves HTTP.
///
/// # Errors
/// If the program gave no answer.
pub(crate) async fn of_passed(passed: PassedOn, function: &FunctionName, method: &Method) -> Result<Answered, Refusal> {
    let PassedOn { head, answer, caller } = passed;
    let headed = tokio::select! {
        // The head of an answer takes precedence over the end of the invocation.
        biased;
        Ok(headed) = head => headed,
        answer = wait(answer) => return of_run(answer?, function, None),
    };
    drop(caller);
    let refused = |id, code, detail: &str| Err(about_run(code, detail, (function, id), Some(Reason::Cancelled)));
    let (id, response) = match headed {
        Headed::Answer(id, response) => (id, response.map(Body::passing)),
        Headed::Switched(id, response) => {
            let protocol = response.headers().get(UPGRADE).cloned();
            let (mut parts, tunnel) = response.into_parts();
            headers::take_out(&mut parts.headers, false);
            headers::put_upgrade(protocol, &mut parts.headers);
            parts.headers.insert(INVOCATION, header(&id.to_string()));
            return Ok(Answered::from_parts(parts, Body::tunnel(tunnel)));
        }
        Headed::TooLarge(id) => return refused(id, Code::TooLarge, "the body is larger than limits.body"),
        Headed::TooSlow(id) => return refused(id, Code::SlowRequest, "the body came too slowly"),
    };
    let (mut parts, body) = response.into_parts();
    // Such answers have no body, but may state its length (RFC 9110, section 8.6): their `Content-Length` stays.
    let has_body = *method != Method::HEAD && parts.status != StatusCode::NOT_MODIFIED;
    headers::take_out(&mut parts.headers, has_body);
    // The state that the invocation will have if the body is complete.
    let state = if parts.status.is_server_error() {
        RunState::Failed
    } else {
        RunState::Succeeded
    };
    name_run(&mut parts.headers, id, state);
    Ok(Answered::from_parts(parts, body))
}

/// Gives an answer the status and the headers that its function chose. A message about them names what is kept.
fn choose(
    (function, id): (&FunctionName, InvocationId),
    (chosen, kept): (&Response, Option<&RunResult>),
    answer: &mut Answered,
) {
    // The protocol allows 200 to 599 only.
    if let Some(status) = chosen.status.and_then(|status| StatusCode::from_u16(status).ok()) {
        *answer.status_mut() = status;
    }
    let mut wrong = headers::put(chosen, answer.headers_mut());
    if let Some(kept) = kept.and_then(|kept| kept.response.as_deref()) {
        wrong = headers::put(kept, &mut HeaderMap::new());
    }
    if !wrong.is_empty() {
        tracing::warn!(
            fnd_function = function.as_str(),
            fnd_invocation = tracing::field::display(id),
            "{function}  its answer has invalid headers, which were left out: {}",
            wrong.join(", ")
        );
    }
}

/// Returns the answer to an accepted, durable invocation.
fn queued(id: InvocationId, route: Option<&Route>) -> Result<Answered, Refusal> {
    let mut response = match route.and_then(|route| route.entry.answer.as_ref()) {
        Some(chosen) => chosen_answer(chosen),
        None => response::with_status(response::json(&fnd_core::api::Queued { id })?, StatusCode::ACCEPTED),
    };
    // A path of the API is not reachable at the public listener.
    if route.is_none() {
        let location = header(&format!("/v1/invocations/{id}"));
        response.headers_mut().insert(LOCATION, location);
    }
    response.headers_mut().insert(INVOCATION, header(&id.to_string()));
    Ok(response)
}

/// Returns the answer that a route defines for queued requests.
fn chosen_answer(chosen: &RouteAnswer) -> Answered {
    let mut answer = response::whole("text/plain; charset=utf-8", chosen.body.clone());
    // The schema allows 200 to 599 only.
    *answer.status_mut() = StatusCode::from_u16(chosen.status).unwrap_or(StatusCode::ACCEPTED);
    let response = Response {
        headers: chosen.headers.clone().into_iter().collect(),
        ..Response::default()
    };
    // A manifest with an invalid header is refused, so no error comes here.
    let _ = headers::put(&response, answer.headers_mut());
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::examples;
    use bytes::Bytes;
    use fnd_core::records::outcome::Skip;
    use fnd_core::run::Rejection;
    use fnd_manifest::function::HttpRoute;
    use fnd_manifest::function::route::Credentials;
    use http_body_util::BodyExt as _;
    use std::time::Duration;

    #[test]
    fn every_reason_has_its_documented_status() {
        for (reason, status) in [
            (Reason::Failed, 500),
            (Reason::Exit(3), 500),
            (Reason::Transient, 500),
            (Reason::Oom, 500),
            (Reason::Signal(11), 500),
            (Reason::Cancelled, 500),
            (Reason::Timeout, 408),
            (Reason::Deadline, 408),
            (Reason::BadAnswer, 502),
            (Reason::ResultTooLarge, 502),
            (Reason::Spawn, 503),
            (Reason::Interrupted, 503),
            // Invocations that were accepted and then skipped; a refusal on arrival is 429.
            (Reason::Skipped(Skip::Overlap), 503),
            (Reason::Skipped(Skip::Disabled), 503),
            (Reason::Skipped(Skip::Expired), 503),
        ] {
            assert_eq!(Code::of_end(reason).status(), status, "{reason}");
        }
    }

    #[test]
    fn a_stream_says_its_run_and_no_end() {
        let record = examples::ended(Reason::Ok);
        let chosen = Response {
            status: Some(404),
            ..Response::default()
        };
        let body = Body::whole(Bytes::from_static(b"part"));
        let answer = of_stream((&record.function, record.id), &chosen, body);
        assert_eq!(answer.status(), 404);
        assert_eq!(answer.headers()["fnd-invocation"], record.id.to_string().as_str());
        assert!(!answer.headers().contains_key("fnd-state"));
    }

    #[tokio::test]
    async fn a_result_in_the_form_of_lambda_is_an_answer_or_502() {
        let entry = HttpRoute {
            payload: HttpPayload::Lambda,
            ..HttpRoute::of_fnd("/a".to_owned(), Credentials::default())
        };
        let route = Route::of_events(entry, 100);
        let of = |data: &'static str, reason| {
            let result = RunResult {
                json: true,
                data: Bytes::from_static(data.as_bytes()),
                response: None,
                kept: None,
            };
            let record = InvocationRecord {
                result: Some(result),
                ..examples::ended(reason)
            };
            of_run(Answer::Finished(Box::new(record)), &route.function, Some(&route))
        };
        let chosen =
            r#"{"statusCode": 404, "headers": {"x-a": 7, "connection": "close"}, "cookies": ["a=1"], "body": "no"}"#;
        let answer = of(chosen, Reason::Ok).unwrap();
        assert_eq!(answer.status(), 404);
        let headers = answer.headers();
        let found = ["x-a", "set-cookie", "content-type", "fnd-state"].map(|name| &headers[name]);
        assert_eq!(found, ["7", "a=1", "application/json", "succeeded"]);
        assert!(!headers.contains_key("connection"));
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "no");
        for (data, reason, status, code, detail) in [
            (
                r#"{"statusCode": 1000}"#,
                Reason::Ok,
                502,
                "bad-answer",
                "the result of the function is no answer to a request: `statusCode` is 1000: expected a number from 200 to 599",
            ),
            // As for every function.
            (chosen, Reason::Error, 500, "function-failed", "in words"),
        ] {
            let problem = of(data, reason).err().unwrap().problem;
            let found = (problem.status, problem.code.as_str(), problem.detail.as_str());
            assert_eq!(found, (status, code, detail));
        }
    }

    #[test]
    fn a_refusal_says_what_became_of_the_run() {
        let function = FunctionName::new("f").unwrap();
        let id = InvocationId(7);
        let ended = |reason: Reason, message: &str| {
            let ended = Ended {
                id,
                function: &function,
                state: reason.final_state(),
                reason: Some(reason),
                message,
            };
            of_end(&ended, None).err().unwrap()
        };
        let skipped = |skip| {
            Answer::Rejected(Rejection::Skipped {
                skip,
                retry_after: Some(Duration::from_millis(1500)),
            })
        };
        let timed_out = Answer::TimedOut {
            id,
            message: "`f` did not end within 180s (limits.timeout)".to_owned(),
        };
        let refused = |answer| of_run(answer, &function, None).err().unwrap();
        for (refusal, status, code, detail, retry_after) in [
            (
                ended(Reason::Exit(3), "no such host"),
                500,
                "function-failed",
                "no such host",
                None,
            ),
            (ended(Reason::Oom, ""), 500, "function-failed", "oom", None),
            (
                ended(Reason::Cancelled, "cancelled"),
                500,
                "cancelled",
                "cancelled",
                None,
            ),
            (ended(Reason::ResultTooLarge, "7 MiB"), 502, "bad-answer", "7 MiB", None),
            (
                refused(timed_out),
                408,
                "timeout",
                "Timeout while processing the function: `f` did not end within 180s (limits.timeout)",
                None,
            ),
            // Rounded up.
            (
                refused(skipped(Skip::QueueFull)),
                429,
                "queue-full",
                "the queue of `f` is full (queue.max)",
                Some(2),
            ),
            (
                refused(skipped(Skip::Disabled)),
                503,
                "disabled",
                "`f` is disabled: `fndctl enable f` enables it",
                None,
            ),
        ] {
            let problem = &refusal.problem;
            assert_eq!(
                (problem.status, problem.code.as_str(), problem.detail.as_str()),
                (status, code, detail)
            );
            assert_eq!(refusal.retry_after, retry_after, "{detail}");
            assert_eq!(problem.function.as_ref(), Some(&function), "{detail}");
        }
    }

    #[tokio::test]
    async fn a_caller_that_waits_while_fnd_stops_is_told() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        drop(sender);
        let refusal = wait(receiver).await.err().unwrap();
        assert_eq!((refusal.problem.status, refusal.retry_after), (503, Some(1)));
    }
}
