//! The bytes of one connection. This module notices that the client has gone, and that an answer is not read.
//!
//! A client that has closed its writing half still reads (`nc -N`), and hyper does not check whether a client that
//! waits for its answer still exists. On a Unix socket the kernel distinguishes the two: `EPOLLHUP` is set only if both
//! halves are closed (epoll_ctl(2)).

use super::connections::{Busy, HttpConnection};
use super::framing::{Framing, WrongFraming};
use super::limits::{WRITE_MIN, WRITE_TIME};
use super::listen::socket::Socket;
use super::tunnel::Tunnel;
use std::cell::{Cell, RefCell};
use std::future::{Future as _, poll_fn};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Sent when a head takes too long; hyper would only close the connection.
const SLOW_HEAD: &[u8] = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A connection's socket, for hyper and for the task that watches it.
pub(super) struct ConnectionSocket {
    stream: RefCell<Socket>,
    /// Whether any byte was ever read.
    pub(super) heard: Cell<bool>,
    /// Whether fnd holds the bytes of the answer until they are read, so that a caller that does not read it occupies its size.
    pub(super) is_held: Cell<bool>,
    /// Whether bytes of an answer wait until the socket takes them.
    pub(super) is_blocked: Cell<bool>,
    stall: RefCell<Option<Stall>>,
    /// Follows the messages of HTTP/1.1.
    framing: RefCell<Framing>,
    /// Number of requests that were handed to their routes.
    requests: Cell<u64>,
    /// How long a head may take. Only a head that comes in parts has a timer.
    head_time: Duration,
    head_ends: RefCell<Option<Pin<Box<Sleep>>>>,
    pub(super) is_http2: Cell<bool>,
    /// Whether the end of the connection is the end of the answer.
    pub(super) by_closing: Cell<bool>,
    /// The protocol that follows the last answer, if it is another one.
    tunnel: RefCell<Option<Box<(Tunnel, Busy)>>>,
}

/// An answer that the socket does not accept.
struct Stall {
    until: Pin<Box<Sleep>>,
    written: usize,
}

impl ConnectionSocket {
    /// Returns the line of a socket.
    pub(super) fn new(stream: Socket, head_time: Duration) -> Rc<Self> {
        Rc::new(Self {
            stream: RefCell::new(stream),
            heard: Cell::new(false),
            is_held: Cell::new(false),
            is_blocked: Cell::new(false),
            stall: RefCell::new(None),
            framing: RefCell::new(Framing::new()),
            requests: Cell::new(0),
            head_time,
            head_ends: RefCell::new(None),
            is_http2: Cell::new(false),
            by_closing: Cell::new(false),
            tunnel: RefCell::new(None),
        })
    }

    /// Says that the bytes are HTTP/2, whose messages hyper follows.
    pub(super) fn is_opaque(&self) {
        self.is_http2.set(true);
        // hyper checks the frames of HTTP/2 itself. They have no lines that `Framing` could follow.
        self.framing.borrow_mut().stop();
    }

    /// Called when the connection has failed. If its end would be the end of an answer, it is reset: otherwise the caller
    /// would take the answer for whole. A Unix socket has no such end.
    pub(super) fn break_off(&self) {
        if self.by_closing.get() {
            // With a linger time of zero (`SO_LINGER`), close(2) of a TCP socket sends a reset and drops unsent bytes.
            // Otherwise the caller sees an ordinary end. If the call fails, there is nothing left to reset.
            let _ = rustix::net::sockopt::set_socket_linger(&*self.stream.borrow(), Some(Duration::ZERO));
        }
    }

    /// Says that another protocol follows the answer.
    pub(super) fn switches(&self, tunnel: Tunnel, busy: Busy) {
        // The bytes of the other protocol are no heads. Either side may pause for any time, so the time for whole
        // answers does not hold.
        self.framing.borrow_mut().stop();
        self.is_held.set(false);
        *self.tunnel.borrow_mut() = Some(Box::new((tunnel, busy)));
    }

    /// Returns the protocol that follows the last answer, if it is another one.
    pub(super) fn switched(&self) -> Option<(Tunnel, Busy)> {
        self.tunnel.take().map(|tunnel| *tunnel)
    }

    /// Returns whether a head has begun and not ended; it has a time of its own.
    pub(super) fn is_in_head(&self) -> bool {
        self.framing.borrow().is_in_head()
    }

    /// See [`Socket::shows_half_close`].
    pub(super) fn shows_half_close(&self) -> bool {
        self.stream.borrow().shows_half_close()
    }

    /// Returns the fault in the bytes of the next request, which hyper has accepted.
    pub(super) fn next_request(&self) -> Option<WrongFraming> {
        self.requests.set(self.requests.get() + 1);
        self.framing.borrow().wrong_with(self.requests.get())
    }

