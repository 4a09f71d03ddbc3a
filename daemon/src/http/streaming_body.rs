//! An answer that a function gives itself, on its way to the caller.

use super::tunnel::Tunnel;
use bytes::Bytes;
use fnd_wire::ids::InvocationId;
use hyper::Response;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::oneshot;

/// The beginning of an answer that is passed on.
pub enum Headed {
    /// The head, with the body to come.
    Answer(InvocationId, Box<Response<Passing>>),
    /// The program accepted another protocol.
    Switched(InvocationId, Box<Response<Tunnel>>),
    /// There is no head: the body of the request is larger than its limit.
    TooLarge(InvocationId),
    /// There is no head: the body of the request came too slowly.
    TooSlow(InvocationId),
}

/// How the body of an answer ended; an error is its cause, for people.
pub type BodyEnd = Result<(), String>;

/// The body of an answer on its way to a caller. Its end is reported once; a dropped sender means that the caller went
/// away.
///
/// The caller knows that the answer is over by the last piece of a body of known length, and by the end of any other
/// body. The last piece or the end is held back until the end is in the table of calls in flight: fnd can be killed
/// between the two, and an answer that a caller has whole must not be called interrupted. A body without bytes has
/// nothing to hold back; its head waits ([`Passing::is_empty`]). If the worker turns out to have died at the end of a body,
/// the end is never released, and the body breaks off.
#[derive(Debug)]
pub struct Passing {
    from: Incoming,
    end: Option<oneshot::Sender<BodyEnd>>,
    /// The last piece, held back.
    last: Option<Frame<Bytes>>,
    is_over: bool,
    /// Receives once the caller may see the end; closed without that, the body breaks off.
    kept: oneshot::Receiver<()>,
}

/// The other side of a [`Passing`].
#[derive(Debug)]
pub struct PassingEnd {
    /// How the body ended.
    pub ended: oneshot::Receiver<BodyEnd>,
    /// To be sent once the end is stored. Dropped, it breaks the answer off.
    pub kept: oneshot::Sender<()>,
}

impl Passing {
    /// Returns the body, and the receiver of its end.
    #[must_use]
    pub fn new(from: Incoming) -> (Self, PassingEnd) {
        let (end, ended) = oneshot::channel();
        let (keeps, kept) = oneshot::channel();
        let body = Self {
            from,
            end: Some(end),
            last: None,
            is_over: false,
            kept,
        };
        (body, PassingEnd { ended, kept: keeps })
    }

    /// Returns whether the answer is over with its head.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.from.is_end_stream()
    }

    fn report_end(&mut self, end: BodyEnd) {
        if let Some(sender) = self.end.take() {
            let _ = sender.send(end); // an error: fnd is stopping
        }
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        while self.end.is_some() {
            match ready!(Pin::new(&mut self.from).poll_frame(cx)) {
                None => self.report_end(Ok(())),
                Some(Err(error)) => {
                    self.report_end(Err(crate::chain(&error).to_string()));
                    return Poll::Ready(Some(Err(io::Error::other(error))));
                }
                // Trailers belong to the worker's connection.
                Some(Ok(frame)) if !frame.is_data() => {}
                Some(Ok(frame)) if self.from.is_end_stream() => {
                    self.last = Some(frame);
                    self.report_end(Ok(()));
                }
                Some(Ok(frame)) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        let released = ready!(Pin::new(&mut self.kept).poll(cx));
        self.is_over = true;
        if released.is_err() {
            self.last = None;
            return Poll::Ready(Some(Err(io::Error::other(
                "the program ended in the middle of its answer",
            ))));
        }
        Poll::Ready(self.last.take().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        // Until the end is released, the body can still break off.
        self.last.is_none() && self.from.is_end_stream() && (self.is_over || self.end.is_some())
    }

    fn size_hint(&self) -> SizeHint {
        let last = self.last.as_ref().and_then(Frame::data_ref).map(Bytes::len);
        last.map_or_else(|| self.from.size_hint(), |last| SizeHint::with_exact(last as u64))
    }
}
