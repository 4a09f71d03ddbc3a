//! The record of an invocation, and which records a list shows.

use super::accepted::Accepted;
use super::caller::Caller;
use super::outcome::{Exhausted, Reason, RunState, Trigger};
use super::payload::RunResult;
use crate::access::Permissions;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use std::sync::Arc;

/// The state of an invocation, final or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvocationRecord {
    /// The id of the invocation.
    pub id: InvocationId,
    /// The function that runs.
    pub function: FunctionName,
    /// The trigger that made the invocation.
    pub trigger: Trigger,
    /// Whether it outlives the fnd that accepted it, as [`Accepted::durable`].
    pub durable: bool,
    /// State of the invocation, as the API shows it.
    pub state: RunState,
    /// When it was accepted.
    pub accepted_ms: u64,
    /// When its first attempt began.
    pub started_ms: Option<u64>,
    /// When it ended, Unix milliseconds; absent until then.
    pub ended_ms: Option<u64>,
    /// Attempts that have begun, with polls.
    pub attempts: u32,
    /// Attempts that were polls, of those in `attempts`.
    pub polls: u32,
    /// Reason of the last attempt, or why there was no attempt.
    pub reason: Option<Reason>,
    /// Message to the reason.
    pub message: String,
    /// The limit that ran out.
    pub exhausted: Option<Exhausted>,
    /// When the next attempt begins; absent if none is planned.
    pub next_attempt_ms: Option<u64>,
    /// Version of the last attempt.
    pub version: Option<Version>,
    /// Result of the last attempt. After execute-again the next attempt gets it as `previous`.
    pub result: Option<RunResult>,
    /// As [`Accepted::caller`]; absent in a record that was read from the ledger, which has it in its row.
    pub caller: Option<Arc<Caller>>,
}

impl InvocationRecord {
    /// Returns the record of an invocation that was accepted: it waits for its first attempt.
    #[must_use]
    pub fn of(accepted: &Accepted) -> Self {
        Self {
            id: accepted.id,
            function: accepted.function.clone(),
            trigger: accepted.trigger,
            durable: accepted.durable,
            state: RunState::Queued,
            accepted_ms: accepted.accepted_ms,
            started_ms: None,
            ended_ms: None,
            attempts: 0,
            polls: 0,
            reason: None,
            message: String::new(),
            exhausted: None,
            next_attempt_ms: None,
            version: None,
            result: None,
            caller: accepted.caller.clone(),
        }
    }

    /// Returns the record as it is kept: of its result, only [what is kept](RunResult::to_kept).
    #[must_use]
    pub fn to_kept(&self) -> Self {
        let mut kept = self.clone();
        if let Some(result) = &mut kept.result {
            *result = result.to_kept();
        }
        kept
    }

    /// Says whether its end makes the invocation a dead letter, if [its acceptance](Accepted::dead_letter) says that it may
    /// become one. It stays one until somebody redrives or drops it, which the record does not show.
    #[must_use]
    pub fn ends_as_dead_letter(&self) -> bool {
        match self.state {
            // A caller that waits learns of the failure.
            RunState::Failed | RunState::Interrupted => self.durable,
            RunState::Queued
            | RunState::Running
            | RunState::Waiting
            | RunState::Polling
            | RunState::Succeeded
            | RunState::Cancelled
            | RunState::Skipped => false,
        }
    }

    /// Returns the limit that ran out and made the invocation fail; nothing for any other end.
    #[must_use]
    pub fn gave_up(&self) -> Option<Exhausted> {
        self.exhausted.filter(|_| self.state == RunState::Failed)
    }

    /// Says whether the invocation is over and at least one attempt of it began: it counts in its function's `runs`.
    #[must_use]
    pub fn has_run(&self) -> bool {
        self.state.is_final() && self.attempts > 0
    }

    /// Says whether the payload and the HTTP request of the invocation are kept, so that it can run again. They are
    /// kept of all work but calls that succeeded: the caller of such a call has its result.
    #[must_use]
    pub fn keeps_payload(&self) -> bool {
        self.durable || self.state != RunState::Succeeded
    }
}

/// Which invocations to list; absent means all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InvocationFilter {
    /// Invocations of this function.
    pub function: Option<FunctionName>,
    /// Invocations in this state.
    pub state: Option<RunState>,
    /// Invocations whose last reason is this one.
    pub reason: Option<Reason>,
    /// Invocations with this trigger.
    pub trigger: Option<Trigger>,
    /// Invocations that this one has called.
    pub parent: Option<InvocationId>,
    /// Invocations whose last attempt ran a version that begins with this text, in lower-case hexadecimal.
    pub version: Option<String>,
    /// Invocations whose message contains this text, ignoring the case of ASCII letters.
    pub text: Option<String>,
    /// Whether to list only dead letters.
    pub dead: bool,
    /// Accepted at this time or later, Unix milliseconds.
    pub since_ms: Option<u64>,
    /// Accepted before this time, Unix milliseconds.
    pub until_ms: Option<u64>,
    /// Most invocations of the page, 1 to 1000; absent: 100.
    pub limit: Option<u32>,
    /// Only invocations older than this one: the cursor of the previous page.
    pub after: Option<InvocationId>,
    /// Whether to add up what the attempts of each invocation used.
    pub usage: bool,
    /// Only invocations of functions that the caller may view.
    pub reach: Permissions,
}

/// An invocation without an end, as the ledger has it at the start of fnd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The invocation as it was accepted.
    pub accepted: Accepted,
    /// Its last stored state. `Running` means that the end of that attempt is unknown.
    pub record: InvocationRecord,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(trigger: Trigger, durable: bool, state: RunState) -> InvocationRecord {
        let accepted = Accepted::new(InvocationId(1), FunctionName::new("f").unwrap(), trigger, 1);
        InvocationRecord {
            durable,
            state,
            ..InvocationRecord::of(&accepted)
        }
    }

    #[test]
    fn the_end_of_durable_work_decides_on_dead_letter_and_payload() {
        use RunState::{Cancelled, Failed, Interrupted, Polling, Queued, Running, Skipped, Succeeded, Waiting};
        let unended = [Queued, Running, Waiting, Polling];
        let ended = [Succeeded, Failed, Interrupted, Cancelled, Skipped];
        for state in unended.into_iter().chain(ended) {
            for durable in [true, false] {
                let record = record(Trigger::Manual, durable, state);
                let decided = (record.ends_as_dead_letter(), record.keeps_payload());
                let expected = match (state, durable) {
                    (Failed | Interrupted, true) => (true, true),
                    (Succeeded, false) => (false, false),
                    _ => (false, true),
                };
                assert_eq!(decided, expected, "{state:?} {durable}");
            }
        }
    }

    #[test]
    fn only_an_invocation_that_failed_gave_up() {
        for (state, exhausted, expected) in [
            (RunState::Failed, Some(Exhausted::Retries), Some(Exhausted::Retries)),
            (RunState::Failed, None, None),
            (RunState::Cancelled, Some(Exhausted::Deadline), None),
        ] {
            let record = InvocationRecord {
                exhausted,
                ..record(Trigger::Manual, true, state)
            };
            assert_eq!(record.gave_up(), expected, "{state:?} {exhausted:?}");
        }
    }
}
