//! Finds the processes and cgroups that a stopped fnd has left, which is an error.

use crate::require::cgroup2;
use std::fs;
use std::path::{Path, PathBuf};

/// The traces of one private fnd.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Name of its top-level cgroups.
    pub cgroup: String,
    /// Its private root; the environment of every function has paths below it.
    pub root: PathBuf,
}

impl Mark {
    /// Returns the remaining processes and cgroups, as text; empty if there are none.
    #[must_use]
    pub fn find(&self) -> Vec<String> {
        let mut left = self.processes();
        left.extend(
            self.cgroups()
                .into_iter()
                .map(|path| format!("cgroup {}", path.display())),
        );
        left
    }

    /// Returns the processes that are in its cgroups or carry its paths in their environment.
    #[must_use]
    pub fn processes(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else {
                continue;
            };
            let path = entry.path();
            if pid != std::process::id() && self.owns(&path) && !waits_for_init(&path) {
                let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let command = String::from_utf8_lossy(&command).replace('\0', " ");
                found.push(format!("process {pid} `{}`", command.trim()));
            }
        }
        found
    }

    /// A process that ended meanwhile can't be read, and does not count. A zombie counts: its parent has not waited for
    /// it.
    fn owns(&self, process: &Path) -> bool {
        let cgroups = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
        if cgroups
            .lines()
            .any(|line| line.split(['/', ':']).any(|part| part == self.cgroup))
        {
            return true;
        }
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let root = self.root.as_os_str().as_encoded_bytes();
        environment.windows(root.len()).any(|window| window == root)
    }

    /// Returns its top-level cgroups, in every hierarchy.
    #[must_use]
    pub fn cgroups(&self) -> Vec<PathBuf> {
        let base = Path::new("/sys/fs/cgroup");
        let hierarchies = fs::read_dir(base)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        std::iter::once(base.to_path_buf())
            .chain(hierarchies)
            .map(|path| path.join(&self.cgroup))
            .filter(|path| path.exists())
            .collect()
    }

    /// Kills and removes the leftovers of a failed test, so that the next test finds a clean machine.
    pub fn sweep(&self) {
        if let Some(tree) = cgroup2() {
            // The cgroup does not exist or is empty: nothing to kill.
            let _ = fs::write(tree.join(&self.cgroup).join("cgroup.kill"), "1");
        }
        for cgroup in self.cgroups() {
            remove_tree(&cgroup);
        }
    }
}

/// Returns whether a process is a zombie that process 1 must wait for. Its parent has ended, so no program of fnd can do that; the
/// process 1 of a container may take seconds.
fn waits_for_init(process: &Path) -> bool {
    let stat = fs::read(process.join("stat")).unwrap_or_default();
    let stat = String::from_utf8_lossy(&stat);
    // State, parent and, later, the number of threads follow the name, which may contain anything, in parentheses: proc_pid_stat(5).
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let is_zombie = (fields.next(), fields.next()) == (Some("Z"), Some("1"));
    // A process whose first thread alone has ended shows as a zombie, too.
    is_zombie && matches!(fields.nth(15), Some("0" | "1"))
}

/// Removes a cgroup and those below it; one that is still busy stays, and is reported.
fn remove_tree(cgroup: &Path) {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    let _ = fs::remove_dir(cgroup);
}
