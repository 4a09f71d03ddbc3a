//! A function's manifest: every key of `config/function.toml`, and the files that have some.
//!
//! A [`Manifest`] is the result of parsing, defaults, sizes and checks: no field with a default is optional. Keys whose
//! feature is not built yet are checked and refused, so they have no field here.
//!
//! Files:
//! - `calls`: calls of `[hooks]` and `[alert]` that reach nobody
//! - `credentials`: secrets and service bindings that a function gets
//! - `detect`: finds out whether code is a handler; one file for each language
//! - `env_file`: files of `KEY=VALUE` lines
//! - `env_values`: whether a file has values of `[env]`
//! - `file`: values of `[[file]]`
//! - `forms`: which files of a directory are functions
//! - `inline`: manifests in comments of the code
//! - `keys`: every key, in one file a kind of table
//! - `listing`: pairs manifests with code, and finds clashes
//! - `nats`: values of `[[nats]]` and `[events.nats]`
//! - `near_block`: comments that look like a manifest but are none
//! - `network`: values of `sandbox.network`
//! - `payload_schema`: JSON Schemas of events and inputs
//! - `project`: Python projects whose files would be functions
//! - `route`: values of `[[http]]`
//! - `sandbox`: values of `[sandbox]`

pub mod calls;
pub mod credentials;
pub mod detect;
pub mod env_file;
pub mod env_values;
pub mod file;
pub mod forms;
pub mod inline;
pub mod keys;
pub mod listing;
pub mod nats;
mod near_block;
pub mod network;
pub mod payload_schema;
pub mod project;
pub mod route;
pub mod sandbox;

pub use credentials::MappedSecret;
pub use keys::{
    AccessRule, Alert, AlertOn, BackoffKeys, BuildNetwork, EventSubscription, FileTrigger, History, HookCall, Hooks,
    HttpRoute, HttpServer, Isolation, JitterKey, LimitKeys, Listen, Logs, Manifest, NatsTrigger, OnHookFailure,
    OverlapKey, PollKeys, PoolKeys, QueueKeys, Rate, RetryKeys, RetryOn, SandboxKeys, Schedule, ScheduledAt,
    ServiceKeys,
};

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

impl Manifest {
    /// Returns the names of the secrets that the routes need, sorted, each once.
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let credentials = self.http.iter().flat_map(|route| &route.auth.0);
        let names: BTreeSet<&String> = credentials.map(|credential| &credential.secret).collect();
        names.into_iter().cloned().collect()
    }

    /// Returns the commands of programs that stay, each with the path of its key; absent where the function has another mode.
    #[must_use]
    pub fn commands(&self) -> [(&'static str, Option<&[String]>); 2] {
        let server = self.http_server.as_ref().map(|server| server.command.as_slice());
        let service = self.service.as_ref().map(|service| service.command.as_slice());
        [("http_server.command", server), ("service.command", service)]
    }
}

/// How a function is run; `auto` is already decided.
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
