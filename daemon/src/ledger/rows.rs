//! Conversion of rows to records: one column list and one reader for each record, so that they cannot diverge.

use crate::database::{damaged, first};
use bytes::Bytes;
use fnd_core::data::Data;
use fnd_core::records::outcome::{Exhausted, Reason, RunState, Trigger};
use fnd_core::records::{AttemptRecord, InvocationRecord, Payload, RunResult, Usage, UsageSum};
use fnd_core::trace::Trace;
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, Version, WorkerId};
use rusqlite::types::Type;
use rusqlite::{Connection, Error, Result, Row};
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Largest result that is kept in the row of the invocation. A larger result is in `body`, so that lists do not read
/// it.
pub(super) const INLINE_MAX: usize = 64 << 10;

/// Conditions of partial indexes. SQLite uses such an index only if a statement has the same condition. None has a list of three or
/// more words: SQLite makes a temporary table of such a list, twice for each row that it changes.
pub(super) const UNFINISHED: &str = "(state = 'queued' OR state = 'running' OR state = 'waiting' OR state = 'polling')";
pub(super) const FAILED: &str = "state IN ('failed', 'interrupted')";

/// What the index `unfinished` has in place of [`UNFINISHED`] in a ledger of 0.1.0 that is not migrated yet.
pub(super) const UNFINISHED_OF_0_1_0: &str = "state IN ('queued', 'running', 'waiting', 'polling')";

/// Invocations that functions have called, and the id of the one that called: the partial index `children`.
pub(super) const CALLED: &str = "trigger = 'function'";
pub(super) const PARENT: &str = "CASE WHEN json_valid(cause) THEN json_extract(cause, '$.call.invocation') END";

/// The columns that [`record`] reads, in this order; without the result.
pub(super) const RECORD: &str = "id, function, trigger, state, accepted_ms, started_ms, ended_ms, attempts, polls, reason, \
    message, exhausted, next_attempt_ms, version, durable";

/// The columns that [`attempt`] reads, in this order; without the function.
pub(super) const ATTEMPT: &str = "invocation, n, poll, worker, version, started_ms, ended_ms, duration_us, reason, message, \
    exit_code, signal, cpu_us, memory_peak_bytes, peak_of_largest, throttled_us, stdout_bytes, stderr_bytes, \
    dropped_bytes, next_attempt_ms, cold, scope_worker";

/// Returns an id in the stored form: big-endian, so that ids sort.
pub(super) fn blob(id: InvocationId) -> [u8; 16] {
    id.0.to_be_bytes()
}

/// Returns a number as SQLite stores it; a number beyond SQLite's range becomes the largest one.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Reads a column with a fixed set of words; an unknown word is reported as damage, not as absence.
pub(super) fn word<T>(row: &Row<'_>, column: usize, parse: impl Fn(&str) -> Option<T>) -> Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    parse(text).ok_or_else(|| {
        let what = format!("`{text}` is not a word of this column").into();
        Error::FromSqlConversionFailure(column, Type::Text, what)
    })
}

pub(super) fn word_or_none<T>(row: &Row<'_>, column: usize, parse: impl Fn(&str) -> Option<T>) -> Result<Option<T>> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(|_| word(row, column, parse)).transpose()
}

pub(super) fn function(row: &Row<'_>, column: usize) -> Result<FunctionName> {
    word(row, column, |text| FunctionName::new(text).ok())
}

pub(super) fn id(row: &Row<'_>, column: usize) -> Result<InvocationId> {
    Ok(InvocationId(u128::from_be_bytes(row.get(column)?)))
}

pub(super) fn id_or_none(row: &Row<'_>, column: usize) -> Result<Option<InvocationId>> {
    let id: Option<[u8; 16]> = row.get(column)?;
    Ok(id.map(|id| InvocationId(u128::from_be_bytes(id))))
}

pub(super) fn version(row: &Row<'_>, column: usize) -> Result<Version> {
    Ok(Version(row.get(column)?))
}

