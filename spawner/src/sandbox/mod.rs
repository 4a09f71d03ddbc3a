//! Builds the sandbox of a function: its files, its network, and the system calls that it may make.
//!
//! Everything here runs once, in the launcher. Each attempt adds only the [`Seal`](crate::process::clone::Seal).
//!
//! Files:
//! - `accounts`: the `/etc/passwd` and `/etc/group` of a function
//! - `landlock`: rules for signals, abstract sockets, TCP ports and files
//! - `layers`: builds the sandbox around a launcher, and finds out what the machine can give
//! - `mounts`: the view of the files
//! - `namespaces`: users in a user namespace, and the loopback interface
//! - `seccomp`: filters of system calls
//! - `secret_files`: the files with a function's secrets

pub mod accounts;
pub mod landlock;
pub mod layers;
pub mod mounts;
pub mod namespaces;
pub mod seccomp;
pub mod secret_files;
