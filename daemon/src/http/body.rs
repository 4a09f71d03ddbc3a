//! The bodies of answers: whole, from the disk, in pieces, or passed on from a program.

use super::connections::Busy;
use super::live_answer::LiveBody;
use super::spooled_body::FromDisk;
use super::stream::Chunks;
use crate::buffers::{self, Buffers, UNCOUNTED};
use crate::http::streaming_body::Passing;
use crate::http::tunnel::Tunnel;
use hyper::body::{Bytes, Frame, SizeHint};
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// The body of an answer. Its connection counts as busy while the body exists.
#[derive(Debug)]
pub(crate) struct Body {
    content: BodyContent,
    busy: Option<Busy>,
    /// It contains values of secrets, which must not be on the disk.
    is_secret: bool,
    /// Counts the bytes that HTTP/2 has taken of it; absent over HTTP/1.1.
    taken: Option<BodyProgress>,
}

/// Bytes that were taken of the body of an answer; nothing while there is no body that fnd holds.
pub(super) type BodyProgress = Rc<Cell<Option<usize>>>;

/// Largest piece of a counted body. The memory budget does not count the last piece once HTTP/2 has it, although it may wait
/// there for the client's window.
const COUNTED_PIECE: usize = 16 << 10;

#[derive(Debug)]
enum BodyContent {
    Whole(Option<Bytes>),
    /// An answer that exceeds the memory budget.
    Kept(FromDisk),
    Stream(Box<dyn Chunks>),
    /// The answer of a program, passed on as a stream.
    Passing(Passing),
    /// A result that comes as a stream.
    Live(Box<LiveBody>),
    /// No bytes: another protocol follows the head. Empty once the connection has it.
    Tunnel(Option<Box<Tunnel>>),
}

impl Body {
    fn new(content: BodyContent) -> Self {
        Self {
            content,
            busy: None,
            is_secret: false,
            taken: None,
        }
    }

    /// Returns a body that is there.
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self::new(BodyContent::Whole(Some(bytes.into())))
    }

    /// Returns a body that is there and never moves to the disk.
    pub(super) fn secret(bytes: impl Into<Bytes>) -> Self {
        let mut body = Self::whole(bytes);
        body.is_secret = true;
        body
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
        matches!(
            self.content,
            BodyContent::Whole(_) | BodyContent::Kept(_) | BodyContent::Live(_)
        )
    }

    /// If fnd holds the whole body until it is read, counts into `taken` how much of it is taken. The body then comes
    /// in pieces.
    pub(super) fn count_taken(&mut self, taken: &BodyProgress) {
        match &self.content {
            BodyContent::Whole(_) | BodyContent::Kept(_) => {
                taken.set(Some(0));
                self.taken = Some(Rc::clone(taken));
            }
            BodyContent::Live(body) => body.count_taken(taken),
            BodyContent::Stream(_) | BodyContent::Passing(_) | BodyContent::Tunnel(_) => {}
        }
    }

    /// Counts the body against the memory budget until it is read; moves it to the disk if the budget has no room.
    ///
    /// # Errors
    /// If the disk has no room either.
    pub(super) async fn count(&mut self, buffers: &Arc<Buffers>) -> io::Result<()> {
        if let BodyContent::Whole(Some(bytes)) = &mut self.content
            && bytes.len() > UNCOUNTED
        {
            if self.is_secret {
                *bytes = buffers.hold_in_memory(std::mem::take(bytes));
                return Ok(());
            }
            match buffers.hold_answer(std::mem::take(bytes)).await? {
                buffers::AnswerPlace::Memory(counted) => *bytes = counted,
                buffers::AnswerPlace::Kept(kept) => self.content = BodyContent::Kept(FromDisk::new(kept, buffers)),
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
        let this = self.get_mut();
        let chunk = match &mut this.content {
            BodyContent::Whole(Some(bytes)) if this.taken.is_some() && bytes.len() > COUNTED_PIECE => {
                Some(bytes.split_to(COUNTED_PIECE))
            }
            BodyContent::Whole(bytes) => bytes.take().filter(|bytes| !bytes.is_empty()),
            BodyContent::Kept(kept) => ready!(kept.poll_chunk(cx)).map(Bytes::from),
            BodyContent::Stream(stream) => ready!(stream.poll_chunk(cx)).map(Bytes::from),
            BodyContent::Passing(body) => return Pin::new(body).poll_frame(cx),
            BodyContent::Live(body) => return body.poll_frame(cx),
            BodyContent::Tunnel(_) => None,
        };
        let Some(mut chunk) = chunk else {
            return Poll::Ready(None);
        };
        if let Some(taken) = &this.taken {
            let before = taken.get().unwrap_or_default();
            taken.set(Some(before + chunk.len()));
            if before > 0 && this.is_end_stream() {
                // The last piece must not keep the memory of all.
                chunk = Bytes::copy_from_slice(&chunk);
            }
        }
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            BodyContent::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            BodyContent::Kept(kept) => kept.is_over(),
            BodyContent::Stream(stream) => stream.is_over(),
            BodyContent::Passing(body) => body.is_end_stream(),
            BodyContent::Live(_) => false,
            BodyContent::Tunnel(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            BodyContent::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            BodyContent::Kept(kept) => SizeHint::with_exact(kept.left()),
            BodyContent::Stream(_) | BodyContent::Live(_) => SizeHint::default(),
            BodyContent::Passing(body) => body.size_hint(),
            BodyContent::Tunnel(_) => SizeHint::with_exact(0),
        }
    }
}
