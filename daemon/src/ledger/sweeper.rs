//! What is to be looked at so that no more history is kept than [`Retention`] says: age, count and bytes.
//!
//! The writer's thread calls [`Sweeper::step`] while nobody waits for it. A step is short: see `forget`.

use super::command::Figures;
use super::forget::{Bounds, Round, Scope, Walk, Weigh};
use super::retention::Retention;
use super::room::Pages;
use fnd_core::ids::FunctionName;
use rusqlite::{Connection, params};
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

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

/// Remembers where there may be something to forget.
#[derive(Debug)]
pub(super) struct Sweeper {
    retention: Retention,
    jobs: VecDeque<Job>,
    /// Functions in `jobs`.
    waiting: HashSet<FunctionName>,
    /// Invocations that ended since the function was last looked at.
    ended: HashMap<FunctionName, u32>,
    /// The round that makes room, over everybody's history; it goes on where it was.
    making_room: Option<Round>,
    /// Whether all are to be looked at.
    all: bool,
    /// Nothing could be forgotten, until more has ended.
    stuck: bool,
}

impl Sweeper {
    pub(super) fn new(db: &Connection, retention: Retention) -> rusqlite::Result<Self> {
        // Fails now where the database is not what it should be.
        Pages::of(db)?;
        Ok(Self {
            retention,
            jobs: VecDeque::new(),
            waiting: HashSet::new(),
            ended: HashMap::new(),
            making_room: None,
            all: true,
            stuck: false,
        })
    }

    /// Goes by other rules from now on.
    pub(super) fn retain(&mut self, retention: Retention) {
        if self.retention != retention {
            self.retention = retention;
            self.all = true;
            self.stuck = false;
        }
    }

    /// Looks at everything again, which has become older.
    pub(super) fn look_again(&mut self) {
        self.all = true;
        self.stuck = false;
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
        })
    }

    /// Forgets a little, if there is something; with `low` there is no room on the disk but what the database has inside.
    /// Returns whether there may be more.
    pub(super) fn step(&mut self, db: &Connection, low: bool) -> bool {
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
        let wanted = pages.used() > self.retention.keep_bytes || low && pages.reusable() < RESERVE;
        if wanted {
            return self.make_room(db);
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
                Bounds::before(oldest_kept(self.retention.keep_for)),
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
                        ..Bounds::before(oldest_kept(keep.keep_for))
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
                (!done.over).then_some(Job::Going(round))
            }
        })
    }

    /// Forgets the oldest of all.
    fn make_room(&mut self, db: &Connection) -> rusqlite::Result<bool> {
        let begin = || Round::new(Scope::All, Bounds::before(u128::MAX));
        let done = self.making_room.get_or_insert_with(begin).step(db)?;
        if done.over {
            self.making_room = None;
            // All that may go has gone.
            self.stuck = done.forgotten == 0;
        }
        Ok(!self.stuck)
    }
}

/// Returns the first id that an age keeps: ids begin with their time.
fn oldest_kept(keep_for: Duration) -> u128 {
    let keep_ms = u64::try_from(keep_for.as_millis()).unwrap_or(u64::MAX);
    u128::from(crate::clock::unix_ms().saturating_sub(keep_ms)) << 80
}

/// Gives some free pages back to the disk.
fn shrink(db: &Connection, before: Pages) -> rusqlite::Result<bool> {
    let mut statement = db.prepare_cached(&format!("PRAGMA incremental_vacuum({SHRINK_PAGES})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    // A file from before it could shrink stays as it is.
    Ok(Pages::of(db)?.all < before.all)
}
