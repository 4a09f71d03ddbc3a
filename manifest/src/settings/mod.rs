//! The daemon's configuration: every key of `config/fnd.toml`, resolved.
//!
//! Keys whose feature is not built yet are checked and refused, so they have no field here. `[defaults]` has none
//! either: it is merged into every function's manifest.
//!
//! Files:
//! - `keys`: every key of fnd.toml
//! - `resolve`: merges fnd.toml and `conf.d`, and checks keys against each other

pub mod keys;
pub mod resolve;

pub use keys::{
    AccessSettings, AuditSettings, AuditedRuns, EventSettings, GroupSettings, HistorySettings, HttpEvents,
    HttpSettings, LogSettings, MetricsSettings, Missing, NatsSettings, NodeAlert, NodeSettings, OnDamage, Role,
    RuntimeSettings, SandboxSettings, SecretSettings, Settings, Status, TlsSettings, UserSettings,
};
