//! Reads a client's response to a call, and passes it on to fnd: whole, or in parts as it comes.
//!
//! A call gets exactly one answer, also if its client breaks off. Output that the function wrote before its response is already
//! in the same pipes that fnd reads, so the order needs no flush.

use super::api::{self, Reply};
use super::state::WorkerState;
use fnd_core::records::protocol::{ProtocolFailure, ResultHead, worker_side};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body as _, Bytes, Frame, Incoming};
use hyper::header::HeaderMap;
use std::time::Duration;

/// Most bytes of a response: the largest `limits.result`. fnd knows the limit of the function, and applies it.
const RESULT_MAX: usize = 1 << 30;
/// Most bytes of an error, and of what an extension sends.
pub(super) const SMALL_MAX: usize = 1 << 20;
/// A streamed response of fewer bytes that ends within [`GATHER`] is an ordinary result.
const GATHER_MAX: usize = 64 << 10;
/// How long a stream gathers: a listener to its events does not notice it.
const GATHER: Duration = Duration::from_millis(20);

/// A call whose answer has begun.
struct OpenAnswer<'s> {
    state: &'s WorkerState,
    call: u64,
    is_sent: bool,
}

impl OpenAnswer<'_> {
    fn send(mut self, frames: Vec<u8>) {
        self.is_sent = true;
        self.state.end_call(self.call, frames);
    }

    fn fail(self, failure: &ProtocolFailure) {
        let frames = worker_side::failure(self.call, failure);
        self.send(frames);
    }
}

impl Drop for OpenAnswer<'_> {
    /// Fails the call, if its client has broken off: the server then drops what it was doing for this client.
    fn drop(&mut self) {
        if !self.is_sent {
            let failure = broken_off();
            self.state
                .end_call(self.call, worker_side::failure(self.call, &failure));
        }
    }
}

fn broken_off() -> ProtocolFailure {
    api::error_of("the function broke off its response".to_owned(), None)
}

/// Returns a small body; nothing if it is larger than [`SMALL_MAX`], or breaks off.
pub(super) async fn small_body(body: Incoming) -> Option<Bytes> {
    let collected = Limited::new(body, SMALL_MAX).collect().await;
    collected.ok().map(http_body_util::Collected::to_bytes)
}

/// Takes the error of a call.
pub(super) async fn error(state: &WorkerState, call: u64, headers: &HeaderMap, body: Incoming) -> Reply {
    let answer = OpenAnswer {
        state,
        call,
        is_sent: false,
    };
    let kind = api::text(headers, api::ERROR_TYPE);
    if let Some(body) = small_body(body).await {
        answer.fail(&api::failure(kind, &body));
        return api::accepted();
    }
    let message = format!("its error has more than {SMALL_MAX} bytes, or broke off");
    answer.fail(&api::failure(kind, message.as_bytes()));
    api::too_large(SMALL_MAX)
}

/// Takes the response to a call.
pub(super) async fn response(state: &WorkerState, call: u64, headers: &HeaderMap, body: Incoming) -> Reply {
    let open = OpenAnswer {
        state,
        call,
        is_sent: false,
    };
    let is_stream = api::is_stream(headers);
    let mut reader = ResponseReader {
        content_type: api::result_type(api::text(headers, api::CONTENT_TYPE), is_stream),
        open,
        gathered: Vec::new(),
        size: 0,
        is_begun: false,
    };
    // If the size is stated, the buffer need not grow again and again.
    let stated = if is_stream { 0 } else { body.size_hint().lower() };
    let stated = usize::try_from(stated).unwrap_or(usize::MAX).min(SMALL_MAX);
    reader.gathered.reserve(stated);
    let read = reader.read(body, is_stream).await;
    match read {
        Ok(()) => {
            reader.end(is_stream);
            api::accepted()
        }
        Err(ResponseFault::TooLarge) => {
            reader.open.fail(&too_large());
            api::too_large(RESULT_MAX)
        }
        Err(ResponseFault::Failed(failure)) => {
            reader.open.fail(&failure);
            api::accepted()
        }
    }
}

fn too_large() -> ProtocolFailure {
    let kind = "Function.ResponseSizeTooLarge";
    let message = format!("Response payload size exceeded maximum allowed payload size ({RESULT_MAX} bytes).");
    api::error_of(format!("{kind}: {message}"), None)
}

