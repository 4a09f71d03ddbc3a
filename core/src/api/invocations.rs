//! Bodies about invocations and dead letters.

use crate::instant;
use crate::records::cause::Cause;
use crate::records::outcome::{Class, Exhausted, Reason, RunState, Trigger};
use crate::records::{AttemptRecord, InvocationRecord};
use fnd_manifest::text;
use fnd_manifest::words;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An invocation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvocationView {
    /// Its id.
    #[serde(with = "text::id")]
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub id: InvocationId,
    /// Its function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
    /// Its trigger.
    pub trigger: Trigger,
    /// State.
    pub state: RunState,
    /// Reason of the last attempt.
    pub reason: Option<Reason>,
    /// Message to the reason.
    pub message: String,
    /// The limit that ran out.
    pub exhausted: Option<Exhausted>,
    /// `failed` if a function that a hook of the invocation called has failed, and the hook says `on_failure = "fail"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<HookEnd>,
    /// The node whose record of the same message counts, in place of this one; only in the view of one invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// Version of the last attempt.
    #[serde(default, with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// When it was accepted.
    #[schemars(extend("format" = "date-time"))]
    pub accepted_at: String,
    /// Start of the first attempt.
    #[schemars(extend("format" = "date-time"))]
    pub started_at: Option<String>,
    /// End of the invocation.
    #[schemars(extend("format" = "date-time"))]
    pub ended_at: Option<String>,
    /// Start of the next attempt.
    #[schemars(extend("format" = "date-time"))]
    pub next_attempt_at: Option<String>,
    /// Number of attempts so far. Lists do not contain their details.
    pub attempts: u32,
    /// Polls so far.
    pub polls: u32,
    /// The invocation from which the payload was copied (triggers `replay` and `redrive`); only in the view of one
    /// invocation.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::id_or_null")]
    #[schemars(with = "Option<String>", extend("format" = "uuid"))]
    pub replay_of: Option<InvocationId>,
    /// The invocation of another function that called this one; only in the view of one invocation.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "text::id_or_null")]
    #[schemars(with = "Option<String>", extend("format" = "uuid"))]
    pub parent: Option<InvocationId>,
    /// How many invocations it has called, as `GET /v1/invocations?parent=ID` lists them; only in the view of one invocation.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub children: u64,
    /// What made the trigger run the function; only in the view of one invocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// CPU time of all attempts; only in lists with `usage=1`. It is left out if all attempts shared their workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// The highest peak of memory of an attempt; only in lists with `usage=1`, and left out if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// All attempts, oldest first; only in the view of one invocation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempt_records: Vec<AttemptView>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

words! {
    /// How the hooks of an invocation ended.
    pub enum HookEnd {
        /// A called function failed, or could not be called.
        Failed = "failed",
    }

    /// What the peak of an attempt's memory was measured of.
    pub enum UsageScope {
        /// All processes of the attempt together.
        Attempt = "attempt",
        /// The largest process of the attempt.
        LargestProcess = "largest-process",
        /// A worker that serves other attempts too: CPU time and memory cannot be separated.
        Worker = "worker",
    }
}

/// An attempt.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Number of the attempt.
    pub attempt: u32,
    /// Polls before this attempt.
    pub poll: u32,
    /// Start.
    #[schemars(extend("format" = "date-time"))]
    pub started_at: String,
    /// End.
    #[schemars(extend("format" = "date-time"))]
    pub ended_at: String,
    /// Duration.
    pub duration_ms: f64,
    /// Exit code.
    pub exit_code: Option<u8>,
    /// Name of the signal, `SIGSEGV`.
    pub signal: Option<String>,
    /// Class of the end.
    pub class: Class,
    /// Reason.
    pub reason: Reason,
    /// Message to the reason.
    pub message: String,
    /// CPU time; null with scope `worker`.
    pub cpu_ms: Option<f64>,
    /// Peak memory; null with scope `worker` and where it cannot be measured.
    pub memory_peak_bytes: Option<u64>,
    /// What the peak was measured of. Null where there is no peak.
    pub scope: Option<UsageScope>,
    /// Time during which the CPU quota held the attempt back; null with scope `worker`.
    pub throttled_ms: Option<f64>,
    /// Number of the worker.
    pub worker: Option<u64>,
    /// Whether the attempt waited for its worker to start. Always true for scripts: each attempt is a process of its
    /// own.
    pub cold: bool,
    /// The version that ran.
    #[serde(default, with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// Output bytes that were not kept.
    pub dropped_bytes: u64,
}

