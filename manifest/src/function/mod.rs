//! A function's manifest: every key of `config/function.toml`, resolved.
//!
//! A [`Manifest`] is the result of parsing, defaults, sizes and checks: no field with a default is optional. Keys whose
//! feature is not built yet are checked and refused, so they have no field here.
//!
//! Files:
//! - `calls`: calls of `[hooks]` and `[alert]` that reach nobody
//! - `credentials`: secrets and service bindings that a function gets
//! - `detect`: whether code is a handler, one scanner a language
//! - `env_file`: files of `KEY=VALUE` lines
//! - `env_values`: whether a file has values of `[env]`
//! - `event_schema`: JSON Schemas of events
//! - `events`: checks subscriptions to events
//! - `file`: values of `[[file]]`
//! - `files`: directories that cannot be watched, and files that would start their function again
//! - `follow_ups`: what `[hooks]` and `[alert]` exclude
//! - `forms`: which files of a directory are functions
//! - `inline`: manifests in comments of the code
//! - `keys`: every key, in one file a kind of table
//! - `listing`: pairs manifests with code, and finds clashes
//! - `near_block`: comments that look like a manifest but are none
//! - `network`: values of `sandbox.network`
//! - `pool`: `[pool]`, within what the memory holds
//! - `project`: Python projects whose files would be functions
//! - `release`: where calls cannot be shared between releases
//! - `resolve`: defaults, sizes, and keys that exclude each other
//! - `root_defaults`: which keys of `[defaults]` functions get that do not belong to root
//! - `route`: values of `[[http]]`
//! - `routes`: what routes of a function exclude
//! - `sandbox`: values of `[sandbox]`
//! - `sandboxes`: settles `[sandbox]`: users, keys that exclude each other, layers that are asked for
//! - `schedules`: what schedules of a function exclude
//! - `server`: `[http_server]` and `[service]`
//! - `widening`: keys of `[sandbox]` that only files of root may have

pub mod calls;
pub mod credentials;
pub mod detect;
pub mod env_file;
pub mod env_values;
pub mod event_schema;
mod events;
pub mod file;
mod files;
mod follow_ups;
pub mod forms;
pub mod inline;
pub mod keys;
pub mod listing;
mod near_block;
pub mod network;
mod pool;
pub mod project;
mod release;
pub mod resolve;
mod root_defaults;
pub mod route;
mod routes;
pub mod sandbox;
mod sandboxes;
mod schedules;
mod server;
mod widening;

pub use credentials::MappedSecret;
pub use keys::{
    AccessRule, Alert, AlertOn, BackoffKeys, BuildNetwork, EventSubscription, FileTrigger, History, HookCall, Hooks,
    HttpRoute, HttpServer, Isolation, JitterKey, LimitKeys, Listen, Logs, Manifest, OnHookFailure, OverlapKey,
    PollKeys, PoolKeys, QueueKeys, Rate, RetryKeys, RetryOn, SandboxKeys, Schedule, ServiceKeys,
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
