//! The part of a worker's adoption record that describes one attempt.

use super::event::Now;
use super::invocation::{Deadline, Invocation, Started};
use super::submit::on_mono;
use super::verdict::EndCause;
use super::worker::{Run, Worker};
use crate::records::cause::CallCause;
use crate::records::outcome::Trigger;
use fnd_wire::ids::{Attempt, InvocationId, Version};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An attempt that runs, and its invocation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunRecord {
    /// The invocation of which this is an attempt.
    #[serde(with = "fnd_manifest::text::id")]
    pub invocation: InvocationId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Polls before this attempt.
    pub poll: u32,
    /// The invocation's trigger.
    pub trigger: Trigger,
    /// When the invocation was accepted, Unix milliseconds.
    pub accepted_ms: u64,
    /// When the invocation's first attempt began, Unix milliseconds.
    pub first_ms: u64,
    /// When this attempt began, Unix milliseconds.
    pub started_ms: u64,
    /// Timeout of this attempt.
    pub timeout: Option<Duration>,
    /// End of the whole invocation, Unix milliseconds.
    pub deadline_ms: Option<u64>,
    /// The same times without the wall clock; absent in a record of an older fnd.
    #[serde(default)]
    pub times: Option<Times>,
    /// Whether standard output is a CGI document.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cgi: bool,
    /// The function and the invocation that called it, if a function did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<CallCause>,
    /// Why the attempt is being ended, once fnd has ordered that; absent in a record of an older fnd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ending: Option<EndCause>,
}

/// The times of an attempt on the monotonic clock. The wall clock may be set while no fnd runs, so the next fnd counts
/// from the age of the worker, which the spawner measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// From the worker's start to the attempt's; zero for a script, whose worker is the attempt.
    pub started_after: Duration,
    /// From the start of the invocation's first attempt to the start of this one.
    pub since_first: Duration,
    /// From the attempt's start to the deadline of the invocation.
    pub deadline_in: Option<Duration>,
}

impl RunRecord {
    /// Returns the record of a worker's attempt.
    pub(super) fn of(worker: &Worker, run: &Run, invocation: &Invocation) -> Self {
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
    pub(super) fn run(&self, started: Now) -> Run {
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
pub(super) struct RunOrigin<'a> {
    pub(super) run: &'a RunRecord,
    pub(super) version: Version,
    /// When this attempt began.
    pub(super) started: Now,
}

impl<'a> RunOrigin<'a> {
    /// Returns the attempt of a record that began so long ago.
    pub(super) fn new(run: &'a RunRecord, version: Version, now: Now, age: Duration) -> Self {
        let started = Now {
            mono: now.mono.saturating_sub(age),
            unix_ms: run.started_ms,
        };
        Self { run, version, started }
    }

    /// Returns when the first attempt began. The wall clock is used only where the record has nothing else.
    pub(super) fn first(&self, now: Now) -> Started {
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
    pub(super) fn deadline(&self, now: Now) -> Option<Deadline> {
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
