//! What the writer can be asked to store, and the bounded queue in front of it.

use super::notices::Notices;
use super::retention::Retention;
use fnd_core::data::Data;
use fnd_core::record::{Accepted, AttemptRecord, InvocationRecord};
use fnd_wire::ids::{FunctionName, InvocationId, Version, WorkerId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Something to store: the supervisor's storing actions one to one, and what the catalog remembers.
#[derive(Debug, Clone)]
pub enum Command {
    /// A new invocation, with its load key in the same transaction.
    Store(Box<Accepted>),
    /// That the next attempt of a durable invocation begins.
    Claim(Box<InvocationRecord>),
    /// An ended attempt and where its invocation stands now.
    Record(Box<AttemptRecord>, Box<InvocationRecord>),
    /// Where an invocation stands.
    Update(Box<InvocationRecord>),
    /// Whether a person disabled a function.
    StoreEnabled {
        /// The function.
        function: FunctionName,
        /// Which of both.
        enabled: bool,
    },
    /// Takes an invocation off the dead letters.
    DiscardDeadLetter(InvocationId),
    /// Which versions of a function are installed.
    StoreVersions {
        /// The function.
        function: FunctionName,
        /// Oldest first.
        installed: Vec<Version>,
    },
}

impl Command {
    /// Says whether it is to be on disk at once, synced: somebody waits for it, or may come again with its key after a crash.
    pub(super) fn is_waited_for(&self) -> bool {
        match self {
            Self::Store(accepted) => accepted.durable || accepted.key.is_some(),
            Self::Claim(_) | Self::StoreEnabled { .. } | Self::DiscardDeadLetter(_) => true,
            // What a power cut takes of the latter keeps an old version on the disk for longer, no more.
            Self::Record(..) | Self::Update(_) | Self::StoreVersions { .. } => false,
        }
    }

    /// Roughly the memory it holds.
    pub(super) fn size(&self) -> usize {
        let headers = |headers: &[(String, String)]| headers.iter().map(|(n, v)| n.len() + v.len() + 64).sum::<usize>();
        let result = |record: &InvocationRecord| {
            let result = record.result.as_ref();
            let response = result.and_then(|result| result.response.as_deref());
            result.map_or(0, |result| result.data.len()) + response.map_or(0, |response| headers(&response.headers))
        };
        512 + match self {
            Self::Store(accepted) => {
                let payload = &accepted.payload;
                let request = payload
                    .request
                    .as_deref()
                    .map_or(0, |request| headers(&request.headers));
                let data = payload.data.as_ref().map_or(0, Data::size);
                usize::try_from(data).unwrap_or(usize::MAX).saturating_add(request)
            }
            Self::Record(attempt, record) => attempt.message.len() + record.message.len() + result(record),
            Self::Update(record) => record.message.len() + result(record),
            Self::Claim(_) | Self::StoreEnabled { .. } | Self::DiscardDeadLetter(_) => 0,
            Self::StoreVersions { installed, .. } => size_of_val(installed.as_slice()),
        }
    }
}

/// What became of what somebody waits for.
#[derive(Debug, Clone)]
pub enum Acknowledged {
    /// A durable invocation.
    Stored {
        /// The invocation.
        id: InvocationId,
        /// Why it is not on disk, unless it is.
        result: Result<(), Arc<str>>,
    },
    /// Claims of these invocations.
    Claimed {
        /// The invocations.
        ids: Vec<InvocationId>,
        /// Why they are not on disk, unless they are.
        result: Result<(), Arc<str>>,
    },
    /// [`Health`] is another than before.
    HealthChanged,
    /// The ends of these workers are on disk, or given up and counted.
    Recorded(Vec<WorkerId>),
}

/// How the writer is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Why the last write failed; absent while all is well.
    pub failing: Option<String>,
    /// Writes that failed.
    pub failed: u64,
    /// Commands that were given up because they could not be written for too long, or ever.
    pub lost: u64,
    /// Why durable work is refused, though records are written.
    pub hold: Option<Arc<str>>,
    /// That a damaged ledger was set aside, until somebody has confirmed it.
    pub set_aside: Option<Arc<str>>,
    /// What is said of forgetting.
    pub forgetting: Forgetting,
}

