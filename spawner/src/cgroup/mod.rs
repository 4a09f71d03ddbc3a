//! Makes the cgroups that functions run in: finds the hierarchies and the usable controllers, and makes the tree below.
//!
//! BASE is the delegated systemd unit that the spawner runs in, otherwise (as root) a top-level `fnd-INSTANCE` in each
//! hierarchy. Groups of other programs are never changed. Source: cgroups(7), kernel `admin-guide/cgroup-v2.rst`,
//! systemd `CGROUP_DELEGATION.md`.
//!
//! Files:
//! - `detect`: hierarchies, and what may be used of them
//! - `leaf`: the group of one attempt
//! - `limits`: writes limits and reads them back

pub mod detect;
pub mod leaf;
pub mod limits;

use fnd_wire::frame::MemoryGroups;
use fnd_wire::plan::Limits;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use detect::{Hierarchy, hierarchies};
pub use leaf::{Leaf, LeafUsage};

/// The kernel's names of the controllers that are used; `io` on cgroup2 only.
pub const CONTROLLERS: [&str; 4] = ["memory", "pids", "cpu", "io"];

/// The directory with a controller's files: in the cgroup2 tree, or in a v1 hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Home {
    controller: &'static str,
    v1: bool,
    dir: PathBuf,
}

/// The counters of a function as a whole: controller, whether it is a v1 hierarchy, file, and name in that file.
const COUNTERS: [(&str, bool, &str, &str); 5] = [
    ("memory", true, "memory.oom_control", "oom_kill"),
    ("pids", false, "pids.events", "max"),
    ("pids", true, "pids.events", "max"),
    ("cpu", false, "cpu.stat", "throttled_usec"),
    ("cpu", true, "cpu.stat", "throttled_time"),
];

/// The spawner's part of the cgroup hierarchies.
pub struct CgroupTree {
    base: PathBuf,
    /// The directory of the functions' groups.
    functions: PathBuf,
    homes: Vec<Home>,
    device: Option<String>,
    /// The limits that can't be enforced, with the reason.
    pub missing: Vec<(String, String)>,
}

/// Returns all limits, with the reason why none can be enforced, for a machine without usable cgroups.
pub fn nothing(why: &str) -> Vec<(String, String)> {
    limits::LIMITS.iter().map(|limit| (limit.0.to_owned(), why.to_owned())).collect()
}

impl CgroupTree {
    /// Makes the spawner's directories in the given hierarchies.
    ///
    /// `name` is the top-level directory used outside a delegated unit, `device` the `MAJOR:MINOR` of the device whose
    /// IO is limited.
    ///
    /// # Errors
    /// Why cgroups can't be used at all, for people.
    pub fn open(hierarchies: &[Hierarchy], name: &str, device: Option<String>) -> Result<Self, String> {
        let has = |hierarchy: &Hierarchy, file| hierarchy.mount.join(file).exists();
        let unified = hierarchies.iter().find(|it| it.controllers.is_empty() && has(it, "cgroup.procs"));
        let unified = unified.filter(|it| has(it, "cgroup.controllers")).ok_or("no cgroup2 file system is mounted")?;
        let unit = unified.own.as_deref().and_then(detect::delegated);
        let base = unit.clone().unwrap_or_else(|| unified.mount.join(name));
        let hold = base.join("hold");
        let failed = |error: io::Error| format!("failed to use cgroup `{}`: {error}", base.display());
        make(&base).map_err(failed)?;
        if unit.is_some() {
            // A group whose children have controllers may have no processes of its own (cgroup-v2.rst, "No Internal
            // Process Constraint"), so this process moves into a child.
            make(&hold).and_then(|()| fs::write(hold.join("cgroup.procs"), "0")).map_err(failed)?;
        }
        let functions = base.join("f");
        make(&functions).map_err(failed)?;
        let mut homes = Vec::new();
        for controller in CONTROLLERS {
            let v1 = hierarchies.iter().find(|hierarchy| hierarchy.controllers.iter().any(|found| found == controller));
            // In a unit, the process's own v1 directory belongs to the unit; the top of the hierarchy is shared with
            // everybody.
            let v1 = v1.map(|hierarchy| match &hierarchy.own {
                Some(own) if unit.is_some() && *own != hierarchy.mount => own.join("fnd"),
                _ => hierarchy.mount.join(name),
            });
            if let Some(dir) = v1.filter(|dir| make(dir).is_ok()) {
                homes.push(Home { controller, v1: true, dir });
            } else if detect::enable(controller, &base, &functions) {
                homes.push(Home { controller, v1: false, dir: functions.clone() });
            }
        }
        let lacking = |limit: &limits::Limit| {
            Some((limit.0.to_owned(), limits::lacking(limit, &homes, &base, device.as_deref())?))
        };
        let missing = limits::LIMITS.iter().filter_map(lacking).collect();
        Ok(Self { base, functions, homes, device, missing })
    }

