//! Builds the sandbox of a function around its launcher, and finds out which layers of it this machine can give.
//!
//! ```text
//! user namespace, unless root → network namespace → mount namespace, view of the files → pid namespace, its init, its /proc → new root → filters
//! ```
//! Everything that the launcher starts is born in it. [`Seal`] holds the rest, which each attempt adds.

use super::mounts::{Building, MountView, Use};
use super::{landlock, mounts, namespaces, seccomp};
use crate::log::Failed as _;
use crate::process::clone::{self, Seal};
use crate::protocol::{Channel, hear};
use crate::stat_cache::open_real;
use fnd_wire::form::Wire as _;
use fnd_wire::frame::Containment;
use fnd_wire::sandbox::{Network, Profile, Sandbox};
use nix::sys::signal::{SigSet, Signal};
use rustix::fs::OFlags;
use rustix::process::{DumpableBehavior, WaitOptions, set_parent_process_death_signal, wait};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use seccompiler::BpfProgram;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

/// The layers that this machine can't give, each with the reason.
#[derive(Debug, Clone, Default)]
pub struct Missing(pub Vec<(&'static str, String)>);

impl Missing {
    /// Returns whether this machine can give a layer.
    pub fn can(&self, layer: &str) -> bool {
        self.0.iter().all(|(missing, _)| *missing != layer)
    }
}

/// Builds the part of the init around this process, the first one of its pid namespace.
///
/// # Errors
/// Which layer can't be built, for people.
pub fn enter_init(seal: &Seal) -> Result<(), String> {
    if seal.proc {
        unshare(UnshareFlags::NEWNS).failed("make a mount namespace")?;
        open_real(Path::new("/"), OFlags::PATH).and_then(mounts::mount_proc).failed("mount /proc")?;
    }
    filter(&seal.filters)
}

fn filter(filters: &[BpfProgram]) -> Result<(), String> {
    filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter)).failed("filter system calls")
}

/// Moves this process into new namespaces.
#[expect(unsafe_code, reason = "unshare may take away what other threads rely on; there are none")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: neither memory nor descriptors are taken away.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Moves this process into a user namespace of its own, with all rights in it, and an ipc namespace.
fn enter_user_namespace() -> io::Result<()> {
    let own = namespaces::own_ids();
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWIPC)?;
    namespaces::map(own)?;
    // Functions of the same user may not read or stop this process, which has more rights than they have.
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Builds the sandbox around this process. `root`: whether it is root; without cgroups each attempt has a pid namespace of
/// its own.
///
/// # Errors
/// Which layer can't be built, for people.
pub fn enter(view: &MountView, missing: &Missing, root: bool, containment: Containment) -> Result<Seal, String> {
    let sandbox = &view.sandbox;
    let filters = missing.can("seccomp").then(|| seccomp::filters(sandbox.syscalls, &sandbox.network)).transpose()?;
    let filters = filters.unwrap_or_default();
    let own_network = matches!(sandbox.network, Network::None | Network::Loopback) && missing.can("network");
    let own_mounts = (sandbox.profile != Profile::Off || view.secrets.is_some()) && missing.can("mounts");
    let mut seal = Seal { user_namespace: !root && (own_network || own_mounts), ..Seal::default() };
    if seal.user_namespace {
        enter_user_namespace().failed("make a user namespace")?;
    }
    if own_network {
        unshare(UnshareFlags::NEWNET).failed("make a network namespace")?;
        if sandbox.network == Network::Loopback {
            namespaces::bring_up_loopback().failed("bring up the loopback interface")?;
        }
    }
    if sandbox.profile != Profile::Off && own_mounts {
        unshare(UnshareFlags::NEWNS | UnshareFlags::NEWUTS).failed("make a mount namespace")?;
        let building = Building::begin(view).failed("copy the view of the files")?;
        building.furnish().failed("build the view of the files")?;
        let own_proc = !sandbox.proc_full;
        if missing.can("pid") && containment == Containment::Cgroup {
            unshare(UnshareFlags::NEWPID).failed("make a pid namespace")?;
            // `unshare` puts only children into the pid namespace, and `/proc` shows the namespace of the process that
            // mounts it. So the first child mounts `/proc`.
            init(|| if own_proc { mounts::mount_proc(&building.root).failed("mount /proc") } else { Ok(()) })?;
        }
        building.enter().failed("change to the view of the files")?;
        seal.proc = own_proc && missing.can("pid") && containment == Containment::PidNamespace;
    } else if let Some(secrets) = &view.secrets {
        if own_mounts {
            unshare(UnshareFlags::NEWNS).failed("make a mount namespace")?;
            mounts::give_only(secrets).failed("mount the secrets")?;
        } else {
            secrets.refill().failed("write the secrets")?;
        }
    }
    // After the secrets were written: a rule is for the file that is there now.
    let files =
        (sandbox.profile != Profile::Off && !missing.can("mounts")).then(|| landlock::allowed(view)).transpose();
    let files = files.failed("list the files that it may open")?;
    if files.is_some() || missing.can("landlock") {
        seal.rules = landlock::ruleset(sandbox, files.as_deref()).map_err(|error| error.to_string())?;
    }
    // The filters come last: they refuse the calls that the other layers are built with.
    if containment == Containment::Cgroup {
        filter(&filters.launcher)?;
    } else {
        seal.filters = filters.launcher;
    }
    seal.filter = Some(filters.attempt).filter(|filter| !filter.is_empty());
    Ok(seal)
}

