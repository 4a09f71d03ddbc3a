//! Installs, starts, limits and kills the functions that fnd names; the only part of fnd that runs as root.
//!
//! This program does not parse TOML, JSON or HTTP: the judge, a child without privileges, reads the files that people
//! wrote. It has no threads and no async runtime, and its loop never waits for anything but the next event.
//!
//! ```text
//! fnd ──frames──▶ spawner ──▶ installer ──▶ judge
//!                    └──────▶ workers ──orders──▶ launcher (one for each version) ──clone3──▶ worker
//! ```

pub mod args;
pub mod cgroup;
pub mod claim;
pub mod clock;
pub mod clone;
pub mod contain;
pub mod environment;
pub mod grants;
pub mod install;
pub mod judge;
pub mod launcher;
pub mod listener;
pub mod log;
pub mod passed;
pub mod places;
pub mod policy;
pub mod poller;
pub mod protocol;
pub mod ranges;
pub mod reap;
pub mod removal;
pub mod sandbox;
pub mod settings;
pub mod sockets;
pub mod source;
pub mod spawner;
pub mod uids;
pub mod workers;
