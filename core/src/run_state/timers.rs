//! All timers in one ordered set, with one next deadline.
//!
//! The set deletes exactly. With the default timeout of three minutes a heap with lazy deletion would keep the dead
//! entry of every run of the last three minutes and wake up for each. The code that arms a timer knows its instant
//! anyway.

use super::FunctionKey;
use fnd_wire::ids::{InvocationId, WorkerId};
use std::collections::BTreeSet;
use std::time::Duration;

/// A timer. Of timers due at the same instant, those that end something come first, so that nothing begins when it is
/// over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Deadline(InvocationId),
    /// An invocation's expiry, if it has not begun.
    Expire(InvocationId),
    Attempt(WorkerId, InvocationId),
    /// The end of a worker's phase: loading, idle time, grace, or the wait after SIGKILL.
    Worker(WorkerId),
    /// A service's process has run for a while, or its time to get ready is over.
    ServiceCheck(WorkerId),
    /// The start of a delayed invocation, a retry or a poll.
    Begin(InvocationId),
    /// The end of a crash-looping function's pause.
    Hold(FunctionKey),
    /// The end of the pause after a failed claim.
    Claims,
    /// The end of a pause of starts, or starts have worked for a while.
    Starts,
    /// The next trial of a version that could not be loaded.
    Trial(FunctionKey),
}

/// All timers, by instant.
#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Duration, Timer)>);

impl Timers {
    /// Arms a timer, if there is an instant.
    pub(crate) fn arm(&mut self, at: impl Into<Option<Duration>>, timer: Timer) {
        self.0.extend(at.into().map(|at| (at, timer)));
    }

    /// Disarms a timer; does nothing if it is not armed for that instant.
    pub(crate) fn disarm(&mut self, at: impl Into<Option<Duration>>, timer: Timer) {
        if let Some(at) = at.into() {
            self.0.remove(&(at, timer));
        }
    }

    /// Returns the earliest instant.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Removes and returns one timer that is due.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
