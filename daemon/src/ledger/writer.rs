//! The writer thread owns the writing connection: it commits in groups, acknowledges after the commit, and continues
//! after failures.
//!
//! ```text
//! take (gathers 50 ms unless urgent) -> one transaction -> commit -> acknowledge -> copy a long log into the database
//!                                           |                                       -> a retention step if nothing waits
//!                                           | disk full, I/O error
//!                                           v
//!                roll back, refuse the durable ones and the claims, keep the rest and try again every second
//! ```
//!
//! Files:
//! - `handle`: accepts commands to store, and reports the state of the writer
//! - `settle`: what follows a write: acknowledgements, and the commands that are kept for a retry
//! - `transaction`: writes commands in one transaction

mod handle;
mod settle;
mod transaction;

use super::command::{Acknowledged, LedgerCommand, WriterHealth};
use super::in_flight::InFlight;
use super::notices::{self, Notices};
use super::queue::{BATCH_MAX, CommandQueue};
use super::schema;
use super::sweeper::Sweeper;
use super::unwritable::Later;
use crate::database::{LogPages, LogRecorder, PresentFiles, read_only_note};
use rusqlite::{Connection, Transaction};
use settle::changes_figures;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transaction::{Unwritten, WrittenRecords};

pub use handle::LedgerWriter;

/// How long the writer waits before it retries a failed write, if no new command arrives.
const RETRY: Duration = Duration::from_secs(1);
/// The wait after a failed write, as a multiple of the time that the write took. It also applies if new commands
/// arrive: each retry writes the whole backlog, and new callers are refused at once meanwhile.
const REST: u32 = 9;
/// The longest such wait, and so the longest time until fnd notices that the disk works again.
const REST_MAX: Duration = Duration::from_secs(10);
/// How often the writer reads whether a user has confirmed a refusal: the user does it with a separate program.
const NOTICES_POLL: Duration = Duration::from_secs(2);
/// Forgetting steps in each pause while the disk fails.
const STEPS_IN_RETRY: usize = 20;

pub(super) type Acknowledge = Box<dyn Fn(Acknowledged) + Send>;

/// Commits a transaction of commands, or says why the disk did not take it.
pub(crate) type CommitRule = Box<dyn for<'a> FnMut(Transaction<'a>) -> rusqlite::Result<()> + Send>;

/// How the writer reaches the disk and the driver.
pub(super) struct WriterEffects {
    pub(super) commit: CommitRule,
    pub(super) acknowledge: Acknowledge,
}

/// The last write has failed.
struct Failing {
    reason: Arc<str>,
    /// When the write may be retried.
    until: Instant,
}

/// Returns how long to wait after a failed write that took this long.
fn rest(took: Duration) -> Duration {
    took.saturating_mul(REST).min(REST_MAX)
}

/// The state of the writer's thread. [`LedgerThread::turn`] does the work of one round, on any thread.
pub(crate) struct LedgerThread {
    queue: Arc<CommandQueue>,
    path: PathBuf,
    run: PathBuf,
    /// Records the end of the log; absent while the ledger cannot be written.
    log: Option<LogRecorder>,
    db: Connection,
    /// Changes that the start could not write.
    later: Option<Later>,
    in_flight: Arc<InFlight>,
    present: Arc<PresentFiles>,
    notices: Notices,
    commit: CommitRule,
    acknowledge: Acknowledge,
    sweeper: Sweeper,
    /// Commands of failed transactions, oldest first.
    backlog: VecDeque<LedgerCommand>,
    backlog_bytes: usize,
    /// Whether `synchronous` is set to `full`.
    full_sync: bool,
    failing: Option<Failing>,
    /// The health that was reported last.
    reported: WriterHealth,
}

impl LedgerThread {
    fn run(mut self) {
        self.report_health();
        loop {
            self.queue.wait(self.failing.is_some(), self.pause());
            if !self.turn(BATCH_MAX) {
                return;
            }
        }
    }

    /// Returns how long to wait for commands before the next round.
    pub(crate) fn pause(&self) -> Duration {
        match &self.failing {
            Some(failing) => RETRY.max(failing.until.saturating_duration_since(crate::clock::monotonic())),
            None if self.notices.is_clear() => self.sweeper.pause(),
            None => NOTICES_POLL,
        }
    }

