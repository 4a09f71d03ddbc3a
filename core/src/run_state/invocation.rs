//! One accepted request to run, from its acceptance to its final record.
//!
//! ```text
//! Storing ──▶ Delayed ──▶ Ready ──▶ Claiming ──▶ Claimed ──▶ Running ──▶ BackingOff ──▶ Ready ...
//!    (durable ones)                    (durable ones)           └──▶ ended: the invocation is gone, its record is final
//! Lost: was running when the previous fnd went down, or on a node that is silent; waits until its function is known, which decides
//! on a retry.
//! ```

use super::FunctionKey;
use crate::idempotency::IdempotencyKey;
use crate::messages::submit::TakenOver;
use crate::messages::{Now, ReplyTo};
use crate::records::cause::{CallCause, Cause};
use crate::records::outcome::{Exhausted, Reason, RunState, Trigger};
use crate::records::{Accepted, AttemptRecord, Caller, InvocationRecord, Payload, RunResult};
use fnd_wire::ids::{FunctionName, InvocationId, Version, WorkerId};
use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) id: InvocationId,
    pub(crate) function: FunctionKey,
    pub(crate) trigger: Trigger,
    pub(crate) accepted_ms: u64,
    pub(crate) payload: Payload,
    /// The content that the invocation runs, for trigger `load`.
    pub(crate) load_key: Option<Version>,
    /// A shorter timeout from the caller.
    pub(crate) timeout: Option<Duration>,
    pub(crate) deadline: Option<Deadline>,
    /// By when the first attempt must have begun.
    pub(crate) expires: Option<WallTime>,
    /// Invocations with a greater priority begin first.
    pub(crate) priority: i8,
    pub(crate) number: u64,
    /// Only [`QueueBooks::change`](super::queue::QueueBooks::change) changes it.
    pub(crate) stage: InvocationStage,
    /// Whether the invocation outlives this fnd. A request that does not wait makes the invocation durable that it shares;
    /// [`QueueBooks::set_durable`](super::queue::QueueBooks::set_durable) does that.
    pub(crate) durable: bool,
    pub(crate) key: Option<IdempotencyKey>,
    /// As [`Accepted::caller`].
    pub(crate) caller: Option<Arc<Caller>>,
    /// Whether its message stays in its stream until the invocation has ended: another node may get it before.
    pub(crate) of_stream: bool,
    /// The value of its event's `key`: invocations of the function with the same value run one after the other.
    pub(crate) order_key: Option<Arc<str>>,
    /// The value of `[queue] key`. Only [`QueueBooks::set_key`](super::queue::QueueBooks::set_key) changes it.
    pub(crate) queue_key: Option<Arc<str>>,
    /// Callers to answer once the invocation is on disk.
    pub(crate) acknowledge: Vec<ReplyTo>,
    /// Callers to answer once the invocation has ended or timed out.
    pub(crate) waiters: Vec<ReplyTo>,
    /// Whether the caller's connection went down with an earlier fnd, so that another attempt could not answer anybody.
    pub(crate) caller_gone: bool,
    pub(crate) attempts: u32,
    /// The last attempt is one that another node has begun, and nothing was decided after it.
    pub(crate) taken_over: Option<Box<TakenOver>>,
    pub(crate) polls: u32,
    pub(crate) started: Option<Started>,
    /// Reason and message of the last attempt.
    pub(crate) last: Option<(Reason, String)>,
    pub(crate) version: Option<Version>,
    /// The result that the next attempt gets as that of the previous one.
    pub(crate) previous: Option<RunResult>,
    /// Whether an attempt may have left temporary files, which stay until the invocation ends. Files of a call belong
    /// to its worker.
    pub(crate) has_tmp: bool,
}

/// Order of invocations that are ready to begin: due retries and polls first, then by priority and acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueOrder {
    pub(crate) first_try: bool,
    pub(crate) priority: Reverse<i8>,
    pub(crate) number: u64,
}

