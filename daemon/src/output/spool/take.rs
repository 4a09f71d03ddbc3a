//! Moves bytes from a pipe into a spool in one step of the kernel.
//!
//! `splice(2)` takes out of the pipe only the bytes that it has written to the file. If fnd is killed in the middle,
//! some bytes are in the file, fewer than the chunk states, and the rest is in the pipe. A reader of the spool uses the
//! bytes that are there.

use super::{Chunk, Piece, Spool, Spools, put};
use crate::clock;
use crate::output::log_store::Stream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

impl Spools {
    /// Reads a pipe as `read(2)` would, after moving the bytes to the spool; a spool that is not [`Spool::Whole`] is
    /// left out. Returns how many bytes are in `buffer`, and when they came; 0 at the pipe's end.
    ///
    /// # Errors
    /// The errors of `read(2)`; [`Errno::AGAIN`] where the pipe is empty.
    pub(in super::super) fn take(
        &mut self,
        spool: &mut Spool,
        stream: Stream,
        pipe: &OwnedFd,
        buffer: &mut [u8],
    ) -> rustix::io::Result<(usize, u64)> {
        let Spool::Whole { file, size, .. } = spool else {
            let count = rustix::io::read(pipe, buffer)?;
            return Ok((count, clock::unix_ms()));
        };
        // The pipe is asked first, since a chunk states its length before its bytes.
        let there = available(pipe)?.min(buffer.len());
        let time_ms = clock::unix_ms();
        if there == 0 {
            return Ok((0, time_ms));
        }
        self.piece.clear();
        let chunk = Chunk {
            stderr: stream == Stream::Stderr,
            time_ms,
            length: u32::try_from(there).expect("a buffer is smaller than 4 GiB"),
        };
        put(&Piece::Chunk(chunk), &mut self.piece);
        let (moved, written) = match file.write_all(&self.piece) {
            Ok(()) => relay(pipe, file, there),
            Err(error) => (0, Err(error)),
        };
        let head = self.piece.len() as u64;
        // The bytes are no longer in the pipe, so they are read back from the file.
        let read = file.read_exact_at(&mut buffer[..moved], *size + head);
        self.written(spool, written, head + moved as u64);
        read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        if moved > 0 {
            return Ok((moved, time_ms));
        }
        // The spool failed before a byte was moved. The output is still kept; only a restart of fnd would lose it.
        Ok((rustix::io::read(pipe, buffer)?, time_ms))
    }
}

/// Returns how many bytes are in a pipe, 0 at its end.
fn available(pipe: &OwnedFd) -> rustix::io::Result<usize> {
    loop {
        let there = rustix::io::ioctl_fionread(pipe)?;
        if there > 0 {
            return Ok(usize::try_from(there).unwrap_or(usize::MAX));
        }
        // The count is 0 for an empty pipe and for one that has ended; poll(2) tells them apart.
        let mut ready = [PollFd::new(pipe, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec::default()))?;
        let ready = ready[0].revents();
        if !ready.contains(PollFlags::IN) {
            let ended = ready.contains(PollFlags::HUP);
            return if ended { Ok(0) } else { Err(Errno::AGAIN) };
        }
    }
}

/// Moves bytes from a pipe to the end of a file. Returns how many were moved, and the error that stopped it, if any.
fn relay(pipe: &OwnedFd, file: &File, count: usize) -> (usize, io::Result<()>) {
    let mut moved = 0;
    while moved < count {
        match splice(pipe, None, file, None, count - moved, SpliceFlags::NONBLOCK) {
            // Another process has read from the pipe. The chunk states more bytes than the file gets, so the spool has
            // failed.
            Ok(0) => return (moved, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => moved += more,
            Err(Errno::INTR) => {}
            Err(error) => return (moved, Err(error.into())),
        }
    }
    (moved, Ok(()))
}
