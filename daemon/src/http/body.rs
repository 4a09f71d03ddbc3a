//! The bodies of answers: held by fnd, in pieces, or passed on from a program.

use super::connections::Busy;
use super::held_body::{BodyProgress, HeldBody};
use super::live_answer::LiveBody;
use crate::buffers::Buffers;
use crate::http::streaming_body::Passing;
use crate::http::tunnel::Tunnel;
use hyper::body::{Bytes, Frame, SizeHint};
use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The body of an answer. Its connection counts as busy while the body exists.
#[derive(Debug)]
pub(crate) struct Body {
    content: BodyContent,
    busy: Option<Busy>,
}

#[derive(Debug)]
enum BodyContent {
    Held(HeldBody),
    Stream(Box<dyn Chunks>),
    /// The answer of a program, passed on as a stream.
    Passing(Passing),
    /// A result that comes as a stream.
    Live(Box<LiveBody>),
    /// No bytes: another protocol follows the head. Empty once the connection has it.
    Tunnel(Option<Box<Tunnel>>),
}

/// A body in pieces.
pub(super) trait Chunks: Debug {
    /// Returns the next piece; nothing after the last one.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>>;
    /// Returns whether it is known that no piece follows.
    fn is_over(&self) -> bool {
        false
    }
    /// Returns whether the body continues until its reader leaves.
    fn is_endless(&self) -> bool {
        false
    }
}

impl Body {
    fn new(content: BodyContent) -> Self {
        Self { content, busy: None }
    }

    /// Returns a body that is there.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::held(bytes.into(), false)
    }

    /// Returns a body that is there. A secret one never moves to the disk.
    pub(super) fn held(bytes: Bytes, is_secret: bool) -> Self {
        Self::new(BodyContent::Held(HeldBody::new(bytes, is_secret)))
    }

    /// Returns a body that comes in pieces.
    pub(super) fn stream(stream: impl Chunks + 'static) -> Self {
        Self::new(BodyContent::Stream(Box::new(stream)))
    }

    /// Returns the body of a program's answer, passed on as a stream.
    pub(crate) fn passing(body: Passing) -> Self {
        Self::new(BodyContent::Passing(body))
    }

    /// Returns the body of a result that comes as a stream.
    pub(crate) fn live(body: LiveBody) -> Self {
        Self::new(BodyContent::Live(Box::new(body)))
    }

    /// Returns the body of an answer after which another protocol follows.
    pub(crate) fn tunnel(tunnel: Tunnel) -> Self {
        Self::new(BodyContent::Tunnel(Some(Box::new(tunnel))))
    }

    /// Returns the protocol that follows, if it is another one.
    pub(super) fn take_tunnel(&mut self) -> Option<Tunnel> {
        let BodyContent::Tunnel(tunnel) = &mut self.content else {
            return None;
        };
        tunnel.take().map(|tunnel| *tunnel)
    }

    /// Returns the protocol that follows, if it is another one, until the connection has it.
    pub(crate) fn tunnel_mut(&mut self) -> Option<&mut Tunnel> {
        let BodyContent::Tunnel(tunnel) = &mut self.content else {
            return None;
        };
        tunnel.as_deref_mut()
    }

    /// Keeps the connection busy until the body is sent. A body without an end allows closing the connection at the
    /// limit.
    pub(super) fn hold(&mut self, busy: Busy) {
        if let BodyContent::Stream(stream) = &self.content
            && stream.is_endless()
        {
            busy.follows();
        }
        self.busy = Some(busy);
    }

    /// Returns whether fnd holds the bytes of the body until they are read.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.content, BodyContent::Held(_) | BodyContent::Live(_))
    }

    /// If fnd holds the whole body until it is read, counts into `taken` how much of it is taken. The body then comes
    /// in pieces.
    pub(super) fn count_taken(&mut self, taken: &BodyProgress) {
        match &mut self.content {
            BodyContent::Held(body) => body.count_taken(taken),
            BodyContent::Live(body) => body.count_taken(taken),
            BodyContent::Stream(_) | BodyContent::Passing(_) | BodyContent::Tunnel(_) => {}
        }
    }

    /// Counts the body against the memory budget until it is read; moves it to the disk if the budget has no room.
    ///
    /// # Errors
    /// If the disk has no room either.
    pub(super) async fn count(&mut self, buffers: &Arc<Buffers>) -> io::Result<()> {
        if let BodyContent::Held(body) = &mut self.content {
            body.count(buffers).await?;
        }
        Ok(())
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    // A body that breaks off breaks the connection, so that its reader does not believe that it is complete.
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match &mut self.get_mut().content {
            BodyContent::Held(body) => ready!(body.poll_piece(cx)),
            BodyContent::Stream(stream) => ready!(stream.poll_chunk(cx)).map(|chunk| Ok(Bytes::from(chunk))),
            BodyContent::Passing(body) => return Pin::new(body).poll_frame(cx),
            BodyContent::Live(body) => ready!(body.poll_piece(cx)),
            BodyContent::Tunnel(_) => None,
        };
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            BodyContent::Held(body) => body.left() == 0,
            BodyContent::Stream(stream) => stream.is_over(),
            BodyContent::Passing(body) => body.is_end_stream(),
            BodyContent::Live(_) => false,
            BodyContent::Tunnel(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            BodyContent::Held(body) => SizeHint::with_exact(body.left()),
            BodyContent::Stream(_) | BodyContent::Live(_) => SizeHint::default(),
            BodyContent::Passing(body) => body.size_hint(),
            BodyContent::Tunnel(_) => SizeHint::with_exact(0),
        }
    }
}
