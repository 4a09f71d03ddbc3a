//! Says whether the disk has room for the history, how much of the database is in use, and which records may be
//! forgotten to make room.

use super::sweeper::forget::KeepBounds;
use crate::free_space::FreeSpace;
use rusqlite::Connection;
use std::path::Path;
use std::time::Duration;

/// Bytes in use up to which recent history is not forgotten to make room: other data has filled such a disk, and
/// forgetting that little would not help.
pub(crate) const SMALL: u64 = 64 << 20;
/// Age up to which history is recent: users come back after a weekend or a holiday to see what went wrong.
pub(crate) const RECENT: Duration = Duration::from_secs(7 * 86_400);
/// Age up to which an idempotency key is never forgotten to make room: a caller that got no answer sends its request
/// again within hours, and without the key it would run twice.
const KEYS: Duration = Duration::from_secs(86_400);

/// Returns which records may be forgotten to make room on the disk, if the history uses this many bytes, and the first invocation whose
/// key is kept. Dead letters are kept whatever their age: no user has handled them yet.
pub(super) fn may_go(now_ms: u64, used: u64) -> (KeepBounds, u128) {
    let first_kept = if used < SMALL {
        first_of(now_ms, RECENT)
    } else {
        u128::MAX
    };
    (KeepBounds::before(first_kept), first_of(now_ms, KEYS))
}

/// Returns the first id that is not older than an age: ids begin with their time.
pub(super) fn first_of(now_ms: u64, age: Duration) -> u128 {
    let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    u128::from(now_ms.saturating_sub(age_ms)) << 80
}

/// Returns whether the disk of a database is nearly full.
pub(super) fn is_low(db: &Connection) -> bool {
    let directory = db.path().map(Path::new).and_then(Path::parent);
    directory.and_then(FreeSpace::at).is_some_and(|free| free.is_low())
}

/// Pages of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pages {
    /// Bytes of one page.
    pub(super) size: u64,
    /// Number of pages in the file.
    pub(super) all: u64,
    /// Number of unused pages.
    pub(super) free: u64,
}

impl Pages {
    pub(super) fn of(db: &Connection) -> rusqlite::Result<Self> {
        let read = |sql: &str| db.prepare_cached(sql)?.query_row([], |row| row.get(0));
        Ok(Self {
            size: read("PRAGMA page_size")?,
            all: read("PRAGMA page_count")?,
            free: read("PRAGMA freelist_count")?,
        })
    }

    /// Returns the bytes in use.
    pub(super) fn used(&self) -> u64 {
        self.all.saturating_sub(self.free).saturating_mul(self.size)
    }

    /// Returns the bytes that can be used without making the file larger.
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
            let (bounds, keys_from) = may_go(now_ms, used);
            assert_eq!(bounds, KeepBounds::before(first_kept), "{used}");
            assert_eq!(keys_from, u128::from(99 * DAY) << 80);
        }
        assert_eq!(may_go(5, 0).0, KeepBounds::before(0), "a clock of 1970");
    }
}
