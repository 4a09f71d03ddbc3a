//! Reads the table that an earlier fnd left, and applies it to the database.

use super::FILE;
use super::slot::{self, Begun, Over, Slot, SlotEnd, TableHeader};
use crate::database;
use crate::ledger::apply::{LedgerCounts, apply};
use crate::ledger::events::Earlier;
use crate::ledger::rows::{self, UNFINISHED, blob, int};
use crate::ledger::{LedgerCommand, meta, store};
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_core::records::{AttemptRecord, InvocationRecord, RunResult};
use fnd_wire::form::Wire;
use fnd_wire::ids::{Attempt, InvocationId};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;

/// Key in `meta` under which the database stores the nonce of its table.
const NONCE: &str = "in-flight";

/// A table as it was read.
#[derive(Debug, Clone, Default)]
pub(super) struct OldTable {
    pub(super) header: Option<TableHeader>,
    /// The filled slots, each with its position.
    pub(super) slots: Vec<(u64, Slot)>,
    /// Number of slots that could not be read.
    pub(super) unreadable: usize,
    /// Number of slots, including the first.
    pub(super) count: u64,
}

impl OldTable {
    /// Returns whether this may be the table of a database that has recorded this nonce. A table whose first slot
    /// cannot be read may be, and so may every table if the database has recorded no nonce.
    pub(super) fn may_be(&self, known: Option<&str>) -> bool {
        match (&self.header, known) {
            (Some(header), Some(known)) => header.nonce.to_string() == known,
            (None, _) => !self.slots.is_empty(),
            (Some(_), None) => true,
        }
    }
}

/// Reads a table. A slot that cannot be read is only counted.
pub(super) fn read(mut file: &File) -> io::Result<OldTable> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut file, &mut bytes)?;
    let mut slots = bytes.chunks(slot::LENGTH);
    let header = slots
        .next()
        .and_then(|slot| understood::<TableHeader>(slot).ok().flatten());
    let mut table = OldTable {
        header,
        count: 1,
        ..OldTable::default()
    };
    for slot in slots {
        match understood::<Slot>(slot) {
            Ok(slot) => table.slots.extend(slot.map(|slot| (table.count, slot))),
            Err(()) => table.unreadable += 1,
        }
        table.count += 1;
    }
    Ok(table)
}

fn understood<T: Wire>(slot: &[u8]) -> Result<Option<T>, ()> {
    slot::decode(slot).map_err(|error| tracing::warn!("a slot of `{FILE}` cannot be read ({error}), it is left out"))
}

/// Returns the nonce of the table that the database has recorded as its own.
pub(in crate::ledger) fn known(db: &Connection) -> rusqlite::Result<Option<String>> {
    meta::get(db, NONCE)
}

/// Stores the attempts of an earlier table in the database, and records `nonce` as that of the table that now belongs
/// to the database. A table of another database is ignored: two databases may have used the same run directory. For a
/// script's attempt among `held_attempts` the end in its slot is not stored: the spawner reports the end with the result,
/// which a slot does not have.
///
/// Returns the slots of the attempts that run for the database. The slots that were left to the spawner have their ends: if
/// the spawner dies before its report is stored, only the slot has the end of which a caller was told.
///
/// This is part of the caller's transaction. Doing it twice changes nothing.
pub(super) fn settle(
    transaction: &Connection,
    (table, held_attempts): (&OldTable, &BTreeSet<(InvocationId, Attempt)>),
    boot: &str,
    nonce: u64,
) -> rusqlite::Result<Vec<Slot>> {
    let known = known(transaction)?;
    let table = Some(table).filter(|table| table.may_be(known.as_deref()));
    let table = table.cloned().unwrap_or_default();
    let is_ours = |header: &TableHeader| {
        let same_boot = !boot.is_empty() && header.boot == boot;
        header.complete && same_boot && known == Some(header.nonce.to_string())
    };
    let complete = table.unreadable == 0 && table.header.as_ref().is_some_and(is_ours);
    let begun: BTreeSet<_> = table.slots.iter().map(|(_, slot)| slot.key()).collect();
    // The slots in order of their attempts; an attempt with a later one has ended.
    let mut slots: Vec<_> = table.slots.into_iter().map(|(_, slot)| slot).collect();
    // Two slots of one attempt need no order: a start changes nothing where the end is stored.
    slots.sort_by_key(Slot::key);
    let mut left_to_spawner = BTreeMap::new();
    for slot in slots {
        let (invocation, attempt) = slot.key();
        let is_newest = begun
            .range((invocation, attempt.next())..=(invocation, Attempt(u32::MAX)))
            .next()
            .is_none();
        // A report about an attempt of an invocation that has ended since changes nothing any more.
        let has_ended = begun.contains(&(invocation, slot::ENDED));
        // Only the end of a call records whether the call waited for its worker.
        let is_of_script = |over: &Over| over.cold.is_none();
        let is_reported_again =
            |over: &Over| is_of_script(over) && !has_ended && held_attempts.contains(&(invocation, attempt));
        let records = match slot.over {
            SlotEnd::Attempt(end) if is_reported_again(&end) => {
                left_to_spawner.insert((invocation, attempt), SlotEnd::Attempt(end));
                None
            }
            SlotEnd::Attempt(end) => {
                let records = end.records(&slot.begun);
                records.map(|(attempt, record)| (Some(attempt), record))
            }
            SlotEnd::Invocation(mut end) => {
                // Its result is that of an attempt, which may be stored.
                let result = match end.has_result {
                    true => result_of(transaction, &slot.begun)?,
                    false => None,
                };
                end.has_result &= result.is_none();
                let records = end.records(&slot.begun);
                records.map(|(_, record)| (None, InvocationRecord { result, ..record }))
            }
            SlotEnd::Unknown => None,
        };
        match records {
            Some((attempt, record)) => over(transaction, attempt, record)?,
            None if is_newest => running(transaction, &slot.begun)?,
            None => {}
        }
    }
    // Only a table that has missed no write shows by a missing slot that an attempt has not begun.
    if complete {
        give_back(transaction, &begun)?;
    }
    meta::set(transaction, NONCE, &nonce.to_string())?;
    let running = all_running(transaction)?.into_iter().map(|begun| {
        let left = left_to_spawner.remove(&(begun.invocation, begun.attempt));
        let over = left.unwrap_or(SlotEnd::Unknown);
        Slot { begun, over }
    });
    Ok(running.collect())
}

