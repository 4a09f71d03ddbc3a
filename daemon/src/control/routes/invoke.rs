//! `POST /v1/functions/F/invoke` runs a function and answers with the result; `POST /v1/functions/F/invocations` queues
//! a run; any method of `/v1/functions/F/http/PATH` runs the function with that request.
//!
//! The body is the payload, byte for byte, with its content type; the headers carry the other settings. For a program
//! that serves HTTP both bodies are passed on as streams, unless the request may be retried.

use super::{ControlRoute, OPERATOR};
use crate::backend::{EventOrigin, EventSender, PageBounds};
use crate::control::call::ControlCall;
use crate::control::limits::KEY_MAX;
use crate::http::headers::given;
use crate::http::query::{INSTANT, instant, wrong};
use crate::http::request::{RequestBody, bytes_of};
use crate::http::response::{Answered, Refusal, refuse};
use crate::invoke::events::accept;
use crate::invoke::payload::of_headers;
use crate::invoke::refusal::rejected;
use crate::invoke::run::{OneTimeSignature, RunRequest, run_and_answer};
use fnd_core::api::FunctionDetail;
use fnd_core::api::problem::Code;
use fnd_core::data::Data;
use fnd_core::idempotency::{IdempotencyKey, KeyOwner};
use fnd_core::records::outcome::Trigger;
use fnd_core::records::protocol::HttpRequest;
use fnd_core::run::{FunctionState, Rejection, Submit};
use fnd_manifest::function::Mode;
use fnd_wire::ids::FunctionName;
use fnd_wire::units::{parse_duration, print_duration};
use hyper::header::HeaderName;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Header `Fnd-Saved`: the caller has just saved the file of the function, and waits for the edit.
pub(super) static SAVED: HeaderName = HeaderName::from_static("fnd-saved");
static PRIORITY: HeaderName = HeaderName::from_static("fnd-priority");
static AT: HeaderName = HeaderName::from_static("fnd-at");
static EXPIRES: HeaderName = HeaderName::from_static("fnd-expires");
static TIMEOUT: HeaderName = HeaderName::from_static("fnd-timeout");
static CONTEXT: HeaderName = HeaderName::from_static("fnd-context");
static KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(super) static ROUTES: &[ControlRoute] = &[
    route!(POST "/v1/functions/{function}/invoke" Function OPERATOR "invoke", run, Some(&["status"])),
    route!(POST "/v1/functions/{function}/invocations" Function OPERATOR "queue", queue),
    route!(GET "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", request, None),
    route!(HEAD "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", request, None),
    route!(POST "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", request, None),
    route!(PUT "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", request, None),
    route!(PATCH "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", request, None),
    route!(DELETE "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", request, None),
    route!(OPTIONS "/v1/functions/{function}/http/{path...}" Function OPERATOR "request", request, None),
    route!(POST "/v1/events" List OPERATOR "emit", publish),
    route!(POST "/publish" List OPERATOR "emit", publish),
];

/// Runs the function now. If the caller leaves, a run that has begun goes on; one that has not begun may be cancelled.
pub(super) async fn run(call: ControlCall) -> Result<Answered, Refusal> {
    let sync = call
        .query
        .get("status", "`sync`", |text| (text == "sync").then_some(()))?;
    let when = if sync.is_some() {
        When::InStatusFile
    } else {
        When::Ended
    };
    submit(call, when, root()).await
}

/// Runs the function now, with method, path and query of the caller's choice.
pub(super) async fn request(call: ControlCall) -> Result<Answered, Refusal> {
    let target = HttpRequest {
        method: call.request.parts.method.to_string(),
        path: format!("/{}", call.place(1)),
        query: call.request.parts.uri.query().unwrap_or_default().to_owned(),
        ..HttpRequest::default()
    };
    submit(call, When::Ended, target).await
}

/// Queues a run; answers when the invocation is on disk.
pub(super) async fn queue(call: ControlCall) -> Result<Answered, Refusal> {
    submit(call, When::Stored, root()).await
}

/// When the caller is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    /// When the queued invocation is on disk.
    Stored,
    /// When the invocation ends.
    Ended,
    /// When the function's status file contains the end.
    InStatusFile,
}

/// Returns the request that a function gets by default. The path of this API belongs to fnd, so the function is called at
/// its root.
fn root() -> HttpRequest {
    HttpRequest {
        method: "POST".to_owned(),
        path: "/".to_owned(),
        ..HttpRequest::default()
    }
}

