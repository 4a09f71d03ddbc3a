//! What `fnd` and `fnd-spawner`, which runs as root, say to each other, and the rules that both hold to.
//!
//! The only crate of this project that the root program links. It therefore has no TOML, no JSON and no serde; it reads
//! no file and no clock. [`form`] says how values become bytes, [`frame`] which messages there are, [`plan`] what the judge
//! says of a function; [`ids`], [`naming`], [`trust`] and [`units`] are the rules for names, files and quantities.
#![forbid(unsafe_code)]

pub mod form;
pub mod frame;
pub mod ids;
pub mod naming;
pub mod plan;
pub mod trust;
pub mod units;
