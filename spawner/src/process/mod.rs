//! Makes processes, waits for them, and takes their rights away before they become a function.
//!
//! The steps of a child between clone and exec are prepared before the clone. The child shares the launcher's memory there, so
//! nothing may allocate, lock or touch glibc's view of the process. rustix makes the bare system calls; glibc's `setuid` and
//! the like would take locks.
//!
//! Files:
//! - `clone`: makes child processes
//! - `closing`: connections that a helper closes
//! - `identity`: user and groups
//! - `privileges`: capabilities, the last rules, and keyrings
//! - `reap`: the only waiter for children
//! - `rlimits`: limits of one process
//! - `unprivileged`: starts fnd as a child without rights

pub mod clone;
pub mod closing;
pub mod identity;
pub mod privileges;
pub mod reap;
pub mod rlimits;
pub mod unprivileged;
