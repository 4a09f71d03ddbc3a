//! Bodies about the node: its status, what it knows, and requests that change it.

use super::FunctionStatus;
use crate::access::Permissions;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::runtime::RuntimeSummary;
use fnd_manifest::text;
use fnd_manifest::words;
use fnd_wire::ids::FunctionName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

words! {
    /// State of fnd.
    pub enum NodeState {
        /// It accepts and runs work.
        Running = "running",
        /// It finishes the running work and accepts nothing new.
        Draining = "draining",
        /// It has lost its spawner: nothing can be started.
        NoSpawner = "no-spawner",
    }
}

/// The layers of the sandbox, as [`NodeStatus::not_enforced`] names them.
pub const LAYERS: [&str; 5] = ["mounts", "pid", "network", "seccomp", "landlock"];

/// The node with its functions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NodeStatus {
    /// fnd's version.
    pub version: String,
    /// The spawner's version.
    pub spawner_version: String,
    /// State of fnd.
    pub state: NodeState,
    /// When fnd started.
    #[schemars(extend("format" = "date-time"))]
    pub started_at: String,
    /// Host name.
    pub node: String,
    /// cgroup layout: `v2`, `hybrid`, `none`.
    pub cgroups: String,
    /// How process trees are contained.
    pub containment: String,
    /// Limits that cannot be enforced on this machine, and layers of the sandbox ([`LAYERS`]) that it cannot give, with
    /// the reason.
    pub not_enforced: BTreeMap<String, String>,
    /// Deleted functions that left a home or a cache, by the name of that directory; at most 100.
    #[serde(default)]
    pub left_behind: Vec<String>,
    /// Paths in the functions directories that no rule makes a function; at most 100 of each directory.
    #[serde(default)]
    pub unclaimed: Vec<String>,
    /// Number of all such paths.
    #[serde(default)]
    pub unclaimed_count: u64,
    /// Resident memory of fnd and its spawner together.
    pub memory_bytes: u64,
    /// Number of running attempts.
    pub running: u32,
    /// Number of waiting invocations.
    pub queued: u32,
    /// Number of functions in each state.
    pub functions_by_state: BTreeMap<String, u32>,
    /// Problems of files that belong to no function, and of the configuration.
    pub problems: Vec<String>,
    /// Functions.
    pub functions: Vec<FunctionStatus>,
    /// Number of dead letters of all functions.
    #[serde(default)]
    pub dead_letters: u64,
    /// Disk use of the state.
    #[serde(default)]
    pub disk: Option<DiskUse>,
    /// Paths of fnd.
    #[serde(default)]
    pub places: Option<NodePlaces>,
}

impl NodeStatus {
    /// Returns the status for a caller: without a role for the node, it has only the functions that the caller may view and
    /// numbers of these.
    #[must_use]
    pub fn reduced(mut self, reach: &Permissions) -> Self {
        if reach.node().is_some() {
            return self;
        }
        self.functions.retain(|status| reach.views(&status.function));
        let sum = |number: fn(&FunctionStatus) -> u32| self.functions.iter().map(number).fold(0, u32::saturating_add);
        let mut by_state = BTreeMap::new();
        for function in &self.functions {
            *by_state.entry(function.state.as_str().to_owned()).or_insert(0) += 1;
        }
        Self {
            running: sum(|function| function.running),
            queued: sum(|function| function.queued),
            dead_letters: self.functions.iter().map(|function| function.dead_letters).sum(),
            functions_by_state: by_state,
            not_enforced: BTreeMap::new(),
            left_behind: Vec::new(),
            unclaimed: Vec::new(),
            unclaimed_count: 0,
            memory_bytes: 0,
            problems: Vec::new(),
            disk: None,
            places: None,
            ..self
        }
    }
}

/// Disk use of an fnd's state, and the free space.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskUse {
    /// Bytes of records, payloads and results.
    pub history_bytes: u64,
    /// `[history] keep_bytes`.
    pub history_keep_bytes: u64,
    /// Bytes of kept output, as of the last scan.
    pub logs_bytes: u64,
    /// `[logs] keep_bytes`.
    pub logs_keep_bytes: u64,
    /// Bytes of installed packages and compiled programs.
    #[serde(default)]
    pub packages_bytes: u64,
    /// Bytes free on the disk of the state directory; null if the disk does not say it.
    pub free_bytes: Option<u64>,
    /// Inodes free there; null, too, on file systems without a fixed number of them.
    pub free_inodes: Option<u64>,
}

/// Paths that an fnd uses; all are absolute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodePlaces {
    /// `fnd.toml`; the file may be missing.
    pub config: String,
    /// Functions directories; the first has priority.
    pub functions: Vec<String>,
    /// Directories of runtimes; a later one has priority.
    pub runtimes: Vec<String>,
    /// State directory.
    pub state: String,
}

/// The languages that fnd supports.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeList {
    /// All runtimes, by id.
    pub runtimes: Vec<RuntimeSummary>,
}

/// The presets of limits.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SizeList {
    /// All sizes, smallest first.
    pub sizes: Vec<SizeView>,
}

/// A size: a preset of `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SizeView {
    /// The size's name, `M`.
    pub name: String,
    /// The values that the size sets in `[limits]`, key to value as written: `memory` to `512M`.
    pub limits: BTreeMap<String, String>,
}

/// Differences that a reload applied, and problems that it found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadReport {
    /// Functions whose serving version changed, by name.
    #[serde(with = "text::ids")]
    #[schemars(with = "Vec<String>")]
    pub applied: Vec<FunctionName>,
    /// Functions that are gone, by name.
    #[serde(with = "text::ids")]
    #[schemars(with = "Vec<String>")]
    pub removed: Vec<FunctionName>,
    /// Whether the configuration was refused: the last good one stays in force.
    #[serde(default)]
    pub configuration_refused: bool,
    /// Problems of the configuration, of the functions directories, and of the functions whose files changed.
    pub diagnostics: Vec<Diagnostic>,
    /// Functions that were invalid before and whose files did not change, by name.
    #[serde(default, with = "text::ids")]
    #[schemars(with = "Vec<String>")]
    pub still_invalid: Vec<FunctionName>,
    /// Functions whose new version was still being tried when the time of the answer was over, by name.
    #[serde(default, with = "text::ids")]
    #[schemars(with = "Vec<String>")]
    pub trying: Vec<FunctionName>,
}

/// One file, as it would be in the functions directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValidateRequest {
    /// Name of the file: `hello.py`, `hello.toml`.
    pub name: String,
    /// Content of the file.
    pub content: String,
}

/// Result of a validation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ValidateReport {
    /// Whether the file would serve.
    pub valid: bool,
    /// Problems in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

/// Answer to requests that only change something: cancel, enable, disable, stop, start, restart, drain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// The state after the request: `cancelling`, `enabled`, `disabled`, `stopped`, `started`, `restarting`, `draining`, `drained`,
    /// `running`, `dropped`.
    pub state: String,
}

/// Level of fnd's own messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogLevel {
    /// `info`, `debug`, or `target=level` with commas between.
    pub level: String,
    /// When the level from the start returns by itself; null if it does not.
    #[schemars(extend("format" = "date-time"))]
    pub until: Option<String>,
}