    /// Writes the commands that wait, at most `most` of them, and does what follows a write. Returns whether more
    /// commands may come.
    pub(crate) fn turn(&mut self, most: usize) -> bool {
        let batch = self.queue.take_now(most);
        let (commands, last) = (batch.commands, batch.last);
        if let Some(retention) = batch.retention {
            self.sweeper.retain(retention);
        }
        let begun = crate::clock::monotonic();
        // The last batch is written in any case, because nobody would retry it.
        let rests = |failing: &&Failing| !last && begun < failing.until;
        if let Some(Failing { reason, .. }) = self.failing.as_ref().filter(rests) {
            let reason = Arc::clone(reason);
            self.queue.done(Some(reason.to_string()));
            self.settle(&commands, &Err(reason));
            self.keep(commands);
            self.report_health();
            return true;
        }
        self.backlog_bytes = 0;
        let mut all: Vec<LedgerCommand> = std::mem::take(&mut self.backlog).into();
        all.extend(self.without_refused(commands));
        let makes_up = self.later.is_some();
        // While writes fail, a transaction without commands is tried too: it shows when the disk works again, and takes the place
        // of the failed commit in the log.
        let outcome = if all.is_empty() && self.failing.is_none() {
            Ok(WrittenRecords::default())
        } else {
            self.write(&all)
        };
        match outcome {
            Ok(WrittenRecords {
                refused,
                found,
                pages,
                log,
            }) => {
                self.failing = None;
                self.sweeper.pages = pages;
                if makes_up || all.iter().any(changes_figures) {
                    self.count();
                }
                // Update the health first: a caller that is acknowledged may ask for it at once.
                self.queue.done(None);
                self.queue.lock().health.lost += refused;
                self.settle(&all, &Ok(found));
                // The callers have their answers. Copying the log and forgetting take milliseconds, so they come
                // after that.
                self.checkpoint(log);
                self.sweep(last);
            }
            Err(error) => {
                let note = self.path.parent().and_then(read_only_note).unwrap_or_default();
                let reason: Arc<str> = format!("failed to write the ledger: {error}{note}").into();
                self.queue.done(Some(reason.to_string()));
                self.settle(&all, &Err(Arc::clone(&reason)));
                self.keep(all);
                self.queue.lock().health.failed += 1;
                if let Unwritten::Sqlite(error) = error {
                    // Forgetting makes room inside the database when the disk has none.
                    let is_full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
                    // An error ends the steps like the end of the work: the next retry tries again.
                    let step = |_: &usize| matches!(self.sweeper.try_step(&self.db, is_full), Ok(true));
                    let _ = (0..STEPS_IN_RETRY).take_while(step).count();
                    self.checkpoint(None);
                    self.queue.lock().health.forgetting = self.sweeper.forgetting;
                }
                let now = crate::clock::monotonic();
                let until = now + rest(now.saturating_duration_since(begun));
                self.failing = Some(Failing { reason, until });
            }
        }
        self.report_health();
        // Files that do not belong to the ledger any more are left to the next start as they are.
        if last && let Some(log) = self.log.as_mut().filter(|_| self.present.wrong_or_short().is_none()) {
            log.close(&self.db);
        }
        !last
    }

    /// Returns how many commands wait to be written for the first time, and how many are kept for a retry.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn waiting(&self) -> (usize, usize) {
        (self.queue.waiting(), self.backlog.len())
    }

    /// Reports the health if it has changed since the last report.
    fn report_health(&mut self) {
        let health = self.queue.lock().health.clone();
        if health != self.reported {
            self.reported = health;
            (self.acknowledge)(Acknowledged::HealthChanged);
        }
    }

    /// Refuses durable work while queued work is missing from the ledger, and claims while the queue is of an earlier moment;
    /// returns the rest.
    fn without_refused(&mut self, commands: Vec<LedgerCommand>) -> Vec<LedgerCommand> {
        if self.notices.is_clear() {
            return commands;
        }
        if let Ok(notices) = notices::read(&self.db)
            && notices != self.notices
        {
            tracing::info!("the notice about the damaged ledger was confirmed");
            self.notices = notices;
            self.queue.set_notices(self.notices.clone());
        }
        let Some(hold) = self.notices.hold.clone() else {
            return commands;
        };
        // Records of work that runs already are always stored. New durable work, and claims of a queue that is of an earlier
        // moment, could make something run twice.
        let (refused, rest): (Vec<_>, Vec<_>) = commands.into_iter().partition(|command| match command {
            LedgerCommand::Store(accepted) => accepted.durable,
            LedgerCommand::Publish { .. } | LedgerCommand::MakeDurable { .. } => true,
            LedgerCommand::Claim(..) => self.notices.holds_queue,
            _ => false,
        });
        self.settle(&refused, &Err(hold));
        rest
    }

    /// Forgets records that are not kept, while no caller waits for other work.
    fn sweep(&mut self, last: bool) {
        // Most rounds of a busy writer end here.
        if last || !self.queue.leaves_time() {
            return;
        }
        let low = super::room::is_low(&self.db);
        let mut swept = false;
        // If a power cut brings forgotten records back, they are forgotten again, so no sync is needed.
        if self.full_sync && self.db.pragma_update(None, "synchronous", "normal").is_ok() {
            self.full_sync = false;
        }
        // A stop, a new retention and new work each end the loop within one step.
        while self.queue.leaves_time() && self.present.wrong_or_short().is_none() && self.sweeper.step(&self.db, low) {
            swept = true;
            self.checkpoint(None);
        }
        self.queue.lock().health.forgetting = self.sweeper.forgetting;
        if swept {
            self.count();
        }
    }

    /// Copies a long log into the database. `recorded` is its size if nothing was committed since its end was recorded;
    /// otherwise the end is recorded first.
    fn checkpoint(&mut self, recorded: Option<LogPages>) {
        let pages = recorded.or_else(|| self.record_log());
        if pages.is_some_and(|pages| schema::checkpoint(&self.db, pages)) {
            self.present.written();
        }
    }

    /// Records the sizes of the files and the end of the log, before anybody is told what was committed. Returns the size of
    /// the log.
    fn record_log(&mut self) -> Option<LogPages> {
        self.present.written();
        if self.later.is_some() {
            return None; // a makeshift writes nothing
        }
        // Without the size of the log there is nothing to record; the next commit tries again.
        let pages = LogPages::of(&self.db).ok()?;
        match &mut self.log {
            Some(log) => log.record(pages),
            none => match LogRecorder::begin(&self.run, &self.path, &self.db) {
                Ok(log) => *none = Some(log),
                Err(error) => tracing::warn!("failed to record the end of the log of the ledger: {error}"),
            },
        }
        Some(pages)
    }

    fn count(&self) {
        match self.sweeper.figures(&self.db) {
            Ok(figures) => self.queue.lock().figures = figures,
            Err(error) => tracing::warn!("failed to count dead letters: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_failed_rests_as_long_as_it_was_dear_and_never_for_long() {
        for (took_ms, rests_ms) in [(0, 0), (5, 45), (900, 8100), (1200, 10_000), (u64::MAX, 10_000)] {
            assert_eq!(rest(Duration::from_millis(took_ms)), Duration::from_millis(rests_ms));
        }
    }
}
