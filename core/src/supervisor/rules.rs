//! What of a manifest the supervisor goes by.

use crate::backoff::Backoff;
use crate::outcome::Class;
use crate::record::Payload;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A function's rules for running.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rules {
    /// `enabled` of the manifest.
    pub enabled: bool,
    /// Whether it runs once per content by itself.
    pub run_on_load: bool,
    /// Payload where the trigger brings none (`data`, `context`).
    #[serde(skip)]
    pub default_payload: Payload,
    /// Start to SIGTERM of one attempt.
    pub timeout: Option<Duration>,
    /// SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Acceptance to the end of it all.
    pub deadline: Option<Duration>,
    /// Memory all workers may use, bytes: what the node budget counts.
    pub memory: u64,
    /// Thousandths of a core all workers may use: what the node budget counts; nothing where there is no quota.
    pub cpu_milli: Option<u32>,
    /// In words for `oom` messages: `256 MiB`.
    pub memory_text: String,
    /// `pool.max`: attempts at once.
    pub max_running: u32,
    /// Retries.
    pub retry: Retry,
    /// Polling; absent: exit 99 is an error.
    pub poll: Option<Poll>,
    /// Queue.
    pub queue: Queue,
    /// Most bytes of a result, for the message of `result-too-large`.
    pub result_max: u64,
    /// `limits.pids`, for the message of `pids`.
    pub pids: u32,
}

/// When and how often to try again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts after the first, polls not counted.
    pub retries: u32,
    /// Delays between them.
    pub backoff: Backoff,
    /// Classes that are retried; never `Failed`.
    pub on: Vec<Class>,
    /// Exit codes that are not.
    pub not_on_exit: Vec<u8>,
}

/// What execute-again does.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Poll {
    /// Delay from the end of one attempt to the start of the next.
    pub repeat: Duration,
    /// From the first attempt's start: no attempt begins after it.
    pub until: Duration,
}

/// What waits and how.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Queue {
    /// Most invocations waiting.
    pub max: u32,
    /// What happens to one that arrives while all places are taken.
    pub overlap: Overlap,
    /// Acceptances allowed per time: count, period.
    pub rate: Option<(u32, Duration)>,
}

/// Overlap policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overlap {
    /// Wait.
    Queue,
    /// Record it as skipped.
    Skip,
    /// Cancel the oldest running one.
    Replace,
    /// Refuse it.
    Reject,
}

/// The node's limits over all functions.
#[derive(Debug, Clone, Copy)]
pub struct NodeBudget {
    /// Memory of all functions with a running worker, bytes.
    pub memory: u64,
    /// Thousandths of a core of all functions with a running worker and a quota; absent: they share the machine's.
    pub cpu_milli: Option<u32>,
    /// Workers at once.
    pub workers: u32,
}
