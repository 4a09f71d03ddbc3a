//! The statements that forget records, in steps of a few milliseconds, so that new work never waits long.
//!
//! Three things are never forgotten: invocations that have not ended, the last run of each function, and the scripts
//! that have run as `load`.

use crate::database;
use crate::ledger::rows::{self, FAILED, UNFINISHED};
use fnd_wire::ids::{FunctionName, InvocationId};
use rusqlite::{Connection, Row, Transaction, TransactionBehavior, params, params_from_iter};
use std::collections::HashMap;
use std::time::Duration;

/// Most invocations that one step checks, and so most that it forgets.
const CHECK_MAX: usize = 500;
/// Most adjacent invocations that one statement forgets: about 2 ms if the database is in memory.
const RANGE: usize = 250;
/// Most bytes of payloads and results that one step forgets; a larger one gets a step of its own.
const STEP_BYTES: u64 = 2 << 20;
/// A step that has taken this long forgets no further invocation; its commit comes on top.
const STEP_TIME: Duration = Duration::from_millis(8);
/// Index entries stepped over at once in the search for the oldest invocation that is kept.
pub(super) const WALK: u32 = 10_000;

/// The history that a round goes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ledger) enum Scope {
    /// That of all functions.
    All,
    /// That of one function.
    Of(FunctionName),
    /// That of several functions, each with its own bounds; the round goes over the history of all functions.
    Each(HashMap<FunctionName, KeepBounds>),
}

/// Which of the checked invocations a round forgets, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ledger) struct KeepBounds {
    /// All invocations up to this id.
    pub(in crate::ledger) all: u128,
    /// Invocations that did not fail, up to this id.
    pub(in crate::ledger) rest: u128,
    /// Invocations that failed, up to this id.
    pub(in crate::ledger) failed: u128,
}

impl KeepBounds {
    /// Returns bounds that forget everything before an id.
    pub(in crate::ledger) fn before(id: u128) -> Self {
        Self {
            all: id.saturating_sub(1),
            rest: 0,
            failed: 0,
        }
    }

    pub(super) fn end(&self) -> u128 {
        self.all.max(self.rest).max(self.failed)
    }

    fn take(&self, id: u128, failed: bool) -> bool {
        id <= self.all || id <= if failed { self.failed } else { self.rest }
    }
}

/// One pass over a history, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) scope: Scope,
    pub(super) bounds: KeepBounds,
    /// The last invocation that was checked.
    pub(super) at: u128,
    /// The last invocation to check, if it comes before the end of the bounds.
    pub(super) until: u128,
    /// How many adjacent invocations the next probe tries.
    neighbours: Neighbours,
    /// Present while the round makes room on the disk: dead letters are kept, and keys from this invocation on.
    pub(super) keys_from: Option<u128>,
    /// The last runs of functions that are kept only because there is no newer one; none of a round with one bound for all.
    pub(super) kept: Vec<(FunctionName, u128)>,
}

/// An estimate, by the last probes, of how many invocations of one function are adjacent in the history of all
/// functions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Neighbours {
    next: usize,
    /// Invocations to forget one by one before the next probe for adjacent ones.
    alone: usize,
}

impl Neighbours {
    /// Invocations to forget one by one after a probe found that two were not adjacent.
    const ALONE: usize = 32;

    fn probe(&self) -> usize {
        if self.alone > 0 { 1 } else { self.next }
    }

    fn found(&mut self, probed: usize, beside: usize) {
        match (probed, beside) {
            (0 | 1, _) => self.alone = self.alone.saturating_sub(1),
            (_, 0 | 1) => (self.next, self.alone) = (4, Self::ALONE),
            (probed, beside) if probed == beside => self.next = (beside * 2).min(RANGE),
            (_, beside) => self.next = beside,
        }
    }
}

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForgetProgress {
    pub(super) forgotten: usize,
    /// Whether the round is complete.
    pub(super) over: bool,
}

impl Round {
    pub(super) fn new(scope: Scope, bounds: KeepBounds) -> Self {
        Self {
            scope,
            bounds,
            at: 0,
            until: u128::MAX,
            neighbours: Neighbours { next: RANGE, alone: 0 },
            keys_from: None,
            kept: Vec::new(),
        }
    }

