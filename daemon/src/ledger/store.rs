//! The statements that store invocations and attempts. Each is idempotent: storing a record twice gives the same rows as
//! storing it once.

use super::rows::{INLINE_MAX, blob, int};
use super::{cancelled, files, messages};
use crate::allocator;
use crate::database::execute;
use fnd_core::idempotency::IdempotencyKey;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{Exhausted, Reason, Skip, Trigger};
use fnd_core::records::{Accepted, AttemptRecord, InvocationRecord, LastSlot};
use fnd_core::triggers::schedule::Marks;
use fnd_wire::ids::{FunctionName, InvocationId};
use rusqlite::{Connection, params};
use serde::Serialize;
use std::sync::LazyLock;

/// Stores that what follows the end of an invocation is still to be found out.
pub(super) fn follow_later(db: &Connection, id: InvocationId) -> rusqlite::Result<()> {
    // A retry may bring an id that is stored already.
    let sql = "INSERT OR IGNORE INTO unfollowed (invocation) VALUES (?1)";
    execute(db, sql, [blob(id)]).map(drop)
}

/// Marks the invocation whose hook has failed.
pub(super) fn hook_failed(db: &Connection, id: InvocationId) -> rusqlite::Result<()> {
    execute(db, "UPDATE invocation SET hook = 'failed' WHERE id = ?1", [blob(id)]).map(drop)
}

pub(super) fn store(db: &Connection, accepted: &Accepted) -> rusqlite::Result<()> {
    if let Some(mark) = &accepted.message
        && !messages::store_mark(db, accepted, mark)?
    {
        return Ok(()); // nothing of it is stored, as its acknowledgement says
    }
    let id = blob(accepted.id);
    // The row may be there already, made of a slot of `in-flight`. Then only a missing cause and caller are added.
    let sql = "INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, attempts, polls, message,
            timeout_ms, not_before_ms, expires_ms, deadline_ms, content_type, context, traceparent, request, priority,
            key, origin, cause, dead, caller_uid, caller_pid, caller_exe, caller_verb)
        VALUES (?1, ?2, ?3, 'queued', ?4, ?5, 0, 0, '', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
            ?20, ?21, ?22)
        ON CONFLICT (id) DO UPDATE SET cause = ifnull(cause, excluded.cause),
            caller_uid = ifnull(caller_uid, excluded.caller_uid), caller_pid = ifnull(caller_pid, excluded.caller_pid),
            caller_exe = ifnull(caller_exe, excluded.caller_exe), caller_verb = ifnull(caller_verb, excluded.caller_verb)";
    let caller = accepted.caller.as_deref();
    db.prepare_cached(sql)?.execute(params![
        id,
        accepted.function.as_str(),
        accepted.trigger.as_str(),
        accepted.durable,
        int(accepted.accepted_ms),
        accepted.timeout_ms.map(int),
        accepted.not_before_ms.map(int),
        accepted.expires_ms.map(int),
        accepted.deadline_ms.map(int),
        accepted.payload.content_type,
        accepted.payload.context.as_deref(),
        accepted.payload.trace.as_ref().map(ToString::to_string),
        accepted.payload.request.as_deref().map(json),
        accepted.priority,
        accepted.key.as_ref().map(IdempotencyKey::as_str),
        accepted.origin.map(blob),
        accepted.payload.cause.as_deref().map(json),
        // 0: it never becomes a dead letter, however it ends. NULL: its end decides.
        (!accepted.dead_letter).then_some(0),
        caller.map(|caller| caller.uid),
        caller.and_then(|caller| caller.pid),
        caller.and_then(|caller| caller.exe.as_deref()),
        caller.map(|caller| caller.verb),
    ])?;
    if let (Trigger::Redrive, Some(origin)) = (accepted.trigger, accepted.origin) {
        // In the same transaction: the original is either still a dead letter, or it runs again; never both and never
        // neither.
        discard_dead_letter(db, origin)?;
    }
    if let Some(data) = &accepted.payload.data {
        // Not the fault of the database, but of the same disk.
        let unreadable = |error| rusqlite::Error::ToSqlConversionFailure(Box::new(error));
        put_body(db, accepted.id, "payload", &data.bytes().map_err(unreadable)?)?;
    }
    if let Some(key) = &accepted.load_key {
        let sql = "INSERT OR IGNORE INTO load (function, hash) VALUES (?1, ?2)";
        execute(db, sql, params![accepted.function.as_str(), key.0])?;
    }
    if let Some((reason, why)) = &accepted.skipped {
        put_skipped(db, accepted, *reason, why)?;
    }
    #[cfg(feature = "simulate")]
    if fnd_core::mutants::Mutant::MarkApart.is_on() {
        files::store_marks(db, &accepted.function, &accepted.files, Some(accepted.id))?;
        return Ok(());
    }
    if let Some(mark) = &accepted.mark {
        // In the same transaction: after a crash the slot has either been handled or it comes again; never both.
        put_mark(db, &accepted.function, mark)?;
    }
    // In the same transaction: after a crash the files are either handled, or they are offered again.
    files::store_marks(db, &accepted.function, &accepted.files, Some(accepted.id))?;
    if let Some(mark) = &accepted.message {
        messages::store_begun(db, accepted.id, mark.begun)?;
        if accepted.skipped.is_some() {
            messages::ends(db, accepted.id)?;
        }
    }
    Ok(())
}

