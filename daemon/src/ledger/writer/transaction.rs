//! Writes commands in one transaction.

use super::LedgerThread;
use crate::database::LogPages;
use crate::ledger::apply::{LedgerCounts, apply};
use crate::ledger::command::{self, LedgerCommand};
use crate::ledger::events::Earlier;
use crate::ledger::messages;
use crate::ledger::room::Pages;
use crate::ledger::unwritable;
use fnd_core::records::Accepted;
use fnd_wire::ids::InvocationId;
use rusqlite::{Connection, ErrorCode};
use std::collections::{HashMap, HashSet};

/// The report of a transaction.
#[derive(Debug, Default)]
pub(super) struct WrittenRecords {
    /// Number of commands that SQLite refused because of their content.
    pub(super) refused: u64,
    pub(super) found: FoundRecords,
    /// The pages of the database.
    pub(super) pages: Option<Pages>,
    /// The size of the log whose end was recorded.
    pub(super) log: Option<LogPages>,
}

/// What a transaction has found in the database for the acknowledgements of its commands. It asks before its commit: each question after
/// that would take the locks of the database anew.
#[derive(Debug, Default)]
pub(super) struct FoundRecords {
    /// Events that were sent before.
    pub(super) earlier: Earlier,
    /// The invocations whose messages are stored, and whether the server is to be told of their ends.
    messages: HashMap<InvocationId, bool>,
}

impl FoundRecords {
    /// Finds the messages of which the commands say that they are new, or have ended.
    fn look_for_messages(&mut self, db: &Connection, commands: &[&LedgerCommand]) -> rusqlite::Result<()> {
        let of = |command: &&LedgerCommand| match command {
            LedgerCommand::Store(accepted) => accepted.message.is_some().then_some(accepted.id),
            LedgerCommand::Record(_, record) | LedgerCommand::Update(record) => {
                command::is_end_of_message(record).then_some(record.id)
            }
            _ => None,
        };
        for id in commands.iter().filter_map(of) {
            if let Some(tells_end) = messages::tells_end(db, id)? {
                self.messages.insert(id, tells_end);
            }
        }
        Ok(())
    }

    /// Says whether a new invocation has its message, if it is of one. If another invocation has it, nothing of this one is stored.
    pub(super) fn has_message(&self, accepted: &Accepted) -> bool {
        accepted.message.is_none() || self.messages.contains_key(&accepted.id)
    }

    /// Says whether the server is to be told of the end of an invocation: not if the record of another node counts.
    pub(super) fn tells_end(&self, id: InvocationId) -> bool {
        self.messages.get(&id).is_some_and(|tells_end| *tells_end)
    }
}

/// Why no command was written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unwritten {
    /// The paths do not lead to the open files any more, or the changes of the start still cannot be written.
    #[error("{0}")]
    Files(String),
    /// SQLite reported an error.
    #[error(transparent)]
    Sqlite(rusqlite::Error),
}

impl LedgerThread {
    /// Writes commands in one transaction.
    pub(super) fn write(&mut self, commands: &[LedgerCommand]) -> Result<WrittenRecords, Unwritten> {
        if let Some(later) = &mut self.later {
            let made_up = later.make_up(&self.path, &mut self.db, &self.present, &self.in_flight);
            self.full_sync = true; // every new connection starts with full sync
            made_up.map_err(|error| Unwritten::Files(unwritable::in_words(&error, &self.path)))?;
            self.later = None;
            self.log = None; // the database was opened anew
        }
        if let Some(wrong) = self.present.wrong_or_short() {
            return Err(Unwritten::Files(wrong));
        }
        let written = self.write_now(commands);
        // A write that failed may have written to the files, too.
        let log = self.record_log();
        let written = written.map_err(Unwritten::Sqlite)?;
        Ok(WrittenRecords { log, ..written })
    }

    fn write_now(&mut self, commands: &[LedgerCommand]) -> rusqlite::Result<WrittenRecords> {
        let sync = commands.iter().any(LedgerCommand::is_synced);
        if sync != self.full_sync {
            // Without sync a commit does not wait for the disk; the next synced commit includes it.
            self.db
                .pragma_update(None, "synchronous", if sync { "full" } else { "normal" })?;
            self.full_sync = sync;
        }
        // Use savepoints only after a refusal: a savepoint costs about as much as the command inside it.
        match self.transact(commands, false) {
            Err(error) if is_refusal(&error) => self.transact(commands, true),
            other => other,
        }
    }

