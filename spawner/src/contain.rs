//! Holding a process tree together where there is no cgroup: a small init for each attempt.
//!
//! The init is the child the spawner waits for; the function is its child, never pid 1 itself (bash there ignores SIGTERM).
//! In a pid namespace everything dies with the init. Without (subreaper) it kills what it finds below itself, which is best
//! effort: a tree that forks faster than it is killed stays ahead.
//!
//! It is told by signals: SIGTERM, pass it on to every process; SIGUSR1, kill every process. On its report pipe go two
//! records of two `i32`: step and error number of the start, then wait status and whether processes were left.

use crate::clone::{self, Child, CloneError, Exec, Place, SET_UP_NAMESPACE};
use fnd_core::frame::{Containment, ExitStatus};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{WaitOptions, wait};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};

/// Returns the best containment that works here without cgroups.
pub fn without_cgroups(root: bool) -> Containment {
    let own = own_ids();
    let tried = clone::fork(None, false, namespaces(root), || i32::from(map_user(root, own).is_err()));
    match tried.ok().and_then(|child| crate::reap::wait(&child)) {
        Some(ended) if ended.status == ExitStatus::Code(0) => Containment::PidNamespace,
        _ => Containment::Subreaper,
    }
}

fn namespaces(root: bool) -> i32 {
    if root { libc::CLONE_NEWPID } else { libc::CLONE_NEWPID | libc::CLONE_NEWUSER }
}

/// In a fresh user namespace, makes this user known there as itself. user_namespaces(7).
fn map_user(root: bool, (uid, gid): (u32, u32)) -> io::Result<()> {
    if root {
        return Ok(());
    }
    // In the namespace the own ids read as 65534 until they are mapped; the owner of /proc/self is seen from outside.
    // Files in /proc/self are root's unless the process may be dumped; the launcher, copied, may not.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
}

/// Returns user and group of this process: to be asked for before a namespace hides them.
fn own_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Starts a program below an init of its own; returns the init and its report pipe, which then holds the second record.
///
/// # Errors
/// [`CloneError`] of the init or of the program.
pub fn start(
    exec: &Exec,
    stdio: [BorrowedFd<'_>; 3],
    containment: Containment,
) -> Result<(Child, OwnedFd), CloneError> {
    let failed = |error: &io::Error| CloneError::at(SET_UP_NAMESPACE, error.raw_os_error().unwrap_or(libc::EIO));
    let own = own_ids();
    let root = exec.identity.is_some();
    let (read, write) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| failed(&error.into()))?;
    let flags = if containment == Containment::PidNamespace { namespaces(root) } else { 0 };
    // The write end is the copy's; here it is closed with the closure, so that its end is seen.
    let child = clone::fork(None, true, flags, move || init(exec, stdio, containment, own, File::from(write)))
        .map_err(|error| failed(&error))?;
    let mut report = File::from(read);
    let (step, errno) = record(&mut report).unwrap_or((0, libc::ECHILD));
    if errno == 0 {
        return Ok((child, report.into()));
    }
    Err(CloneError { step: usize::try_from(step).unwrap_or(0), errno, child: Some(child) })
}

/// Reads a record from a report pipe.
///
/// # Errors
/// From reading; `UnexpectedEof` where the init was killed before it wrote.
pub fn record(report: &mut File) -> io::Result<(i32, i32)> {
    let (mut first, mut second) = ([0; 4], [0; 4]);
    report.read_exact(&mut first)?;
    report.read_exact(&mut second)?;
    Ok((i32::from_le_bytes(first), i32::from_le_bytes(second)))
}

/// Returns the exit status of a raw wait status.
pub fn status(raw: i32) -> ExitStatus {
    let byte = |number: i32| u8::try_from(number).unwrap_or(0);
    if libc::WIFSIGNALED(raw) {
        ExitStatus::Signal(byte(libc::WTERMSIG(raw)))
    } else {
        ExitStatus::Code(byte(libc::WEXITSTATUS(raw)))
    }
}

fn init(exec: &Exec, stdio: [BorrowedFd<'_>; 3], containment: Containment, own: (u32, u32), mut report: File) -> i32 {
    let mut tell = move |first: i32, second: i32| {
        let _ = report.write_all(&[first.to_le_bytes(), second.to_le_bytes()].concat()); // the spawner may be gone
        report.as_raw_fd()
    };
    let namespace = containment == Containment::PidNamespace;
    let ready = (|| {
        if namespace {
            map_user(exec.identity.is_some(), own)?;
        } else {
            rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        }
        // The end of the spawner is the end of everything it started.
        let signal = if namespace { rustix::process::Signal::KILL } else { rustix::process::Signal::USR1 };
        Ok::<_, io::Error>(rustix::process::set_parent_process_death_signal(Some(signal))?)
    })();
    if let Err(error) = ready {
        tell(i32::try_from(SET_UP_NAMESPACE).unwrap_or(0), error.raw_os_error().unwrap_or(libc::EIO));
        return 1;
    }
    let first = match clone::start(exec, Place { cgroup: None, parent: false, stdio }) {
        Ok(child) => child,
        Err(error) => {
            tell(i32::try_from(error.step).unwrap_or(0), error.errno);
            return 1;
        }
    };
    let pid = i32::try_from(first.pid).unwrap_or(0);
    drop(first);
    let kept = tell(0, 0);
    close_all_but(kept);
    let status = serve_until(pid, namespace);
    let left = || wait(WaitOptions::NOHANG).is_ok(); // an error where there is no child
    let stragglers = left();
    tell(status, i32::from(stragglers));
    while !namespace && left() {
        signal_all(libc::SIGKILL, namespace);
        let _ = wait(WaitOptions::empty());
    }
    0
}

/// Handles signals until the first process ended, and returns its wait status.
fn serve_until(first: i32, namespace: bool) -> i32 {
    // Every signal is blocked since the launcher began.
    let told = SigSet::from_iter([Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGUSR1]);
    loop {
        match told.wait() {
            Ok(Signal::SIGTERM) => signal_all(libc::SIGTERM, namespace),
            Ok(Signal::SIGUSR1) => signal_all(libc::SIGKILL, namespace),
            _ => {}
        }
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid.as_raw_nonzero().get() == first {
                return status.as_raw();
            }
        }
    }
}

#[expect(unsafe_code, reason = "kill(-1) in a pid namespace has no safe wrapper")]
fn signal_all(signal: i32, namespace: bool) {
    if namespace {
        // SAFETY: as pid 1 of its namespace this reaches what is in the namespace only, and not this process.
        let _ = unsafe { libc::kill(-1, signal) };
        return;
    }
    // Parents before children, so that a parent can't replace a child that was just killed.
    let mut found = children(rustix::process::getpid().as_raw_nonzero().get());
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        // SAFETY: a descendant's pid (above 1); this process reaps orphans, and it waits only after this loop.
        let _ = unsafe { libc::kill(pid, signal) };
        found.extend(children(pid));
        next += 1;
    }
}

fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(|pid| *pid > 1).collect()
}

/// Closes every descriptor above standard error but one.
#[expect(unsafe_code, reason = "close_range has no wrapper")]
pub(crate) fn close_all_but(kept: i32) {
    let kept = kept.cast_unsigned();
    for (first, last) in [(3, kept - 1), (kept + 1, u32::MAX)] {
        if first <= last {
            // SAFETY: this copy of the process uses no other descriptor and ends without running destructors.
            let _ = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}