    /// Returns a round over the history of all functions that forgets records of several functions, each by its own
    /// bounds.
    pub(super) fn each(of: HashMap<FunctionName, KeepBounds>) -> Self {
        let end = of.values().map(KeepBounds::end).max().unwrap_or(0);
        Self::new(Scope::Each(of), KeepBounds::before(end.saturating_add(1)))
    }

    pub(super) fn step(&mut self, db: &Connection) -> rusqlite::Result<ForgetProgress> {
        let found = self.candidates(db)?;
        // Only this thread writes, so the candidates are still the same inside of the transaction.
        let transaction = Transaction::new_unchecked(db, TransactionBehavior::Immediate)?;
        let (mut forgotten, mut bytes, mut checked) = (0, 0, 0_usize);
        let begun = crate::clock::monotonic();
        while checked < found.len() {
            // A step forgets at least one invocation, however slow the disk is: otherwise the round would never end.
            if bytes > STEP_BYTES
                || forgotten > 0 && crate::clock::monotonic().saturating_duration_since(begun) > STEP_TIME
            {
                break;
            }
            // The candidates of one function may lie apart, so a probe finds the neighbours. Those of all functions lie
            // side by side.
            let most = match self.scope {
                Scope::Of(_) => self.neighbours.probe(),
                Scope::All | Scope::Each(_) => RANGE,
            };
            let run = found[checked..].iter().take(most).take_while(|one| self.takes(one));
            let run: Vec<_> = run.map(|one| one.id).collect();
            if run.is_empty() {
                let kept = found.get(checked).and_then(|one| self.keeps_last(one));
                // The last run of a function is kept beyond its bounds until there is a newer one. The sweeper gets
                // these functions, so that it can forget the old run then.
                self.kept.extend(kept);
                checked += 1;
                continue;
            }
            let (count, of_these) = self.forget_some(&transaction, &run)?;
            bytes += of_these;
            forgotten += count;
            checked += count;
        }
        transaction.commit()?;
        // Only after the commit, so that a step that fails is repeated.
        if let Some(last) = checked.checked_sub(1).and_then(|last| found.get(last)) {
            self.at = last.id;
        }
        Ok(ForgetProgress {
            forgotten,
            over: checked == found.len() && found.len() < CHECK_MAX,
        })
    }

    /// Returns a candidate that exceeds its bounds and is kept as the last run of its function.
    fn keeps_last(&self, candidate: &ForgetCandidate) -> Option<(FunctionName, u128)> {
        let function = match &self.scope {
            Scope::Of(function) => Some(function),
            Scope::All | Scope::Each(_) => candidate.function.as_ref(),
        };
        let function = function.filter(|_| candidate.is_last && self.exceeds(candidate))?;
        // A step that failed is repeated.
        Some((function.clone(), candidate.id)).filter(|last| !self.kept.contains(last))
    }

    fn takes(&self, candidate: &ForgetCandidate) -> bool {
        let is_spared = |keys_from: u128| candidate.dead || candidate.has_key && candidate.id >= keys_from;
        candidate.has_ended && !candidate.is_last && !self.keys_from.is_some_and(is_spared) && self.exceeds(candidate)
    }

    fn exceeds(&self, candidate: &ForgetCandidate) -> bool {
        let bounds = match &self.scope {
            Scope::All | Scope::Of(_) => Some(&self.bounds),
            Scope::Each(all) => candidate.function.as_ref().and_then(|function| all.get(function)),
        };
        bounds.is_some_and(|bounds| bounds.take(candidate.id, candidate.failed))
    }

    /// Forgets the first of these invocations, all of which may be forgotten: as many as are adjacent in the history of
    /// all functions, with one range in each table. One by one they would cost several times as much. Returns how many,
    /// and the bytes of their bodies.
    fn forget_some(&mut self, db: &Connection, ids: &[u128]) -> rusqlite::Result<(usize, u64)> {
        let mut ids = ids;
        if let Scope::Of(_) = self.scope {
            // Only adjacent invocations may be deleted as a range: between others lie those of other functions.
            let beside = if ids.len() > 1 { beside(db, ids)? } else { ids.len() };
            self.neighbours.found(ids.len(), beside);
            ids = &ids[..beside];
        }
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else {
            return Ok((0, 0));
        };
        let bytes = bytes(db, *first, *last)?;
        if bytes > STEP_BYTES && first != last {
            return self.forget_some(db, &ids[..ids.len() / 2]);
        }
        forget(db, *first, *last)?;
        Ok((ids.len(), bytes))
    }

