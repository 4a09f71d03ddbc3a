//! What fnd knows and decides, without touching the machine.
//!
//! No I/O, no clock, no randomness, no logging, no locks, no async: the time and the seeded generator are arguments.
//! Built with the feature `full` for `fnd` and `fndctl`; `fnd-spawner`, which runs as root, takes only [`ids`],
//! [`wire`], [`plan`] and [`frame`], so that no TOML or JSON parser is part of the root program.

pub mod frame;
pub mod ids;
pub mod plan;
pub mod wire;

#[cfg(feature = "full")]
pub mod api;
#[cfg(feature = "full")]
pub mod backoff;
#[cfg(feature = "full")]
pub mod outcome;
#[cfg(feature = "full")]
pub mod record;
#[cfg(feature = "full")]
pub mod supervisor;
