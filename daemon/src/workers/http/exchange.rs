//! Sends one request to a worker that serves HTTP and receives the answer. Heads are made and checked here, bodies are
//! passed on as they come.
//!
//! Each connection serves one request. A server that closes an idle connection while the next request is on its way
//! would fail that request, and connecting on the same machine takes less than a tenth of a millisecond.

use super::address::Address;
use super::closable::{Closable, RequestCloser};
use super::key::WorkerKey;
use crate::http::paced::{BodyError, Paced};
use crate::input::{Inbox, TaskOwner};
use bytes::Bytes;
use fnd_core::records::Response as Answer;
use fnd_wire::ids::WorkerId;
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Most bytes of the head of an answer.
const HEAD_MAX: usize = 64 << 10;
/// Most headers of an answer.
const HEADERS_MAX: usize = 200;
/// How long the answer to a readiness probe may take.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// The error of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExchangeError {
    /// The worker did not answer correctly; in words.
    Worker(String),
    /// The body is larger than its limit.
    TooLarge,
    /// The body came too slowly.
    TooSlow,
    /// The caller that sent the body, or waited for the answer, is gone.
    Caller,
    /// fnd has closed the connection, because it ends the call.
    Closed,
}

impl From<BodyError> for ExchangeError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Left => Self::Caller,
            BodyError::Slow => Self::TooSlow,
        }
    }
}

/// The body of a request.
pub enum Sent {
    Whole(Option<Bytes>),
    /// The body as it comes from a caller.
    Passed {
        /// The caller's body.
        from: Paced,
        /// Bytes that may still come.
        left: u64,
        /// Why the body broke off, to be read when the exchange has failed: before the answer began or after it.
        error: Rc<Cell<Option<ExchangeError>>>,
    },
}

/// The error of a body that broke off; hyper gives up the request.
#[derive(Debug, thiserror::Error)]
#[error("the body of the request ended early")]
pub struct BrokeOff;

impl Body for Sent {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Passed { from, left, error } => loop {
                let Some(frame) = ready!(Pin::new(&mut *from).poll_frame(cx)) else {
                    return Poll::Ready(None);
                };
                let frame = match frame {
                    Ok(frame) => frame,
                    Err(why) => {
                        error.set(Some(why.into()));
                        return Poll::Ready(Some(Err(BrokeOff)));
                    }
                };
                // Trailers belong to the caller's connection.
                let Ok(data) = frame.into_data() else { continue };
                match left.checked_sub(data.len() as u64) {
                    Some(rest) => *left = rest,
                    None => {
                        error.set(Some(ExchangeError::TooLarge));
                        return Poll::Ready(Some(Err(BrokeOff)));
                    }
                }
                return Poll::Ready(Some(Ok(Frame::data(data))));
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::Passed { from, .. } => from.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Passed { from, .. } => from.size_hint(),
        }
    }
}

/// Sends a request and returns the head of its answer, with the body to come.
///
/// # Errors
/// [`ExchangeError::Worker`] where the worker gives no valid answer; the error of the request's body where that broke
/// off.
pub(crate) async fn send(
    inbox: &Inbox,
    (worker, address): (WorkerId, &Address),
    closer: Arc<RequestCloser>,
    mut request: Request<Sent>,
) -> Result<Response<Incoming>, ExchangeError> {
    let stream = address
        .connect()
        .await
        .map_err(|error| ExchangeError::Worker(address.refused(&error)))?;
    let stream = Closable::new(stream, closer);
    let asks_upgrade = request.headers().contains_key(UPGRADE);
    // Each connection serves one request: a server that closes an idle connection would fail the request on its way.
    if !asks_upgrade {
        request
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    // HTTP/1.1 requires this header (RFC 9112, section 3.2), also on a Unix socket.
    if !request.headers().contains_key(HOST) {
        request
            .headers_mut()
            .insert(HOST, HeaderValue::from_static("localhost"));
    }
    let error = match request.body() {
        Sent::Passed { error, .. } => Some(Rc::clone(error)),
        Sent::Whole(_) => None,
    };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_MAX).max_headers(HEADERS_MAX);
    let (mut sender, connection) = builder
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;
    // The connection ends with the bodies; their readers see its error.
    if asks_upgrade {
        inbox.spawn(TaskOwner::Worker(worker), connection.with_upgrades().map(drop));
    } else {
        inbox.spawn(TaskOwner::Worker(worker), connection.map(drop));
    }
    match sender.send_request(request).await {
        Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS && !asks_upgrade => Err(
            ExchangeError::Worker("it answered 101, but the request asked for no other protocol".to_owned()),
        ),
        Ok(answer) => Ok(answer),
        // Where the caller's body broke off, its own reason counts: hyper only tells that the body has failed.
        Err(why) => Err(error.and_then(|error| error.take()).unwrap_or_else(|| broken(&why))),
    }
}

