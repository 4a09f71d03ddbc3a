//! A launcher: a copy of the spawner that lives in the function's cgroups and starts its processes.
//!
//! One for each active version of a function. Where limits are in v1 hierarchies it enters them once (8 ms), and what it
//! clones is born there; the children are the spawner's, which alone waits for them. The sandbox is going to be built here,
//! once for all of them. At the end of its socket (the spawner was killed) it kills all of the function, so no orphan is
//! left.

use crate::clone::{self, CloneError, ENTER_CGROUP, Exec, Place};
use crate::{contain, protocol};
use fnd_core::frame::{Containment, Document};
use fnd_core::wire::{Bytes, Wire as _};
use std::collections::VecDeque;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;

/// Most bytes of one command line and environment together; the kernel's own bound is 2 MiB with the usual stack limit.
pub const ARGUMENTS_MAX: u64 = 1 << 20;

/// What a launcher knows of its function.
#[derive(Debug)]
pub struct Spec {
    /// The program, without command line and environment.
    pub exec: Exec,
    /// How its trees are held together.
    pub containment: Containment,
    /// The function's group in cgroup2.
    pub group: Option<PathBuf>,
    /// v1 groups to enter.
    pub v1: Vec<PathBuf>,
}

/// An order: the worker (0: end), then command line and environment, [`Lines`] as a [`Document`]. Descriptors: leaf (if cgroups),
/// standard input, output, error, then the document's.
pub type Order = (u64, Document);

/// Command line and environment.
pub type Lines = (Vec<Bytes>, Vec<Bytes>);

/// An answer: worker; then pid (0: none), step and error number (0: started). Descriptors: pidfd, then the report pipe of
/// an init, where there is one.
pub type Answer = (u64, (u32, (u32, i32)));

/// Runs the launcher in a fresh copy of the spawner.
pub fn run(mut spec: Spec, socket: &OwnedFd) -> i32 {
    contain::close_all_but(socket.as_raw_fd());
    settle();
    let entered = spec.v1.iter().try_for_each(|dir| fs::write(dir.join("cgroup.procs"), "0"));
    let entered = entered.map_err(|error: io::Error| error.raw_os_error().unwrap_or(libc::EIO));
    loop {
        let frame = match protocol::receive(socket.as_fd()) {
            Ok(frame) if !frame.bytes.is_empty() => frame,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            _ => break,
        };
        let Ok((worker, document)) = Order::from_wire(&frame.bytes) else {
            break;
        };
        if worker == 0 {
            return 0;
        }
        let result = entered
            .map_err(|errno| CloneError::at(ENTER_CGROUP, errno))
            .and_then(|()| start(&mut spec, document, frame.descriptors));
        let (answer, descriptors) = match result {
            Ok((child, report)) => ((child.pid, (0, 0)), [Some(child.pidfd), report]),
            Err(error) => {
                let step = u32::try_from(error.step).unwrap_or(0);
                let (pid, pidfd) = error.child.map_or((0, None), |child| (child.pid, Some(child.pidfd)));
                ((pid, (step, error.errno)), [pidfd, None])
            }
        };
        let descriptors: Vec<OwnedFd> = descriptors.into_iter().flatten().collect();
        if protocol::send(socket.as_fd(), &(worker, answer).to_wire(), &descriptors).is_err() {
            break;
        }
    }
    // The spawner is gone. This kills the launcher too; without cgroups each init sees it by itself.
    if let Some(group) = &spec.group {
        let _ = fs::write(group.join("cgroup.kill"), "1");
    }
    1
}

fn start(
    spec: &mut Spec,
    document: Document,
    mut descriptors: VecDeque<OwnedFd>,
) -> Result<(clone::Child, Option<OwnedFd>), CloneError> {
    let texts = |lines: Vec<Bytes>| lines.into_iter().map(|line| CString::new(line.0).ok()).collect::<Option<Vec<_>>>();
    let read = (|| {
        let leaf = if spec.containment == Containment::Cgroup { Some(descriptors.pop_front()?) } else { None };
        let stdio = [descriptors.pop_front()?, descriptors.pop_front()?, descriptors.pop_front()?];
        let bytes = protocol::contents(document, &mut descriptors, 2 * ARGUMENTS_MAX).ok()?;
        let (argv, environment) = Lines::from_wire(&bytes).ok()?;
        (spec.exec.argv, spec.exec.environment) = (texts(argv)?, texts(environment)?);
        Some((leaf, stdio))
    })();
    let (leaf, stdio) = read.ok_or(CloneError::at(0, libc::EBADMSG))?;
    let stdio = stdio.each_ref().map(OwnedFd::as_fd);
    match leaf {
        Some(leaf) => {
            let place = Place { cgroup: Some(leaf.as_fd()), parent: true, stdio };
            clone::start(&spec.exec, place).map(|child| (child, None))
        }
        None => contain::start(&spec.exec, stdio, spec.containment).map(|(child, report)| (child, Some(report))),
    }
}

/// Makes the state every child is to inherit: no signal handled or ignored, none delivered, ordinary priority for the OOM killer.
#[expect(unsafe_code, reason = "signal dispositions have no safe wrapper")]
pub(crate) fn settle() {
    // SAFETY: a signal set is plain memory; dispositions are set to the default only.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        // Functions of the same user may not look into or stop it.
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::prctl(libc::PR_SET_NAME, c"fnd-launcher".as_ptr(), 0, 0, 0);
    }
    let _ = rustix::process::setsid(); // out of the terminal's reach
    let _ = fs::write("/proc/self/oom_score_adj", "0"); // raising is always allowed
}
