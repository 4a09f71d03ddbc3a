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
//! - `build_homes`: what lies in the homes of builds
//! - `cgroup`: groups and their limits
//! - `claim`: which function a file belongs to
//! - `clock`: the only reader of the clock
//! - `clone`: makes child processes
//! - `closing`: connections that a helper closes
//! - `contain`: an init for each attempt where there is no cgroup
//! - `credentials`: secrets and service bindings of functions
//! - `decrypter`: has secrets beside functions decrypted, or found in YAML
//! - `environment`: command line and environment of a process
//! - `stat_cache`: what is known of directories and interpreters for a moment
//! - `foreign`: files of other systems, for the child that makes functions of them
//! - `grants`: users and groups that a function may have
//! - `homes`: the homes that a function does not use any more
//! - `install`: reads, judges and copies a function
//! - `judge`: talks to `fnd --judge`
//! - `launcher`: a process in a function's cgroup that starts its workers
//! - `listener`: the socket, and who may connect
//! - `log`: messages to standard error
//! - `names`: names of functions' users on the machine
//! - `fd_policy`: which descriptors of fnd are accepted
//! - `places`: directories and their owners
//! - `policy`: what a plan may be granted
//! - `poller`: events of the loop
//! - `protocol`: frames and descriptors over sockets
//! - `ranges`: two spawners never give the same users
//! - `reap`: the only waiter for children
//! - `removal`: empties directories that functions owned
//! - `sandbox`: takes rights away from a child
//! - `secrets`: opens the secrets that fnd needs to check requests
//! - `settings`: configuration for the judge
//! - `sockets`: directories of programs that serve HTTP
//! - `source`: reads files that people wrote, without trust
//! - `spawner`: the loop
//! - `trees`: dependencies that functions share
//! - `uids`: the table of functions and users
//! - `unpacker`: has archives unpacked
//! - `vault`: opens the files of secrets
//! - `workers`: launchers and workers, from start to end

pub mod args;
pub mod build_homes;
pub mod cgroup;
pub mod claim;
pub mod clock;
pub mod clone;
pub mod closing;
pub mod contain;
pub mod credentials;
pub mod decrypter;
pub mod environment;
pub mod fd_policy;
pub mod foreign;
pub mod grants;
pub mod homes;
pub mod install;
pub mod judge;
pub mod launcher;
pub mod listener;
pub mod log;
pub mod names;
pub mod places;
pub mod policy;
pub mod poller;
pub mod protocol;
pub mod ranges;
pub mod reap;
pub mod removal;
pub mod sandbox;
pub mod secrets;
pub mod settings;
pub mod sockets;
pub mod source;
pub mod spawner;
pub mod stat_cache;
pub mod trees;
pub mod uids;
pub mod unpacker;
pub mod vault;
pub mod workers;
