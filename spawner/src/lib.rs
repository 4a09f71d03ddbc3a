//! Installs, starts, limits and kills the functions that fnd names; the only part of fnd that runs as root.
//!
//! This program does not parse TOML, JSON or HTTP: the judge, a child without privileges, reads the files that people
//! wrote. It has no threads and no async runtime, and its loop never waits for anything but the next event.
//!
//! ```text
//! fnd ──frames──▶ spawner ──▶ installer ──▶ judge
//!                    └──────▶ workers ──orders──▶ launcher (one for each version) ──clone3──▶ worker
//! ```
//!
//! Files:
//! - `args`: the command line
//! - `cgroup`: groups and their limits
//! - `clock`: the only reader of the clock
//! - `fd_policy`: which descriptors of fnd are accepted
//! - `grants`: users and groups that a function may have
//! - `install`: reads, judges and copies a function
//! - `listener`: the socket, and who may connect
//! - `log`: messages to standard error
//! - `places`: directories and their owners
//! - `policy`: what a plan may be granted
//! - `poller`: events of the loop
//! - `process`: makes and waits for processes, and takes their rights away
//! - `protocol`: frames and descriptors over sockets
//! - `ranges`: two spawners never give the same users
//! - `removal`: empties directories that functions owned
//! - `sandbox`: the files, network and system calls of a function
//! - `secrets`: opens secrets, for fnd and for functions
//! - `spawner`: the loop
//! - `stat_cache`: what is known of directories and interpreters for a moment
//! - `uids`: the table of functions and users
//! - `workers`: launchers and workers, from start to end

pub mod args;
pub mod cgroup;
pub mod clock;
pub mod fd_policy;
pub mod grants;
pub mod install;
pub mod listener;
pub mod log;
pub mod places;
pub mod policy;
pub mod poller;
pub mod process;
pub mod protocol;
pub mod ranges;
pub mod removal;
pub mod sandbox;
pub mod secrets;
pub mod spawner;
pub mod stat_cache;
pub mod uids;
pub mod workers;
