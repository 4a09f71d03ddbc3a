//! Bodies about the routes of the public listener.

use fnd_manifest::text;
use fnd_wire::ids::FunctionName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The routes of all functions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteList {
    /// The addresses that the listener serves; empty: it is off.
    pub listen: Vec<String>,
    /// The routes by function, each function's in the order of its manifest.
    pub routes: Vec<RouteView>,
    /// The address of `[http] events`, if the configuration has one: `POST` there publishes events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<EventsRoute>,
}

/// The address of `[http] events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventsRoute {
    /// The path, on every host.
    pub path: String,
    /// The credentials of which a sender needs one; `none`: no sender needs one.
    pub auth: Vec<String>,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteView {
    /// The methods.
    pub methods: Vec<String>,
    /// The host; null: every host.
    pub host: Option<String>,
    /// The path.
    pub path: String,
    /// The function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
    /// The credentials of which a caller needs one; `none`: no caller needs one.
    pub auth: Vec<String>,
    /// Whether requests are queued and answered with 202.
    pub r#async: bool,
    /// Requests that were answered since fnd's start, also those that ran nothing.
    pub calls: u64,
    /// Median of the last hundred durations.
    pub p50_ms: Option<f64>,
    /// 99th percentile of the last hundred durations.
    pub p99_ms: Option<f64>,
    /// The status of the last answer.
    pub last_status: Option<u16>,
}

/// A request to try against the routes; nothing runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RouteTest {
    /// The method.
    pub method: String,
    /// A URL with a host, or a path.
    pub url: String,
    /// The headers.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(default)]
    pub body: String,
    /// The caller's address.
    #[serde(default)]
    pub caller: Option<String>,
}

/// What would become of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RouteTestReport {
    /// The status of fnd's answer; absent: the function runs and answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What happens, in one sentence.
    pub verdict: String,
    /// The route, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteView>,
    /// The parameters of the path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// Whether each credential of the route holds, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<CheckView>,
    /// Whether each condition of `when` holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<CheckView>,
    /// The idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Something that holds or does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckView {
    /// What was checked: `github:hook`, `header.x-github-event`.
    pub what: String,
    /// Whether it holds.
    pub holds: bool,
    /// Why not, or what there is.
    pub detail: String,
}
