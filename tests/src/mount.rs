//! A small file system in memory over a directory, for as long as a test needs it.

use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A tmpfs; dropping it unmounts it.
#[derive(Debug)]
pub struct Mount(PathBuf);

impl Mount {
    /// Mounts one of that size (`1m`) over a directory.
    ///
    /// # Panics
    /// When that fails: `require!(root)` comes first.
    #[must_use]
    pub fn over(directory: &Path, size: &str) -> Self {
        let options = format!("size={size},mode=0755");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "fnd-test"]).arg(directory);
        assert!(mount.status().expect("mount is installed").success());
        Self(directory.to_owned())
    }

    /// Gives it another size.
    ///
    /// # Panics
    /// When that fails.
    pub fn resize(&self, size: &str) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={size}")]).arg(&self.0);
        assert!(mount.status().expect("mount is installed").success());
    }
}

/// Returns whether files of a directory are in memory (tmpfs), as those in `/run` are.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn is_in_memory(directory: &Path) -> bool {
    statfs(directory).expect("it can be read").filesystem_type() == TMPFS_MAGIC
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a process may still have a file open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
