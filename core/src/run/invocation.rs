//! One accepted request to run, from its acceptance to its final record.
//!
//! ```text
//! Storing ──▶ Delayed ──▶ Ready ──▶ Claiming ──▶ Claimed ──▶ Running ──▶ BackingOff ──▶ Ready ...
//!    (durable ones)                    (durable ones)           └──▶ ended: the invocation is gone, its record is final
//! Lost: was running when the previous fnd went down; waits until its function is known, which decides on a retry.
//! ```

use super::function::FunctionKey;
use super::queue::QueueOrder;
use crate::idempotency::IdempotencyKey;
use crate::messages::{Now, ReplyTo};
use crate::records::outcome::{Exhausted, Reason, RunState, Trigger};
use crate::records::{AttemptRecord, InvocationRecord, Payload, RunResult};
use fnd_wire::ids::{FunctionName, InvocationId, Version, WorkerId};
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Invocation {
    pub(super) id: InvocationId,
    pub(super) function: FunctionKey,
    pub(super) trigger: Trigger,
    pub(super) accepted_ms: u64,
    pub(super) payload: Payload,
    /// The content that the invocation runs, for trigger `load`.
    pub(super) load_key: Option<Version>,
    /// A shorter timeout from the caller.
    pub(super) timeout: Option<Duration>,
    pub(super) deadline: Option<Deadline>,
    /// Instant by which the first attempt must have begun.
    pub(super) expires: Option<Duration>,
    /// Invocations with a greater priority begin first.
    pub(super) priority: i8,
    pub(super) number: u64,
    /// Only [`QueueBooks::change`](super::queue::QueueBooks::change) changes it.
    pub(super) stage: InvocationStage,
    /// Whether the invocation outlives this fnd.
    pub(super) durable: bool,
    pub(super) key: Option<IdempotencyKey>,
    /// Invocations of the function with the same value run one after the other, in the order of acceptance.
    pub(super) order_key: Option<Arc<str>>,
    /// Callers to answer once the invocation is on disk.
    pub(super) acknowledge: Vec<ReplyTo>,
    /// Callers to answer once the invocation has ended or timed out.
    pub(super) waiters: Vec<ReplyTo>,
    /// Whether the caller's connection went down with an earlier fnd, so that another attempt could not answer anybody.
    pub(super) caller_gone: bool,
    pub(super) attempts: u32,
    pub(super) polls: u32,
    pub(super) started: Option<Started>,
    /// Reason and message of the last attempt.
    pub(super) last: Option<(Reason, String)>,
    pub(super) version: Option<Version>,
    /// The result that the next attempt gets as that of the previous one.
    pub(super) previous: Option<RunResult>,
    /// Whether an attempt may have left temporary files, which stay until the invocation ends. Files of a call belong
    /// to its worker.
    pub(super) has_tmp: bool,
}

/// Instant at which fnd ends the whole invocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: Duration,
    pub(super) unix_ms: u64,
    /// Whether it is the end of the caller that waits for the invocation. An fnd that restores the invocation no longer
    /// knows it.
    pub(super) of_caller: bool,
}

/// When the first attempt began, possibly under an earlier fnd.
#[derive(Debug, Clone, Copy)]
pub(super) struct Started {
    pub(super) unix_ms: u64,
    pub(super) at: Duration,
    /// Time from the first attempt's start to `at`.
    pub(super) before: Duration,
}

impl Started {
    /// Returns the time from the first attempt's start to an instant.
    pub(super) fn elapsed(&self, at: Duration) -> Duration {
        at.saturating_sub(self.at).saturating_add(self.before)
    }
}

/// Stage of an invocation.
#[derive(Debug)]
pub(super) enum InvocationStage {
    /// The ledger is storing it. If something ends it meanwhile, `end` waits until the caller is told of the
    /// acceptance.
    Storing {
        not_before: Option<Duration>,
        end: Option<InvocationEnd>,
    },
    /// Accepted; it must not begin before `until`.
    Delayed { until: Duration },
    /// In the function's queue.
    Ready,
    /// Durable ones only: the ledger is storing the start of the next attempt. `holds`: the place in the budget is
    /// already taken.
    Claiming { since: Duration, holds: bool },
    /// The claim is on disk: the invocation may begin.
    Claimed,
    /// An attempt runs, or is being started.
    Running { worker: WorkerId },
    /// Waiting for a retry or a poll.
    BackingOff { until: Duration, unix_ms: u64 },
    /// How the last attempt ended is not known.
    Lost,
}

