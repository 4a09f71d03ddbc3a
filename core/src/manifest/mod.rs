//! A function's manifest: every key of `config/function.toml`, resolved.
//!
//! [`Manifest`] is what remains after parsing, defaults, sizes and checks: nothing in it is optional that has a default.
//! Keys whose feature is not built yet are checked and refused, and so have no field here.

pub mod detect;
pub mod env_file;
pub mod forms;
pub mod inline;
pub mod keys;
pub mod listing;
mod pool;
pub mod resolve;
mod server;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How a function is run, decided (contract, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One process per attempt.
    Script,
    /// Workers that load the code once and answer invocations.
    Handler,
    /// Workers that serve HTTP themselves; an invocation is a request to one of them.
    Http,
    /// Processes that are kept running; nobody invokes them.
    Service,
}

impl Mode {
    /// Returns its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Handler => "handler",
            Self::Http => "http",
            Self::Service => "service",
        }
    }
}

/// A function's manifest with every key resolved. Durations and sizes are serialized as a manifest writes them
/// (`"180s"`, `"256M"`, absent durations and sizes as `"none"`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Whether it runs at all.
    pub enabled: bool,
    /// How it is run, `auto` decided.
    pub mode: Mode,
    /// Whether it runs once per content, `auto` decided.
    pub on_load: bool,
    /// What it does, for people; may be empty.
    pub description: String,
    /// Labels to filter by.
    pub labels: BTreeMap<String, String>,
    /// Runtime id, without version.
    pub runtime: String,
    /// The file that is run, relative to the code directory.
    pub entry: String,
    /// The function that is called, as module.function; absent: the shim finds it.
    pub handler: Option<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Arguments of its interpreter.
    pub interpreter_args: Vec<String>,
    /// Payload when the trigger brings none.
    pub data: Option<serde_json::Value>,
    /// `KEPTN_CONTEXT` and `CONTEXT`.
    pub context: Option<serde_json::Value>,
    /// What deno is granted beside what it always has: `net`, `read=/srv/in`; the preset `keptn` spelled out.
    pub permissions: Vec<String>,
    /// Name of the size, if one was chosen.
    pub size: Option<String>,
    /// Host names it runs on, `*` matches any part; empty: every host.
    pub nodes: Vec<String>,
    /// `[limits]`, the size's preset filled in.
    pub limits: Limits,
    /// `[retry]`.
    pub retry: Retry,
    /// `[poll]`; absent: exit 99 is an ordinary error. Handlers have it always.
    pub poll: Option<Poll>,
    /// `[pool]`.
    pub pool: Pool,
    /// `[queue]`.
    pub queue: Queue,
    /// `[env]` over what `env_file` holds.
    pub env: BTreeMap<String, String>,
    /// `[sandbox]`.
    pub sandbox: Sandbox,
    /// `[http_server]`; absent in other modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_server: Option<HttpServer>,
    /// `[service]`; absent in other modes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
    /// `[history]`.
    pub history: History,
    /// `[logs]`.
    #[serde(default)]
    pub logs: Logs,
}

/// `[service]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Program and arguments; empty: the entry, as its runtime starts it.
    pub command: Vec<String>,
    /// Processes kept running.
    pub replicas: u32,
    /// The path that answers on `$PORT` when one is ready; absent: it is when it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// It has to be ready within.
    #[serde(with = "crate::text::duration")]
    pub start_timeout: Duration,
}

/// `[http_server]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpServer {
    /// Program and arguments; empty: the entry, as its runtime starts it.
    pub command: Vec<String>,
    /// Where it listens.
    pub listen: Listen,
    /// The path that answers when it is ready; absent: it is when it takes connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// It has to be ready within.
    #[serde(with = "crate::text::duration")]
    pub start_timeout: Duration,
}

/// Where a program that serves HTTP listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listen {
    /// On a free port of the loopback, told in `$PORT`.
    Free,
    /// On this port of the loopback, told there too.
    Port(u16),
    /// On a Unix socket, `$FND_SOCKET_PATH`.
    Unix,
    /// Where it likes; it says so on descriptor 3 (`export default { fetch }`).
    Told,
}

/// `[history]`: what is remembered of its invocations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The newest.
    pub keep: u32,
    /// By age.
    #[serde(with = "crate::text::duration")]
    pub keep_for: Duration,
    /// The newest of those that failed, beside those; absent: none.
    pub keep_failed: Option<u32>,
    /// By bytes; absent: only with those of all functions.
    #[serde(default, with = "crate::text::size_or_none")]
    pub keep_bytes: Option<u64>,
}

/// `[logs]`: what is kept of its output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logs {
    /// By age.
    #[serde(with = "crate::text::duration")]
    pub keep_for: Duration,
    /// By bytes.
    #[serde(with = "crate::text::size")]
    pub keep_bytes: u64,
}

/// As the manifest of a fnd that did not have it.
impl Default for Logs {
    fn default() -> Self {
        Self {
            keep_for: Duration::from_secs(30 * 86_400),
            keep_bytes: 64 << 20,
        }
    }
}

