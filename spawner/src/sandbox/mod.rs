//! Removes a child's rights before it becomes a function.
//!
//! Everything here is prepared before the clone and applied between clone and exec. The child shares the launcher's
//! memory there, so nothing may allocate, lock or touch glibc's view of the process. rustix makes the bare system
//! calls; glibc's `setuid` and the like would take locks. Mounts, passwd, network, seccomp and landlock get their files
//! here when they are built.
//!
//! Files:
//! - `identity`: user and groups
//! - `keyring`: a session keyring of its own
//! - `privileges`: capabilities
//! - `rlimits`: limits of one process

pub mod identity;
pub mod keyring;
pub mod privileges;
pub mod rlimits;
