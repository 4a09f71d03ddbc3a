//! Reads the state that a starting daemon needs.

use super::cancelled;
use super::messages;
use super::rows::{self, ATTEMPT, PAYLOAD, PAYLOAD_WIDTH, RECORD, UNFINISHED};
use fnd_core::idempotency::IdempotencyKey;
use fnd_core::lifecycle::release::Releases;
use fnd_core::records::LastSlot;
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_core::records::{Accepted, AttemptRecord, InvocationRecord, Payload, Unfinished};
use fnd_core::run::Restored;
use fnd_core::triggers::schedule::Marks;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use rusqlite::{Connection, OptionalExtension as _, Result, Row, params};
use std::collections::{BTreeSet, HashMap};

/// A function's last attempt, with the state of its invocation and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRun {
    pub attempt: AttemptRecord,
    /// Its invocation, with the result.
    pub record: InvocationRecord,
    /// When the function last succeeded, Unix milliseconds; absent if the attempt did, or if no success is known.
    pub success_ms: Option<u64>,
}

/// Reads the state that the supervisor continues with; unfinished invocations come oldest first.
pub(super) fn restored(db: &Connection) -> Result<Restored> {
    let mut restored = Restored::default();
    let sql = format!("SELECT {} FROM invocation WHERE {UNFINISHED} ORDER BY id", columns());
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let mut unfinished = unfinished(row)?;
        // An invocation that polls gives this result to its next attempt.
        unfinished.record.result = rows::result(db, unfinished.record.id)?;
        if unfinished.accepted.trigger == Trigger::Nats {
            // Another node may have its message meanwhile.
            unfinished.accepted.message = messages::mark(db, unfinished.record.id)?.map(Box::new);
        }
        restored.unfinished.push(unfinished);
    }
    let mut statement = db.prepare("SELECT function, hash FROM load")?;
    let loaded = statement.query_map([], |row| Ok((rows::function(row, 0)?, rows::version(row, 1)?)))?;
    restored.loaded = loaded.collect::<Result<_>>()?;
    let mut statement = db.prepare("SELECT name FROM function WHERE NOT enabled")?;
    restored.disabled = statement
        .query_map([], |row| rows::function(row, 0))?
        .collect::<Result<_>>()?;
    let mut statement = db.prepare("SELECT name, runs, failures FROM function")?;
    let counts = statement.query_map([], |row| Ok((rows::function(row, 0)?, row.get(1)?, row.get(2)?)))?;
    restored.counts = counts.collect::<Result<_>>()?;
    // A kill may have come between the answer to a cancellation and the end of its invocation: the supervisor ends these.
    restored.cancelled = cancelled::all(db)?;
    Ok(restored)
}

/// The columns that [`unfinished`] reads, in this order.
pub(super) fn columns() -> String {
    format!(
        "{RECORD}, timeout_ms, not_before_ms, expires_ms, deadline_ms, {PAYLOAD}, priority, key, origin, dead IS NULL"
    )
}

/// Reads an unfinished invocation; its result and its message are read separately.
pub(super) fn unfinished(row: &Row<'_>) -> Result<Unfinished> {
    let record = rows::record(row)?;
    let behind = 19 + PAYLOAD_WIDTH;
    let accepted = Accepted {
        payload: rows::payload(row, 19)?,
        durable: record.durable,
        dead_letter: row.get(behind + 3)?,
        timeout_ms: row.get(15)?,
        not_before_ms: row.get(16)?,
        expires_ms: row.get(17)?,
        deadline_ms: row.get(18)?,
        priority: row.get::<_, Option<i8>>(behind)?.unwrap_or(0),
        key: row
            .get::<_, Option<String>>(behind + 1)?
            .map(|text| IdempotencyKey::stored(text.into())),
        origin: row
            .get::<_, Option<[u8; 16]>>(behind + 2)?
            .map(|id| InvocationId(u128::from_be_bytes(id))),
        // The load key and the marks are already in tables of their own, and what never begins is stored with its end.
        ..Accepted::new(record.id, record.function.clone(), record.trigger, record.accepted_ms)
    };
    Ok(Unfinished { accepted, record })
}

/// Returns those attempts that have ended, or whose invocation has ended. The number of attempts of the invocation is
/// no evidence: settling the table of attempts that have begun counts an attempt before the end of the previous one is
/// stored.
pub(super) fn ended(db: &Connection, attempts: &[(InvocationId, u32)]) -> Result<BTreeSet<(InvocationId, u32)>> {
    let mut statement = db.prepare(&format!(
        "SELECT 1 FROM attempt WHERE invocation = ?1 AND n = ?2
        UNION ALL SELECT 1 FROM invocation WHERE id = ?1 AND NOT ({UNFINISHED})"
    ))?;
    let mut ended = BTreeSet::new();
    for (id, attempt) in attempts {
        if statement.exists(params![rows::blob(*id), attempt])? {
            ended.insert((*id, *attempt));
        }
    }
    Ok(ended)
}

/// An ended invocation of which it is not decided yet what follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfollowed {
    /// Its record, with the result.
    pub record: InvocationRecord,
    /// Its payload, if it was kept.
    pub payload: Payload,
}

