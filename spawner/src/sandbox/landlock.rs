//! Rules of Landlock (landlock(7)): attempts of a function can't signal each other or reach abstract sockets of others, and
//! with `connect:` open TCP connections to the named ports only. Without mount namespaces they open only the files that
//! the view allows.

use super::mounts::{Use, find};
use crate::stat_cache::unless_short;
use fnd_wire::sandbox::{Network, Profile, Sandbox};
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, NetPort, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, Scope,
};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::error::Error;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

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
