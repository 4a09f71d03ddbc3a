//! The part of a worker's adoption record that describes one attempt.

use super::invocation::{Deadline, Invocation, Started};
use super::worker::{Run, Worker};
use crate::messages::Now;
use crate::messages::adoption_records::{RunRecord, Times};
use crate::messages::on_mono;
use fnd_wire::ids::{Attempt, Version};
use std::time::Duration;

impl RunRecord {
    /// Returns the record of a worker's attempt.
    pub(crate) fn of(worker: &Worker, run: &Run, invocation: &Invocation) -> Self {
        let at = run.started.mono;
        let first = invocation.started;
        Self {
            invocation: run.invocation,
            attempt: run.attempt.0,
            poll: run.poll,
            trigger: invocation.trigger,
            accepted_ms: invocation.accepted_ms,
            first_ms: first.map_or(run.started.unix_ms, |started| started.unix_ms),
            started_ms: run.started.unix_ms,
            timeout: run.timeout,
            deadline_ms: invocation.deadline.map(|deadline| deadline.unix_ms),
            times: Some(Times {
                started_after: at.saturating_sub(worker.started.mono),
                since_first: first.map_or(Duration::ZERO, |started| started.elapsed(at)),
                deadline_in: invocation.deadline.map(|deadline| deadline.at.saturating_sub(at)),
            }),
            cgi: invocation.payload.is_cgi(),
            called: invocation.called().cloned(),
            ending: run.ending.clone(),
        }
    }

    /// Returns the attempt, which nothing ends yet. The timer of its timeout is not armed.
    pub(crate) fn run(&self, started: Now) -> Run {
        Run {
            invocation: self.invocation,
            attempt: Attempt(self.attempt),
            poll: self.poll,
            started,
            timeout: self.timeout,
            timeout_at: self.timeout.map(|timeout| started.mono.saturating_add(timeout)),
            ending: None,
            call: None,
        }
    }
}

/// An attempt of an earlier fnd, by the clock of this one.
pub(crate) struct RunOrigin<'a> {
    pub(crate) run: &'a RunRecord,
    pub(crate) version: Version,
    /// When this attempt began.
    pub(crate) started: Now,
}

impl<'a> RunOrigin<'a> {
    /// Returns the attempt of a record that began so long ago.
    pub(crate) fn new(run: &'a RunRecord, version: Version, now: Now, age: Duration) -> Self {
        let started = Now {
            mono: now.mono.saturating_sub(age),
            unix_ms: run.started_ms,
        };
        Self { run, version, started }
    }

    /// Returns when the first attempt began. The wall clock is used only where the record has nothing else.
    pub(crate) fn first(&self, now: Now) -> Started {
        let by_wall = || Duration::from_millis(now.unix_ms.saturating_sub(self.run.first_ms));
        let since = |times: Times| {
            now.mono
                .saturating_sub(self.started.mono)
                .saturating_add(times.since_first)
        };
        Started {
            unix_ms: self.run.first_ms,
            at: now.mono,
            before: self.run.times.map_or_else(by_wall, since),
        }
    }

    /// Returns when the whole invocation ends.
    pub(crate) fn deadline(&self, now: Now) -> Option<Deadline> {
        let unix_ms = self.run.deadline_ms?;
        let remaining = self.run.times.and_then(|times| times.deadline_in);
        // The wall clock may have been set since. It counts only for a record of an older fnd, which has nothing else.
        let at = remaining.map_or_else(
            || on_mono(now, unix_ms),
            |remaining| self.started.mono.saturating_add(remaining),
        );
        Some(Deadline {
            at,
            unix_ms,
            of_caller: false,
        })
    }
}
