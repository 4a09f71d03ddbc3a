//! What fnd knows and decides, without touching the machine.
//!
//! No I/O, no clock, no randomness, no logging, no locks, no async: the time and the seeded generator are arguments.
//! `fnd` and `fndctl` link it. `fnd-spawner`, which runs as root, links only [`fnd_wire`], so that no TOML or JSON parser is part
//! of the root program.

pub mod check;
pub mod data;
pub mod diagnostic;
pub mod examined;
pub mod explain;
pub mod instant;
pub mod json;
pub mod judge;
pub mod manifest;
pub mod runtime;
pub mod schema;
pub mod settings;

pub mod api;
pub mod backoff;
pub mod happening;
pub mod outcome;
pub mod problem;
pub mod protocol;
pub mod record;
pub mod supervisor;
pub mod text;
pub mod trace;
