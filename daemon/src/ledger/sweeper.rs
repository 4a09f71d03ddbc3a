//! Decides which records to check so that no more history is kept than [`Retention`] allows by age, count and bytes.
//!
//! The writer's thread calls [`Sweeper::step`] while no caller waits for it. Each step is short: see `forget`.
//!
//! Files:
//! - `age`: the time that decides which records are too old
//! - `expiries`: when the next records become too old, for short age limits
//! - `forget`: the statements that forget records, in steps of a few milliseconds, so that new work never waits long
//! - `jobs`: the jobs of the sweeper
//! - `retention`: how much history is kept
//! - `rounds`: plans the rounds that forget
//! - `space`: makes room in the database and returns free pages to the disk

mod age;
mod expiries;
pub(super) mod forget;
mod jobs;
mod retention;
mod rounds;
mod space;

pub use retention::{KeepOf, LimitsOf, Retention};

use super::command::{Figures, Forgetting};
use super::room::{self, Pages};
use crate::database;
use age::Age;
use expiries::Expiries;
use fnd_core::run::Now;
use fnd_wire::ids::{FunctionName, InvocationId};
use forget::Round;
use jobs::SweepJob;
use rounds::GatheredRounds;
use rusqlite::Connection;
use space::{RESERVE, Room, SPARE, shrink};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

/// How often the whole history is checked: records have become older, and the clock may have been set.
const HOURLY: Duration = Duration::from_secs(3600);
/// How long functions gather before they are checked: the excess records of several functions lie side by side, and can
/// be deleted in ranges.
const GATHER: Duration = Duration::from_secs(1);
/// While invocations end, forgetting takes one part in this many of the time, counted over [`BURST`]...
const SHARE: u32 = 10;
/// ... or one part in this many if a pass has taken [`LATE`]: otherwise the history would grow without limit.
const SHARE_LATE: u32 = 2;
const BURST: Duration = Duration::from_secs(1);
const LATE: Duration = Duration::from_secs(30);

/// Fewest ended invocations of a function before its history is counted again. A tenth of the kept count applies if it
/// is larger, because counting steps over all kept records.
const EVERY: u32 = 100;

/// Invocations of a function that have ended since its last check.
#[derive(Debug, Clone, Copy)]
struct Since {
    count: u32,
    /// How many invocations of all functions had ended before the first of these.
    all: u64,
    /// The oldest and the newest of them.
    first: u128,
    last: u128,
}

/// Both clocks; tests replace them.
pub(super) type SweepClock = Box<dyn Fn() -> Now + Send>;

/// Tracks where there may be records to forget.
pub(super) struct Sweeper {
    retention: Retention,
    clock: SweepClock,
    age: Age,
    /// The pages of the database at the last commit of the writer, until the next step.
    pub(super) pages: Option<Pages>,
    /// When the clock was read last, and when the whole history was checked last.
    clock_seen: Duration,
    all_seen: Duration,
    /// The figures for the status.
    pub(super) forgetting: Forgetting,
    /// Number of records forgotten, except those that made room on the disk.
    forgotten: u64,
    jobs: VecDeque<SweepJob>,
    /// Functions to check soon, and when.
    due: Vec<FunctionName>,
    next_pass: Duration,
    /// Functions in `jobs` and `due`.
    waiting: HashSet<FunctionName>,
    /// Invocations that ended since the function's last check, and the same of the function that is checked now.
    ended: HashMap<FunctionName, Since>,
    now_at: Option<Since>,
    /// Up to which invocation a function's history was checked: an older one is checked again only if it has ended
    /// since.
    passed: HashMap<FunctionName, u128>,
    /// Functions whose last run exceeds what is kept: it goes when there is a newer one.
    overdue: HashSet<FunctionName>,
    gathered: Vec<GatheredRounds>,
    expiries: Expiries,
    /// Number of invocations that have ended; the same number at the last step; when it last changed.
    total: u64,
    total_seen: u64,
    busy_at: Option<Duration>,
    /// When a step may follow while invocations end, and since when there is work.
    free_at: Duration,
    pass_began: Duration,
    /// The round over the whole history that makes room; it continues at its last position.
    making_room: Option<(Room, Round)>,
    /// No other such round begins before this time: the last one forgot nothing.
    rests_until: Option<Duration>,
    /// Whether the whole history is to be checked.
    all: bool,
    /// Forgetting has failed; the sweeper waits until more invocations have ended.
    stuck: bool,
}

