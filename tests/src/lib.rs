//! The harness of the end-to-end tests: real `fnd`, `fnd-spawner` and `fndctl` in a private root.
//!
//! An [`Fnd`] has directories, a socket, a cgroup and users of its own, so any number can run at the same time. When it
//! is stopped, it checks the first promise: no process and no cgroup of it remains. Every wait is for a condition and
//! has a deadline. A test that needs more than the machine has is skipped with the reason (`require!`).
//!
//! A failed expectation panics with the actual value.

pub mod ask;
pub mod client;
pub mod ctl;
pub mod fnd;
pub mod http_stub;
pub mod leftovers;
pub mod mount;
pub mod programs;
pub mod require;
pub mod tamper;
pub mod users;
pub mod wait;

pub use client::{Answer, Client};
pub use ctl::Run;
pub use fnd::{Fnd, Setup};
pub use wait::{now, wait_until};
