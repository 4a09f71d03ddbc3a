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
    Backoff, History, HttpServer, Isolation, Jitter, Limits, Listen, Logs, Manifest, Overlap, Poll, Pool, Queue, Rate,
    Retry, RetryOn, Sandbox, Service,
};

use serde::{Deserialize, Serialize};

/// How a function is run (contract, section 2); `auto` is already decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One process per attempt.
    #[default]
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
