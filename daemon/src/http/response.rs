//! Answers: values, results and problems; `stream.rs` has the answers that come in pieces.

use super::body::Body;
use crate::buffers::Buffers;
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_core::records::RunResult;
use fnd_core::records::outcome::RunState;
use fnd_wire::ids::InvocationId;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Most items of a list that is written as JSON on the thread that serves all callers; each takes about a microsecond, and
/// the way to another thread and back 50.
const ITEMS_HERE: usize = 100;

/// Bytes that are reserved for each item of a longer list: a function has about 900. A text that outgrows its room is copied.
const ITEM_BYTES: usize = 1 << 10;

/// An answer to send.
pub(crate) type Answered = Response<Body>;

/// A refusal to send; boxed, so that results stay small.
pub(crate) type Refusal = Box<RefusedResponse>;

/// A problem and the headers that belong to it.
#[derive(Debug)]
pub(crate) struct RefusedResponse {
    pub(crate) problem: Problem,
    /// The value of `Retry-After`, in seconds.
    pub(crate) retry_after: Option<u64>,
    /// The value of `Allow`.
    pub(crate) allow: Option<String>,
    /// The value of `WWW-Authenticate`.
    pub(crate) ask: Option<&'static str>,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Box::new(RefusedResponse {
            problem,
            retry_after: None,
            allow: None,
            ask: None,
        })
    }
}

/// Returns a refusal with a code.
pub(crate) fn refuse(code: Code, detail: impl Into<String>) -> Refusal {
    Problem::new(code, detail).into()
}

/// The `Retry-After` if no better value is known: a restart of fnd takes less time.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// Returns a refusal because of something that passes: the sender may try again soon.
pub(crate) fn refuse_for_now(code: Code, detail: impl Into<String>) -> Refusal {
    retried_after(refuse(code, detail), AGAIN)
}

/// Adds the time after which the sender may try again, rounded up: a sender that came back earlier would be refused again.
pub(crate) fn retried_after(mut refusal: Refusal, time: Duration) -> Refusal {
    refusal.retry_after = Some(time.as_secs() + u64::from(time.subsec_nanos() > 0));
    refusal
}

/// Counts failures, so that an answer and its line in the journal can be matched.
static FAILURES: AtomicU64 = AtomicU64::new(1);

/// Returns the refusal for an operation that failed in fnd; only the journal shows the details.
pub(crate) fn internal(operation: &str, error: &dyn Display) -> Refusal {
    let request = FAILURES.fetch_add(1, Ordering::Relaxed);
    tracing::error!(request, "failed to {operation}: {error}");
    refuse(
        Code::Internal,
        format!("failed to {operation}: fnd's journal says why (request {request})"),
    )
}

/// Returns the refusal of a request that fnd has no time left for.
pub(crate) fn stopping() -> Refusal {
    let detail = "fnd is stopping; `fndctl history` shows whether the request was accepted";
    refuse_for_now(Code::Unavailable, detail)
}

/// Returns the refusal for data for which neither memory nor disk has room.
pub(crate) fn no_room(what: &str, error: &std::io::Error) -> Refusal {
    tracing::warn!("no room for {what} of a request: [node] buffers is full, and the disk of the state fails: {error}");
    let detail =
        format!("fnd has no room for {what} now: its memory for bodies is full, and its disk is full or fails");
    refuse_for_now(Code::Unavailable, detail)
}

/// Header `Fnd-Invocation`: the id of the invocation.
pub(crate) const INVOCATION: HeaderName = HeaderName::from_static("fnd-invocation");

/// Header `Fnd-State`: the state of the invocation whose result this answer is. The function may have chosen the status
/// and headers of such an answer; an answer without this header is fnd's own.
const STATE: HeaderName = HeaderName::from_static("fnd-state");

/// Header `Fnd-Status`: the status that a function chose, if the answer is a stored result.
pub(crate) const STATUS: HeaderName = HeaderName::from_static("fnd-status");

/// Returns a header value from text that is known to be visible ASCII; other text becomes empty.
pub(crate) fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

/// Says in the headers of a result which invocation it is of, and the state of the invocation.
pub(crate) fn name_run(headers: &mut HeaderMap, id: InvocationId, state: RunState) {
    headers.insert(INVOCATION, header(&id.to_string()));
    headers.insert(STATE, HeaderValue::from_static(state.as_str()));
}

/// Returns a whole body with its type.
pub(crate) fn whole(content_type: &'static str, bytes: impl Into<Bytes>) -> Answered {
    typed(content_type, Body::whole(bytes))
}

