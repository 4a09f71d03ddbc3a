//! What shall happen later: one ordered set, one next deadline.
//!
//! style.md suggests a heap with lazy deletion. This is an ordered set with exact deletion: with the default timeout of
//! three minutes a heap would keep the dead entry of every run of the last three minutes and wake up for each, and whoever
//! armed a timer knows its instant anyway.

use super::function::FunctionKey;
use fnd_wire::ids::{InvocationId, WorkerId};
use std::collections::BTreeSet;
use std::time::Duration;

/// What is due. Of timers due at once those that end come first, so that nothing begins at the instant it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// An invocation's deadline.
    Deadline(InvocationId),
    /// It was to have begun by now.
    Expire(InvocationId),
    /// An attempt's timeout.
    Attempt(WorkerId, InvocationId),
    /// A worker's phase is over: loading, idleness, grace, or the patience after SIGKILL.
    Worker(WorkerId),
    /// A service's process has run for a while, or had time to get ready.
    Look(WorkerId),
    /// A delayed start, a retry or a poll.
    Begin(InvocationId),
    /// A crash-looping function may try again.
    Hold(FunctionKey),
    /// The ledger may be asked again.
    Claims,
    /// Something may be started again, or starts have worked for a while.
    Starts,
    /// A version that could not be loaded is tried again.
    Trial(FunctionKey),
}

/// All timers, by instant.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Duration, Timer)>);

impl Timers {
    /// Arms a timer.
    pub(super) fn arm(&mut self, at: Duration, timer: Timer) {
        self.0.insert((at, timer));
    }

    /// Takes a timer back; nothing happens if it is not armed for that instant.
    pub(super) fn disarm(&mut self, at: Duration, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    /// Returns the earliest instant.
    pub(super) fn next(&self) -> Option<Duration> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes one timer that is due.
    pub(super) fn pop_due(&mut self, now: Duration) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}
