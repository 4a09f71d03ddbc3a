//! Handles a leaf: the cgroup that one attempt starts in.

use super::*;
use crate::clock::now;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;

/// The cgroup of one attempt. Its files are opened when it is made: mostly before the attempt is asked for, while at its end
/// fnd waits.
pub struct Leaf {
    path: PathBuf,
    /// `cgroup.events`: it polls `POLLPRI` when it has changed since it was last read.
    pub events: File,
    /// `cpu.stat`.
    cpu: File,
    /// `memory.peak` and `memory.events.local`, if the memory controller is in cgroup2 and the kernel has them.
    memory: [Option<File>; 2],
    /// `cgroup.kill`.
    pub kill_end: OwnedFd,
}

/// Resources that a leaf has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeafUsage {
    /// CPU time in microseconds.
    pub cpu_us: u64,
    /// Peak memory in bytes, if the memory controller is in cgroup2 and the kernel is 5.19 or later.
    pub memory_peak: Option<u64>,
    /// Processes killed because memory ran out, if the memory controller is in cgroup2.
    pub oom_kills: Option<u64>,
}

impl Leaf {
    /// Makes a leaf for an attempt; also returns the leaf's directory, for `CLONE_INTO_CGROUP`.
    ///
    /// # Errors
    /// If the leaf can't be made or opened.
    pub fn make(group: &Group, name: &str) -> io::Result<(Self, OwnedFd)> {
        let path = group.dir.join(name);
        let memory = group.homes.iter().any(|home| (home.controller, home.v1) == ("memory", false));
        fs::create_dir(&path)?;
        if memory {
            // If the kernel kills one process, it kills all: half a process tree is of no use.
            let _ = fs::write(path.join("memory.oom.group"), "1");
        }
        let open = |file: &str, flags| rustix::fs::open(path.join(file), flags | OFlags::CLOEXEC, Mode::empty());
        let read = |file: &str| open(file, OFlags::RDONLY).map(File::from);
        let of_memory = |file: &str| match memory.then(|| read(file)).transpose() {
            Err(Errno::NOENT) => Ok(None),
            opened => opened,
        };
        let opened = (|| {
            let memory = [of_memory("memory.peak")?, of_memory("memory.events.local")?];
            let (events, cpu) = (read("cgroup.events")?, read("cpu.stat")?);
            let (kill_end, dir) = (open("cgroup.kill", OFlags::WRONLY)?, open("", OFlags::DIRECTORY)?);
            Ok((Self { path: path.clone(), events, cpu, memory, kill_end }, dir))
        })();
        opened.map_err(|error: Errno| {
            let _ = fs::remove_dir(&path); // new and empty
            error.into()
        })
    }

    /// Returns whether the leaf has this name.
    pub fn is(&self, name: &str) -> bool {
        self.path.ends_with(name)
    }

    /// Kills every process in the leaf.
    ///
    /// # Errors
    /// If writing fails.
    pub fn kill(&self) -> io::Result<()> {
        rustix::io::write(&self.kill_end, b"1").map(|_| ()).map_err(Into::into)
    }

    /// Returns whether a process is in the leaf. If this can't be read, the leaf counts as populated.
    pub fn populated(&self) -> bool {
        number(&self.events, "populated") != Some(0)
    }

    /// Returns the processes in the leaf.
    pub fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        // `0` stands for a process outside of this pid namespace. As the target of a signal, it means a whole group.
        text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 1).collect()
    }

    /// Returns the resources that the leaf has used so far.
    pub fn usage(&self) -> LeafUsage {
        let [peak, events] = &self.memory;
        LeafUsage {
            cpu_us: number(&self.cpu, "usage_usec").unwrap_or(0),
            memory_peak: peak.as_ref().and_then(|file| text(file)?.trim().parse().ok()),
            oom_kills: events.as_ref().and_then(|file| number(file, "oom_kill")),
        }
    }

    /// Removes the leaf.
    ///
    /// # Errors
    /// If `rmdir` fails: `ResourceBusy` if a process is in the leaf.
    pub fn remove(&self) -> io::Result<()> {
        // A function of another user can't make groups in its leaf, since root owns the directory. If the spawner is
        // not root, a function can.
        fs::remove_dir(&self.path).or_else(|_| {
            super::remove_below(&self.path);
            fs::remove_dir(&self.path)
        })
    }
}

/// Returns the number after a name in a file of `NAME NUMBER` lines.
pub(super) fn number(file: &File, name: &str) -> Option<u64> {
    text(file)?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Returns the current content of a kernel file, read in one call: the longest, `cpu.stat`, is below 1 KiB.
fn text(file: &File) -> Option<String> {
    let mut bytes = [0; 4096];
    let length = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(bytes.get(..length)?).into_owned())
}

/// Waits until no process is in a group, at most `patience`; for use at start and end only.
pub(super) fn wait_empty(dir: &Path, patience: Duration) {
    let deadline = now() + patience;
    let Ok(events) = File::open(dir.join("cgroup.events")) else { return };
    let a_little = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    // The file is read before polling: the event is edge-triggered, and a missed one would not come again.
    while number(&events, "populated") != Some(0) && now() < deadline {
        let _ = poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&a_little)); // checked again above
    }
}