    fn candidates(&self, db: &Connection) -> rusqlite::Result<Vec<ForgetCandidate>> {
        let (at, end) = (self.at.to_be_bytes(), self.bounds.end().min(self.until).to_be_bytes());
        let sql = sql(&self.scope);
        match &self.scope {
            Scope::All | Scope::Each(_) => database::all(db, &sql, params![at, end], candidate),
            Scope::Of(function) => database::all(db, &sql, params![at, end, function.as_str()], candidate),
        }
    }
}

/// Returns the statement that lists candidates, in the order of the key and without sorting.
pub(in crate::ledger) fn sql(scope: &Scope) -> String {
    let (index, which, function) = match scope {
        Scope::All => ("NOT INDEXED", "", "NULL"),
        Scope::Of(_) => ("INDEXED BY by_function", "function = ?3 AND", "NULL"),
        Scope::Each(_) => ("NOT INDEXED", "", "function"),
    };
    format!(
        "SELECT id, {FAILED}, NOT ({UNFINISHED}),
            EXISTS (SELECT 1 FROM function WHERE name = invocation.function AND last_invocation = invocation.id),
            dead IS 1, key IS NOT NULL, {function}
        FROM invocation {index} WHERE {which} id > ?1 AND id <= ?2 ORDER BY id LIMIT {CHECK_MAX}"
    )
}

struct ForgetCandidate {
    id: u128,
    failed: bool,
    has_ended: bool,
    /// Whether it is the last run of its function.
    is_last: bool,
    dead: bool,
    has_key: bool,
    /// The function, if each function has its own bounds.
    function: Option<FunctionName>,
}

fn candidate(row: &Row<'_>) -> rusqlite::Result<ForgetCandidate> {
    Ok(ForgetCandidate {
        id: u128::from_be_bytes(row.get(0)?),
        failed: row.get(1)?,
        has_ended: row.get(2)?,
        is_last: row.get(3)?,
        dead: row.get(4)?,
        has_key: row.get(5)?,
        function: rows::word_or_none(row, 6, |text| FunctionName::new(text).ok())?,
    })
}

/// Returns the oldest invocation after another, of one function or of all.
pub(super) fn oldest(
    db: &Connection,
    of: Option<&FunctionName>,
    after: u128,
) -> rusqlite::Result<Option<InvocationId>> {
    let after = after.to_be_bytes();
    let read = |row: &Row<'_>| rows::id(row, 0);
    match of {
        Some(function) => {
            let sql =
                "SELECT id FROM invocation INDEXED BY by_function WHERE function = ?1 AND id > ?2 ORDER BY id LIMIT 1";
            database::first(db, sql, params![function.as_str(), after], read)
        }
        None => {
            let sql = "SELECT id FROM invocation NOT INDEXED WHERE id > ?1 ORDER BY id LIMIT 1";
            database::first(db, sql, [after], read)
        }
    }
}

/// Returns how many of these invocations, from the first on, are adjacent in the history of all functions.
fn beside(db: &Connection, ids: &[u128]) -> rusqlite::Result<usize> {
    let (Some(first), Some(last)) = (ids.first(), ids.last()) else {
        return Ok(0);
    };
    let sql = "SELECT id FROM invocation WHERE id >= ?1 AND id <= ?2 ORDER BY id";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params![first.to_be_bytes(), last.to_be_bytes()])?;
    let mut count = 0;
    while let Some(row) = rows.next()?
        && ids.get(count) == Some(&u128::from_be_bytes(row.get(0)?))
    {
        count += 1;
    }
    Ok(count)
}

/// Returns the bytes of payloads and results in `body` from one invocation to another.
fn bytes(db: &Connection, first: u128, last: u128) -> rusqlite::Result<u64> {
    db.prepare_cached("SELECT coalesce(sum(length(data)), 0) FROM body WHERE invocation >= ?1 AND invocation <= ?2")?
        .query_row([first.to_be_bytes(), last.to_be_bytes()], |row| row.get(0))
}

