//! A connection over a Unix socket, watched for bytes only.
//!
//! tokio's `UnixStream` is watched for room, too. The kernel reports room whenever the other end reads, so each answer
//! would wake fnd once more when its caller takes it. Here room is watched only while bytes of an answer wait for it.

use crate::descriptors::watch;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::UnixStream;

/// fnd's end of the connection.
#[derive(Debug)]
pub struct Local {
    socket: AsyncFd<OwnedFd>,
    /// A duplicate that is watched for room, while bytes wait.
    room: Option<AsyncFd<OwnedFd>>,
}

impl Local {
    /// Returns the connection of an accepted stream.
    ///
    /// # Errors
    /// The socket cannot be watched.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        Ok(Self {
            socket: watch(stream.into_std()?.into(), Interest::READABLE)?,
            room: None,
        })
    }

    /// Sends as many bytes as the socket takes now.
    pub(super) fn try_send(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        send(&self.socket, bytes, SendFlags::NOSIGNAL)
    }

    /// Polls whether there is something to read, or the other end is closed.
    pub(super) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_read_ready(cx).map_ok(drop)
    }

    /// Sends once there is room.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        send: impl Fn(&OwnedFd) -> rustix::io::Result<usize>,
        offered: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            match send(self.socket.get_ref()) {
                Ok(count) => {
                    if count == offered {
                        self.room = None;
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let room = match &mut self.room {
                        Some(room) => room,
                        none => none.insert(watch(self.socket.get_ref().try_clone()?, Interest::WRITABLE)?),
                    };
                    // Readiness is cleared before the next attempt: room that comes later is reported again.
                    ready!(room.poll_write_ready(cx))?.clear_ready();
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

impl AsFd for Local {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsyncRead for Local {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
            let room = to.remaining();
            #[expect(unsafe_code, reason = "to read without filling the buffer with zeros first")]
            // SAFETY: recv(2) only writes bytes into the buffer.
            let read = recv(&self.socket, unsafe { to.unfilled_mut() }, RecvFlags::empty());
            match read.map(|(_, count)| count) {
                Ok(count) => {
                    // The kernel reports bytes that come later. At the end of the stream it has nothing to report.
                    if count > 0 && count < room {
                        ready.clear_ready();
                    }
                    #[expect(unsafe_code, reason = "see above")]
                    // SAFETY: recv(2) has written that many bytes.
                    unsafe {
                        to.assume_init(count);
                    }
                    to.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

impl AsyncWrite for Local {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let write = |socket: &OwnedFd| send(socket, bytes, SendFlags::NOSIGNAL);
        self.poll_send(cx, write, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = |socket: &OwnedFd| {
            let mut nothing = SendAncillaryBuffer::default();
            sendmsg(socket, pieces, &mut nothing, SendFlags::NOSIGNAL)
        };
        self.poll_send(cx, write, pieces.iter().map(|piece| piece.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match shutdown(&self.socket, Shutdown::Write) {
            // The other end has gone.
            Ok(()) | Err(Errno::NOTCONN) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test]
    async fn bytes_pass_in_both_directions_until_the_end() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut ours = Local::new(ours).unwrap();
        let large: Vec<u8> = (0..600_000_u32).flat_map(u32::to_le_bytes).collect();
        let expected = large.clone();
        let other = async {
            theirs.write_all(b"hello").await.unwrap();
            let mut read = vec![0; expected.len()];
            theirs.read_exact(&mut read).await.unwrap();
            assert!(read == expected);
            theirs.write_all(&read).await.unwrap();
            theirs.shutdown().await.unwrap();
            let mut rest = Vec::new();
            theirs.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, b"bye");
        };
        let own = async {
            let mut hello = [0; 5];
            ours.read_exact(&mut hello).await.unwrap();
            assert_eq!(&hello, b"hello");
            // More than the socket holds: it waits for room, in both ways of writing.
            let (first, second) = large.split_at(large.len() / 2);
            ours.write_all(first).await.unwrap();
            let mut pieces = &mut [IoSlice::new(&second[..7]), IoSlice::new(&second[7..])][..];
            while !pieces.is_empty() {
                let count = ours.write_vectored(pieces).await.unwrap();
                IoSlice::advance_slices(&mut pieces, count);
            }
            assert!(ours.room.is_none(), "nothing waits for room");
            let mut read = Vec::new();
            ours.read_to_end(&mut read).await.unwrap();
            assert!(read == large);
            ours.write_all(b"bye").await.unwrap();
            ours.shutdown().await.unwrap();
        };
        tokio::join!(other, own);
    }

    #[tokio::test]
    async fn a_peer_that_has_gone_is_an_error_when_something_is_sent() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut ours = Local::new(ours).unwrap();
        drop(theirs);
        let error = ours.write_all(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(ours.read(&mut [0; 8]).await.unwrap(), 0);
        ours.shutdown().await.unwrap();
    }
}
