//! Decides which records to check so that no more history is kept than [`Retention`] allows by age, count and bytes.
//!
//! The writer's thread calls [`Sweeper::step`] while no caller waits for it. Each step is short: see `forget`.

use super::age::Age;
use super::command::{Figures, Forgetting};
use super::forget::{Bounds, Round, Scope, Walk, Weigh};
use super::retention::Retention;
use super::room::{self, Pages};
use fnd_core::supervisor::Now;
use fnd_wire::ids::{FunctionName, InvocationId};
use rusqlite::{Connection, params};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
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
/// If functions are checked together: most invocations that are checked for each one that is forgotten. Checking one
/// costs about a twentieth of forgetting one that has no neighbour.
const WORTH: u64 = 16;
/// How long making room rests after a whole round that forgot no record.
const REST: Duration = Duration::from_secs(60);

/// Fewest ended invocations of a function before its history is counted again. A tenth of the kept count applies if it
/// is larger, because counting steps over all kept records.
const EVERY: u32 = 100;
/// Function names read in one step.
const NAMES_AT_ONCE: usize = 500;
/// The functions in the history, including those that never ran: one seek in the index for each.
const NAMES: &str = "WITH RECURSIVE found (name) AS (
        SELECT min(function) FROM invocation WHERE function > ?1
        UNION ALL SELECT (SELECT min(function) FROM invocation WHERE function > name) FROM found WHERE name IS NOT NULL
        LIMIT ?2
    ) SELECT name FROM found WHERE name IS NOT NULL";
/// Bytes inside the database that stay free for new records while the disk is nearly full.
const RESERVE: u64 = 4 << 20;
/// Free pages returned to the disk in one step.
const SHRINK_PAGES: u32 = 128;
/// Free bytes that are never returned to the disk, because they are used again soon.
const SPARE: u64 = 16 << 20;

/// A task of the sweeper.
#[derive(Debug)]
enum Job {
    /// Forget records of all functions that are older than the global age limit.
    Age,
    /// Check every function with a history whose name sorts after this one.
    Everybody(String),
    /// Check one function by count, age and bytes.
    Function(FunctionName),
    /// Continue to count a function's records.
    Walking(FunctionName, Walk, Option<u128>),
    /// Continue to add up the bytes of the records that the counts keep.
    Weighing(FunctionName, Weigh, Bounds),
    Going(Round),
}

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

/// A function that may be checked together with others.
#[derive(Debug)]
struct Gathered {
    function: FunctionName,
    bounds: Bounds,
    /// The check begins after this invocation.
    from: u128,
    /// How many invocations of this function have ended, and how many of all functions in the same time.
    count: u64,
    among: u64,
}

/// Age limits below this one are checked when records reach them, not once an hour.
const SHORT: Duration = Duration::from_secs(36_000);

/// When the next records become too old, for short age limits.
#[derive(Debug, Default)]
struct Expiries {
    /// Unix milliseconds and the function; no function means all functions.
    next: BTreeSet<(u64, Option<FunctionName>)>,
    /// The functions in `next`, and whether the entry for all functions is in it.
    functions: HashSet<FunctionName>,
    all: bool,
}

impl Expiries {
    /// Notes when an invocation of this time becomes too old. The check may come up to a tenth of the age limit later,
    /// so that it also covers invocations that follow soon after.
    fn add(&mut self, whose: Option<FunctionName>, keep_for: Duration, accepted_ms: u64, now_ms: u64) {
        let is_new = match &whose {
            Some(function) => self.functions.insert(function.clone()),
            None => !std::mem::replace(&mut self.all, true),
        };
        if !is_new {
            return;
        }
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let slack = (keep_for / 10).max(Duration::from_secs(1));
        let due = accepted_ms.saturating_add(ms(keep_for) + 1);
        self.next.insert((due.max(now_ms.saturating_add(ms(slack))), whose));
    }

    /// Removes and returns an entry whose time has come.
    fn reached(&mut self, now_ms: u64) -> Option<Option<FunctionName>> {
        if self.next.first()?.0 > now_ms {
            return None;
        }
        let (_, whose) = self.next.pop_first()?;
        match &whose {
            Some(function) => drop(self.functions.remove(function)),
            None => self.all = false,
        }
        Some(whose)
    }
}

