//! The writer thread owns the writing connection: it commits in groups, acknowledges after the commit, and continues
//! after failures.
//!
//! ```text
//! take (gathers 50 ms unless urgent) -> one transaction -> commit -> acknowledge -> a retention step if nothing waits
//!                                           | disk full, I/O error
//!                                           v
//!                roll back, refuse the durable ones and the claims, keep the rest and try again every second
//! ```

use super::FILE;
use super::command::{Acknowledged, Batch, Command, Figures, Health, Queue};
use super::in_flight::{Begun, InFlight};
use super::notices::{self, Notices};
use super::present::Present;
use super::retention::Retention;
use super::store::{self, Counts, StoreError};
use super::sweeper::Sweeper;
use super::unwritable::{self, Later};
use fnd_core::outcome::State;
use fnd_core::record::{Accepted, AttemptRecord, InvocationRecord};
use fnd_wire::ids::{Attempt, FunctionName, InvocationId, WorkerId};
use rusqlite::Connection;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
/// Most commands that are kept for a retry. Older commands are the starts of invocations that newer commands end, so
/// the oldest are dropped first.
const BACKLOG_MAX: usize = 65_536;

/// Why the writer could not be started.
#[derive(Debug)]
pub(super) enum StartError {
    Thread(io::Error),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for StartError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Why no command was written.
#[derive(Debug)]
enum Unwritten {
    /// The paths do not lead to the open files any more.
    Gone(String),
    /// The changes that the start could not write still cannot be written.
    Unopened(String),
    /// SQLite reported an error.
    Sqlite(rusqlite::Error),
}

impl std::fmt::Display for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone(why) | Self::Unopened(why) => f.write_str(why),
            Self::Sqlite(error) => error.fmt(f),
        }
    }
}

pub(super) type Acknowledge = Box<dyn Fn(Acknowledged) + Send>;

