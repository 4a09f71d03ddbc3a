//! `POST /v1/functions/F/invoke` runs a function and answers with the result; `POST /v1/functions/F/invocations` queues
//! a run; any method of `/v1/functions/F/http/PATH` runs the function with that request.
//!
//! The body is the payload, byte for byte, with its content type; the headers carry the other settings. For a program
//! that serves HTTP both bodies are passed on as streams, unless the request may be retried.

use crate::backend::PageBounds;
use crate::control::call::ControlCall;
use crate::control::limits::KEY_MAX;
use crate::http::headers::{given, joined, upgrade};
use crate::http::paced::Paced;
use crate::http::query::{INSTANT, instant, wrong};
use crate::http::response::{Answered, Refusal, internal, refuse};
use crate::invoke::answer::{of_passed, of_run, wait};
use crate::invoke::payload::put;
use crate::invoke::refusal::rejected;
use fnd_core::api::FunctionDetail;
use fnd_core::api::problem::Code;
use fnd_core::data::Data;
use fnd_core::idempotency::{IdempotencyKey, KeyOwner};
use fnd_core::records::Payload;
use fnd_core::records::outcome::Trigger;
use fnd_core::records::protocol::HttpRequest;
use fnd_core::supervisor::{Answer, FunctionState, Rejection, Submit};
use fnd_core::trace::Trace;
use fnd_manifest::function::Mode;
use fnd_wire::ids::{FunctionName, InvocationId};
use fnd_wire::units::{parse_duration, print_duration};
use std::sync::Arc;
use std::time::Duration;

/// Runs the function now. If the caller leaves, a run that has begun goes on; one that has not begun may be cancelled.
pub(super) async fn run(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["status"])?;
    let sync = query.get("status", "`sync`", |text| (text == "sync").then_some(()))?;
    let when = if sync.is_some() {
        When::InStatusFile
    } else {
        When::Ended
    };
    submit(call, when, InvokeTarget::default()).await
}

/// Runs the function now, with method, path and query of the caller's choice.
pub(super) async fn request(call: ControlCall) -> Result<Answered, Refusal> {
    let target = InvokeTarget {
        method: call.request.parts.method.to_string(),
        path: format!("/{}", call.places.get(1).map_or("", String::as_str)),
        query: call.request.parts.uri.query().unwrap_or_default().to_owned(),
    };
    submit(call, When::Ended, target).await
}