/// Returns the error of an answer that is wrong.
pub(crate) fn broken(error: &dyn std::error::Error) -> ExchangeError {
    ExchangeError::Worker(broken_off(&crate::chain(error)))
}

/// Describes an answer that breaks off, for people.
pub(crate) fn broken_off(cause: &str) -> String {
    format!("its answer is not valid in HTTP, or ended early: {cause}")
}

/// Checks whether a worker is ready: it answers 2xx or 3xx at `path`, or, without a path, takes a connection.
///
/// # Errors
/// The reason why it is not ready, for people.
pub(crate) async fn probe(
    inbox: &Inbox,
    (worker, address): (WorkerId, &Address),
    key: Option<&WorkerKey>,
    path: Option<&str>,
) -> Result<(), String> {
    let Some(path) = path else {
        let connected = address.connect().await;
        return connected.map(drop).map_err(|error| address.refused(&error));
    };
    let request = Request::get(path).body(Sent::Whole(None));
    let mut request = request.map_err(|error| format!("`{path}`: {error}"))?;
    if let Some(key) = key {
        key.put(request.headers_mut());
    }
    match tokio::time::timeout(PROBE_MAX, send(inbox, (worker, address), Arc::default(), request)).await {
        Err(_) => Err(format!("`{path}` does not answer")),
        Ok(Ok(answer)) if answer.status().is_success() || answer.status().is_redirection() => Ok(()),
        Ok(Ok(answer)) => Err(format!("`{path}` answered {}", answer.status())),
        Ok(Err(ExchangeError::Worker(why))) => Err(why),
        Ok(Err(ExchangeError::TooLarge | ExchangeError::TooSlow | ExchangeError::Caller | ExchangeError::Closed)) => {
            Err(format!("no request was sent to `{path}`"))
        }
    }
}

/// Returns whether the end of an answer's body shows by the body itself, not only by the end of its connection: it states its
/// length, or comes in chunks (RFC 9112, section 6.3).
pub(crate) fn shows_its_end(headers: &HeaderMap) -> bool {
    headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING)
}

/// Reads a whole body of at most `max` bytes; absent if it is larger.
///
/// # Errors
/// The body breaks off.
pub async fn collect(mut body: Incoming, max: u64) -> Result<Option<Vec<u8>>, ExchangeError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() as u64 + data.len() as u64 > max {
                return Ok(None);
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(Some(bytes))
}

/// Puts a caller's headers and fnd's own headers onto a request.
pub fn put(headers: &mut HeaderMap, given: &[(String, String)], own: &[(&'static str, String)]) {
    // The body that goes with the request has a length of its own.
    let given = given
        .iter()
        .filter(|(name, _)| name != "content-length" && name != "expect");
    for (name, value) in given {
        // A caller's headers were valid; those that a program put into the history may be invalid.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value.as_bytes())) {
            headers.append(name, value);
        }
    }
    for (name, value) in own {
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            // These replace headers of the caller: no caller can set those that fnd answers for.
            headers.insert(*name, value);
        }
    }
}

/// Returns the part of an answer's head that is kept.
#[must_use]
pub fn kept(status: StatusCode, headers: &HeaderMap) -> Answer {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut kept = Answer {
        status: Some(status.as_u16()),
        ..Answer::default()
    };
    for (name, value) in headers {
        if name == hyper::header::CONTENT_TYPE {
            kept.content_type = Some(text(value));
        } else {
            kept.headers.push((name.as_str().to_owned(), text(value)));
        }
    }
    kept
}