/// A time of the wall clock, and the instant at which it comes. Where somebody has named the time, the instant is another one
/// once the clock has been set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WallTime {
    pub(crate) unix_ms: u64,
    pub(crate) at: Duration,
}

impl WallTime {
    /// Returns a time; its instant is now if it has passed.
    pub(crate) fn new(now: Now, unix_ms: u64) -> Self {
        let ahead = Duration::from_millis(unix_ms.saturating_sub(now.unix_ms));
        let at = now.mono.saturating_add(ahead);
        Self { unix_ms, at }
    }

    /// Returns the time after a pause.
    pub(crate) fn after(now: Now, pause: Duration) -> Self {
        Self::of_instant(now, now.mono.saturating_add(pause))
    }

    /// Returns the time at an instant that is not in the past.
    pub(crate) fn of_instant(now: Now, at: Duration) -> Self {
        let ahead = u64::try_from(at.saturating_sub(now.mono).as_millis()).unwrap_or(u64::MAX);
        let unix_ms = now.unix_ms.saturating_add(ahead);
        Self { unix_ms, at }
    }
}

/// Instant at which fnd ends the whole invocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    pub(crate) at: Duration,
    pub(crate) unix_ms: u64,
    /// Whether it is the end of the caller that waits for the invocation. An fnd that restores the invocation no longer
    /// knows it.
    pub(crate) of_caller: bool,
}

/// When the first attempt began, possibly under an earlier fnd.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Started {
    pub(crate) unix_ms: u64,
    pub(crate) at: Duration,
    /// Time from the first attempt's start to `at`.
    pub(crate) before: Duration,
}

impl Started {
    /// Returns the time from the first attempt's start to an instant.
    pub(crate) fn elapsed(&self, at: Duration) -> Duration {
        at.saturating_sub(self.at).saturating_add(self.before)
    }
}

/// Stage of an invocation.
#[derive(Debug)]
pub(crate) enum InvocationStage {
    /// The ledger is storing it. If something ends it meanwhile, `end` waits until the caller is told of the
    /// acceptance.
    Storing {
        not_before: Option<WallTime>,
        end: Option<InvocationEnd>,
    },
    /// Accepted; it must not begin before `until`.
    Delayed { until: WallTime },
    /// In the function's queue.
    Ready,
    /// Durable ones only: the ledger is storing the start of the next attempt. `holds`: the place in the budget is
    /// already taken. `group`: where a place is taken as well.
    Claiming {
        since: Duration,
        holds: bool,
        group: Option<Arc<str>>,
    },
    /// The claim is on disk: the invocation may begin.
    Claimed,
    /// An attempt runs, or is being started.
    Running { worker: WorkerId },
    /// Waiting for a retry, a poll, or the next claim of a message.
    BackingOff { until: WallTime },
    /// How the last attempt ended is not known.
    Lost,
}

impl InvocationStage {
    /// Returns the worker with its attempt, if it runs.
    pub(crate) fn worker(&self) -> Option<WorkerId> {
        match self {
            Self::Running { worker } => Some(*worker),
            _ => None,
        }
    }

    /// Says whether it is claimed, or about to be.
    pub(crate) fn is_claimed(&self) -> bool {
        matches!(self, Self::Claiming { .. } | Self::Claimed)
    }

    /// Returns the instant until which it waits, if it waits for one.
    pub(crate) fn begins_at(&self) -> Option<Duration> {
        match *self {
            Self::Delayed { until } | Self::BackingOff { until } => Some(until.at),
            _ => None,
        }
    }

    /// Returns when a retry or a poll begins, Unix milliseconds; absent in other stages.
    pub(crate) fn next_attempt_ms(&self) -> Option<u64> {
        match *self {
            Self::BackingOff { until } => Some(until.unix_ms),
            _ => None,
        }
    }
}

/// How an invocation ends.
#[derive(Debug, Clone)]
pub(crate) struct InvocationEnd {
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) exhausted: Option<Exhausted>,
    /// The attempt whose end ends the invocation, and its result.
    pub(crate) attempt: Option<Box<(AttemptRecord, Option<RunResult>)>>,
}

