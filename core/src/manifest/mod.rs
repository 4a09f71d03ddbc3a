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

pub use keys::{
    Backoff, History, HttpServer, Isolation, Jitter, Limits, Listen, Logs, Overlap, Poll, Pool, Queue, Rate, Retry,
    RetryOn, Sandbox, Service,
};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
