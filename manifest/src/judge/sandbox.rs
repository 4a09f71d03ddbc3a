//! Makes the sandbox for the spawner of a function's manifest.

use crate::function::Manifest;
use crate::function::sandbox::ShownDirectories;
use fnd_wire::sandbox::Sandbox;

/// Returns the sandbox of a manifest, which is settled; `trusted` says whether root owns the function's files.
pub(super) fn of(manifest: &Manifest, trusted: bool) -> Sandbox {
    let sandbox = &manifest.sandbox;
    let ShownDirectories { read_only, read_write } = sandbox.shown(&manifest.file, trusted);
    Sandbox {
        profile: sandbox.profile.into(),
        network: (&sandbox.network).into(),
        syscalls: sandbox.calls().into(),
        proc_full: sandbox.proc.is_some(),
        read_only,
        read_write,
        hide: sandbox.hide.clone(),
        devices: sandbox.devices.clone(),
        tmp: manifest.limits.tmp,
        asked: sandbox.asked.clone(),
    }
}