/// Accepts commands to store; clones share one thread.
#[derive(Clone)]
pub struct Writer {
    pub(super) queue: Arc<Queue>,
    in_flight: Arc<InFlight>,
    present: Arc<Present>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Writer {
    pub(super) fn start(
        (db, later): (Connection, Option<Later>),
        in_flight: InFlight,
        state: &Path,
        retention: Retention,
        acknowledge: Acknowledge,
    ) -> Result<Self, StartError> {
        let queue = Arc::new(Queue::new());
        let sweeper = Sweeper::new(&db, retention)?;
        queue.set_figures(sweeper.figures(&db)?);
        queue.set_forgetting(sweeper.forgetting());
        let notices = notices::read(&db)?;
        queue.set_notices(notices.clone());
        if let Some(later) = &later {
            queue.done(0, Some(later.reason.to_string()));
            queue.failed();
        }
        // The database has been read, so all of its files exist.
        let present = Arc::new(Present::of(state).map_err(|error| StartError::Thread(error.into()))?);
        let in_flight = Arc::new(in_flight);
        let path = state.join(FILE);
        let mut state = Thread {
            path,
            db,
            later,
            in_flight: Arc::clone(&in_flight),
            present: Arc::clone(&present),
            notices,
            acknowledge,
            sweeper,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            full_sync: true,
        };
        let own = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("ledger".into())
            .spawn(move || state.run(&own))
            .map_err(StartError::Thread)?;
        Ok(Self {
            queue,
            in_flight,
            present,
            thread: Arc::new(Mutex::new(Some(thread))),
        })
    }

    /// Accepts a command; never blocks.
    ///
    /// A durable `Store` and a `Claim` are acknowledged later. Every other command is on disk (not synced) within 50
    /// ms.
    ///
    /// # Errors
    /// Returns the command if the disk is so far behind that the queue is full, or after [`Writer::stop`]. A `Store` is
    /// then not accepted and a `Claim` has failed. Any other command is lost from the history and counted in
    /// [`Health::lost`].
    pub fn submit(&self, command: Command) -> Result<(), Command> {
        self.queue.push(command).inspect_err(|command| {
            if !matches!(command, Command::Store(_) | Command::Claim(_)) {
                self.queue.lose(1);
            }
        })
    }

    /// Records that an attempt begins, until its end is stored; a crash of fnd does not lose this. Call it before the
    /// function gets its work.
    pub fn begins(&self, begun: &Begun) {
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

    /// Sets a new retention; records that exceed it are forgotten soon, also if it keeps less than the one before.
    pub fn retain(&self, retention: Retention) {
        self.queue.retain(Box::new(retention));
    }

    /// Returns the sizes of the history.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.queue.figures()
    }

    /// Returns how many dead letters a function has.
    #[must_use]
    pub fn dead_letters_of(&self, function: &FunctionName) -> u64 {
        self.queue.dead_letters_of(function)
    }

    /// Returns the health of the writer.
    #[must_use]
    pub fn health(&self) -> Health {
        let mut health = self.queue.health();
        // A caller that asks while nothing is written must also see missing files.
        health.failing = health.failing.or_else(|| self.present.wrong());
        health
    }

    /// Returns how long the oldest command that is not stored has waited for the disk.
    #[must_use]
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
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
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

struct Thread {
    path: PathBuf,
    db: Connection,
    /// Changes that the start could not write.
    later: Option<Later>,
    in_flight: Arc<InFlight>,
    present: Arc<Present>,
    notices: Notices,
    acknowledge: Acknowledge,
    sweeper: Sweeper,
    /// Commands of failed transactions, oldest first.
    backlog: VecDeque<Command>,
    backlog_bytes: usize,
    /// Whether `synchronous` is set to `full`.
    full_sync: bool,
}

impl Thread {
    fn run(&mut self, queue: &Queue) {
        let mut failing = self.later.as_ref().map(|later| Failing {
            reason: Arc::clone(&later.reason),
            until: crate::clock::monotonic(),
        });
        let mut reported = Health::default();
        self.report_health(queue, &mut reported);
        loop {
            let pause = match &failing {
                Some(failing) => RETRY.max(failing.until.saturating_duration_since(crate::clock::monotonic())),
                None if self.notices.is_clear() => self.sweeper.pause(),
                None => NOTICES_POLL,
            };
            let Batch {
                commands,
                retention,
                last,
            } = queue.take(failing.is_some(), pause);
            if let Some(retention) = retention {
                self.sweeper.retain(*retention);
            }
            let count = commands.len();
            let begun = crate::clock::monotonic();
            if let Some(Failing { reason, .. }) = failing.as_ref().filter(|failing| !last && begun < failing.until) {
                queue.done(count, Some(reason.to_string()));
                self.settle(&commands, &Err(Arc::clone(reason)));
                self.keep(queue, commands);
                self.report_health(queue, &mut reported);
                continue;
            }
            self.backlog_bytes = 0;
            let mut all: Vec<Command> = std::mem::take(&mut self.backlog).into();
            all.extend(self.without_refused(commands, queue));
            let makes_up = self.later.is_some();
            // While writes fail, an empty transaction is tried too: it shows when the disk works again.
            let outcome = if all.is_empty() && failing.is_none() {
                Ok(0)
            } else {
                self.write(&all)
            };
            match outcome {
                Ok(refused) => {
                    failing = None;
                    if makes_up || all.iter().any(changes_figures) {
                        self.count(queue);
                    }
                    // Update the health first: a caller that is acknowledged may ask for it at once.
                    queue.done(count, None);
                    queue.lose(refused);
                    self.settle(&all, &Ok(()));
                    self.sweep(queue, last);
                }
                Err(error) => {
                    let reason: Arc<str> = format!("failed to write the ledger: {error}").into();
                    queue.done(count, Some(reason.to_string()));
                    self.settle(&all, &Err(Arc::clone(&reason)));
                    self.keep(queue, all);
                    queue.failed();
                    if let Unwritten::Sqlite(error) = error {
                        // Forgetting makes room inside the database when the disk has none.
                        let is_full = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
                        let step = |_: &usize| matches!(self.sweeper.try_step(&self.db, is_full), Ok(true));
                        let _ = (0..STEPS_IN_RETRY).take_while(step).count();
                        self.present.written();
                        queue.set_forgetting(self.sweeper.forgetting());
                    }
                    let now = crate::clock::monotonic();
                    let until = now + rest(now.saturating_duration_since(begun));
                    failing = Some(Failing { reason, until });
                }
            }
            self.report_health(queue, &mut reported);
            if last {
                // If this fails, the changes stay in the write-ahead log, which the next start reads.
                let _ = self.db.pragma_update(None, "wal_checkpoint", "truncate");
                return;
            }
        }
    }

    /// Reports the health if it has changed since the last report.
    fn report_health(&self, queue: &Queue, reported: &mut Health) {
        let health = queue.health();
        if health != *reported {
            *reported = health;
            (self.acknowledge)(Acknowledged::HealthChanged);
        }
    }

    /// Refuses durable work while queued work is missing from the ledger; returns the rest.
    fn without_refused(&mut self, commands: Vec<Command>, queue: &Queue) -> Vec<Command> {
        if self.notices.is_clear() {
            return commands;
        }
        if let Ok(notices) = notices::read(&self.db)
            && notices != self.notices
        {
            tracing::info!("the notice about the damaged ledger was confirmed");
            self.notices = notices;
            queue.set_notices(self.notices.clone());
        }
        let Some(hold) = self.notices.hold.clone() else {
            return commands;
        };
        let (refused, rest): (Vec<_>, Vec<_>) = commands
            .into_iter()
            .partition(|command| matches!(command, Command::Store(accepted) if accepted.durable));
        self.settle(&refused, &Err(hold));
        rest
    }

    /// Forgets records that are not kept, while no caller waits for other work.
    fn sweep(&mut self, queue: &Queue, last: bool) {
        let low = super::room::is_low(&self.db);
        let mut swept = false;
        // If a power cut brings forgotten records back, they are forgotten again, so no sync is needed.
        if self.full_sync && self.db.pragma_update(None, "synchronous", "normal").is_ok() {
            self.full_sync = false;
        }
        // A stop, a new retention and new work each end the loop within one step.
        while queue.leaves_time()
            && !last
            && self.present.wrong_or_short().is_none()
            && self.sweeper.step(&self.db, low)
        {
            swept = true;
            self.present.written();
        }
        queue.set_forgetting(self.sweeper.forgetting());
        if swept {
            self.count(queue);
        }
    }

    /// Updates the figures.
    fn count(&self, queue: &Queue) {
        match self.sweeper.figures(&self.db) {
            Ok(figures) => queue.set_figures(figures),
            Err(error) => tracing::warn!("failed to count dead letters: {error}"),
        }
    }

    /// Writes commands in one transaction. Returns how many of them SQLite refused because of their content.
    fn write(&mut self, commands: &[Command]) -> Result<u64, Unwritten> {
        if let Some(later) = &mut self.later {
            let made_up = later.make_up(&self.path, &mut self.db, &self.present, &self.in_flight);
            self.full_sync = true; // every new connection starts with full sync
            made_up.map_err(|error| Unwritten::Unopened(unwritable::in_words(&error, &self.path)))?;
            self.later = None;
        }
        if let Some(wrong) = self.present.wrong_or_short() {
            return Err(Unwritten::Gone(wrong));
        }
        let written = self.write_now(commands);
        self.present.written();
        written.map_err(Unwritten::Sqlite)
    }

    fn write_now(&mut self, commands: &[Command]) -> rusqlite::Result<u64> {
        let sync = commands.iter().any(Command::is_waited_for);
        if sync != self.full_sync {
            // Without sync a commit does not wait for the disk; the next synced commit includes it.
            self.db
                .pragma_update(None, "synchronous", if sync { "full" } else { "normal" })?;
            self.full_sync = sync;
        }
        // Use savepoints only after a refusal: a savepoint costs about as much as the command inside it.
        match self.transact(commands, false) {
            Err(StoreError::Refused(_)) => self.transact(commands, true),
            other => other,
        }
        .map_err(|(StoreError::Disk(error) | StoreError::Refused(error))| error)
    }

    fn transact(&mut self, commands: &[Command], one_by_one: bool) -> Result<u64, StoreError> {
        let mut refused = 0;
        let mut transaction = self.db.transaction()?;
        if commands.is_empty() {
            transaction.execute("UPDATE meta SET value = value", [])?;
        }
        let mut counts = Counts::default();
        for (command, is_new) in needed(commands) {
            if !one_by_one {
                store::apply(&transaction, (command, is_new), &mut counts)?;
                continue;
            }
            let step = transaction.savepoint()?;
            let mut counts = Counts::default();
            let stored = store::apply(&step, (command, is_new), &mut counts).and_then(|()| counts.store(&step));
            match stored {
                Ok(()) => step.commit()?,
                Err(StoreError::Disk(error)) => return Err(StoreError::Disk(error)),
                Err(StoreError::Refused(error)) => {
                    refused += 1;
                    drop(step);
                    tracing::error!("the ledger refused a record ({error}), continuing without it");
                }
            }
        }
        counts.store(&transaction)?;
        transaction.commit()?;
        Ok(refused)
    }

    /// Acknowledges durable invocations, claims and recorded ends.
    fn settle(&mut self, commands: &[Command], result: &Result<(), Arc<str>>) {
        let (mut recorded, mut claimed) = (Vec::new(), Vec::new());
        for command in commands {
            if let Command::Record(attempt, _) = command {
                // If the write failed, the command is retried, and the spawner keeps the end until then. The worker of
                // a handler continues.
                recorded.extend(attempt.worker.filter(|_| result.is_ok() && attempt.cold.is_none()));
            }
            if result.is_ok() {
                self.empty_slot(command);
            }
            match command {
                Command::Store(accepted) if accepted.durable => {
                    (self.acknowledge)(Acknowledged::Stored {
                        id: accepted.id,
                        result: result.clone(),
                    });
                }
                Command::Claim(record) => claimed.push(record.id),
                Command::Record(_, record) | Command::Update(record) if record.state.is_final() => {
                    if result.is_ok() {
                        self.sweeper.ended(&record.function, record.id);
                    }
                }
                Command::Store(_)
                | Command::Record(..)
                | Command::Update(_)
                | Command::StoreEnabled { .. }
                | Command::DiscardDeadLetter(_)
                | Command::StoreVersions { .. } => {}
            }
        }
        if !claimed.is_empty() {
            (self.acknowledge)(Acknowledged::Claimed {
                ids: claimed,
                result: result.clone(),
            });
        }
        self.forget(recorded);
    }

    /// Empties the slots of attempts whose end, or whose invocation's end, is now stored.
    fn empty_slot(&self, command: &Command) {
        match command {
            Command::Record(attempt, record) => self.in_flight.stored(record.id, attempt.attempt.0),
            Command::Update(record) if record.state.is_final() => self.in_flight.stored(record.id, record.attempts),
            _ => {}
        }
    }

    fn forget(&self, recorded: Vec<WorkerId>) {
        if !recorded.is_empty() {
            (self.acknowledge)(Acknowledged::Recorded(recorded));
        }
    }

    /// Appends commands to the backlog, except those whose callers were refused. Commands that do not fit are lost.
    fn keep(&mut self, queue: &Queue, commands: Vec<Command>) {
        for command in commands {
            let is_kept = match &command {
                Command::Store(accepted) => !accepted.durable,
                Command::Claim(_) => false,
                _ => true,
            };
            if is_kept {
                self.backlog_bytes += command.size();
                self.backlog.push_back(command);
            }
        }
        // Keep the newest, as many as fit.
        let (mut excess, mut lost) = (0, Vec::new());
        while self.backlog.len() > BACKLOG_MAX || self.backlog_bytes > super::command::BYTES_MAX {
            let Some(oldest) = self.backlog.pop_front() else { break };
            self.backlog_bytes -= oldest.size();
            excess += 1;
            if let Command::Record(attempt, _) = &oldest {
                lost.extend(attempt.worker);
            }
        }
        self.forget(lost);
        queue.lose(excess);
        if self.backlog.is_empty() {
            queue.is_even();
        }
    }
}

/// Returns whether a command can change the number of dead letters.
fn changes_figures(command: &Command) -> bool {
    match command {
        Command::Record(_, record) | Command::Update(record) => {
            matches!(record.state, State::Failed | State::Interrupted)
        }
        Command::Store(accepted) => accepted.origin.is_some(),
        Command::DiscardDeadLetter(_) => true,
        Command::Claim(_) | Command::StoreEnabled { .. } | Command::StoreVersions { .. } => false,
    }
}

/// Leaves out commands that a later command of the same transaction replaces: earlier states of an invocation, and the
/// acceptance of an invocation whose payload is not kept. The acceptance holds only data that is needed to run or rerun
/// the invocation. It is stored if it has a load key or an idempotency key.
///
/// The `bool` says whether the invocation began and succeeded in this batch, so that the database has no row of it yet.
fn needed(commands: &[Command]) -> impl Iterator<Item = (&Command, bool)> {
    let end = |command: &Command| match command {
        Command::Record(_, record) | Command::Update(record) => Some(record.id).filter(|_| !record.keeps_payload()),
        Command::Store(_)
        | Command::Claim(_)
        | Command::StoreEnabled { .. }
        | Command::DiscardDeadLetter(_)
        | Command::StoreVersions { .. } => None,
    };
    let over: HashSet<_> = commands.iter().filter_map(end).collect();
    let is_left_out = |accepted: &Accepted| {
        let matters = accepted.load_key.is_some() || accepted.key.is_some();
        !matters && over.contains(&accepted.id)
    };
    let mut new = HashSet::new();
    for command in commands {
        if let Command::Store(accepted) = command
            && is_left_out(accepted)
        {
            new.insert(accepted.id);
        }
    }
    let mut covered = HashSet::new();
    let later = |command: &&Command| match command {
        Command::Claim(record) | Command::Update(record) => covered.insert(record.id),
        Command::Record(_, record) => {
            covered.insert(record.id);
            true
        }
        Command::Store(accepted) => !is_left_out(accepted),
        Command::StoreEnabled { .. } | Command::DiscardDeadLetter(_) | Command::StoreVersions { .. } => true,
    };
    let needed: Vec<_> = commands.iter().rev().filter(later).collect();
    needed.into_iter().rev().map(move |command| {
        let is_new = matches!(command, Command::Record(_, record) if new.contains(&record.id));
        (command, is_new)
    })
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