/// `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Of one attempt, to SIGTERM; absent: none.
    #[serde(with = "crate::text::duration_or_none")]
    pub timeout: Option<Duration>,
    /// Of the whole invocation: queue, attempts, retries and polls; absent: none.
    #[serde(with = "crate::text::duration_or_none")]
    pub deadline: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    #[serde(with = "crate::text::duration")]
    pub grace: Duration,
    /// Bytes of memory, all workers together.
    #[serde(with = "crate::text::size")]
    pub memory: u64,
    /// Bytes of swap.
    #[serde(with = "crate::text::size")]
    pub swap: u64,
    /// Bytes from which memory is reclaimed and the function slowed; absent: none.
    #[serde(with = "crate::text::size_or_none")]
    pub memory_high: Option<u64>,
    /// CPU quota in thousandths of a core; absent: none, weight only.
    #[serde(rename = "cpu", with = "crate::text::cpu_or_none")]
    pub cpu_milli: Option<u32>,
    /// 1 to 10000.
    pub cpu_weight: u32,
    /// Processes and threads.
    pub pids: u32,
    /// Open files of one process.
    pub open_files: u64,
    /// Bytes of the largest file it may write; absent: none.
    #[serde(with = "crate::text::size_or_none")]
    pub file_size: Option<u64>,
    /// 1 to 10000.
    pub io_weight: u32,
    /// Bytes read per second; absent: none.
    #[serde(rename = "io_read", with = "crate::text::byte_rate_or_none")]
    pub io_read_bytes_per_second: Option<u64>,
    /// Bytes written per second; absent: none.
    #[serde(rename = "io_write", with = "crate::text::byte_rate_or_none")]
    pub io_write_bytes_per_second: Option<u64>,
    /// Bytes of each output stream kept per attempt.
    #[serde(with = "crate::text::size")]
    pub output: u64,
    /// Bytes of the largest result.
    #[serde(with = "crate::text::size")]
    pub result: u64,
    /// Bytes of the largest payload.
    #[serde(with = "crate::text::size")]
    pub body: u64,
    /// Keys of `[limits]` the function's own manifest sets, sorted: one of these that cannot be enforced refuses the
    /// function, a default or a size never does.
    pub asked: Vec<String>,
}

/// `[retry]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts after the first, polls not counted.
    pub retries: u32,
    /// Delay before the first retry.
    #[serde(with = "crate::text::duration")]
    pub interval: Duration,
    /// How the delay grows.
    pub backoff: Backoff,
    /// By how much it grows each time, 1.0 to 100.0.
    pub factor: f64,
    /// Largest delay, at least `interval`.
    #[serde(with = "crate::text::duration")]
    pub max_interval: Duration,
    /// Which part of the delay is random.
    pub jitter: Jitter,
    /// After which ends there is a retry.
    pub on: Vec<RetryOn>,
    /// Exit codes after which there is none.
    pub not_on_exit: Vec<u8>,
}

/// How the delay between retries grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backoff {
    /// Times `factor` each time.
    Exponential,
    /// Not at all.
    Fixed,
}

/// Which part of a delay is random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Jitter {
    /// Half fixed, half random.
    Equal,
    /// All of it.
    Full,
    /// None of it.
    None,
}

/// The classes of ends `retry.on` may name (contract, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RetryOn {
    /// Any exit code without a meaning of its own.
    Error,
    /// Exit 75.
    Transient,
    /// The attempt reached `limits.timeout`.
    Timeout,
    /// The kernel killed it at `limits.memory`.
    Oom,
    /// A signal ended it.
    Signal,
    /// It could not be started.
    Spawn,
    /// The machine or the spawner stopped under it.
    Interrupted,
}

/// `[poll]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Poll {
    /// Delay before it is executed again.
    #[serde(with = "crate::text::duration")]
    pub repeat: Duration,
    /// From the start of the first attempt; then it has failed.
    #[serde(with = "crate::text::duration")]
    pub until: Duration,
}

/// `[pool]`. All but `max` concerns handlers only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Workers started ahead and kept, at most `max`.
    pub min: u32,
    /// Processes at once, of handlers at most `fit`; the default is 1 for scripts that run on load, else 4.
    pub max: u32,
    /// Invocations at once in one worker.
    pub concurrency: u32,
    /// How long an idle worker stays, down to `min`; absent: for good.
    #[serde(with = "crate::text::duration_or_none")]
    pub idle: Option<Duration>,
    /// Invocations after which a worker is replaced; 0: no limit.
    pub max_invocations: u32,
    /// Age at which a worker is replaced; absent: none.
    #[serde(with = "crate::text::duration_or_none")]
    pub max_age: Option<Duration>,
    /// What invocations share.
    pub isolation: Isolation,
    /// Fresh workers kept ready for [`Isolation::Invocation`], at most `fit`.
    pub spare: u32,
    /// How many workers `limits.memory` can hold, by what the runtime needs at least; 1 or more. Busy, idle and spare ones
    /// together are never more.
    pub fit: u32,
}

/// What invocations share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// A worker, with what the code keeps in it.
    Worker,
    /// Nothing: each gets a process no other has seen.
    Invocation,
}

/// `[queue]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Invocations waiting.
    pub max: u32,
    /// What happens when all processes are busy.
    pub overlap: Overlap,
    /// How many may be accepted in which time; absent: any number.
    pub rate: Option<Rate>,
}

/// What an invocation does that finds all processes busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// Waits.
    Queue,
    /// Is recorded as skipped.
    Skip,
    /// Takes the place of the oldest running one, which is cancelled.
    Replace,
    /// Is refused.
    Reject,
}

/// So many in such a time; `"10/s"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many, at least 1.
    pub count: u32,
    /// In which time: a second, a minute, an hour or a day.
    #[serde(with = "crate::text::duration")]
    pub per: Duration,
}

/// `[sandbox]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// User by name; absent: the function's own.
    pub user: Option<String>,
    /// Supplementary groups by name.
    pub groups: Vec<String>,
}
