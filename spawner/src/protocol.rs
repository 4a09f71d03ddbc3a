//! Frames and descriptors over `SOCK_SEQPACKET` sockets: with fnd, the judge and launchers.

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

/// Most packets waiting for a peer that does not read; beyond it the connection is given up.
const QUEUE_MAX: usize = 20_000;

/// A socket that carries frames; what can't be sent at once waits.
pub struct Channel {
    socket: OwnedFd,
    waiting: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    partial: Partial,
    /// Descriptors that came where none belong.
    unwanted: Vec<OwnedFd>,
    /// Room for a packet, made when the first is received.
    room: Vec<u8>,
}

/// A frame and what came with it.
pub struct Frame {
    /// Bytes.
    pub bytes: Vec<u8>,
    /// Descriptors, in order.
    pub descriptors: VecDeque<OwnedFd>,
    /// Whether there was no room for some of them, the last ones.
    pub cut: bool,
}

impl Channel {
    /// Takes a connected socket. One that blocks makes [`send`](Self::send) and [`receive`](Self::receive) wait.
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, waiting: VecDeque::new(), partial: Partial::default(), unwanted: Vec::new(), room: Vec::new() }
    }

    /// Returns a channel that never waits, and the other end, which does.
    ///
    /// # Errors
    /// From `socketpair`.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        Ok((Self::new(ours), theirs))
    }

    /// Sends a frame, or keeps it for [`flush`](Self::flush).
    ///
    /// # Errors
    /// From sending; `ENOBUFS` where too much waits.
    pub fn send(&mut self, frame: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<()> {
        if self.waiting.len() >= QUEUE_MAX {
            return Err(Errno::NOBUFS.into());
        }
        self.waiting.extend(packets(frame).into_iter().map(|packet| (packet, Vec::new())));
        if let Some((_, beside)) = self.waiting.back_mut() {
            *beside = descriptors;
        }
        self.flush()
    }

    /// Sends what waits, as far as the peer takes it.
    ///
    /// # Errors
    /// From sending.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some((packet, descriptors)) = self.waiting.front() {
            match send(&self.socket, packet, descriptors) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => {
                    // Nobody will take it.
                    self.waiting.clear();
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Takes the descriptors that came where none belong: closing one may take as long as whoever made it likes.
    pub fn take_unwanted(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.unwanted)
    }

    /// Returns the socket and what came where it does not belong.
    pub fn into_descriptors(mut self) -> Vec<OwnedFd> {
        self.unwanted.push(self.socket);
        self.unwanted
    }

    /// Returns how many packets wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Receives a frame; none where no whole one is there.
    ///
    /// # Errors
    /// From `recvmsg`; `UnexpectedEof` at the end of the connection, `InvalidData` for what is no packet of ours.
    pub fn receive(&mut self) -> io::Result<Option<Frame>> {
        self.room.resize(PACKET_MAX, 0);
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [IoSliceMut::new(&mut self.room)];
            let got = match recvmsg(&self.socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::AGAIN) => return Ok(None),
                // A reset is said once, where the peer left something unread; what it had sent itself comes behind it. unix(7)
                Err(Errno::INTR | Errno::CONNRESET) => continue,
                other => other?,
            };
            let mut descriptors = VecDeque::new();
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(fds) = message {
                    descriptors.extend(fds);
                }
            }
            if got.bytes == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it was closed"));
            }
            let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
            let whole = if got.flags.intersects(ReturnFlags::TRUNC) {
                Err(invalid("a packet is too large".to_owned()))
            } else {
                let whole = self.partial.add(self.room.get(..got.bytes).unwrap_or_default());
                whole.map_err(|error| invalid(error.to_string()))
            };
            match whole {
                Ok(Some(bytes)) => {
                    return Ok(Some(Frame { bytes, descriptors, cut: got.flags.contains(ReturnFlags::CTRUNC) }));
                }
                other => {
                    self.unwanted.extend(descriptors);
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

/// Copies what a descriptor of the peer holds, from its start, at most `max` bytes: a regular or memory file only, so that
/// reading can't block.
///
/// # Errors
/// From reading and writing; `InvalidData` for another kind of file.
pub fn copy_file(from: OwnedFd, to: &mut File, max: u64) -> io::Result<u64> {
    let from = File::from(from);
    if !from.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the descriptor is not a regular file"));
    }
    io::Seek::seek(&mut &from, io::SeekFrom::Start(0))?;
    io::copy(&mut (&from).take(max), to)
}