/// Starts the first process of the new pid namespace, which waits for orphans until the launcher ends; all processes of
/// the namespace end with it. `prepare` runs in it first.
fn init(prepare: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let (mut theirs, ours) = Channel::pair().failed("make a socket for the init")?;
    let started = clone::fork(None, false, 0, move || {
        let kill = Some(rustix::process::Signal::KILL);
        let ready = set_parent_process_death_signal(kill).failed("follow the launcher").and_then(|()| prepare());
        // The init lives as long as the launcher. A pipe of which it kept an end open would never end for its reader. It
        // does not keep the launcher's end of the channel either: if the launcher ended before the call above, no signal
        // comes, but `send` fails.
        clone::close_all_but(theirs.as_fd().as_raw_fd());
        let sent = theirs.send(&ready.as_ref().err().cloned().unwrap_or_default().to_wire(), Vec::new());
        if sent.is_err() || ready.is_err() {
            return 1;
        }
        // The name is for people only.
        let _ = rustix::thread::set_name(c"fnd-init");
        reap_for_ever()
    });
    started.failed("start the init of the pid namespace")?;
    hear(ours, "the init of the pid namespace ended")
}

fn reap_for_ever() -> ! {
    let ended = SigSet::from_iter([Signal::SIGCHLD]); // blocked since the launcher started, so none is lost
    loop {
        if wait(WaitOptions::empty()).is_err() {
            // There is no child now. The next one that ends sends the signal.
            let _ = ended.wait();
        }
    }
}

/// Finds out by doing it, each time in a process of its own, which layers this machine can give. `root` is an empty
/// directory; `is_root`: whether this process is root.
pub fn probe(root: &Path, is_root: bool) -> Missing {
    let strict = |network| Sandbox { network, syscalls: Profile::Off, ..Sandbox::of(Profile::Strict) };
    let with = |sandbox: Sandbox, lacking: &[&'static str]| {
        let (own, shown, accounts) = (Vec::new(), Vec::new(), <[String; 2]>::default());
        let view = MountView { sandbox, root: root.to_owned(), own, shown, runs: None, accounts, secrets: None };
        let lacking = Missing(lacking.iter().map(|layer| (*layer, String::new())).collect());
        tried(move || enter(&view, &lacking, is_root, Containment::Cgroup).map(drop))
    };
    let off = |sandbox: Sandbox| Sandbox { profile: Profile::Off, ..sandbox };
    let mut missing = Missing::default();
    let mut add = |layer, tried: Result<(), String>| missing.0.extend(tried.err().map(|why| (layer, why)));
    let mut mounts = with(strict(Network::Host), &["pid", "landlock"]);
    let pid = if mounts.is_ok() { with(strict(Network::Host), &["landlock"]) } else { mounts.clone() };
    if !is_root && mounts.is_ok() {
        // The /proc of the machine would lead a function to the files of its user's other processes.
        mounts.clone_from(&pid);
    }
    if let Err(why) = &mut mounts
        && closes_files(&strict(Network::Host)).is_ok()
    {
        why.push_str(INSTEAD);
    }
    add("mounts", mounts);
    add("pid", pid);
    add("network", with(off(strict(Network::Loopback)), &[]));
    add("seccomp", with(Sandbox { syscalls: Profile::Strict, ..off(strict(Network::Host)) }, &[]));
    add(
        "landlock",
        tried(|| restrict(landlock::ruleset(&strict(Network::Host), None).map_err(|error| error.to_string())?)),
    );
    missing
}

/// Said of the layer `mounts` where it is missing and Landlock takes its place as far as it can.
const INSTEAD: &str = "; Landlock closes other files instead, but /tmp, /var/tmp and /dev/shm are the machine's, and sockets \
    of other programs can be reached";

fn restrict(rules: Option<OwnedFd>) -> Result<(), String> {
    let rules = rules.ok_or("the kernel has no Landlock")?;
    rustix::thread::set_no_new_privs(true).failed("drop privileges")?;
    crate::process::privileges::restrict(rules.as_fd()).failed("restrict a process")
}

/// Tries whether Landlock closes files.
fn closes_files(sandbox: &Sandbox) -> Result<(), String> {
    let root = [(PathBuf::from("/"), Use::Read)];
    tried(|| {
        restrict(landlock::ruleset(sandbox, Some(&root)).map_err(|error| error.to_string())?)?;
        match std::fs::File::options().write(true).open("/dev/null") {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            _ => Err("the kernel closes no files".to_owned()),
        }
    })
}

/// Runs a body in a copy of this process; returns its result.
fn tried(body: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let (mut theirs, ours) = Channel::pair().failed("make a socket")?;
    let child = clone::fork(None, false, 0, move || {
        // As in a launcher: the init of a pid namespace waits for SIGCHLD, which would be lost if it were not blocked.
        let _ = SigSet::all().thread_set_mask();
        i32::from(theirs.send(&body().err().unwrap_or_default().to_wire(), Vec::new()).is_err())
    });
    let child = child.failed("start a process")?;
    let said = hear(ours, "a process that tried it was killed");
    let _ = crate::process::reap::wait(&child);
    said
}
