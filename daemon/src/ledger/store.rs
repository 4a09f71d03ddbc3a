//! The statements that store commands. Each command is idempotent: storing it twice gives the same rows as storing it
//! once.

use super::command::{self, LedgerCommand};
use super::events::{self, Earlier};
use super::rows::{INLINE_MAX, blob, int};
use super::store_error::StoreError;
use super::{cancelled, files, messages};
use crate::allocator;
use crate::database::execute;
use fnd_core::idempotency::IdempotencyKey;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{Exhausted, Reason, Skip, Trigger};
use fnd_core::records::{Accepted, AttemptRecord, InvocationRecord, LastSlot, RunResult};
use fnd_core::triggers::schedule::Marks;
use fnd_wire::ids::{FunctionName, InvocationId};
use rusqlite::{Connection, ToSql, params};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The counts that the invocations of a transaction add to their functions, and the last attempts of these: stored once
/// for each function.
#[derive(Default)]
pub(super) struct LedgerCounts<'a>(BTreeMap<&'a FunctionName, Count<'a>>);

#[derive(Default)]
struct Count<'a> {
    runs: u32,
    failures: u32,
    last: Option<&'a AttemptRecord>,
}

impl<'a> LedgerCounts<'a> {
    fn of(&mut self, function: &'a FunctionName) -> &mut Count<'a> {
        self.0.entry(function).or_default()
    }

    /// Counts an invocation that has ended.
    fn ended(&mut self, record: &'a InvocationRecord) {
        let count = self.of(&record.function);
        count.runs += 1;
        count.failures += u32::from(record.state.is_failure());
    }

    /// Stores the counts inside the caller's transaction.
    pub(super) fn store(self, db: &Connection) -> Result<(), StoreError> {
        let sql =
            "INSERT INTO function (name, runs, failures, last_invocation, last_attempt) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (name) DO UPDATE SET runs = runs + excluded.runs, failures = failures + excluded.failures,
                last_invocation = ifnull(excluded.last_invocation, last_invocation),
                last_attempt = ifnull(excluded.last_attempt, last_attempt)";
        for (function, Count { runs, failures, last }) in self.0 {
            let (id, attempt) = last.map(|last| (blob(last.invocation), last.attempt.0)).unzip();
            execute(db, sql, params![function.as_str(), runs, failures, id, attempt])?;
        }
        Ok(())
    }
}

/// Stores a command inside the caller's transaction. `is_new` says that no row of its invocation is stored yet.
pub(super) fn apply<'a>(
    db: &Connection,
    (command, is_new): (&'a LedgerCommand, bool),
    counts: &mut LedgerCounts<'a>,
    earlier: &mut Earlier,
) -> Result<(), StoreError> {
    match command {
        LedgerCommand::Store(accepted) => store(db, accepted)?,
        LedgerCommand::MakeDurable { id, dead_letter } => {
            // A row without a key has no payload: its acceptance was not stored.
            let sql = "UPDATE invocation SET durable = 1, dead = ?2 WHERE id = ?1 AND key IS NOT NULL";
            let dead = (!dead_letter).then_some(0);
            execute(db, sql, params![blob(*id), dead])?;
        }
        LedgerCommand::Publish { shares, since_ms } => events::publish(db, shares, *since_ms, earlier)?,
        LedgerCommand::Claim(record) => {
            // An end that is stored stays the end.
            let sql =
                "UPDATE invocation SET state = ?2, attempts = ?3, polls = ?4, started_ms = ?5, next_attempt_ms = NULL
                WHERE id = ?1 AND ended_ms IS NULL";
            let started_ms = record.started_ms.map(int);
            let state = record.state.as_str();
            let claimed = params![blob(record.id), state, record.attempts, record.polls, started_ms];
            execute(db, sql, claimed)?;
        }
        LedgerCommand::Record(attempt, record) => {
            // An earlier attempt may have stored a result.
            update(db, record, is_new && record.attempts <= 1)?;
            if command::is_end_of_message(record) {
                messages::ends(db, record.id)?;
            }
            // A retry may bring an attempt that is stored already. It counts once.
            if record_attempt(db, attempt)? {
                counts.of(&attempt.function).last = Some(attempt);
                if record.has_run() {
                    counts.ended(record);
                }
            }
        }
        LedgerCommand::Update(record) => {
            // Without an attempt that ends with it, the row says whether the end is new.
            if record.has_run() && !has_ended(db, record.id)? {
                counts.ended(record);
            }
            if command::is_end_of_message(record) {
                messages::ends(db, record.id)?;
            }
            update(db, record, false)?;
        }
        LedgerCommand::DiscardDeadLetter(id) => discard_dead_letter(db, *id)?,
        LedgerCommand::StoreEnabled { function, disabled } => {
            let sql = "INSERT INTO function (name, enabled, disabled_uid, disabled_ms) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (name) DO UPDATE SET enabled = excluded.enabled,
                disabled_uid = excluded.disabled_uid, disabled_ms = excluded.disabled_ms";
            let (uid, since_ms) = (disabled.map(|by| by.uid), disabled.map(|by| int(by.since_ms)));
            execute(db, sql, params![function.as_str(), disabled.is_none(), uid, since_ms])?;
        }
        LedgerCommand::StoreMarks(marks) => store_marks(db, marks)?,
        LedgerCommand::Files(memory) => files::store(db, memory)?,
        LedgerCommand::Messages(memory) => messages::store(db, memory)?,
        LedgerCommand::Withdraw(id) => messages::withdraw(db, *id)?,
        LedgerCommand::Supersede { id, node } => messages::supersede(db, *id, node)?,
        LedgerCommand::StorePaused { function, paused } => {
            set(db, ["function", "name", "paused"], function.as_str(), paused)?;
        }
        LedgerCommand::StoreVersions { function, installed } => {
            let bytes = installed.iter().flat_map(|version| version.0).collect::<Vec<u8>>();
            set(db, ["versions", "function", "installed"], function.as_str(), &bytes)?;
        }
        LedgerCommand::StoreReleases { function, releases } => {
            let place = ["release", "function", "releases"];
            set_or_remove(db, place, function.as_str(), releases.as_deref())?;
        }
        LedgerCommand::Together(parts) | LedgerCommand::Change { parts, .. } => parts
            .iter()
            // `false` is always right: at most it deletes bodies that are not there.
            .try_for_each(|part| apply(db, (part, false), counts, earlier))?,
        LedgerCommand::Cancel(id) => cancelled::store(db, *id)?,
        LedgerCommand::FollowLater(id) => follow_later(db, *id)?,
        LedgerCommand::Followed(id) => {
            execute(db, "DELETE FROM unfollowed WHERE invocation = ?1", [blob(*id)])?;
        }
        LedgerCommand::HookFailed(id) => hook_failed(db, *id)?,
        LedgerCommand::StoreAlert { about, health } => {
            set_or_remove(db, ["alert", "about", "health"], about, health.as_deref())?;
        }
    }
    Ok(())
}

/// Sets a column in the row of a name, which is made if it is not there: table, column of the name, column of the value.
fn set(db: &Connection, [table, key, column]: [&str; 3], name: &str, value: &dyn ToSql) -> rusqlite::Result<()> {
    let sql = format!(
        "INSERT INTO {table} ({key}, {column}) VALUES (?1, ?2) ON CONFLICT ({key}) DO UPDATE SET {column} = excluded.{column}"
    );
    execute(db, &sql, params![name, value]).map(drop)
}

/// Like [`set`]; without a value the row is removed.
fn set_or_remove(db: &Connection, place: [&str; 3], name: &str, value: Option<&str>) -> rusqlite::Result<()> {
    let [table, key, _] = place;
    match value {
        Some(value) => set(db, place, name, &value),
        None => execute(db, &format!("DELETE FROM {table} WHERE {key} = ?1"), [name]).map(drop),
    }
}

/// Stores that what follows the end of an invocation is still to be found out.
pub(super) fn follow_later(db: &Connection, id: InvocationId) -> rusqlite::Result<()> {
    // A retry may bring an id that is stored already.
    let sql = "INSERT OR IGNORE INTO unfollowed (invocation) VALUES (?1)";
    execute(db, sql, [blob(id)]).map(drop)
}

/// Marks the invocation whose hook has failed.
fn hook_failed(db: &Connection, id: InvocationId) -> rusqlite::Result<()> {
    execute(db, "UPDATE invocation SET hook = 'failed' WHERE id = ?1", [blob(id)]).map(drop)
}

pub(super) fn store(db: &Connection, accepted: &Accepted) -> Result<(), StoreError> {
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
        let unreadable = |error| StoreError::Disk(rusqlite::Error::ToSqlConversionFailure(Box::new(error)));
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
        messages::store_mark(db, accepted, mark)?;
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
fn store_marks(db: &Connection, marks: &Marks) -> Result<(), StoreError> {
    let sql = "DELETE FROM schedule WHERE function = ?1";
    execute(db, sql, [marks.function.as_str()])?;
    marks
        .marks
        .iter()
        .try_for_each(|mark| put_mark(db, &marks.function, mark))
}

fn put_mark(db: &Connection, function: &FunctionName, mark: &LastSlot) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO schedule (function, key, last_ms, ahead_ms) VALUES (?1, ?2, ?3, ?4)";
    let (last_ms, ahead_ms) = (int(mark.last_ms), mark.ahead_ms.map(int));
    execute(db, sql, params![function.as_str(), &*mark.key, last_ms, ahead_ms])?;
    Ok(())
}

/// Ends an invocation that was just stored and never runs. If its function only has no room for it, or cannot read its input, it is a
/// dead letter, so that it can run later, unless its acceptance said that it never is one.
fn put_skipped(db: &Connection, accepted: &Accepted, reason: Reason, why: &str) -> Result<(), StoreError> {
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
fn update(db: &Connection, record: &InvocationRecord, is_new: bool) -> Result<(), StoreError> {
    let sql: &str = match record.ends_as_dead_letter() {
        true => &STORE_DEAD,
        false => STORE_STATE,
    };
    let (is_json, inline, apart) = split(record.result.as_ref());
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
        is_json,
        inline,
        record
            .result
            .as_ref()
            .and_then(|result| result.response.as_deref())
            .map(json),
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

fn has_ended(db: &Connection, id: InvocationId) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT 1 FROM invocation WHERE id = ?1 AND ended_ms IS NOT NULL)";
    Ok(db.prepare_cached(sql)?.query_row([blob(id)], |row| row.get(0))?)
}

/// Returns whether a result is JSON, and its bytes: first those that go into the row, then those that go into `body`.
fn split(result: Option<&RunResult>) -> (Option<bool>, Option<&[u8]>, Option<&[u8]>) {
    match result {
        None => (None, None, None),
        Some(result) if result.data.len() <= INLINE_MAX => (Some(result.json), Some(&result.data), None),
        Some(result) => (Some(result.json), None, Some(&result.data)),
    }
}

/// Returns a record of texts and numbers as JSON; this cannot fail for such values.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Removes an invocation from the dead letters, if it is one.
fn discard_dead_letter(db: &Connection, id: InvocationId) -> Result<(), StoreError> {
    // The value 0 stays: it says that the invocation never becomes a dead letter.
    let sql = "UPDATE invocation SET dead = NULL WHERE id = ?1 AND dead = 1";
    execute(db, sql, [blob(id)])?;
    Ok(())
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
fn record_attempt(db: &Connection, attempt: &AttemptRecord) -> Result<bool, StoreError> {
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
