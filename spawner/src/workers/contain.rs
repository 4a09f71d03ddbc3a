//! Contains a process tree where there is no cgroup: each attempt gets a small init.
//!
//! The spawner waits for the init; the function is the init's child and never pid 1 itself (bash as pid 1 ignores
//! SIGTERM). In a pid namespace every process dies with the init. Without a namespace the init is a subreaper and kills
//! the processes that it finds below itself. This is best effort: a tree that forks faster than it is killed survives.
//!
//! The spawner controls the init by signals: the init passes each of [`STOP_SIGNALS`] on to every process, and on SIGALRM
//! it kills every process. The init reports by two frames: first why the start failed (empty: it succeeded), then how the
//! function ended and whether other processes still ran.

use crate::log::Failed as _;
use crate::process::clone::{self, Child, ChildPlace, Exec, NoStart, tried};
use crate::protocol::{Channel, hear};
use crate::sandbox::{layers, namespaces};
use fnd_wire::form::Wire as _;
use fnd_wire::frame::{Containment, ExitStatus};
use fnd_wire::plan::STOP_SIGNALS;
use nix::sys::signal::{SigSet, Signal as SetSignal};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, pidfd_open, pidfd_send_signal, wait};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

/// The last report of an init: how the function ended, and whether other processes still ran.
pub type InitReport = (ExitStatus, bool);

/// Returns the best containment that works here without cgroups.
pub fn without_cgroups(root: bool) -> Containment {
    let own = namespaces::own_ids();
    let mapped = || root || namespaces::map(own).is_ok();
    let tried = clone::fork(None, false, namespaces(root), || i32::from(!mapped()));
    match tried.ok().and_then(|child| crate::process::reap::wait(&child)) {
        Some(ended) if ended.status == ExitStatus::Code(0) => Containment::PidNamespace,
        _ => Containment::Subreaper,
    }
}

/// Returns whether this process may make ipc namespaces. With one, each launcher has its own System V shared memory,
/// semaphores and queues and its own POSIX queues, which end with it.
pub fn own_ipc() -> bool {
    clone::fork(None, false, libc::CLONE_NEWIPC, || 0).is_ok_and(|child| crate::process::reap::wait(&child).is_some())
}

/// Returns the namespaces of an attempt. `may`: whether this process may make them without a user namespace.
fn namespaces(may: bool) -> i32 {
    libc::CLONE_NEWPID | if may { 0 } else { libc::CLONE_NEWUSER | libc::CLONE_NEWIPC }
}

/// Returns whether a launcher may make namespaces as it is: it is root, or in a user namespace of its own.
fn may(exec: &Exec) -> bool {
    exec.identity.is_some() || exec.seal.user_namespace
}

/// Starts a program below an init of its own; returns the init and the channel on which the init reports the end.
///
/// # Errors
/// [`NoStart`] of the init or of the program.
pub fn start(exec: &Exec, place: ChildPlace<'_>, containment: Containment) -> Result<(Child, OwnedFd), NoStart> {
    let own = namespaces::own_ids();
    let (theirs, ours) = Channel::pair().failed(SET_UP)?;
    let first = ours.try_clone().failed(SET_UP)?; // before there is an init, which nobody would know after an error
    let flags = if containment == Containment::PidNamespace { namespaces(may(exec)) } else { 0 };
    // The closure owns the copy's end of the channel. Here it is closed with the closure, so that the end of the copy
    // is noticed.
    let copied = clone::fork(None, true, flags, move || init(exec, place, containment, own, theirs));
    let child = copied.map_err(tried(SET_UP))?;
    let heard = hear(first, &format!("failed to {SET_UP}"));
    // Before its report the init has asked for a signal at the spawner's end. If the spawner had ended before that, the
    // signal never comes, and in its pid namespace the init itself can't see why.
    if exec.is_alone() {
        child.signal(Signal::ALARM);
    }
    match heard {
        Ok(()) => Ok((child, ours)),
        Err(why) => Err(NoStart { child: Some(child), ..why.into() }),
    }
}

const SET_UP: &str = "set up an init for the process tree";

fn init(exec: &Exec, place: ChildPlace<'_>, containment: Containment, own: (u32, u32), mut report: Channel) -> i32 {
    let namespace = containment == Containment::PidNamespace;
    let prepared = (|| {
        if !namespace {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        } else if !may(exec) {
            namespaces::map(own)?;
        }
        // When the spawner ends, everything that it started has to end.
        let signal = if namespace { Signal::KILL } else { Signal::ALARM };
        Ok::<_, std::io::Error>(rustix::process::set_parent_process_death_signal(Some(signal))?)
    })();
    let prepared = prepared.failed(SET_UP).and_then(|()| layers::enter_init(&exec.seal));
    let started = prepared.and_then(|()| clone::start(exec, place).map_err(|error| error.why));
    let why = started.as_ref().err().cloned().unwrap_or_default();
    let _ = report.send(&why.to_wire(), Vec::new()); // the spawner may be gone; this holds for the second report, too
    let Ok(first) = started.map(|child| child.pid) else { return 1 };
    // With a copy of the launcher's or the worker's socket in the init, nobody would notice their end.
    clone::close_all_but(report.as_fd().as_raw_fd());
    let status = serve_until(first, namespace);
    let has_children = || wait(WaitOptions::NOHANG).is_ok(); // an error means that there is no child
    let ended: InitReport = (status, has_children());
    let _ = report.send(&ended.to_wire(), Vec::new());
    while !namespace && has_children() {
        signal_all(Signal::KILL, namespace);
        let _ = wait(WaitOptions::empty());
    }
    0
}