/// Removes the nonce from a copy of a database: the copy is of another moment than the table beside it.
pub(in crate::ledger) fn disown(copy: &Path) -> rusqlite::Result<()> {
    meta::remove(&Connection::open(copy)?, NONCE)
}

/// Stores that an attempt has begun, unless the database already knows that or the attempt's end.
fn running(db: &Connection, begun: &Begun) -> rusqlite::Result<()> {
    if Trigger::parse(&begun.trigger.0).is_none() {
        return Ok(());
    }
    let sql = "INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, started_ms, attempts, polls, message)
        VALUES (?1, ?2, ?3, 'running', 0, ?4, ?5, ?6, 0, '')
        ON CONFLICT (id) DO UPDATE SET state = excluded.state, started_ms = coalesce(started_ms, excluded.started_ms),
            attempts = excluded.attempts
        WHERE state IN ('queued', 'waiting', 'polling') AND attempts < excluded.attempts";
    let begun = params![
        blob(begun.invocation),
        begun.function.as_str(),
        begun.trigger.0,
        int(begun.invocation.unix_ms()),
        int(begun.started_ms),
        begun.attempt.0,
    ];
    db.execute(sql, begun).map(drop)
}

/// Stores how an attempt has ended, or how an invocation has ended without one, unless the database already knows that.
fn over(db: &Connection, attempt: Option<AttemptRecord>, mut record: InvocationRecord) -> rusqlite::Result<()> {
    if let Some(known) = rows::find(db, record.id)? {
        if known.state.is_final() || (attempt.is_some() && has_end_of(&known, record.attempts)) {
            return Ok(());
        }
        // A slot does not have these; the row of the invocation does.
        record.accepted_ms = known.accepted_ms;
        record.durable = known.durable;
        // A claim stores a start, and the attempt may not have begun.
        if record.attempts > 0 {
            record.started_ms = known.started_ms.or(record.started_ms);
        }
    }
    if record.state.is_final() {
        // The earlier fnd could not decide it any more, or its decision is not on the disk.
        store::follow_later(db, record.id)?;
    }
    let record = Box::new(record);
    let command = match attempt {
        Some(attempt) => LedgerCommand::Record(Box::new(attempt), record),
        None => LedgerCommand::Update(record),
    };
    let mut counts = LedgerCounts::default();
    apply(db, (&command, false), &mut counts, &mut Earlier::new())?;
    counts.store(db)
}

/// Returns the result of an invocation that has ended without an attempt, if the database has it.
fn result_of(db: &Connection, begun: &Begun) -> rusqlite::Result<Option<RunResult>> {
    match rows::find(db, begun.invocation)? {
        Some(known) if has_end_of(&known, begun.attempt.0) => rows::result(db, begun.invocation),
        _ => Ok(None),
    }
}

/// Returns whether a row has the end of this attempt.
fn has_end_of(known: &InvocationRecord, attempt: u32) -> bool {
    known.attempts > attempt || (known.attempts == attempt && known.state != RunState::Running)
}

/// Puts claimed attempts that have not begun back into the state before the claim.
fn give_back(db: &Connection, begun: &BTreeSet<(InvocationId, Attempt)>) -> rusqlite::Result<()> {
    let sql = "UPDATE invocation SET
            state = CASE WHEN attempts <= 1 THEN 'queued' WHEN reason = 'execute-again' THEN 'polling' ELSE 'waiting' END,
            started_ms = iif(attempts <= 1, NULL, started_ms),
            polls = polls - (attempts > 1 AND reason IS 'execute-again'),
            attempts = attempts - 1
        WHERE id = ?1";
    for (id, attempt) in claimed(db)? {
        if !begun.contains(&(id, attempt)) {
            db.execute(sql, [blob(id)])?;
        }
    }
    Ok(())
}

fn claimed(db: &Connection) -> rusqlite::Result<Vec<(InvocationId, Attempt)>> {
    // An attempt that another node has begun is in no table of this one.
    let sql = format!(
        "SELECT id, attempts FROM invocation WHERE {UNFINISHED} AND state = 'running' AND durable AND attempts > 0
        AND NOT EXISTS (SELECT 1 FROM message WHERE message.invocation = id AND begun >= attempts)"
    );
    database::all(db, &sql, [], |row| Ok((rows::id(row, 0)?, Attempt(row.get(1)?))))
}

fn all_running(db: &Connection) -> rusqlite::Result<Vec<Begun>> {
    let sql = format!(
        "SELECT id, attempts, function, trigger, coalesce(started_ms, accepted_ms) FROM invocation
        WHERE {UNFINISHED} AND state = 'running'"
    );
    database::all(db, &sql, [], |row| {
        Ok(Begun {
            invocation: rows::id(row, 0)?,
            attempt: Attempt(row.get(1)?),
            function: rows::function(row, 2)?,
            trigger: rows::word(row, 3, Trigger::parse)?.as_str().into(),
            started_ms: row.get(4)?,
        })
    })
}
