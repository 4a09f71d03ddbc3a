//! The process of a function whose sandbox a shell enters, and the properties that the shell takes over.
//!
//! fnd only names a directory, which root must have made; the kernel says all the rest. So an fnd that was taken over cannot choose
//! a user or a right for the shell.

use fnd_wire::ids::FunctionName;
use procfs::ProcessCGroup;
use procfs::process::{LimitValue, Limits, MountInfo, Process, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::statfs;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{Error, ErrorKind, Read as _, Result};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A process of a function.
pub(super) struct FunctionProcess {
    pub(super) pidfd: OwnedFd,
    pub(super) status: Status,
    /// Its resource limits, by their numbers.
    pub(super) limits: [libc::rlimit; 16],
    pub(super) directory: CString,
    pub(super) environment: Vec<CString>,
    /// The groups of version 1 that limit the function.
    pub(super) v1: Vec<PathBuf>,
}

/// The most bytes of an environment, and of a variable. No program can be given more (execve(2)), but a process can write more there
/// itself, and point the kernel to other memory (`PR_SET_MM_MAP`).
const MOST_ENVIRONMENT: u64 = 6 << 20;
const MOST_VARIABLE: usize = 128 << 10;

/// Finds a process of a function in its [checked] group: one of the newest worker.
///
/// # Errors
/// No process can be entered; the error is that of one of them.
pub(super) fn find(group: &Path, function: &FunctionName) -> Result<Option<FunctionProcess>> {
    let mut leaves: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(group)? {
        let entry = entry?;
        leaves.extend(worker_number(&entry.file_name()).map(|number| (number, entry.path())));
    }
    leaves.sort_unstable();
    let mut none = Ok(None);
    for (_, leaf) in leaves.iter().rev() {
        for pid in processes(leaf) {
            match FunctionProcess::read(pid, leaf, function) {
                Ok(None) => {}
                Err(error) if is_gone(&error) => {}
                // One process that cannot be read must not close the way into the others, such as one of Chromium's sandbox.
                Err(error) => none = Err(error),
                found => return found,
            }
        }
    }
    none
}

/// Returns the path without links of a function's group, which is a directory of the cgroup2 tree.
///
/// # Errors
/// Somebody other than root can have made the directory, or it is not the function's.
pub(super) fn checked(group: &Path, function: &FunctionName) -> Result<PathBuf> {
    let group = fs::canonicalize(group)?;
    let about = fs::metadata(&group)?;
    let is_named = group
        .file_name()
        .is_some_and(|name| name == function.file_form().as_str());
    if is_named && about.uid() == 0 && statfs(&group)?.f_type == libc::CGROUP2_SUPER_MAGIC {
        return Ok(group);
    }
    let why = format!("`{}` is not the function's cgroup", group.display());
    Err(Error::other(why))
}

/// Returns the number of a worker from the name of its leaf; the launcher and shells have other names.
fn worker_number(name: &OsStr) -> Option<u64> {
    name.to_str()?.strip_prefix('w')?.parse().ok()
}

fn processes(leaf: &Path) -> Vec<i32> {
    let text = fs::read_to_string(leaf.join("cgroup.procs")).unwrap_or_default();
    // `0` stands for a process outside of this pid namespace.
    text.lines()
        .filter_map(|line| line.parse().ok())
        .filter(|pid| *pid > 0)
        .collect()
}

fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

impl FunctionProcess {
    /// Reads a process of a leaf; nothing if it is not the function's own code, or has ended meanwhile.
    fn read(pid: i32, leaf: &Path, function: &FunctionName) -> Result<Option<Self>> {
        // The descriptor is opened first, and its process is alive at the end. The number was not given to another process in between,
        // so all that is read here is of this process.
        let pidfd = pidfd_open(Pid::from_raw(pid).ok_or(ErrorKind::NotFound)?, PidfdFlags::empty())?;
        let mut environment = Vec::new();
        let file = File::open(format!("/proc/{pid}/environ"))?;
        file.take(MOST_ENVIRONMENT).read_to_end(&mut environment)?;
        let environment = lines(&environment);
        // Programs of fnd, such as watchers, have no sandbox. They lack the variable, and so does a process before its `execve`.
        let own = format!("FND_FUNCTION={function}");
        if environment.iter().all(|line| line.as_bytes() != own.as_bytes()) {
            return Ok(None);
        }
        let read = || {
            let process = Process::new(pid)?;
            let mounts = Process::myself()?.mountinfo()?;
            Ok::<_, procfs::ProcError>((process.status()?, process.limits()?, process.cgroups()?, mounts))
        };
        // An error: it has ended.
        let Ok((status, limits, groups, mounts)) = read() else {
            return Ok(None);
        };
        let link = |name: &str| fs::read_link(format!("/proc/{pid}/{name}"));
        if link("ns/user")? != fs::read_link("/proc/self/ns/user")? {
            // There the numbers of users mean other users.
            return Err(Error::other("it is in a user namespace of its own"));
        }
        let directory = link("cwd")?;
        let process = Self {
            status,
            limits: by_number(&limits),
            directory: CString::new(directory.as_os_str().as_bytes())?,
            environment,
            v1: v1_groups(&groups.0, &mounts.0, &format!("f.{}", function.file_form()))?,
            pidfd,
        };
        let is_there = processes(leaf).contains(&pid);
        let ended = poll(
            &mut [PollFd::new(&process.pidfd, PollFlags::IN)],
            Some(&Timespec::default()),
        )?;
        Ok((is_there && ended == 0).then_some(process))
    }

    /// Returns the value of a variable; nothing if it is not set, or no text.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let mut lines = self.environment.iter();
        lines.find_map(|line| line.to_str().ok()?.strip_prefix(name)?.strip_prefix('='))
    }
}

