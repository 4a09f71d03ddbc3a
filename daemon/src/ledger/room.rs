//! Whether the disk has room for the history, and how much of the database is in use.

use rusqlite::Connection;
use std::path::Path;

/// Free bytes below which the history makes do with the room it has.
const BYTES_LOW: u64 = 32 << 20;
/// Free inodes below which it does.
const INODES_LOW: u64 = 256;

/// What a disk has left for everybody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Free {
    /// Bytes.
    pub bytes: u64,
    /// Inodes; a file system that makes them as needed has no number of them.
    pub inodes: Option<u64>,
}

impl Free {
    /// Returns what is left where a path lies; nothing where that cannot be told.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        let disk = rustix::fs::statvfs(path).ok()?;
        Some(Self {
            bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
            inodes: (disk.f_files > 0).then_some(disk.f_favail),
        })
    }

    /// Says whether old history and output make room for new.
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.bytes < BYTES_LOW || self.inodes.is_some_and(|inodes| inodes < INODES_LOW)
    }
}

/// Says whether the disk of a database is nearly full.
pub(super) fn is_low(db: &Connection) -> bool {
    let directory = db.path().map(Path::new).and_then(Path::parent);
    directory.and_then(Free::at).is_some_and(|free| free.is_low())
}

/// Pages of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pages {
    /// Bytes of one.
    pub(super) size: u64,
    /// All in the file.
    pub(super) all: u64,
    /// Those that hold nothing.
    pub(super) free: u64,
}

impl Pages {
    pub(super) fn of(db: &Connection) -> rusqlite::Result<Self> {
        let read = |name: &str| db.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0));
        Ok(Self {
            size: read("page_size")?,
            all: read("page_count")?,
            free: read("freelist_count")?,
        })
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.all.saturating_sub(self.free).saturating_mul(self.size)
    }

    /// Bytes that can be used without a larger file.
    pub(super) fn reusable(&self) -> u64 {
        self.free.saturating_mul(self.size)
    }
}
