//! Acts on the result of a write: sends acknowledgements, and keeps commands for a retry.

use super::LedgerThread;
use super::transaction::FoundRecords;
use crate::ledger::command::{self, Acknowledged, LedgerCommand, StoredShares};
use crate::ledger::queue::BYTES_MAX;
use crate::ledger::{files, store};
use fnd_core::records::InvocationRecord;
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_core::run::Shares;
use fnd_wire::ids::WorkerId;
use std::sync::Arc;

/// Most commands that are kept for a retry. Older commands are the starts of invocations that newer commands end, so
/// the oldest are dropped first.
const BACKLOG_MAX: usize = 65_536;

impl LedgerThread {
    /// Acknowledges durable invocations, claims and recorded ends.
    pub(super) fn settle(&mut self, commands: &[LedgerCommand], result: &Result<FoundRecords, Arc<str>>) {
        let (mut recorded, mut claimed) = (Vec::new(), Vec::new());
        let outcome = || result.as_ref().map(|_| ()).map_err(Arc::clone);
        for (command, is_kept) in parts(commands) {
            if let LedgerCommand::Record(attempt, _) = command {
                // If the write failed, the command is retried, and the spawner keeps the end until then. The worker of
                // a handler continues.
                recorded.extend(attempt.worker.filter(|_| result.is_ok() && attempt.cold.is_none()));
                #[cfg(feature = "simulate")]
                if fnd_core::mutants::Mutant::AcknowledgedEarly.is_on() && result.is_err() {
                    recorded.extend(attempt.worker.filter(|_| attempt.cold.is_none()));
                }
            }
            if result.is_ok() {
                self.empty_slot(command);
            }
            #[cfg(feature = "simulate")]
            if fnd_core::mutants::Mutant::SlotsEmptiedEarly.is_on() {
                self.empty_slot(command);
            }
            match command {
                // A part of `Together` is written with its end, now or at a retry.
                LedgerCommand::Store(accepted) if accepted.durable && (result.is_ok() || !is_kept) => {
                    let id = accepted.id;
                    let is_known = result.as_ref().is_ok_and(|found| !found.has_message(accepted));
                    (self.acknowledge)(match is_known {
                        true => Acknowledged::MessageIsKnown(id),
                        false => Acknowledged::Stored { id, result: outcome() },
                    });
                }
                LedgerCommand::MakeDurable { id, .. } => (self.acknowledge)(Acknowledged::Stored {
                    id: *id,
                    // The acceptance of the invocation may never have been stored.
                    result: outcome().and_then(|()| match store::is_durable(&self.db, *id) {
                        Ok(true) => Ok(()),
                        Ok(false) => Err("the ledger does not have it".into()),
                        Err(error) => Err(error.to_string().into()),
                    }),
                }),
                LedgerCommand::Publish { shares, .. } => self.settle_events(shares, result),
                LedgerCommand::Claim(record) => claimed.push(record.id),
                LedgerCommand::Record(_, record) | LedgerCommand::Update(record) if record.state.is_final() => {
                    if let Ok(found) = result {
                        self.settle_end(record, found);
                    }
                }
                _ => {}
            }
        }
        if !claimed.is_empty() {
            (self.acknowledge)(Acknowledged::Claimed {
                ids: claimed,
                result: outcome(),
            });
        }
        for command in commands {
            if let LedgerCommand::Change { number, .. } = command {
                (self.acknowledge)(Acknowledged::Changed {
                    number: *number,
                    result: outcome(),
                });
            }
        }
        self.forget(recorded);
        if result.is_ok() {
            self.releases_over(commands);
        }
    }