    /// Returns the layout as a word: `v2` or `hybrid`.
    pub fn layout(&self) -> &'static str {
        if self.homes.iter().any(|home| home.v1) { "hybrid" } else { "v2" }
    }

    /// Returns where the memory of functions is counted.
    pub fn memory(&self) -> MemoryGroups {
        let dir = |home: &Home| home.dir.display().to_string();
        match self.homes.iter().find(|home| home.controller == "memory") {
            Some(home) if home.v1 => MemoryGroups::V1(dir(home)),
            Some(home) => MemoryGroups::V2(dir(home)),
            None => MemoryGroups::None,
        }
    }

    /// Makes the groups of a function if they are missing, and opens them; `name` is the file form.
    ///
    /// # Errors
    /// If a directory can't be made.
    pub fn group(&self, name: &str) -> io::Result<Group> {
        let dir = self.functions.join(name);
        make(&dir)?;
        let mut homes = self.homes.clone();
        for home in &mut homes {
            home.dir = if home.v1 { home.dir.join(format!("f.{name}")) } else { dir.clone() };
            make(&home.dir)?;
            if (home.controller, home.v1) == ("memory", false) {
                // Leaves need only `memory` (oom.group, peak, events.local); limits of pids and cpu are set for the
                // whole function.
                fs::write(dir.join("cgroup.subtree_control"), "+memory")?;
            }
        }
        // The launcher gets a leaf: a group that has controllers for its children may have no processes itself.
        make(&dir.join("l"))?;
        let open = |home: &Home| {
            let is_of = |counter: &&(&str, bool, &str, &str)| (counter.0, counter.1) == (home.controller, home.v1);
            let (.., file, name) = COUNTERS.iter().find(is_of)?;
            Some((*name, fs::File::open(home.dir.join(file)).ok()?))
        };
        let counters = homes.iter().filter_map(open).collect();
        Ok(Group { dir, homes, counters, device: self.device.clone() })
    }

    /// Limits the memory of all functions together, including files in shared memory, which outlive a run. If functions
    /// use more than the limit now, setting it would kill processes; then the old limit stays.
    ///
    /// # Errors
    /// Why the limit is not in force, for people.
    pub fn bound_memory(&self, bytes: u64) -> Result<(), String> {
        // Without the controller, `missing` lists the limit.
        let Some(home) = self.homes.iter().find(|home| home.controller == "memory") else { return Ok(()) };
        let names =
            if home.v1 { ["memory.usage_in_bytes", "memory.limit_in_bytes"] } else { ["memory.current", "memory.max"] };
        let [used, limit] = names.map(|name| home.dir.join(name));
        let used = fs::read_to_string(used).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        if used >= bytes {
            return Err(format!("functions now use {used} bytes, more than the {bytes} of `[node] memory`"));
        }
        fs::write(&limit, bytes.to_string()).map_err(|error| format!("failed to write `{}`: {error}", limit.display()))
    }

    /// Kills all processes of all functions, and waits until they are gone; at most `patience`.
    fn kill_all(&self, patience: Duration) {
        // The file is missing before Linux 5.14. Then the launchers end at the end of their sockets.
        let _ = fs::write(self.functions.join("cgroup.kill"), "1");
        leaf::wait_empty(&self.functions, patience);
    }

    /// Kills the processes that an earlier spawner with the same base left, and removes their groups.
    pub fn kill_remaining(&self, patience: Duration) {
        self.kill_all(patience);
        remove_below(&self.functions);
    }

    /// Kills all processes, waits until they are gone (at most `patience`) and removes the groups below the base;
    /// outside a unit also the base.
    pub fn clear(&self, patience: Duration) {
        self.kill_all(patience);
        remove(&self.functions);
        self.homes.iter().filter(|home| home.v1).for_each(|home| remove(&home.dir));
        if !self.base.join("hold").exists() {
            remove(&self.base);
        }
    }
}

