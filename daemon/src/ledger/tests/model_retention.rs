//! Random work against a map, while history is forgotten and ledgers go without a word: records that must be kept are
//! there and whole, and other records are there or gone as a whole.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
enum Step {
    Enqueue {
        function: usize,
        durable: bool,
    },
    /// That its next attempt begins; where the attempt then does not, the next ledger knows.
    Claim {
        which: usize,
        begins: bool,
    },
    Finish {
        which: usize,
        reason: Reason,
    },
    Retry(usize),
    Cancel(usize),
    Redrive(usize),
    Drop(usize),
    /// Less is kept from now on, or more.
    Retain(u32),
    /// In order, or as a kill leaves it: nothing is closed, and the next one finds the log of changes.
    Reopen {
        stopped: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let reason = prop_oneof![Just(Reason::Ok), Just(Reason::Exit(3)), Just(Reason::Interrupted)];
    prop_oneof![
        6 => (0..NAMES.len(), any::<bool>()).prop_map(|(function, durable)| Step::Enqueue { function, durable }),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(which, begins)| Step::Claim { which, begins }),
        6 => (any::<usize>(), reason).prop_map(|(which, reason)| Step::Finish { which, reason }),
        2 => any::<usize>().prop_map(Step::Retry),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => any::<usize>().prop_map(Step::Redrive),
        1 => any::<usize>().prop_map(Step::Drop),
        1 => (0..KEEP_MAX).prop_map(Step::Retain),
        1 => any::<bool>().prop_map(|stopped| Step::Reopen { stopped }),
    ]
}

/// More than any step keeps.
const KEEP_MAX: u32 = 6;
const NAMES: [&str; 2] = ["hello", "ops/backup"];

struct Known {
    accepted: Accepted,
    record: InvocationRecord,
    attempts: Vec<AttemptRecord>,
    /// Its record in the next ledger, if it was claimed and has not begun.
    unclaimed: Option<InvocationRecord>,
    is_dead: bool,
    /// It was beyond the bound once, so it may be gone whatever the bound is now.
    may_go: bool,
}

#[derive(Default)]
struct Model {
    all: BTreeMap<InvocationId, Known>,
    last_run: BTreeMap<FunctionName, InvocationId>,
    /// `keep` of every function, once it was bounded.
    keep: Option<usize>,
}

impl Model {
    fn retention(&self) -> Retention {
        let keep = self.keep.map_or(1000, |keep| u32::try_from(keep).unwrap());
        Retention {
            others: KeepOf {
                keep,
                keep_for: Duration::MAX,
                ..KeepOf::default()
            },
            ..forever()
        }
    }

    fn open(&mut self, which: usize) -> Option<&mut Known> {
        let mut open: Vec<_> = self
            .all
            .values_mut()
            .filter(|known| !known.record.state.is_final())
            .collect();
        let count = open.len();
        (count > 0).then(|| open.swap_remove(which % count))
    }

    /// Returns a dead letter that is surely there, so that it can be redriven.
    fn dead(&mut self, which: usize) -> Option<&mut Known> {
        let must = self.must();
        let mut dead: Vec<_> = self
            .all
            .values_mut()
            .filter(|known| known.is_dead && must.contains(&known.record.id))
            .collect();
        let count = dead.len();
        (count > 0).then(|| dead.swap_remove(which % count))
    }

    fn enqueue(&mut self, accepted: Accepted) -> LedgerCommand {
        let record = record(&accepted, RunState::Queued);
        let known = Known {
            accepted: accepted.clone(),
            record,
            attempts: Vec::new(),
            unclaimed: None,
            is_dead: false,
            may_go: false,
        };
        self.all.insert(accepted.id, known);
        LedgerCommand::Store(Box::new(accepted))
    }

