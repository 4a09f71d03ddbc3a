//! Forgets old history, a little at a time, when the writer has nothing else to do.
//!
//! Never forgotten: what has not ended, each function's last run, and what has run as `load`.

use fnd_core::ids::FunctionName;
use rusqlite::{Connection, params};
use std::collections::HashMap;
use std::time::Duration;

/// How much history is kept; what exceeds either is forgotten.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Invocations of one function.
    pub keep_per_function: u32,
    /// Age since acceptance.
    pub keep_for: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            keep_per_function: 1000,
            keep_for: Duration::from_secs(30 * 86_400),
        }
    }
}

/// Most invocations one step forgets: a transaction of a few milliseconds, so that new work never waits long.
const STEP: u32 = 500;
/// Ended invocations of a function before its history is counted again: counting reads `keep_per_function` index entries.
const EVERY: u32 = 100;

/// Remembers where there may be something to forget.
pub(super) struct Sweeper {
    retention: Retention,
    /// Invocations that ended since the function was last looked at.
    ended: HashMap<FunctionName, u32>,
    /// Invocations that ended since age was last looked at; the first look is due at once.
    since_age: u32,
}

impl Sweeper {
    pub(super) fn new(retention: Retention) -> Self {
        Self {
            retention,
            ended: HashMap::new(),
            since_age: STEP,
        }
    }

    pub(super) fn ended(&mut self, function: &FunctionName) {
        self.since_age = self.since_age.saturating_add(1);
        match self.ended.get_mut(function) {
            Some(count) => *count += 1,
            None => {
                self.ended.insert(function.clone(), 1);
            }
        }
    }

    /// Forgets up to 500 invocations. Returns whether there may be more.
    pub(super) fn step(&mut self, db: &Connection) -> bool {
        let forgotten = if self.since_age >= STEP {
            self.by_age(db)
        } else if let Some((function, _)) = self.ended.iter().find(|(_, count)| **count >= EVERY) {
            self.by_count(db, &function.clone())
        } else {
            return false;
        };
        forgotten.unwrap_or_else(|error| {
            tracing::warn!("failed to forget old history ({error}), keeping it until more runs have ended");
            self.since_age = 0;
            self.ended.clear();
            false
        })
    }

    fn by_age(&mut self, db: &Connection) -> rusqlite::Result<bool> {
        let keep_ms = u64::try_from(self.retention.keep_for.as_millis()).unwrap_or(u64::MAX);
        let oldest_ms = crate::clock::unix_ms().saturating_sub(keep_ms);
        // Ids begin with their time, so the key itself is the index of age.
        let below = (u128::from(oldest_ms) << 80).to_be_bytes();
        let full = forget(db, "id < ?1", params![below])?;
        if !full {
            self.since_age = 0;
        }
        Ok(true)
    }

    fn by_count(&mut self, db: &Connection, function: &FunctionName) -> rusqlite::Result<bool> {
        let filter = "function = ?1 AND id <=
            (SELECT id FROM invocation WHERE function = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
        let full = forget(db, filter, params![function.as_str(), self.retention.keep_per_function])?;
        if !full {
            self.ended.remove(function);
        }
        Ok(true)
    }
}

/// Forgets ended invocations of a filter, oldest first. Returns whether there were as many as one step takes.
fn forget(db: &Connection, filter: &str, values: &[&dyn rusqlite::ToSql]) -> rusqlite::Result<bool> {
    let sql = format!(
        "SELECT id FROM invocation WHERE {filter} AND state NOT IN ('queued', 'running', 'waiting', 'polling')
            AND NOT EXISTS (SELECT 1 FROM function WHERE name = invocation.function AND last_invocation = invocation.id)
        ORDER BY id LIMIT {STEP}"
    );
    let ids: Vec<[u8; 16]> = db
        .prepare_cached(&sql)?
        .query_map(values, |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let transaction = db.unchecked_transaction()?;
    for id in &ids {
        transaction
            .prepare_cached("DELETE FROM attempt WHERE invocation = ?1")?
            .execute([id])?;
        transaction
            .prepare_cached("DELETE FROM body WHERE invocation = ?1")?
            .execute([id])?;
        transaction
            .prepare_cached("DELETE FROM invocation WHERE id = ?1")?
            .execute([id])?;
    }
    transaction.commit()?;
    Ok(ids.len() >= STEP as usize)
}
