//! Keys of `[retry]`, `[poll]`, `[pool]` and `[queue]`.

use crate::function::route::{self, RequestPlace};
use crate::schema::keys::keys;
use crate::schema::pick::FromValue;
use crate::schema::tree::TomlValue;
use crate::text;
use crate::words;
use serde::{Deserialize, Serialize};
use std::time::Duration;

keys! {
    /// `[retry]`.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub struct RetryKeys {
        /// Number of attempts after the first; polls are not counted.
        retries: u32 = Whole(0..=10_000), default 0, example 3;
        /// Delay before the first retry.
        interval: Duration [with = "text::duration"] = Duration(Zero::Fine), default "1s", example "10s";
        /// How the delay grows from retry to retry.
        backoff: BackoffKeys = Word(BackoffKeys::WORDS), default "exponential", example "fixed";
        /// Factor by which an exponential delay grows from retry to retry.
        factor: f64 = Real(1.0..=100.0), default 2.0, example 1.5;
        /// Longest delay.
        max_interval: Duration [with = "text::duration"] = Duration(Zero::Refused), default "5m", example "1m";
        /// Which part of the delay is random: half of it (`equal`), all of it (`full`) or nothing (`none`).
        jitter: JitterKey = Word(JitterKey::WORDS), default "equal", example "none";
        // Nobody knows how far an interrupted attempt came, and by default fnd runs work at most once.
        /// Classes of ends that are retried; `interrupted` may be added, `failed` is never retried.
        on: Vec<RetryOn> = List(&Word(RetryOn::WORDS)),
            default ["error", "transient", "timeout", "oom", "signal", "spawn"], example ["transient"];
        /// Exit codes that are not retried.
        not_on_exit: Vec<u8> = List(&Whole(1..=255)), default [], example [2];
    }
}

words! {
    /// How the delay between retries grows.
    pub enum BackoffKeys {
        /// The delay is multiplied by `factor` each time.
        Exponential = "exponential",
        /// The delay does not grow.
        Fixed = "fixed",
    }

    /// Which part of a delay is random.
    pub enum JitterKey {
        /// Half fixed, half random.
        Equal = "equal",
        /// All of the delay is random.
        Full = "full",
        /// Nothing is random.
        None = "none",
    }

    /// The classes of ends that `retry.on` may name.
    pub enum RetryOn {
        // The class `failed` is missing: with it, a function says that another attempt is of no use.
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
    pub struct PollKeys {
        /// Delay before the invocation is executed again.
        repeat: Duration [with = "text::duration"] = Duration(Zero::Refused), default "15s", example "1m";
        /// How long polling may take from the start of the first attempt; after it the invocation fails.
        until: Duration [with = "text::duration"] = Duration(Zero::Refused), default "1h", example "1d";
    }
}

keys! {
    /// `[pool]`. All keys but `max` apply to handlers and HTTP programs only.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub struct PoolKeys {
        /// Number of workers that are started ahead and kept. As all keys here but `max`, only for handlers and HTTP programs.
        min: u32 = Whole(0..=10_000), default 0, example 1;
        /// Number of processes at once. Default for scripts with a schedule or `on_load`: 1. A handler never has more workers than `limits.memory` can hold.
        max: u32 = Whole(1..=10_000), default 4, example 1;
        /// Number of invocations at once in one worker.
        concurrency: u32 = Whole(1..=10_000), default 1, example 10;
        /// Time after which an idle worker is stopped, if more than `min` are left.
        idle: Option<Duration> [with = "text::duration_or_none"]
            = DurationOrNone(Zero::Fine), default "5m", example "1h";
        /// Number of invocations after which a worker is replaced; 0: no limit.
        max_invocations: u32 = Whole(0..=1_000_000_000), default 0, example 1000;
        /// Age at which a worker is replaced.
        max_age: Option<Duration> [with = "text::duration_or_none"]
            = DurationOrNone(Zero::Refused), default "24h", example "1h";
        /// What invocations share: a worker (`worker`), or nothing, since each gets a fresh process (`invocation`).
        isolation: Isolation = Word(Isolation::WORDS), default "worker", example "invocation";
        /// Number of fresh workers kept ready for `isolation = "invocation"`, as far as `limits.memory` can hold them.
        spare: u32 = Whole(0..=1000), default 2, example 1;
    } and {
        /// Number of workers that `limits.memory` can hold, by the minimum that the runtime needs; at least 1. Busy, idle
        /// and spare workers together never exceed it.
        fit: u32,
    }
}

words! {
    /// The state that invocations share with each other.
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
    pub struct QueueKeys {
        /// Number of invocations that may wait.
        max: u32 = Whole(0..=1_000_000), default 100, example 10;
        /// What happens to an invocation if all processes are busy; `replace` cancels the oldest running one.
        overlap: OverlapKey = Word(OverlapKey::WORDS), default "queue", example "skip";
        /// How many invocations are accepted per time.
        rate: Option<Rate> = Rate, example "10/s";
        /// A group of `[groups]` in `fnd.toml`: the functions that name it together have only so many attempts at once as it allows.
        group: Option<String> [default, skip_serializing_if = "Option::is_none"] = Text(TextKind::Name), example "db";
        /// The place of a value in the payload or the request: of runs with the same value, `per_key` run at once, in the order in which they came.
        key: Option<RequestPlace> [default, skip_serializing_if = "Option::is_none"] = Text(TextKind::Grammar(&route::PLACE)), example "body.customer";
        /// How many runs with the same value of `key` run at once. Without it: one.
        per_key: Option<u32> [default, skip_serializing_if = "Option::is_none"] = Whole(1..=1000), example 1;
    }
}

words! {
    /// The treatment of an invocation that finds all processes busy.
    pub enum OverlapKey {
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
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        match value? {
            TomlValue::Rate(count, per) => Some(Self { count, per }),
            _ => None,
        }
    }
}
