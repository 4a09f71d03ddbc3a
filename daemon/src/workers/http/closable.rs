//! The connection of one request to a worker, which fnd can close while the request is answered: the worker sees a caller
//! that left, and the caller an answer that breaks off.

use super::address::WorkerStream;
use futures_util::task::AtomicWaker;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

/// Closes the connection of a request. Shared by `Arc` because hyper wants connections that can be upgraded to be `Send`.
#[derive(Debug, Default)]
pub(crate) struct RequestCloser {
    is_closed: AtomicBool,
    /// The task that reads from the connection.
    reader: AtomicWaker,
    closed: Notify,
}

impl RequestCloser {
    /// Closes the connection; one that is not open yet is not opened.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.closed.notify_one();
        self.reader.wake();
    }

    /// Waits until the connection is closed; for one task.
    pub(super) async fn closed(&self) {
        self.closed.notified().await;
    }

    fn check(&self) -> io::Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "fnd ended the call"));
        }
        Ok(())
    }
}

/// A connection that its [`RequestCloser`] closes.
pub(super) struct Closable {
    stream: Box<dyn WorkerStream>,
    closer: Arc<RequestCloser>,
}

impl Closable {
    pub(super) fn new(stream: Box<dyn WorkerStream>, closer: Arc<RequestCloser>) -> Self {
        Self { stream, closer }
    }
}

impl AsyncRead for Closable {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.closer.check()?;
        let read = Pin::new(&mut *self.stream).poll_read(cx, buffer);
        // `close` is called on this thread, so it cannot come between the check above and the registration.
        if read.is_pending() {
            self.closer.reader.register(cx.waker());
        }
        read
    }
}

impl AsyncWrite for Closable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.closer.check()?;
        Pin::new(&mut *self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.closer.check()?;
        Pin::new(&mut *self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.stream).poll_shutdown(cx)
    }
}
