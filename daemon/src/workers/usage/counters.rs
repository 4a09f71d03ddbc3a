//! The counters of a function's cgroup, for `GET /v1/usage`: they are read when somebody asks, never otherwise.
//!
//! On cgroup v2 all are files of one directory. With version 1 controllers, CPU time is counted in the cgroup2 tree all
//! the same, since `cpu.stat` has `usage_usec` in each group; throttling, processes and memory are in the hierarchies of
//! their controllers, which all have the group at the same path.

use super::memory_now;
use fnd_wire::frame::MemoryGroups;
use procfs::process::{MountInfo, Process};
use std::path::{Path, PathBuf};

/// Where the groups of functions are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups {
    memory: MemoryGroups,
    /// The groups in the cgroup2 tree, named by the file form.
    unified: Option<PathBuf>,
    /// Groups `f.NAME` of the version 1 controllers.
    cpu: Option<PathBuf>,
    pids: Option<PathBuf>,
}

/// Counters of a function. Absent ones cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Microseconds of CPU time.
    pub cpu_us: Option<u64>,
    /// Periods of the CPU limit in which something could run.
    pub periods: Option<u64>,
    /// Periods in which the limit held it up.
    pub throttled_periods: Option<u64>,
    /// Microseconds for which the limit held it up.
    pub throttled_us: Option<u64>,
    /// Bytes of memory in use.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

impl Groups {
    /// Returns the places for where memory is counted, which the spawner reports. With version 1 controllers this reads
    /// the table of mounts.
    #[must_use]
    pub fn find(memory: &MemoryGroups) -> Self {
        let mounts: Vec<MountInfo> = match memory {
            MemoryGroups::V1(_) => {
                let mounts = Process::myself().and_then(|own| own.mountinfo());
                mounts.map(|mounts| mounts.into_iter().collect()).unwrap_or_default()
            }
            MemoryGroups::V2(_) | MemoryGroups::None => Vec::new(),
        };
        Self::among(memory, &mounts)
    }

    fn among(memory: &MemoryGroups, mounts: &[MountInfo]) -> Self {
        let mut groups = Self {
            memory: memory.clone(),
            unified: None,
            cpu: None,
            pids: None,
        };
        let v1 = |controller: &str| {
            let has = |mount: &&MountInfo| mount.fs_type == "cgroup" && mount.super_options.contains_key(controller);
            mounts.iter().find(has).map(|mount| &mount.mount_point)
        };
        match memory {
            MemoryGroups::None => {}
            MemoryGroups::V2(dir) => groups.unified = Some(PathBuf::from(dir)),
            MemoryGroups::V1(dir) => {
                let dir = Path::new(dir);
                let Some(path) = v1("memory").and_then(|mount| dir.strip_prefix(mount).ok()) else {
                    return groups;
                };
                let unified = mounts.iter().find(|mount| mount.fs_type == "cgroup2");
                // In a unit the spawner makes `UNIT/fnd` in the hierarchies and `UNIT/f` in the cgroup2 tree; else
                // both begin with its own `fnd-INSTANCE`.
                let base = if path.ends_with("fnd") {
                    path.parent().unwrap_or(path)
                } else {
                    path
                };
                groups.unified = unified.map(|mount| mount.mount_point.join(base).join("f"));
                groups.cpu = v1("cpu").map(|mount| mount.join(path));
                groups.pids = v1("pids").map(|mount| mount.join(path));
            }
        }
        groups
    }

    /// Returns the directory of a function, which is named by its file form, in the cgroup2 tree.
    #[must_use]
    pub fn unified(&self, function: &str) -> Option<PathBuf> {
        self.unified.as_ref().map(|dir| dir.join(function))
    }