    fn apply(&mut self, step: &Step, number: u64) -> Option<LedgerCommand> {
        match step {
            Step::Enqueue { function, durable } => {
                let accepted = Accepted {
                    durable: *durable,
                    expires_ms: None,
                    ..accepted(number + 1, NAMES[*function])
                };
                Some(self.enqueue(accepted))
            }
            Step::Claim { which, begins } => {
                let known = self.open(*which)?;
                if known.record.state == RunState::Running {
                    return None;
                }
                if known.accepted.durable {
                    known.record.next_attempt_ms = None; // it is now
                }
                // Others are recorded as running when they do.
                known.unclaimed = (known.accepted.durable && !begins).then(|| known.record.clone());
                known.record.state = RunState::Running;
                known.record.attempts += 1;
                let record = Box::new(known.record.clone());
                Some(if known.accepted.durable {
                    LedgerCommand::Claim(record)
                } else {
                    LedgerCommand::Update(record)
                })
            }
            Step::Finish { which, reason } => {
                let known = self.open(*which)?;
                let (_, ended) = ended(&known.accepted, *reason, Some(b"result"));
                Some(self.record(*which, *reason, ended))
            }
            Step::Retry(which) => {
                let known = self.open(*which)?;
                let waiting = InvocationRecord {
                    state: RunState::Waiting,
                    next_attempt_ms: Some(9),
                    ..record(&known.accepted, RunState::Waiting)
                };
                Some(self.record(*which, Reason::Transient, waiting))
            }
            Step::Cancel(which) => {
                let known = self.open(*which)?;
                known.unclaimed = None;
                known.record.state = RunState::Cancelled;
                known.record.ended_ms = Some(8);
                Some(LedgerCommand::Update(Box::new(known.record.clone())))
            }
            Step::Redrive(which) => {
                let origin = self.dead(*which)?;
                origin.is_dead = false;
                let accepted = Accepted {
                    trigger: Trigger::Redrive,
                    origin: Some(origin.record.id),
                    expires_ms: None,
                    ..accepted(number + 1, origin.record.function.as_str())
                };
                Some(self.enqueue(accepted))
            }
            Step::Drop(which) => {
                let known = self.dead(*which)?;
                known.is_dead = false;
                Some(LedgerCommand::DiscardDeadLetter(known.record.id))
            }
            Step::Retain(_) | Step::Reopen { .. } => None,
        }
    }

    /// An attempt has ended, and its invocation stands so now.
    fn record(&mut self, which: usize, reason: Reason, record: InvocationRecord) -> LedgerCommand {
        let known = self.open(which).expect("it was found before");
        let attempts = known.record.attempts + u32::from(known.record.state != RunState::Running);
        known.unclaimed = None;
        known.record = InvocationRecord { attempts, ..record };
        let attempt = attempt(&known.accepted, attempts, reason);
        known.attempts.push(attempt.clone());
        known.is_dead =
            known.accepted.durable && matches!(known.record.state, RunState::Failed | RunState::Interrupted);
        let command = LedgerCommand::Record(Box::new(attempt), Box::new(known.record.clone()));
        let (function, id) = (known.record.function.clone(), known.record.id);
        self.last_run.insert(function, id);
        command
    }

    /// Returns the invocations that are never forgotten, however the newest are counted.
    fn must(&self) -> BTreeSet<InvocationId> {
        let kept = |id: &InvocationId| !self.all[id].may_go;
        self.bounded().into_iter().filter(kept).collect()
    }

    /// Returns the invocations that are within the bound now.
    fn bounded(&self) -> BTreeSet<InvocationId> {
        let newest = NAMES.iter().flat_map(|function| {
            let is_its = move |known: &&Known| known.record.function.as_str() == *function;
            let of = self.all.values().rev().filter(is_its);
            of.take(self.keep.unwrap_or(usize::MAX)).map(|known| known.record.id)
        });
        newest.chain(self.always()).collect()
    }

    /// Notes what is beyond the bound, after each step.
    fn follow(&mut self) {
        let bounded = self.bounded();
        for (id, known) in &mut self.all {
            known.may_go |= !bounded.contains(id);
        }
    }

