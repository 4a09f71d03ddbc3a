//! The table `meta`: single values, each a text by its key.

use crate::database;
use rusqlite::{Connection, Result};

/// Returns the value of a key.
pub(super) fn get(db: &Connection, key: &str) -> Result<Option<String>> {
    database::first(db, "SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0))
}

/// Stores the value of a key, in place of an earlier one.
pub(super) fn set(db: &Connection, key: &str, value: &str) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)";
    database::execute(db, sql, [key, value]).map(drop)
}

/// Removes a key and its value.
pub(super) fn remove(db: &Connection, key: &str) -> Result<()> {
    database::execute(db, "DELETE FROM meta WHERE key = ?1", [key]).map(drop)
}