/// Returns a body with its type.
pub(super) fn typed(content_type: &'static str, body: Body) -> Answered {
    let mut response = Response::new(body);
    let content_type = HeaderValue::from_static(content_type);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Returns an answer with another status.
pub(crate) fn with_status(mut answer: Answered, status: StatusCode) -> Answered {
    *answer.status_mut() = status;
    answer
}

/// Returns an answer with a version in `ETag`.
pub(crate) fn with_tag(mut answer: Answered, version: &dyn Display) -> Answered {
    answer.headers_mut().insert(ETAG, header(&format!("\"{version}\"")));
    answer
}

/// Returns an answer with a weak tag in `ETag`.
pub(crate) fn with_weak_tag(mut answer: Answered, tag: &str) -> Answered {
    answer.headers_mut().insert(ETAG, header(&format!("W/\"{tag}\"")));
    answer
}

/// Returns the answer to a caller that has the present state already: the weak tag of the state, and no body.
pub(crate) fn not_modified(tag: &str) -> Answered {
    let answer = Response::new(Body::whole(Bytes::new()));
    with_weak_tag(with_status(answer, StatusCode::NOT_MODIFIED), tag)
}

/// Returns a value as JSON.
///
/// # Errors
/// [`Code::Internal`] if the value cannot be written as JSON, which is a defect of fnd.
pub(crate) fn json(value: &impl Serialize) -> Result<Answered, Refusal> {
    let bytes = serde_json::to_vec(value).map_err(|error| not_json(&error))?;
    Ok(whole("application/json", bytes))
}

/// Returns a list as JSON; `items` is its length. A long one is written, and freed, by another thread: ten thousand
/// functions are ten megabytes of text.
///
/// # Errors
/// As of [`json`].
pub(crate) async fn long_json<T: Serialize + Send + 'static>(items: usize, list: T) -> Result<Answered, Refusal> {
    if items <= ITEMS_HERE {
        return json(&list);
    }
    let write = move || {
        let mut text: Vec<u8> = Vec::with_capacity(items.saturating_mul(ITEM_BYTES));
        serde_json::to_writer(&mut text, &list).map(|()| text)
    };
    let written = tokio::task::spawn_blocking(write)
        .await
        .map_err(|error| not_json(&error))?;
    Ok(whole("application/json", written.map_err(|error| not_json(&error))?))
}

fn not_json(error: &dyn Display) -> Refusal {
    internal("answer in JSON", error)
}

/// Returns a function's result with its media type.
pub(crate) fn result(result: Option<&RunResult>) -> Answered {
    let Some(result) = result else {
        return whole("text/plain; charset=utf-8", Bytes::new());
    };
    // The data is shared: a copy would occupy memory again until the caller has read it.
    let body = Body::held(result.data.clone(), result.kept.is_some());
    let mut answer = typed("application/octet-stream", body);
    // A media type that cannot be sent is left out; a warning names it when the function has just answered.
    if let Ok(media_type) = HeaderValue::from_str(result.media_type()) {
        answer.headers_mut().insert(CONTENT_TYPE, media_type);
    }
    answer
}

/// Returns a refusal as `application/problem+json` (RFC 9457).
pub(crate) fn problem(refused: &RefusedResponse) -> Answered {
    // A problem consists of plain text and numbers, so this cannot fail; if it did, the status would still be correct.
    let bytes = serde_json::to_vec(&refused.problem).unwrap_or_default();
    let mut response = whole("application/problem+json", bytes);
    *response.status_mut() = StatusCode::from_u16(refused.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Some(id) = refused.problem.invocation {
        headers.insert(INVOCATION, header(&id.to_string()));
    }
    if let Some(seconds) = refused.retry_after {
        headers.insert(hyper::header::RETRY_AFTER, seconds.into());
    }
    if let Some(allow) = &refused.allow {
        headers.insert(hyper::header::ALLOW, header(allow));
    }
    if let Some(ask) = refused.ask {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(ask));
    }
    response
}

/// Returns a refusal as the only bytes of a connection, before any request was read.
pub(super) fn last(refused: &RefusedResponse) -> Vec<u8> {
    let body = serde_json::to_string(&refused.problem).unwrap_or_default(); // cannot fail, see `problem`
    let status = StatusCode::from_u16(refused.problem.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let again = refused.retry_after.unwrap_or(AGAIN.as_secs());
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\nretry-after: {again}\r\ncontent-type: application/problem+json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Counts the body of an answer against the memory budget until it is read. Without room in memory and on the disk the
/// answer becomes a refusal.
pub(crate) async fn count(mut answer: Answered, buffers: &Arc<Buffers>) -> Answered {
    if let Err(error) = answer.body_mut().count(buffers).await {
        // A run has ended nevertheless: its id tells the caller where to get the answer later.
        let id = answer.headers_mut().remove(INVOCATION);
        answer = problem(&no_room("the answer", &error));
        if let Some(id) = id {
            answer.headers_mut().insert(INVOCATION, id);
        }
    }
    answer
}
