//! Random work and restarts against a map.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
enum Step {
    Store {
        durable: bool,
        load: bool,
        payload: usize,
    },
    Update {
        which: usize,
        state: RunState,
    },
    End {
        which: usize,
        reason: Reason,
        result: Option<usize>,
    },
    Redrive {
        which: usize,
    },
    DiscardDeadLetter {
        which: usize,
    },
    Enabled(bool),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let sizes = prop_oneof![Just(0_usize), Just(10), Just(70_000)];
    let state = prop_oneof![
        Just(RunState::Running),
        Just(RunState::Waiting),
        Just(RunState::Polling),
        Just(RunState::Cancelled)
    ];
    let reason = prop_oneof![
        Just(Reason::Ok),
        Just(Reason::Exit(3)),
        Just(Reason::ExecuteAgain),
        Just(Reason::Signal(34))
    ];
    prop_oneof![
        4 => (any::<bool>(), any::<bool>(), sizes.clone())
            .prop_map(|(durable, load, payload)| Step::Store { durable, load, payload }),
        3 => (any::<usize>(), state).prop_map(|(which, state)| Step::Update { which, state }),
        4 => (any::<usize>(), reason, proptest::option::of(sizes))
            .prop_map(|(which, reason, result)| Step::End { which, reason, result }),
        1 => any::<usize>().prop_map(|which| Step::Redrive { which }),
        1 => any::<usize>().prop_map(|which| Step::DiscardDeadLetter { which }),
        1 => any::<bool>().prop_map(Step::Enabled),
        1 => Just(Step::Restart),
    ]
}

#[derive(Default)]
struct Model {
    invocations: BTreeMap<InvocationId, (Accepted, InvocationRecord, Vec<AttemptRecord>)>,
    loaded: usize,
    runs: u64,
    failures: u64,
    enabled: bool,
    dead: BTreeSet<InvocationId>,
}

impl Model {
    fn pick_dead(&mut self, which: usize) -> Option<InvocationId> {
        let id = *self.dead.iter().nth(which % self.dead.len().max(1))?;
        self.dead.remove(&id);
        Some(id)
    }

    /// Returns an unfinished invocation.
    fn pick(&mut self, which: usize) -> Option<&mut (Accepted, InvocationRecord, Vec<AttemptRecord>)> {
        let mut open: Vec<_> = self
            .invocations
            .values_mut()
            .filter(|(_, record, _)| !record.state.is_final())
            .collect();
        let count = open.len();
        (count > 0).then(|| open.swap_remove(which % count))
    }

    fn apply(&mut self, step: &Step, number: u64) -> Option<LedgerCommand> {
        match step {
            Step::Store { durable, load, payload } => {
                let mut accepted = accepted(number + 1, "hello");
                accepted.durable = *durable;
                accepted.load_key = load.then(|| {
                    let mut key = [0; 32];
                    key[..8].copy_from_slice(&number.to_le_bytes());
                    Version(key)
                });
                accepted.payload.data = Some(vec![1; *payload].into());
                accepted.expires_ms = None;
                self.loaded += usize::from(*load);
                let stored = (accepted.clone(), record(&accepted, RunState::Queued), Vec::new());
                self.invocations.insert(accepted.id, stored);
                Some(LedgerCommand::Store(Box::new(accepted)))
            }
            Step::Update { which, state } => {
                let (_, record, _) = self.pick(*which)?;
                record.attempts += u32::from(*state == RunState::Running && record.state != RunState::Running);
                record.state = *state;
                record.message = format!("step {number}");
                let record = record.clone();
                self.runs += u64::from(record.has_run());
                self.failures += u64::from(record.has_run() && record.state.is_failure());
                Some(LedgerCommand::Update(Box::new(record)))
            }
            Step::End { which, reason, result } => {
                let (accepted, record, attempts) = self.pick(*which)?;
                record.attempts += u32::from(record.state != RunState::Running);
                record.reason = Some(*reason);
                record.state = if number.is_multiple_of(3) {
                    RunState::Polling
                } else {
                    reason.final_state()
                };
                record.result = result.map(|size| RunResult {
                    response: None,
                    json: size == 10,
                    data: vec![2; size].into(),
                    kept: None,
                });
                let attempt = attempt(accepted, record.attempts, *reason);
                attempts.push(attempt.clone());
                let dead = (accepted.durable && record.state == RunState::Failed).then_some(record.id);
                let command_state = record.state;
                let command = LedgerCommand::Record(Box::new(attempt), Box::new(record.clone()));
                self.dead.extend(dead);
                self.runs += u64::from(command_state.is_final());
                self.failures += u64::from(command_state.is_failure());
                Some(command)
            }
            Step::Redrive { which } => {
                let origin = self.pick_dead(*which)?;
                let mut accepted = accepted(number + 1, "hello");
                accepted.trigger = Trigger::Redrive;
                accepted.origin = Some(origin);
                accepted.expires_ms = None;
                let stored = (accepted.clone(), record(&accepted, RunState::Queued), Vec::new());
                self.invocations.insert(accepted.id, stored);
                Some(LedgerCommand::Store(Box::new(accepted)))
            }
            Step::DiscardDeadLetter { which } => self.pick_dead(*which).map(LedgerCommand::DiscardDeadLetter),
            Step::Enabled(enabled) => {
                self.enabled = *enabled;
                let by = DisabledBy { uid: 7, since_ms: 8 };
                Some(LedgerCommand::StoreEnabled {
                    function: name("hello"),
                    disabled: (!*enabled).then_some(by),
                })
            }
            Step::Restart => None,
        }
    }