async fn submit(call: ControlCall, when: When, target: HttpRequest) -> Result<Answered, Refusal> {
    let function = call.function()?;
    let mut bounds = call.backend.bounds(&function);
    // Only a caller who has just saved the file waits for the edit (header `fnd-saved`). All others get the release that serves,
    // if the function is known: an edit must not hold them up.
    if bounds.is_none() || call.request.header(&SAVED)?.is_some() {
        if !call.backend.saved(&function).await {
            let reason = format!("`{function}` was just saved and is being checked");
            return Err(rejected(&Rejection::Unavailable { reason }, &function));
        }
        bounds = call.backend.bounds(&function);
    }
    let Some(bounds) = bounds else {
        return Err(cannot_run(&call, &function));
    };
    if bounds.mode == Mode::Script && target != root() {
        let detail = format!("`{function}` is a script, which gets only the body of a request: POST to .../invoke");
        return Err(refuse(Code::BadRequest, detail));
    }
    let mut submit = read_headers(&call, function, &bounds, (when != When::Stored, target))?;
    let key = read_key(&call)?;
    // A call with a key may get the answer of an earlier run, and a program that serves HTTP has statuses that its record does not
    // have: such calls make an entry.
    let has_end = when != When::Stored && key.is_none() && !bounds.passes;
    let is_in_record = has_end && !call.backend.audit.keeps_runs();
    submit.caller = is_in_record.then(|| Arc::new(call.caller.clone()));
    let run_request = RunRequest {
        request: &call.request,
        route: None,
        submit,
        bounds,
        body: RequestBody::OfKnown,
        // With an idempotency key fnd reads the whole body first, because the key covers the body.
        needs_body: key.is_some() || when == When::InStatusFile,
        decide: |submit: &Submit, body: &Data| {
            // The submission comes next, and nothing is waited for until then.
            call.is_in_record.set(is_in_record);
            let key = key.map(|key| of_caller(&call, key, (submit, body)));
            Ok(ControlFlow::Continue(key.transpose()?))
        },
        signature: OneTimeSignature(None),
        in_status_file: when == When::InStatusFile,
    };
    run_and_answer(&call.backend, run_request).await
}

/// Returns the refusal for a function that has no version that can run.
fn cannot_run(call: &ControlCall, function: &FunctionName) -> Refusal {
    match call.backend.function(function) {
        // A build ends by itself, so the caller may try again; an invalid file waits for a person.
        Some(FunctionDetail { status, .. }) if status.state == FunctionState::Building => {
            let reason = "its dependencies are being installed".to_owned();
            rejected(&Rejection::Unavailable { reason }, function)
        }
        Some(detail) => {
            let error = detail
                .status
                .error
                .unwrap_or_else(|| "it is not installed yet".to_owned());
            rejected(&Rejection::Invalid { error }, function)
        }
        None => rejected(
            &call.backend.daemon.state.borrow().supervisor.unknown(function),
            function,
        ),
    }
}

fn read_headers(
    call: &ControlCall,
    function: FunctionName,
    bounds: &PageBounds,
    (wait, target): (bool, HttpRequest),
) -> Result<Submit, Refusal> {
    let in_range = |text: &str| text.parse().ok().filter(|priority| (-100..=100).contains(priority));
    let form = ("Fnd-Priority", "a number from -100 to 100");
    let priority = read(call, &PRIORITY, form, in_range)?;
    let not_before_ms = read(call, &AT, ("fnd-at", INSTANT), instant)?;
    let expires_ms = read(call, &EXPIRES, ("fnd-expires", INSTANT), instant)?;
    // A header without effect is refused and not ignored, because its sender relies on it.
    if wait && (not_before_ms.is_some() || expires_ms.is_some() || priority.is_some()) {
        let detail = "`Fnd-At`, `Fnd-Expires` and `Fnd-Priority` are for queued invocations: POST to .../invocations";
        return Err(refuse(Code::BadRequest, detail));
    }
    let mut submit = of_headers(&call.request, function, Trigger::Manual)?;
    submit.payload.context = read_context(call)?;
    submit.payload.request = Some(Arc::new(HttpRequest {
        headers: given(&call.request.parts.headers, &["authorization"])?,
        ..target
    }));
    Ok(Submit {
        wait,
        timeout: read_timeout(call, bounds)?,
        not_before_ms,
        expires_ms,
        priority: priority.unwrap_or(0),
        calling: call.granted.as_ref().map(|granted| granted.calling(call)).transpose()?,
        ..submit
    })
}