/// What people are told of forgetting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Forgetting {
    /// Records that were forgotten because the disk was nearly full, since this fnd started.
    pub for_room: u64,
    /// The newest time that is known, Unix milliseconds, while the clock is so far ahead of it that nothing is forgotten for
    /// its age.
    pub clock_ahead_of: Option<u64>,
}

/// How much there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Dead letters of each function that has some.
    pub dead_letters: BTreeMap<FunctionName, u64>,
    /// Bytes of the history in use; its file may be larger.
    pub history_bytes: u64,
    /// Records that were forgotten because of what is kept, since this fnd started.
    pub forgotten: u64,
}

/// Most commands waiting. A disk that stands still for a minute under 1,000 runs a second fits.
const COMMANDS_MAX: usize = 65_536;
/// Most bytes waiting. New work is refused at half of both, so that ends of accepted work still have room; what does
/// not even fit then is lost from the history, counted and said: the daemon's memory matters more.
pub(super) const BYTES_MAX: usize = 128 << 20;
/// Most commands of one transaction, so that an acknowledgement does not wait for a whole backlog.
const BATCH_MAX: usize = 1024;
/// How long what nobody waits for may gather, so that a busy node commits 20 times a second and an idle one never.
const GATHER: Duration = Duration::from_millis(50);

/// The queue between any thread and the writer's.
pub(super) struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
    tried: Condvar,
}

#[derive(Default)]
struct Inner {
    /// Each with when it came.
    waiting: VecDeque<(Instant, Command)>,
    bytes: usize,
    /// Someone waits for what is in the queue.
    urgent: bool,
    stopped: bool,
    /// What is kept from now on, until the writer has seen it.
    retention: Option<Box<Retention>>,
    figures: Figures,
    /// When the oldest command came that the writer has and that is not stored.
    in_hand: Option<Instant>,
    /// Commands ever taken in, and ever tried.
    submitted: u64,
    tried: u64,
    health: Health,
}

impl Inner {
    /// Returns how long the oldest command waits.
    fn age(&self) -> Duration {
        self.waiting.front().map_or(Duration::ZERO, |(came, _)| came.elapsed())
    }
}

/// Commands for one transaction.
pub(super) struct Batch {
    pub(super) commands: Vec<Command>,
    pub(super) retention: Option<Box<Retention>>,
    /// Whether this is the end: nothing more will come.
    pub(super) last: bool,
}

