//! What is kept of invocations and attempts: facts the supervisor states and the ledger stores.
//!
//! Wall-clock instants are Unix milliseconds, durations microseconds, sizes bytes.

use crate::ids::{Attempt, FunctionName, InvocationId, Version, WorkerId};
use crate::outcome::{Exhausted, Reason, State, Trigger};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What an invocation brings for the function.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// The bytes; absent is different from empty.
    pub data: Option<Arc<[u8]>>,
    /// Media type the caller stated.
    pub content_type: Option<String>,
    /// `KEPTN_CONTEXT`, JSON.
    pub context: Option<Arc<str>>,
    /// W3C `traceparent`, checked by the edge.
    pub traceparent: Option<String>,
}

/// An accepted invocation, as it is first stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Its id.
    pub id: InvocationId,
    /// Its function.
    pub function: FunctionName,
    /// What made it.
    pub trigger: Trigger,
    /// When.
    pub accepted_ms: u64,
    /// What it brings.
    pub payload: Payload,
    /// Whether it must be on disk before it is acknowledged ([`Event::Stored`](crate::supervisor::Event::Stored) follows).
    pub durable: bool,
    /// For trigger `load`: the content that is hereby remembered as run, in the same transaction.
    pub load_key: Option<Version>,
    /// Shorter timeout the caller asked for, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// Not started before.
    pub not_before_ms: Option<u64>,
    /// Skipped when not started by then.
    pub expires_ms: Option<u64>,
    /// Instant at which the whole invocation ends, from `limits.deadline`.
    pub deadline_ms: Option<u64>,
}

/// The function's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunResult {
    /// Whether the bytes are one JSON value; otherwise they are text, or arbitrary where they are not UTF-8.
    pub json: bool,
    /// The bytes.
    pub data: Arc<[u8]>,
}

/// One ended attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    /// The invocation.
    pub invocation: InvocationId,
    /// Its function.
    pub function: FunctionName,
    /// Which try, from 1 over retries and polls.
    pub attempt: Attempt,
    /// How many polls came before it.
    pub poll: u32,
    /// The worker, unless none could be started.
    pub worker: Option<WorkerId>,
    /// The version that ran.
    pub version: Option<Version>,
    /// Start.
    pub started_ms: u64,
    /// End: the leaf was empty.
    pub ended_ms: u64,
    /// Start to end by the monotonic clock.
    pub duration_us: u64,
    /// How it ended.
    pub reason: Reason,
    /// In words, at most 4 KiB.
    pub message: String,
    /// Exit code, if it exited.
    pub exit_code: Option<u8>,
    /// Signal number, if one ended it.
    pub signal: Option<u8>,
    /// What it used and printed.
    pub usage: Usage,
    /// When the next attempt begins, if one does.
    pub next_attempt_ms: Option<u64>,
}

/// What an attempt used and printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time of the whole process tree.
    pub cpu_us: u64,
    /// Peak memory; absent where it can't be told.
    pub memory_peak_bytes: Option<u64>,
    /// Whether the peak is of the largest process only.
    pub peak_of_largest: bool,
    /// Held back by the CPU quota.
    pub throttled_us: u64,
    /// Bytes on standard output.
    pub stdout_bytes: u64,
    /// Bytes on standard error.
    pub stderr_bytes: u64,
    /// Bytes of both not kept.
    pub dropped_bytes: u64,
}

/// An invocation's end, or its state in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvocationRecord {
    /// Its id.
    pub id: InvocationId,
    /// Its function.
    pub function: FunctionName,
    /// What made it.
    pub trigger: Trigger,
    /// State.
    pub state: State,
    /// When it was accepted.
    pub accepted_ms: u64,
    /// When its first attempt began.
    pub started_ms: Option<u64>,
    /// When it ended.
    pub ended_ms: Option<u64>,
    /// Attempts so far.
    pub attempts: u32,
    /// Polls so far.
    pub polls: u32,
    /// Reason of the last attempt, or why there was none.
    pub reason: Option<Reason>,
    /// In words.
    pub message: String,
    /// What ran out.
    pub exhausted: Option<Exhausted>,
    /// When the next attempt begins.
    pub next_attempt_ms: Option<u64>,
    /// Version of the last attempt.
    pub version: Option<Version>,
    /// The last attempt's result; also what `previous` is after execute-again.
    pub result: Option<RunResult>,
}

/// An invocation without an end, as found in the ledger at start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// As accepted.
    pub accepted: Accepted,
    /// Where it stood. `Running` means that nobody knows how that attempt ended.
    pub record: InvocationRecord,
}
