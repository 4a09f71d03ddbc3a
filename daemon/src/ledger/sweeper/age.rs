//! The time that decides which records are too old: the clock, unless it is far ahead of the newest known time.
//!
//! A clock that is wrong once, for example at a start before it is synchronised, must not cost the history: forgotten
//! records do not come back. So a clock that is more than [`AHEAD_MS`] ahead of the newest known time is not trusted
//! until it has been ahead for [`BELIEVED_AFTER`], measured by the monotonic clock and across restarts. Until then no
//! record is forgotten because of its age. A clock that is behind makes no record old.

use crate::ledger::meta;
use rusqlite::Connection;
use std::time::Duration;

/// How far ahead of the newest known time the clock is trusted at once. This covers a node that last ran yesterday, and
/// a user who applies a time zone or summer time to the clock itself.
const AHEAD_MS: u64 = 86_400_000;
/// How long a clock that is further ahead must stay so before it is trusted: long enough for a user to see and fix the
/// problem.
const BELIEVED_AFTER: Duration = Duration::from_secs(86_400);
/// By how much the known time must grow before it is stored: less than [`AHEAD_MS`], so that a restart begins within
/// that limit, and so much that an idle node writes only twice a day.
const STORED_EVERY_MS: u64 = 43_200_000;

/// Keys in the table `meta`: the newest known time, and how long the clock has been ahead of it; both in milliseconds.
const KNOWN: &str = "clock_known";
const AHEAD: &str = "clock_ahead";

/// The known time, and whether the clock is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Age {
    /// The newest time that was trusted, Unix milliseconds.
    known_ms: u64,
    /// How long the clock has been too far ahead of it; nothing while the clock is trusted.
    ahead: Option<Duration>,
    /// The values of `known_ms` and `ahead` that are stored.
    stored: Option<(u64, Option<Duration>)>,
}

impl Age {
    /// Begins with the stored values; if the clock was trusted then, also with the time of the newest record.
    ///
    /// A record that is far ahead of the stored time does not count: a trusted clock is stored twice a day, so fnd was killed
    /// before it stored that the clock is ahead.
    pub(super) fn of(db: &Connection, unix_ms: u64) -> rusqlite::Result<Self> {
        let known_ms = read(db, KNOWN)?;
        let ahead = read(db, AHEAD)?.map(Duration::from_millis);
        let newest = crate::ledger::restore::last_id(db)?.map(|id| id.unix_ms());
        let believed = |newest: &u64| known_ms.is_none_or(|known_ms| *newest <= known_ms.saturating_add(AHEAD_MS));
        let newest = newest.filter(|newest| ahead.is_none() && believed(newest));
        Ok(Self {
            // An empty ledger knows no other time, and has no records to forget.
            known_ms: known_ms.max(newest).unwrap_or(unix_ms),
            ahead,
            stored: known_ms.map(|known_ms| (known_ms, ahead)),
        })
    }

    /// Checks the clock; `passed` is the time since the last check.
    pub(super) fn check(&mut self, unix_ms: u64, passed: Duration) {
        let is_ahead = unix_ms > self.known_ms.saturating_add(AHEAD_MS);
        self.ahead = is_ahead.then(|| self.ahead.map_or(Duration::ZERO, |ahead| ahead.saturating_add(passed)));
        if self.ahead.is_none_or(|ahead| ahead >= BELIEVED_AFTER) {
            self.ahead = None;
            self.known_ms = self.known_ms.max(unix_ms);
        }
    }

    /// Returns the time for age limits; nothing while the clock is not trusted.
    pub(super) fn now_ms(&self, unix_ms: u64) -> Option<u64> {
        self.ahead.is_none().then_some(unix_ms)
    }

    /// Returns the newest known time while the clock is too far ahead of it.
    pub(super) fn ahead_of(&self) -> Option<u64> {
        self.ahead.map(|_| self.known_ms)
    }

    /// Stores the values that the next start needs, unless they are stored.
    pub(super) fn store(&mut self, db: &Connection) -> rusqlite::Result<()> {
        let is_stored = self.stored.is_some_and(|(known_ms, ahead)| {
            // How long the clock has been ahead is stored once an hour. So a restart repeats at most an hour of the
            // wait.
            let slack = Duration::from_secs(3600);
            let same = match (ahead, self.ahead) {
                (None, None) => true,
                (Some(stored), Some(ahead)) => ahead < stored.saturating_add(slack),
                (Some(_), None) | (None, Some(_)) => false,
            };
            same && self.known_ms < known_ms.saturating_add(STORED_EVERY_MS)
        });
        if is_stored {
            return Ok(());
        }
        let step = db.unchecked_transaction()?;
        meta::set(&step, KNOWN, &self.known_ms.to_string())?;
        match self.ahead {
            Some(ahead) => {
                let ahead_ms = u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX);
                meta::set(&step, AHEAD, &ahead_ms.to_string())?;
            }
            None => meta::remove(&step, AHEAD)?,
        }
        step.commit()?;
        self.stored = Some((self.known_ms, self.ahead));
        Ok(())
    }
}

