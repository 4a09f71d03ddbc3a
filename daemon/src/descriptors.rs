//! Descriptors of the kernel that tasks wait for.

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
