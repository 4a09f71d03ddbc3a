//! Rules of Landlock (landlock(7)): attempts of a function can't signal each other or reach abstract sockets of others, and
//! with `connect:` open TCP connections to the named ports only. Without mount namespaces they open only the files that
//! the view allows, by the same table from which the mounts are made.

use super::mounts::{DEVICES, MountView, PRIVATE, Use, find};
use crate::stat_cache::unless_short;
use fnd_wire::sandbox::{Network, Profile, Sandbox};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, NetPort, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, Scope,
};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::error::Error;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The rights to files that are restricted: all that can be tested here. The kernel leaves out those that it does not know.
const FILES: ABI = ABI::V3;

/// Returns the rules of a sandbox; none if it needs none, or if this kernel has none of them. With `files`, only these can be
/// opened.
///
/// # Errors
/// If the kernel can't restrict connections, and the sandbox asks for it; or if the machine has run out of something.
pub fn ruleset(sandbox: &Sandbox, files: Option<&[(PathBuf, Use)]>) -> Result<Option<OwnedFd>, Box<dyn Error>> {
    let scoped = sandbox.profile != Profile::Off;
    let ports = match &sandbox.network {
        Network::Connect(ports) => Some(ports.as_slice()),
        _ => None,
    };
    if !scoped && ports.is_none() {
        return Ok(None);
    }
    let mut rules = Ruleset::default();
    // The manifest asks for the list of ports, so a kernel that can't restrict them is an error. The other rules are
    // a default: an older kernel leaves out those that it does not know.
    if ports.is_some() {
        rules = rules.set_compatibility(CompatLevel::HardRequirement).handle_access(AccessNet::ConnectTcp)?;
    }
    if scoped {
        rules = rules.set_compatibility(CompatLevel::BestEffort).scope(Scope::Signal | Scope::AbstractUnixSocket)?;
    }
    if files.is_some() {
        rules = rules.set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(FILES))?;
    }
    let mut created = rules.create()?;
    let root = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    for (path, usage) in files.unwrap_or_default() {
        // Without a descriptor it is not there, or a link: what the link leads to has a rule of its own.
        let Some(file) = unless_short(find(&root, path))? else { continue };
        let rights = match usage {
            Use::Read => AccessFs::from_read(FILES),
            Use::Write => AccessFs::from_all(FILES),
            Use::Device => AccessFs::from_file(FILES) & !AccessFs::Execute,
        };
        created = created.add_rule(PathBeneath::new(file, rights))?;
    }
    for port in ports.unwrap_or_default() {
        created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    Ok(created.into())
}

/// Returns the view as a list of what is allowed. Rules can't hide a part of what they allow: a directory with a hidden
/// place in it is replaced by its entries of this moment. `/etc` is allowed as a whole, since programs replace files in
/// it. Temporary directories and `/proc` are the machine's.
///
/// # Errors
/// If the machine has run out of something.
pub fn allowed(view: &MountView) -> std::io::Result<Vec<(PathBuf, Use)>> {
    let strict = view.sandbox.profile == Profile::Strict;
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
