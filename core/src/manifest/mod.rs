//! A function's manifest: every key of `config/function.toml`, resolved.
//!
//! A [`Manifest`] is the result of parsing, defaults, sizes and checks: no field with a default is optional. Keys whose
//! feature is not built yet are checked and refused, so they have no field here.

pub mod detect;
pub mod env_file;
pub mod forms;
pub mod inline;
pub mod keys;
pub mod listing;
mod pool;
pub mod resolve;
mod server;

pub use keys::{Backoff, Isolation, Jitter, Limits, Overlap, Poll, Pool, Queue, Rate, Retry, RetryOn};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How a function is run (contract, section 2); `auto` is already decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One process per attempt.
    Script,
    /// Workers that load the code once and answer invocations.
    Handler,
    /// Workers that serve HTTP themselves; an invocation is a request to one of them.
    Http,
    /// Processes that are kept running and never invoked.
    Service,
}

impl Mode {
    /// Returns the mode's name in a manifest.
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
    /// Whether the function may run.
    pub enabled: bool,
    /// The mode, with `auto` decided.
    pub mode: Mode,
    /// Whether the function runs once per content, with `auto` decided.
    pub on_load: bool,
    /// Description for people; may be empty.
    pub description: String,
    /// Labels to filter by.
    pub labels: BTreeMap<String, String>,
    /// Runtime id without the version.
    pub runtime: String,
    /// The file that runs, relative to the code directory.
    pub entry: String,
    /// The handler as module.function; absent: the shim finds it.
    pub handler: Option<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Arguments of the interpreter.
    pub interpreter_args: Vec<String>,
    /// Payload used where the trigger supplies none.
    pub data: Option<serde_json::Value>,
    /// `KEPTN_CONTEXT` and `CONTEXT`.
    pub context: Option<serde_json::Value>,
    /// Permissions for deno beyond the ones it always has: `net`, `read=/srv/in`; the preset `keptn` is expanded.
    pub permissions: Vec<String>,
    /// Name of the size, if one was chosen.
    pub size: Option<String>,
    /// Host names on which the function runs, `*` matches any part; empty: all hosts.
    pub nodes: Vec<String>,
    /// `[limits]`, with the values of the size filled in.
    pub limits: Limits,
    /// `[retry]`.
    pub retry: Retry,
    /// `[poll]`; absent: exit 99 is an ordinary error. Handlers always have it.
    pub poll: Option<Poll>,
    /// `[pool]`.
    pub pool: Pool,
    /// `[queue]`.
    pub queue: Queue,
    /// `[env]`, merged over the variables of `env_file`.
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
    /// Program and arguments; empty: the entry, started by its runtime.
    pub command: Vec<String>,
    /// Number of processes that are kept running.
    pub replicas: u32,
    /// Path of the readiness probe on `$PORT`; absent: a process is ready when it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Most time until a process is ready.
    #[serde(with = "crate::text::duration")]
    pub start_timeout: Duration,
}

/// `[http_server]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpServer {
    /// Program and arguments; empty: the entry, started by its runtime.
    pub command: Vec<String>,
    /// Where the program listens.
    pub listen: Listen,
    /// Path of the readiness probe; absent: the program is ready when it accepts connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Most time until the program is ready.
    #[serde(with = "crate::text::duration")]
    pub start_timeout: Duration,
}

/// Where a program that serves HTTP listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Listen {
    /// On a free port of the loopback, which `$PORT` contains.
    Free,
    /// On this port of the loopback, which `$PORT` contains too.
    Port(u16),
    /// On a Unix socket, `$FND_SOCKET_PATH`.
    Unix,
    /// On a port of its own choice, which it reports on descriptor 3 (`export default { fetch }`).
    Told,
}

/// `[history]`: which records of invocations are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Number of the newest records that are kept.
    pub keep: u32,
    /// Age up to which records are kept.
    #[serde(with = "crate::text::duration")]
    pub keep_for: Duration,
    /// Number of the newest records of failed invocations that are kept in addition; absent: none.
    pub keep_failed: Option<u32>,
    /// Bytes of records that are kept; absent: only the limit of all functions applies.
    #[serde(default, with = "crate::text::size_or_none")]
    pub keep_bytes: Option<u64>,
}

/// `[logs]`: which output is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logs {
    /// Age up to which output is kept.
    #[serde(with = "crate::text::duration")]
    pub keep_for: Duration,
    /// Bytes of output that are kept.
    #[serde(with = "crate::text::size")]
    pub keep_bytes: u64,
}

/// The values for a manifest from an fnd that did not have this table.
impl Default for Logs {
    fn default() -> Self {
        Self {
            keep_for: Duration::from_secs(30 * 86_400),
            keep_bytes: 64 << 20,
        }
    }
}

/// `[sandbox]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// User name; absent: the function's own user.
    pub user: Option<String>,
    /// Names of supplementary groups.
    pub groups: Vec<String>,
}
