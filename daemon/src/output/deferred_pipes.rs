//! Workers that the output thread has not seen yet.
//!
//! A script's pipes come to the output thread after a moment ([`DELAY`]), or when the script ends. Most scripts have ended by
//! then, so the thread wakes up only once for them; and if a script has printed nothing, not at all.

use super::capture::Capture;
use super::first_read_delay::DELAY;
use super::poll::PIECE;
use super::{Captured, Piped};
use fnd_wire::ids::WorkerId;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// The pipes that the output thread does not have yet.
#[derive(Default)]
pub(super) struct Brief {
    waiting: VecDeque<(Instant, Piped)>,
    /// Whether the output thread wakes up by itself for the first of them.
    is_expected: bool,
}

impl Brief {
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
}

/// Returns the result of a worker that has ended, from its file, if it has printed nothing and the file is small.
pub(super) fn silent(piped: &Piped, file: &mut Option<OwnedFd>) -> Option<Captured> {
    // The leaf of the worker is empty, so nothing more comes: a count of 0 is the end.
    let is_empty = |pipe: &OwnedFd| rustix::io::ioctl_fionread(pipe).is_ok_and(|bytes| bytes == 0);
    // A larger result is left to the output thread, since the main thread reads here.
    let is_small = |file: &OwnedFd| {
        let size = rustix::fs::fstat(file).map(|stat| usize::try_from(stat.st_size));
        matches!(size, Ok(Ok(size)) if size <= PIECE)
    };
    let at_once = is_empty(&piped.stdout) && is_empty(&piped.stderr) && file.as_ref().is_none_or(is_small);
    at_once.then(|| Capture::new(piped.meta.clone()).conclude(piped.worker, file.take()))
}
