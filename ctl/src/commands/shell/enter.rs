//! Starts a program in the sandbox of a function.
//!
//! A child of fndctl takes these steps. Their order matters:
//! 1. While the child sees the machine as root, it leaves root's session and keyring, and enters cgroups that were opened before. So all
//!    that follows counts for the function, and nothing has to be looked up behind the function's mounts.
//! 2. The child enters the namespaces, which needs root's rights. From here on it opens no file before it is the function's user:
//!    files there may be the function's.
//! 3. The child closes all descriptors but 0 to 2, then takes the limits and gives up rights. When it becomes the function's user it has
//!    no descriptor and no right of root any more, and other processes of this user cannot trace it: it cannot be dumped until `execve`.
//! 4. Only then it uses paths: the directory and the program, with the user's rights.

use super::process::FunctionProcess;
use nix::unistd::execve;
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Gid, Signal, Uid, ioctl_tiocsctty, set_dumpable_behavior, set_parent_process_death_signal, setsid,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, ThreadNameSpaceType, clear_ambient_capability_set,
    configure_capability_in_ambient_set, move_into_thread_name_spaces, remove_capability_from_bounding_set,
    set_capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write as _, stdin};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// The exit codes of shells for a program that cannot be executed, and for one that is not there.
const NOT_EXECUTED: i32 = 126;
const NOT_FOUND: i32 = 127;

/// The namespaces that the child enters. To enter one in which it is already changes nothing but its root and working directory. A process
/// in a user namespace of its own is not taken.
const NAMESPACES: ThreadNameSpaceType = ThreadNameSpaceType::MOUNT
    .union(ThreadNameSpaceType::NETWORK)
    .union(ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION)
    .union(ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME)
    .union(ThreadNameSpaceType::CONTROL_GROUP);

/// A program with its place, prepared before there is a child.
pub(super) struct Entry {
    pub(super) process: FunctionProcess,
    /// `cgroup.procs` of the groups to enter.
    pub(super) groups: Vec<File>,
    /// The command lines to try, each with the path of its program first.
    pub(super) programs: Vec<Vec<CString>>,
}

impl Entry {
    /// Starts the program with these as standard input, output and error; `has_terminal`: standard input is a terminal of its own.
    ///
    /// # Errors
    /// No child can be made. Later failures print why, and the child exits with 126 or 127.
    #[expect(unsafe_code, reason = "the steps run in the child")]
    pub(super) fn start(self, [input, output, error]: [Stdio; 3], has_terminal: bool) -> Result<Child> {
        // It puts only children into the pid namespace, so the parent does it.
        move_into_thread_name_spaces(self.process.pidfd.as_fd(), ThreadNameSpaceType::PROCESS_ID)?;
        // The steps execute a program themselves: this one only has to have a name.
        let mut command = Command::new("/bin/sh");
        command.stdin(input).stdout(output).stderr(error);
        // SAFETY: fndctl has one thread here, so no other thread holds a lock that the steps could wait for.
        unsafe {
            command.pre_exec(move || {
                let mut step = "";
                let Err(error) = self.steps(has_terminal, &mut step);
                let code = if error.kind() == ErrorKind::NotFound {
                    NOT_FOUND
                } else {
                    NOT_EXECUTED
                };
                // An error is ignored: there is no other place. The descriptor over which the parent would be told is closed.
                let _ = writeln!(std::io::stderr(), "error: failed to {step}: {error}");
                libc::_exit(code)
            });
        }
        command.spawn()
    }

    #[expect(unsafe_code, reason = "keyctl, close_range and prlimit have no wrappers")]
    fn steps(&self, has_terminal: bool, step: &mut &'static str) -> Result<Infallible> {
        let FunctionProcess { pidfd, status, .. } = &self.process;
        *step = "leave root's session";
        // The steps after the change of the user are not for the function's other processes to stop or read.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        // Without a controlling terminal, or with one of its own, it cannot push keystrokes into root's (`TIOCSTI`).
        setsid()?;
        if has_terminal {
            ioctl_tiocsctty(stdin())?;
        }
        // When memory runs out, it is not spared as root's session may be. An error: a container may not lower the number.
        let _ = std::fs::write("/proc/self/oom_score_adj", "0");
        // SAFETY: numbers and no name. If it is refused, as by a kernel without keys, there is no keyring to leave.
        unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, 0) };
        *step = "enter the function's cgroups";
        // `0` stands for the process that writes.
        self.groups.iter().try_for_each(|mut group| group.write_all(b"0"))?;
        *step = "enter the function's namespaces";
        move_into_thread_name_spaces(pidfd.as_fd(), NAMESPACES)?;
        *step = "close descriptors";
        // SAFETY: numbers. Their owners do not run any more: this process executes a program or exits.
        if unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) } != 0 {
            return Err(Error::last_os_error());
        }
        *step = "set resource limits";
        for (resource, limit) in (0..).zip(&self.process.limits) {
            // SAFETY: the kernel reads the structure and writes none.
            if unsafe { libc::prlimit(0, resource, limit, std::ptr::null_mut()) } != 0 {
                return Err(Error::last_os_error());
            }
        }
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(status.umask.unwrap_or(0o022)));
        *step = "give up root's rights";
        let kept = self.give_up_rights()?;
        *step = "become the function's user";
        let uid = Uid::from_raw(status.euid);
        set_thread_res_uid(uid, uid, uid)?;
        kept.iter()
            .try_for_each(|one| configure_capability_in_ambient_set(one, true))?;
        // After the change of the user, which resets it: without fndctl nobody would end the program.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        *step = "enter the function's working directory";
        rustix::process::chdir(self.process.directory.as_c_str())?;
        *step = "execute the program";
        Err(self.execute())
    }

    /// Takes the groups and the bounding set of the process, and keeps those capabilities which its user has; to become another user
    /// stays possible until the user is changed. Returns the capabilities to keep.
    fn give_up_rights(&self) -> Result<CapabilitySet> {
        let status = &self.process.status;
        let bounding = status.capbnd.unwrap_or(0);
        for bit in (0..64).map(|number| 1_u64 << number).filter(|bit| bounding & *bit == 0) {
            match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(bit)) {
                Err(Errno::INVAL) => break, // above the last one that this kernel knows
                removed => removed?,
            }
        }
        set_no_new_privs(true)?;
        let groups: Vec<Gid> = status.groups.iter().map(|group| Gid::from_raw(*group)).collect();
        set_thread_groups(&groups)?;
        let gid = Gid::from_raw(status.egid);
        set_thread_res_gid(gid, gid, gid)?;
        let kept = CapabilitySet::from_bits_retain(status.capamb.unwrap_or(0));
        let _ = clear_ambient_capability_set(); // EINVAL: a kernel without ambient capabilities
        set_keep_capabilities(!kept.is_empty())?;
        let now = kept | CapabilitySet::SETUID;
        let sets = CapabilitySets {
            effective: now,
            permitted: now,
            inheritable: kept,
        };
        set_capabilities(None, sets)?;
        Ok(kept)
    }

    /// Executes the first program that is there; returns why none was executed.
    fn execute(&self) -> Error {
        let mut why = nix::errno::Errno::ENOENT;
        for argv in &self.programs {
            let Some(program) = argv.first() else { continue };
            let Err(error) = execve(program, argv, &self.process.environment);
            if !matches!(error, nix::errno::Errno::ENOENT | nix::errno::Errno::ENOTDIR) {
                why = error;
            }
        }
        why.into()
    }
}
