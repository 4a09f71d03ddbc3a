//! Replaces a damaged database of the state with one that has all values that can be read. They may be of an earlier moment, so
//! the state is held until somebody confirms that; and no version is used again.

use super::tables::{OpenError, SCHEMA, is_whole, totals};
use crate::database::table::{Copier, DatabaseTable};
use crate::database::{self, LostCommits, Replacement, linked};
use fnd_wire::units::counted;
use rusqlite::Connection;
use std::path::Path;

const ENTRIES: DatabaseTable = DatabaseTable::new("entry", &["scope", "key"]).by_rowid();
const FLOOR: DatabaseTable = DatabaseTable::new("floor", &["only"]);
/// Why the state is held; the table exists in a database that a salvage made.
const HOLD: &str = "CREATE TABLE hold (why TEXT NOT NULL) STRICT";

/// Replaces a database; `damage` says what is wrong with it.
///
/// # Errors
/// [`OpenError`].
pub(super) fn replace(
    replacement: Replacement<'_>,
    lost: Option<&LostCommits>,
    damage: &str,
    now_ms: u64,
) -> Result<(), OpenError> {
    let (path, part) = (replacement.path(), replacement.begin());
    let failed = |source| OpenError::SetAside {
        path: part.clone(),
        source,
    };
    let lost = lost.filter(|_| path.exists());
    let copies = lost.map(|lost| linked(&path, &part, lost)).transpose();
    let copies = copies.map_err(failed)?;
    let from = copies.as_ref().and_then(|copies| copies.database()).unwrap_or(&path);
    let new = Connection::open(&part)?;
    new.pragma_update(None, "auto_vacuum", "incremental")?;
    SCHEMA.make(&new)?;
    let transaction = new.unchecked_transaction()?;
    // The schema begins with a floor of 0. The row of the damaged database, which is copied next, has the same key.
    transaction.execute("DELETE FROM floor", [])?;
    if let Some(old) = readable(from) {
        for table in [&ENTRIES, &FLOOR] {
            Copier::new(table, &old, &transaction)?.all()?;
        }
    }
    ENTRIES.prune(&transaction, ("value, checksum", ""), &|row| {
        is_whole(row)?.then_some(()).ok_or(rusqlite::Error::InvalidQuery)
    })?;
    // Versions that were given since are not known. They grow by one with each change, so the time in milliseconds is above
    // them, and no caller holds a version that will mean another value.
    let floor: u64 = transaction.query_row(
        "SELECT max(?1, (SELECT coalesce(max(version), 0) FROM entry), (SELECT coalesce(max(version), 0) FROM floor))",
        [now_ms],
        |row| row.get(0),
    )?;
    transaction.execute("INSERT OR REPLACE INTO floor VALUES (0, ?1)", [floor])?;
    transaction.execute("UPDATE entry SET version = ?1", [floor])?;
    let keys = totals(&transaction)?.keys;
    let aside = replacement.aside(now_ms);
    let why = format!(
        "it was damaged ({damage}) and was set aside as `{}`: {} could be read, perhaps of an earlier moment; `fndctl verify \
         --repair` confirms that, or restore a backup",
        aside.display(),
        counted(keys, "key", "keys")
    );
    transaction.execute_batch(HOLD)?;
    transaction.execute("INSERT INTO hold VALUES (?1)", [&why])?;
    transaction.commit()?;
    drop(new);
    replacement.complete(now_ms).map_err(failed)?;
    tracing::error!("the state of functions cannot be used: {why}");
    Ok(())
}

fn readable(path: &Path) -> Option<Connection> {
    let db = database::open_read_only(path).ok()?;
    (db.table_exists(None, "entry") == Ok(true)).then_some(db)
}

/// Returns why the state is held until somebody confirms that.
pub(super) fn hold(db: &Connection) -> rusqlite::Result<Option<String>> {
    if !db.table_exists(None, "hold")? {
        return Ok(None);
    }
    database::first(db, "SELECT why FROM hold", [], |row| row.get(0))
}

/// Ends the hold. Returns why there was one.
pub(super) fn confirm(db: &Connection) -> rusqlite::Result<Option<String>> {
    let why = hold(db)?;
    if why.is_some() {
        db.execute("DELETE FROM hold", [])?;
    }
    Ok(why)
}
