//! Which statements store which command, and what a transaction counts for its functions.

use super::command::{self, LedgerCommand};
use super::events::{self, Earlier};
use super::rows::{blob, int};
use super::store::{
    discard_dead_letter, follow_later, has_ended, hook_failed, record_attempt, store, store_marks, update,
};
use super::{cancelled, files, messages};
use crate::database::execute;
use fnd_core::records::{AttemptRecord, InvocationRecord};
use fnd_wire::ids::FunctionName;
use rusqlite::{Connection, ToSql, params};
use std::collections::BTreeMap;

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
    pub(super) fn store(self, db: &Connection) -> rusqlite::Result<()> {
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
) -> rusqlite::Result<()> {
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