    /// Reads the counters of a function, which is named by its file form.
    #[must_use]
    pub fn read(&self, function: &str) -> Counters {
        let unified = self.unified(function);
        let v1 = |dir: &Option<PathBuf>| dir.as_ref().map(|dir| dir.join(format!("f.{function}")));
        let read = |dir: &Option<PathBuf>, file: &str| std::fs::read_to_string(dir.as_ref()?.join(file)).ok();
        // The cgroup2 tree counts CPU time also where the controllers are those of version 1: `cpu.stat` is in every
        // group.
        let own = read(&unified, "cpu.stat").unwrap_or_default();
        let (limited, unit) = match &self.cpu {
            None => (own.clone(), ("throttled_usec", 1)),
            Some(_) => (
                read(&v1(&self.cpu), "cpu.stat").unwrap_or_default(),
                // Version 1 counts this time in nanoseconds, version 2 in microseconds.
                ("throttled_time", 1000),
            ),
        };
        let pids = if self.pids.is_some() { v1(&self.pids) } else { unified };
        Counters {
            cpu_us: number(&own, "usage_usec"),
            periods: number(&limited, "nr_periods"),
            throttled_periods: number(&limited, "nr_throttled"),
            throttled_us: number(&limited, unit.0).map(|time| time / unit.1),
            memory: memory_now(&self.memory, function),
            pids: read(&pids, "pids.current").and_then(|text| text.trim().parse().ok()),
        }
    }
}

/// Returns the number behind a word of a flat keyed file.
fn number(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    line.and_then(|number| number.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(kind: &str, at: &Path, options: &str) -> MountInfo {
        let line = format!("30 25 0:26 / {} rw,relatime - {kind} {kind} rw,{options}", at.display());
        MountInfo::from_line(&line).unwrap()
    }

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn of_v2_all_is_in_one_directory() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str| root.path().join("ops.backup").join(name);
        write(
            &file("cpu.stat"),
            "usage_usec 2500\nuser_usec 2000\nnr_periods 7\nnr_throttled 3\nthrottled_usec 900\n",
        );
        write(&file("memory.current"), "4096\n");
        write(&file("pids.current"), "2\n");
        let groups = Groups::among(&MemoryGroups::V2(root.path().display().to_string()), &[]);
        let expected = Counters {
            cpu_us: Some(2500),
            periods: Some(7),
            throttled_periods: Some(3),
            throttled_us: Some(900),
            memory: Some(4096),
            pids: Some(2),
        };
        assert_eq!(groups.read("ops.backup"), expected);
        assert_eq!(groups.read("hello"), Counters::default());
        // A kernel without the controllers counts the CPU time only.
        std::fs::write(file("cpu.stat"), "usage_usec 2600\n").unwrap();
        std::fs::remove_file(file("pids.current")).unwrap();
        let now = groups.read("ops.backup");
        assert_eq!((now.cpu_us, now.periods, now.pids), (Some(2600), None, None));
    }

    #[test]
    fn with_v1_controllers_each_hierarchy_has_a_part() {
        for (path, base) in [
            ("fnd-17", "fnd-17"),
            (
                "system.slice/fnd-spawner.service/fnd",
                "system.slice/fnd-spawner.service",
            ),
        ] {
            let root = tempfile::tempdir().unwrap();
            let at = |name: &str| root.path().join(name);
            let mounts = [
                mount("tmpfs", root.path(), "mode=755"),
                mount("cgroup", &at("cpu"), "cpu"),
                mount("cgroup", &at("memory"), "memory"),
                mount("cgroup", &at("pids"), "pids"),
                mount("cgroup2", &at("unified"), ""),
            ];
            write(&at("unified").join(base).join("f/hello/cpu.stat"), "usage_usec 2500\n");
            let limited = "nr_periods 7\nnr_throttled 3\nthrottled_time 900000\n";
            write(&at("cpu").join(path).join("f.hello/cpu.stat"), limited);
            write(&at("pids").join(path).join("f.hello/pids.current"), "2\n");
            let memory = MemoryGroups::V1(at("memory").join(path).display().to_string());
            let counters = Groups::among(&memory, &mounts).read("hello");
            assert_eq!(counters.cpu_us, Some(2500), "{path}");
            assert_eq!(counters.throttled_us, Some(900));
            assert_eq!((counters.periods, counters.throttled_periods), (Some(7), Some(3)));
            assert_eq!(counters.pids, Some(2));
        }
    }

    #[test]
    fn without_cgroups_nothing_is_counted() {
        assert_eq!(Groups::find(&MemoryGroups::None).read("hello"), Counters::default());
    }
}
