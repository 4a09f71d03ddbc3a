//! fnd's end of a connection, and what is known about the other end when it is accepted.

use super::local::Local;
use super::tls::Tls;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// fnd's end of a connection.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(Local),
    /// Over TCP, secured.
    Tls(Box<TlsStream<TcpStream>>),
}

/// The facts about the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peer {
    /// Its address; of an IPv4 client the IPv4 address, whatever socket it came to. Absent on a Unix socket.
    pub address: Option<IpAddr>,
    /// Its port. Absent on a Unix socket.
    pub port: Option<u16>,
    /// The port that it connected to. Absent on a Unix socket.
    pub local_port: Option<u16>,
    /// Whether TLS secures the connection.
    pub is_secure: bool,
}

impl Peer {
    pub(super) fn remote(address: SocketAddr, local_port: Option<u16>, is_secure: bool) -> Self {
        Self {
            address: Some(address.ip().to_canonical()),
            port: Some(address.port()),
            local_port,
            is_secure,
        }
    }
}

/// A connection that was accepted, and not yet admitted.
#[derive(Debug)]
pub struct AcceptedConnection {
    pub(in crate::http) socket: Socket,
    /// The configuration of the handshake; absent without TLS.
    pub(in crate::http) tls: Option<Tls>,
    pub peer: Peer,
}

impl AcceptedConnection {
    /// Returns the connection over a Unix socket, whose peer the kernel knows.
    #[must_use]
    pub fn unix(&self) -> Option<&Local> {
        match &self.socket {
            Socket::Unix(stream) => Some(stream),
            Socket::Tcp(_) | Socket::Tls(_) => None,
        }
    }

    /// Returns the socket after the handshake, if there is to be one.
    ///
    /// # Errors
    /// As [`Tls::handshake`].
    pub(in crate::http) async fn secured(self) -> io::Result<Socket> {
        match (self.socket, self.tls) {
            (Socket::Tcp(stream), Some(tls)) => tls.handshake(stream).await.map(Socket::Tls),
            (socket, _) => Ok(socket),
        }
    }

    /// Writes an answer if that is possible at once; a client that does not get it sees the connection close.
    pub(in crate::http) fn answer_at_once(&self, answer: &[u8]) {
        let mut unread = [0; 16 << 10];
        // A TCP socket that is closed with bytes unread is reset, and the client may lose the answer.
        let _ = match &self.socket {
            // There is no time for a handshake.
            Socket::Tcp(_) if self.tls.is_some() => return,
            Socket::Tls(_) => return,
            Socket::Tcp(stream) => stream.try_write(answer).and_then(|_| stream.try_read(&mut unread)),
            Socket::Unix(stream) => stream.try_send(answer).map_err(io::Error::from),
        };
    }
}

impl Socket {
    /// Returns whether the kernel distinguishes a client that has gone from one that closed only its writing half. If
    /// not, both count as gone.
    pub(in crate::http) fn shows_half_close(&self) -> bool {
        match self {
            // The kernel sets `EPOLLHUP` only if both halves are closed (epoll_ctl(2)).
            Self::Unix(_) => true,
            // A client that closes its socket sends the same segment as one that closes its writing half (RFC 9293,
            // section 3.6).
            Self::Tcp(_) | Self::Tls(_) => false,
        }
    }

    /// Returns whether the client has chosen HTTP/2.
    pub(in crate::http) fn is_http2(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2"))
    }

    /// Polls whether there is something to read, or the other end is closed.
    pub(in crate::http) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
            Self::Tls(stream) => stream.get_ref().0.poll_read_ready(cx),
        }
    }

    fn stream(&mut self) -> &mut dyn Duplex {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
            Self::Tls(stream) => stream,
        }
    }
}

/// Bytes in both directions.
pub(in crate::http) trait Duplex: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(stream) => stream.get_ref().0.as_fd(),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream()).poll_read(cx, to)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(self.stream()).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.stream()).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream()).poll_shutdown(cx)
    }
}
