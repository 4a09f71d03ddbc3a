//! Bodies about functions.

use crate::records::cause::AlertCondition;
use crate::records::outcome::{Reason, Trigger};
use crate::run::FunctionState;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::text;
use fnd_manifest::words;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

words! {
    /// How a function's last attempt ended.
    pub enum LastEnd {
        /// With success.
        Succeeded = "succeeded",
        /// With a failure.
        Failed = "failed",
        /// No attempt has ended.
        Pending = "pending",
    }
}

/// A function with its last execution; also the content of its status file. `status`, `message` and `timestamp` are
/// fields of Keptn's KEP 90.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FunctionStatus {
    /// How the last attempt ended; `pending` before the first.
    pub status: LastEnd,
    /// The last attempt's message.
    pub message: String,
    /// When this status was written.
    #[schemars(extend("format" = "date-time"))]
    pub timestamp: String,
    /// Name of the function.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub function: FunctionName,
    /// Serving version.
    #[serde(default, with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// State of the function.
    pub state: FunctionState,
    /// The last invocation.
    #[serde(default, with = "text::id_or_null")]
    #[schemars(with = "Option<String>", extend("format" = "uuid"))]
    pub invocation: Option<InvocationId>,
    /// The last invocation's trigger.
    pub trigger: Option<Trigger>,
    /// Number of the last attempt.
    pub attempt: Option<u32>,
    /// Polls before the last attempt.
    pub poll: Option<u32>,
    /// Reason of the last attempt.
    pub reason: Option<Reason>,
    /// Exit code of the last attempt.
    pub exit_code: Option<u8>,
    /// Start of the last attempt.
    #[schemars(extend("format" = "date-time"))]
    pub started_at: Option<String>,
    /// Duration of the last attempt.
    pub duration_ms: Option<f64>,
    /// CPU time of the last attempt.
    pub cpu_ms: Option<f64>,
    /// Peak memory of the last attempt.
    pub memory_peak_bytes: Option<u64>,
    /// Memory that all processes of the function use now. Null where no process runs and where the memory cannot be
    /// measured; also in status files, which are not rewritten for a value that always changes.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Start of the next attempt.
    #[schemars(extend("format" = "date-time"))]
    pub next_attempt_at: Option<String>,
    /// Start of the next scheduled run.
    #[schemars(extend("format" = "date-time"))]
    pub next_run_at: Option<String>,
    /// Result of the last attempt: JSON, or a string; null where there is none or where it is not text.
    #[schemars(with = "serde_json::Value")]
    pub result: Option<Box<RawValue>>,
    /// Number of invocations that have ended, without those that never began. Retries and polls of an invocation do
    /// not count.
    pub runs: u64,
    /// Number of those that failed or were interrupted.
    pub failures: u64,
    /// Since when a service runs: the start of its oldest process that is ready. Null while none is, and for functions
    /// that are no services.
    #[serde(default)]
    #[schemars(extend("format" = "date-time"))]
    pub up_since: Option<String>,
    /// The TCP ports on which the user of a running service listens, in ascending order; none if other functions have the
    /// same user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// Why the newest content does not serve.
    pub error: Option<String>,
    /// The change of which `[alert]` told last, until the function is well again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<AlertState>,
    /// The person who has stopped a service, and since when. Absent for one that nobody has stopped, and for other functions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<ServiceStop>,
    /// What does not work as its author expects, one line each: why the function does not run (over its quota, a held release),
    /// or does not run by itself; settings without effect; the mistakes of its file after the first one, which is `error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Runtime, for people: `python 3.11`.
    #[serde(default)]
    pub runtime: String,
    /// Labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Median duration of the last hundred attempts.
    #[serde(default)]
    pub p50_ms: Option<f64>,
    /// 99th percentile of the same durations.
    #[serde(default)]
    pub p99_ms: Option<f64>,
    /// Attempts running now.
    #[serde(default)]
    pub running: u32,
    /// Invocations waiting now.
    #[serde(default)]
    pub queued: u32,
    /// What keeps waiting invocations from beginning although a process is free. Absent where nothing does; also in status files,
    /// which are not rewritten for a value that always changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitsFor>,
    /// Number of dead letters.
    #[serde(default)]
    pub dead_letters: u64,
    /// Whether agents may call it as a tool of the Model Context Protocol (`mcp` of the manifest); absent where it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mcp: bool,
}

/// A planned stop of a service, which lasts until a person starts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceStop {
    /// User id of the person.
    pub uid: u32,
    /// When the person stopped it.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
}

/// What keeps invocations from beginning although a process is free.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitsFor {
    /// The group of the function, all of whose places are taken, or are for others first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupPlaces>,
    /// Invocations that wait for others with the same value of `[queue] key`, or of `key` of `[[event]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<HeldBack>,
}

/// The places of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupPlaces {
    /// Name of the group.
    pub name: String,
    /// Places that are taken.
    pub taken: u32,
    /// Places that the group has.
    pub max: u32,
}

/// Invocations that wait for others with the same value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldBack {
    /// The value of the oldest one.
    pub value: String,
    /// Number of all.
    pub invocations: u32,
}

impl WaitsFor {
    /// Returns it in words: `group db (2 of 2); key 7 (3 runs)`.
    #[must_use]
    pub fn words(&self) -> String {
        let group = self.group.as_ref();
        let group = group.map(|group| format!("group {} ({} of {})", group.name, group.taken, group.max));
        let key = self.key.as_ref().map(|key| {
            let runs = if key.invocations == 1 { "run" } else { "runs" };
            format!("key {} ({} {runs})", key.value, key.invocations)
        });
        let parts: Vec<_> = group.into_iter().chain(key).collect();
        parts.join("; ")
    }
}

