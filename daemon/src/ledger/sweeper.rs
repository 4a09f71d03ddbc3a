//! What is to be looked at so that no more history is kept than [`Retention`] says: age, count and bytes.
//!
//! The writer's thread calls [`Sweeper::step`] while nobody waits for it. A step is short: see `forget`.

use super::age::Age;
use super::command::{Figures, Forgetting};
use super::forget::{Bounds, Round, Scope, Walk, Weigh};
use super::retention::Retention;
use super::room::{self, Pages};
use fnd_core::ids::FunctionName;
use fnd_core::supervisor::Now;
use rusqlite::{Connection, params};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

/// How often everything is looked at: it has become older, and the clock may have been set.
const HOURLY: Duration = Duration::from_secs(3600);
/// How long making room rests after a whole round that found nothing which may go.
const REST: Duration = Duration::from_secs(60);

/// Ended invocations of a function before its history is counted again, at least; a tenth of what is kept where that is more,
/// since counting steps over all of those.
const EVERY: u32 = 100;
/// Functions found in one step.
const NAMES_AT_ONCE: usize = 500;
/// The functions in the history, also those that never ran: one seek in the index for each.
const NAMES: &str = "WITH RECURSIVE found (name) AS (
        SELECT min(function) FROM invocation WHERE function > ?1
        UNION ALL SELECT (SELECT min(function) FROM invocation WHERE function > name) FROM found WHERE name IS NOT NULL
        LIMIT ?2
    ) SELECT name FROM found WHERE name IS NOT NULL";
/// Bytes inside the database that stay free for new records on a disk that is nearly full.
const RESERVE: u64 = 4 << 20;
/// Free pages given back to the disk in one step.
const SHRINK_PAGES: u32 = 128;
/// Free bytes that are never given back: they are used again soon.
const SPARE: u64 = 16 << 20;

/// One thing to look at.
#[derive(Debug)]
enum Job {
    /// What is older than is kept of anybody.
    Age,
    /// Every function with a history, from behind this one on.
    Everybody(String),
    /// One function: by count and age.
    Function(FunctionName),
    /// Going on.
    Walking(FunctionName, Walk, Option<u128>),
    /// The same, for what the counts leave.
    Weighing(FunctionName, Weigh, Bounds),
    Going(Round),
}

/// Why the oldest of all go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// There is more than is kept.
    Bytes,
    /// The disk is nearly full.
    Disk,
}

/// Both clocks; tests have their own.
pub(super) type Clock = Box<dyn Fn() -> Now + Send>;

/// Remembers where there may be something to forget.
pub(super) struct Sweeper {
    retention: Retention,
    clock: Clock,
    age: Age,
    /// When the clock was looked at last, and when everything was.
    clock_seen: Duration,
    all_seen: Duration,
    forgetting: Forgetting,
    /// Records that were forgotten, but for those that made room on the disk.
    forgotten: u64,
    jobs: VecDeque<Job>,
    /// Functions in `jobs`.
    waiting: HashSet<FunctionName>,
    /// Invocations that ended since the function was last looked at.
    ended: HashMap<FunctionName, u32>,
    /// The round that makes room, over everybody's history; it goes on where it was.
    making_room: Option<(Room, Round)>,
    /// Until when there is no other such round: the last one found nothing.
    rests_until: Option<Duration>,
    /// Whether all are to be looked at.
    all: bool,
    /// Nothing could be forgotten, until more has ended.
    stuck: bool,
}

impl Sweeper {
    pub(super) fn new(db: &Connection, retention: Retention) -> rusqlite::Result<Self> {
        let clock = crate::clock::Clock::start();
        Self::with_clock(db, retention, Box::new(move || clock.now()))
    }

