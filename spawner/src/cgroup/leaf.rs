//! A leaf: the cgroup one attempt is born in, and what is read and killed there.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The cgroup of one attempt.
#[derive(Debug)]
pub struct Leaf {
    path: PathBuf,
    /// The directory, for `CLONE_INTO_CGROUP`.
    pub dir: OwnedFd,
    /// `cgroup.events`, which polls `POLLPRI` when the leaf becomes empty.
    pub events: OwnedFd,
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
    /// Makes a leaf in a function's group.
    ///
    /// # Errors
    /// From making and opening it.
    pub fn make(group: &Path, name: &str) -> io::Result<Self> {
        let path = group.join(name);
        fs::create_dir(&path)?;
        // One that dies takes the others along: half a process tree is of no use. Absent without the controller.
        let _ = fs::write(path.join("memory.oom.group"), "1");
        let open = |file: &str, flags| rustix::fs::open(path.join(file), flags | OFlags::CLOEXEC, Mode::empty());
        let opened = (|| {
            let (dir, events) = (open("", OFlags::DIRECTORY)?, open("cgroup.events", OFlags::RDONLY)?);
            Ok(Self { path: path.clone(), dir, events, kill_end: open("cgroup.kill", OFlags::WRONLY)? })
        })();
        opened.map_err(|error: rustix::io::Errno| {
            let _ = fs::remove_dir(&path); // made just now, empty
            error.into()
        })
    }

    /// Kills every process in it.
    ///
    /// # Errors
    /// From writing.
    pub fn kill(&self) -> io::Result<()> {
        rustix::io::write(&self.kill_end, b"1").map(|_| ()).map_err(Into::into)
    }

    /// Says whether a process lives in it; one that can't be read counts as populated.
    pub fn populated(&self) -> bool {
        let mut text = [0; 128];
        let read = rustix::io::pread(&self.events, &mut text, 0).is_ok();
        !read || !String::from_utf8_lossy(&text).contains("populated 0")
    }

    /// Returns the processes in it.
    pub fn processes(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid > 1).collect()
    }

    /// Returns what it used so far.
    pub fn usage(&self) -> Usage {
        let peak = fs::read_to_string(self.path.join("memory.peak")).ok();
        Usage {
            cpu_us: number(&self.path.join("cpu.stat"), "usage_usec").unwrap_or(0),
            memory_peak: peak.and_then(|text| text.trim().parse().ok()),
            oom_kills: number(&self.path.join("memory.events.local"), "oom_kill"),
        }
    }

    /// Removes it.
    ///
    /// # Errors
    /// From `rmdir`, where it is still in use.
    pub fn remove(&self) -> io::Result<()> {
        // A function that owns its leaf can't make groups in it: the directory is root's. Without root it can.
        super::remove(&self.path);
        if self.path.exists() { Err(io::ErrorKind::ResourceBusy.into()) } else { Ok(()) }
    }
}

/// Returns the number behind a name in a file of `NAME NUMBER` lines.
pub(super) fn number(path: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Waits until nothing lives in a group; at most `patience`, for use at start and end only.
pub(super) fn wait_empty(dir: &Path, patience: Duration) {
    let Ok(file) = fs::File::open(dir.join("cgroup.events")) else {
        return;
    };
    let deadline = crate::clock::now() + patience;
    loop {
        // Read before polling: the event is edge-like, and one missed would be waited for in vain.
        let empty = number(&dir.join("cgroup.events"), "populated") == Some(0);
        let left = deadline.saturating_sub(crate::clock::now());
        if empty || left.is_zero() {
            return;
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos().clamp(1_000_000, 20_000_000)) };
        let _ = poll(&mut [PollFd::new(&file, PollFlags::PRI)], Some(&timeout)); // looked at again above
    }
}