/// Returns the lines of an environment. A program may have written something else into that memory.
fn lines(bytes: &[u8]) -> Vec<CString> {
    let lines = bytes.split(|byte| *byte == 0);
    let lines = lines.filter(|line| line.contains(&b'=') && line.len() < MOST_VARIABLE);
    lines.filter_map(|line| CString::new(line).ok()).collect()
}

/// Returns the limits by their numbers, `RLIMIT_CPU` first. prlimit(2) would need `CAP_SYS_RESOURCE` to read them.
fn by_number(limits: &Limits) -> [libc::rlimit; 16] {
    let value = |limit: LimitValue| match limit {
        LimitValue::Unlimited => libc::RLIM_INFINITY,
        LimitValue::Value(value) => value,
    };
    let all = [
        limits.max_cpu_time,
        limits.max_file_size,
        limits.max_data_size,
        limits.max_stack_size,
        limits.max_core_file_size,
        limits.max_resident_set,
        limits.max_processes,
        limits.max_open_files,
        limits.max_locked_memory,
        limits.max_address_space,
        limits.max_file_locks,
        limits.max_pending_signals,
        limits.max_msgqueue_size,
        limits.max_nice_priority,
        limits.max_realtime_priority,
        limits.max_realtime_timeout,
    ];
    all.map(|limit| libc::rlimit {
        rlim_cur: value(limit.soft_limit),
        rlim_max: value(limit.hard_limit),
    })
}

/// Returns the directories of the groups with this name. Of other groups, such as those of systemd, no limit of the function comes.
fn v1_groups(groups: &[ProcessCGroup], mounts: &[MountInfo], name: &str) -> Result<Vec<PathBuf>> {
    let limiting = groups
        .iter()
        .filter(|group| group.pathname.rsplit('/').next() == Some(name));
    let directory = |group: &ProcessCGroup| {
        let controller = group.controllers.first()?;
        let mut mounts = mounts.iter().filter(|mount| mount.fs_type == "cgroup");
        let mount = mounts.find(|mount| mount.super_options.contains_key(controller))?;
        let below = Path::new(&group.pathname).strip_prefix(&mount.root).ok()?;
        Some(mount.mount_point.join(below))
    };
    limiting
        .map(|group| {
            let lost = || Error::other(format!("the cgroup `{}` is not mounted here", group.pathname));
            directory(group).ok_or_else(lost)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_of_workers_have_numbers() {
        for (name, expected) in [("w12", Some(12)), ("l", None), ("s12", None), ("w", None), ("wx", None)] {
            assert_eq!(worker_number(OsStr::new(name)), expected, "{name}");
        }
    }

    #[test]
    fn groups_of_version_1_are_found_by_their_controllers() {
        let group = |hierarchy, controllers: &[&str], path: &str| ProcessCGroup {
            hierarchy,
            controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
            pathname: path.to_owned(),
        };
        let groups = [
            group(4, &["cpu", "cpuacct"], "/docker/x/fnd-1/f.ops.a"),
            group(3, &["memory"], "/fnd-1/f.ops.a"),
            group(1, &["name=systemd"], "/user.slice"),
            group(0, &[], "/fnd-1/f/ops.a/w1"),
        ];
        let mounts = [
            "32 31 0:29 /docker/x /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct",
            "33 31 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory",
            "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate",
        ]
        .map(|line| MountInfo::from_line(line).unwrap());
        let found = v1_groups(&groups, &mounts, "f.ops.a").unwrap();
        let expected = ["cpu,cpuacct/fnd-1/f.ops.a", "memory/fnd-1/f.ops.a"];
        assert_eq!(found, expected.map(|path| Path::new("/sys/fs/cgroup").join(path)));
        assert!(
            v1_groups(&groups, &mounts[..1], "f.ops.a").is_err(),
            "memory is not mounted"
        );
        assert!(v1_groups(&groups, &mounts, "f.other").unwrap().is_empty());
    }

    #[test]
    fn an_environment_has_only_variables() {
        let expected = [c"A=1", c"B=x=y"].map(ToOwned::to_owned);
        assert_eq!(lines(b"A=1\0\0-title\0B=x=y\0"), expected);
        assert!(lines(&[b"PATH=".to_vec(), vec![b':'; MOST_VARIABLE]].concat()).is_empty());
    }

    #[test]
    fn a_directory_that_is_no_cgroup_of_root_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let group = directory.path().join("job");
        fs::create_dir(&group).unwrap();
        let function = FunctionName::new("job").unwrap();
        let error = checked(&group, &function).unwrap_err();
        assert!(error.to_string().ends_with("is not the function's cgroup"), "{error}");
    }
}