/// Says whether an invocation is stored as one that outlives this fnd.
pub(super) fn is_durable(db: &Connection, id: InvocationId) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM invocation WHERE id = ?1 AND durable)";
    db.prepare_cached(sql)?.query_row([blob(id)], |row| row.get(0))
}

/// Replaces the marks of a function's schedules.
pub(super) fn store_marks(db: &Connection, marks: &Marks) -> rusqlite::Result<()> {
    let sql = "DELETE FROM schedule WHERE function = ?1";
    execute(db, sql, [marks.function.as_str()])?;
    marks
        .marks
        .iter()
        .try_for_each(|mark| put_mark(db, &marks.function, mark))
}

fn put_mark(db: &Connection, function: &FunctionName, mark: &LastSlot) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO schedule (function, key, last_ms, ahead_ms) VALUES (?1, ?2, ?3, ?4)";
    let (last_ms, ahead_ms) = (int(mark.last_ms), mark.ahead_ms.map(int));
    execute(db, sql, params![function.as_str(), &*mark.key, last_ms, ahead_ms]).map(drop)
}

/// Ends an invocation that was just stored and never runs. If its function only has no room for it, or cannot read its input, it is a
/// dead letter, so that it can run later, unless its acceptance said that it never is one.
fn put_skipped(db: &Connection, accepted: &Accepted, reason: Reason, why: &str) -> rusqlite::Result<()> {
    // A retry finds this end. A dead letter that was dropped meanwhile must not come back.
    let sql = "UPDATE invocation SET state = ?2, ended_ms = ?3, reason = ?4, message = ?5,
            dead = iif(?6 AND dead IS NULL, 1, dead)
        WHERE id = ?1 AND ended_ms IS NULL";
    let may_run_later = match reason {
        Reason::Skipped(skip) => matches!(skip, Skip::QueueFull | Skip::Rate | Skip::Quota),
        reason => reason == Reason::Input,
    };
    db.prepare_cached(sql)?.execute(params![
        blob(accepted.id),
        reason.final_state().as_str(),
        int(accepted.accepted_ms),
        reason.to_string(),
        why,
        may_run_later,
    ])?;
    // The only thing that follows an end without a beginning.
    if let Some(before) = accepted.payload.cause.as_deref().and_then(Cause::marks) {
        hook_failed(db, before)?;
    }
    Ok(())
}

/// Stores an invocation with its state, such as the end of a call or one skipped on arrival; replaces the state of one that is stored.
const STORE_STATE: &str =
    "INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, started_ms, ended_ms,
        attempts, polls, reason, message, exhausted, next_attempt_ms, version, result_json, result, response,
        caller_uid, caller_pid, caller_exe, caller_verb)
    VALUES (?1, ?2, ?3, ?4, 0, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?19, ?20, ?21, ?22)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, started_ms = excluded.started_ms,
        ended_ms = excluded.ended_ms, attempts = excluded.attempts, polls = excluded.polls, reason = excluded.reason,
        message = excluded.message, exhausted = excluded.exhausted, next_attempt_ms = excluded.next_attempt_ms,
        version = excluded.version, result_json = excluded.result_json, result = excluded.result,
        response = excluded.response, request = iif(?18, request, NULL)";

/// The same for an end that makes a dead letter.
///
/// The triggers of the table watch the column `dead` alone, and for a statement that can run a trigger SQLite keeps a journal of the
/// statement. So only the end of an invocation that becomes a dead letter sets it, unless its acceptance said that it never does. Only
/// the first end counts: a dead letter that was dropped must not come back if its end is stored again. If SQLite refused the acceptance
/// of durable work, the row is not durable and has no payload to run again.
static STORE_DEAD: LazyLock<String> = LazyLock::new(|| {
    let dead = "dead = iif(durable AND ended_ms IS NULL AND dead IS NULL, 1, dead)";
    format!("{STORE_STATE}, {dead}")
});

