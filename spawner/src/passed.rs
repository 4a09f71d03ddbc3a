//! What kind of descriptor fnd passed. Only a pipe and a memory file are taken: whatever else has a descriptor may block who
//! reads or closes it, or change what it belongs to.

use rustix::fs::{AtFlags, FileType, MemfdFlags, StatxFlags, memfd_create, statx};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The kernel's own file systems of pipes and of memory files, by their devices: no other file is on these.
#[derive(Debug, Clone, Copy)]
pub struct Passed {
    pipes: (u32, u32),
    memory: (u32, u32),
}

impl Passed {
    /// Looks at a pipe and a memory file of its own.
    ///
    /// # Errors
    /// From making them.
    pub fn look() -> io::Result<Self> {
        let (pipe, _) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let memory = memfd_create("fnd-look", MemfdFlags::CLOEXEC)?;
        let device = |fd: &OwnedFd| device(fd).map(|(device, _)| device).ok_or(io::ErrorKind::Unsupported);
        Ok(Self { pipes: device(&pipe)?, memory: device(&memory)? })
    }

    /// Says whether it is a pipe that has no name.
    pub fn is_pipe(&self, fd: &OwnedFd) -> bool {
        device(fd) == Some((self.pipes, FileType::Fifo))
    }

    /// Says whether it is a memory file.
    pub fn is_memory(&self, fd: &OwnedFd) -> bool {
        device(fd) == Some((self.memory, FileType::RegularFile))
    }
}

/// Returns device and type; without asking a file system for news, which a hostile one would never give.
fn device(fd: impl AsFd) -> Option<((u32, u32), FileType)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(fd, "", flags, StatxFlags::TYPE).ok()?;
    Some(((stat.stx_dev_major, stat.stx_dev_minor), FileType::from_raw_mode(stat.stx_mode.into())))
}
