//! The free space of a file system, and whether it is low.

use std::path::Path;

/// Free bytes below which the disk counts as nearly full, and the history has to manage with the room it has.
pub(crate) const BYTES_LOW: u64 = 32 << 20;
/// Free inodes below which the same applies.
const INODES_LOW: u64 = 256;

/// The free space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreeSpace {
    pub bytes: u64,
    /// Free inodes; absent if the file system has no fixed number of them.
    pub inodes: Option<u64>,
}

impl FreeSpace {
    /// Returns the free space of the file system of a path; nothing if it cannot be read.
    #[must_use]
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let disk = rustix::fs::statvfs(path).ok()?;
        Some(Self {
            // Blocks that only root may use do not count: fnd is not root (statvfs(3)).
            bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
            inodes: (disk.f_files > 0).then_some(disk.f_favail),
        })
    }

    /// Returns whether the disk is nearly full, so that old history and output must make room for new.
    #[must_use]
    pub(crate) fn is_low(&self) -> bool {
        self.bytes < BYTES_LOW || self.inodes.is_some_and(|inodes| inodes < INODES_LOW)
    }
}
