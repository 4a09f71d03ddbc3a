//! The connection to fnd-spawner: frames out and in, each with its descriptors, never blocking.
//!
//! It knows nothing of functions or attempts; the driver matches answers to requests by their numbers.

use crate::effects;
use fnd_wire::form::WireError;
use fnd_wire::frame::{DESCRIPTORS_MAX, PACKET_MAX, Partial, Reply, Request, decode, encode, packets};
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

/// Why the connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The spawner ended or closed the connection.
    #[error("fnd-spawner closed the connection")]
    Closed,
    /// The system refused to send or receive.
    #[error("failed to exchange messages with fnd-spawner")]
    Io(#[source] io::Error),
    /// The spawner sent bytes that are no frame.
    #[error("fnd-spawner sent an invalid frame")]
    Frame(#[source] WireError),
}

/// A frame that came in.
#[derive(Debug)]
pub struct Incoming {
    /// The number of the request it answers; 0 where it answers none.
    pub request: u32,
    pub reply: Reply,
    /// The descriptors sent with it, in order.
    pub descriptors: Vec<OwnedFd>,
}

/// A packet that waits until the socket takes it.
struct Outgoing {
    packet: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

pub struct SpawnerConnection {
    socket: Rc<AsyncFd<OwnedFd>>,
    /// The same socket, watched for room while frames wait. If it were always watched, each frame that is taken would
    /// wake fnd.
    room: Option<Rc<AsyncFd<OwnedFd>>>,
    // Unbounded by itself: the sources of its frames are bounded (the install window, the node's workers).
    waiting: VecDeque<Outgoing>,
    last_request: u32,
    /// Requests whose answer has not come.
    unanswered: usize,
    /// Space for one packet, used for each.
    packet: Box<[u8]>,
    /// The part of a frame that has come so far.
    partial: Partial,
}

impl SpawnerConnection {
    /// Returns a connection over a connected `SOCK_SEQPACKET` socket.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking or registered with the runtime.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self {
            socket: Rc::new(crate::descriptors::watch(socket, Interest::READABLE)?),
            room: None,
            waiting: VecDeque::new(),
            last_request: 0,
            unanswered: 0,
            packet: vec![0; PACKET_MAX].into(),
            partial: Partial::default(),
        })
    }

    /// Returns the user of the spawner's process; nothing where the kernel does not tell.
    #[must_use]
    pub fn peer_uid(&self) -> Option<u32> {
        let credentials = rustix::net::sockopt::socket_peercred(self.socket.get_ref()).ok()?;
        Some(credentials.uid.as_raw())
    }

    /// Returns the socket, to wait for frames on it.
    #[must_use]
    pub fn socket(&self) -> Rc<AsyncFd<OwnedFd>> {
        Rc::clone(&self.socket)
    }

    /// Returns the socket, to wait for room on it, if frames wait for room.
    #[must_use]
    pub fn room(&self) -> Option<Rc<AsyncFd<OwnedFd>>> {
        self.room.clone()
    }

    /// Queues a request and sends what the socket takes now. Returns the request's number.
    ///
    /// # Errors
    /// [`ConnectionError::Io`], [`ConnectionError::Closed`].
    pub fn send(&mut self, request: &Request, descriptors: Vec<OwnedFd>) -> Result<u32, ConnectionError> {
        // 0 is the number of no request.
        self.last_request = self.last_request.checked_add(1).unwrap_or(1);
        if !effects::leaves() {
            return Ok(self.last_request);
        }
        let frame = encode(self.last_request, request);
        debug_assert!(descriptors.len() <= DESCRIPTORS_MAX);
        self.waiting.extend(packets(&frame).into_iter().map(|packet| Outgoing {
            packet,
            descriptors: Vec::new(),
        }));
        // The receiver takes the descriptors of the packet that completes a frame.
        if let Some(last) = self.waiting.back_mut() {
            last.descriptors = descriptors;
        }
        // `Acknowledge` is the one request without an answer.
        self.unanswered += usize::from(!matches!(request, Request::Acknowledge(_)));
        self.flush()?;
        Ok(self.last_request)
    }

    /// Sends as many of the waiting frames as the socket takes now.
    ///
    /// # Errors
    /// [`ConnectionError::Io`], [`ConnectionError::Closed`].
    pub fn flush(&mut self) -> Result<(), ConnectionError> {
        while let Some(out) = self.waiting.front() {
            match send_packet(self.socket.get_ref(), out) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::AGAIN) => break,
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ConnectionError::Closed),
                Err(errno) => return Err(ConnectionError::Io(errno.into())),
            }
        }
        if self.waiting.is_empty() {
            self.room = None;
        } else if self.room.is_none() {
            // epoll(7) has one entry for each descriptor, and the entry of this one is for reading. So a duplicate is
            // watched for room.
            let socket = self.socket.get_ref().try_clone();
            let room = socket.and_then(|socket| crate::descriptors::watch(socket, Interest::WRITABLE).map(Rc::new));
            self.room = Some(room.map_err(ConnectionError::Io)?);
        }
        Ok(())
    }

    /// Receives one frame, if a whole one is there now.
    ///
    /// # Errors
    /// Any [`ConnectionError`].
    pub fn receive(&mut self) -> Result<Option<Incoming>, ConnectionError> {
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let received = recvmsg(
                self.socket.get_ref(),
                &mut [IoSliceMut::new(&mut self.packet)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
            );
            let bytes = match received {
                // A packet socket shows its end as an empty packet, and no frame is empty.
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
            let packet = self.packet.get(..bytes).unwrap_or_default();
            if let Some(frame) = self.partial.add(packet).map_err(ConnectionError::Frame)? {
                let (request, reply) = decode(&frame).map_err(ConnectionError::Frame)?;
                // The fingerprints of a worker's secrets come before the answer to its start.
                if request != 0 && !matches!(reply, Reply::Masks(_)) {
                    self.unanswered = self.unanswered.saturating_sub(1);
                }
                return Ok(Some(Incoming {
                    request,
                    reply,
                    descriptors,
                }));
            }
        }
    }

    /// Returns whether every request has been answered.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.unanswered == 0
    }

    /// Waits for a frame, and sends waiting frames meanwhile. For the time before the driver begins, which also waits
    /// for other sources.
    ///
    /// # Errors
    /// Any [`ConnectionError`].
    pub async fn next(&mut self) -> Result<Incoming, ConnectionError> {
        loop {
            let (socket, room) = (self.socket(), self.room());
            tokio::select! {
                // Both are cancel-safe: readiness is cleared only where it is used.
                ready = socket.readable() => {
                    let mut ready = ready.map_err(ConnectionError::Io)?;
                    if let Some(incoming) = self.receive()? {
                        return Ok(incoming);
                    }
                    ready.clear_ready();
                }
                ready = has_room(room.as_deref()) => {
                    ready?;
                    self.flush()?;
                }
            }
        }
    }
}