    fn always(&self) -> impl Iterator<Item = InvocationId> {
        let open = self.all.values().filter(|known| !known.record.state.is_final());
        open.map(|known| known.record.id).chain(self.last_run.values().copied())
    }

    /// Returns the invocations that may remain after the sweeper has checked every record.
    fn may(&self) -> BTreeSet<InvocationId> {
        let newest = NAMES.iter().flat_map(|function| {
            let is_its = move |known: &&Known| known.record.function.as_str() == *function;
            let ended = self.all.values().rev().filter(|known| known.record.state.is_final());
            ended
                .filter(is_its)
                .take(self.keep.unwrap_or(usize::MAX))
                .map(|known| known.record.id)
        });
        newest.chain(self.always()).collect()
    }

    fn check(&mut self, ledger: &Ledger) {
        ledger.opened.writer.flush(LIMIT);
        let filter = filtered(|filter| filter.limit = Some(1000));
        let there: BTreeSet<_> = ledger
            .list(filter.clone())
            .records
            .iter()
            .map(|record| record.id)
            .collect();
        let must = self.must();
        assert!(must.is_subset(&there), "gone: {:?}", must.difference(&there));
        // Looked at one by one: they may go meanwhile.
        self.all.retain(|id, known| match ledger.get(*id) {
            Some(found) => {
                assert_eq!(found, (known.record.clone(), known.attempts.clone()));
                true
            }
            None => {
                assert!(!must.contains(id));
                false
            }
        });
        let dead = wait(ledger.opened.reader.dead_letters(filter)).unwrap().letters;
        let dead: BTreeSet<_> = dead.iter().map(|letter| letter.invocation.id).collect();
        let known = self.all.values().filter(|known| known.is_dead);
        let known: BTreeSet<_> = known.map(|known| known.record.id).collect();
        assert!(dead.is_subset(&known), "{dead:?} of {known:?}");
        assert!(
            known.difference(&dead).all(|id| !must.contains(id)),
            "{dead:?} of {known:?}"
        );
    }

    /// Another ledger is opened.
    fn reopened(&mut self) {
        for known in self.all.values_mut() {
            if let Some(before) = known.unclaimed.take() {
                known.record = before;
            }
        }
    }

    fn check_restored(&self, restored: &Restored) {
        let open = self.all.values().filter(|known| !known.record.state.is_final());
        let open: Vec<_> = open.map(|known| known.record.clone()).collect();
        let found: Vec<_> = restored.unfinished.iter().map(|found| found.record.clone()).collect();
        assert_eq!(found, open);
    }

    /// After a change of the bound, the records above it are deleted at once. An unchanged bound is checked only when
    /// more invocations have ended.
    fn retain(&mut self, ledger: &Ledger, keep: u32) {
        let before = self.keep.replace(usize::try_from(keep).unwrap());
        ledger.opened.writer.flush(LIMIT);
        ledger.opened.writer.retain(self.retention());
        self.follow();
        let begun = crate::clock::monotonic();
        loop {
            self.check(ledger);
            let may = self.may();
            if self.keep == before || self.all.keys().all(|id| may.contains(id)) {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "{:?} beyond {may:?}", self.all.keys());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_must_be_kept_is_kept_and_the_rest_goes_whole(steps in proptest::collection::vec(step(), 1..80)) {
        let mut state = directory();
        let mut model = Model::default();
        let mut ledger = Ledger::open_with(state.path(), model.retention());
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Retain(keep) => {
                    model.retain(&ledger, *keep);
                }
                Step::Reopen { stopped } => {
                    ledger.opened.writer.flush(LIMIT);
                    if *stopped {
                        ledger.stop();
                        ledger = Ledger::open_with(state.path(), model.retention());
                    } else {
                        let (copy, next) = killed_with(state.path(), model.retention());
                        std::mem::replace(&mut ledger, next).stop();
                        state = copy;
                    }
                    model.reopened();
                    model.check_restored(&ledger.opened.restored);
                    model.check(&ledger);
                }
                step => {
                    if let Some(command) = model.apply(step, number as u64) {
                        if let LedgerCommand::Claim(record) | LedgerCommand::Update(record) = &command
                            && record.state == RunState::Running
                            && model.all[&record.id].unclaimed.is_none()
                        {
                            ledger.begins(record);
                        }
                        ledger.submit(command);
                    }
                    model.follow();
                }
            }
        }
        model.check(&ledger);
        ledger.stop();
        let ledger = Ledger::open_with(state.path(), model.retention());
        model.reopened();
        model.check_restored(&ledger.opened.restored);
        model.check(&ledger);
        model.retain(&ledger, KEEP_MAX);
        ledger.stop();
    }
}

