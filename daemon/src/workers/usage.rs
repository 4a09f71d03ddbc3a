//! What fnd itself and running functions use now, for people: `status` and `top`. Nothing is decided by it.
//!
//! The measures of an attempt come with its exit, from the spawner. Here cgroups-rs reads cgroup v1, and only reads: its
//! v2 side writes to the host's root (facts in ARCHITECTURE.md), so on v2 the one file is read directly.

use cgroups_rs::fs::cgroup::Cgroup;
use cgroups_rs::fs::hierarchies::V1;
use cgroups_rs::fs::memory::MemController;
use procfs::process::Process;
use std::path::{Path, PathBuf};

/// Where functions' memory is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryGroups {
    /// cgroup v2: the directory that has one directory per function.
    V2(PathBuf),
    /// cgroup v1: path of the same in the memory hierarchy, relative to its mount.
    V1(String),
    /// Nowhere.
    None,
}

impl MemoryGroups {
    /// Returns the memory a function's group uses now, in bytes; absent where that cannot be told.
    ///
    /// On v1 each call reads the mount table, about 0.1 ms: ask for functions that run, not for all there are.
    #[must_use]
    pub fn usage(&self, group: &str) -> Option<u64> {
        match self {
            Self::V2(root) => read_number(&root.join(group).join("memory.current")),
            Self::V1(root) => {
                let path = format!("{}/{group}", root.trim_start_matches('/'));
                let only_memory = vec!["memory".to_owned()];
                // `load` makes and changes nothing; the hierarchy is named, never guessed.
                let cgroup = Cgroup::load_with_specified_controllers(Box::new(V1::new()), path, only_memory);
                let memory: &MemController = cgroup.controller_of()?;
                // It reads 0 where there is no such group; a group in use has more.
                Some(memory.memory_stat().usage_in_bytes).filter(|bytes| *bytes > 0)
            }
            Self::None => None,
        }
    }
}

fn read_number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the resident memory of this process and, if given, the spawner's, in bytes; what cannot be read counts nothing.
#[must_use]
pub fn resident(spawner: Option<i32>) -> u64 {
    let processes = [Process::myself().ok(), spawner.and_then(|pid| Process::new(pid).ok())];
    let pages = processes
        .into_iter()
        .flatten()
        .filter_map(|process| process.statm().ok());
    pages
        .map(|statm| statm.resident.saturating_mul(procfs::page_size()))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_memory() {
        let own = resident(None);
        assert!(own > 1 << 20 && own < 16 << 30, "{own}");
        let own_pid = i32::try_from(std::process::id()).unwrap();
        assert!(resident(Some(own_pid)) > own, "the spawner's is added");
        assert!(resident(Some(i32::MAX)) > 0, "one that is gone counts nothing");
    }

    #[test]
    fn a_v2_group_is_read_from_its_file() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("hello")).unwrap();
        std::fs::write(root.path().join("hello/memory.current"), "4096\n").unwrap();
        let groups = MemoryGroups::V2(root.path().into());
        assert_eq!(groups.usage("hello"), Some(4096));
        assert_eq!(groups.usage("other"), None);
        assert_eq!(MemoryGroups::None.usage("hello"), None);
    }

    #[test]
    fn a_v1_group_is_read_and_nothing_is_made() {
        let own = procfs::process::Process::myself().unwrap().cgroups().unwrap();
        let Some(memory) = own
            .into_iter()
            .find(|group| group.controllers.iter().any(|name| name == "memory"))
        else {
            println!("skipped: there is no memory hierarchy of cgroup v1 here");
            return;
        };
        let (root, group) = memory.pathname.rsplit_once('/').unwrap_or(("", ""));
        println!(
            "{}: {:?}",
            memory.pathname,
            MemoryGroups::V1(root.to_owned()).usage(group)
        );
        let groups = MemoryGroups::V1("fnd-usage-test-without-group".to_owned());
        assert_eq!(groups.usage("hello"), None);
        assert!(!Path::new("/sys/fs/cgroup/memory/fnd-usage-test-without-group").exists());
    }
}
