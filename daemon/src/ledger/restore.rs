//! Reads the state that a starting daemon needs.

use super::command::DisabledBy;
use super::rows::{self, ATTEMPT, PAYLOAD, PAYLOAD_WIDTH, RECORD, UNFINISHED};
use super::{cancelled, messages};
use crate::database;
use fnd_core::idempotency::IdempotencyKey;
use fnd_core::lifecycle::release::Releases;
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_core::records::{Accepted, AttemptRecord, InvocationRecord, LastSlot, Payload, Unfinished};
use fnd_core::run::Restored;
use fnd_core::triggers::schedule::Marks;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use rusqlite::{Connection, Result, Row, params};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A function's last attempt, with the state of its invocation and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRun {
    pub attempt: AttemptRecord,
    /// Its invocation, with the result.
    pub record: InvocationRecord,
    /// When the function last succeeded, Unix milliseconds; absent if the attempt did, or if no success is known.
    pub success_ms: Option<u64>,
    /// When the first run after that ended which failed; absent if the attempt succeeded, if no run has failed, or if
    /// the function ran by itself.
    pub failing_since_ms: Option<u64>,
}

/// Reads the state that the supervisor continues with; unfinished invocations come oldest first.
pub(super) fn restored(db: &Connection) -> Result<Restored> {
    let sql = format!("SELECT {} FROM invocation WHERE {UNFINISHED} ORDER BY id", columns());
    let whole = |row: &Row<'_>| {
        let mut unfinished = unfinished(row)?;
        // An invocation that polls gives this result to its next attempt.
        unfinished.record.result = rows::result(db, unfinished.record.id)?;
        if unfinished.accepted.trigger == Trigger::Nats {
            // Another node may have its message meanwhile.
            unfinished.accepted.message = messages::mark(db, unfinished.record.id)?.map(Box::new);
        }
        Ok(unfinished)
    };
    let loaded = |row: &Row<'_>| Ok((rows::function(row, 0)?, rows::version(row, 1)?));
    let counts = |row: &Row<'_>| Ok((rows::function(row, 0)?, row.get(1)?, row.get(2)?));
    Ok(Restored {
        unfinished: database::all(db, &sql, [], whole)?,
        loaded: database::all(db, "SELECT function, hash FROM load", [], loaded)?,
        disabled: functions(db, "NOT enabled")?,
        counts: database::all(db, "SELECT name, runs, failures FROM function", [], counts)?,
        // A kill may have come between the answer to a cancellation and the end of its invocation: the supervisor ends these.
        cancelled: cancelled::all(db)?,
        ..Restored::default()
    })
}

/// Reads the names of the functions for which a condition holds.
fn functions<C: FromIterator<FunctionName>>(db: &Connection, condition: &str) -> Result<C> {
    let sql = format!("SELECT name FROM function WHERE {condition}");
    database::all(db, &sql, [], |row| rows::function(row, 0))
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
        origin: rows::id_or_none(row, behind + 2)?,
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
    database::all(db, &sql, [], |row| {
        let (mut record, payload) = (rows::record(row)?, rows::payload(row, 15)?);
        record.result = rows::result(db, record.id)?;
        Ok(Unfollowed { record, payload })
    })
}

/// Reads what was told of functions and of the node.
pub(super) fn alerts(db: &Connection) -> Result<Vec<(String, String)>> {
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
    database::all(db, "SELECT about, health FROM alert", [], read)
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
    let sql = "SELECT function, key, last_ms, ahead_ms FROM schedule ORDER BY function, key";
    let read = |row: &Row<'_>| {
        let mark = LastSlot {
            key: row.get::<_, String>(1)?.into(),
            last_ms: row.get(2)?,
            ahead_ms: row.get(3)?,
        };
        Ok((rows::function(row, 0)?, mark))
    };
    let mut by_function: BTreeMap<FunctionName, Vec<LastSlot>> = BTreeMap::new();
    for (function, mark) in database::all::<_, Vec<_>>(db, sql, [], read)? {
        by_function.entry(function).or_default().push(mark);
    }
    let marks = by_function.into_iter();
    let marks = marks.map(|(function, marks)| Marks { function, marks }).collect();
    let paused = functions(db, "paused")?;
    Ok(StoredSchedules { marks, paused })
}

