//! From files to installed versions.
//!
//! - `catalog/`: watches and scans the functions directories
//! - `installer.rs`: the queue of installations; `reinstall.rs`: those to try again later
//! - `confirming.rs`: files may not have changed while they were installed
//! - `install.rs`: what follows from the spawner's and the catalog's answers
//! - `registry.rs`: each function's newest content and the version that serves
//! - `rules.rs`: what the supervisor has to know of a manifest
//! - `installed_versions.rs`, `retention_policy.rs`: which versions and how much history and output are kept
//! - `interpreters.rs`: an interpreter that changes makes a new version
//! - `directories.rs`: directories that cannot be read

pub mod catalog;
pub(crate) mod confirming;
pub(crate) mod directories;
pub(crate) mod install;
mod installed_versions;
pub mod installer;
pub(crate) mod interpreters;
pub mod registry;
mod reinstall;
pub(crate) mod retention_policy;
pub mod rules;