impl Sweeper {
    pub(super) fn new(db: &Connection, retention: Retention) -> rusqlite::Result<Self> {
        let clock = crate::clock::Clock::start();
        Self::with_clock(db, retention, Box::new(move || clock.now()))
    }

    pub(super) fn with_clock(db: &Connection, retention: Retention, clock: SweepClock) -> rusqlite::Result<Self> {
        // Fail now if the database cannot be read.
        Pages::of(db)?;
        let now = clock();
        let mut sweeper = Self {
            retention,
            age: Age::of(db, now.unix_ms)?,
            pages: None,
            clock,
            clock_seen: now.mono,
            all_seen: now.mono,
            forgetting: Forgetting::default(),
            forgotten: 0,
            rests_until: None,
            jobs: VecDeque::new(),
            due: Vec::new(),
            next_pass: now.mono,
            waiting: HashSet::new(),
            ended: HashMap::new(),
            now_at: None,
            passed: HashMap::new(),
            overdue: HashSet::new(),
            gathered: Vec::new(),
            expiries: Expiries::default(),
            total: 0,
            total_seen: 0,
            busy_at: None,
            free_at: now.mono,
            pass_began: now.mono,
            making_room: None,
            // Records have become older while no fnd ran, and the limits may have changed.
            all: true,
            stuck: false,
        };
        sweeper.check_clock(db);
        Ok(sweeper)
    }

    /// Sets a new retention.
    pub(super) fn retain(&mut self, retention: Retention) {
        if self.retention != retention {
            self.retention = retention;
            self.check_all();
        }
    }

    fn check_all(&mut self) {
        self.all = true;
        self.stuck = false;
        self.rests_until = None;
    }

    /// Returns how long to wait until the next check if nothing else happens.
    pub(super) fn pause(&self) -> Duration {
        let Now { mono: now, unix_ms } = (self.clock)();
        let expires = self.expiries.next.first();
        let expires = expires.map(|(due_ms, _)| now + Duration::from_millis(due_ms.saturating_sub(unix_ms)));
        let due = (!self.due.is_empty()).then_some(self.next_pass);
        let next = self.has_jobs().then_some(self.free_at).or(due);
        let hourly = self.all_seen + HOURLY;
        let next = next.into_iter().chain(expires).filter(|_| !self.stuck);
        next.fold(hourly, Duration::min).saturating_sub(now)
    }

    fn has_jobs(&self) -> bool {
        self.all || !self.jobs.is_empty() || !self.gathered.is_empty()
    }

    /// Reads the clock and stores the known time. Returns the clock.
    fn check_clock(&mut self, db: &Connection) -> Now {
        let now = (self.clock)();
        self.age.check(now.unix_ms, now.mono.saturating_sub(self.clock_seen));
        self.clock_seen = now.mono;
        self.forgetting.clock_ahead_of = self.age.ahead_of();
        if let Err(error) = self.age.store(db) {
            // The next reading of the clock retries this. Until then a restart knows an older time, which forgets less.
            tracing::debug!("failed to store the time: {error}");
        }
        now
    }

    /// Returns the first id that an age limit keeps; while the clock is not trusted, the limit keeps every id.
    fn first_kept(&self, keep_for: Duration) -> u128 {
        let now_ms = self.age.now_ms((self.clock)().unix_ms);
        now_ms.map_or(0, |now_ms| room::first_of(now_ms, keep_for))
    }

    /// Notes that an invocation has ended.
    pub(super) fn ended(&mut self, function: &FunctionName, id: InvocationId) {
        self.stuck = false;
        let keep = self.retention.of(function);
        let due = EVERY.max(keep.keep / 10);
        let new = Since {
            count: 0,
            all: self.total,
            first: id.0,
            last: id.0,
        };
        self.total += 1;
        let since = match self.ended.get_mut(function) {
            Some(since) => since,
            None => self.ended.entry(function.clone()).or_insert(new),
        };
        since.count = since.count.saturating_add(1);
        (since.first, since.last) = (since.first.min(id.0), since.last.max(id.0));
        let now_ms = || (self.clock)().unix_ms;
        self.expiries.add(Some(function), keep.keep_for, id.unix_ms(), now_ms);
        self.expiries.add(None, self.retention.keep_for, id.unix_ms(), now_ms);
        // The last run of an overdue function was kept only because there was no newer one; now there is.
        let is_due = since.count == due || self.overdue.remove(function);
        if is_due && self.waiting.insert(function.clone()) {
            self.due.push(function.clone());
        }
    }

    fn check(&mut self, function: FunctionName) {
        if self.waiting.insert(function.clone()) {
            self.jobs.push_back(SweepJob::Function(function));
        }
    }