/// A model of the rules by age and for room: it says which records of a random history, on a clock of its own, remain.
mod by_age_and_for_room {
    use super::*;
    use crate::ledger::sweeper::Sweeper;
    use crate::ledger::tests::forgetting::{forget_all, set_both};
    use fnd_wire::ids::InvocationId;
    use std::sync::atomic::{AtomicU64, Ordering};

    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;

    #[derive(Debug, Clone)]
    enum Step {
        /// One more has ended, which is one of these.
        Add {
            function: usize,
            is_dead: bool,
            has_key: bool,
            is_open: bool,
        },
        Pass {
            hours: u64,
        },
        /// The clock is set, forward or back.
        Jump {
            days: i64,
        },
        Restart,
        Sweep {
            low: bool,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        let add = (0..NAMES.len(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.1));
        let add = add.prop_map(|(function, is_dead, has_key, is_open)| Step::Add {
            function,
            is_dead,
            has_key,
            is_open,
        });
        prop_oneof![
            8 => add,
            4 => (1..10_u64).prop_map(|hours| Step::Pass { hours }),
            1 => prop_oneof![Just(40), Just(-40), Just(400)].prop_map(|days| Step::Jump { days }),
            1 => Just(Step::Restart),
            3 => any::<bool>().prop_map(|low| Step::Sweep { low }),
        ]
    }

    #[derive(Debug)]
    struct One {
        function: usize,
        at: u64,
        is_dead: bool,
        has_key: bool,
        is_open: bool,
    }

    /// The newest time that was believed, and for how long another one has not been.
    #[derive(Default)]
    struct Believed {
        known: u64,
        ahead: Option<u64>,
        seen: u64,
    }

    impl Believed {
        fn check(&mut self, now: u64, passed: u64) {
            self.ahead = (now > self.known + DAY).then(|| self.ahead.map_or(0, |ahead| ahead + passed));
            if self.ahead.is_none_or(|ahead| ahead >= DAY) {
                (self.ahead, self.known) = (None, self.known.max(now));
            }
        }
    }

    fn store(db: &rusqlite::Connection, one: &One) {
        let state = match one {
            One { is_open: true, .. } => "running",
            One { is_dead: true, .. } => "failed",
            One { .. } => "succeeded",
        };
        let sql = "INSERT INTO invocation (id, function, trigger, state, durable, accepted_ms, attempts, polls, message, dead, key)
            VALUES (?1, ?2, 'manual', ?3, 1, ?4, 1, 0, '', ?5, ?6)";
        let id = (u128::from(one.at) << 80).to_be_bytes();
        let dead = one.is_dead.then_some(1);
        let key = one.has_key.then(|| one.at.to_string());
        db.execute(
            sql,
            rusqlite::params![id, NAMES[one.function], state, one.at, dead, key],
        )
        .unwrap();
    }

    fn there(db: &rusqlite::Connection) -> BTreeSet<u64> {
        let mut statement = db.prepare("SELECT accepted_ms FROM invocation").unwrap();
        let all = statement.query_map([], |row| row.get(0)).unwrap();
        all.map(Result::unwrap).collect()
    }

