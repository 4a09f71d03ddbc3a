//! Stores the shares of events in one transaction, and remembers the events.

use super::reader::{LedgerReader, QueryError};
use super::rows::int;
use super::store::{json, store};
use crate::database::{self, execute};
use fnd_core::run::{Delivered, Shares};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The first answers to events that were sent before: by the number of the shares, one entry for each event.
pub(super) type Earlier = BTreeMap<u64, Vec<Option<Delivered>>>;

/// Old events that are forgotten for each new one: more than one, so that the table shrinks after a burst.
const FORGET_EACH: usize = 4;

/// Stores the shares of events inside the caller's transaction, except those of an event that is remembered: an event
/// that was accepted at `since_ms` or later. Such an event may also be one of the same request.
pub(super) fn publish(db: &Connection, shares: &Shares, since_ms: u64, earlier: &mut Earlier) -> rusqlite::Result<()> {
    let mut known = Vec::with_capacity(shares.events.len());
    for event in &shares.events {
        let delivered = remembered(db, &event.key, since_ms)?;
        if delivered.is_none() {
            for accepted in event.accepted.iter().chain(&event.skipped) {
                store(db, accepted)?;
            }
            // An event that no function has accepted may come again: nothing would run twice.
            if !event.accepted.is_empty() {
                let sql = "INSERT OR REPLACE INTO event (key, accepted_ms, delivered) VALUES (?1, ?2, ?3)";
                let delivered = json(&event.delivered);
                execute(db, sql, params![&*event.key, int(shares.accepted_ms), delivered])?;
            }
        }
        known.push(delivered);
    }
    let sql =
        "DELETE FROM event WHERE key IN (SELECT key FROM event WHERE accepted_ms < ?1 ORDER BY accepted_ms LIMIT +?2)";
    let forgets = FORGET_EACH.saturating_mul(shares.events.len());
    execute(db, sql, params![int(since_ms), forgets])?;
    earlier.insert(shares.number, known);
    Ok(())
}

impl LedgerReader {
    /// Returns what came of the events with these keys that were accepted at `since_ms` or later.
    ///
    /// # Errors
    /// [`QueryError`].
    pub async fn earlier_events(
        &self,
        keys: Vec<Arc<str>>,
        since_ms: u64,
    ) -> Result<HashMap<Arc<str>, Delivered>, QueryError> {
        self.ask(move |db| {
            let mut earlier = HashMap::new();
            for key in keys {
                let delivered = remembered(db, &key, since_ms)?;
                earlier.extend(delivered.map(|delivered| (key, delivered)));
            }
            Ok(earlier)
        })
        .await
    }
}

fn remembered(db: &Connection, key: &str, since_ms: u64) -> rusqlite::Result<Option<Delivered>> {
    let sql = "SELECT delivered FROM event WHERE key = ?1 AND accepted_ms >= ?2";
    let text: Option<String> = database::first(db, sql, params![key, int(since_ms)], |row| row.get(0))?;
    // An unreadable answer still says that the event was accepted.
    Ok(text.map(|text| serde_json::from_str(&text).unwrap_or_default()))
}
