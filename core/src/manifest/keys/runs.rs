//! Keys of `[retry]`, `[poll]`, `[pool]` and `[queue]`.

use crate::schema::keys::keys;
use crate::schema::pick::FromValue;
use crate::schema::tree::Value;
use crate::text;
use crate::words::words;
use serde::{Deserialize, Serialize};
use std::time::Duration;

keys! {
    /// `[retry]`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct Retry {
        /// Attempts after the first; polls are not counted.
        retries: u32 = Whole(0..=10_000), default 0, example 3;
        /// Delay before the first retry.
        interval: Duration [with = "text::duration"] = Duration(Zero::Fine), default "1s", example "10s";
        /// How the delay grows.
        backoff: Backoff = Word(Backoff::WORDS), default "exponential", example "fixed";
        /// By how much an exponential delay grows each time.
        factor: f64 = Real(1.0..=100.0), default 2.0, example 1.5;
        /// Largest delay.
        max_interval: Duration [with = "text::duration"] = Duration(Zero::Refused), default "5m", example "1m";
        /// Which part of the delay is random: half, all, none.
        jitter: Jitter = Word(Jitter::WORDS), default "equal", example "none";
        /// After which ends there is a retry; `interrupted` may be added, `failed` never.
        on: Vec<RetryOn> = List(&Word(RetryOn::WORDS)),
            default ["error", "transient", "timeout", "oom", "signal", "spawn"], example ["transient"];
        /// Exit codes after which there is none.
        not_on_exit: Vec<u8> = List(&Whole(1..=255)), default [], example [2];
    }
}

words! {
    /// How the delay between retries grows.
    pub enum Backoff {
        /// The delay is multiplied by `factor` each time.
        Exponential = "exponential",
        /// The delay does not grow.
        Fixed = "fixed",
    }

    /// Which part of a delay is random.
    pub enum Jitter {
        /// Half fixed, half random.
        Equal = "equal",
        /// All of the delay is random.
        Full = "full",
        /// Nothing is random.
        None = "none",
    }

    /// The classes of ends that `retry.on` may name (contract, section 4).
    pub enum RetryOn {
        /// Any exit code without a special meaning.
        Error = "error",
        /// Exit 75.
        Transient = "transient",
        /// The attempt reached `limits.timeout`.
        Timeout = "timeout",
        /// The kernel killed the attempt at `limits.memory`.
        Oom = "oom",
        /// A signal ended the attempt.
        Signal = "signal",
        /// The attempt could not be started.
        Spawn = "spawn",
        /// The machine or the spawner went down during the attempt.
        Interrupted = "interrupted",
    }
}

keys! {
    /// `[poll]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Poll {
        /// Delay before it is executed again.
        repeat: Duration [with = "text::duration"] = Duration(Zero::Refused), default "15s", example "1m";
        /// From the first attempt's start; then it has failed.
        until: Duration [with = "text::duration"] = Duration(Zero::Refused), default "1h", example "1d";
    }
}

keys! {
    /// `[pool]`. All keys but `max` apply to handlers and HTTP programs only.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Pool {
        /// Workers started ahead and kept. For handlers and HTTP programs only, as are all keys here but `max`.
        min: u32 = Whole(0..=10_000), default 0, example 1;
        /// Processes at once. For scripts with a schedule or `on_load` the default is 1; workers of a handler are never more than `limits.memory` can hold.
        max: u32 = Whole(1..=10_000), default 4, example 1;
        /// Invocations at once in one worker.
        concurrency: u32 = Whole(1..=10_000), default 1, example 10;
        /// An idle worker is stopped then, down to `min`.
        idle: Option<Duration> [with = "text::duration_or_none"]
            = DurationOrNone(Zero::Fine), default "5m", example "1h";
        /// A worker is replaced after so many; 0: no limit.
        max_invocations: u32 = Whole(0..=1_000_000_000), default 0, example 1000;
        /// A worker is replaced at that age.
        max_age: Option<Duration> [with = "text::duration_or_none"]
            = DurationOrNone(Zero::Refused), default "24h", example "1h";
        /// `invocation`: a process no other invocation has seen.
        isolation: Isolation = Word(Isolation::WORDS), default "worker", example "invocation";
        /// Fresh workers kept ready for `isolation = "invocation"`, as far as `limits.memory` can hold them.
        spare: u32 = Whole(0..=1000), default 2, example 1;
    } and {
        /// Number of workers that `limits.memory` can hold, by the minimum that the runtime needs; at least 1. Busy, idle
        /// and spare workers together never exceed it.
        fit: u32,
    }
}

words! {
    /// What invocations share with each other.
    pub enum Isolation {
        /// A worker, with the state that the code keeps in it.
        Worker = "worker",
        /// Nothing: each invocation gets a fresh process.
        Invocation = "invocation",
    }
}

keys! {
    /// `[queue]`.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct Queue {
        /// Invocations waiting.
        max: u32 = Whole(0..=1_000_000), default 100, example 10;
        /// What happens when all processes are busy; `replace` cancels the oldest running one.
        overlap: Overlap = Word(Overlap::WORDS), default "queue", example "skip";
        /// How many invocations are accepted in which time.
        rate: Option<Rate> = Rate, example "10/s";
    }
}

words! {
    /// What happens to an invocation that finds all processes busy.
    pub enum Overlap {
        /// The invocation waits.
        Queue = "queue",
        /// The invocation is recorded as skipped.
        Skip = "skip",
        /// The oldest running invocation is cancelled in its favour.
        Replace = "replace",
        /// The invocation is refused.
        Reject = "reject",
    }
}

/// A count per period: `"10/s"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// The count, at least 1.
    pub count: u32,
    /// The period: a second, a minute, an hour or a day.
    #[serde(with = "text::duration")]
    pub per: Duration,
}

impl FromValue for Rate {
    fn from_value(value: Option<Value>) -> Option<Self> {
        match value? {
            Value::Rate(count, per) => Some(Self { count, per }),
            _ => None,
        }
    }
}
