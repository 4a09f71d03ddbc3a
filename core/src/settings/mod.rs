//! The daemon's configuration: every key of `config/fnd.toml`, resolved.
//!
//! Keys whose feature is not built yet are checked and refused, and so have no field here. `[defaults]` is not here
//! either: it is part of every function's manifest by the time anybody sees one.

pub mod keys;
pub mod resolve;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// `fnd.toml` with everything of `conf.d` merged over it. Durations and sizes are serialized as the file writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Where functions are looked for, absolute; absent: the place the installation has for them.
    pub functions_dirs: Option<Vec<String>>,
    /// Versions of a function kept for a roll-back, the running one among them; at least 1.
    pub keep_versions: u32,
    /// Go on where a limit that a manifest itself asks for cannot be enforced.
    pub best_effort_limits: bool,
    /// `[defaults] runtime`: with it, a file without suffix and `#!` is a function.
    pub default_runtime: Option<String>,
    /// `[sizes]`: per name what it sets in `[limits]`, key to value as written (`memory` to `"256M"`).
    pub sizes: BTreeMap<String, BTreeMap<String, String>>,
    /// `[node]`.
    pub node: Node,
    /// `[users]`.
    pub users: Users,
    /// `[[access]]`: which groups may do what on the control socket; root may do all.
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
    /// Bytes of the machine's memory functions do not get; without meaning where `memory` is set.
    #[serde(with = "crate::text::size")]
    pub reserve_memory: u64,
    /// Processes of all functions at once.
    pub max_workers: u32,
    /// Bytes of memory for bodies and answers of all callers together.
    #[serde(with = "crate::text::size")]
    pub buffers: u64,
    /// Bytes of memory of all functions; absent: the machine's but the reserve.
    #[serde(with = "crate::text::size_or_none")]
    pub memory: Option<u64>,
    /// Thousandths of a core for all functions; absent: all of the machine.
    pub cpu_milli: Option<u32>,
}

/// `[users]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Users {
    /// First and last uid of own users.
    pub range: (u32, u32),
    /// Existing users and groups a manifest may name.
    pub allow: Vec<String>,
    /// Whether a manifest may name root.
    pub allow_root: bool,
}

/// An entry of `[[access]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Group by name.
    pub group: String,
    /// What its members may do.
    pub role: Role,
}

/// What a peer on the control socket may do; each includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read.
    Viewer,
    /// Invoke, cancel, enable, disable.
    Operator,
    /// Everything.
    Admin,
}

/// `[metrics]`: where metrics are to be had beside the control socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// Address and port of a plain HTTP listener that serves `/metrics` and nothing else.
    pub listen: Option<SocketAddr>,
    /// A file that is written again and again, for the node exporter.
    pub textfile: Option<String>,
}

/// How long something is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// By age.
    #[serde(with = "crate::text::duration")]
    pub keep_for: Duration,
    /// By bytes of all of it.
    #[serde(with = "crate::text::size")]
    pub keep_bytes: u64,
}

/// `[history]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// How long records are kept.
    #[serde(flatten)]
    pub keep: Keep,
    /// What becomes of a damaged ledger.
    pub on_damage: OnDamage,
}

/// What becomes of a damaged ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnDamage {
    /// All that can be read goes into a new one.
    SetAside,
    /// fnd does not start.
    Refuse,
}

/// `[logs]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Logs {
    /// How long output is kept.
    #[serde(flatten)]
    pub keep: Keep,
    /// Whether output goes to the journal too.
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
    /// Interpreters by version, absolute; before the runtime's own.
    pub interpreters: BTreeMap<String, String>,
    /// Whether functions may use it.
    pub enabled: bool,
}