    pub(super) fn with_clock(db: &Connection, retention: Retention, clock: Clock) -> rusqlite::Result<Self> {
        // Fails now where the database is not what it should be.
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
            waiting: HashSet::new(),
            ended: HashMap::new(),
            making_room: None,
            all: true,
            stuck: false,
        };
        sweeper.look_at_clock(db);
        Ok(sweeper)
    }

    /// Goes by other rules from now on.
    pub(super) fn retain(&mut self, retention: Retention) {
        if self.retention != retention {
            self.retention = retention;
            self.look_again();
        }
    }

    fn look_again(&mut self) {
        self.all = true;
        self.stuck = false;
        self.rests_until = None;
    }

    /// Returns how long there is nothing to look at if nothing else happens.
    pub(super) fn pause(&self) -> Duration {
        (self.all_seen + HOURLY).saturating_sub((self.clock)().mono)
    }

    /// Looks at the clock, and stores what it knows of the time. Returns the clock.
    fn look_at_clock(&mut self, db: &Connection) -> Now {
        let now = (self.clock)();
        self.age.look(now.unix_ms, now.mono.saturating_sub(self.clock_seen));
        self.clock_seen = now.mono;
        self.forgetting.clock_ahead_of = self.age.ahead_of();
        if let Err(error) = self.age.store(db) {
            // It is tried again at the next look; until then a restart knows an older time, which forgets less.
            tracing::debug!("failed to store the time: {error}");
        }
        now
    }

    /// Returns the first id that an age keeps; while the clock is not believed that is every one.
    fn first_kept(&self, keep_for: Duration) -> u128 {
        let now_ms = self.age.now_ms((self.clock)().unix_ms);
        now_ms.map_or(0, |now_ms| room::first_of(now_ms, keep_for))
    }

    /// Returns what people are told of.
    pub(super) fn forgetting(&self) -> Forgetting {
        self.forgetting
    }

    pub(super) fn ended(&mut self, function: &FunctionName) {
        self.stuck = false;
        let due = EVERY.max(self.retention.of(function).keep / 10);
        let count = match self.ended.get_mut(function) {
            Some(count) => count,
            None => self.ended.entry(function.clone()).or_insert(0),
        };
        *count += 1;
        if *count >= due {
            *count = 0;
            self.look_at(function.clone());
        }
    }

    fn look_at(&mut self, function: FunctionName) {
        if self.waiting.insert(function.clone()) {
            self.jobs.push_back(Job::Function(function));
        }
    }

    /// Returns how much there is.
    pub(super) fn figures(&self, db: &Connection) -> rusqlite::Result<Figures> {
        let mut statement = db.prepare_cached("SELECT name, dead FROM function WHERE dead > 0")?;
        let dead = statement.query_map([], |row| Ok((super::rows::function(row, 0)?, row.get(1)?)))?;
        Ok(Figures {
            dead_letters: dead.collect::<rusqlite::Result<_>>()?,
            history_bytes: Pages::of(db)?.used(),
            forgotten: self.forgotten,
        })
    }

    /// Forgets a little, if there is something; with `low` there is no room on the disk but what the database has inside.
    /// Returns whether there may be more.
    pub(super) fn step(&mut self, db: &Connection, low: bool) -> bool {
        let now = self.look_at_clock(db);
        if now.mono.saturating_sub(self.all_seen) >= HOURLY {
            self.all_seen = now.mono;
            self.look_again();
        }
        if self.stuck {
            return false;
        }
        self.try_step(db, low).unwrap_or_else(|error| {
            tracing::warn!("failed to forget old history ({error}), keeping it until more runs have ended");
            self.stuck = true;
            false
        })
    }

    /// Does that; whether there is nothing to forget is looked at each time.
    ///
    /// # Errors
    /// From the database.
    pub(super) fn try_step(&mut self, db: &Connection, low: bool) -> rusqlite::Result<bool> {
        if std::mem::take(&mut self.all) {
            self.enlist_all();
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
        self.jobs = VecDeque::from([Job::Age, Job::Everybody(String::new())]);
    }

    /// Looks at the next functions; returns the last of them where there may be more.
    fn enlist(&mut self, db: &Connection, after: &str) -> rusqlite::Result<Option<String>> {
        let mut names = db.prepare_cached(NAMES)?;
        let names = names.query_map(params![after, NAMES_AT_ONCE], |row| super::rows::function(row, 0))?;
        let names: Vec<_> = names.collect::<rusqlite::Result<_>>()?;
        let last = names.last().filter(|_| names.len() == NAMES_AT_ONCE);
        let last = last.map(|name| name.as_str().to_owned());
        for name in names {
            self.look_at(name);
        }
        Ok(last)
    }

    /// Does a job, or a part of it; returns what is left of it.
    fn work(&mut self, db: &Connection, job: Job) -> rusqlite::Result<Option<Job>> {
        Ok(match job {
            Job::Age => Some(Job::Going(Round::new(
                Scope::All,
                Bounds::before(self.first_kept(self.retention.keep_for)),
            ))),
            Job::Everybody(after) => self.enlist(db, &after)?.map(Job::Everybody),
            Job::Function(function) => {
                self.waiting.remove(&function);
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
                    let bounds = Bounds {
                        rest,
                        // Those among the newest are kept whatever became of them.
                        failed: failed.min(rest),
                        ..Bounds::before(self.first_kept(keep.keep_for))
                    };
                    Some(Job::Weighing(function, Weigh::new(keep.keep_bytes), bounds))
                }
            },
            Job::Weighing(function, mut weigh, bounds) => Some(match weigh.step(db, &function)? {
                None => Job::Weighing(function, weigh, bounds),
                Some(beyond) => {
                    let bounds = Bounds {
                        all: bounds.all.max(beyond),
                        ..bounds
                    };
                    Job::Going(Round::new(Scope::Of(function), bounds))
                }
            }),
            Job::Going(mut round) => {
                let done = round.step(db)?;
                self.forgotten += done.forgotten as u64;
                (!done.over).then_some(Job::Going(round))
            }
        })
    }

    /// Forgets the oldest of all, as far as they may go.
    fn make_room(&mut self, db: &Connection, why: Room, pages: Pages) -> rusqlite::Result<bool> {
        let now = (self.clock)();
        if self.rests_until.is_some_and(|until| now.mono < until) {
            return Ok(false);
        }
        let (bounds, spare) = match why {
            Room::Bytes => (Bounds::before(u128::MAX), None),
            Room::Disk => {
                // A clock that is not believed makes nothing old here either.
                let now_ms = self.age.ahead_of().unwrap_or(now.unix_ms);
                let (bounds, spare) = room::may_go(now_ms, pages.used());
                (bounds, Some(spare))
            }
        };
        let before = self.making_room.take().filter(|(before, _)| *before == why);
        let mut round = before.map_or_else(|| Round::new(Scope::All, bounds), |(_, round)| round);
        // The history may have become small meanwhile.
        (round.bounds, round.spare) = (bounds, spare);
        let done = round.step(db)?;
        match why {
            Room::Bytes => self.forgotten += done.forgotten as u64,
            Room::Disk => self.forgetting.for_room += done.forgotten as u64,
        }
        if !done.over {
            self.making_room = Some((why, round));
        } else if done.forgotten == 0 {
            // All that may go has gone.
            self.rests_until = Some(now.mono + REST);
            return Ok(false);
        }
        Ok(true)
    }
}

/// Gives some free pages back to the disk.
fn shrink(db: &Connection, before: Pages) -> rusqlite::Result<bool> {
    let mut statement = db.prepare_cached(&format!("PRAGMA incremental_vacuum({SHRINK_PAGES})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    // A file from before it could shrink stays as it is.
    Ok(Pages::of(db)?.all < before.all)
}
