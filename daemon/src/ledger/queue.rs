//! The bounded queue in front of the writer.

use super::Retention;
use super::command::{Figures, LedgerCommand, WriterHealth};
use super::notices::Notices;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most waiting commands. This is enough for a disk that hangs for a minute at 1,000 runs a second.
const COMMANDS_MAX: usize = 65_536;
/// Most waiting bytes. New work is refused at half of both limits, so that the ends of accepted work still have room. A
/// command that exceeds the full limit is lost from the history and counted: the daemon's memory matters more.
pub(super) const BYTES_MAX: usize = 128 << 20;
/// Most commands of one transaction, so that an acknowledgement does not wait for a whole backlog.
pub(super) const BATCH_MAX: usize = 1024;
/// How long commands that no caller waits for may gather, so that a busy node commits 20 times a second and an idle
/// node never.
const GATHER: Duration = Duration::from_millis(50);

/// The queue from all other threads to the writer's thread.
#[derive(Default)]
pub(super) struct CommandQueue {
    inner: Mutex<InnerQueue>,
    arrived: Condvar,
    tried: Condvar,
}

#[derive(Default)]
pub(super) struct InnerQueue {
    waiting: VecDeque<WaitingCommand>,
    /// The last batch has overtaken other commands: the next one overtakes none, so that all have their turn.
    has_overtaken: bool,
    bytes: usize,
    /// A caller waits for a command in the queue.
    urgent: bool,
    stopped: bool,
    /// A new retention, until the writer has taken it.
    retention: Option<Retention>,
    pub(super) figures: Figures,
    /// Time of arrival of the oldest command that the writer has taken and not stored.
    pub(super) in_hand: Option<Instant>,
    /// Number of commands that were ever accepted, and of those that were tried with all before them.
    submitted: u64,
    tried: u64,
    pub(super) health: WriterHealth,
}

/// A command that nobody has tried to write.
struct WaitingCommand {
    came: Instant,
    /// The number of commands that were accepted before it.
    number: u64,
    command: LedgerCommand,
}

/// Takes the rows out of commands for which callers wait and that need no sync; none if no other command needs one. The row of an
/// invocation is the first command about it, so it may overtake all others but one that frees the key of its message.
fn take_unsynced(commands: &mut Vec<WaitingCommand>) -> Vec<WaitingCommand> {
    if !commands.iter().any(|waiting| waiting.command.is_synced()) {
        return Vec::new();
    }
    let frees = commands.iter().position(|waiting| waiting.command.frees_message());
    let until = frees.unwrap_or(commands.len());
    let is_row = |waiting: &mut WaitingCommand| waiting.command.is_waited_for() && !waiting.command.is_synced();
    commands.extract_if(..until, is_row).collect()
}

/// Returns the time since then.
fn since(then: Instant) -> Duration {
    crate::clock::monotonic().saturating_duration_since(then)
}

impl InnerQueue {
    /// Returns how long the oldest command has waited.
    fn age(&self) -> Duration {
        self.waiting
            .front()
            .map_or(Duration::ZERO, |waiting| since(waiting.came))
    }

    /// Takes the next commands, at most `most` of them: those that need no sync first, if others do.
    fn take(&mut self, most: usize) -> Vec<WaitingCommand> {
        let mut first: Vec<_> = self.waiting.drain(..most.min(self.waiting.len())).collect();
        let rows = match self.has_overtaken {
            true => Vec::new(),
            false => take_unsynced(&mut first),
        };
        self.has_overtaken = !rows.is_empty();
        if rows.is_empty() {
            return first;
        }
        for waiting in first.into_iter().rev() {
            self.waiting.push_front(waiting);
        }
        rows
    }
}

/// The commands of one transaction.
pub(super) struct Batch {
    pub(super) commands: Vec<LedgerCommand>,
    pub(super) retention: Option<Retention>,
    /// Whether this is the last batch: no more commands will come.
    pub(super) last: bool,
}

