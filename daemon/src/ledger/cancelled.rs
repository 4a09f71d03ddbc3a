//! The invocations whose end somebody has asked for, until they have ended. Each is a row of `meta`: there are few at a time, and
//! they need no table.

use super::meta;
use super::rows::{UNFINISHED, blob};
use crate::database;
use fnd_wire::ids::InvocationId;
use rusqlite::{Connection, Result, params};

/// The beginning of their keys.
const PREFIX: &str = "cancelled ";
/// Rows of earlier cancellations that each new cancellation checks, since an invocation that ended by itself leaves its
/// row. The rows take turns: otherwise the rows of long runs could keep the others from being checked.
const LOOKED_AT: usize = 4;
/// The key of the last row that was looked at.
const LAST: &str = "last cancellation looked at";

/// Stores that an invocation is to end.
pub(super) fn store(db: &Connection, id: InvocationId) -> Result<()> {
    let last = meta::get(db, LAST)?;
    let next: Vec<InvocationId> = after(db, last.as_deref().unwrap_or(PREFIX), LOOKED_AT)?;
    let sql = format!("SELECT 1 FROM invocation WHERE id = ?1 AND {UNFINISHED}");
    for earlier in &next {
        if !db.prepare_cached(&sql)?.exists([blob(*earlier)])? {
            forget(db, *earlier)?;
        }
    }
    // After the last row comes the first one.
    let last = next.get(LOOKED_AT - 1).map_or_else(|| PREFIX.to_owned(), |id| key(*id));
    meta::set(db, LAST, &last)?;
    meta::set(db, &key(id), "")
}

/// Forgets it: the invocation has ended.
pub(super) fn forget(db: &Connection, id: InvocationId) -> Result<()> {
    meta::remove(db, &key(id))
}

/// Reads all of them, oldest first.
pub(super) fn all(db: &Connection) -> Result<Vec<InvocationId>> {
    after(db, PREFIX, usize::MAX)
}

/// Reads the invocations whose keys come after a key, oldest first, at most `most`.
fn after(db: &Connection, last: &str, most: usize) -> Result<Vec<InvocationId>> {
    let sql = "SELECT key FROM meta WHERE key GLOB 'cancelled *' AND key > ?1 ORDER BY key LIMIT +?2";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let keys: Vec<String> = database::all(db, sql, params![last, most], |row| row.get(0))?;
    let id = |key: &String| InvocationId::parse(key.strip_prefix(PREFIX)?);
    Ok(keys.iter().filter_map(id).collect())
}

fn key(id: InvocationId) -> String {
    format!("{PREFIX}{id}")
}
