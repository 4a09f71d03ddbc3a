//! A launcher: a copy of the spawner that lives in the function's cgroups and starts its processes.
//!
//! One for each active version of a function. Where limits are in v1 hierarchies it enters them once (8 ms), and what it
//! clones is born there; the children are the spawner's, which alone waits for them. The sandbox is going to be built here,
//! once for all of them. At the end of its socket (the spawner was killed) it kills all of the function, so no orphan is
//! left.

use crate::clone::{self, Child, CloneError, Exec, Place};
use crate::contain;
use crate::log::Failed as _;
use crate::protocol::Channel;
use crate::sandbox::{keyring, privileges};
use fnd_wire::form::{Bytes, Wire as _};
use fnd_wire::frame::Containment;
use std::collections::VecDeque;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::PathBuf;

/// What a launcher knows of its function.
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

/// An order: the worker (0: end), command line and environment. Descriptors: leaf (if cgroups), standard input, output, error,
/// a handler's socket.
pub type Order = (u64, (Vec<Bytes>, Vec<Bytes>));

/// An answer: worker, pid (0: no process), what the machine has run out of (an error number; 0: nothing) and why it failed
/// (empty: it runs). Descriptors: pidfd, then what an init reports
/// on, where there is one.
pub type Answer = (u64, ((u32, u32), String));

/// Runs the launcher in a fresh copy of the spawner.
pub fn run(mut spec: Spec, socket: OwnedFd) -> i32 {
    clone::settle(socket.as_raw_fd());
    keyring::join_new();
    spec.exec.parent = rustix::process::getppid();
    let entered = spec.v1.iter().try_for_each(|dir| fs::write(dir.join("cgroup.procs"), "0"));
    let entered = entered.failed("enter the function's cgroups");
    // Once for all it starts, since it takes a call for each capability; it bounds only what is executed. A new user namespace
    // would have a full one again.
    let bounded = spec.containment == Containment::Cgroup && spec.exec.identity.is_some();
    spec.exec.bounded = bounded && privileges::empty_bounding_set().is_ok(); // where not, the start says why
    let mut channel = Channel::new(socket);
    while let Ok(Some(frame)) = channel.receive() {
        let Ok((worker, (argv, environment))) = Order::from_wire(&frame.bytes) else { break };
        if worker == 0 {
            return 0;
        }
        let texts =
            |lines: Vec<Bytes>| lines.into_iter().map(|line| CString::new(line.0)).collect::<Result<Vec<_>, _>>();
        let started = (|| {
            entered.clone()?;
            spec.exec.argv = texts(argv).failed("use the command line")?;
            spec.exec.environment = texts(environment).failed("use the environment")?;
            start(&spec, frame.descriptors)
        })();
        let (pid, errno, why, descriptors) = match started {
            Ok((child, report)) => (child.pid, 0, String::new(), [Some(child.pidfd), report]),
            Err(CloneError { why, child: Some(child), shortage }) => {
                (child.pid, shortage, why, [Some(child.pidfd), None])
            }
            Err(CloneError { why, child: None, shortage }) => (0, shortage, why, [None, None]),
        };
        let answer: Answer = (worker, ((pid, errno), why));
        if channel.send(&answer.to_wire(), descriptors.into_iter().flatten().collect()).is_err() {
            break;
        }
    }
    // The spawner is gone. This kills the launcher too; without cgroups each init sees it by itself.
    if let Some(group) = &spec.group {
        let _ = fs::write(group.join("cgroup.kill"), "1");
    }
    1
}

fn start(spec: &Spec, mut descriptors: VecDeque<OwnedFd>) -> Result<(Child, Option<OwnedFd>), CloneError> {
    let leaf = if spec.containment == Containment::Cgroup { descriptors.pop_front() } else { None };
    let [input, output, error, channel @ ..] = descriptors.make_contiguous() else {
        return Err("failed to read the order: descriptors are missing".to_owned().into());
    };
    let stdio = [input.as_fd(), output.as_fd(), error.as_fd()];
    let channel = channel.first().map(|channel| channel.as_fd());
    let place = Place { cgroup: leaf.as_ref().map(|leaf| leaf.as_fd()), stdio, channel };
    if spec.containment != Containment::Cgroup {
        return contain::start(&spec.exec, place, spec.containment).map(|(child, report)| (child, Some(report)));
    }
    clone::start(&spec.exec, place).map(|child| (child, None))
}