/// Reads the ended invocations of which it is not decided yet what follows, oldest first. Those whose record was
/// forgotten are left out.
pub(super) fn unfollowed(db: &Connection) -> Result<Vec<Unfollowed>> {
    let sql = format!("SELECT {RECORD}, {PAYLOAD} FROM invocation JOIN unfollowed ON invocation = id ORDER BY id");
    let mut statement = db.prepare(&sql)?;
    let mut found = statement.query([])?;
    let mut unfollowed = Vec::new();
    while let Some(row) = found.next()? {
        let (mut record, payload) = (rows::record(row)?, rows::payload(row, 15)?);
        record.result = rows::result(db, record.id)?;
        unfollowed.push(Unfollowed { record, payload });
    }
    Ok(unfollowed)
}

/// Reads what was told of functions and of the node.
pub(super) fn alerts(db: &Connection) -> Result<Vec<(String, String)>> {
    let mut statement = db.prepare("SELECT about, health FROM alert")?;
    let alerts = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    alerts.collect()
}

/// The schedules as they were when fnd ended.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct StoredSchedules {
    /// The marks of each function.
    pub marks: Vec<Marks>,
    /// Functions whose schedules a user has paused.
    pub paused: BTreeSet<FunctionName>,
}

/// Reads the marks of schedules, and which ones are paused.
pub(super) fn schedules(db: &Connection) -> Result<StoredSchedules> {
    let mut statement = db.prepare("SELECT function, key, last_ms, ahead_ms FROM schedule ORDER BY function, key")?;
    let mut rows = statement.query([])?;
    let mut marks: Vec<Marks> = Vec::new();
    while let Some(row) = rows.next()? {
        let function = rows::function(row, 0)?;
        let mark = LastSlot {
            key: row.get::<_, String>(1)?.into(),
            last_ms: row.get(2)?,
            ahead_ms: row.get(3)?,
        };
        match marks.last_mut() {
            Some(last) if last.function == function => last.marks.push(mark),
            _ => marks.push(Marks {
                function,
                marks: vec![mark],
            }),
        }
    }
    let mut statement = db.prepare("SELECT name FROM function WHERE paused")?;
    let paused = statement.query_map([], |row| rows::function(row, 0))?;
    Ok(StoredSchedules {
        marks,
        paused: paused.collect::<Result<_>>()?,
    })
}

/// Reads the installed versions of each function, oldest first.
pub(super) fn versions(db: &Connection) -> Result<HashMap<FunctionName, Vec<Version>>> {
    let mut statement = db.prepare("SELECT function, installed FROM versions")?;
    let versions = statement.query_map([], |row| {
        let bytes = row.get_ref(1)?.as_blob()?;
        let installed = bytes.as_chunks().0.iter().copied().map(Version).collect();
        Ok((rows::function(row, 0)?, installed))
    })?;
    versions.collect()
}

/// Reads the releases of each function. What cannot be read is left out: its function begins with the release that its
/// file has.
pub(super) fn releases(db: &Connection) -> Result<Vec<(FunctionName, Releases)>> {
    let mut statement = db.prepare("SELECT function, releases FROM release")?;
    let rows = statement.query_map([], |row| Ok((rows::function(row, 0)?, row.get::<_, String>(1)?)))?;
    let mut all = Vec::new();
    for row in rows {
        let (function, releases) = row?;
        match serde_json::from_str(&releases) {
            Ok(releases) => all.push((function, releases)),
            Err(error) => {
                tracing::warn!("the stored releases of `{function}` cannot be read and are forgotten: {error}");
            }
        }
    }
    Ok(all)
}

/// Reads the newest id.
pub(super) fn last_id(db: &Connection) -> Result<Option<InvocationId>> {
    let sql = "SELECT id FROM invocation ORDER BY id DESC LIMIT 1";
    db.query_row(sql, [], |row| rows::id(row, 0)).optional()
}

/// Reads when a function last succeeded. `by_function` has its rows in their order, so this reads those that failed since,
/// at most as many as `history.keep`.
fn last_success(db: &Connection, function: &FunctionName) -> Result<Option<u64>> {
    let sql = "SELECT ended_ms FROM invocation WHERE function = ?1 AND state = 'succeeded' ORDER BY id DESC LIMIT 1";
    let mut statement = db.prepare_cached(sql)?;
    let ended: Option<Option<i64>> = statement.query_row([function.as_str()], |row| row.get(0)).optional()?;
    Ok(ended.flatten().and_then(|ended| u64::try_from(ended).ok()))
}

/// Reads the last attempt of each function; leaves out an attempt whose invocation was deleted.
pub(super) fn last_runs(db: &Connection) -> Result<Vec<LastRun>> {
    let sql = format!(
        "SELECT {ATTEMPT}, name FROM function
        JOIN attempt ON attempt.invocation = last_invocation AND attempt.n = last_attempt ORDER BY name"
    );
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let attempt = rows::attempt(row, rows::function(row, 22)?)?;
        if let Some(mut record) = rows::find(db, attempt.invocation)? {
            record.result = rows::result(db, record.id)?;
            let success_ms = match attempt.reason.final_state() {
                RunState::Succeeded => None,
                _ => last_success(db, &record.function)?,
            };
            runs.push(LastRun {
                attempt,
                record,
                success_ms,
            });
        }
    }
    Ok(runs)
}