fn read(db: &Connection, key: &str) -> rusqlite::Result<Option<u64>> {
    // Ignore a value that is not a number.
    Ok(meta::get(db, key)?.and_then(|text| text.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;
    const HOUR: Duration = Duration::from_secs(3600);

    fn known(known_ms: u64) -> Age {
        Age {
            known_ms,
            ahead: None,
            stored: None,
        }
    }

    #[test]
    fn a_clock_within_a_day_is_believed_and_one_beyond_is_not() {
        for (unix_ms, believed) in [
            (0, true),
            (99 * DAY, true),
            (100 * DAY, true),
            (101 * DAY, true),
            (101 * DAY + 1, false),
            (140 * DAY, false),
            (u64::MAX, false),
        ] {
            let mut age = known(100 * DAY);
            age.check(unix_ms, HOUR);
            assert_eq!(age.now_ms(unix_ms), believed.then_some(unix_ms), "{unix_ms}");
            assert_eq!(age.ahead_of(), (!believed).then_some(100 * DAY), "{unix_ms}");
        }
    }

    #[test]
    fn it_is_believed_when_it_has_been_ahead_for_a_day() {
        let mut age = known(100 * DAY);
        age.check(140 * DAY, HOUR);
        for hours in 1..24_u64 {
            age.check(140 * DAY + hours * 3_600_000, HOUR);
            assert_eq!(age.ahead_of(), Some(100 * DAY), "{hours}");
        }
        age.check(141 * DAY, HOUR);
        assert_eq!(age.now_ms(141 * DAY), Some(141 * DAY));
        age.check(142 * DAY, HOUR);
        assert_eq!(age.ahead_of(), None, "it goes on from there");
    }

    #[test]
    fn a_clock_that_comes_back_begins_its_day_again() {
        let mut age = known(100 * DAY);
        age.check(140 * DAY, HOUR);
        age.check(140 * DAY, 20 * HOUR);
        age.check(100 * DAY, HOUR);
        assert_eq!(age.now_ms(100 * DAY), Some(100 * DAY));
        age.check(140 * DAY, HOUR);
        age.check(140 * DAY, 20 * HOUR);
        assert_eq!(age.ahead_of(), Some(100 * DAY));
    }

    fn ran(db: &Connection, unix_ms: u64) {
        let id = (u128::from(unix_ms) << 80).to_be_bytes();
        let sql =
            "INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, attempts, polls, message)
            VALUES (?1, 'f', 'manual', 'succeeded', 0, 1, 1, 0, '')";
        db.execute(sql, [id]).unwrap();
    }

    #[test]
    fn a_kill_right_after_a_step_of_the_clock_does_not_have_it_believed() {
        let state = tempfile::tempdir().unwrap();
        let db = crate::ledger::schema::open(&state.path().join(crate::ledger::FILE)).unwrap();
        let mut age = Age::of(&db, 100 * DAY).unwrap();
        age.check(100 * DAY, HOUR);
        age.store(&db).unwrap();
        // A record that the stored time leaves room for is later than that; the one of the wrong clock is not.
        ran(&db, 100 * DAY + 43_200_000);
        assert_eq!(Age::of(&db, 100 * DAY).unwrap().known_ms, 100 * DAY + 43_200_000);
        ran(&db, 140 * DAY);
        let mut age = Age::of(&db, 140 * DAY).unwrap();
        age.check(140 * DAY, HOUR);
        assert_eq!(age.ahead_of(), Some(100 * DAY));
    }

    #[test]
    fn what_it_knows_lasts_over_restarts() {
        let state = tempfile::tempdir().unwrap();
        let db = crate::ledger::schema::open(&state.path().join(crate::ledger::FILE)).unwrap();
        let mut age = Age::of(&db, 100 * DAY).unwrap();
        age.check(100 * DAY, HOUR);
        age.store(&db).unwrap();
        let mut age = Age::of(&db, 140 * DAY).unwrap();
        age.check(140 * DAY, HOUR);
        assert_eq!(age.ahead_of(), Some(100 * DAY));
        age.store(&db).unwrap();
        // Runs of that time are no evidence for it.
        ran(&db, 140 * DAY);
        let mut age = Age::of(&db, 140 * DAY).unwrap();
        age.check(140 * DAY, 12 * HOUR);
        assert_eq!(age.ahead_of(), Some(100 * DAY));
        age.store(&db).unwrap();
        let mut age = Age::of(&db, 140 * DAY).unwrap();
        age.check(140 * DAY, 12 * HOUR);
        assert_eq!(age.ahead_of(), None, "a day in all");
        age.store(&db).unwrap();
        let mut age = Age::of(&db, 141 * DAY).unwrap();
        age.check(141 * DAY, HOUR);
        assert_eq!(age.ahead_of(), None);
    }
}
