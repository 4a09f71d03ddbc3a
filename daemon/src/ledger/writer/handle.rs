//! Accepts commands to store, and reports the state of the writer.

use super::{Failing, LedgerThread, WriterEffects};
use crate::database::PresentFiles;
use crate::ledger::Retention;
use crate::ledger::command::{Figures, LedgerCommand, WriterHealth};
use crate::ledger::in_flight::{Begun, InFlight};
use crate::ledger::notices;
use crate::ledger::queue::CommandQueue;
use crate::ledger::sweeper::Sweeper;
use crate::ledger::unwritable::Later;
use crate::ledger::{FILE, OpenError, Site};
use crate::lock::lock;
use fnd_core::records::{AttemptRecord, InvocationRecord};
use fnd_wire::ids::{Attempt, FunctionName, InvocationId};
use rusqlite::Connection;
use std::collections::VecDeque;
use std::hash::{Hash as _, Hasher};
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

impl LedgerThread {
    /// Starts the thread of a writer.
    pub(in crate::ledger) fn spawn(self, writer: &LedgerWriter) -> io::Result<()> {
        let thread = std::thread::Builder::new().name("ledger".into());
        let thread = thread.spawn(move || self.run())?;
        *lock(&writer.thread) = Some(thread);
        Ok(())
    }
}

/// Accepts commands to store; clones share one thread.
#[derive(Clone)]
pub struct LedgerWriter {
    pub(in crate::ledger) queue: Arc<CommandQueue>,
    in_flight: Arc<InFlight>,
    present: Arc<PresentFiles>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl LedgerWriter {
    /// Makes a writer, and its thread, which is not started yet.
    pub(in crate::ledger) fn prepare(
        (db, later): (Connection, Option<Later>),
        in_flight: InFlight,
        Site { state, run, .. }: Site<'_>,
        retention: Retention,
        WriterEffects { commit, acknowledge }: WriterEffects,
    ) -> Result<(Self, LedgerThread), OpenError> {
        let path = state.join(FILE);
        let failed = |source| OpenError::of(&path, source);
        let queue = Arc::new(CommandQueue::default());
        let sweeper = Sweeper::new(&db, retention).map_err(failed)?;
        queue.lock().figures = sweeper.figures(&db).map_err(failed)?;
        queue.lock().health.forgetting = sweeper.forgetting;
        let notices = notices::read(&db).map_err(failed)?;
        queue.set_notices(notices.clone());
        if let Some(later) = &later {
            queue.done(Some(later.reason.to_string()));
            queue.lock().health.failed += 1;
        }
        // The database has been read, so all of its files exist.
        let present = Arc::new(PresentFiles::of(&path).map_err(|error| OpenError::Thread(error.into()))?);
        let in_flight = Arc::new(in_flight);
        // A start that could not store its changes counts as a failed write, which may be retried at once.
        let failing = later.as_ref().map(|later| Failing {
            reason: Arc::clone(&later.reason),
            until: crate::clock::monotonic(),
        });
        let mut state = LedgerThread {
            queue: Arc::clone(&queue),
            log: None,
            run: run.to_owned(),
            path,
            db,
            later,
            in_flight: Arc::clone(&in_flight),
            present: Arc::clone(&present),
            notices,
            commit,
            acknowledge,
            sweeper,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            full_sync: true,
            failing,
            reported: WriterHealth::default(),
        };
        state.record_log();
        let writer = Self {
            queue,
            in_flight,
            present,
            thread: Arc::default(),
        };
        Ok((writer, state))
    }

    /// Accepts a command; never blocks.
    ///
    /// A durable `Store`, a `MakeDurable`, a `Claim` and a `Change` are acknowledged later. Every other command is on disk (not synced) within 50
    /// ms.
    ///
    /// # Errors
    /// Returns the command if the disk is so far behind that the queue is full, or after [`LedgerWriter::stop`]. A `Store` is
    /// then not accepted, and a `MakeDurable`, a `Claim` or a `Change` has failed. Any other command is lost from the history and counted in
    /// [`WriterHealth::lost`].
    pub fn submit(&self, command: LedgerCommand) -> Result<(), LedgerCommand> {
        self.queue.push(command).inspect_err(|command| {
            if !matches!(
                command,
                LedgerCommand::Store(_)
                    | LedgerCommand::MakeDurable { .. }
                    | LedgerCommand::Claim(..)
                    | LedgerCommand::Change { .. }
            ) {
                self.queue.lock().health.lost += 1;
            }
        })
    }

    /// Records that an attempt begins, until its end is stored; a crash of fnd does not lose this. Call it before the
    /// function gets its work.
    pub fn begins(&self, begun: Begun) {
        self.in_flight.begins(begun);
    }

    /// Removes the record of an attempt that could not be started.
    pub fn has_not_begun(&self, invocation: InvocationId, attempt: Attempt) {
        self.in_flight.has_not_begun(invocation, attempt);
    }

    /// Adds how an attempt has ended, before its caller is answered. `printed` says that its last output is not on disk
    /// yet.
    pub fn ends(&self, attempt: &AttemptRecord, record: &InvocationRecord, printed: bool) {
        self.in_flight.ends(attempt, record, printed);
    }

    /// Keeps how an invocation has ended without an attempt, before its caller is answered.
    pub fn ends_waiting(&self, record: &InvocationRecord) {
        self.in_flight.ends_waiting(record);
    }

    /// Sets a new retention; records that exceed it are forgotten soon, also if it keeps less than the one before.
    pub fn retain(&self, retention: Retention) {
        self.queue.retain(retention);
    }

    /// Returns the sizes of the history.
    pub fn figures(&self) -> Figures {
        self.queue.lock().figures.clone()
    }

    /// Returns how many dead letters a function has.
    pub fn dead_letters_of(&self, function: &FunctionName) -> u64 {
        let queue = self.queue.lock();
        queue.figures.dead_letters.get(function).copied().unwrap_or(0)
    }

    /// Adds the numbers of dead letters to a hash. The ledger's thread changes them without an event.
    pub fn hash_dead_letters(&self, hasher: &mut impl Hasher) {
        self.queue.lock().figures.dead_letters.hash(hasher);
    }

    /// Returns the health of the writer.
    pub fn health(&self) -> WriterHealth {
        let mut health = self.queue.lock().health.clone();
        // A caller that asks while nothing is written must also see missing files.
        health.failing = health.failing.or_else(|| self.present.wrong());
        health
    }

    /// Returns how long the oldest command that is not stored has waited for the disk.
    pub fn queue_age(&self) -> Duration {
        self.queue.age()
    }

    /// Waits until every command submitted so far was tried, at most for `limit`. Must not be called on the driver's
    /// thread.
    pub fn flush(&self, limit: Duration) {
        self.queue.flush(limit);
    }

    /// Writes the queued commands and ends the thread. Blocks while the disk does not respond.
    pub fn stop(&self) {
        self.queue.stop();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}