/// The groups of one function.
pub struct Group {
    /// The directory that holds the leaves.
    pub dir: PathBuf,
    homes: Vec<Home>,
    /// The counters: each with its name and its file, kept open because it is read twice for each attempt.
    counters: Vec<(&'static str, fs::File)>,
    device: Option<String>,
}

/// Counters of a function as a whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Processes killed because memory ran out; v1 only, on cgroup2 the leaf counts them.
    pub oom_kills: u64,
    /// Forks that the pids limit refused.
    pub pids_refused: u64,
    /// Microseconds in which the CPU quota throttled the function.
    pub throttled_us: u64,
}

impl Group {
    /// Returns the v1 directories that a process has to enter itself.
    pub fn v1_dirs(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = self.homes.iter().filter(|home| home.v1).map(|home| home.dir.clone()).collect();
        dirs.sort();
        dirs.dedup(); // `cpu,cpuacct` and the like are one mount
        dirs
    }

    /// Returns the v1 memory group, if memory is limited there.
    pub fn v1_memory(&self) -> Option<&Path> {
        self.homes.iter().find(|home| home.v1 && home.controller == "memory").map(|home| home.dir.as_path())
    }

    /// Writes the limits and reads them back.
    ///
    /// # Errors
    /// The limits that are not in force, with the reason.
    pub fn apply(&self, limits: &Limits) -> Result<(), String> {
        let mut failed = Vec::new();
        self.homes.iter().for_each(|home| limits::apply(home, limits, self.device.as_deref(), &mut failed));
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
    }

    /// Returns the function's counters; a counter that can't be read is 0.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        for (name, file) in &self.counters {
            let number = leaf::number(file, name).unwrap_or(0);
            match *name {
                "oom_kill" => counters.oom_kills = number,
                "max" => counters.pids_refused = number,
                "throttled_time" => counters.throttled_us = number / 1000,
                _ => counters.throttled_us = number,
            }
        }
        counters
    }

    /// Returns whether the function uses half or more of its memory or of its processes. Such a function may be the
    /// reason when the kernel refuses a start for want of either, so only its own starts fail; otherwise it could hold
    /// up all others.
    pub fn is_at_its_limits(&self) -> bool {
        let of_v1 = ("memory.usage_in_bytes", "memory.limit_in_bytes");
        let files = [("pids.current", "pids.max"), ("memory.current", "memory.max"), of_v1];
        let read = |home: &Home, file: &str| fs::read_to_string(home.dir.join(file)).ok()?.trim().parse::<u64>().ok();
        let half = |home: &Home| {
            let both = |(used, most)| read(home, used).zip(read(home, most));
            files.into_iter().filter_map(both).any(|(used, most)| used.saturating_mul(2) >= most)
        };
        self.homes.iter().any(half)
    }

    /// Removes the function's groups; groups still in use stay.
    pub fn remove(&self) {
        remove(&self.dir);
        self.homes.iter().filter(|home| home.v1).for_each(|home| remove(&home.dir));
    }
}

/// Returns the name of the leaf that a process is in, or was in when it ended; none if that can't be read.
pub fn leaf_of(pid: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    leaf(text.lines().find_map(|line| line.strip_prefix("0::"))?).map(str::to_owned)
}

fn leaf(path: &str) -> Option<&str> {
    // The kernel marks the path of a group that was removed like this (cgroups(7)).
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().filter(|name| name.starts_with('w'))
}

/// Removes top-level trees of spawners that have ended; `rmdir` itself refuses one with processes.
pub fn remove_stale(hierarchies: &[Hierarchy], alive: impl Fn(&str) -> bool) {
    for hierarchy in hierarchies {
        for entry in fs::read_dir(&hierarchy.mount).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.strip_prefix("fnd-")) else { continue };
            if pid.bytes().all(|b| b.is_ascii_digit()) && !alive(pid) {
                remove(&entry.path());
            }
        }
    }
}

fn make(dir: &Path) -> io::Result<()> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Removes a directory of cgroups, leaves first. The files in it belong to the kernel and go with it.
fn remove(dir: &Path) {
    remove_below(dir);
    let _ = fs::remove_dir(dir); // still in use, or gone already; the next start tries again
}

fn remove_below(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