/// Waits until a socket has room; for ever where there is none.
///
/// # Errors
/// [`ConnectionError::Io`].
pub async fn has_room(socket: Option<&AsyncFd<OwnedFd>>) -> Result<(), ConnectionError> {
    let ready = crate::or_never(socket.map(AsyncFd::writable)).await;
    // Readiness is cleared before anything is written: room that comes later is reported again.
    ready.map(|mut ready| ready.clear_ready()).map_err(ConnectionError::Io)
}

fn send_packet(socket: &OwnedFd, out: &Outgoing) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let borrowed: Vec<_> = out.descriptors.iter().map(AsFd::as_fd).collect();
    if !borrowed.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(&borrowed));
        debug_assert!(fits, "the space is for as many descriptors as a frame may have");
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &[IoSlice::new(&out.packet)], &mut control, flags).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::frame::{Hello, Masked};
    use fnd_wire::ids::WorkerId;
    use fnd_wire::mask::Masks;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, recv, send, socketpair};

    fn connected() -> (SpawnerConnection, OwnedFd) {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (SpawnerConnection::new(ours).unwrap(), theirs)
    }

    fn with_runtime(test: impl AsyncFnOnce()) {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(test());
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
                    let (number, _): (u32, Request) = decode(&frame[1..bytes]).unwrap();
                    assert_eq!(number, expected);
                }
                for packet in packets(&encode(7, &Reply::Done)) {
                    send(&theirs, &packet, SendFlags::empty()).unwrap();
                }
            });
            let incoming = connection.next().await.unwrap();
            assert_eq!((incoming.request, incoming.reply), (7, Reply::Done));
            reader.join().unwrap();
            assert!(matches!(connection.next().await, Err(ConnectionError::Closed)));
        });
    }

    #[test]
    fn fingerprints_are_no_answer() {
        with_runtime(async || {
            let (mut connection, theirs) = connected();
            let number = connection.send(&Request::Reload, vec![]).unwrap();
            let masked = Masked {
                worker: WorkerId(1),
                masks: Masks::default(),
            };
            for (reply, is_answered) in [(Reply::Masks(masked), false), (Reply::Done, true)] {
                for packet in packets(&encode(number, &reply)) {
                    send(&theirs, &packet, SendFlags::empty()).unwrap();
                }
                assert_eq!(connection.next().await.unwrap().reply, reply);
                assert_eq!(connection.is_answered(), is_answered, "{reply:?}");
            }
        });
    }

    #[test]
    fn an_invalid_frame_ends_the_connection() {
        with_runtime(async || {
            let (mut connection, theirs) = connected();
            assert!(connection.receive().unwrap().is_none());
            send(&theirs, &[9, 2, 3], SendFlags::empty()).unwrap();
            assert!(matches!(connection.next().await, Err(ConnectionError::Frame(_))));
        });
    }
}
