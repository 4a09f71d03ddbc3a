//! Attempts that have ended before the output thread has seen them, as most scripts have.
//!
//! A script's pipes come to the output thread after a moment ([`DELAY`]). If the script has ended by then, and printed
//! little, the thread that hears of its end reads the pipes at once. So its caller does not wait for the output thread to
//! wake up twice. The bytes stay in the pipes, of which the spawner has a duplicate, until they are on the disk.

use super::capture::Capture;
use super::first_read_delay::DELAY;
use super::poll::PIECE;
use super::tee::Tee;
use super::{Captured, Meta, Piped, result};
use crate::clock;
use crate::output::kept::Stream;
use fnd_wire::ids::WorkerId;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// What a worker has printed on standard output and standard error, read at this time (Unix milliseconds).
pub(super) struct Printed {
    pub(super) meta: Meta,
    pub(super) time_ms: u64,
    pub(super) bytes: [Vec<u8>; 2],
}

/// The pipes that the output thread does not have yet.
pub(super) struct Brief {
    waiting: VecDeque<(Instant, Piped)>,
    /// Whether the output thread wakes up by itself for the first of them.
    is_expected: bool,
    tee: Tee,
}

impl Brief {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            waiting: VecDeque::new(),
            is_expected: false,
            tee: Tee::new()?,
        })
    }

    /// Adds a worker that was started just now. Returns whether the output thread must be woken, so that it knows when to
    /// take it over.
    pub(super) fn add(&mut self, piped: Piped, now: Instant) -> bool {
        self.waiting.push_back((now + DELAY, piped));
        !std::mem::replace(&mut self.is_expected, true)
    }

    /// Returns a worker whose moment is over.
    pub(super) fn due(&mut self, now: Instant) -> Option<Piped> {
        self.waiting.pop_front_if(|(at, _)| *at <= now).map(|(_, piped)| piped)
    }

    /// Returns when the next worker is due. The caller wakes up then.
    pub(super) fn next(&mut self) -> Option<Instant> {
        let next = self.waiting.front().map(|(at, _)| *at);
        self.is_expected = next.is_some();
        next
    }

    /// Removes and returns all workers.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Piped> {
        std::mem::take(&mut self.waiting).into_iter().map(|(_, piped)| piped)
    }

    /// Removes and returns a worker, if it is still here.
    pub(super) fn remove(&mut self, worker: WorkerId) -> Option<Piped> {
        let place = self.waiting.iter().position(|(_, piped)| piped.worker == worker)?;
        self.waiting.remove(place).map(|(_, piped)| piped)
    }

    /// Copies what a worker that has ended has printed.
    ///
    /// # Errors
    /// The bytes cannot be copied, or may be too many to be read at once; nothing was taken out of the pipes.
    pub(super) fn read(&self, piped: &Piped) -> io::Result<Printed> {
        let read = |from: &OwnedFd| -> io::Result<Vec<u8>> {
            if rustix::pipe::fcntl_getpipe_size(from)? > PIECE {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            let mut bytes = vec![0; self.tee.copy(from)?];
            let mut filled = 0;
            while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
                filled += self.tee.read(rest)?;
            }
            Ok(bytes)
        };
        Ok(Printed {
            meta: piped.meta.clone(),
            time_ms: clock::unix_ms(),
            bytes: [read(&piped.stdout)?, read(&piped.stderr)?],
        })
    }
}

impl Printed {
    /// Returns whether there is anything to keep.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.iter().all(Vec::is_empty)
    }

    /// Returns the bytes of each stream.
    pub(super) fn streams(&self) -> impl Iterator<Item = (Stream, &[u8])> {
        let both = [Stream::Stdout, Stream::Stderr].into_iter().zip(&self.bytes);
        both.filter(|(_, bytes)| !bytes.is_empty())
            .map(|(stream, bytes)| (stream, &bytes[..]))
    }

    /// Returns the output, and the result, of which the file is read.
    pub(super) fn captured(&self, worker: WorkerId, file: Option<OwnedFd>) -> Captured {
        let mut capture = Capture::new(self.meta.clone());
        for (stream, bytes) in self.streams() {
            capture.feed(stream, self.time_ms, bytes, &mut |_, _| {});
        }
        capture.end(self.time_ms, &mut |_, _| {});
        result::conclude(&mut capture, worker, file)
    }
}