    /// Returns the sizes of the history.
    pub(super) fn figures(&self, db: &Connection) -> rusqlite::Result<Figures> {
        let sql = "SELECT name, dead FROM function WHERE dead > 0";
        Ok(Figures {
            dead_letters: database::all(db, sql, [], |row| Ok((super::rows::function(row, 0)?, row.get(1)?)))?,
            dead_since_ms: dead_since_ms(db),
            history_bytes: Pages::of(db)?.used(),
            forgotten: self.forgotten,
        })
    }

    /// Forgets some records, if there are any to forget. `low` says that the disk is nearly full, so that only free
    /// pages inside the database can be used. Returns whether there may be more to forget.
    pub(super) fn step(&mut self, db: &Connection, low: bool) -> bool {
        let now = self.check_clock(db);
        if now.mono.saturating_sub(self.all_seen) >= HOURLY {
            self.all_seen = now.mono;
            self.check_all();
        }
        if self.stuck || self.is_over_its_share(now.mono) {
            return false;
        }
        let more = self.try_step(db, low).unwrap_or_else(|error| {
            tracing::warn!("failed to forget old history ({error}), keeping it until more runs have ended");
            self.stuck = true;
            false
        });
        let took = (self.clock)().mono.saturating_sub(now.mono);
        let is_late = now.mono.saturating_sub(self.pass_began) > LATE;
        let share = if is_late { SHARE_LATE } else { SHARE };
        // Time that was not used counts for `BURST` at most: a long rest allows no long row of steps.
        self.free_at = self.free_at.max(now.mono.saturating_sub(BURST)) + took * share;
        more
    }

    /// Returns whether forgetting has used its share of the time while other work exists.
    fn is_over_its_share(&mut self, now: Duration) -> bool {
        if self.total != self.total_seen {
            (self.total_seen, self.busy_at) = (self.total, Some(now));
        }
        let is_busy = self.busy_at.is_some_and(|at| now.saturating_sub(at) < BURST);
        is_busy && now < self.free_at
    }

    /// Forgets some records, whatever share of the time this takes; checks at each call whether there is anything to
    /// forget.
    pub(super) fn try_step(&mut self, db: &Connection, low: bool) -> rusqlite::Result<bool> {
        let Now { mono: now, unix_ms } = (self.clock)();
        // A step that forgets changes them.
        let committed = self.pages.take();
        // The pass begins when there is work: by its age the sweeper sees that it is late.
        if !self.has_jobs() {
            self.pass_began = now;
        }
        while let Some(whose) = self.expiries.reached(unix_ms) {
            match whose {
                None => self.jobs.push_back(SweepJob::Age),
                Some(function) => self.check(function),
            }
        }
        if std::mem::take(&mut self.all) {
            self.enlist_all();
        }
        if self.jobs.is_empty() && now >= self.next_pass && !self.due.is_empty() {
            self.next_pass = now + GATHER;
            self.jobs.extend(self.due.drain(..).map(SweepJob::Function));
        }
        if self.jobs.is_empty() {
            self.go_together();
        }
        // Jobs come before making room: they forget only records above a limit, and the room that they make may be enough.
        if let Some(job) = self.jobs.pop_front() {
            if let Some(next) = self.work(db, job)? {
                self.jobs.push_front(next);
            }
            return Ok(true);
        }
        let pages = match committed {
            Some(pages) => pages,
            None => Pages::of(db)?,
        };
        if pages.used() > self.retention.keep_bytes {
            return self.make_room(db, Room::Bytes, pages);
        }
        if low && pages.reusable() < RESERVE {
            return self.make_room(db, Room::Disk, pages);
        }
        // There is room now. The next time it is needed, the round begins with the oldest record again.
        self.making_room = None;
        // On a nearly full disk the free pages stay: other programs could take the room that the next records need.
        if !low && pages.reusable() > SPARE.max(pages.used() / 4) {
            return shrink(db, pages);
        }
        Ok(false)
    }
}

/// Returns when the oldest dead letter ended. It reads one row, found by the index.
fn dead_since_ms(db: &Connection) -> Option<u64> {
    let sql = "SELECT ended_ms FROM invocation INDEXED BY dead WHERE dead = 1 ORDER BY id LIMIT 1";
    // The counts are right without this index, so damage of it keeps no ledger from being opened.
    let found = database::first(db, sql, [], |row| row.get::<_, Option<u64>>(0)).unwrap_or_else(|error| {
        tracing::warn!("failed to find the oldest dead letter: {error}");
        None
    });
    found.flatten()
}
