//! The connection to fnd-spawner: frames out and in, each with its descriptors, never blocking.
//!
//! It knows nothing of functions or attempts; the driver matches answers to requests by their number.

use fnd_core::frame::{DESCRIPTORS_MAX, FRAME_MAX, Reply, Request, decode, encode};
use fnd_core::wire::WireError;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Why the connection is of no more use.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The spawner ended or closed it.
    #[error("fnd-spawner closed the connection")]
    Closed,
    /// The system refused to send or receive.
    #[error("failed to talk to fnd-spawner")]
    Io(#[source] io::Error),
    /// It sent what is no frame.
    #[error("fnd-spawner sent an invalid frame")]
    Frame(#[source] WireError),
}

/// A frame that came in.
#[derive(Debug)]
pub struct Incoming {
    /// The request it answers; 0 where nobody asked.
    pub request: u32,
    /// What it says.
    pub reply: Reply,
    /// Descriptors beside it, in order.
    pub descriptors: Vec<OwnedFd>,
}

/// A frame that waits until the socket takes it.
struct Outgoing {
    frame: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// One connection.
pub struct Connection {
    socket: Rc<AsyncFd<OwnedFd>>,
    // Unbounded by itself: what fills it is bounded at its sources (the install window, the node's workers).
    waiting: VecDeque<Outgoing>,
    last_request: u32,
    /// One frame's space, used again for each.
    frame: Box<[u8]>,
}

impl Connection {
    /// Returns a connection over a connected `SOCK_SEQPACKET` socket.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking or registered with the runtime.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        #[expect(unsafe_code, reason = "the promise that the descriptor stays the same")]
        // SAFETY: an OwnedFd gives the same open descriptor for as long as it lives, and AsyncFd owns it.
        let socket = unsafe { AsyncFd::register(socket) }.map_err(|error| error.into_parts().1)?;
        let socket = Rc::new(socket);
        Ok(Self {
            socket,
            waiting: VecDeque::new(),
            last_request: 0,
            frame: vec![0; FRAME_MAX].into(),
        })
    }

    /// Returns the socket, to wait for [`Connection::interest`] on it.
    #[must_use]
    pub fn socket(&self) -> Rc<AsyncFd<OwnedFd>> {
        Rc::clone(&self.socket)
    }

    /// Returns what to wait for: to read, and to write where frames wait for the socket.
    #[must_use]
    pub fn interest(&self) -> Interest {
        if self.waiting.is_empty() {
            Interest::READABLE
        } else {
            Interest::READABLE | Interest::WRITABLE
        }
    }

    /// Queues a request and sends what the socket takes now. Returns the request's number.
    ///
    /// # Errors
    /// [`ConnectionError::Io`], [`ConnectionError::Closed`].
    pub fn send(&mut self, request: &Request, descriptors: Vec<OwnedFd>) -> Result<u32, ConnectionError> {
        // 0 is nobody's number.
        self.last_request = self.last_request.checked_add(1).unwrap_or(1);
        let frame = encode(self.last_request, request);
        debug_assert!(frame.len() <= FRAME_MAX && descriptors.len() <= DESCRIPTORS_MAX);
        self.waiting.push_back(Outgoing { frame, descriptors });
        self.flush()?;
        Ok(self.last_request)
    }

    /// Sends what the socket takes now of what waits for it.
    ///
    /// # Errors
    /// [`ConnectionError::Io`], [`ConnectionError::Closed`].
    pub fn flush(&mut self) -> Result<(), ConnectionError> {
        while let Some(out) = self.waiting.front() {
            match send_frame(self.socket.get_ref(), out) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::AGAIN) => break,
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ConnectionError::Closed),
                Err(errno) => return Err(ConnectionError::Io(errno.into())),
            }
        }
        Ok(())
    }

    /// Takes one frame, if there is one now.
    ///
    /// # Errors
    /// Any [`ConnectionError`].
    pub fn receive(&mut self) -> Result<Option<Incoming>, ConnectionError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = recvmsg(
            self.socket.get_ref(),
            &mut [IoSliceMut::new(&mut self.frame)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
        );
        let bytes = match received {
            Ok(message) if message.bytes == 0 => return Err(ConnectionError::Closed),
            Ok(message) => message.bytes,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::CONNRESET) => return Err(ConnectionError::Closed),
            Err(errno) => return Err(ConnectionError::Io(errno.into())),
        };
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        let (request, reply) = decode(self.frame.get(..bytes).unwrap_or_default()).map_err(ConnectionError::Frame)?;
        Ok(Some(Incoming {
            request,
            reply,
            descriptors,
        }))
    }
}

fn send_frame(socket: &OwnedFd, out: &Outgoing) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = out.descriptors.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(&borrowed));
        debug_assert!(fits, "the space is for as many descriptors as a frame may have");
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&out.frame)], &mut control, flags).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::frame::Hello;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, recv, send, socketpair};

    fn connected() -> (Connection, OwnedFd) {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (Connection::new(ours).unwrap(), theirs)
    }

    fn with_runtime(test: impl AsyncFnOnce()) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(test());
    }

    async fn next(connection: &mut Connection) -> Result<Incoming, ConnectionError> {
        loop {
            let socket = connection.socket();
            let mut ready = socket.ready(connection.interest()).await.unwrap();
            connection.flush()?;
            if let Some(incoming) = connection.receive()? {
                return Ok(incoming);
            }
            ready.clear_ready();
        }
    }

    #[test]
    fn what_the_socket_does_not_take_at_once_is_sent_later_in_order() {
        with_runtime(async || {
            let (mut connection, theirs) = connected();
            let hello = Request::Hello(Hello { min: 1, max: 1 });
            let mut sent = 0;
            while connection.waiting.is_empty() {
                sent = connection.send(&hello, vec![]).unwrap();
            }
            let reader = std::thread::spawn(move || {
                let mut frame = [0; 64];
                for expected in 1..=sent {
                    let (_, bytes) = recv(&theirs, &mut frame[..], RecvFlags::empty()).unwrap();
                    let (number, _): (u32, Request) = decode(&frame[..bytes]).unwrap();
                    assert_eq!(number, expected);
                }
                send(&theirs, &encode(7, &Reply::Done), SendFlags::empty()).unwrap();
            });
            let incoming = next(&mut connection).await.unwrap();
            assert_eq!((incoming.request, incoming.reply), (7, Reply::Done));
            reader.join().unwrap();
            assert!(matches!(next(&mut connection).await, Err(ConnectionError::Closed)));
        });
    }

    #[test]
    fn an_invalid_frame_ends_the_connection() {
        with_runtime(async || {
            let (mut connection, theirs) = connected();
            assert!(connection.receive().unwrap().is_none());
            send(&theirs, &[1, 2, 3], SendFlags::empty()).unwrap();
            assert!(matches!(next(&mut connection).await, Err(ConnectionError::Frame(_))));
        });
    }
}
