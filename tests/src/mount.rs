//! A small file system over a directory, for as long as a test needs it: in memory, or on a disk that can fail.

use nix::sys::stat::{minor, stat};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mount; dropping it unmounts it.
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

    /// Mounts the ext4 of an image over a directory; it becomes read-only at its first error. An image that exists is
    /// repaired before, as at a boot. The loop device goes with the mount.
    ///
    /// # Panics
    /// When that fails: `require!(root, disk)` comes first.
    #[must_use]
    pub fn of_disk(image: &Path, directory: &Path) -> Self {
        if image.exists() {
            let repaired = Command::new("e2fsck").args(["-p"]).arg(image).status();
            // 1: errors were corrected.
            assert!(
                repaired
                    .expect("e2fsck is installed")
                    .code()
                    .is_some_and(|code| code <= 1)
            );
        } else {
            File::create(image)
                .and_then(|file| file.set_len(64 << 20))
                .expect("an image");
            run(Command::new("mkfs.ext4").arg("-q").arg(image));
        }
        run(Command::new("mount")
            .args(["-o", "loop,errors=remount-ro"])
            .args([image, directory]));
        Self(directory.to_owned())
    }

    /// Lets the disk have an error; the kernel makes its file system read-only, although files are open for writing.
    ///
    /// # Panics
    /// When that fails, or if it is not a mount of [`Self::of_disk`].
    pub fn fail(&self) {
        let device = minor(stat(&self.0).expect("it is mounted").st_dev);
        let trigger = format!("/sys/fs/ext4/loop{device}/trigger_fs_error");
        fs::write(trigger, "1").expect("a disk of its own");
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

fn run(command: &mut Command) {
    assert!(command.status().expect("it is installed").success(), "{command:?}");
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a process may still have a file open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
