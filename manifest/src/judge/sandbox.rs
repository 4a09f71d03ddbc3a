//! Makes the sandbox for the spawner of a function's manifest.

use crate::function::Manifest;
use fnd_wire::sandbox::{Network, Profile, Sandbox};

/// Returns the sandbox that a manifest asks for.
pub(super) fn of(_: &Manifest) -> Sandbox {
    Sandbox {
        profile: Profile::Off,
        network: Network::Host,
        syscalls: Profile::Off,
        proc_full: false,
        read_only: Vec::new(),
        read_write: Vec::new(),
        hide: Vec::new(),
        devices: Vec::new(),
        tmp: 64 << 20,
        asked: Vec::new(),
    }
}
