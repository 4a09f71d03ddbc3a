//! Bodies about the resources that functions use now.

use super::functions::WaitsFor;
use crate::run::FunctionState;
use fnd_manifest::text;
use fnd_wire::ids::FunctionName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What functions use, read at one instant. Rates are differences of two readings.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct UsageList {
    /// When it was read.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
    /// All functions, by name.
    pub functions: Vec<FunctionUsage>,
}

/// What one function uses. Values of its cgroup are null where it has no cgroup, or where they are not counted; counters
/// begin again at 0 when the cgroup is made anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionUsage {
    /// Name of the function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
    /// State of the function.
    pub state: FunctionState,
    /// Attempts running now.
    pub running: u32,
    /// Invocations waiting now.
    pub queued: u32,
    /// What keeps waiting invocations from beginning although a process is free; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitsFor>,
    /// Number of invocations that have ended.
    pub runs: u64,
    /// Number of those that failed or were interrupted.
    pub failures: u64,
    /// CPU time of all its processes so far.
    pub cpu_ms: Option<f64>,
    /// `limits.cpu`: how many seconds of CPU time it may use in a second; null without this limit.
    pub cpu_limit: Option<f64>,
    /// Periods of the CPU limit so far in which it had something to run.
    pub cpu_periods: Option<u64>,
    /// Number of those in which the limit held it up.
    pub throttled_periods: Option<u64>,
    /// How long the limit held it up so far.
    pub throttled_ms: Option<f64>,
    /// Memory that all its processes use now.
    pub memory_bytes: Option<u64>,
    /// `limits.memory`.
    pub memory_limit_bytes: Option<u64>,
    /// Its processes and threads now, with fnd's own process that starts them.
    pub pids: Option<u64>,
}
