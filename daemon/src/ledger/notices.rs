//! What a set-aside ledger leaves behind, in `meta`, until a person has confirmed it with `fndctl verify --repair`: a note of
//! what happened, and why durable work is refused, where it is.

use rusqlite::{Connection, OptionalExtension as _};
use std::path::Path;
use std::sync::Arc;

/// Keys in `meta`.
const NOTE: &str = "set-aside";
const HOLD: &str = "hold";

/// What the ledger has to say about itself until somebody repairs it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Notices {
    /// A damaged ledger was set aside.
    pub(super) note: Option<Arc<str>>,
    /// Durable work is refused.
    pub(super) hold: Option<Arc<str>>,
}

impl Notices {
    /// Says whether nothing does.
    pub(super) fn is_clear(&self) -> bool {
        self.note.is_none() && self.hold.is_none()
    }
}

/// Reads what stands.
pub(super) fn read(db: &Connection) -> rusqlite::Result<Notices> {
    let get = |key| {
        let sql = "SELECT value FROM meta WHERE key = ?1";
        let value = db
            .prepare_cached(sql)?
            .query_row([key], |row| row.get::<_, Arc<str>>(0));
        value.optional()
    };
    Ok(Notices {
        note: get(NOTE)?,
        hold: get(HOLD)?,
    })
}

/// Says it in a new database. A refusal that stood before stays until it is confirmed.
pub(super) fn set(path: &Path, note: &str, hold: Option<&str>) -> rusqlite::Result<()> {
    let db = Connection::open(path)?;
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
    db.execute(sql, [NOTE, note])?;
    if let Some(hold) = hold {
        db.execute(sql, [HOLD, hold])?;
    }
    Ok(())
}

/// Confirms all of it. Returns what stood.
pub(super) fn clear(db: &Connection) -> rusqlite::Result<Notices> {
    let stood = read(db)?;
    db.execute("DELETE FROM meta WHERE key IN (?1, ?2)", [NOTE, HOLD])?;
    Ok(stood)
}
