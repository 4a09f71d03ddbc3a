//! What of a manifest the supervisor goes by.

use crate::backoff::Backoff;
use crate::manifest::Listen;
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
    /// `pool.max`: workers with attempts at once.
    pub max_running: u32,
    /// How a handler's or HTTP program's workers are kept; absent: a process for each attempt.
    #[serde(default)]
    pub pool: Option<Pool>,
    /// Where workers that serve HTTP are reached; absent: they speak the worker protocol.
    #[serde(default)]
    pub http: Option<Http>,
    /// Kept running, and never invoked.
    #[serde(default)]
    pub service: Option<Service>,
    /// Retries; of a service the back-off between its runs.
    pub retry: Retry,
    /// Polling; absent: exit 99 is an error.
    pub poll: Option<Poll>,
    /// Queue.
    pub queue: Queue,
    /// Most bytes of a result, for the message of `result-too-large`.
    pub result_max: u64,
    /// `limits.pids`, for the message of `pids`.
    pub pids: u32,
    /// `limits.output`.
    #[serde(default)]
    pub output_max: u64,
    /// Runtime id, for what attempts are told.
    #[serde(default)]
    pub runtime: String,
}

impl Rules {
    /// Returns how many attempts may run at once.
    #[must_use]
    pub fn places(&self) -> u32 {
        let each = self.pool.as_ref().map_or(1, |pool| pool.concurrency);
        self.max_running.saturating_mul(each)
    }
}

impl Pool {
    /// Returns how many workers without calls do not leave for being idle: fresh ones too, where there are always some.
    #[must_use]
    pub fn kept(&self) -> u32 {
        let fresh = self.spare.filter(|_| self.min > 0);
        self.min.max(fresh.unwrap_or(0))
    }
}

/// A handler's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Workers started ahead and kept.
    pub min: u32,
    /// Workers at most, fresh ones that wait included.
    pub most: u32,
    /// Calls in one worker at once.
    pub concurrency: u32,
    /// A worker without calls leaves after it; absent: it stays.
    pub idle: Option<Duration>,
    /// Calls after which a worker is replaced; 0: any number.
    pub max_invocations: u32,
    /// Age at which it is replaced.
    pub max_age: Option<Duration>,
    /// Where each worker serves one call only: how many fresh ones are kept ready.
    pub spare: Option<u32>,
    /// From the process being there to its code being loaded.
    pub load_max: Duration,
    /// Whether there is something (a port) that only one worker can have, of whatever version.
    #[serde(default)]
    pub alone: bool,
}

/// Where workers that serve HTTP are reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http {
    /// Where they listen.
    pub listen: Listen,
    /// The path that answers when one is ready; absent: it is when it takes connections.
    pub ready: Option<String>,
}

/// What is kept running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// How many processes of it.
    pub replicas: u32,
    /// The path that answers on the port it is given when one is ready; absent: it is when it runs.
    pub ready: Option<String>,
    /// It has to be ready within.
    pub start_timeout: Duration,
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
