//! The kinds of sockets that a server can listen on.

use std::io;
use std::os::fd::AsFd;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A listening socket.
pub(crate) trait Listener: 'static {
    /// A connection.
    type Socket: Socket;

    /// Returns the next connection. Cancel-safe: a connection is either returned or still in the backlog.
    async fn accept(&self) -> io::Result<Self::Socket>;
}

/// fnd's end of a connection.
pub(crate) trait Socket: AsyncRead + AsyncWrite + AsFd + Unpin + 'static {
    /// Whether the kernel distinguishes a client that has gone from one that closed only its writing half. If not, both
    /// count as gone.
    const SHOWS_HALF_CLOSE: bool;

    /// Polls whether there is something to read, or the other end is closed.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

impl Listener for UnixListener {
    type Socket = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Socket for UnixStream {
    // The kernel sets `EPOLLHUP` only if both halves are closed (epoll_ctl(2)).
    const SHOWS_HALF_CLOSE: bool = true;

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx)
    }
}

impl Listener for TcpListener {
    type Socket = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(stream, _)| stream)
    }
}

impl Socket for TcpStream {
    // A client that closes its socket sends the same segment as one that closes its writing half (RFC 9293, section
    // 3.6).
    const SHOWS_HALF_CLOSE: bool = false;

    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_read_ready(cx)
    }
}