    /// Resolves when the other end is closed while a request is being answered. Between requests hyper reads, and
    /// notices it. Never resolves if the kernel does not distinguish a closed half: then hyper notices it.
    ///
    /// This needs no system call while the client sends nothing: the readiness says that nothing has arrived.
    pub(super) async fn hung_up(&self, place: &HttpConnection) {
        if !self.shows_half_close() {
            return std::future::pending().await;
        }
        let mut watch: Option<AsyncFd<OwnedFd>> = None;
        poll_fn(|cx| {
            if !place.is_answering() {
                watch = None;
                return Poll::Pending;
            }
            if watch.is_none() {
                let ready = self.stream.borrow().poll_read_ready(cx);
                if ready.is_pending() {
                    return Poll::Pending;
                }
                if self.is_hung_up() {
                    return Poll::Ready(());
                }
                // More bytes came, or the client closed its half. Either state stays, so this descriptor shows no later
                // change: a second descriptor is watched for the hang-up only.
                watch = self.watch();
            }
            match &watch {
                Some(watch) => watch.poll_read_ready(cx).map(drop),
                // Without a second descriptor the hang-up is noticed when the answer is written.
                None => Poll::Pending,
            }
        })
        .await;
    }

    fn is_hung_up(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let stream = self.stream.borrow();
        // poll(2) reports a hang-up whatever events are requested.
        let mut polled = [PollFd::new(&*stream, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().contains(PollFlags::HUP)
    }

    fn watch(&self) -> Option<AsyncFd<OwnedFd>> {
        let duplicate = self.stream.borrow().as_fd().try_clone_to_owned().ok()?;
        // A Unix socket has no urgent data, so only errors and the hang-up remain.
        crate::descriptors::watch(duplicate, Interest::PRIORITY).ok()
    }

    /// Fails a write that makes too little progress for too long.
    fn progress(&self, cx: &mut Context<'_>, took: Poll<io::Result<usize>>, offered: usize) -> Poll<io::Result<usize>> {
        self.is_blocked
            .set(!matches!(took, Poll::Ready(Ok(count)) if count == offered));
        if !self.is_held.get() {
            return took;
        }
        let mut stall = self.stall.borrow_mut();
        match &took {
            Poll::Ready(Ok(count)) if *count == offered => *stall = None,
            Poll::Ready(Ok(count)) => {
                if let Some(waiting) = stall.as_mut() {
                    waiting.written += count;
                    // Only so many bytes count as progress: a client that reads a byte now and then would otherwise keep
                    // the whole answer in fnd's memory for as long as it likes.
                    if waiting.written >= WRITE_MIN {
                        *stall = None;
                    }
                }
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                let waiting = stall.get_or_insert_with(|| Stall {
                    until: Box::pin(sleep(WRITE_TIME)),
                    written: 0,
                });
                if waiting.until.as_mut().poll(cx).is_ready() {
                    let why = "the caller does not read its answer";
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
                }
            }
        }
        took
    }

    /// Follows bytes that were read.
    fn follow(&self, bytes: &[u8]) {
        self.heard.set(true);
        let mut framing = self.framing.borrow_mut();
        let heads = framing.heads;
        framing.read(bytes);
        // One read can end a head and begin the next one. The next head gets a time of its own, not the rest of the
        // earlier one.
        if framing.heads > heads || !framing.is_in_head() {
            self.head_ends.take();
        }
    }

    /// Fails when a head takes too long. Called while the socket has nothing to read.
    fn wait_for_head(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_in_head() {
            return Poll::Pending;
        }
        let mut ends = self.head_ends.borrow_mut();
        let ends = ends.get_or_insert_with(|| Box::pin(sleep(self.head_time)));
        ready!(ends.as_mut().poll(cx));
        // While bytes of an earlier answer wait, the 408 would land in the middle of that answer.
        if !self.is_blocked.get() {
            // Only as much as is possible at once: the connection is closed.
            let mut stream = self.stream.borrow_mut();
            let _ = Pin::new(&mut *stream).poll_write(cx, SLOW_HEAD);
            let _ = Pin::new(&mut *stream).poll_flush(cx);
        }
        let why = "the head of a request took too long";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)))
    }
}

/// The side of a [`ConnectionSocket`] that hyper reads and writes.
pub(super) struct Io(pub(super) Rc<ConnectionSocket>);

impl AsyncRead for Io {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let line = &self.0;
        let before = buffer.filled().len();
        let read = Pin::new(&mut *line.stream.borrow_mut()).poll_read(cx, buffer);
        if read.is_pending() {
            return line.wait_for_head(cx);
        }
        if let Some(bytes) = buffer.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            line.follow(bytes);
        }
        read
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let took = Pin::new(&mut *self.0.stream.borrow_mut()).poll_write(cx, bytes);
        self.0.progress(cx, took, bytes.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let took = Pin::new(&mut *self.0.stream.borrow_mut()).poll_write_vectored(cx, pieces);
        self.0.progress(cx, took, pieces.iter().map(|piece| piece.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.0.stream.borrow().is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.stream.borrow_mut()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.stream.borrow_mut()).poll_shutdown(cx)
    }
}
