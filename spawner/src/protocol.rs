//! Frames and descriptors over `SOCK_SEQPACKET` sockets: with fnd, and between spawner and launchers.

use fnd_core::frame::{DESCRIPTORS_MAX, Document, FRAME_MAX, INLINE_MAX};
use fnd_core::wire::Bytes;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

/// Most frames waiting for a peer that does not read; beyond it the connection is given up.
const QUEUE_MAX: usize = 20_000;

/// A socket that carries frames; what can't be sent at once waits.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    waiting: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

/// A frame and what came with it; empty bytes are the end of the connection.
#[derive(Debug, Default)]
pub struct Frame {
    /// Bytes.
    pub bytes: Vec<u8>,
    /// Descriptors, in order.
    pub descriptors: VecDeque<OwnedFd>,
}

impl Channel {
    /// Takes a connected socket, which is made non-blocking.
    ///
    /// # Errors
    /// From `fcntl`.
    pub fn new(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self { socket, waiting: VecDeque::new() })
    }

    /// Sends a frame, or keeps it for [`flush`](Self::flush).
    ///
    /// # Errors
    /// From sending; `ENOBUFS` where too many wait.
    pub fn send(&mut self, bytes: Vec<u8>, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        if self.waiting.len() >= QUEUE_MAX {
            return Err(Errno::NOBUFS.into());
        }
        self.waiting.push_back((bytes, descriptors));
        self.flush()
    }

    /// Sends what waits, as far as the peer takes it.
    ///
    /// # Errors
    /// From sending.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some((bytes, descriptors)) = self.waiting.front() {
            match send(self.socket.as_fd(), bytes, descriptors) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Returns how many frames wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Receives a frame; none where nothing is there.
    ///
    /// # Errors
    /// As [`receive`].
    pub fn receive(&self) -> io::Result<Option<Frame>> {
        match receive(self.socket.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            other => other.map(Some),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns two connected sockets for frames.
///
/// # Errors
/// From `socketpair`.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one frame.
///
/// # Errors
/// From `sendmsg`.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[OwnedFd]) -> Result<(), Errno> {
    let fds: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(Errno::TOOBIG);
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).map(|_| ())
}

/// Receives one frame.
///
/// # Errors
/// From `recvmsg`; `InvalidData` where the frame or its descriptors were cut off.
pub fn receive(socket: BorrowedFd<'_>) -> io::Result<Frame> {
    let mut bytes = vec![0; FRAME_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = VecDeque::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            descriptors.extend(fds);
        }
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the frame is too large"));
    }
    bytes.truncate(got.bytes);
    Ok(Frame { bytes, descriptors })
}

/// Puts bytes into a frame, or into a sealed memory file beside it where they are too many.
///
/// # Errors
/// From making the file.
pub fn document(bytes: Vec<u8>, beside: &mut Vec<OwnedFd>) -> io::Result<Document> {
    if bytes.len() <= INLINE_MAX {
        return Ok(Document::Inline(Bytes(bytes)));
    }
    let mut file = File::from(rustix::fs::memfd_create("fnd", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.write_all(&bytes)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    beside.push(file.into());
    Ok(Document::Descriptor)
}

/// Returns the bytes of a document, at most `max`.
///
/// # Errors
/// `InvalidData` where the descriptor is missing, not a memory file, still writable by the peer, or too large.
pub fn contents(document: Document, descriptors: &mut VecDeque<OwnedFd>, max: u64) -> io::Result<Vec<u8>> {
    let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    if let Document::Inline(bytes) = document {
        return Ok(bytes.0);
    }
    let fd = descriptors.pop_front().ok_or_else(|| invalid("a descriptor is missing"))?;
    // Sealed: it can't shrink while it is read, and reading it can't block.
    let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
    if !seals.contains(SealFlags::WRITE | SealFlags::SHRINK) {
        return Err(invalid("the descriptor is not a sealed memory file"));
    }
    let file = File::from(fd);
    let length = file.metadata()?.len();
    if length > max {
        return Err(invalid("the document is too large"));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
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
