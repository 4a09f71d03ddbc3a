//! Makes room in the database and returns free pages to the disk.

use super::Sweeper;
use super::forget::{KeepBounds, Round, Scope};
use crate::ledger::room::{self, Pages};
use rusqlite::Connection;
use std::time::Duration;

/// How long making room rests after a whole round that forgot no record.
const REST: Duration = Duration::from_secs(60);
/// Bytes inside the database that stay free for new records while the disk is nearly full.
pub(super) const RESERVE: u64 = 4 << 20;
/// Free pages returned to the disk in one step.
const SHRINK_PAGES: u32 = 128;
/// Free bytes that are never returned to the disk, because they are used again soon.
pub(super) const SPARE: u64 = 16 << 20;

/// Why the oldest records are forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// The history exceeds its limit of bytes.
    Bytes,
    /// The disk is nearly full.
    Disk,
}

impl Sweeper {
    /// Forgets the oldest invocations of all functions, as far as that is allowed.
    pub(super) fn make_room(&mut self, db: &Connection, why: Room, pages: Pages) -> rusqlite::Result<bool> {
        let now = (self.clock)();
        if self.rests_until.is_some_and(|until| now.mono < until) {
            return Ok(false);
        }
        let (bounds, keys_from) = match why {
            Room::Bytes => (KeepBounds::before(u128::MAX), None),
            Room::Disk => {
                // A clock that is not trusted makes no record old here either.
                let now_ms = self.age.ahead_of().unwrap_or(now.unix_ms);
                let (bounds, keys_from) = room::may_go(now_ms, pages.used());
                (bounds, Some(keys_from))
            }
        };
        let before = self.making_room.take().filter(|(before, _)| *before == why);
        let mut round = before.map_or_else(|| Round::new(Scope::All, bounds), |(_, round)| round);
        // The history may have become small in the meantime.
        (round.bounds, round.keys_from) = (bounds, keys_from);
        let done = round.step(db)?;
        match why {
            Room::Bytes => self.forgotten += done.forgotten as u64,
            Room::Disk => self.forgetting.for_room += done.forgotten as u64,
        }
        if !done.over {
            self.making_room = Some((why, round));
        } else if done.forgotten == 0 {
            // All records that may be forgotten have been.
            self.rests_until = Some(now.mono + REST);
            return Ok(false);
        }
        Ok(true)
    }
}

/// Returns some free pages to the disk.
pub(super) fn shrink(db: &Connection, before: Pages) -> rusqlite::Result<bool> {
    let mut statement = db.prepare_cached(&format!("PRAGMA incremental_vacuum({SHRINK_PAGES})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(Pages::of(db)?.all < before.all)
}