impl CommandQueue {
    pub(super) fn lock(&self) -> MutexGuard<'_, InnerQueue> {
        // Each change below is complete before anything can panic, so a poisoned mutex is still consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a command. Returns the command if there is no room.
    pub(super) fn push(&self, command: LedgerCommand) -> Result<(), LedgerCommand> {
        let size = command.size();
        // New work is refused first, so that the ends of accepted work find room.
        let is_new = matches!(
            command,
            LedgerCommand::Store(_) | LedgerCommand::Publish { .. } | LedgerCommand::MakeDurable { .. }
        );
        let share = if is_new { 2 } else { 1 };
        let now = crate::clock::monotonic();
        let mut inner = self.lock();
        let full = inner.waiting.len() >= COMMANDS_MAX / share || inner.bytes + size > BYTES_MAX / share;
        if inner.stopped || full {
            return Err(command);
        }
        let urgent = command.is_waited_for();
        inner.bytes += size;
        let number = inner.submitted;
        inner.waiting.push_back(WaitingCommand {
            came: now,
            number,
            command,
        });
        inner.submitted += 1;
        inner.urgent |= urgent;
        // The writer sleeps only while the queue is empty, or while it gathers commands that are not urgent.
        let wake = urgent || inner.waiting.len() == 1 || inner.waiting.len() == BATCH_MAX;
        drop(inner); // otherwise the writer would wake up only to wait for the lock
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Waits for commands, and gathers more for a short time if no caller waits.
    ///
    /// With `failing`, a write has to be retried. Returns after `pause` at the latest.
    pub(super) fn wait(&self, failing: bool, pause: Duration) {
        // A command with a waiting caller ends the pause early. While writes fail, it is refused at once, and others do not end the pause.
        let inner = self.wait_while(self.lock(), pause, |waiting| failing || waiting == 0);
        if !failing {
            // Commands that arrived while the writer was forgetting have already gathered for that time.
            let left = GATHER.saturating_sub(inner.age());
            drop(self.wait_while(inner, left, |waiting| (1..BATCH_MAX).contains(&waiting)));
        }
    }

    /// Waits until a command is urgent, or the queue is stopped, or the number of waiting commands is another one; at most for `limit`.
    fn wait_while<'a>(
        &self,
        inner: MutexGuard<'a, InnerQueue>,
        limit: Duration,
        goes_on: impl Fn(usize) -> bool,
    ) -> MutexGuard<'a, InnerQueue> {
        let idle = |inner: &mut InnerQueue| !inner.stopped && !inner.urgent && goes_on(inner.waiting.len());
        let waited = self.arrived.wait_timeout_while(inner, limit, idle);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Takes the commands that wait, at most `most` of them. The row of a message does not wait for the sync of other commands.
    pub(super) fn take_now(&self, most: usize) -> Batch {
        let mut inner = self.lock();
        // Commands of a failed write are still in hand: then the earlier time stays, because `age` is that of the oldest
        // command.
        inner.in_hand = inner.in_hand.or(inner.waiting.front().map(|waiting| waiting.came));
        let commands: Vec<_> = inner.take(most).into_iter().map(|waiting| waiting.command).collect();
        inner.bytes -= commands.iter().map(LedgerCommand::size).sum::<usize>();
        // Which of the commands is urgent is not noted. If some are left, they count as urgent.
        inner.urgent &= !inner.waiting.is_empty();
        Batch {
            commands,
            retention: inner.retention.take(),
            // Commands that were queued before the stop are still written.
            last: inner.stopped && inner.waiting.is_empty(),
        }
    }

    /// Returns how many commands wait.
    #[cfg(any(test, feature = "simulate"))]
    pub(super) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// Returns whether a flush would wait for nothing.
    #[cfg(test)]
    pub(super) fn is_flushed(&self) -> bool {
        let inner = self.lock();
        inner.tried >= inner.submitted
    }

    /// Reports the result of a batch and wakes the callers that wait for it.
    pub(super) fn done(&self, failing: Option<String>) {
        let mut inner = self.lock();
        // Counts tried commands and not stored ones, so that a flush does not wait for a disk that fails. A command that has overtaken
        // others counts with the last of them.
        inner.tried = inner.waiting.front().map_or(inner.submitted, |waiting| waiting.number);
        if failing.is_none() {
            inner.in_hand = None;
        }
        inner.health.failing = failing;
        self.tried.notify_all();
    }

    /// Waits until every command accepted so far was tried, at most for `limit`.
    pub(super) fn flush(&self, limit: Duration) {
        let mut inner = self.lock();
        let target = inner.submitted;
        if inner.tried >= target {
            return;
        }
        // Otherwise the commands that gather now would make the caller wait for the rest of that time.
        inner.urgent = true;
        self.arrived.notify_one();
        let behind = |inner: &mut InnerQueue| inner.tried < target;
        // After the limit the caller goes on with the records that are on disk.
        drop(self.tried.wait_timeout_while(inner, limit, behind));
    }

    /// Returns how long the oldest command that is not stored has waited for the disk.
    pub(super) fn age(&self) -> Duration {
        let inner = self.lock();
        inner.in_hand.map_or(Duration::ZERO, since).max(inner.age())
    }

    /// Sets the notices about a ledger that was set aside.
    pub(super) fn set_notices(&self, Notices { note, hold, .. }: Notices) {
        let mut inner = self.lock();
        inner.health.set_aside = note;
        inner.health.hold = hold;
    }

    /// Returns whether the writer has time to forget: no caller waits, commands that gather may gather on, and there is
    /// neither a new retention nor a stop.
    pub(super) fn leaves_time(&self) -> bool {
        let inner = self.lock();
        let gathers = !inner.urgent && inner.waiting.len() < BATCH_MAX && inner.age() < GATHER;
        (inner.waiting.is_empty() || gathers) && inner.retention.is_none() && !inner.stopped
    }

    /// Passes a new retention to the writer.
    pub(super) fn retain(&self, retention: Retention) {
        let mut inner = self.lock();
        // Only the newest retention counts, so there is one place for it and no queue.
        inner.retention = Some(retention);
        inner.urgent = true;
        self.arrived.notify_one();
    }

    /// Tells the writer to write the queued commands and to end.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.arrived.notify_one();
    }
}
