//! Notices about a ledger that was set aside: a note of what happened, the reason if durable work is refused, and whether
//! queued work waits. They stay in `meta` until a user confirms them with `fndctl verify --repair`.

use super::meta;
use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;

/// Keys in `meta`.
const NOTE: &str = "set-aside";
const HOLD: &str = "hold";
const QUEUE: &str = "hold-queue";

/// The notices of a ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Notices {
    /// The note that a damaged ledger was set aside.
    pub(super) note: Option<Arc<str>>,
    /// The reason why durable work is refused.
    pub(super) hold: Option<Arc<str>>,
    /// Whether queued work waits, too: what was read is of an earlier moment, so some of it may have run.
    pub(super) holds_queue: bool,
}

impl Notices {
    /// Returns whether there is no notice.
    pub(super) fn is_clear(&self) -> bool {
        self.note.is_none() && self.hold.is_none() && !self.holds_queue
    }

    /// Stores the notices in a new database. An earlier refusal stays until it is confirmed.
    pub(super) fn set(&self, path: &Path) -> rusqlite::Result<()> {
        let db = Connection::open(path)?;
        // The key alone says it: any value will do.
        let queue = self.holds_queue.then_some("yes");
        for (key, value) in [
            (NOTE, self.note.as_deref()),
            (HOLD, self.hold.as_deref()),
            (QUEUE, queue),
        ] {
            if let Some(value) = value {
                meta::set(&db, key, value)?;
            }
        }
        Ok(())
    }
}

pub(super) fn read(db: &Connection) -> rusqlite::Result<Notices> {
    Ok(Notices {
        note: meta::get(db, NOTE)?.map(Arc::from),
        hold: meta::get(db, HOLD)?.map(Arc::from),
        holds_queue: meta::get(db, QUEUE)?.is_some(),
    })
}

/// Confirms and removes all notices. Returns them.
pub(super) fn clear(db: &Connection) -> rusqlite::Result<Notices> {
    let cleared = read(db)?;
    db.execute("DELETE FROM meta WHERE key IN (?1, ?2, ?3)", [NOTE, HOLD, QUEUE])?;
    Ok(cleared)
}