/// Handles signals until the first process ends, and returns how it ended.
fn serve_until(first: u32, namespace: bool) -> ExitStatus {
    // Every signal has been blocked since the launcher started.
    let stops = STOP_SIGNALS.iter().filter_map(|(_, number)| SetSignal::try_from(*number).ok());
    let handled: SigSet = stops.chain([SetSignal::SIGCHLD, SetSignal::SIGALRM]).collect();
    loop {
        let signal = handled.wait().ok().and_then(|signal| Signal::from_named_raw(signal as i32));
        if let Some(signal) = signal.filter(|signal| *signal != Signal::CHILD) {
            signal_all(if signal == Signal::ALARM { Signal::KILL } else { signal }, namespace);
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get().cast_unsigned() == first {
                return exit_status(status);
            }
        }
    }
}

fn exit_status(status: WaitStatus) -> ExitStatus {
    let byte = |number: Option<i32>| number.and_then(|number| u8::try_from(number).ok());
    byte(status.terminating_signal())
        .map_or(ExitStatus::Code(byte(status.exit_status()).unwrap_or(0)), ExitStatus::Signal)
}

#[expect(unsafe_code, reason = "kill(-1) in a pid namespace has no safe wrapper")]
fn signal_all(signal: Signal, namespace: bool) {
    if namespace {
        // SAFETY: as pid 1 of its namespace this process reaches only processes in that namespace, and not itself.
        let _ = unsafe { libc::kill(-1, signal.as_raw()) };
        return;
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let below = |parent: i32| children(parent).into_iter().map(move |pid| (parent, pid));
    // Parents are signalled before their children, so that a parent can't replace a child that was just killed.
    let mut found: Vec<(i32, i32)> = below(own).collect();
    let mut next = 0;
    while let Some((parent, pid)) = found.get(next).copied() {
        let pidfd = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // Before the descriptor was opened, the parent may have waited for this process and the number may have passed
        // to an unrelated process.
        let ours = || children(parent).contains(&pid) || children(own).contains(&pid);
        if let Some(pidfd) = pidfd.filter(|_| ours()) {
            // An error: the process has ended meanwhile.
            let _ = pidfd_send_signal(&pidfd, signal);
        }
        found.extend(below(pid));
        next += 1;
    }
}

fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(|pid| *pid > 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::reap;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::fs::File;

    /// Starts a program below an init once the process with this number has ended; returns what is wrong.
    fn start_after(spawner: Pid, containment: Containment) -> Result<(), String> {
        let _ = SigSet::all().thread_set_mask(); // as in a launcher
        while rustix::process::getppid() == Some(spawner) {
            std::thread::yield_now();
        }
        let (path, argv) = (c"/bin/sleep".to_owned(), vec![c"sleep".to_owned(), c"1000".to_owned()]);
        let exec = Exec { path, argv, directory: c"/".to_owned(), parent: Some(spawner), ..Exec::default() };
        let null = File::options().read(true).write(true).open("/dev/null").failed("open /dev/null")?;
        let place = ChildPlace { cgroup: None, stdio: [null.as_fd(); 3], channel: None };
        let child = match start(&exec, place, containment) {
            Ok((child, _)) => child,
            Err(error) => error.child.ok_or(error.why)?,
        };
        let limit = Timespec { tv_sec: 20, tv_nsec: 0 };
        let ended = poll(&mut [PollFd::new(&child.pidfd, PollFlags::IN)], Some(&limit)) == Ok(1);
        child.signal(Signal::ALARM);
        if ended { Ok(()) } else { Err("its init goes on".to_owned()) }
    }

    #[test]
    fn an_init_that_begins_after_the_spawners_end_ends() {
        for containment in [Containment::Subreaper, without_cgroups(false)] {
            let (mut theirs, ours) = Channel::pair().unwrap();
            let spawner = clone::fork(None, false, 0, || {
                let spawner = rustix::process::getpid();
                let launcher = clone::fork(None, false, 0, || {
                    let wrong = start_after(spawner, containment).err().unwrap_or_default();
                    i32::from(theirs.send(&wrong.to_wire(), Vec::new()).is_err())
                });
                i32::from(launcher.is_err())
            });
            assert_eq!(reap::wait(&spawner.unwrap()).unwrap().status, ExitStatus::Code(0));
            drop(theirs);
            assert_eq!(hear(ours, "the launcher ended"), Ok(()), "{containment:?}");
        }
    }
}