    fn check_restored(&self, restored: &Restored) {
        let open: Vec<_> = self
            .invocations
            .values()
            .filter(|(_, record, _)| !record.state.is_final())
            .collect();
        assert_eq!(restored.unfinished.len(), open.len());
        for (found, (accepted, record, _)) in restored.unfinished.iter().zip(open) {
            assert_eq!(found.record, *record);
            assert_eq!(
                found.accepted,
                Accepted {
                    load_key: None,
                    ..accepted.clone()
                }
            );
        }
        assert_eq!(restored.loaded.len(), self.loaded);
        let counts = restored
            .counts
            .first()
            .map_or((0, 0), |(_, runs, failures)| (*runs, *failures));
        assert_eq!(counts, (self.runs, self.failures));
        assert_eq!(restored.disabled.is_empty(), self.enabled);
    }

    fn check_history(&self, ledger: &Ledger) {
        let page = ledger.list(filtered(|filter| filter.limit = Some(1000)));
        let newest_first: Vec<_> = self
            .invocations
            .values()
            .rev()
            .map(|(_, record, _)| record.id)
            .collect();
        assert_eq!(
            page.records.iter().map(|record| record.id).collect::<Vec<_>>(),
            newest_first
        );
        let dead = wait(ledger.opened.reader.dead_letters(unfiltered())).unwrap();
        let dead: BTreeSet<_> = dead.letters.iter().map(|letter| letter.invocation.id).collect();
        assert_eq!(dead, self.dead);
        assert_eq!(ledger.opened.writer.dead_letters_of(&name("hello")), dead.len() as u64);
        for (id, (_, record, attempts)) in &self.invocations {
            assert_eq!(ledger.get(*id), Some((record.clone(), attempts.clone())));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ledger_is_what_was_submitted(steps in proptest::collection::vec(step(), 1..60)) {
        let state = directory();
        let mut ledger = Ledger::open(state.path());
        let mut model = Model { enabled: true, ..Model::default() };
        for (number, step) in steps.iter().enumerate() {
            match model.apply(step, number as u64) {
                Some(command) => {
                    if let LedgerCommand::Update(record) = &command
                        && record.state == RunState::Running
                    {
                        // A running invocation has begun.
                        ledger.begins(record);
                    }
                    ledger.submit(command);
                }
                None if matches!(step, Step::Restart) => {
                    ledger.stop();
                    ledger = Ledger::open(state.path());
                    model.check_restored(&ledger.opened.restored);
                }
                None => {}
            }
        }
        model.check_history(&ledger);
        ledger.stop();
        let ledger = Ledger::open(state.path());
        model.check_restored(&ledger.opened.restored);
        model.check_history(&ledger);
    }
}
