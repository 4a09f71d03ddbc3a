//! The record of an invocation that was accepted: the first that the ledger stores of it.

use super::caller::Caller;
use super::marks::{FileMark, LastSlot, MessageMark};
use super::outcome::{Reason, Trigger};
use super::payload::Payload;
use crate::idempotency::IdempotencyKey;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::plan;
use std::sync::Arc;

/// An accepted invocation, as it is first stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The id of the invocation, a UUID that fnd gives.
    pub id: InvocationId,
    /// The function that ran.
    pub function: FunctionName,
    /// The trigger that made the invocation.
    pub trigger: Trigger,
    /// When it was accepted.
    pub accepted_ms: u64,
    /// The input, from the caller or from the trigger.
    pub payload: Payload,
    /// Whether it must be on disk before it is acknowledged ([`Event::Stored`](crate::run::Event::Stored) follows).
    pub durable: bool,
    /// Whether it becomes a dead letter if it [fails](super::InvocationRecord::ends_as_dead_letter).
    pub dead_letter: bool,
    /// For trigger `load`: the content that is stored as run, in the same transaction.
    pub load_key: Option<Version>,
    /// A shorter timeout from the caller, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Instant before which no attempt begins, Unix milliseconds; absent: it may begin at once.
    pub not_before_ms: Option<u64>,
    /// Instant after which it is skipped, if it has not begun.
    pub expires_ms: Option<u64>,
    /// Instant at which the whole invocation ends, from `limits.deadline`.
    pub deadline_ms: Option<u64>,
    /// Waiting invocations with a greater priority begin first.
    pub priority: i8,
    /// Idempotency key: a later request with the same key shares this invocation.
    pub key: Option<IdempotencyKey>,
    /// The invocation from which the payload was copied (triggers `replay` and `redrive`).
    pub origin: Option<InvocationId>,
    /// The caller of the control socket, if the audit finds the call in this record.
    pub caller: Option<Arc<Caller>>,
    /// For trigger `schedule`: the schedule's mark after it, stored in the same transaction.
    pub mark: Option<LastSlot>,
    /// For trigger `file`: what is remembered of the files with it, in the same transaction.
    pub files: Vec<FileMark>,
    /// For trigger `nats`: what is remembered of its message, in the same transaction; absent where nobody acknowledges the message
    /// after its end.
    pub message: Option<Box<MessageMark>>,
    /// Why it never begins, and a sentence for people: its end, stored in the same transaction. Otherwise the next fnd would run
    /// it if this one is killed before it stores the final record.
    pub skipped: Option<(Reason, Box<str>)>,
}

impl Accepted {
    /// Returns durable work without input that is no dead letter: values that no caller has asked for are absent.
    #[must_use]
    pub fn new(id: InvocationId, function: FunctionName, trigger: Trigger, accepted_ms: u64) -> Self {
        Self {
            id,
            function,
            trigger,
            accepted_ms,
            payload: Payload::default(),
            durable: true,
            dead_letter: false,
            load_key: None,
            timeout_ms: None,
            not_before_ms: None,
            expires_ms: None,
            deadline_ms: None,
            priority: 0,
            key: None,
            origin: None,
            caller: None,
            mark: None,
            files: Vec::new(),
            message: None,
            skipped: None,
        }
    }
}

/// Says whether asynchronous work becomes a dead letter if it fails: work that comes once, so that it is lost unless a
/// person redrives it. `asked` says whether the manifest asks for dead letters of this trigger.
#[must_use]
pub fn may_become_dead_letter(trigger: Trigger, function: &FunctionName, asked: bool) -> bool {
    // fnd itself repeats its builds and checks.
    trigger.comes_once(asked) && !plan::is_own(function.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trigger that comes again by itself makes none, a schedule only where its manifest asks, and fnd's own work never.
    #[test]
    fn the_trigger_decides_who_may_become_a_dead_letter() {
        use Trigger::{Alert, Event, File, Function, Hook, Http, Load, Manual, Nats, Redrive, Replay, Schedule};
        for (trigger, unasked, asked) in [
            (Load, false, false),
            (Schedule, false, true),
            (Manual, true, true),
            (Http, true, true),
            (Event, true, true),
            (File, true, true),
            (Nats, true, true),
            (Hook, true, true),
            (Alert, true, true),
            (Function, true, true),
            (Replay, true, true),
            (Redrive, true, true),
        ] {
            let decided = |function: &str| {
                let function = FunctionName::new(function).unwrap();
                [false, true].map(|asked| may_become_dead_letter(trigger, &function, asked))
            };
            assert_eq!(decided("f"), [unasked, asked], "{trigger:?}");
            for internal in ["fnd-build", "fnd-build-u1000-2", "fnd-check"] {
                assert_eq!(decided(internal), [false; 2], "{trigger:?} {internal}");
            }
        }
    }
}
