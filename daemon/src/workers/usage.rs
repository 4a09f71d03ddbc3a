//! The current use of memory by fnd itself and by running functions, for people: `status` and `top`. No decision
//! depends on it.
//!
//! - `counters`: the counters of a function's cgroup
//!
//! The spawner reports the usage of an attempt with its exit. Here cgroups-rs reads cgroup v1, and only reads: its v2
//! side writes to the host's root (docs/design/starts.md), so on v2 the one file is read directly.

pub mod counters;

use cgroups_rs::memory::MemController;
use fnd_wire::frame::MemoryGroups;
use procfs::process::Process;
use std::path::Path;

/// Returns the memory a function's group uses now, in bytes; absent where it cannot be read. `function` is the file
/// form.
///
/// On v1 each call reads a dozen files, about 0.1 ms: call it for running functions, not for all.
#[must_use]
pub fn memory_now(groups: &MemoryGroups, function: &str) -> Option<u64> {
    match groups {
        MemoryGroups::V2(dir) => {
            let text = std::fs::read_to_string(Path::new(dir).join(function).join("memory.current"));
            text.ok()?.trim().parse().ok()
        }
        MemoryGroups::V1(dir) => {
            // The group's path is given: a search in the mount table would cost as much again.
            let memory = MemController::new(Path::new(dir).join(format!("f.{function}")), false);
            // 0 means that there is no such group; a group in use has more.
            Some(memory.memory_stat().usage_in_bytes).filter(|bytes| *bytes > 0)
        }
        MemoryGroups::None => None,
    }
}

/// Returns the resident memory of this process and, if given, the spawner's, in bytes; a process that cannot be read
/// counts as 0.
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
        let groups = MemoryGroups::V2(root.path().display().to_string());
        assert_eq!(memory_now(&groups, "hello"), Some(4096));
        assert_eq!(memory_now(&groups, "other"), None);
        assert_eq!(memory_now(&MemoryGroups::None, "hello"), None);
    }

    /// The end-to-end tests show that a group in use is read.
    #[test]
    fn a_v1_group_that_is_not_there_has_no_memory_and_is_not_made() {
        let group = Path::new("/sys/fs/cgroup/memory/fnd-usage-test-without-group");
        let groups = MemoryGroups::V1(group.display().to_string());
        assert_eq!(memory_now(&groups, "hello"), None);
        assert!(!group.exists());
    }
}