/// A change that was told and is not over.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AlertState {
    /// The word of the change.
    pub alert: AlertCondition,
    /// Since when it lasts.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// Why the function to call was not called: nobody was told. Absent: it was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_delivered: Option<String>,
}

/// A function: its status, and more that a status file does not contain.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct FunctionDetail {
    /// The status.
    #[serde(flatten)]
    pub status: FunctionStatus,
    /// All further fields.
    #[serde(flatten)]
    pub more: FunctionMore,
}

/// The text is read twice, because a flattened field would lose the exact form of the result.
impl<'de> Deserialize<'de> for FunctionDetail {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let parts = || Ok((serde_json::from_str(text.get())?, serde_json::from_str(text.get())?));
        let (status, more) = parts().map_err(|error: serde_json::Error| serde::de::Error::custom(error))?;
        Ok(Self { status, more })
    }
}

/// The fields that only [`FunctionDetail`] has.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FunctionMore {
    /// How it runs: `script`, `handler`, `http` or `service`.
    pub mode: String,
    /// Why this mode was chosen: "no handler found in the code", "`def handler` at line 3".
    pub mode_reason: String,
    /// The code file or directory.
    pub source: String,
    /// Whether it was uploaded through the API, which alone replaces and removes it.
    #[serde(default)]
    pub uploaded: bool,
    /// The manifest with every key, defaults filled in; null while no version of the function was installed.
    #[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
    pub manifest: serde_json::Value,
    /// The JSON Schema that each payload must match (`[input] schema`); absent where the function takes any payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<serde_json::Value>,
    /// Path of the interpreter, as it is started; empty where the file is executed itself.
    pub interpreter: String,
    /// Uid that runs the function; null where no version was ever installed.
    pub uid: Option<u32>,
    /// Newer content that does not serve yet, while an older version serves. The other fields, except `error` and
    /// `diagnostics`, describe the older version.
    #[serde(default)]
    pub newer: Option<NewerVersion>,
    /// What it keeps on the disk; null if it has no quota, or if no quota is enforced.
    #[serde(default)]
    pub storage: Option<StorageUse>,
    /// The tree of packages that was installed for it, by its hash; null if it needs none. Functions with the same packages
    /// share one.
    #[serde(default, with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub tree: Option<Version>,
    /// The packages of the tree, each with its version.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Bytes of the files of the tree; null if it needs none, or if an earlier fnd made it.
    #[serde(default)]
    pub tree_bytes: Option<u64>,
    /// The newest run of `fnd-build` for it, which may go on or have failed; null if there was none since fnd started, nor
    /// for the release that serves.
    #[serde(default, with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub build: Option<InvocationId>,
    /// Errors and warnings of the newest content.
    #[schemars(with = "Vec<Diagnostic>")]
    pub diagnostics: Vec<serde_json::Value>,
}

/// The home and the cache of a function, as they were last measured after a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StorageUse {
    /// Bytes in its home; null before the first measurement.
    pub home_bytes: Option<u64>,
    /// Bytes in its cache; null before the first measurement.
    pub cache_bytes: Option<u64>,
    /// When they were measured, or when that was last tried.
    #[schemars(extend("format" = "date-time"))]
    pub measured_at: Option<String>,
    /// Why the newest measurement has no result, or is a lower bound.
    pub problem: Option<String>,
}

/// Content of a function that is newer than the serving version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewerVersion {
    /// The content's version; null where it was refused.
    #[serde(default, with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// Why the content does not serve; null during its first trial.
    pub error: Option<String>,
    /// How often it could not be loaded or started, since it came or a reload asked for a new trial.
    pub failed_trials: u32,
    /// Start of the next trial; null during a trial, and where none follows.
    #[schemars(extend("format" = "date-time"))]
    pub next_trial_at: Option<String>,
}

/// Functions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FunctionList {
    /// By name: all functions, or those of a page.
    pub functions: Vec<FunctionStatus>,
    /// The name after which the next page begins (`after=`). Absent on the last page, and without `limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A line of `GET /v1/functions?watch=1`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FunctionChange {
    /// The function.
    #[schemars(with = "String")]
    #[serde(with = "text::id")]
    pub function: FunctionName,
    /// The function's status now; null once it is gone.
    pub now: Option<Box<FunctionStatus>>,
}

/// A function that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RemovedFunction {
    /// The function.
    pub function: String,
    /// The files that were deleted.
    pub files: Vec<String>,
    /// The file that has the name now, in another functions directory.
    pub serves: Option<String>,
    /// What is still there of the function, and how it goes: its history and output, its home.
    pub remains: Vec<String>,
}

/// The place where the processes of a function are, for a shell beside them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShellTarget {
    /// Directory of its cgroup in the cgroup2 tree; null where fnd does not limit memory by cgroups.
    pub cgroup: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_wait_for_is_one_line() {
        let group = GroupPlaces {
            name: "db".to_owned(),
            taken: 2,
            max: 2,
        };
        let key = |invocations| HeldBack {
            value: "7".to_owned(),
            invocations,
        };
        let words = |group, key| WaitsFor { group, key }.words();
        assert_eq!(words(Some(group.clone()), None), "group db (2 of 2)");
        assert_eq!(words(None, Some(key(1))), "key 7 (1 run)");
        assert_eq!(words(Some(group), Some(key(3))), "group db (2 of 2); key 7 (3 runs)");
    }
}