/// Forgets all invocations from one to another.
fn forget(db: &Connection, first: u128, last: u128) -> rusqlite::Result<()> {
    let ends = [first, last].map(u128::to_be_bytes);
    for (table, id) in [("attempt", "invocation"), ("body", "invocation"), ("invocation", "id")] {
        // SQLite deletes a range in two passes, but a single row in one.
        let (which, ends) = match first == last {
            true => (format!("{id} = ?1"), &ends[..1]),
            false => (format!("{id} >= ?1 AND {id} <= ?2"), &ends[..]),
        };
        let sql = format!("DELETE FROM {table} WHERE {which}");
        database::execute(db, &sql, params_from_iter(ends))?;
    }
    Ok(())
}

/// Steps down a function's history to the newest invocation that is no longer kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ForgetWalk {
    /// The last invocation that it reached.
    at: u128,
    /// How many more invocations are kept.
    left: u32,
    /// Whether it counts only those that failed.
    failed: bool,
}

impl ForgetWalk {
    /// Begins after the newest invocation. `keep` are kept; `u32::MAX` keeps all.
    pub(super) fn new(keep: u32, failed: bool) -> Self {
        Self {
            at: u128::MAX,
            left: keep,
            failed,
        }
    }

    /// Continues. Returns the newest invocation to forget, or 0 if there is none; nothing if it has not got there yet.
    pub(super) fn step(&mut self, db: &Connection, function: &FunctionName) -> rusqlite::Result<Option<u128>> {
        if self.left == u32::MAX {
            return Ok(Some(0));
        }
        let skip = self.left.min(WALK);
        let (index, only) = match self.failed {
            true => ("failed_of", format!("AND {FAILED}")),
            false => ("by_function", String::new()),
        };
        let sql = format!(
            "SELECT id FROM invocation INDEXED BY {index} WHERE function = ?1 {only} AND id < ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3"
        );
        let more = skip < self.left;
        // A step on the way stops at the last invocation that is kept; the final step stops at the first that is not.
        let offset = if more { skip - 1 } else { skip };
        let place = params![function.as_str(), self.at.to_be_bytes(), offset];
        let found = database::first(db, &sql, place, |row| row.get(0))?;
        let Some(found) = found.map(u128::from_be_bytes) else {
            return Ok(Some(0));
        };
        if more {
            self.at = found;
            self.left -= skip;
            return Ok(None);
        }
        Ok(Some(found))
    }
}

/// Adds up the bytes of a function's history from the newest invocation on, to the first that exceeds the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Weigh {
    /// The last invocation that was added.
    at: u128,
    /// How many more bytes are kept.
    left: u64,
}

impl Weigh {
    /// Begins after the newest invocation; `u64::MAX` keeps all.
    pub(super) fn new(keep_bytes: u64) -> Self {
        Self {
            at: u128::MAX,
            left: keep_bytes,
        }
    }

    /// Adds some up. Returns the newest invocation to forget, or 0 if there is none; nothing if it has not got there
    /// yet.
    pub(super) fn step(&mut self, db: &Connection, function: &FunctionName) -> rusqlite::Result<Option<u128>> {
        if self.left == u64::MAX {
            return Ok(Some(0));
        }
        let mut statement = db.prepare_cached(&weigh_sql())?;
        let mut rows = statement.query(params![function.as_str(), self.at.to_be_bytes()])?;
        let mut checked = 0;
        while let Some(row) = rows.next()? {
            let id = u128::from_be_bytes(row.get(0)?);
            let bytes: u64 = row.get(1)?;
            if bytes > self.left {
                return Ok(Some(id));
            }
            self.left -= bytes;
            self.at = id;
            checked += 1;
        }
        Ok((checked < CHECK_MAX).then_some(0))
    }
}

/// Returns the statement that adds up bytes: fixed columns and indexes count with their average, texts and bodies with
/// their size.
fn weigh_sql() -> String {
    let text = |name| format!("ifnull(octet_length({name}), 0)");
    let texts = ["message", "context", "request", "response", "result"]
        .map(text)
        .join(" + ");
    format!(
        "SELECT id, {RECORD_BYTES} + {ATTEMPT_BYTES} * attempts + {texts}
            + (SELECT ifnull(sum(length(data)), 0) FROM body WHERE body.invocation = invocation.id)
        FROM invocation INDEXED BY by_function WHERE function = ?1 AND id < ?2 ORDER BY id DESC LIMIT {CHECK_MAX}"
    )
}

/// Bytes of an invocation in the database without its texts and bodies.
const RECORD_BYTES: u64 = 300;
/// Bytes of one attempt.
const ATTEMPT_BYTES: u64 = 150;