    fn transact(&mut self, commands: &[LedgerCommand], one_by_one: bool) -> rusqlite::Result<WrittenRecords> {
        let mut written = WrittenRecords::default();
        let mut transaction = self.db.transaction()?;
        // SQLite writes no page for a row that stays as it is. A commit without pages syncs nothing, shows no fault of the disk, and
        // leaves a failed commit at the end of the log, where the next start finds it. SQLite always writes the page of this
        // number, which the ledger does not use.
        if commands.is_empty() || commands.iter().any(|command| command.parts().is_empty()) {
            transaction.pragma_update(None, "user_version", 0)?;
        }
        let mut counts = LedgerCounts::default();
        let commands: Vec<_> = commands.iter().flat_map(LedgerCommand::parts).collect();
        for (command, is_new) in needed(&commands) {
            if !one_by_one {
                apply(&transaction, (command, is_new), &mut counts, &mut written.found.earlier)?;
                continue;
            }
            let step = transaction.savepoint()?;
            // The counts are stored inside of the savepoint, so that a refused record counts nothing.
            let mut counts = LedgerCounts::default();
            let stored = apply(&step, (command, is_new), &mut counts, &mut written.found.earlier);
            let stored = stored.and_then(|()| counts.store(&step));
            match stored {
                Ok(()) => step.commit()?,
                Err(error) if is_refusal(&error) => {
                    written.refused += 1;
                    drop(step);
                    tracing::error!("the ledger refused a record ({error}), continuing without it");
                }
                Err(error) => return Err(error),
            }
        }
        counts.store(&transaction)?;
        written.found.look_for_messages(&transaction, &commands)?;
        // If it fails, the sweeper asks itself.
        written.pages = Pages::of(&transaction).ok();
        (self.commit)(transaction)?;
        Ok(written)
    }
}

/// Returns whether a command is at fault, so that it will never work. With every other error the disk or the database is at fault:
/// the whole transaction has failed, and may work later.
fn is_refusal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch)
    )
}

/// Leaves out commands that a later command of the same transaction replaces: earlier states of an invocation, and the
/// acceptance of an invocation whose payload is not kept. The acceptance holds only data that is needed to run or rerun
/// the invocation. It is stored if it has a load key, an idempotency key, a mark or a cause, which is kept.
///
/// The `bool` says whether the invocation began and succeeded in this batch, so that the database has no row of it yet.
fn needed<'a>(commands: &[&'a LedgerCommand]) -> impl Iterator<Item = (&'a LedgerCommand, bool)> {
    let end = |command: &LedgerCommand| match command {
        LedgerCommand::Record(_, record) | LedgerCommand::Update(record) => {
            Some(record.id).filter(|_| !record.keeps_payload())
        }
        _ => None,
    };
    let over: HashSet<_> = commands.iter().filter_map(|command| end(command)).collect();
    let is_left_out = |accepted: &Accepted| {
        let matters = accepted.load_key.is_some()
            || accepted.key.is_some()
            || accepted.mark.is_some()
            || !accepted.files.is_empty()
            || accepted.message.is_some()
            || accepted.payload.cause.is_some();
        !matters && over.contains(&accepted.id)
    };
    let new = |command: &&LedgerCommand| match command {
        LedgerCommand::Store(accepted) if is_left_out(accepted) => Some(accepted.id),
        _ => None,
    };
    let new: HashSet<_> = commands.iter().filter_map(new).collect();
    let mut covered = HashSet::new();
    // The commands are visited from the newest to the oldest, so a later state is seen before the states that it
    // replaces.
    let later = |command: &&LedgerCommand| match command {
        LedgerCommand::Claim(record) | LedgerCommand::Update(record) => {
            // No later state replaces an end.
            covered.insert(record.id) || record.state.is_final()
        }
        LedgerCommand::Record(_, record) => {
            covered.insert(record.id);
            true
        }
        LedgerCommand::Store(accepted) => !is_left_out(accepted),
        // No later command replaces one of these.
        _ => true,
    };
    let needed: Vec<_> = commands.iter().copied().rev().filter(later).collect();
    needed.into_iter().rev().map(move |command| {
        let is_new = matches!(command, LedgerCommand::Record(_, record) if new.contains(&record.id));
        (command, is_new)
    })
}
