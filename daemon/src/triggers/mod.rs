//! The machine's side of triggers. Each trigger brings facts, `fnd_core::triggers` decides, and a submission follows.
//! The folder `public` answers the requests to the public listener.
//!
//! Files:
//! - `files`: the watchers of files
//! - `http`: the state of the public listener: addresses, keys, limits
//! - `nats`: the connection to servers of NATS
//! - `passwords`: computes the hashes of callers' passwords
//! - `schedule`: the timer of schedules, and their submissions
//! - `secrets`: the secrets that requests are checked with

pub(crate) mod files;
pub(crate) mod http;
pub(crate) mod nats;
pub mod passwords;
pub(crate) mod schedule;
pub(crate) mod secrets;
