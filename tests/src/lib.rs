//! The harness of the end-to-end tests: real `fnd`, `fnd-spawner` and `fndctl` in a private root.
//!
//! An [`Fnd`] has directories, a socket, a cgroup and users of its own, so any number can run at the same time. When it
//! is stopped, it checks the first promise: no process and no cgroup of it remains. Every wait is for a condition and
//! has a deadline. A test that needs more than the machine has is skipped with the reason (`require!`).
//!
//! A failed expectation panics, with what was seen: that is what a harness is for.
//!
//! Files:
//! - `ask`: requests to an fnd, in the API's types
//! - `client`: requests over HTTP
//! - `ctl`: runs fndctl
//! - `documents`: the pages of the documents
//! - `fnd`: one fnd in a private root
//! - `http_stub`: a server that functions call
//! - `install`: installs functions with a manifest and waits until they serve
//! - `leftovers`: what a stopped fnd must not leave
//! - `mount`: a small file system
//! - `nats`: a server of NATS
//! - `programs`: where programs and interpreters are
//! - `require`: what a test needs of the machine
//! - `tamper`: changes system calls of an fnd, by strace
//! - `users`: users that no other fnd has
//! - `wait`: waits for conditions

pub mod ask;
pub mod client;
pub mod ctl;
pub mod documents;
pub mod fnd;
pub mod http_stub;
pub mod install;
pub mod leftovers;
pub mod mount;
pub mod nats;
pub mod programs;
pub mod require;
pub mod tamper;
pub mod users;
pub mod wait;

pub use client::{Answer, Client};
pub use ctl::Run;
pub use fnd::{Fnd, Setup};
pub use wait::{now, wait_until};
