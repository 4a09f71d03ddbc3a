//! Reads a pipe without taking anything out of it, by `tee(2)`.

use rustix::io::Errno;
use rustix::pipe::{self, PipeFlags, SpliceFlags};
use std::io;
use std::os::fd::OwnedFd;

/// Size of the pipe copied to: the most to which a function can enlarge its own pipes (`/proc/sys/fs/pipe-max-size`).
const SIZE: usize = 1 << 20;

/// A pipe to copy to.
pub(super) struct Tee {
    read: OwnedFd,
    write: OwnedFd,
    size: usize,
}

impl Tee {
    pub(super) fn new() -> io::Result<Self> {
        let (read, write) = pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // If this user may have no large pipes, it keeps the usual size, and so do those of functions.
        let size = pipe::fcntl_setpipe_size(&write, SIZE);
        let size = size.or_else(|_| pipe::fcntl_getpipe_size(&write))?;
        Ok(Self { read, write, size })
    }

    /// Copies the content of a pipe. Returns how many bytes that is; they must be [read](Self::read) next.
    ///
    /// # Errors
    /// The content cannot be copied, or perhaps not all of it.
    pub(super) fn copy(&self, from: &OwnedFd) -> io::Result<usize> {
        // tee(2) copies what fits into the other pipe, and does not tell whether there was more.
        if pipe::fcntl_getpipe_size(from)? > self.size {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        match pipe::tee(from, &self.write, self.size, SpliceFlags::NONBLOCK) {
            // The pipe is empty, and a process still has its writing end.
            Err(Errno::AGAIN) => Ok(0),
            copied => Ok(copied?),
        }
    }

    /// Reads a part of the copied bytes.
    ///
    /// # Errors
    /// No bytes are left.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.read, buffer)?)
    }
}