    /// Reports the functions whose releases the commands store.
    fn releases_over<'c>(&self, commands: impl IntoIterator<Item = &'c LedgerCommand>) {
        let of = |command: &LedgerCommand| match command {
            LedgerCommand::StoreReleases { function, .. } => Some(function.clone()),
            _ => None,
        };
        let functions: Vec<_> = commands.into_iter().filter_map(of).collect();
        if !functions.is_empty() {
            (self.acknowledge)(Acknowledged::ReleasesStored(functions));
        }
    }

    /// Notes an end that is stored, and acknowledges it if somebody acts on it.
    fn settle_end(&mut self, record: &InvocationRecord, found: &FoundRecords) {
        self.sweeper.ended(&record.function, record.id);
        if command::is_end_of_files(record) {
            self.settle_files(record);
        }
        if command::is_end_of_message(record) && found.tells_end(record.id) {
            (self.acknowledge)(Acknowledged::MessageEnded {
                function: record.function.clone(),
                id: record.id,
            });
        }
    }

    /// Acknowledges the end of a run for files. A run that repeats another may be one.
    fn settle_files(&self, record: &InvocationRecord) {
        let id = record.id;
        let contents = files::waiting(&self.db, id).unwrap_or_else(|error| {
            tracing::error!("failed to read which files wait for the invocation {id}: {error}");
            Vec::new()
        });
        if record.trigger == Trigger::File || !contents.is_empty() {
            (self.acknowledge)(Acknowledged::FilesEnded {
                function: record.function.clone(),
                id,
                success: record.state == RunState::Succeeded,
                contents,
            });
        }
    }

    /// Acknowledges the shares of events.
    fn settle_events(&mut self, shares: &Shares, result: &Result<FoundRecords, Arc<str>>) {
        let number = shares.number;
        let result = result.as_ref().map_err(Arc::clone).map(|found| {
            let earlier = found.earlier.get(&number).cloned().unwrap_or_default();
            let is_new = |place: usize| earlier.get(place).is_none_or(Option::is_none);
            let new = shares.events.iter().enumerate().filter(|(place, _)| is_new(*place));
            let mut stored = Vec::new();
            for (_, event) in new {
                let accepted = event.accepted.iter();
                stored.extend(accepted.map(|accepted| (accepted.function.clone(), accepted.id)));
                for accepted in &event.skipped {
                    // A share without room is stored with its end, so it counts as an end of its function.
                    self.sweeper.ended(&accepted.function, accepted.id);
                }
            }
            StoredShares {
                invocations: stored,
                earlier,
            }
        });
        (self.acknowledge)(Acknowledged::Published { number, result });
    }

    /// Empties the slots of attempts whose end, or whose invocation's end, is now stored.
    fn empty_slot(&self, command: &LedgerCommand) {
        match command {
            LedgerCommand::Record(attempt, record) => self.in_flight.stored(record.id, attempt.attempt.0),
            LedgerCommand::Update(record) if record.state.is_final() => self.in_flight.end_stored(record.id),
            // No other command stores an end.
            _ => {}
        }
    }

    fn forget(&self, recorded: Vec<WorkerId>) {
        if !recorded.is_empty() {
            (self.acknowledge)(Acknowledged::Recorded(recorded));
        }
    }

    /// Appends commands to the backlog, except those whose callers were refused. Commands that do not fit are lost.
    pub(super) fn keep(&mut self, commands: Vec<LedgerCommand>) {
        for command in commands {
            let is_kept = match &command {
                LedgerCommand::Store(accepted) => !accepted.durable,
                // The callers of these were refused, and a claim is made again by the supervisor.
                LedgerCommand::Publish { .. }
                | LedgerCommand::MakeDurable { .. }
                | LedgerCommand::Claim(..)
                | LedgerCommand::Change { .. } => false,
                _ => true,
            };
            if is_kept {
                self.backlog_bytes += command.size();
                self.backlog.push_back(command);
            }
        }
        // Keep the newest, as many as fit.
        let (mut excess, mut lost) = (0, Vec::new());
        while self.backlog.len() > BACKLOG_MAX || self.backlog_bytes > BYTES_MAX {
            let Some(oldest) = self.backlog.pop_front() else { break };
            self.backlog_bytes -= oldest.size();
            excess += 1;
            self.releases_over([&oldest]);
            for part in oldest.parts() {
                match part {
                    LedgerCommand::Record(attempt, _) => lost.extend(attempt.worker),
                    LedgerCommand::Store(accepted) if accepted.durable => (self.acknowledge)(Acknowledged::Stored {
                        id: accepted.id,
                        result: Err("the end that it follows was given up".into()),
                    }),
                    _ => {}
                }
            }
        }
        // The ends of these workers will never be stored. Without this the spawner would keep them for ever.
        self.forget(lost);
        let mut queue = self.queue.lock();
        queue.health.lost += excess;
        if self.backlog.is_empty() {
            queue.in_hand = None;
        }
    }
}

/// Returns all commands, each with whether it belongs to a `Together`, which is kept for a retry as a whole.
fn parts(commands: &[LedgerCommand]) -> impl Iterator<Item = (&LedgerCommand, bool)> {
    commands.iter().flat_map(|command| {
        let is_together = matches!(command, LedgerCommand::Together(_)); // a `Change` is not kept
        command.parts().iter().map(move |part| (part, is_together))
    })
}

/// Returns whether a command can change the number of dead letters.
pub(super) fn changes_figures(command: &LedgerCommand) -> bool {
    match command {
        LedgerCommand::Together(parts) | LedgerCommand::Change { parts, .. } => parts.iter().any(changes_figures),
        LedgerCommand::Record(_, record) | LedgerCommand::Update(record) => {
            matches!(record.state, RunState::Failed | RunState::Interrupted)
        }
        LedgerCommand::Store(accepted) => accepted.origin.is_some(),
        LedgerCommand::Publish { shares, .. } => shares.events.iter().any(|event| !event.skipped.is_empty()),
        LedgerCommand::DiscardDeadLetter(_) | LedgerCommand::Supersede { .. } => true,
        _ => false,
    }
}
