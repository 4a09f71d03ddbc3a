//! Runs a launcher: a copy of the spawner that lives in the function's cgroups and starts its processes.
//!
//! Each active version of a function has one launcher. If limits are in v1 hierarchies, the launcher enters them once
//! (8 ms), and the children it clones start in them. The children's parent is the spawner, which alone waits for them.
//! The sandbox is built here, once for all of them. When the launcher's socket is closed because the
//! spawner was killed, the launcher kills every process of the function, so no orphan remains.

use super::*;
use crate::process::clone::ChildPlace;
use crate::process::privileges;
use crate::sandbox::layers;
use crate::sandbox::mounts::MountView;
use crate::sandbox::secret_files::SecretFiles;
use crate::secrets::credentials;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Variables of the environment with their values.
type Variables = Vec<(String, Bytes)>;

/// The values that a launcher needs of its function.
pub struct Spec<'a> {
    pub host: &'a Host,
    /// The process, without program, command line and environment.
    pub exec: Exec,
    pub group: Option<&'a Group>,
    /// The function's view of the machine and its sandbox; absent: none.
    pub view: Option<MountView>,
    /// The memory file with the function's secrets and service bindings, and their places.
    pub credentials: Option<(File, PathBuf, PathBuf)>,
}

impl Spec<'_> {
    /// Returns the function's secrets and service bindings, if it has any: as files and as variables.
    ///
    /// # Errors
    /// Why they can't be read.
    fn secrets(&mut self) -> Result<(Option<SecretFiles>, Variables), String> {
        let Some((memory, secrets, bindings)) = self.credentials.take() else { return Ok((None, Variables::new())) };
        let values = credentials::values(&memory)?;
        let places = [(secrets, values.secrets), (bindings, values.bindings)];
        Ok((Some(SecretFiles { places, owner: self.exec.identity.clone() }), values.variables))
    }
}

/// An order to a launcher: the worker (0: end), command line and environment. Descriptors: the leaf (only with
/// cgroups), standard input, output, error, and for a handler its socket.
pub type LauncherOrder = (u64, (Vec<Bytes>, Vec<Bytes>));

/// A launcher's answer: the worker, the pid (0 or [`NEVER`]: no process), the error number if the machine has run out
/// of something (else 0), and why the start failed (empty: it succeeded). Descriptors: the pidfd, then the channel of
/// the init, if there is one.
pub type LauncherAnswer = (u64, ((u32, u32), String));

/// In place of the pid: the launcher could not prepare itself, so it answers each order with the same error. Only the
/// machine's first process has this number.
pub const NEVER: u32 = 1;