/// Why a response is no result.
enum ResponseFault {
    TooLarge,
    Failed(ProtocolFailure),
}

struct ResponseReader<'a> {
    open: OpenAnswer<'a>,
    content_type: &'a str,
    /// The bytes that fnd has not got.
    gathered: Vec<u8>,
    size: usize,
    /// fnd has got the begin of the result.
    is_begun: bool,
}

impl ResponseReader<'_> {
    async fn read(&mut self, mut body: Incoming, is_stream: bool) -> Result<(), ResponseFault> {
        // No event says that a client pauses, so a time does.
        let gathering = tokio::time::sleep(GATHER);
        tokio::pin!(gathering);
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = &mut gathering, if is_stream && !self.is_begun => {
                    self.begin().await;
                    continue;
                }
            };
            match frame {
                None => return Ok(()),
                Some(Ok(frame)) => self.add(frame, is_stream).await?,
                Some(Err(_)) => return Err(ResponseFault::Failed(broken_off())),
            }
        }
    }

    async fn add(&mut self, frame: Frame<Bytes>, is_stream: bool) -> Result<(), ResponseFault> {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                return frame
                    .into_trailers()
                    .map_or(Ok(()), |trailers| trailer_fault(&trailers));
            }
        };
        self.size = self.size.saturating_add(data.len());
        if self.size > RESULT_MAX {
            return Err(ResponseFault::TooLarge);
        }
        if self.is_begun {
            self.send_part(&data).await;
            return Ok(());
        }
        self.gathered.extend_from_slice(&data);
        if is_stream && self.gathered.len() >= GATHER_MAX {
            self.begin().await;
        }
        Ok(())
    }

    /// Sends the begin of the result, and the bytes that have come.
    async fn begin(&mut self) {
        self.is_begun = true;
        let call = self.open.call;
        let start = worker_side::stream_start(call, self.content_type);
        self.open.state.send_part(call, start).await;
        let gathered = std::mem::take(&mut self.gathered);
        self.send_part(&gathered).await;
    }

    /// Sends bytes in pieces: those that wait for fnd are few, however many have come at once.
    async fn send_part(&self, part: &[u8]) {
        let call = self.open.call;
        for piece in part.chunks(GATHER_MAX) {
            let part = worker_side::stream_part(call, piece);
            self.open.state.send_part(call, part).await;
        }
    }

    fn end(self, is_stream: bool) {
        let call = self.open.call;
        let frames = if self.is_begun {
            worker_side::stream_end(call)
        } else {
            let content_type = api::whole_type(self.content_type, is_stream, &self.gathered);
            let head = ResultHead {
                content_type: Some(content_type.to_owned()),
                data: Some(self.gathered.len() as u64),
                ..ResultHead::default()
            };
            worker_side::result(call, &head, self.gathered.into())
        };
        self.open.send(frames);
    }
}

/// Reads the error that a client reports after its response has begun.
fn trailer_fault(trailers: &HeaderMap) -> Result<(), ResponseFault> {
    use base64::Engine as _;
    let kind = api::text(trailers, api::ERROR_TYPE);
    let body = api::text(trailers, api::ERROR_BODY).unwrap_or_default();
    if kind.is_none() && body.is_empty() {
        return Ok(());
    }
    let decoded = base64::engine::general_purpose::STANDARD.decode(body);
    // A body that is not base64 is the message as it is.
    let body = decoded.unwrap_or_else(|_| body.as_bytes().to_vec());
    Err(ResponseFault::Failed(api::failure(kind, &body)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn trailers_may_report_an_error() {
        for (kind, body, expected) in [
            (None, None, None),
            (Some("E"), None, Some("E")),
            (Some("E"), Some("eyJlcnJvck1lc3NhZ2UiOiJubyJ9"), Some("E: no")),
            (None, Some("it broke"), Some("it broke")),
        ] {
            let mut trailers = HeaderMap::new();
            for (name, value) in [(api::ERROR_TYPE, kind), (api::ERROR_BODY, body)] {
                if let Some(value) = value {
                    trailers.insert(name, HeaderValue::from_static(value));
                }
            }
            let found = match trailer_fault(&trailers) {
                Err(ResponseFault::Failed(failure)) => Some(failure.message),
                Ok(()) | Err(ResponseFault::TooLarge) => None,
            };
            assert_eq!(found.as_deref(), expected);
        }
    }
}
