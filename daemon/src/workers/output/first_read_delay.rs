//! What a worker prints first stays in its pipe for a moment.
//!
//! A short script has ended by then: its output is taken once, at its end, and never touches the spool. It is as safe in the
//! pipe as on disk, because the spawner has a duplicate of that.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long. A script that prints and ends is gone within it; nobody who follows output notices it.
const DELAY: Duration = Duration::from_millis(10);

/// Pipes that are ready and not read yet, by their marks among epoll events.
#[derive(Default)]
pub(super) struct Delayed(VecDeque<(Instant, u64)>);

impl Delayed {
    /// Holds a pipe.
    pub(super) fn delay(&mut self, mark: u64, now: Instant) {
        self.0.push_back((now + DELAY, mark));
    }

    /// Returns a pipe that was delayed long enough.
    pub(super) fn due(&mut self, now: Instant) -> Option<u64> {
        self.0.pop_front_if(|(until, _)| *until <= now).map(|(_, mark)| mark)
    }

    /// Returns when the next one is due, forgetting those before it that are not `wanted` any more.
    pub(super) fn next(&mut self, wanted: impl Fn(u64) -> bool) -> Option<Instant> {
        while self.0.pop_front_if(|(_, mark)| !wanted(*mark)).is_some() {}
        self.0.front().map(|(until, _)| *until)
    }

    /// Returns all of them.
    pub(super) fn take(&mut self) -> VecDeque<(Instant, u64)> {
        std::mem::take(&mut self.0)
    }
}