impl InvocationStage {
    /// Returns when a retry or a poll begins, Unix milliseconds; absent in other stages.
    pub(super) fn next_attempt_ms(&self) -> Option<u64> {
        match *self {
            Self::BackingOff { unix_ms, .. } => Some(unix_ms),
            Self::Storing { .. }
            | Self::Delayed { .. }
            | Self::Ready
            | Self::Claiming { .. }
            | Self::Claimed
            | Self::Running { .. }
            | Self::Lost => None,
        }
    }
}

/// How an invocation ends.
#[derive(Debug, Clone)]
pub(super) struct InvocationEnd {
    pub(super) reason: Reason,
    pub(super) message: String,
    pub(super) exhausted: Option<Exhausted>,
    /// The attempt whose end ends the invocation, and its result.
    pub(super) attempt: Option<Box<(AttemptRecord, Option<RunResult>)>>,
}

impl InvocationEnd {
    /// Returns an end without an exhausted limit.
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            exhausted: None,
            attempt: None,
        }
    }
}

impl Invocation {
    /// Returns its public state.
    pub(super) fn state(&self) -> RunState {
        match self.stage {
            InvocationStage::Running { .. } | InvocationStage::Lost => RunState::Running,
            InvocationStage::Storing { .. }
            | InvocationStage::Delayed { .. }
            | InvocationStage::Ready
            | InvocationStage::Claiming { .. }
            | InvocationStage::Claimed
            | InvocationStage::BackingOff { .. } => match &self.last {
                None => RunState::Queued,
                Some((Reason::ExecuteAgain, _)) => RunState::Polling,
                Some(_) => RunState::Waiting,
            },
        }
    }

    /// Returns its place in the queue.
    pub(super) fn place(&self) -> QueueOrder {
        QueueOrder {
            first_try: self.attempts == 0,
            priority: Reverse(self.priority),
            number: self.number,
        }
    }

    /// Says whether it holds a place in the node's budget while its claim is being stored.
    pub(super) fn holds_place(&self) -> bool {
        matches!(self.stage, InvocationStage::Claiming { holds: true, .. })
    }

    /// Returns how many of its attempts were retries.
    pub(super) fn retries(&self) -> u32 {
        self.attempts.saturating_sub(1).saturating_sub(self.polls)
    }

    /// Returns its record in its current state.
    pub(super) fn record(&self, function: &FunctionName) -> InvocationRecord {
        let (reason, message) = match &self.last {
            Some((reason, message)) => (Some(*reason), message.clone()),
            None => (None, String::new()),
        };
        InvocationRecord {
            id: self.id,
            function: function.clone(),
            trigger: self.trigger,
            durable: self.durable,
            state: self.state(),
            accepted_ms: self.accepted_ms,
            started_ms: self.started.map(|started| started.unix_ms),
            ended_ms: None,
            attempts: self.attempts,
            polls: self.polls,
            reason,
            message,
            exhausted: None,
            next_attempt_ms: self.stage.next_attempt_ms(),
            version: self.version,
            // Not the last attempt's result: a retry after a poll still gets the result of the poll.
            result: self.previous.as_ref().map(RunResult::to_kept),
        }
    }

    /// Returns its record as it will be once its next attempt has begun.
    pub(super) fn claim(&self, function: &FunctionName, now: Now) -> InvocationRecord {
        // The claim is stored before the attempt begins, so it counts attempts and polls as `begin` will count them.
        let after_poll = matches!(self.last, Some((Reason::ExecuteAgain, _)));
        let record = self.record(function);
        InvocationRecord {
            state: RunState::Running,
            started_ms: record.started_ms.or(Some(now.unix_ms)),
            attempts: self.attempts.saturating_add(1),
            polls: self.polls.saturating_add(u32::from(after_poll)),
            ..record
        }
    }

    /// Returns its final record.
    pub(super) fn ended(
        &self,
        function: &FunctionName,
        now: Now,
        end: InvocationEnd,
        result: Option<RunResult>,
    ) -> InvocationRecord {
        InvocationRecord {
            state: end.reason.final_state(),
            ended_ms: Some(now.unix_ms),
            reason: Some(end.reason),
            message: end.message,
            exhausted: end.exhausted,
            next_attempt_ms: None,
            result,
            ..self.record(function)
        }
    }
}
