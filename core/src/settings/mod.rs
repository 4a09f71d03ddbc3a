//! The daemon's configuration: every key of `config/fnd.toml`, resolved.
//!
//! Keys whose feature is not built yet are checked and refused, so they have no field here. `[defaults]` has none
//! either: it is merged into every function's manifest.

pub mod keys;
pub mod resolve;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// `fnd.toml` with everything of `conf.d` merged over it. Durations and sizes are serialized as the file writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Functions directories, absolute paths; absent: the directory of the installation.
    pub functions_dirs: Option<Vec<String>>,
    /// Number of versions of a function that are kept for a roll-back, including the running one; at least 1.
    pub keep_versions: u32,
    /// Whether a function runs although a limit of its manifest cannot be enforced.
    pub best_effort_limits: bool,
    /// `[defaults] runtime`: if set, a file without a suffix and without `#!` is a function.
    pub default_runtime: Option<String>,
    /// `[sizes]`: for each size the values that it sets in `[limits]`, key to value as written (`memory` to `"256M"`).
    pub sizes: BTreeMap<String, BTreeMap<String, String>>,
    /// `[node]`.
    pub node: Node,
    /// `[users]`.
    pub users: Users,
    /// `[[access]]`: what members of each group may do on the control socket; root may do everything.
    pub access: Vec<Access>,
    /// `[metrics]`.
    pub metrics: Metrics,
    /// `[history]`.
    pub history: History,
    /// `[logs]`.
    pub logs: Logs,
    /// `[status]`.
    pub status: Status,
    /// `[runtimes]` by id.
    pub runtimes: BTreeMap<String, RuntimeSettings>,
}

/// `[node]`: the budget of all functions together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Memory of the machine that functions do not get, in bytes; unused where `memory` is set.
    #[serde(with = "crate::text::size")]
    pub reserve_memory: u64,
    /// Most processes of all functions at once.
    pub max_workers: u32,
    /// Memory for request bodies and answers of all callers together, in bytes.
    #[serde(with = "crate::text::size")]
    pub buffers: u64,
    /// Memory for all functions, in bytes; absent: the machine's memory minus the reserve.
    #[serde(with = "crate::text::size_or_none")]
    pub memory: Option<u64>,
    /// CPU for all functions, in thousandths of a core; absent: all of the machine.
    pub cpu_milli: Option<u32>,
}

/// `[users]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Users {
    /// First and last uid of the functions' own users.
    pub range: (u32, u32),
    /// Existing users and groups that a manifest may name.
    pub allow: Vec<String>,
    /// Whether a manifest may name root.
    pub allow_root: bool,
}

/// An entry of `[[access]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Name of the group.
    pub group: String,
    /// What members of the group may do.
    pub role: Role,
}

/// What a peer on the control socket may do; each role includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// May read.
    Viewer,
    /// May invoke, cancel, enable and disable.
    Operator,
    /// May do everything.
    Admin,
}

/// `[metrics]`: where metrics are available besides the control socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// Address and port of a plain HTTP listener that serves only `/metrics`.
    pub listen: Option<SocketAddr>,
    /// A file that is rewritten at intervals, for the node exporter.
    pub textfile: Option<String>,
}

/// Limits of what is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// Age up to which it is kept.
    #[serde(with = "crate::text::duration")]
    pub keep_for: Duration,
    /// Most bytes of all of it.
    #[serde(with = "crate::text::size")]
    pub keep_bytes: u64,
}

/// `[history]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Limits of the kept records.
    #[serde(flatten)]
    pub keep: Keep,
    /// What happens to a damaged ledger.
    pub on_damage: OnDamage,
}

/// What happens to a damaged ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDamage {
    /// Everything that can be read is copied into a new ledger.
    SetAside,
    /// fnd does not start.
    Refuse,
}

/// `[logs]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logs {
    /// Limits of the kept output.
    #[serde(flatten)]
    pub keep: Keep,
    /// Whether output goes to the journal as well.
    pub journal: bool,
}

/// `[status]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Permission bits of status files; serialized as octal text, `"0640"`.
    #[serde(with = "crate::text::mode")]
    pub mode: u32,
}

/// `[runtimes] ID`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeSettings {
    /// Interpreters by version, absolute paths; they come before the runtime's own.
    pub interpreters: BTreeMap<String, String>,
    /// Whether functions may use it.
    pub enabled: bool,
}