impl InvocationEnd {
    /// Returns an end without an exhausted limit.
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            exhausted: None,
            attempt: None,
        }
    }
}

impl Invocation {
    /// Returns the invocation of an accepted request, before its first attempt; without a deadline and without callers.
    pub(crate) fn of(accepted: &Accepted, function: FunctionKey, number: u64, now: Now) -> Self {
        let (payload, message) = (&accepted.payload, accepted.message.as_ref());
        Self {
            id: accepted.id,
            function,
            trigger: accepted.trigger,
            accepted_ms: accepted.accepted_ms,
            payload: payload.clone(),
            load_key: accepted.load_key,
            timeout: accepted.timeout_ms.map(Duration::from_millis),
            deadline: None,
            expires: accepted.expires_ms.map(|unix_ms| WallTime::new(now, unix_ms)),
            priority: accepted.priority,
            number,
            stage: InvocationStage::Ready,
            durable: accepted.durable,
            key: accepted.key.clone(),
            caller: accepted.caller.clone(),
            of_stream: message.is_some_and(|message| !message.is_accepted),
            order_key: payload.cause.as_deref().and_then(Cause::order_key).map(Arc::from),
            queue_key: None,
            acknowledge: Vec::new(),
            waiters: Vec::new(),
            caller_gone: false,
            attempts: 0,
            taken_over: None,
            polls: 0,
            started: None,
            last: None,
            version: None,
            previous: None,
            has_tmp: false,
        }
    }

    /// Returns its public state.
    pub(crate) fn state(&self) -> RunState {
        match (&self.stage, &self.last) {
            (InvocationStage::Running { .. } | InvocationStage::Lost, _) => RunState::Running,
            (_, None) => RunState::Queued,
            (_, Some((Reason::ExecuteAgain, _))) => RunState::Polling,
            (_, Some(_)) => RunState::Waiting,
        }
    }

    /// Returns the instant at which fnd ends it, if there is one.
    pub(crate) fn deadline_at(&self) -> Option<Duration> {
        Some(self.deadline?.at)
    }

    /// Returns the instant by which its first attempt must have begun, if there is one.
    pub(crate) fn expires_at(&self) -> Option<Duration> {
        Some(self.expires?.at)
    }

    /// Returns its place in the queue.
    pub(crate) fn place(&self) -> QueueOrder {
        QueueOrder {
            first_try: self.attempts == 0,
            priority: Reverse(self.priority),
            number: self.number,
        }
    }

    /// Returns the group in which it holds a place while its claim is being stored.
    pub(crate) fn claim_group(&self) -> Option<&str> {
        match &self.stage {
            InvocationStage::Claiming { group, .. } => group.as_deref(),
            _ => None,
        }
    }

    /// Returns the invocation that waits for this one, if it was called by one that waits.
    pub(crate) fn waiting_caller(&self) -> Option<InvocationId> {
        self.called()
            .filter(|_| !self.durable || !self.waiters.is_empty())?
            .invocation
    }

    /// Says whether somebody else has asked for it, too, by its idempotency key.
    pub(crate) fn is_shared(&self) -> bool {
        self.key.is_some() && (self.durable || self.waiters.len() > 1)
    }

    /// Returns the function and the invocation that called it, if a function did.
    pub(crate) fn called(&self) -> Option<&CallCause> {
        match self.payload.cause.as_deref() {
            Some(Cause::Call(call)) => Some(call),
            _ => None,
        }
    }

    /// Returns how many of its attempts were retries.
    pub(crate) fn retries(&self) -> u32 {
        self.attempts.saturating_sub(1).saturating_sub(self.polls)
    }

    /// Returns its record in its current state.
    pub(crate) fn record(&self, function: &FunctionName) -> InvocationRecord {
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
            caller: self.caller.clone(),
        }
    }

    /// Returns its record as it will be once its next attempt has begun.
    pub(crate) fn claim(&self, function: &FunctionName, now: Now) -> InvocationRecord {
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
    pub(crate) fn ended(
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
