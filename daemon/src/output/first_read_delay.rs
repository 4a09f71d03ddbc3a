//! Delays the first read of a worker's pipe for a moment.
//!
//! A short script has ended by then: its output is read once, at its end, and is never spooled. It is as safe in the
//! pipe as on disk, because the spawner has a duplicate of the pipe.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Length of the delay. A script that prints and ends is gone within it, and a person who follows output does not
/// notice it.
pub(super) const DELAY: Duration = Duration::from_millis(10);

/// Pipes that are ready and not read yet, by their numbers among epoll events.
#[derive(Default)]
pub(super) struct Delayed(VecDeque<(Instant, u64)>);

impl Delayed {
    pub(super) fn delay(&mut self, mark: u64, now: Instant) {
        self.0.push_back((now + DELAY, mark));
    }

    /// Returns a pipe that was delayed long enough.
    pub(super) fn due(&mut self, now: Instant) -> Option<u64> {
        self.0.pop_front_if(|(until, _)| *until <= now).map(|(_, mark)| mark)
    }

    /// Returns when the next pipe is due; removes pipes before it that are not `wanted` any more.
    pub(super) fn next(&mut self, wanted: impl Fn(u64) -> bool) -> Option<Instant> {
        while self.0.pop_front_if(|(_, mark)| !wanted(*mark)).is_some() {}
        self.0.front().map(|(until, _)| *until)
    }

    /// Removes and returns all pipes.
    pub(super) fn take(&mut self) -> VecDeque<(Instant, u64)> {
        std::mem::take(&mut self.0)
    }
}
