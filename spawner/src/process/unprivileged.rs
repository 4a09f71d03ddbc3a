//! Starts fnd-helper as a child without user, files, network or privileges: it reads what people wrote.

use super::clone::{self, Child, ChildPlace, Exec};
use super::identity::Identity;
use super::{reap, rlimits};
use fnd_wire::trust::JUDGE_ID;
use rustix::fs::{Mode, OFlags};
use rustix::process::Resource;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

/// Opens a program that is executed by its descriptor: the judge's user may not be able to reach a program in somebody's
/// home.
///
/// # Errors
/// If it can't be opened.
pub fn image(program: &std::path::Path) -> std::io::Result<OwnedFd> {
    Ok(rustix::fs::open(program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

/// Starts fnd-helper as a child without rights, with these arguments; `root`: as a user of its own. It has standard input,
/// and standard output if that is given.
///
/// # Errors
/// If it can't be started.
pub fn start(
    image: &OwnedFd,
    arguments: Vec<CString>,
    root: bool,
    (input, output): (BorrowedFd<'_>, Option<BorrowedFd<'_>>),
) -> Result<Child, Box<dyn std::error::Error>> {
    // The child writes no file, leaves no core dump with the files of others, and gets 1 GiB of address space at most.
    let mut rlimits = vec![(Resource::Fsize, 0), (Resource::Core, 0), (Resource::As, 1 << 30)];
    // The kernel counts this limit over all processes of the user, so it is set only if the judge has its own user.
    rlimits.extend(root.then_some((Resource::Nproc, 64)));
    let path = CString::new(format!("/proc/self/fd/{}", image.as_raw_fd()))?;
    let argv = [c"fnd-helper".to_owned()].into_iter().chain(arguments).collect();
    let identity = root.then(|| Identity { uid: JUDGE_ID, gid: JUDGE_ID, ..Identity::default() });
    let rlimits = rlimits::possible(rlimits);
    let null = File::options().read(true).write(true).open("/dev/null")?;
    let stdio = [input, output.unwrap_or(null.as_fd()), null.as_fd()];
    let place = ChildPlace { cgroup: None, stdio, channel: None };
    let exec = Exec { path, argv, directory: c"/".to_owned(), identity, rlimits, ..Exec::default() };
    Ok(clone::start(&exec, place).inspect_err(|error| error.child.iter().for_each(reap::end))?)
}
