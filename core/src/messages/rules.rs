//! The part of a manifest that the supervisor uses.

use crate::backoff::Backoff;
use crate::input::InputSchema;
use crate::records::Payload;
use crate::records::outcome::Class;
use fnd_manifest::function::Listen;
use fnd_manifest::function::route::RequestPlace;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// A function's rules for running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// `enabled` of the manifest.
    pub enabled: bool,
    /// Whether a script runs once by itself for each new content.
    pub run_on_load: bool,
    /// Payload used where the trigger supplies none (`data`, `context`).
    #[serde(skip)]
    pub default_payload: Payload,
    /// The schema that each payload must match (`[input] schema`).
    #[serde(skip)]
    pub input: Option<Arc<InputSchema>>,
    /// Time from the start of an attempt to its SIGTERM.
    pub timeout: Option<Duration>,
    /// Time from SIGTERM to SIGKILL.
    pub grace: Duration,
    /// Time from acceptance to the forced end of the whole invocation.
    pub deadline: Option<Duration>,
    /// Memory that all workers together may use, in bytes; charged to the node budget.
    pub memory: u64,
    /// CPU that all workers together may use, in thousandths of a core; charged to the node budget. Absent: no quota.
    pub cpu_milli: Option<u32>,
    /// The memory limit as text for `oom` messages: `256 MiB`.
    pub memory_text: String,
    /// `pool.max`: the most workers with attempts at once.
    pub max_running: u32,
    /// The kind of the function.
    #[serde(flatten)]
    pub kind: FunctionKind,
    /// Retries; for a service only the backoff between its runs is used.
    pub retry: Retry,
    /// Polling; absent: exit code 99 is an error.
    pub poll: Option<Poll>,
    /// Rules for waiting invocations.
    pub queue: QueueRules,
    /// Largest result in bytes, for the message of `result-too-large`.
    pub result_max: u64,
    /// `limits.pids`, for the message of `pids`.
    pub pids: u32,
    /// `limits.output`.
    #[serde(default)]
    pub output_max: u64,
    /// Whether something follows the ends of its invocations: [`Action::Follow`](super::action::Action::Follow) comes before
    /// their final records.
    #[serde(skip)]
    pub has_hooks: bool,
    /// Whether a new version serves without a trial.
    #[serde(default)]
    pub unchecked: bool,
    /// Runtime id, passed on to attempts.
    #[serde(default)]
    pub runtime: String,
}

impl Rules {
    /// Returns how many attempts may run at once.
    #[must_use]
    pub fn places(&self) -> u32 {
        let each = self.kind.pool().map_or(1, |pool| pool.concurrency);
        self.max_running.saturating_mul(each)
    }
}

/// The kind of a function, with the rules that only this kind has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "KindFields", into = "KindFields")]
pub enum FunctionKind {
    /// Each attempt gets its own process.
    Script,
    /// A pool of workers that use the worker protocol.
    Handler(Pool),
    /// A pool of workers that serve HTTP.
    Http(Pool, Http),
    /// Processes that are kept running and never invoked.
    Service(Service),
}

impl FunctionKind {
    /// Returns the rules for the workers; absent where each attempt gets its own process.
    #[must_use]
    pub fn pool(&self) -> Option<&Pool> {
        match self {
            Self::Handler(pool) | Self::Http(pool, _) => Some(pool),
            Self::Script | Self::Service(_) => None,
        }
    }

    /// Returns how to reach workers that serve HTTP; absent for other workers.
    #[must_use]
    pub fn http(&self) -> Option<&Http> {
        match self {
            Self::Http(_, http) => Some(http),
            Self::Script | Self::Handler(_) | Self::Service(_) => None,
        }
    }

    /// Says whether the function is kept running and never invoked.
    #[must_use]
    pub fn is_service(&self) -> bool {
        matches!(self, Self::Service(_))
    }
}

/// A kind as adoption records contain it. The versions of fnd before and after this one read the records too, so the
/// fields stay.
#[derive(Serialize, Deserialize)]
struct KindFields {
    #[serde(default)]
    pool: Option<Pool>,
    #[serde(default)]
    http: Option<Http>,
    #[serde(default)]
    service: Option<Service>,
}

impl From<KindFields> for FunctionKind {
    fn from(fields: KindFields) -> Self {
        match (fields.service, fields.pool, fields.http) {
            (Some(service), _, _) => Self::Service(service),
            (None, Some(pool), Some(http)) => Self::Http(pool, http),
            (None, Some(pool), None) => Self::Handler(pool),
            (None, None, _) => Self::Script,
        }
    }
}

impl From<FunctionKind> for KindFields {
    fn from(kind: FunctionKind) -> Self {
        let (pool, http, service) = match kind {
            FunctionKind::Script => (None, None, None),
            FunctionKind::Handler(pool) => (Some(pool), None, None),
            FunctionKind::Http(pool, http) => (Some(pool), Some(http), None),
            FunctionKind::Service(service) => (None, None, Some(service)),
        };
        Self { pool, http, service }
    }
}

/// Shortest time that a worker without calls stays.
const IDLE_MIN: Duration = Duration::from_millis(1);