/// Queues a run; answers when the invocation is on disk.
pub(super) async fn queue(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    submit(call, When::Stored, InvokeTarget::default()).await
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

/// The request that the function gets. The path of this API belongs to fnd: by default a function is called at its
/// root.
#[derive(PartialEq, Eq)]
struct InvokeTarget {
    method: String,
    path: String,
    query: String,
}

impl Default for InvokeTarget {
    fn default() -> Self {
        Self {
            method: "POST".to_owned(),
            path: "/".to_owned(),
            query: String::new(),
        }
    }
}

async fn submit(call: ControlCall, when: When, target: InvokeTarget) -> Result<Answered, Refusal> {
    let function = call.function()?;
    let mut bounds = call.backend.bounds(&function);
    // Others who call a known function get the release that serves: an edit must not hold up its callers.
    if bounds.is_none() || call.request.header("fnd-saved")?.is_some() {
        if !call.backend.saved(&function).await {
            let reason = format!("`{function}` was just saved and is being checked");
            return Err(rejected(&Rejection::Unavailable { reason }, &function));
        }
        bounds = call.backend.bounds(&function);
    }
    let Some(bounds) = bounds else {
        return Err(cannot_run(&call, &function));
    };
    if bounds.mode == Mode::Script && target != InvokeTarget::default() {
        let detail = format!("`{function}` is a script, which gets only the body of a request: POST to .../invoke");
        return Err(refuse(Code::BadRequest, detail));
    }
    let mut request = read_headers(&call, function, &bounds, (when != When::Stored, target))?;
    let key = read_key(&call)?;
    // A body that is passed on is answered while the function runs.
    // With an idempotency key fnd reads the whole body first, because the key covers the body.
    if bounds.passes && when == When::Ended && key.is_none() {
        return pass(&call, request, bounds.body).await;
    }
    let data = call.read_body(bounds.body, "limits.body").await?;
    request.idempotency_key = key.map(|key| of_caller(&call, key, (&request, &data))).transpose()?;
    put(&mut request.payload, data, bounds.mode)?;
    let function = request.function.clone();
    let answer = wait(call.backend.submit(request)).await?;
    if when == When::InStatusFile {
        in_status_file(&call, &answer, &function).await;
    }
    of_run(answer, &function)
}

/// Waits until the function's status file contains the end of an invocation.
async fn in_status_file(call: &ControlCall, answer: &Answer, function: &FunctionName) {
    match answer {
        Answer::Finished(_) => {}
        // The caller is answered before the invocation has ended.
        Answer::TimedOut { id, .. } => {
            if let Some(ended) = call.backend.ended(*id) {
                let _ = ended.await; // it has ended, or fnd stops
            }
        }
        Answer::Queued(_)
        | Answer::Rejected(_)
        | Answer::NotFound
        | Answer::StoreFailed
        | Answer::Published(_)
        | Answer::NotPublished { .. }
        | Answer::Done => return,
    }
    call.backend.status_written(function).await;
}

/// Passes the body on to the program as a stream, and its answer to the caller.
async fn pass(call: &ControlCall, request: Submit, limit: u64) -> Result<Answered, Refusal> {
    call.request.check_length(limit, "limits.body")?;
    let Some(body) = call.request.body.take() else {
        return Err(refuse(
            Code::BadRequest,
            "the connection ended before the whole body had come",
        ));
    };
    let function = request.function.clone();
    let upgrade = upgrade(&call.request.parts.headers);
    let passed = call.backend.pass(request, Paced::new(body, None), upgrade);
    of_passed(passed, &function, &call.request.parts.method).await
}

/// Returns the refusal for a function that has no version that can run.
fn cannot_run(call: &ControlCall, function: &FunctionName) -> Refusal {
    match call.backend.function(function) {
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
        None => rejected(&call.backend.unknown(function), function),
    }
}

fn read_headers(
    call: &ControlCall,
    function: FunctionName,
    bounds: &PageBounds,
    (wait, target): (bool, InvokeTarget),
) -> Result<Submit, Refusal> {
    let priority = read_priority(call)?;
    let (not_before_ms, expires_ms) = (read_instant(call, "fnd-at")?, read_instant(call, "fnd-expires")?);
    if wait && (not_before_ms.is_some() || expires_ms.is_some() || priority.is_some()) {
        let detail = "`Fnd-At`, `Fnd-Expires` and `Fnd-Priority` are for queued invocations: POST to .../invocations";
        return Err(refuse(Code::BadRequest, detail));
    }
    let payload = Payload {
        content_type: call
            .request
            .header("content-type")?
            .filter(|text| !text.is_empty())
            .map(str::to_owned),
        context: read_context(call)?,
        trace: Trace::of(|name| joined(&call.request.parts.headers, name)),
        request: Some(Arc::new(HttpRequest {
            method: target.method,
            path: target.path,
            query: target.query,
            headers: given(&call.request.parts.headers, &["authorization"])?,
            ..HttpRequest::default()
        })),
        ..Payload::default()
    };
    // The backend gives the id: it tells when the request was accepted, and its body is still to come.
    let no_id = InvocationId(0);
    Ok(Submit {
        payload,
        wait,
        timeout: read_timeout(call, bounds)?,
        not_before_ms,
        expires_ms,
        priority: priority.unwrap_or(0),
        calling: call.granted.as_ref().map(|granted| granted.calling(call)).transpose()?,
        ..Submit::new(no_id, function, Trigger::Manual)
    })
}

fn read_instant(call: &ControlCall, name: &'static str) -> Result<Option<u64>, Refusal> {
    let text = call.request.header(name)?;
    text.map(|text| instant(text).ok_or_else(|| wrong(name, INSTANT, text)))
        .transpose()
}

/// Returns `KEPTN_CONTEXT`, which is JSON.
fn read_context(call: &ControlCall) -> Result<Option<Arc<str>>, Refusal> {
    let Some(text) = call.request.header("fnd-context")? else {
        return Ok(None);
    };
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
    let Some(text) = call.request.header("fnd-timeout")? else {
        return Ok(None);
    };
    let timeout = parse_duration(text).ok().filter(|timeout| !timeout.is_zero());
    let timeout = timeout.ok_or_else(|| wrong("Fnd-Timeout", "a duration such as `30s`", text))?;
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

/// Returns a priority from -100 to 100; nothing if the header is absent.
fn read_priority(call: &ControlCall) -> Result<Option<i8>, Refusal> {
    let Some(text) = call.request.header("fnd-priority")? else {
        return Ok(None);
    };
    let priority = text.parse().ok().filter(|priority| (-100..=100).contains(priority));
    priority
        .map(Some)
        .ok_or_else(|| wrong("Fnd-Priority", "a number from -100 to 100", text))
}

fn read_key(call: &ControlCall) -> Result<Option<&str>, Refusal> {
    let key = call.request.header("idempotency-key")?;
    match key {
        Some(text) if text.is_empty() || text.len() > KEY_MAX => {
            Err(wrong("Idempotency-Key", &format!("1 to {KEY_MAX} characters"), text))
        }
        key => Ok(key),
    }
}

/// Returns the idempotency key of a request: a key belongs to the calling function, or to the user.
fn of_caller(call: &ControlCall, key: &str, (request, body): (&Submit, &Data)) -> Result<IdempotencyKey, Refusal> {
    let owner = match &call.granted {
        Some(granted) => KeyOwner::Function(granted.function.as_str()),
        None => KeyOwner::User(call.uid),
    };
    let body = body
        .bytes()
        .map_err(|error| internal("read a body from the disk", &error))?;
    let target = request.payload.request.as_deref();
    let target = target.map_or(["", "", ""], |target| [&*target.method, &target.path, &target.query]);
    let content = target.map(str::as_bytes).into_iter().chain([&*body]);
    Ok(IdempotencyKey::new(owner, key, content))
}