/// Reads a column of JSON into its record; invalid JSON is reported as damage.
pub(super) fn json_or_none<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<Option<Arc<T>>> {
    let Some(text) = row.get_ref(column)?.as_str_or_null()? else {
        return Ok(None);
    };
    let read = serde_json::from_str(text).map(|value| Some(Arc::new(value)));
    read.map_err(|error| Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}

fn version_or_none(row: &Row<'_>, column: usize) -> Result<Option<Version>> {
    Ok(row.get::<_, Option<[u8; 32]>>(column)?.map(Version))
}

/// Reads an invocation from the columns [`RECORD`]; its result is read separately.
pub(super) fn record(row: &Row<'_>) -> Result<InvocationRecord> {
    Ok(InvocationRecord {
        id: id(row, 0)?,
        function: function(row, 1)?,
        trigger: word(row, 2, Trigger::parse)?,
        durable: row.get(14)?,
        state: word(row, 3, RunState::parse)?,
        accepted_ms: row.get(4)?,
        started_ms: row.get(5)?,
        ended_ms: row.get(6)?,
        attempts: row.get(7)?,
        polls: row.get(8)?,
        reason: word_or_none(row, 9, Reason::parse)?,
        message: row.get(10)?,
        exhausted: word_or_none(row, 11, Exhausted::parse)?,
        next_attempt_ms: row.get(12)?,
        version: version_or_none(row, 13)?,
        result: None,
        caller: None,
    })
}

/// Reads an attempt from the columns [`ATTEMPT`].
pub(super) fn attempt(row: &Row<'_>, function: FunctionName) -> Result<AttemptRecord> {
    Ok(AttemptRecord {
        invocation: id(row, 0)?,
        function,
        attempt: Attempt(row.get(1)?),
        poll: row.get(2)?,
        worker: row.get::<_, Option<u64>>(3)?.map(WorkerId),
        version: version_or_none(row, 4)?,
        started_ms: row.get(5)?,
        ended_ms: row.get(6)?,
        duration_us: row.get(7)?,
        reason: word(row, 8, Reason::parse)?,
        message: row.get(9)?,
        exit_code: row.get(10)?,
        signal: row.get(11)?,
        usage: Usage {
            cpu_us: row.get(12)?,
            memory_peak_bytes: row.get(13)?,
            peak_of_largest: row.get(14)?,
            throttled_us: row.get(15)?,
            stdout_bytes: row.get(16)?,
            stderr_bytes: row.get(17)?,
            dropped_bytes: row.get(18)?,
            scope_worker: row.get(21)?,
        },
        next_attempt_ms: row.get(19)?,
        cold: row.get(20)?,
    })
}

/// Reads the payload of an invocation from the columns [`PAYLOAD`], which begin at column `first`.
pub(super) fn payload(row: &Row<'_>, first: usize) -> Result<Payload> {
    // The checksum is compared before the bytes go anywhere: a damaged payload must not run.
    check_sum(row, first + 3, first + 6)?;
    Ok(Payload {
        data: row.get_ref(first + 3)?.as_blob_or_null()?.map(Data::from),
        content_type: row.get(first)?,
        context: row.get(first + 1)?,
        trace: row
            .get::<_, Option<String>>(first + 2)?
            // A trace that cannot be read is left out: the invocation runs without it.
            .and_then(|text| Trace::parse(&text)),
        request: json_or_none(row, first + 4)?,
        cause: json_or_none(row, first + 5)?,
    })
}

/// The columns that [`payload`] reads, in this order.
pub(super) const PAYLOAD: &str = "content_type, context, traceparent, \
    (SELECT data FROM body WHERE invocation = id AND kind = 'payload'), request, cause, \
    (SELECT checksum FROM body WHERE invocation = id AND kind = 'payload')";

/// The number of columns of [`PAYLOAD`].
pub(super) const PAYLOAD_WIDTH: usize = 7;

/// Checks that the bytes in a column are those that were written. Rows of fnd 0.1.0 have no checksum.
pub(super) fn check_sum(row: &Row<'_>, bytes: usize, checksum: usize) -> Result<()> {
    let bytes = row.get_ref(bytes)?.as_blob_or_null()?;
    let checksum: Option<u32> = row.get(checksum)?;
    match (bytes, checksum) {
        (Some(bytes), Some(checksum)) if crc32fast::hash(bytes) != checksum => {
            Err(damaged("the bytes of a payload or a result are not what was written"))
        }
        _ => Ok(()),
    }
}

/// Reads an invocation without its result.
pub(super) fn find(db: &Connection, id: InvocationId) -> Result<Option<InvocationRecord>> {
    let sql = format!("SELECT {RECORD} FROM invocation WHERE id = ?1");
    first(db, &sql, [blob(id)], record)
}

/// Adds up what the attempts of an invocation used.
pub(super) fn usage(db: &Connection, id: InvocationId) -> Result<UsageSum> {
    // The numbers of an attempt that shared its worker are those of the worker, so they are left out.
    let sql = "SELECT sum(cpu_us), max(memory_peak_bytes) FROM attempt WHERE invocation = ?1 AND scope_worker = 0";
    let read = |row: &Row<'_>| {
        Ok(UsageSum {
            cpu_us: row.get(0)?,
            memory_peak_bytes: row.get(1)?,
        })
    };
    db.prepare_cached(sql)?.query_row([blob(id)], read)
}

/// Reads an invocation's result.
pub(super) fn result(db: &Connection, id: InvocationId) -> Result<Option<RunResult>> {
    // A result in the row itself has no checksum; only the bytes in `body` have one.
    let sql = "SELECT result_json, coalesce(result, (SELECT data FROM body WHERE invocation = id AND kind = 'result')),
        response, iif(result IS NULL, (SELECT checksum FROM body WHERE invocation = id AND kind = 'result'), NULL)
        FROM invocation WHERE id = ?1 AND result_json IS NOT NULL";
    let read = |row: &Row<'_>| {
        check_sum(row, 1, 3)?;
        let data = Bytes::copy_from_slice(row.get_ref(1)?.as_blob()?);
        Ok(RunResult {
            json: row.get(0)?,
            data,
            response: json_or_none(row, 2)?,
            kept: None,
        })
    };
    first(db, sql, [blob(id)], read)
}
