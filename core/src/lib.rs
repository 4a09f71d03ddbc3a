//! What fnd knows and decides, without touching the machine.
//!
//! No I/O, no clock, no randomness, no logging, no locks, no async: the time and the seeded generator are arguments.
//! Built with the feature `full` for `fnd` and `fndctl`; `fnd-spawner`, which runs as root, takes only [`ids`],
//! [`naming`], [`wire`], [`plan`], [`frame`] and [`trust`], so that no TOML or JSON parser is part of the root program.

#[cfg(feature = "full")]
pub mod check;
#[cfg(feature = "full")]
pub mod data;
#[cfg(feature = "full")]
pub mod diagnostic;
#[cfg(feature = "full")]
pub mod examined;
#[cfg(feature = "full")]
pub mod explain;
pub mod frame;
pub mod ids;
#[cfg(feature = "full")]
pub mod instant;
#[cfg(feature = "full")]
pub mod json;
#[cfg(feature = "full")]
pub mod judge;
#[cfg(feature = "full")]
pub mod manifest;
pub mod naming;
pub mod plan;
#[cfg(feature = "full")]
pub mod runtime;
#[cfg(feature = "full")]
pub mod schema;
#[cfg(feature = "full")]
pub mod settings;
pub mod trust;
pub mod units;
pub mod wire;

#[cfg(feature = "full")]
pub mod api;
#[cfg(feature = "full")]
pub mod backoff;
#[cfg(feature = "full")]
pub mod happening;
#[cfg(feature = "full")]
pub mod outcome;
#[cfg(feature = "full")]
pub mod problem;
#[cfg(feature = "full")]
pub mod protocol;
#[cfg(feature = "full")]
pub mod record;
#[cfg(feature = "full")]
pub mod supervisor;
#[cfg(feature = "full")]
pub mod trace;
