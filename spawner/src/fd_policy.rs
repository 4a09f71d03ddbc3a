//! Checks the descriptors that fnd passes. Only a pipe, a memory file and a connection of a Unix socket are accepted: any
//! other descriptor may block the process that reads or closes it, or change the thing it belongs to.

use rustix::fs::{AtFlags, FileType, MemfdFlags, StatxFlags, memfd_create, statx};
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The devices of the kernel's own file systems of pipes and of memory files; no other file is on these.
#[derive(Debug, Clone, Copy)]
pub struct PassedDescriptor {
    pipes: (u32, u32),
    memory: (u32, u32),
}

impl PassedDescriptor {
    /// Finds the devices from a new pipe and a new memory file.
    ///
    /// # Errors
    /// If making them fails.
    pub fn detect() -> io::Result<Self> {
        let (pipe, _) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let memory = memfd_create("fnd-look", MemfdFlags::CLOEXEC)?;
        let device = |fd: &OwnedFd| device(fd).map(|(device, _)| device).ok_or(io::ErrorKind::Unsupported);
        Ok(Self { pipes: device(&pipe)?, memory: device(&memory)? })
    }

    /// Returns whether the descriptor is a pipe without a name.
    pub fn is_pipe(&self, fd: &OwnedFd) -> bool {
        device(fd) == Some((self.pipes, FileType::Fifo))
    }

    /// Returns whether the descriptor is a memory file.
    pub fn is_memory(&self, fd: &OwnedFd) -> bool {
        device(fd) == Some((self.memory, FileType::RegularFile))
    }

    /// Returns whether the descriptor is a stream of a Unix socket, as fnd accepts it from a worker that connects.
    pub fn is_connection(fd: &OwnedFd) -> bool {
        socket_domain(fd) == Ok(AddressFamily::UNIX) && socket_type(fd) == Ok(SocketType::STREAM)
    }
}

/// Returns device and type, without making the file system refresh them: a hostile file system would never answer.
fn device(fd: impl AsFd) -> Option<((u32, u32), FileType)> {
    let stat = statx(fd, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    Some(((stat.stx_dev_major, stat.stx_dev_minor), FileType::from_raw_mode(stat.stx_mode.into())))
}
