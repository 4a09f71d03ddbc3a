//! Builds the sandbox of a function: its files, its network, and the system calls that it may make.
//!
//! Everything here runs once, in the launcher. Each attempt adds only the [`Seal`](crate::process::clone::Seal).
//!
//! Files:
//! - `accounts`: the `/etc/passwd` and `/etc/group` of a function
//! - `allowed`: the files that rules allow where there are no mounts
//! - `landlock`: rules for signals, abstract sockets, TCP ports and files
//! - `layers`: builds the sandbox around a launcher, and finds out what the machine can give
//! - `mounts`: the view of the files
//! - `network`: the loopback interface
//! - `seccomp`: filters of system calls
//! - `secret_files`: the files with a function's secrets
//! - `user_namespace`: the rights to build a sandbox, for a spawner that is not root

pub mod accounts;
pub mod allowed;
pub mod landlock;
pub mod layers;
pub mod mounts;
pub mod network;
pub mod seccomp;
pub mod secret_files;
pub mod user_namespace;
