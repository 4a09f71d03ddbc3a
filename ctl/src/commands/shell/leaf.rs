//! The cgroup of a shell: a leaf of its own beside the leaves of the function's workers, so that the function's limits hold for it.
//!
//! A worker's leaf would not do: a run ends when its leaf is empty, and fnd-spawner kills the rest then. fnd-spawner neither counts nor
//! kills processes in a leaf with another name. It does not remove the function's group while a shell is in it; it uses the group again,
//! or removes it at its own end. An empty leaf, of a fndctl that was killed, goes with the group.

use rustix::event::{Timespec, poll};
use std::fs::{self, File};
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

/// The leaf of one shell. When this is dropped, its processes are killed, and the leaf is removed.
pub(super) struct ShellLeaf(PathBuf);

impl ShellLeaf {
    /// Makes a leaf in a function's group.
    pub(super) fn make(group: &Path) -> Result<Self> {
        // Names with `w` and `l` are those of workers and of the launcher.
        let leaf = group.join(format!("s{}", std::process::id()));
        match fs::create_dir(&leaf) {
            // Of an earlier fndctl with this number.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made?,
        }
        Ok(Self(leaf))
    }

    /// Opens the files through which a process enters this leaf and groups of version 1.
    pub(super) fn entries(&self, v1: &[PathBuf]) -> Result<Vec<File>> {
        let groups = v1.iter().chain([&self.0]);
        let open = |group: &PathBuf| File::options().write(true).open(group.join("cgroup.procs"));
        groups.map(open).collect()
    }
}

impl Drop for ShellLeaf {
    fn drop(&mut self) {
        // Errors are ignored: what stays here, fnd-spawner removes.
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        let a_little = Timespec {
            tv_sec: 0,
            tv_nsec: 20_000_000,
        };
        // It cannot be removed before the last process has ended.
        for _ in 0..100 {
            let removed = fs::remove_dir(&self.0);
            if !removed.is_err_and(|error| error.kind() == ErrorKind::ResourceBusy) {
                break;
            }
            let _ = poll(&mut [], Some(&a_little));
        }
    }
}
