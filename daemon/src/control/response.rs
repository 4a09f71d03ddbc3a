//! Answers: whole bodies and problems; what comes piece by piece is in `stream`.

use super::connections::Busy;
use crate::buffers::{self, Buffers, UNCOUNTED};
use crate::workers::exchange::Passing;
use fnd_core::api::Problem;
use fnd_core::problem::Code;
use fnd_core::record::RunResult;
use hyper::body::{Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::kept::FromDisk;
use super::stream::Chunks;
pub(super) use super::stream::{Framing, lines, pieces};

/// An answer on its way.
pub(super) type Answered = Response<Body>;

/// A refusal on its way: boxed, so that results stay small.
pub(super) type Refusal = Box<Refused>;

/// A problem and the headers that go with it.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) problem: Problem,
    /// `Retry-After` in seconds.
    pub(super) retry_after: Option<u64>,
    /// `Allow`.
    pub(super) allow: Option<String>,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Box::new(Refused {
            problem,
            retry_after: None,
            allow: None,
        })
    }
}

/// Returns the refusal of a code.
pub(super) fn refuse(code: Code, detail: impl Into<String>) -> Refusal {
    Problem::new(code, detail).into()
}

/// `Fnd-Invocation`.
pub(super) const INVOCATION: HeaderName = HeaderName::from_static("fnd-invocation");

/// `Fnd-State`: the state of the invocation an answer is the result of. Its status and headers may be of the function's
/// choice; an answer without it is fnd's own.
pub(super) const STATE: HeaderName = HeaderName::from_static("fnd-state");

/// `Fnd-Status`: the status a function chose, where the answer is a stored result.
pub(super) const STATUS: HeaderName = HeaderName::from_static("fnd-status");

/// Returns the value of a header from text that is known to be visible ASCII; anything else becomes empty.
pub(super) fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

/// Returns a whole body with its type.
pub(super) fn whole(content_type: &'static str, bytes: impl Into<Bytes>) -> Answered {
    let mut response = Response::new(Body::new(Content::Whole(Some(bytes.into()))));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns a value as JSON.
///
/// # Errors
/// [`Code::Internal`]: a value of ours that JSON cannot say is a defect.
pub(super) fn json(value: &impl Serialize) -> Result<Answered, Refusal> {
    match serde_json::to_vec(value) {
        Ok(bytes) => Ok(whole("application/json", bytes)),
        Err(error) => Err(super::answer::internal("answer in JSON", &error)),
    }
}

/// Returns a function's result under the type it has.
pub(super) fn result(result: Option<&RunResult>) -> Answered {
    let Some(result) = result else {
        return whole("text/plain; charset=utf-8", Bytes::new());
    };
    // Shared: a copy of it would be a second one for as long as its reader takes.
    let mut answer = whole("application/octet-stream", Bytes::from_owner(Arc::clone(&result.data)));
    // One that cannot be sent is no type: it is named in a warning when the function has just answered.
    if let Ok(media_type) = HeaderValue::from_str(result.media_type()) {
        answer.headers_mut().insert(CONTENT_TYPE, media_type);
    }
    answer
}

/// Returns a refusal as `application/problem+json` (RFC 9457).
pub(super) fn problem(refused: &Refused) -> Answered {
    // A problem is plain text and numbers; were it not, the status would still say enough.
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
    response
}

/// The body of an answer. While it exists its connection counts as busy.
#[derive(Debug)]
pub(super) struct Body {
    content: Content,
    busy: Option<Busy>,
}

#[derive(Debug)]
enum Content {
    Whole(Option<Bytes>),
    /// Beyond the budget of what is in memory.
    Kept(FromDisk),
    Stream(Box<dyn Chunks>),
    /// A program's, as it comes.
    Passing(Passing),
}

impl Body {
    fn new(content: Content) -> Self {
        Self { content, busy: None }
    }

    /// Returns a body that comes piece by piece.
    pub(super) fn stream(stream: impl Chunks + 'static) -> Self {
        Self::new(Content::Stream(Box::new(stream)))
    }

    /// Returns the body of a program's answer, as it comes.
    pub(super) fn passing(body: Passing) -> Self {
        Self::new(Content::Passing(body))
    }

    /// Keeps the connection busy until the body is sent. One without an end gives way to others.
    pub(super) fn hold(&mut self, busy: Busy) {
        if let Content::Stream(stream) = &self.content
            && stream.is_endless()
        {
            busy.follows();
        }
        self.busy = Some(busy);
    }

    /// Says whether fnd holds all of it until it is read.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.content, Content::Whole(_) | Content::Kept(_))
    }

    /// Has it count as held until it is read; on the disk where memory has no room for it.
    ///
    /// # Errors
    /// The disk has none, either.
    pub(super) async fn count(&mut self, buffers: &Arc<Buffers>) -> io::Result<()> {
        if let Content::Whole(Some(bytes)) = &mut self.content
            && bytes.len() > UNCOUNTED
        {
            match buffers.hold_answer(std::mem::take(bytes)).await? {
                buffers::Answer::Memory(counted) => *bytes = counted,
                buffers::Answer::Kept(kept) => self.content = Content::Kept(FromDisk::new(kept, buffers)),
            }
        }
        Ok(())
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    // A body that breaks off breaks the connection: its reader must not take it for whole.
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let chunk = match &mut self.get_mut().content {
            Content::Whole(bytes) => bytes.take().filter(|bytes| !bytes.is_empty()),
            Content::Kept(kept) => ready!(kept.poll_chunk(cx)).map(Bytes::from),
            Content::Stream(stream) => ready!(stream.poll_chunk(cx)).map(Bytes::from),
            Content::Passing(body) => return Pin::new(body).poll_frame(cx),
        };
        Poll::Ready(chunk.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Content::Kept(kept) => kept.is_over(),
            Content::Stream(stream) => stream.is_over(),
            Content::Passing(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Content::Kept(kept) => SizeHint::with_exact(kept.left()),
            Content::Stream(_) => SizeHint::default(),
            Content::Passing(body) => body.size_hint(),
        }
    }
}
