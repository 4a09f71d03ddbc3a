//! The knowledge and the decisions of fnd, without access to the machine.
//!
//! No I/O, no clock, no randomness, no logging, no locks, no async: the time and the seeded generator are arguments.
//! `fnd` and `fndctl` link this crate. `fnd-spawner`, which runs as root, links only [`fnd_wire`], so that the root
//! program contains no TOML or JSON parser.

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
pub mod outcome;
pub mod protocol;
pub mod record;
pub mod report;
pub mod supervisor;
pub mod text;
pub mod trace;
mod words;

pub use api::{problem, stream as happening};
