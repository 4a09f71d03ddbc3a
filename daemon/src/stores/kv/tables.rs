//! The tables of the state, and the checks of a database that has them.

use crate::database::{self, LostCommits, Replacement};
use crate::stores::database::{StorePlaces, StoreSchema};
use fnd_core::kv::Totals;
use rusqlite::{Connection, Row};
use std::io;
use std::path::{Path, PathBuf};

/// `bytes` are those of scope, key and value; `checksum` is that of the value. The value comes last, so that lists need not read
/// it. `floor` has one row.
pub(super) const SCHEMA: StoreSchema = StoreSchema {
    tables: "
    CREATE TABLE entry (
        scope TEXT NOT NULL,
        key TEXT NOT NULL,
        version INTEGER NOT NULL,
        changed_ms INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (scope, key)
    ) STRICT;
    CREATE TABLE floor (
        only INTEGER PRIMARY KEY CHECK (only = 0),
        version INTEGER NOT NULL
    ) STRICT;
    INSERT INTO floor VALUES (0, 0);
    PRAGMA user_version = 2;
",
    // A change is answered after its commit.
    is_synced: true,
    cache_kib: -1024,
};

/// The version of the tables, in `user_version`.
pub(super) const VERSION: i64 = 2;

/// Why the state cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("failed to set the damaged state aside: `{}`", path.display())]
    SetAside { path: PathBuf, source: io::Error },
    #[error("failed to read the log of `{}`", path.display())]
    Log { path: PathBuf, source: io::Error },
}

/// Returns the damaged databases that were set aside, oldest first.
pub(super) fn asides(directory: &Path) -> Vec<PathBuf> {
    Replacement::of(directory, super::FILE).asides()
}

/// Returns which commits are missing.
///
/// # Errors
/// [`OpenError::Log`].
pub(super) fn lost_commits(places: &StorePlaces) -> Result<Option<LostCommits>, OpenError> {
    let path = places.state.join(super::FILE);
    database::lost_commits(&places.run, &path).map_err(|source| OpenError::Log { path, source })
}

/// Returns whether the value of a row is what was written: columns `value` and `checksum`.
pub(super) fn is_whole(row: &Row<'_>) -> rusqlite::Result<bool> {
    Ok(row.get::<_, i64>(1)? == i64::from(crc32fast::hash(row.get_ref(0)?.as_bytes()?)))
}

pub(super) fn check_values(db: &Connection) -> rusqlite::Result<()> {
    let mut statement = db.prepare("SELECT value, checksum, scope, key FROM entry")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if !is_whole(row)? {
            let (scope, key): (String, String) = (row.get(2)?, row.get(3)?);
            return Err(database::damaged(format!(
                "the value of `{scope}/{key}` is not what was written"
            )));
        }
    }
    Ok(())
}

/// Returns the version of the tables, 0 if there are none yet; refuses those of another fnd, before anything is changed.
pub(super) fn check_version(db: &Connection) -> rusqlite::Result<i64> {
    let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found == 0 || found == VERSION {
        return Ok(found);
    }
    let (by, then) = if found > VERSION {
        ("a newer fnd", "restore a backup")
    } else {
        (
            "a development version of fnd",
            "move the file away to begin without values",
        )
    };
    let why = format!(
        "it was written by {by} (version {found}, this one knows {VERSION}): install that fnd again, or {then}"
    );
    // No error that counts as damage: a damaged file would be set aside, and this one belongs to another fnd.
    Err(rusqlite::Error::SqliteFailure(
        rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR),
        Some(why),
    ))
}

/// Counts what is stored.
pub(super) fn totals(db: &Connection) -> rusqlite::Result<Totals> {
    let sql = "SELECT count(*), coalesce(sum(bytes), 0), (SELECT version FROM floor) FROM entry";
    db.query_row(sql, [], |row| {
        Ok(Totals {
            keys: row.get(0)?,
            bytes: row.get(1)?,
            floor: row.get(2)?,
        })
    })
}