/// Runs the launcher in a new copy of the spawner; returns the copy's exit code.
pub fn run(mut spec: Spec<'_>, socket: OwnedFd) -> i32 {
    let secrets = spec.secrets(); // before the memory file is closed
    clone::settle(socket.as_raw_fd());
    // A worker's socket gets the number 3 in the child. Rules or a program that had this number would be lost there.
    let _three = socket.try_clone();
    privileges::join_new_keyring();
    // `0` stands for the process that writes. Children that are cloned later are born in the same v1 groups.
    let (containment, v1) = (spec.host.containment, spec.group.map(Group::v1_dirs).unwrap_or_default());
    let entered = v1.iter().try_for_each(|dir| fs::write(dir.join("cgroup.procs"), "0"));
    // An error does not end the launcher: each order is answered with it, so that fnd learns the reason.
    let mut entered = entered.failed("enter the function's cgroups");
    let (secrets, variables) = secrets.map_err(|why| entered = Err(why)).unwrap_or_default();
    // By path it could not be found any more. Without it, processes would outlive the spawner.
    let kill = spec.group.map(|group| OpenOptions::new().write(true).open(group.dir.join("cgroup.kill")));
    let kill = kill.transpose().failed("open `cgroup.kill`").map_err(|why| entered = Err(why)).unwrap_or_default();
    // The bounding set is emptied once for all processes that the launcher starts, since it takes a call for each
    // capability; it affects only programs that are executed. A new user namespace would have a full bounding set
    // again.
    let identity = spec.exec.identity.as_ref().filter(|_| containment == Containment::Cgroup);
    // If this fails, the start reports why.
    spec.exec.bounded = identity.is_some_and(|it| privileges::empty_bounding_set(it.capabilities).is_ok());
    if let Some(mut view) = spec.view.take().filter(|_| entered.is_ok()) {
        // Programs look up their limits in their own groups.
        let groups = spec.group.map(|group| &group.dir).into_iter().chain(&v1);
        view.sandbox.read_only.extend(groups.map(|dir| dir.to_string_lossy().into_owned()));
        view.secrets = secrets;
        match layers::enter(&view, &spec.host.lacking, spec.exec.identity.is_some(), containment) {
            Ok(seal) => spec.exec.seal = seal,
            Err(why) => entered = Err(format!("failed to build the sandbox: {why}")),
        }
    }
    let mut channel = Channel::new(socket);
    // An order may wait here since before the spawner ended.
    while let Ok(Some(frame)) = channel.receive().map(|frame| frame.filter(|_| !spec.exec.is_alone())) {
        let Ok((worker, (argv, environment))) = LauncherOrder::from_wire(&frame.bytes) else { break };
        if worker == 0 {
            // This order kills nothing: workers of a newer version may run in the same group.
            return 0;
        }
        let texts =
            |lines: Vec<Bytes>| lines.into_iter().map(|line| CString::new(line.0)).collect::<Result<Vec<_>, _>>();
        let started = (|| {
            entered.clone()?;
            spec.exec.argv = texts(argv).failed("use the command line")?;
            spec.exec.path = spec.exec.argv.first().cloned().unwrap_or_default();
            // A request can bring a variable of any name that begins with HTTP_; it must not replace a secret.
            let is_own = |line: &Bytes| {
                variables.iter().any(|(name, _)| line.0.split(|b| *b == b'=').next() == Some(name.as_bytes()))
            };
            let own = variables.iter().map(|(name, value)| Bytes([name.as_bytes(), b"=", &value.0].concat()));
            let all = environment.into_iter().filter(|line| !is_own(line)).chain(own).collect();
            spec.exec.environment = texts(all).failed("use the environment")?;
            start(&spec, frame.descriptors)
        })();
        let (child, report, shortage, why) = match started {
            Ok((child, report)) => (Some(child), report, None, String::new()),
            Err(NoStart { why, child, shortage }) => (child, None, shortage, why),
        };
        let errno = shortage.map_or(0, |errno| errno.raw_os_error().cast_unsigned());
        let (pid, pidfd) = child.map_or((NEVER * u32::from(entered.is_err()), None), |it| (it.pid, Some(it.pidfd)));
        let answer: LauncherAnswer = (worker, ((pid, errno), why));
        if channel.send(&answer.to_wire(), [pidfd, report].into_iter().flatten().collect()).is_err() {
            break;
        }
    }
    // The spawner is gone. This kills the launcher too. Without cgroups, each init notices the spawner's end itself.
    if let Some(mut kill) = kill {
        let _ = kill.write_all(b"1");
    }
    1
}

fn start(spec: &Spec<'_>, mut descriptors: VecDeque<OwnedFd>) -> Result<(Child, Option<OwnedFd>), NoStart> {
    let containment = spec.host.containment;
    let leaf = if containment == Containment::Cgroup { descriptors.pop_front() } else { None };
    let [input, output, error, channel @ ..] = descriptors.make_contiguous() else {
        return Err("failed to read the order: descriptors are missing".to_owned().into());
    };
    let stdio = [input.as_fd(), output.as_fd(), error.as_fd()];
    let channel = channel.first().map(|channel| channel.as_fd());
    let place = ChildPlace { cgroup: leaf.as_ref().map(|leaf| leaf.as_fd()), stdio, channel };
    if containment != Containment::Cgroup {
        return contain::start(&spec.exec, place, containment).map(|(child, report)| (child, Some(report)));
    }
    clone::start(&spec.exec, place).map(|child| (child, None))
}