impl Queue {
    /// Begins empty.
    pub(super) fn new() -> Self {
        Self {
            inner: Mutex::default(),
            arrived: Condvar::new(),
            tried: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change below is complete before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a command in. Returns it where there is no room.
    pub(super) fn push(&self, command: Command) -> Result<(), Command> {
        let size = command.size();
        let share = if matches!(command, Command::Store(_)) { 2 } else { 1 };
        let now = crate::clock::monotonic();
        let mut inner = self.lock();
        let full = inner.waiting.len() >= COMMANDS_MAX / share || inner.bytes + size > BYTES_MAX / share;
        if inner.stopped || full {
            return Err(command);
        }
        let urgent = command.is_waited_for();
        inner.bytes += size;
        inner.waiting.push_back((now, command));
        inner.submitted += 1;
        inner.urgent |= urgent;
        // The writer sleeps only while there is nothing, or while it gathers what is not urgent.
        let wake = urgent || inner.waiting.len() == 1 || inner.waiting.len() == BATCH_MAX;
        drop(inner); // else the writer wakes only to wait for the lock
        if wake {
            self.arrived.notify_one();
        }
        Ok(())
    }

    /// Waits for something to do, and gathers a little where nobody waits for it.
    ///
    /// With `failing`, a write is to be tried again. Returns after `pause` at the latest.
    pub(super) fn take(&self, failing: bool, pause: Duration) -> Batch {
        let mut inner = self.lock();
        if failing {
            let idle = |inner: &mut Inner| !inner.stopped && !inner.urgent;
            inner = self
                .arrived
                .wait_timeout_while(inner, pause, idle)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        } else {
            let idle = |inner: &mut Inner| !inner.stopped && !inner.urgent && inner.waiting.is_empty();
            inner = self
                .arrived
                .wait_timeout_while(inner, pause, idle)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            // Those that came while the writer forgot have gathered for as long already.
            let left = GATHER.saturating_sub(inner.age());
            let gathering =
                |inner: &mut Inner| !inner.stopped && !inner.urgent && (1..BATCH_MAX).contains(&inner.waiting.len());
            inner = self
                .arrived
                .wait_timeout_while(inner, left, gathering)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let count = inner.waiting.len().min(BATCH_MAX);
        inner.in_hand = inner.in_hand.or(inner.waiting.front().map(|(came, _)| *came));
        let commands: Vec<_> = inner.waiting.drain(..count).map(|(_, command)| command).collect();
        inner.bytes -= commands.iter().map(Command::size).sum::<usize>();
        inner.urgent &= !inner.waiting.is_empty();
        Batch {
            commands,
            retention: inner.retention.take(),
            last: inner.stopped && inner.waiting.is_empty(),
        }
    }

    /// Says how a batch went and wakes who waits for it.
    pub(super) fn done(&self, count: usize, failing: Option<String>) {
        let mut inner = self.lock();
        inner.tried += count as u64;
        if failing.is_none() {
            inner.in_hand = None;
        }
        inner.health.failing = failing;
        self.tried.notify_all();
    }

    /// Waits until everything taken in so far was tried, `limit` at the longest.
    pub(super) fn flush(&self, limit: Duration) {
        let mut inner = self.lock();
        let target = inner.submitted;
        if inner.tried >= target {
            return;
        }
        inner.urgent = true;
        self.arrived.notify_one();
        let behind = |inner: &mut Inner| inner.tried < target;
        drop(self.tried.wait_timeout_while(inner, limit, behind));
    }

    /// Counts a write that failed.
    pub(super) fn failed(&self) {
        self.lock().health.failed += 1;
    }

    /// The writer has nothing in hand.
    pub(super) fn is_even(&self) {
        self.lock().in_hand = None;
    }

    /// Returns how long the oldest command that is not stored has waited for the disk.
    pub(super) fn age(&self) -> Duration {
        let inner = self.lock();
        inner
            .in_hand
            .map_or(Duration::ZERO, |came| came.elapsed())
            .max(inner.age())
    }

    /// Says what a set-aside ledger leaves behind.
    pub(super) fn stands(&self, Notices { note, hold }: Notices) {
        let mut inner = self.lock();
        inner.health.set_aside = note;
        inner.health.hold = hold;
    }

    /// Counts commands that were given up.
    pub(super) fn lose(&self, count: u64) {
        self.lock().health.lost += count;
    }

    /// Says whether the writer has time for something else: nobody waits for it, what gathers may gather on, and there is no
    /// other rule and no stop.
    pub(super) fn leaves_time(&self) -> bool {
        let inner = self.lock();
        let gathers = !inner.urgent && inner.waiting.len() < BATCH_MAX && inner.age() < GATHER;
        (inner.waiting.is_empty() || gathers) && inner.retention.is_none() && !inner.stopped
    }

    pub(super) fn set_forgetting(&self, forgetting: Forgetting) {
        self.lock().health.forgetting = forgetting;
    }

    /// Hands the writer what is kept from now on.
    pub(super) fn retain(&self, retention: Box<Retention>) {
        let mut inner = self.lock();
        inner.retention = Some(retention);
        inner.urgent = true;
        self.arrived.notify_one();
    }

    pub(super) fn figures(&self) -> Figures {
        self.lock().figures.clone()
    }

    pub(super) fn dead_letters_of(&self, function: &FunctionName) -> u64 {
        self.lock().figures.dead_letters.get(function).copied().unwrap_or(0)
    }

    pub(super) fn set_figures(&self, figures: Figures) {
        self.lock().figures = figures;
    }

    pub(super) fn health(&self) -> Health {
        self.lock().health.clone()
    }

    /// Lets the writer write what is there and end.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.arrived.notify_one();
    }
}
