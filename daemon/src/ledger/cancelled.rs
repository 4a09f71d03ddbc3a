//! The invocations whose end somebody has asked for, until they have ended. Each is a row of `meta`: there are few at a time, and
//! they need no table.

use super::rows::{UNFINISHED, blob};
use fnd_wire::ids::InvocationId;
use rusqlite::{Connection, Result};

/// The beginning of their keys.
const PREFIX: &str = "cancelled ";
/// Rows of earlier cancellations that each new one looks at: an invocation that ended by itself leaves its row.
const LOOKED_AT: usize = 4;

/// Stores that an invocation is to end.
pub(super) fn store(db: &Connection, id: InvocationId) -> Result<()> {
    let sql = format!("SELECT 1 FROM invocation WHERE id = ?1 AND {UNFINISHED}");
    for earlier in all(db)?.into_iter().take(LOOKED_AT) {
        if !db.prepare_cached(&sql)?.exists([blob(earlier)])? {
            forget(db, earlier)?;
        }
    }
    db.prepare_cached("INSERT OR REPLACE INTO meta (key, value) VALUES (?1, '')")?
        .execute([key(id)])
        .map(drop)
}

/// Forgets it: the invocation has ended.
pub(super) fn forget(db: &Connection, id: InvocationId) -> Result<()> {
    db.prepare_cached("DELETE FROM meta WHERE key = ?1")?
        .execute([key(id)])
        .map(drop)
}

/// Reads all of them, oldest first.
pub(super) fn all(db: &Connection) -> Result<Vec<InvocationId>> {
    let mut statement = db.prepare_cached("SELECT key FROM meta WHERE key GLOB 'cancelled *' ORDER BY key")?;
    let keys = statement.query_map([], |row| row.get::<_, String>(0))?;
    let id = |key: Result<String>| match key {
        Ok(key) => InvocationId::parse(key.strip_prefix(PREFIX)?).map(Ok),
        Err(error) => Some(Err(error)),
    };
    keys.filter_map(id).collect()
}

fn key(id: InvocationId) -> String {
    format!("{PREFIX}{id}")
}