/// A page of the history; it may have fewer elements than requested, or none, and still a next page.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvocationList {
    /// Newest first.
    pub invocations: Vec<InvocationView>,
    /// Cursor of the next page (`after=`); null on the last page.
    pub next: Option<String>,
}

/// A dead letter: an asynchronous invocation that failed for good.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    /// The invocation.
    #[serde(flatten)]
    pub invocation: InvocationView,
    /// The payload as text; of a long one only the beginning: 200 bytes in lists, 64 KiB for a single dead letter. Null
    /// where there is no payload, and where it is not text.
    pub payload: Option<String>,
    /// Size of the payload in bytes; null where there is none.
    pub payload_bytes: Option<u64>,
    /// Media type of the payload, if the caller stated one.
    pub content_type: Option<String>,
}

/// A page of dead letters.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetterList {
    /// Newest first.
    pub dead_letters: Vec<DeadLetter>,
    /// Cursor of the next page (`after=`); null on the last page. The next page may be empty.
    pub next: Option<String>,
}

/// Answer to a request that queued an invocation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Queued {
    /// The invocation's id.
    #[serde(with = "text::id")]
    #[schemars(with = "String", extend("format" = "uuid"))]
    pub id: InvocationId,
}

impl InvocationView {
    /// Returns the view of a record, without details of its attempts.
    #[must_use]
    pub fn of(record: &InvocationRecord) -> Self {
        Self {
            id: record.id,
            function: record.function.clone(),
            trigger: record.trigger,
            state: record.state,
            reason: record.reason,
            message: record.message.clone(),
            exhausted: record.exhausted,
            hook: None,
            superseded_by: None,
            version: record.version,
            accepted_at: instant::text(record.accepted_ms),
            started_at: record.started_ms.map(instant::text),
            ended_at: record.ended_ms.map(instant::text),
            next_attempt_at: record.next_attempt_ms.map(instant::text),
            attempts: record.attempts,
            polls: record.polls,
            replay_of: None,
            parent: None,
            children: 0,
            cause: None,
            cpu_ms: None,
            memory_peak_bytes: None,
            attempt_records: Vec::new(),
        }
    }
}

impl AttemptView {
    /// Returns the view of a record.
    #[must_use]
    pub fn of(record: &AttemptRecord) -> Self {
        let usage = &record.usage;
        let scope = match usage.memory_peak() {
            _ if usage.scope_worker => Some(UsageScope::Worker),
            Some(_) if usage.peak_of_largest => Some(UsageScope::LargestProcess),
            Some(_) => Some(UsageScope::Attempt),
            None => None,
        };
        Self {
            attempt: record.attempt.0,
            poll: record.poll,
            started_at: instant::text(record.started_ms),
            ended_at: instant::text(record.ended_ms),
            duration_ms: milliseconds(record.duration_us),
            exit_code: record.exit_code,
            signal: record
                .signal
                .map(|number| Reason::Signal(number).to_string().replace("signal-", "SIG")),
            class: record.reason.class(),
            reason: record.reason,
            message: record.message.clone(),
            cpu_ms: usage.cpu().map(milliseconds),
            memory_peak_bytes: usage.memory_peak(),
            scope,
            throttled_ms: (!usage.scope_worker).then(|| milliseconds(usage.throttled_us)),
            worker: record.worker.map(|worker| worker.0),
            cold: record.cold.unwrap_or(true),
            version: record.version,
            stdout_bytes: usage.stdout_bytes,
            stderr_bytes: usage.stderr_bytes,
            dropped_bytes: usage.dropped_bytes,
        }
    }
}

/// Converts microseconds to milliseconds; exact to the microsecond for three hundred years.
#[must_use]
pub fn milliseconds(us: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "53 bits of microseconds are 285 years")]
    let us = us as f64;
    us / 1000.0
}