/// Stores the state of an invocation, also if the invocation was never stored, such as one skipped on arrival.
pub(super) fn update(db: &Connection, record: &InvocationRecord, is_new: bool) -> rusqlite::Result<()> {
    let sql: &str = match record.ends_as_dead_letter() {
        true => &STORE_DEAD,
        false => STORE_STATE,
    };
    let result = record.result.as_ref();
    // The bytes of a result go into the row, or into `body` if they are many.
    let (inline, apart) = match result.map(|result| &result.data[..]) {
        Some(data) if data.len() <= INLINE_MAX => (Some(data), None),
        data => (None, data),
    };
    let caller = record.caller.as_deref();
    db.prepare_cached(sql)?.execute(params![
        blob(record.id),
        record.function.as_str(),
        record.trigger.as_str(),
        record.state.as_str(),
        int(record.accepted_ms),
        record.started_ms.map(int),
        record.ended_ms.map(int),
        record.attempts,
        record.polls,
        record.reason.map(|reason| reason.to_string()),
        record.message,
        record.exhausted.map(Exhausted::as_str),
        record.next_attempt_ms.map(int),
        record.version.map(|version| version.0),
        result.map(|result| result.json),
        inline,
        result.and_then(|result| result.response.as_deref()).map(json),
        record.keeps_payload(),
        caller.map(|caller| caller.uid),
        caller.and_then(|caller| caller.pid),
        caller.and_then(|caller| caller.exe.as_deref()),
        caller.map(|caller| caller.verb),
    ])?;
    if record.reason == Some(Reason::Cancelled) && record.state.is_final() {
        // The order to end the invocation is carried out, so the next fnd must not repeat it.
        cancelled::forget(db, record.id)?;
    }
    match apart {
        Some(data) => put_body(db, record.id, "result", data)?,
        // A new row has no body that would have to be deleted.
        None if is_new => {}
        None => {
            let sql = "DELETE FROM body WHERE invocation = ?1 AND kind = 'result'";
            execute(db, sql, [blob(record.id)])?;
        }
    }
    if !record.keeps_payload() && !is_new {
        let sql = "DELETE FROM body WHERE invocation = ?1 AND kind = 'payload'";
        execute(db, sql, [blob(record.id)])?;
    }
    Ok(())
}

pub(super) fn has_ended(db: &Connection, id: InvocationId) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM invocation WHERE id = ?1 AND ended_ms IS NOT NULL)";
    db.prepare_cached(sql)?.query_row([blob(id)], |row| row.get(0))
}

/// Returns a record of texts and numbers as JSON; this cannot fail for such values.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Removes an invocation from the dead letters, if it is one.
pub(super) fn discard_dead_letter(db: &Connection, id: InvocationId) -> rusqlite::Result<()> {
    // The value 0 stays: it says that the invocation never becomes a dead letter.
    let sql = "UPDATE invocation SET dead = NULL WHERE id = ?1 AND dead = 1";
    execute(db, sql, [blob(id)]).map(drop)
}

fn put_body(db: &Connection, id: InvocationId, kind: &str, data: &[u8]) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO body (invocation, kind, data, checksum) VALUES (?1, ?2, ?3, ?4)";
    // SQLite has no checksums of its own, and a damaged payload must not run.
    let checksum = crc32fast::hash(data);
    execute(db, sql, params![blob(id), kind, data, checksum])?;
    // SQLite has copied the bytes, and their owner drops them soon.
    allocator::freed(data.len() as u64);
    Ok(())
}

/// Stores an attempt; returns whether it was not stored before.
pub(super) fn record_attempt(db: &Connection, attempt: &AttemptRecord) -> rusqlite::Result<bool> {
    let sql = "INSERT INTO attempt (invocation, n, poll, worker, version, started_ms, ended_ms, duration_us, reason,
            message, exit_code, signal, cpu_us, memory_peak_bytes, peak_of_largest, throttled_us, stdout_bytes,
            stderr_bytes, dropped_bytes, next_attempt_ms, cold, scope_worker)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)
        ON CONFLICT (invocation, n) DO NOTHING";
    let id = blob(attempt.invocation);
    let usage = &attempt.usage;
    let new = db.prepare_cached(sql)?.execute(params![
        id,
        attempt.attempt.0,
        attempt.poll,
        attempt.worker.map(|worker| int(worker.0)),
        attempt.version.map(|version| version.0),
        int(attempt.started_ms),
        int(attempt.ended_ms),
        int(attempt.duration_us),
        attempt.reason.to_string(),
        attempt.message,
        attempt.exit_code,
        attempt.signal,
        int(usage.cpu_us),
        usage.memory_peak_bytes.map(int),
        usage.peak_of_largest,
        int(usage.throttled_us),
        int(usage.stdout_bytes),
        int(usage.stderr_bytes),
        int(usage.dropped_bytes),
        attempt.next_attempt_ms.map(int),
        attempt.cold,
        usage.scope_worker,
    ])?;
    Ok(new > 0)
}
