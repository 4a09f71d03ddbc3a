//! Sends and receives frames and descriptors over `SOCK_SEQPACKET` sockets: with fnd, the judge and launchers.

use crate::process::closing;
use fnd_wire::form::Wire as _;
use fnd_wire::frame::{DESCRIPTORS_MAX, PACKET_MAX, Partial, packets};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Largest number of packets that wait for a peer that does not read; with more the connection is closed.
const QUEUE_MAX: usize = 20_000;

/// A socket that carries frames; packets that can't be sent at once wait in a queue.
pub struct Channel {
    socket: OwnedFd,
    waiting: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    partial: Partial,
    /// Buffer for a packet, allocated at the first receive.
    room: Vec<u8>,
}

/// A frame and its descriptors.
pub struct Frame {
    pub bytes: Vec<u8>,
    /// Descriptors, in order.
    pub descriptors: VecDeque<OwnedFd>,
    /// Whether the last descriptors were lost because there was no room for them.
    pub cut: bool,
}

impl Channel {
    /// Returns a channel on a connected socket. If the socket is blocking, [`send`](Self::send) and
    /// [`receive`](Self::receive) wait.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, waiting: VecDeque::new(), partial: Partial::default(), room: Vec::new() }
    }

    /// Returns a channel that never waits, and the other end, which is blocking.
    ///
    /// # Errors
    /// If `socketpair` fails.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok((Self::new(ours), theirs))
    }

    /// Sends a frame; packets that can't be sent at once are kept for [`flush`](Self::flush).
    ///
    /// # Errors
    /// If sending fails; `ENOBUFS` if too many packets wait.
    pub fn send(&mut self, frame: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<()> {
        if self.waiting.len() >= QUEUE_MAX {
            return Err(Errno::NOBUFS.into());
        }
        self.waiting.extend(packets(frame).into_iter().map(|packet| (packet, Vec::new())));
        // With the last packet: only with it the frame is complete, and the descriptors belong to somebody.
        if let Some((_, beside)) = self.waiting.back_mut() {
            *beside = descriptors;
        }
        self.flush()
    }

    /// Sends waiting packets until the peer takes no more.
    ///
    /// # Errors
    /// If sending fails.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some((packet, descriptors)) = self.waiting.front() {
            match send(&self.socket, packet, descriptors) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => {
                    // The peer will not take the rest.
                    closing::later(self.waiting.drain(..).flat_map(|(_, descriptors)| descriptors));
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Leaves the socket and what waits to be sent to a helper: closing may take as long as the peer likes.
    pub fn give_up(self) {
        closing::later(self.waiting.into_iter().flat_map(|(_, descriptors)| descriptors).chain([self.socket]));
    }

    /// Returns how many packets wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Receives a frame; none if no complete frame is there.
    ///
    /// # Errors
    /// If `recvmsg` fails; `UnexpectedEof` at the end of the connection, `InvalidData` for an invalid packet.
    pub fn receive(&mut self) -> io::Result<Option<Frame>> {
        self.room.resize(PACKET_MAX, 0);
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [IoSliceMut::new(&mut self.room)];
            let got = match recvmsg(&self.socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::AGAIN) => return Ok(None),
                // If the peer closed without reading everything, a reset is reported once; the data that the peer sent
                // follows it. unix(7)
                Err(Errno::INTR | Errno::CONNRESET) => continue,
                other => other?,
            };
            let mut descriptors = VecDeque::new();
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    descriptors.extend(fds);
                }
            }
            // No peer of ours sends an empty packet, so this is the end of the connection (recvmsg(2)).
            if got.bytes == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it was closed"));
            }
            let packet = self.room.get(..got.bytes).unwrap_or_default();
            let whole = match got.flags.intersects(ReturnFlags::TRUNC) {
                true => Err("a packet is too large".to_owned()),
                false => self.partial.add(packet).map_err(|error| error.to_string()),
            };
            match whole.map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why)) {
                Ok(Some(bytes)) => {
                    return Ok(Some(Frame { bytes, descriptors, cut: got.flags.contains(ReturnFlags::CTRUNC) }));
                }
                other => {
                    // They came with an invalid packet, or with one that is not the last of its frame.
                    closing::later(descriptors);
                    other?;
                }
            }
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn send(socket: &OwnedFd, packet: &[u8], descriptors: &[OwnedFd]) -> Result<(), Errno> {
    let fds: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::TOOBIG);
    }
    sendmsg(socket, &[IoSlice::new(packet)], &mut control, SendFlags::NOSIGNAL).map(|_| ())
}

/// Receives the only text that a process sends: why it failed, or nothing. `silent` is the reason if it sends none.
///
/// # Errors
/// Why it failed.
pub fn hear(socket: OwnedFd, silent: &str) -> Result<(), String> {
    let said = Channel::new(socket).receive().ok().flatten().and_then(|frame| String::from_wire(&frame.bytes).ok());
    let why = said.unwrap_or_else(|| silent.to_owned());
    if why.is_empty() { Ok(()) } else { Err(why) }
}

/// Copies the content of a descriptor that the peer passed, from its start, at most `max` bytes. Only a regular or
/// memory file is accepted, so that reading can't block.
///
/// # Errors
/// If reading or writing fails; `InvalidData` for another kind of file.
pub fn copy_file(from: OwnedFd, to: &mut File, max: u64) -> io::Result<u64> {
    let from = File::from(from);
    if !from.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the descriptor is not a regular file"));
    }
    io::Seek::seek(&mut &from, io::SeekFrom::Start(0))?;
    io::copy(&mut (&from).take(max), to)
}