/// Why the oldest records are forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// The history exceeds its limit of bytes.
    Bytes,
    /// The disk is nearly full.
    Disk,
}

/// Both clocks; tests replace them.
pub(super) type Clock = Box<dyn Fn() -> Now + Send>;

/// Tracks where there may be records to forget.
pub(super) struct Sweeper {
    retention: Retention,
    clock: Clock,
    age: Age,
    /// When the clock was read last, and when the whole history was checked last.
    clock_seen: Duration,
    all_seen: Duration,
    forgetting: Forgetting,
    /// Number of records forgotten, except those that made room on the disk.
    forgotten: u64,
    jobs: VecDeque<Job>,
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
    gathered: Vec<Gathered>,
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

    pub(super) fn with_clock(db: &Connection, retention: Retention, clock: Clock) -> rusqlite::Result<Self> {
        // Fail now if the database cannot be read.
        Pages::of(db)?;
        let now = clock();
        let mut sweeper = Self {
            retention,
            age: Age::of(db, now.unix_ms)?,
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
            gathered: Vec::new(),
            expiries: Expiries::default(),
            total: 0,
            total_seen: 0,
            busy_at: None,
            free_at: now.mono,
            pass_began: now.mono,
            making_room: None,
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
        let next = if self.has_jobs() {
            Some(self.free_at)
        } else {
            (!self.due.is_empty()).then_some(self.next_pass)
        };
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

    /// Returns the figures for the status.
    pub(super) fn forgetting(&self) -> Forgetting {
        self.forgetting
    }

    /// Notes that an invocation has ended.
    pub(super) fn ended(&mut self, function: &FunctionName, id: InvocationId) {
        self.stuck = false;
        let due = EVERY.max(self.retention.of(function).keep / 10);
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
        let keep_for = self.retention.of(function).keep_for;
        if keep_for < SHORT && !self.expiries.functions.contains(function) {
            let now_ms = (self.clock)().unix_ms;
            self.expiries
                .add(Some(function.clone()), keep_for, time_of(id.0), now_ms);
        }
        let keep_for = self.retention.keep_for;
        if keep_for < SHORT && !self.expiries.all {
            let now_ms = (self.clock)().unix_ms;
            self.expiries.add(None, keep_for, time_of(id.0), now_ms);
        }
        if since.count == due && self.waiting.insert(function.clone()) {
            self.due.push(function.clone());
        }
    }

    fn check(&mut self, function: FunctionName) {
        if self.waiting.insert(function.clone()) {
            self.jobs.push_back(Job::Function(function));
        }
    }

    /// Returns the sizes of the history.
    pub(super) fn figures(&self, db: &Connection) -> rusqlite::Result<Figures> {
        let mut statement = db.prepare_cached("SELECT name, dead FROM function WHERE dead > 0")?;
        let dead = statement.query_map([], |row| Ok((super::rows::function(row, 0)?, row.get(1)?)))?;
        Ok(Figures {
            dead_letters: dead.collect::<rusqlite::Result<_>>()?,
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
    ///
    /// # Errors
    /// From the database.
    pub(super) fn try_step(&mut self, db: &Connection, low: bool) -> rusqlite::Result<bool> {
        let Now { mono: now, unix_ms } = (self.clock)();
        if !self.has_jobs() {
            self.pass_began = now;
        }
        while let Some(whose) = self.expiries.reached(unix_ms) {
            match whose {
                None => self.jobs.push_back(Job::Age),
                Some(function) => self.check(function),
            }
        }
        if std::mem::take(&mut self.all) {
            self.enlist_all();
        }
        if self.jobs.is_empty() && now >= self.next_pass && !self.due.is_empty() {
            self.next_pass = now + GATHER;
            self.jobs.extend(self.due.drain(..).map(Job::Function));
        }
        if self.jobs.is_empty() {
            self.go_together();
        }
        if let Some(job) = self.jobs.pop_front() {
            if let Some(next) = self.work(db, job)? {
                self.jobs.push_front(next);
            }
            return Ok(true);
        }
        let pages = Pages::of(db)?;
        if pages.used() > self.retention.keep_bytes {
            return self.make_room(db, Room::Bytes, pages);
        }
        if low && pages.reusable() < RESERVE {
            return self.make_room(db, Room::Disk, pages);
        }
        self.making_room = None;
        if !low && pages.reusable() > SPARE.max(pages.used() / 4) {
            return shrink(db, pages);
        }
        Ok(false)
    }

    fn enlist_all(&mut self) {
        self.waiting.clear();
        self.due.clear();
        self.passed.clear();
        self.gathered.clear();
        self.expiries = Expiries::default();
        self.jobs = VecDeque::from([Job::Age, Job::Everybody(String::new())]);
    }

    /// Queues checks for the next functions; returns the last name if there may be more.
    fn enlist(&mut self, db: &Connection, after: &str) -> rusqlite::Result<Option<String>> {
        let mut names = db.prepare_cached(NAMES)?;
        let names = names.query_map(params![after, NAMES_AT_ONCE], |row| super::rows::function(row, 0))?;
        let names: Vec<_> = names.collect::<rusqlite::Result<_>>()?;
        let last = names.last().filter(|_| names.len() == NAMES_AT_ONCE);
        let last = last.map(|name| name.as_str().to_owned());
        for name in names {
            self.check(name);
        }
        Ok(last)
    }

    /// Does a job, or a part of it; returns the rest of the job.
    fn work(&mut self, db: &Connection, job: Job) -> rusqlite::Result<Option<Job>> {
        Ok(match job {
            Job::Age => {
                let bounds = Bounds::before(self.first_kept(self.retention.keep_for));
                self.expire(db, None, self.retention.keep_for, bounds)?;
                Some(Job::Going(Round::new(Scope::All, bounds)))
            }
            Job::Everybody(after) => self.enlist(db, &after)?.map(Job::Everybody),
            Job::Function(function) => {
                self.waiting.remove(&function);
                self.now_at = self.ended.remove(&function);
                let walk = Walk::new(self.retention.of(&function).keep, false);
                Some(Job::Walking(function, walk, None))
            }
            Job::Walking(function, mut walk, rest) => match (walk.step(db, &function)?, rest) {
                (None, rest) => Some(Job::Walking(function, walk, rest)),
                (Some(rest), None) => {
                    let walk = Walk::new(self.retention.of(&function).keep_failed, true);
                    Some(Job::Walking(function, walk, Some(rest)))
                }
                (Some(failed), Some(rest)) => {
                    let keep = self.retention.of(&function);
                    let aged = Bounds::before(self.first_kept(keep.keep_for));
                    self.expire(db, Some(&function), keep.keep_for, aged)?;
                    let bounds = Bounds {
                        rest,
                        // The newest invocations are kept whether they failed or not.
                        failed: failed.min(rest),
                        ..aged
                    };
                    Some(Job::Weighing(function, Weigh::new(keep.keep_bytes), bounds))
                }
            },
            Job::Weighing(function, mut weigh, bounds) => match weigh.step(db, &function)? {
                None => Some(Job::Weighing(function, weigh, bounds)),
                Some(beyond) => {
                    let bounds = Bounds {
                        all: bounds.all.max(beyond),
                        ..bounds
                    };
                    self.round_of(function, bounds).map(Job::Going)
                }
            },
            Job::Going(mut round) => {
                let done = round.step(db)?;
                self.forgotten += done.forgotten as u64;
                if done.over {
                    self.has_passed(round);
                    None
                } else {
                    Some(Job::Going(round))
                }
            }
        })
    }

    /// Notes when the oldest record that is young enough now becomes too old.
    fn expire(
        &mut self,
        db: &Connection,
        whose: Option<&FunctionName>,
        keep_for: Duration,
        aged: Bounds,
    ) -> rusqlite::Result<()> {
        if keep_for >= SHORT {
            return Ok(());
        }
        if let Some(oldest) = super::forget::oldest(db, whose, aged.end())? {
            let now_ms = (self.clock)().unix_ms;
            self.expiries.add(whose.cloned(), keep_for, time_of(oldest), now_ms);
        }
        Ok(())
    }

    /// Returns the round that forgets the function's records by these bounds, without those that an earlier round has
    /// checked. Returns nothing if there are none, or if the function is checked together with others.
    fn round_of(&mut self, function: FunctionName, bounds: Bounds) -> Option<Round> {
        let since = self.now_at.take();
        let passed = self.passed.get(&function).copied();
        // `keep_failed` kept older failed invocations beyond the others, and some of them exceed it now. They can be
        // anywhere in the history.
        let has_older = self.retention.of(&function).keep_failed > 0 && bounds.failed > 0;
        let (Some(since), Some(passed), false) = (since, passed, has_older) else {
            return Some(Round::new(Scope::Of(function), bounds));
        };
        if since.first <= passed {
            // An invocation ended after a round had passed it.
            let mut round = Round::new(Scope::Of(function), bounds);
            round.at = since.first.saturating_sub(1);
            round.until = if bounds.end() > passed { u128::MAX } else { since.last };
            return Some(round);
        }
        if bounds.end() > passed {
            self.gathered.push(Gathered {
                function,
                bounds,
                from: passed,
                count: u64::from(since.count),
                among: self.total.saturating_sub(since.all),
            });
        }
        None
    }

    /// Plans one round over the whole history for several functions, if enough of the invocations there belong to them;
    /// the other functions get a round each.
    fn go_together(&mut self) {
        let mut all = std::mem::take(&mut self.gathered);
        all.sort_by_key(|one| one.among);
        let (mut count, mut together) = (0, 0);
        for (number, one) in all.iter().enumerate() {
            count += one.count;
            if one.among <= count.saturating_mul(WORTH) {
                together = number + 1;
            }
        }
        if together < 2 {
            together = 0;
        }
        let rest = all.split_off(together);
        if let Some(from) = all.iter().map(|one| one.from).min() {
            let bounds = all.into_iter().map(|one| (one.function, one.bounds));
            let mut round = Round::each(bounds.collect());
            round.at = from;
            self.jobs.push_back(Job::Going(round));
        }
        for one in rest {
            let mut round = Round::new(Scope::Of(one.function), one.bounds);
            round.at = one.from;
            self.jobs.push_back(Job::Going(round));
        }
    }

    /// Notes up to which invocation a round has checked.
    fn has_passed(&mut self, round: Round) {
        let end = round.bounds.end();
        match round.scope {
            Scope::All => {}
            Scope::Of(function) => {
                let passed = self.passed.entry(function).or_insert(end);
                *passed = end.max(*passed);
            }
            Scope::Each(all) => {
                let all = all.into_iter().map(|(function, bounds)| (function, bounds.end()));
                self.passed.extend(all);
            }
        }
    }

    /// Forgets the oldest invocations of all functions, as far as that is allowed.
    fn make_room(&mut self, db: &Connection, why: Room, pages: Pages) -> rusqlite::Result<bool> {
        let now = (self.clock)();
        if self.rests_until.is_some_and(|until| now.mono < until) {
            return Ok(false);
        }
        let (bounds, spare) = match why {
            Room::Bytes => (Bounds::before(u128::MAX), None),
            Room::Disk => {
                // A clock that is not trusted makes no record old here either.
                let now_ms = self.age.ahead_of().unwrap_or(now.unix_ms);
                let (bounds, spare) = room::may_go(now_ms, pages.used());
                (bounds, Some(spare))
            }
        };
        let before = self.making_room.take().filter(|(before, _)| *before == why);
        let mut round = before.map_or_else(|| Round::new(Scope::All, bounds), |(_, round)| round);
        // The history may have become small in the meantime.
        (round.bounds, round.spare) = (bounds, spare);
        let done = round.step(db)?;
        match why {
            Room::Bytes => self.forgotten += done.forgotten as u64,
            Room::Disk => self.forgetting.for_room += done.forgotten as u64,
        }
        if !done.over {
            self.making_room = Some((why, round));
        } else if done.forgotten == 0 {
            // All records that may be forgotten have been.
            self.rests_until = Some(now.mono + REST);
            return Ok(false);
        }
        Ok(true)
    }
}

/// Returns the time of an id, Unix milliseconds.
fn time_of(id: u128) -> u64 {
    u64::try_from(id >> 80).unwrap_or(u64::MAX)
}

/// Returns some free pages to the disk.
fn shrink(db: &Connection, before: Pages) -> rusqlite::Result<bool> {
    let mut statement = db.prepare_cached(&format!("PRAGMA incremental_vacuum({SHRINK_PAGES})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    // A file of an earlier fnd that cannot shrink keeps its size.
    Ok(Pages::of(db)?.all < before.all)
}
