//! The bodies of answers: whole, from the disk, in pieces, or passed on from a program.

use super::connections::Busy;
use super::kept::FromDisk;
use super::stream::Chunks;
use crate::buffers::{self, Buffers, UNCOUNTED};
use crate::http::passing::Passing;
use crate::http::tunnel::Tunnel;
use hyper::body::{Bytes, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The body of an answer. Its connection counts as busy while the body exists.
#[derive(Debug)]
pub(crate) struct Body {
    content: Content,
    busy: Option<Busy>,
    /// It contains values of secrets, which must not be on the disk.
    is_secret: bool,
}

#[derive(Debug)]
enum Content {
    Whole(Option<Bytes>),
    /// An answer that exceeds the memory budget.
    Kept(FromDisk),
    Stream(Box<dyn Chunks>),
    /// The answer of a program, passed on as a stream.
    Passing(Passing),
    /// No bytes: another protocol follows the head. Empty once the connection has it.
    Tunnel(Option<Box<Tunnel>>),
}

impl Body {
    fn new(content: Content) -> Self {
        Self {
            content,
            busy: None,
            is_secret: false,
        }
    }

    /// Returns a body that is there.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::new(Content::Whole(Some(bytes.into())))
    }

    /// Returns a body that is there and never moves to the disk.
    pub(super) fn secret(bytes: impl Into<Bytes>) -> Self {
        let mut body = Self::whole(bytes);
        body.is_secret = true;
        body
    }

    /// Returns a body that comes in pieces.
    pub(super) fn stream(stream: impl Chunks + 'static) -> Self {
        Self::new(Content::Stream(Box::new(stream)))
    }

    /// Returns the body of a program's answer, passed on as a stream.
    pub(crate) fn passing(body: Passing) -> Self {
        Self::new(Content::Passing(body))
    }

    /// Returns the body of an answer after which another protocol follows.
    pub(crate) fn tunnel(tunnel: Tunnel) -> Self {
        Self::new(Content::Tunnel(Some(Box::new(tunnel))))
    }

    /// Returns the protocol that follows, if it is another one.
    pub(super) fn take_tunnel(&mut self) -> Option<Tunnel> {
        match &mut self.content {
            Content::Tunnel(tunnel) => tunnel.take().map(|tunnel| *tunnel),
            Content::Whole(_) | Content::Kept(_) | Content::Stream(_) | Content::Passing(_) => None,
        }
    }

    /// Returns the protocol that follows, if it is another one, until the connection has it.
    pub(crate) fn tunnel_mut(&mut self) -> Option<&mut Tunnel> {
        match &mut self.content {
            Content::Tunnel(tunnel) => tunnel.as_deref_mut(),
            Content::Whole(_) | Content::Kept(_) | Content::Stream(_) | Content::Passing(_) => None,
        }
    }

    /// Keeps the connection busy until the body is sent. A body without an end allows closing the connection at the
    /// limit.
    pub(super) fn hold(&mut self, busy: Busy) {
        if let Content::Stream(stream) = &self.content
            && stream.is_endless()
        {
            busy.follows();
        }
        self.busy = Some(busy);
    }

    /// Returns whether fnd holds the whole body until it is read.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.content, Content::Whole(_) | Content::Kept(_))
    }

    /// Counts the body against the memory budget until it is read; moves it to the disk if the budget has no room.
    ///
    /// # Errors
    /// If the disk has no room either.
    pub(super) async fn count(&mut self, buffers: &Arc<Buffers>) -> io::Result<()> {
        if let Content::Whole(Some(bytes)) = &mut self.content
            && bytes.len() > UNCOUNTED
        {
            if self.is_secret {
                *bytes = buffers.hold_in_memory(std::mem::take(bytes));
                return Ok(());
            }
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
    // A body that breaks off breaks the connection, so that its reader does not believe that it is complete.
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = match &mut self.get_mut().content {
            Content::Whole(bytes) => bytes.take().filter(|bytes| !bytes.is_empty()),
            Content::Kept(kept) => ready!(kept.poll_chunk(cx)).map(Bytes::from),
            Content::Stream(stream) => ready!(stream.poll_chunk(cx)).map(Bytes::from),
            Content::Passing(body) => return Pin::new(body).poll_frame(cx),
            Content::Tunnel(_) => None,
        };
        Poll::Ready(chunk.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Content::Kept(kept) => kept.is_over(),
            Content::Stream(stream) => stream.is_over(),
            Content::Passing(body) => body.is_end_stream(),
            Content::Tunnel(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Content::Kept(kept) => SizeHint::with_exact(kept.left()),
            Content::Stream(_) => SizeHint::default(),
            Content::Passing(body) => body.size_hint(),
            Content::Tunnel(_) => SizeHint::with_exact(0),
        }
    }
}