/// Returns the value of a header; absent if the request has no such header. The refusal of a wrong value calls the header
/// `shown`, and names the right `form`.
fn read<T>(
    call: &ControlCall,
    name: &HeaderName,
    (shown, form): (&str, &str),
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Refusal> {
    let text = call.request.header(name)?;
    text.map(|text| parse(text).ok_or_else(|| wrong(shown, form, text)))
        .transpose()
}

/// Returns `KEPTN_CONTEXT`, which is JSON.
fn read_context(call: &ControlCall) -> Result<Option<Arc<str>>, Refusal> {
    let Some(text) = call.request.header(&CONTEXT)? else {
        return Ok(None);
    };
    // Only checked: the function gets the text as its caller wrote it, because parsing could change large numbers.
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Ok(_) => Ok(Some(text.into())),
        Err(error) => Err(refuse(
            Code::BadJson,
            format!("the header `Fnd-Context` is not JSON: {error}"),
        )),
    }
}

/// Returns a caller's timeout: above zero, and not longer than the function's, because a longer one would have no
/// effect.
fn read_timeout(call: &ControlCall, bounds: &PageBounds) -> Result<Option<Duration>, Refusal> {
    let above_zero = |text: &str| parse_duration(text).ok().filter(|timeout| !timeout.is_zero());
    let form = ("Fnd-Timeout", "a duration such as `30s`");
    let Some(timeout) = read(call, &TIMEOUT, form, above_zero)? else {
        return Ok(None);
    };
    match bounds.timeout {
        Some(limit) if timeout > limit => Err(refuse(
            Code::BadRequest,
            format!(
                "`Fnd-Timeout` can only shorten: {} is longer than {} (limits.timeout)",
                print_duration(timeout),
                print_duration(limit)
            ),
        )),
        _ => Ok(Some(timeout)),
    }
}

fn read_key(call: &ControlCall) -> Result<Option<&str>, Refusal> {
    let key = call.request.header(&KEY)?;
    match key {
        Some(text) if text.is_empty() || text.len() > KEY_MAX => {
            Err(wrong("Idempotency-Key", &format!("1 to {KEY_MAX} characters"), text))
        }
        key => Ok(key),
    }
}

/// Returns the idempotency key of a request: a key belongs to the calling function, or to the user.
fn of_caller(call: &ControlCall, key: &str, (request, body): (&Submit, &Data)) -> Result<IdempotencyKey, Refusal> {
    // The owner is a part of the key. With the text alone, a guessed key would give out the answer to somebody else's
    // run, or keep that person's request from running.
    let owner = match &call.granted {
        Some(granted) => KeyOwner::Function(granted.function.as_str()),
        None => KeyOwner::User(call.caller.uid),
    };
    let body = bytes_of(body)?;
    let target = request.payload.request.as_deref();
    let target = target.map_or(["", "", ""], |target| [&*target.method, &target.path, &target.query]);
    // The key covers the whole request, so that the same key with another request is refused and does not get a wrong
    // answer.
    let content = target.map(str::as_bytes).into_iter().chain([&*body]);
    Ok(IdempotencyKey::new(owner, key, content))
}

/// `POST /v1/events` and `POST /publish`: CloudEvents for the functions that subscribe to them. The second path is that of
/// Kyma's publisher proxy.
///
/// An event of a caller that may not operate every function reaches only the functions that it may operate: sending it
/// an event runs a function, as invoking it does.
pub(super) async fn publish(call: ControlCall) -> Result<Answered, Refusal> {
    let limit = call.backend.event_bytes_max();
    let body = call.read_body(limit, "the largest limits.body of a subscriber").await?;
    let emitter = call.granted.as_ref().map(|granted| granted.emitter(&call));
    let origin = EventOrigin {
        reach: call.reach.clone(),
        sender: match &call.granted {
            Some(granted) => EventSender::Function(granted.function.clone()),
            None => EventSender::User(call.caller.uid),
        },
    };
    accept(&call.backend, origin, (&call.request, body), emitter.transpose()?).await
}
