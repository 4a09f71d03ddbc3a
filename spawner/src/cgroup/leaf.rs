//! A leaf: the cgroup one attempt is born in, and what is read and killed there.

use crate::clock::now;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The cgroup of one attempt.
pub struct Leaf {
    path: PathBuf,
    /// Whether it has files of the memory controller.
    memory: bool,
    /// `cgroup.events`, once something was left in it: polls `POLLPRI` when that changed since it was read.
    events: Option<File>,
    /// `cgroup.kill`.
    pub kill_end: OwnedFd,
}

/// What a leaf used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in microseconds.
    pub cpu_us: u64,
    /// Peak memory, where the memory controller is in cgroup2 and the kernel is 5.19 or later.
    pub memory_peak: Option<u64>,
    /// Processes killed because memory ran out, where the memory controller is in cgroup2.
    pub oom_kills: Option<u64>,
}

impl Leaf {
    /// See [`Group::leaf`](super::Group::leaf).
    pub(super) fn make(group: &Path, name: &str, memory: bool) -> io::Result<(Self, OwnedFd)> {
        let path = group.join(name);
        fs::create_dir(&path)?;
        if memory {
            // One that dies takes the others along: half a process tree is of no use.
            let _ = fs::write(path.join("memory.oom.group"), "1");
        }
        let open = |file: &str, flags| rustix::fs::open(path.join(file), flags | OFlags::CLOEXEC, Mode::empty());
        let opened = (|| Ok((open("", OFlags::DIRECTORY)?, open("cgroup.kill", OFlags::WRONLY)?)))();
        let (dir, kill_end) = opened.inspect_err(|_: &rustix::io::Errno| {
            let _ = fs::remove_dir(&path); // made just now, empty
        })?;
        Ok((Self { path, memory, events: None, kill_end }, dir))
    }

    /// Kills every process in it.
    ///
    /// # Errors
    /// From writing.
    pub fn kill(&self) -> io::Result<()> {
        rustix::io::write(&self.kill_end, b"1").map(|_| ()).map_err(Into::into)
    }

    /// Opens what tells that it became empty.
    ///
    /// # Errors
    /// From opening it.
    pub fn open_events(&mut self) -> io::Result<&File> {
        Ok(self.events.insert(File::open(self.path.join("cgroup.events"))?))
    }

    /// Says whether a process lives in it, where [`open_events`](Self::open_events) was called; one that can't be read
    /// counts as populated.
    pub fn populated(&self) -> Option<bool> {
        self.events.as_ref().map(|events| number(events, "populated") != Some(0))
    }

    /// Returns the processes in it.
    pub fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 1).collect()
    }

    /// Returns what it used so far.
    pub fn usage(&self) -> Usage {
        let open = |name: &str| File::open(self.path.join(name)).ok();
        let memory = |name: &str| if self.memory { open(name) } else { None };
        Usage {
            cpu_us: open("cpu.stat").and_then(|file| number(&file, "usage_usec")).unwrap_or(0),
            memory_peak: memory("memory.peak").and_then(|file| text(&file)?.trim().parse().ok()),
            oom_kills: memory("memory.events.local").and_then(|file| number(&file, "oom_kill")),
        }
    }

    /// Removes it.
    ///
    /// # Errors
    /// From `rmdir`: `ResourceBusy` where something lives in it.
    pub fn remove(&self) -> io::Result<()> {
        // A function that owns its leaf can't make groups in it: the directory is root's. Without root it can.
        fs::remove_dir(&self.path).or_else(|_| {
            super::remove_below(&self.path);
            fs::remove_dir(&self.path)
        })
    }
}

/// Returns the number behind a name in a file of `NAME NUMBER` lines.
pub(super) fn number(file: &File, name: &str) -> Option<u64> {
    text(file)?.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Returns what a file of the kernel's says now, in one call: the longest, `cpu.stat`, is below 1 KiB.
fn text(file: &File) -> Option<String> {
    let mut bytes = [0; 4096];
    let length = file.read_at(&mut bytes, 0).ok()?;
    Some(String::from_utf8_lossy(bytes.get(..length)?).into_owned())
}

/// Waits until nothing lives in a group; at most `patience`, for use at start and end only.
pub(super) fn wait_empty(dir: &Path, patience: Duration) {
    let deadline = now() + patience;
    let Ok(events) = File::open(dir.join("cgroup.events")) else { return };
    let a_little = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    // Read before polling: the event is edge-like, and one missed would be waited for in vain.
    while number(&events, "populated") != Some(0) && now() < deadline {
        let _ = poll(&mut [PollFd::new(&events, PollFlags::PRI)], Some(&a_little)); // looked at again above
    }
}
