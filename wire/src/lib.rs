//! Defines the messages between `fnd` and `fnd-spawner`, which runs as root, and the rules that both of them follow.
//!
//! The root program links no other crate of this project. Therefore this crate has no TOML, no JSON and no serde, and
//! reads no file and no clock. [`form`] encodes values as bytes, [`frame`] lists the messages, [`plan`] holds the
//! judge's answer about a function, [`mask`] the fingerprints of secrets, [`decrypt`] what the child that decrypts them is told,
//! [`kubernetes`] what the child that finds them in YAML is told, [`unpack`] what the child that unpacks archives says; [`accounts`], [`archive`], [`ids`], [`naming`], [`trust`] and [`units`] are
//! the rules for names, files and quantities.
//!
//! Files:
//! - `accounts`: names of functions' users on the machine
//! - `archive`: rules for archives that are functions
//! - `decrypt`: the messages between the spawner's helper and the child that decrypts secrets
//! - `form`: encodes flat structures as bytes
//! - `frame`: the messages between fnd and the spawner
//! - `ids`: types for names and numbers that identify things
//! - `kubernetes`: the messages between the spawner's helper and the child that finds secrets in YAML
//! - `mask`: fingerprints of secret values
//! - `naming`: which function a path names
//! - `plan`: the messages between the spawner and the judge
//! - `sandbox`: the sandbox of a function
//! - `trust`: which files and users are trusted
//! - `unpack`: the messages of the child that unpacks archives
//! - `units`: durations, sizes, shares and rates as people write them

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod accounts;
pub mod archive;
pub mod decrypt;
pub mod form;
pub mod frame;
pub mod ids;
pub mod kubernetes;
pub mod mask;
pub mod naming;
pub mod plan;
pub mod sandbox;
pub mod trust;
pub mod units;
pub mod unpack;
