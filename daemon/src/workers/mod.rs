//! Workers: processes that the spawner runs for fnd.
//!
//! - `link.rs`: requests to the spawner and its answers; `silence.rs`: whether it answers
//! - `environment.rs`: what a worker is given at its start
//! - `handler/`: workers that speak the worker protocol; `http/`: workers that serve HTTP
//! - `adoption.rs`: workers of an earlier fnd go on
//! - `usage.rs`: the memory that workers use

pub(crate) mod adoption;
pub mod environment;
pub mod handler;
pub mod http;
pub mod link;
pub(crate) mod silence;
pub mod usage;

use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the runtime.
pub(crate) fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    #[expect(unsafe_code, reason = "the promise that the descriptor stays the same")]
    // SAFETY: an OwnedFd gives the same open descriptor for as long as it lives, and AsyncFd owns it.
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    watched.map_err(|error| error.into_parts().1)
}
