//! Removes a child's rights before it becomes a function.
//!
//! Everything here is prepared before the clone and applied between clone and exec. The child shares the launcher's
//! memory there, so nothing may allocate, lock or touch glibc's view of the process. rustix makes the bare system
//! calls; glibc's `setuid` and the like would take locks. `layers` and what it uses run earlier, once in the launcher.
//!
//! Files:
//! - `accounts`: the `/etc/passwd` and `/etc/group` of a function
//! - `allowed`: the files that rules allow where there are no mounts
//! - `identity`: user and groups
//! - `keyring`: a session keyring of its own
//! - `landlock`: rules for signals, abstract sockets, TCP ports and files
//! - `layers`: builds the sandbox around a launcher, and finds out what the machine can give
//! - `mounts`: the view of the files
//! - `network`: the loopback interface
//! - `privileges`: capabilities
//! - `rlimits`: limits of one process
//! - `seccomp`: filters of system calls
//! - `user_namespace`: the rights to build a sandbox, for a spawner that is not root

pub mod accounts;
pub mod allowed;
pub mod identity;
pub mod keyring;
pub mod landlock;
pub mod layers;
pub mod mounts;
pub mod network;
pub mod privileges;
pub mod rlimits;
pub mod seccomp;
pub mod user_namespace;
