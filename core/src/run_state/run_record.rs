//! Writes and reads the part of an adoption record that describes one attempt.

use super::invocation::{Deadline, Invocation, Started};
use super::releases::ServingRelease;
use super::worker::{Run, Worker};
use crate::messages::Now;
use crate::messages::adoption_records::{RunRecord, Times};
use crate::messages::end_cause::{CANCELLED_BEFORE, EndCause};
use crate::messages::rules::Rules;
use crate::records::cause::Cause;
use crate::records::outcome::Trigger;
use crate::records::{Accepted, Payload};
use fnd_wire::frame::TermCause;
use fnd_wire::ids::{Attempt, FunctionId, FunctionName, InvocationId, Version};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// A SIGTERM that was sent at a limit may seem to come this much before it: times cross processes in milliseconds.
const TERM_SLACK: Duration = Duration::from_millis(50);

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
            times: Times {
                started_after: at.saturating_sub(worker.started.mono),
                since_first: first.map_or(Duration::ZERO, |started| started.elapsed(at)),
                deadline_in: invocation.deadline.map(|deadline| deadline.at.saturating_sub(at)),
            },
            cgi: invocation.payload.is_cgi(),
            called: invocation.called().cloned(),
            queue_key: invocation.queue_key.as_deref().map(str::to_owned),
            ending: run.ending.clone(),
        }
    }

    /// Returns what it says of the acceptance of its invocation, which was not durable.
    pub(crate) fn accepted(&self, function: &FunctionName) -> Accepted {
        let cause = self.called.clone().map(|call| Arc::new(Cause::Call(call)));
        Accepted {
            payload: Payload {
                cause,
                ..Payload::default()
            },
            durable: false,
            deadline_ms: self.deadline_ms,
            ..Accepted::new(self.invocation, function.clone(), self.trigger, self.accepted_ms)
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

    /// Returns when the first attempt began, where this one has begun at `started`.
    pub(crate) fn first(&self, started: Now, now: Now) -> Started {
        let age = now.mono.saturating_sub(started.mono);
        Started {
            unix_ms: self.first_ms,
            at: now.mono,
            before: age.saturating_add(self.times.since_first),
        }
    }

    /// Returns when the whole invocation ends. The wall clock may have been set since, so it does not count.
    pub(crate) fn deadline(&self, started: Now) -> Option<Deadline> {
        Some(Deadline {
            at: started.mono.saturating_add(self.times.deadline_in?),
            unix_ms: self.deadline_ms?,
            of_caller: false,
        })
    }
}

/// Returns the version that a worker of an earlier fnd runs.
pub(crate) fn serving(id: u32, version: Version, load_key: Version, rules: Cow<'_, Rules>) -> Arc<ServingRelease> {
    Arc::new(ServingRelease {
        id: FunctionId(id),
        version,
        load_key,
        // Only the worker has this release, and it never serves: so no content runs by itself with this id.
        load_id: InvocationId(0),
        rules: Arc::new(rules.into_owned()),
    })
}

/// Returns why a worker got SIGTERM at an instant, as the fnd that sent it would have recorded it. An fnd that asked for it
/// has said the reason in the adoption record; only for an older fnd the instant decides. `trigger` is that of the invocation.
pub(crate) fn ending_of_term(
    (cause, trigger): (TermCause, Trigger),
    at: Duration,
    (timeout, deadline): (Option<Duration>, Option<Duration>),
) -> EndCause {
    let due = |limit: Option<Duration>| limit.is_some_and(|limit| limit <= at.saturating_add(TERM_SLACK));
    match cause {
        TermCause::Stopped => EndCause::Stopped,
        // Only the lease of a message gives the spawner a limit before these two.
        TermCause::TimeUp if trigger == Trigger::Nats && !due(timeout) && !due(deadline) => EndCause::LeaseLost(None),
        // The spawner has one limit for both, the earlier one.
        TermCause::TimeUp if timeout.is_some_and(|timeout| deadline.is_none_or(|deadline| timeout <= deadline)) => {
            EndCause::Timeout
        }
        TermCause::TimeUp => EndCause::Deadline,
        TermCause::Asked if due(timeout) => EndCause::Timeout,
        TermCause::Asked if due(deadline) => EndCause::Deadline,
        TermCause::Asked => EndCause::Cancelled(CANCELLED_BEFORE.into()),
    }
}