    fn stored(db: &rusqlite::Connection, key: &str) -> Option<u64> {
        let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?1";
        db.query_row(sql, [key], |row| row.get(0)).ok()
    }

    const KEEP: usize = 12;

    fn retention() -> Retention {
        Retention {
            others: KeepOf {
                keep: u32::try_from(KEEP).unwrap(),
                ..KeepOf::default()
            },
            ..Retention::default()
        }
    }

    fn stays(all: &[One], one: &One, believed: &Believed, now: u64, low: bool) -> bool {
        let newer = all
            .iter()
            .filter(|other| other.function == one.function && other.at > one.at);
        let too_many = newer.count() >= KEEP;
        let too_old = believed.ahead.is_none() && one.at < now.saturating_sub(30 * DAY);
        let judged = if believed.ahead.is_some() { believed.known } else { now };
        let spared = one.is_dead || one.has_key && one.at >= judged.saturating_sub(DAY);
        let for_room = low && !spared && one.at < judged.saturating_sub(7 * DAY);
        one.is_open || !(too_many || too_old || for_room)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_goes_is_what_the_rules_say(steps in proptest::collection::vec(step(), 1..120)) {
            let state = directory();
            let db = crate::ledger::schema::open(&state.path().join(FILE)).unwrap();
            let begun = 20_000 * DAY;
            // Both clocks go together but for jumps, of which only the wall's knows.
            let (wall, mono) = (Arc::new(AtomicU64::new(begun)), Arc::new(AtomicU64::new(begun)));
            let begin = || Sweeper::with_clock(&db, retention(), set_both(&wall, &mono)).unwrap();
            let mut believed = Believed { known: begun, ahead: None, seen: begun };
            let mut sweeper = begin();
            let mut all: Vec<One> = Vec::new();
            let mut last = 0;
            let pass = |hours: u64| {
                wall.fetch_add(hours * HOUR, Ordering::Relaxed);
                mono.fetch_add(hours * HOUR, Ordering::Relaxed);
            };
            for step in steps {
                match step {
                    Step::Add { function, is_dead, has_key, is_open } => {
                        // Ids never go back.
                        last = wall.load(Ordering::Relaxed).max(last + 1);
                        let one = One { function, at: last, is_dead: is_dead && !is_open, has_key, is_open };
                        store(&db, &one);
                        if !is_open {
                            sweeper.ended(&name(NAMES[function]), InvocationId(u128::from(one.at) << 80));
                        }
                        all.push(one);
                    }
                    Step::Pass { hours } => pass(hours),
                    Step::Jump { days } => {
                        let jump = days.unsigned_abs() * DAY;
                        if days < 0 {
                            wall.fetch_sub(jump, Ordering::Relaxed);
                        } else {
                            wall.fetch_add(jump, Ordering::Relaxed);
                        }
                    }
                    Step::Restart => {
                        let known = stored(&db, "clock_known");
                        believed.known = known.unwrap_or(begun);
                        believed.ahead = stored(&db, "clock_ahead");
                        // A run that is far ahead of the stored time is no proof of its own time.
                        if believed.ahead.is_none() && known.is_none_or(|known| last <= known + DAY) {
                            believed.known = believed.known.max(last);
                        }
                        believed.check(wall.load(Ordering::Relaxed), 0);
                        believed.seen = mono.load(Ordering::Relaxed);
                        sweeper = begin();
                    }
                    Step::Sweep { low } => {
                        // After an hour everything is looked at.
                        pass(1);
                        let (now, mono) = (wall.load(Ordering::Relaxed), mono.load(Ordering::Relaxed));
                        believed.check(now, mono - believed.seen);
                        believed.seen = mono;
                        forget_all(&db, &mut sweeper, low);
                        let expected: BTreeSet<_> =
                            all.iter().filter(|one| stays(&all, one, &believed, now, low)).map(|one| one.at).collect();
                        prop_assert_eq!(there(&db), expected.clone());
                        all.retain(|one| expected.contains(&one.at));
                    }
                }
            }
        }
    }
}
