//! A request to run one function.

use super::ReplyTo;
use super::rules::Overlap;
use crate::idempotency::IdempotencyKey;
use crate::records::outcome::{Reason, Trigger};
use crate::records::{Caller, FileMark, LastSlot, MessageMark, Payload};
use fnd_wire::ids::{FunctionName, InvocationId};
use std::sync::Arc;
use std::time::Duration;

/// A request to run.
#[derive(Debug, Clone)]
pub struct Submit {
    /// The id of the invocation, if the request is accepted.
    pub id: InvocationId,
    /// The function that is to run.
    pub function: FunctionName,
    /// The trigger that makes the request.
    pub trigger: Trigger,
    /// The payload; where it has no data, the manifest's `data` and `context` are used.
    pub payload: Payload,
    /// Receiver of the answer: of the end if `wait`, else of the acceptance.
    pub reply: Option<ReplyTo>,
    /// Whether the caller waits for the end. Otherwise the invocation is made durable before it is acknowledged.
    pub wait: bool,
    /// A timeout shorter than the manifest's.
    pub timeout: Option<Duration>,
    /// Earliest start, Unix milliseconds.
    pub not_before_ms: Option<u64>,
    /// Instant after which an invocation that has not begun is skipped, Unix milliseconds.
    pub expires_ms: Option<u64>,
    /// Waiting invocations with a greater priority begin first.
    pub priority: i8,
    /// A second request with the same key shares the invocation of the first. The supervisor knows the keys of live
    /// invocations; the ledger has those of ended ones.
    pub idempotency_key: Option<IdempotencyKey>,
    /// The invocation from which the payload was copied.
    pub origin: Option<InvocationId>,
    /// The overlap policy of this request; absent: the function's own.
    pub overlap: Option<Overlap>,
    /// Why the invocation is only recorded and never begins; a sentence for people beside the word.
    pub skipped: Option<(Reason, Box<str>)>,
    /// Whether the manifest asks for a dead letter if it fails, where [its trigger](crate::records::may_become_dead_letter) makes none.
    pub asks_dead_letter: bool,
    /// For trigger `schedule`: the schedule's mark after it.
    pub mark: Option<LastSlot>,
    /// For trigger `file`: what is remembered of the files with it.
    pub files: Vec<FileMark>,
    /// For trigger `nats`: what is remembered of its message; absent where nobody acknowledges the message after its end.
    pub message: Option<Box<MessageMark>>,
    /// The attempts that another node has begun of this message; then `message` counts its attempts.
    pub taken_over: Option<Box<TakenOver>>,
    /// As [`Accepted::caller`](crate::records::Accepted::caller).
    pub caller: Option<Arc<Caller>>,
    /// The function that sends the request, if one does; then the trigger is `function`.
    pub calling: Option<Calling>,
}

impl Submit {
    /// Returns a request without a waiting caller and with default values.
    #[must_use]
    pub fn new(id: InvocationId, function: FunctionName, trigger: Trigger) -> Self {
        Self {
            id,
            function,
            trigger,
            payload: Payload::default(),
            reply: None,
            wait: false,
            timeout: None,
            not_before_ms: None,
            expires_ms: None,
            priority: 0,
            idempotency_key: None,
            origin: None,
            overlap: None,
            skipped: None,
            asks_dead_letter: false,
            mark: None,
            files: Vec::new(),
            message: None,
            taken_over: None,
            caller: None,
            calling: None,
        }
    }

    /// Says whether nobody waits for the answer: then a refusal is recorded, because nobody else would tell of it. Files
    /// wait in their directory, and messages in their stream; both come again.
    #[must_use]
    pub fn is_unattended(&self) -> bool {
        self.reply.is_none() && self.trigger != Trigger::Load && !self.trigger.waits_elsewhere()
    }
}

/// An attempt that another node has begun, and whose end nobody knows. It counts as interrupted, and the retry policy decides what
/// follows, as after an attempt that was lost here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenOver {
    /// The message of that attempt.
    pub message: String,
    /// Whether no further attempt follows, whatever the retry policy says: too many had no end.
    pub is_last: bool,
}

/// A function that calls another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calling {
    /// The function that calls.
    pub function: FunctionName,
    /// The invocation of it that calls, as the request says; absent: the trace of the request may say it.
    pub invocation: Option<InvocationId>,
}
