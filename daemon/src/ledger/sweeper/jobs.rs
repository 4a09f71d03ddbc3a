//! The jobs of the sweeper: each goes on in steps until the records to forget are known.

use super::Sweeper;
use super::expiries::{Expiries, SHORT};
use super::forget::{self, ForgetWalk, KeepBounds, Round, Scope, Weigh};
use crate::database;
use crate::ledger::rows;
use fnd_wire::ids::FunctionName;
use rusqlite::{Connection, params};
use std::collections::VecDeque;
use std::time::Duration;

/// Function names read in one step.
const NAMES_AT_ONCE: usize = 500;
/// The functions in the history, including those that never ran: one seek in the index for each.
const NAMES: &str = "WITH RECURSIVE found (name) AS (
        SELECT min(function) FROM invocation WHERE function > ?1
        UNION ALL SELECT (SELECT min(function) FROM invocation WHERE function > name) FROM found WHERE name IS NOT NULL
        LIMIT +?2
    ) SELECT name FROM found WHERE name IS NOT NULL";

/// A task of the sweeper.
#[derive(Debug)]
pub(super) enum SweepJob {
    /// Forget records of all functions that are older than the global age limit.
    Age,
    /// Check every function with a history whose name sorts after this one.
    Everybody(String),
    /// Check one function by count, age and bytes.
    Function(FunctionName),
    /// Continue to count a function's records.
    Walking(FunctionName, ForgetWalk, Option<u128>),
    /// Continue to add up the bytes of the records that the counts keep.
    Weighing(FunctionName, Weigh, KeepBounds),
    Going(Round),
}

impl Sweeper {
    pub(super) fn enlist_all(&mut self) {
        self.waiting.clear();
        self.due.clear();
        self.passed.clear();
        self.overdue.clear();
        self.gathered.clear();
        self.expiries = Expiries::default();
        // The whole history is checked, so everything that was noted for single functions is covered by that.
        self.jobs = VecDeque::from([SweepJob::Age, SweepJob::Everybody(String::new())]);
    }

    /// Queues checks for the next functions; returns the last name if there may be more.
    fn enlist(&mut self, db: &Connection, after: &str) -> rusqlite::Result<Option<String>> {
        let page = params![after, NAMES_AT_ONCE];
        let names: Vec<_> = database::all(db, NAMES, page, |row| rows::function(row, 0))?;
        let last = names.last().filter(|_| names.len() == NAMES_AT_ONCE);
        let last = last.map(|name| name.as_str().to_owned());
        for name in names {
            self.check(name);
        }
        Ok(last)
    }

    /// Does a job, or a part of it; returns the rest of the job.
    pub(super) fn work(&mut self, db: &Connection, job: SweepJob) -> rusqlite::Result<Option<SweepJob>> {
        Ok(match job {
            SweepJob::Age => {
                let bounds = KeepBounds::before(self.first_kept(self.retention.keep_for));
                self.expire(db, None, self.retention.keep_for, bounds)?;
                Some(SweepJob::Going(Round::new(Scope::All, bounds)))
            }
            SweepJob::Everybody(after) => self.enlist(db, &after)?.map(SweepJob::Everybody),
            SweepJob::Function(function) => {
                self.waiting.remove(&function);
                self.now_at = self.ended.remove(&function);
                let walk = ForgetWalk::new(self.retention.of(&function).keep, false);
                Some(SweepJob::Walking(function, walk, None))
            }
            SweepJob::Walking(function, mut walk, rest) => match (walk.step(db, &function)?, rest) {
                (None, rest) => Some(SweepJob::Walking(function, walk, rest)),
                (Some(rest), None) => {
                    let walk = ForgetWalk::new(self.retention.of(&function).keep_failed, true);
                    Some(SweepJob::Walking(function, walk, Some(rest)))
                }
                (Some(failed), Some(rest)) => {
                    let keep = self.retention.of(&function);
                    let aged = KeepBounds::before(self.first_kept(keep.keep_for));
                    self.expire(db, Some(&function), keep.keep_for, aged)?;
                    let bounds = KeepBounds {
                        rest,
                        // The newest invocations are kept whether they failed or not.
                        failed: failed.min(rest),
                        ..aged
                    };
                    Some(SweepJob::Weighing(function, Weigh::new(keep.keep_bytes), bounds))
                }
            },
            SweepJob::Weighing(function, mut weigh, bounds) => match weigh.step(db, &function)? {
                None => Some(SweepJob::Weighing(function, weigh, bounds)),
                Some(beyond) => {
                    let bounds = KeepBounds {
                        all: bounds.all.max(beyond),
                        ..bounds
                    };
                    self.round_of(function, bounds).map(SweepJob::Going)
                }
            },
            SweepJob::Going(mut round) => {
                let done = round.step(db)?;
                self.forgotten += done.forgotten as u64;
                if done.over {
                    self.has_passed(round);
                    None
                } else {
                    Some(SweepJob::Going(round))
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
        aged: KeepBounds,
    ) -> rusqlite::Result<()> {
        // A long age limit is checked once an hour, and needs no search for the oldest record.
        if keep_for < SHORT
            && let Some(oldest) = forget::oldest(db, whose, aged.end())?
        {
            let now_ms = || (self.clock)().unix_ms;
            self.expiries.add(whose, keep_for, oldest.unix_ms(), now_ms);
        }
        Ok(())
    }
}