/// Reads which functions users have disabled, where the user is known: fnd 0.1.0 did not store the user.
pub(super) fn disabled(db: &Connection) -> Result<BTreeMap<FunctionName, DisabledBy>> {
    let sql = "SELECT name, disabled_uid, disabled_ms FROM function
        WHERE NOT enabled AND disabled_uid BETWEEN 0 AND 4294967295 AND disabled_ms >= 0";
    database::all(db, sql, [], |row| {
        let (uid, since_ms) = (row.get(1)?, row.get(2)?);
        Ok((rows::function(row, 0)?, DisabledBy { uid, since_ms }))
    })
}

/// Reads the installed versions of each function, oldest first.
pub(super) fn versions(db: &Connection) -> Result<HashMap<FunctionName, Vec<Version>>> {
    database::all(db, "SELECT function, installed FROM versions", [], |row| {
        let bytes = row.get_ref(1)?.as_blob()?;
        let installed = bytes.as_chunks().0.iter().copied().map(Version).collect();
        Ok((rows::function(row, 0)?, installed))
    })
}

/// Reads the releases of each function. What cannot be read is left out: its function begins with the release that its
/// file has.
pub(super) fn releases(db: &Connection) -> Result<Vec<(FunctionName, Releases)>> {
    let read = |row: &Row<'_>| Ok((rows::function(row, 0)?, row.get::<_, String>(1)?));
    let stored: Vec<_> = database::all(db, "SELECT function, releases FROM release", [], read)?;
    let parse = |(function, releases): (FunctionName, String)| match serde_json::from_str(&releases) {
        Ok(releases) => Some((function, releases)),
        Err(error) => {
            tracing::warn!("the stored releases of `{function}` cannot be read and are forgotten: {error}");
            None
        }
    };
    Ok(stored.into_iter().filter_map(parse).collect())
}

/// Reads the newest id.
pub(super) fn last_id(db: &Connection) -> Result<Option<InvocationId>> {
    let sql = "SELECT id FROM invocation ORDER BY id DESC LIMIT 1";
    database::first(db, sql, [], |row| rows::id(row, 0))
}

/// Reads the end of an invocation from the first column.
fn end_of(row: &Row<'_>) -> Result<Option<u64>> {
    let ended: Option<i64> = row.get(0)?;
    Ok(ended.and_then(|ended| u64::try_from(ended).ok()))
}

/// Reads when the function of a run last succeeded, and when a run of it failed first after that.
fn since_success(db: &Connection, run: &InvocationRecord) -> Result<(Option<u64>, Option<u64>)> {
    let function = run.function.as_str();
    // `by_function` has the rows of a function in their order, so this reads those that failed since the last success, at most
    // as many as `history.keep`.
    let sql =
        "SELECT ended_ms, id FROM invocation WHERE function = ?1 AND state = 'succeeded' ORDER BY id DESC LIMIT 1";
    let success = database::first(db, sql, [function], |row| Ok((rows::id(row, 1)?, end_of(row)?)))?;
    let (id, success_ms) = success.unwrap_or((InvocationId(0), None));
    if run.trigger == Trigger::Load {
        // It may be a service, which never succeeds: no row says when it was well.
        return Ok((success_ms, None));
    }
    // A run that was accepted after the success may have failed before it ended: it ran beside the success.
    let sql = "SELECT ended_ms FROM invocation WHERE function = ?1 AND state IN ('failed', 'interrupted')
        AND id > ?2 AND ended_ms >= ?3 ORDER BY id LIMIT 1";
    let after = params![function, rows::blob(id), rows::int(success_ms.unwrap_or(0))];
    let failing_since_ms = database::first(db, sql, after, end_of)?.flatten();
    Ok((success_ms, failing_since_ms))
}

/// Reads the last attempt of each function; leaves out an attempt whose invocation was deleted.
pub(super) fn last_runs(db: &Connection) -> Result<Vec<LastRun>> {
    let sql = format!(
        "SELECT {ATTEMPT}, name FROM function
        JOIN attempt ON attempt.invocation = last_invocation AND attempt.n = last_attempt ORDER BY name"
    );
    let last = |row: &Row<'_>| {
        let attempt = rows::attempt(row, rows::function(row, 22)?)?;
        let Some(mut record) = rows::find(db, attempt.invocation)? else {
            return Ok(None);
        };
        record.result = rows::result(db, record.id)?;
        let (success_ms, failing_since_ms) = match attempt.reason.final_state() {
            RunState::Succeeded => (None, None),
            _ => since_success(db, &record)?,
        };
        Ok(Some(LastRun {
            attempt,
            record,
            success_ms,
            failing_since_ms,
        }))
    };
    let runs: Vec<_> = database::all(db, &sql, [], last)?;
    Ok(runs.into_iter().flatten().collect())
}
