//! Whether the disk has room for the history, how much of the database is in use, and what may be forgotten for room.

use super::forget::Bounds;
use rusqlite::Connection;
use std::path::Path;
use std::time::Duration;

/// Free bytes below which the history makes do with the room it has.
pub(super) const BYTES_LOW: u64 = 32 << 20;
/// Free inodes below which it does.
const INODES_LOW: u64 = 256;
/// Bytes in use up to which recent history is not forgotten for room: somebody else has filled such a disk, and to forget
/// that little would not help them.
pub(crate) const SMALL: u64 = 64 << 20;
/// Age up to which history is recent: people come back after a weekend or a holiday to see what went wrong.
pub(crate) const RECENT: Duration = Duration::from_secs(7 * 86_400);
/// Age up to which an idempotency key is never forgotten for room: whoever was not answered sends the same request again
/// within hours, and without its key that would run twice.
const KEYS: Duration = Duration::from_secs(86_400);

/// What a round that makes room on the disk must leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spare {
    /// The first invocation whose key is kept. Dead letters are kept whatever their age: nobody has looked at them yet.
    pub(super) keys_from: u128,
}

/// Returns what may be forgotten for room on the disk, of a history that has so many bytes in use.
pub(super) fn may_go(now_ms: u64, used: u64) -> (Bounds, Spare) {
    let first_kept = if used < SMALL {
        first_of(now_ms, RECENT)
    } else {
        u128::MAX
    };
    let spare = Spare {
        keys_from: first_of(now_ms, KEYS),
    };
    (Bounds::before(first_kept), spare)
}

/// Returns the first id of an age: ids begin with their time.
pub(super) fn first_of(now_ms: u64, age: Duration) -> u128 {
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    u128::from(now_ms.saturating_sub(age_ms)) << 80
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recent_stays_while_the_history_is_small() {
        const DAY: u64 = 86_400_000;
        let now_ms = 100 * DAY;
        let week = u128::from(93 * DAY) << 80;
        for (used, first_kept) in [(0, week), (SMALL - 1, week), (SMALL, u128::MAX), (u64::MAX, u128::MAX)] {
            let (bounds, spare) = may_go(now_ms, used);
            assert_eq!(bounds, Bounds::before(first_kept), "{used}");
            assert_eq!(spare.keys_from, u128::from(99 * DAY) << 80);
        }
        assert_eq!(may_go(5, 0).0, Bounds::before(0), "a clock of 1970");
    }
}
