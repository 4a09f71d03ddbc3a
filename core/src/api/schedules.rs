//! Bodies about schedules.

use super::InvocationView;
use fnd_manifest::text;
use fnd_manifest::words;
use fnd_wire::ids::FunctionName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// Whether the slots of a schedule run.
    pub enum ScheduleState {
        /// They run.
        Active = "active",
        /// Somebody has paused the schedules of the function.
        Paused = "paused",
        /// The function is disabled.
        Disabled = "disabled",
    }
}

/// The schedules of all functions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleList {
    /// By function, each function's in the order of its manifest.
    pub schedules: Vec<ScheduleView>,
}

/// A schedule.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleView {
    /// The function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
    /// The line of cron, `every 30s`, or `at boot`.
    pub schedule: String,
    /// The time zone in which a line of cron counts; null for the others.
    pub timezone: Option<String>,
    /// Whether its slots run.
    pub state: ScheduleState,
    /// The next slots, before their jitter; none for a schedule whose slots do not run.
    #[schemars(extend("format" = "date-time"))]
    pub next: Vec<String>,
    /// The last scheduled run of the function, without its attempts; null where there is none in the history.
    pub last: Option<InvocationView>,
}