impl Pool {
    /// Returns how many workers without calls stay although they are idle. Fresh ones count, if some are always kept
    /// ready.
    #[must_use]
    pub fn kept(&self) -> u32 {
        let fresh = self.spare.filter(|_| self.min > 0);
        self.min.max(fresh.unwrap_or(0))
    }

    /// Returns until when a worker stays that has no calls from now on; absent: for ever.
    #[must_use]
    pub fn idle_until(&self, now: Duration) -> Option<Duration> {
        // A new worker has to stay until the call that it was started for is given to it.
        Some(now.saturating_add(self.idle?.max(IDLE_MIN)))
    }
}

/// Rules for a handler's workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Workers that are started ahead and kept.
    pub min: u32,
    /// Most workers, including fresh ones that wait for a call.
    pub most: u32,
    /// Most calls in one worker at once.
    pub concurrency: u32,
    /// How long a worker without calls stays; absent: it stays for ever.
    pub idle: Option<Duration>,
    /// Number of calls after which a worker is replaced; 0: no limit.
    pub max_invocations: u32,
    /// Age at which a worker is replaced.
    pub max_age: Option<Duration>,
    /// How many fresh workers are kept ready, if each worker serves only one call.
    pub spare: Option<u32>,
    /// Most time from the start of the process until its code is loaded.
    pub load_max: Duration,
    /// Whether the workers need something (a port) that only one of them can have, whatever its version.
    #[serde(default)]
    pub alone: bool,
}

/// How to reach workers that serve HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http {
    /// Where the workers listen.
    pub listen: Listen,
    /// Path of the readiness probe; absent: a worker is ready when it accepts connections.
    pub ready: Option<String>,
}

/// Rules of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// How many processes run.
    pub replicas: u32,
    /// Path of the readiness probe on the port that the process is given; absent: a process is ready when it runs.
    pub ready: Option<String>,
    /// Most time until a process is ready.
    pub start_timeout: Duration,
}

/// When and how often an invocation is retried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Most retries; polls do not count.
    pub retries: u32,
    /// The delays before the retries.
    pub backoff: Backoff,
    /// Classes that are retried; never `Success`, `Failed`, `Cancelled` or `Deadline`.
    pub on: Vec<Class>,
    /// Exit codes that are not retried.
    pub not_on_exit: Vec<u8>,
}

/// How an invocation that ended with execute-again is polled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Poll {
    /// Delay from the end of one attempt to the start of the next.
    pub repeat: Duration,
    /// Time from the start of the first attempt after which no attempt begins.
    pub until: Duration,
}

/// Rules for waiting invocations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueRules {
    /// Most waiting invocations, besides those that run; the next one is decided by the overlap policy.
    pub max: u32,
    /// Decides about an invocation that arrives while all places are taken.
    pub overlap: Overlap,
    /// Most acceptances per period: count, period.
    pub rate: Option<(u32, Duration)>,
    /// The group whose functions share a number of attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The place whose value puts invocations in order, and how many of one value run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<(RequestPlace, u32)>,
}

/// The decision about an invocation that arrives while all places are taken (`overlap` in the manifest).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overlap {
    /// The new invocation waits.
    Queue,
    /// The new invocation is recorded as skipped.
    Skip,
    /// The oldest running invocation is cancelled.
    Replace,
    /// The new invocation is refused.
    Reject,
}

/// The node's limits over all functions.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeBudget {
    /// Memory for all functions with a running worker, in bytes.
    pub memory: u64,
    /// CPU for all functions with a running worker and a quota, in thousandths of a core; absent: no limit.
    pub cpu_milli: Option<u32>,
    /// Most workers at once.
    pub workers: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &FunctionKind, text: &str) {
        assert_eq!(serde_json::to_string(kind).unwrap(), text);
        assert_eq!(&serde_json::from_str::<FunctionKind>(text).unwrap(), kind);
    }

    #[test]
    fn adoption_records_keep_the_fields_of_each_kind() {
        let pool = Pool {
            min: 0,
            most: 2,
            concurrency: 1,
            idle: None,
            max_invocations: 0,
            max_age: None,
            spare: None,
            load_max: Duration::from_secs(30),
            alone: false,
        };
        let pool_text = r#"{"min":0,"most":2,"concurrency":1,"idle":null,"max_invocations":0,"max_age":null,"spare":null,"load_max":{"secs":30,"nanos":0},"alone":false}"#;
        let http = Http {
            listen: Listen::Free,
            ready: None,
        };
        let service = Service {
            replicas: 1,
            ready: None,
            start_timeout: Duration::from_secs(9),
        };
        check(&FunctionKind::Script, r#"{"pool":null,"http":null,"service":null}"#);
        check(
            &FunctionKind::Handler(pool),
            &format!(r#"{{"pool":{pool_text},"http":null,"service":null}}"#),
        );
        check(
            &FunctionKind::Http(pool, http),
            &format!(r#"{{"pool":{pool_text},"http":{{"listen":"free","ready":null}},"service":null}}"#),
        );
        check(
            &FunctionKind::Service(service),
            r#"{"pool":null,"http":null,"service":{"replicas":1,"ready":null,"start_timeout":{"secs":9,"nanos":0}}}"#,
        );
    }

    #[test]
    fn a_record_without_a_kind_is_a_script() {
        assert_eq!(
            serde_json::from_str::<FunctionKind>("{}").unwrap(),
            FunctionKind::Script
        );
    }
}
