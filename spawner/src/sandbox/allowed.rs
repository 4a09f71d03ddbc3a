//! Says which files the rules of Landlock allow a function on a machine without mount namespaces, by the same table from
//! which the mounts are made.

use super::mounts::{DEVICES, MountView, PRIVATE, Use};
use crate::stat_cache::unless_short;
use std::path::{Path, PathBuf};

/// Returns the view as a list of what is allowed. Rules can't hide a part of what they allow: a directory with a hidden
/// place in it is replaced by its entries of this moment. `/etc` is allowed as a whole, since programs replace files in
/// it. Temporary directories and `/proc` are the machine's.
///
/// # Errors
/// If the machine has run out of something.
pub fn of(view: &MountView) -> std::io::Result<Vec<(PathBuf, Use)>> {
    let strict = view.sandbox.profile == fnd_wire::sandbox::Profile::Strict;
    let (shown, mut hidden, later) = view.table()?;
    // `/etc` is allowed as a whole, so no rule can close a place in it.
    hidden.retain(|path| !path.starts_with("/etc/fnd"));
    hidden.extend(strict.then(|| PathBuf::from("/dev")));
    let mut allowed = Vec::new();
    allow(Path::new("/"), Use::Read, &hidden, &mut allowed)?;
    let named = view.sandbox.devices.iter().map(String::as_str);
    let devices = if strict { [&DEVICES[..], &["/dev/pts", "/dev/ptmx"]].concat() } else { vec!["/dev"] };
    allowed.extend(devices.into_iter().chain(named).map(|path| (path.into(), Use::Device)));
    allowed.extend(PRIVATE.map(|(path, _)| path).into_iter().chain(["/proc"]).map(|path| (path.into(), Use::Write)));
    shown.iter().try_for_each(|(path, usage)| allow(path, *usage, &later, &mut allowed))?;
    Ok(allowed)
}

/// Allows a path, but what is hidden in it.
fn allow(path: &Path, usage: Use, hidden: &[PathBuf], allowed: &mut Vec<(PathBuf, Use)>) -> std::io::Result<()> {
    if !hidden.iter().any(|hidden| hidden.starts_with(path)) {
        allowed.push((path.to_owned(), usage));
    } else if hidden.iter().all(|hidden| hidden != path) {
        for entry in unless_short(std::fs::read_dir(path))?.into_iter().flatten() {
            allow(&entry?.path(), usage, hidden, allowed)?;
        }
    }
    Ok(())
}
