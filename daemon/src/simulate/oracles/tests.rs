//! Each oracle accepts a history that is right, and finds the fault in one that is wrong.

use super::*;
use crate::simulate::facts::{Began, Commit, Death, StartedWorker};
use crate::simulate::people::{ActAnswer, AnsweredAct, PersonAct};
use crate::simulate::rows::InvocationRow;
use crate::simulate::spawner::contents::{Fate, Manner, SourceContent};
use fnd_core::records::cause::{Cause, CauseSlots, HookCause};
use fnd_core::records::outcome::{Reason, RunState, Skip, Trigger};
use fnd_core::records::{InvocationRecord, RunResult};
use fnd_core::run::Answer;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Lease, Release, Request, Spawn};
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, WorkerId};
use std::time::Duration;

/// A script without further wishes.
const PLAIN: SourceContent = SourceContent(0);

const ID: InvocationId = InvocationId(7);
const FIRST: WorkerId = WorkerId(1);
const SECOND: WorkerId = WorkerId(2);

fn function() -> FunctionName {
    FunctionName::new("f1").unwrap()
}

fn at(seconds: u64) -> Now {
    Now {
        mono: Duration::from_secs(seconds),
        unix_ms: seconds * 1000,
    }
}

fn began(worker: WorkerId, attempt: u32) -> Fact {
    Fact::Began(Began {
        worker,
        function: function(),
        version: PLAIN.version(0),
        invocation: ID,
        attempt,
        is_call: false,
    })
}

fn told(act: PersonAct, id: Option<InvocationId>, heard: ActAnswer) -> Fact {
    Fact::Answered(AnsweredAct {
        number: 1,
        act,
        id,
        heard,
    })
}

fn queued() -> Fact {
    told(PersonAct::Reload, None, ActAnswer::Answer(Answer::Queued(ID)))
}

fn record(state: RunState) -> InvocationRecord {
    InvocationRecord {
        id: ID,
        function: function(),
        trigger: Trigger::Manual,
        durable: false,
        state,
        accepted_ms: 0,
        started_ms: None,
        ended_ms: None,
        attempts: 1,
        polls: 0,
        reason: Some(Reason::Ok),
        message: String::new(),
        exhausted: None,
        next_attempt_ms: None,
        version: None,
        result: None,
        caller: None,
    }
}

fn finished(record: InvocationRecord) -> Fact {
    let answer = Answer::Finished(Box::new(record));
    told(PersonAct::Reload, None, ActAnswer::Answer(answer))
}

fn row(trigger: Trigger, state: RunState, cause: Option<Cause>) -> InvocationRow {
    InvocationRow {
        function: function(),
        trigger,
        state,
        attempts: 1,
        reason: Some(Reason::Ok),
        result: None,
        cause,
        is_dead_letter: false,
        durable: true,
    }
}

fn rows(all: impl IntoIterator<Item = (u128, InvocationRow)>) -> LedgerRows {
    let invocations = all.into_iter().map(|(id, row)| (InvocationId(id), row)).collect();
    LedgerRows {
        invocations,
        ..LedgerRows::default()
    }
}

fn ended(state: RunState) -> LedgerRows {
    rows([(ID.0, row(Trigger::Manual, state, None))])
}

/// Returns a script with this manner.
fn script(manner: Manner) -> SourceContent {
    let is_wanted = |content: &SourceContent| content.manner() == manner && content.fate() == Fate::Script;
    (0..=u8::MAX)
        .map(SourceContent)
        .find(is_wanted)
        .expect("scripts have all manners but those of handlers")
}

/// Returns the plan of a world in which one function has one content.
fn plan(content: SourceContent) -> WorldPlan {
    WorldPlan {
        acts: vec![(0, PersonAct::Save(1, content))],
        ..WorldPlan::of(1)
    }
}

/// Shows facts to an oracle, one in each second. Returns the number of the oracle that finds a fault.
fn see(oracle: &mut dyn Oracle, facts: impl IntoIterator<Item = Fact>) -> String {
    let mut facts = facts.into_iter().zip(0..);
    number(facts.try_for_each(|(fact, seconds)| oracle.see(at(seconds), &fact)))
}

fn number(verdict: PromiseCheck) -> String {
    verdict.map_or_else(
        |broken| broken.split(':').next().unwrap_or_default().to_owned(),
        |()| "fine".to_owned(),
    )
}

#[test]
fn an_attempt_begins_once_and_after_the_one_before() {
    let attempts = |facts: Vec<Fact>| see(&mut attempts::AttemptsOracle::default(), facts);
    assert_eq!(
        attempts(vec![began(FIRST, 1), Fact::Over(ID, 1), began(SECOND, 2)]),
        "fine"
    );
    assert_eq!(
        attempts(vec![began(FIRST, 1), Fact::Gone(FIRST), began(SECOND, 3)]),
        "fine"
    );
    assert_eq!(
        attempts(vec![began(FIRST, 1), Fact::Gone(FIRST), began(SECOND, 1)]),
        "O1"
    );
    assert_eq!(attempts(vec![began(FIRST, 1), began(SECOND, 2)]), "O1");
    assert_eq!(
        attempts(vec![began(FIRST, 1), Fact::Gone(SECOND), began(SECOND, 2)]),
        "O1"
    );
}

#[test]
fn accepted_work_is_in_the_ledger_and_stays_there() {
    assert_eq!(number(answers::is_stored(&queued(), |id| id == ID)), "fine");
    assert_eq!(number(answers::is_stored(&queued(), |_| false)), "O4");
    let mut answers = answers::AnswersOracle::default();
    assert_eq!(see(&mut answers, [queued()]), "fine");
    assert_eq!(
        number(answers.at_death(Death::Killed, &ended(RunState::Succeeded))),
        "fine"
    );
    assert_eq!(
        number(answers.at_death(Death::Killed, &ended(RunState::Failed))),
        "O2",
        "an end does not change"
    );
    assert_eq!(number(answers.at_death(Death::Killed, &rows([]))), "O2");
}

#[test]
fn an_end_that_was_told_is_the_end_unless_the_power_went_at_once() {
    let commit = Commit {
        is_done: true,
        is_denied: false,
        is_synced: true,
        is_complete: true,
    };
    for (facts, death, rows_after, expected) in [
        (vec![], Death::Killed, ended(RunState::Succeeded), "fine"),
        (vec![], Death::Killed, ended(RunState::Interrupted), "O3"),
        (vec![], Death::Killed, rows([]), "O2"),
        (vec![], Death::PowerCut, rows([]), "fine"),
        (vec![Fact::Committed(commit)], Death::PowerCut, rows([]), "fine"),
        (
            vec![Fact::Life(1), Fact::Committed(commit)],
            Death::PowerCut,
            rows([]),
            "O2",
        ),
    ] {
        let mut answers = answers::AnswersOracle::default();
        let facts = [finished(record(RunState::Succeeded))].into_iter().chain(facts);
        assert_eq!(see(&mut answers, facts), "fine");
        let found = answers
            .at_death(death, &rows_after)
            .and_then(|()| answers.at_end(&rows_after));
        assert_eq!(number(found), expected);
    }
}

/// Its caller has waited for it by its key.
#[test]
fn a_kill_may_not_lose_the_end_of_durable_work_that_was_told() {
    for (death, expected) in [(Death::Killed, "O2"), (Death::PowerCut, "fine")] {
        let end = InvocationRecord {
            durable: true,
            attempts: 0,
            ..record(RunState::Skipped)
        };
        let mut answers = answers::AnswersOracle::default();
        assert_eq!(see(&mut answers, [finished(end)]), "fine");
        let found = answers
            .at_death(death, &rows([]))
            .and_then(|()| answers.at_end(&rows([])));
        assert_eq!(number(found), expected);
    }
}

#[test]
fn a_kill_may_lose_the_result_of_a_call_and_not_that_of_a_script() {
    let begins = |attempt, is_call| {
        Fact::Began(Began {
            worker: FIRST,
            function: function(),
            version: PLAIN.version(0),
            invocation: ID,
            attempt,
            is_call,
        })
    };
    // The last attempt leaves the result: in the spawner, if it is that of a script.
    for (are_calls, has_spawner_ended, expected) in [
        ([false, false], false, "O3"),
        ([true, false], false, "O3"),
        ([true, true], false, "fine"),
        ([false, true], false, "fine"),
        ([false, false], true, "fine"),
    ] {
        let end = InvocationRecord {
            attempts: 2,
            result: Some(RunResult {
                json: true,
                data: vec![b'1'].into(),
                response: None,
                kept: None,
            }),
            ..record(RunState::Succeeded)
        };
        let without_result = InvocationRow {
            attempts: 2,
            ..row(Trigger::Manual, RunState::Succeeded, None)
        };
        let rows_after = rows([(ID.0, without_result)]);
        let mut answers = answers::AnswersOracle::default();
        let facts = [begins(1, are_calls[0]), begins(2, are_calls[1]), finished(end)];
        let ended = has_spawner_ended.then_some(Fact::SpawnerEnded);
        assert_eq!(see(&mut answers, facts.into_iter().chain(ended)), "fine");
        let found = answers
            .at_death(Death::Killed, &rows_after)
            .and_then(|()| answers.at_end(&rows_after));
        assert_eq!(number(found), expected, "{are_calls:?}");
    }
}

fn spawn(worker: WorkerId) -> Fact {
    Fact::Requested(
        1,
        Request::Spawn(Spawn {
            worker,
            function: FunctionId(1),
            version: PLAIN.version(0),
            invocation: ID,
            environment: vec![],
            input: false,
            previous: false,
            lasts_ms: 0,
            record: Bytes(vec![]),
        }),
    )
}

fn started(worker: WorkerId, function: &str, content: SourceContent) -> Fact {
    Fact::Started(StartedWorker {
        worker,
        function: FunctionName::new(function).unwrap(),
        version: content.version(0),
    })
}

#[test]
fn requests_name_workers_that_were_asked_for() {
    let requested = |request| Fact::Requested(2, request);
    let release = || {
        requested(Request::Release(Release {
            function: FunctionId(1),
            invocation: ID,
        }))
    };
    let acknowledge = || requested(Request::Acknowledge(FIRST));
    let frames = |facts: Vec<Fact>| see(&mut frames::FramesOracle::default(), facts);
    let runs = || vec![spawn(FIRST), started(FIRST, "f1", PLAIN)];
    let after = |facts: Vec<Fact>| frames(runs().into_iter().chain(facts).collect());
    assert_eq!(
        after(vec![Fact::Gone(FIRST), acknowledge(), release(), spawn(SECOND)]),
        "fine"
    );
    assert_eq!(after(vec![acknowledge()]), "O14");
    assert_eq!(after(vec![release()]), "O14");
    assert_eq!(after(vec![spawn(FIRST)]), "O14");
    assert_eq!(after(vec![Fact::SpawnerEnded, spawn(FIRST)]), "fine");
    assert_eq!(after(vec![requested(Request::Kill(SECOND))]), "O14");
    let lease = |worker| requested(Request::Lease(Lease { worker, until_ms: None }));
    assert_eq!(after(vec![lease(FIRST)]), "fine");
    assert_eq!(after(vec![lease(SECOND)]), "O14");
    assert_eq!(after(vec![Fact::Gone(FIRST), acknowledge(), lease(FIRST)]), "O14");
}

#[test]
fn the_node_has_a_number_of_workers_and_a_size() {
    let budget = |facts: Vec<Fact>| see(&mut budget::BudgetOracle::default(), facts);
    let large = script(Manner::Large);
    let two = || vec![started(FIRST, "f1", large), started(SECOND, "f3", large)];
    assert_eq!(budget(two()), "fine");
    assert_eq!(
        budget(two().into_iter().chain([started(WorkerId(3), "f2", PLAIN)]).collect()),
        "O9"
    );
    let gone = [Fact::Gone(FIRST), started(WorkerId(3), "f2", PLAIN)];
    assert_eq!(budget(two().into_iter().chain(gone).collect()), "fine");
    assert_eq!(
        budget((1..=13).map(|n| started(WorkerId(n), "f1", PLAIN)).collect()),
        "O9"
    );
    let single = script(Manner::Single);
    assert_eq!(
        budget(vec![started(FIRST, "f1", single), started(SECOND, "f1", single)]),
        "O9"
    );
}

#[test]
fn what_a_person_has_stopped_does_not_begin() {
    let stopped = |facts: Vec<Fact>| see(&mut stopped_work::StoppedWorkOracle::default(), facts);
    let done = || ActAnswer::Answer(Answer::Done);
    let cancelled = || told(PersonAct::Cancel(0), Some(ID), done());
    assert_eq!(stopped(vec![began(FIRST, 1), cancelled()]), "fine");
    assert_eq!(stopped(vec![cancelled(), Fact::Life(2), began(FIRST, 1)]), "O15");
    let disabled = || told(PersonAct::SetEnabled(1, false), None, done());
    assert_eq!(stopped(vec![disabled(), Fact::Life(2), began(FIRST, 1)]), "O15");
    assert_eq!(stopped(vec![disabled(), began(FIRST, 1)]), "fine", "it was on its way");
    assert_eq!(stopped(vec![cancelled(), began(FIRST, 1)]), "fine", "it was on its way");
    assert_eq!(stopped(vec![cancelled(), began(FIRST, 1), began(FIRST, 2)]), "O15");
    // A full disk refuses to store the cancellation of work that has begun.
    let refused = Commit {
        is_done: false,
        is_denied: true,
        is_synced: false,
        is_complete: false,
    };
    let asked = || Fact::Asked(1, PersonAct::Cancel(0));
    let next = || [Fact::Life(2), began(FIRST, 2)];
    let unstored = |ends: Vec<Fact>| {
        let cancels = [asked(), Fact::Committed(refused), cancelled()];
        stopped(cancels.into_iter().chain(ends).chain(next()).collect())
    };
    assert_eq!(unstored(vec![Fact::Death(Death::Killed)]), "O15");
    assert_eq!(unstored(vec![Fact::Death(Death::PowerCut)]), "fine");
    assert_eq!(unstored(vec![Fact::SpawnerEnded, Fact::Death(Death::Killed)]), "fine");
    let stored = [asked(), cancelled(), Fact::Death(Death::PowerCut)];
    assert_eq!(stopped(stored.into_iter().chain(next()).collect()), "O15");
    let enabled = Fact::Asked(2, PersonAct::SetEnabled(1, true));
    assert_eq!(stopped(vec![disabled(), enabled, began(FIRST, 1)]), "fine");
    let drained = told(PersonAct::Drain, None, ActAnswer::Changed(true));
    assert_eq!(stopped(vec![drained, began(FIRST, 1)]), "O15");
}

#[test]
fn an_end_has_its_hooks_or_will_have_them() {
    let plan = plan(script(Manner::Hooked));
    let mut hooks = hooks::HooksOracle::new(&plan);
    let end = || (1, row(Trigger::Manual, RunState::Succeeded, None));
    let cause = Cause::Hook(HookCause {
        invocation: InvocationId(1),
        function: function(),
        depth: 1,
        marks: false,
    });
    let mut call = row(Trigger::Hook, RunState::Queued, Some(cause));
    call.function = FunctionName::new("after").unwrap();
    assert_eq!(
        number(hooks.at_death(Death::Killed, &rows([end(), (2, call.clone())]))),
        "fine"
    );
    assert_eq!(number(hooks.at_death(Death::Killed, &rows([end()]))), "O6");
    assert_eq!(
        number(hooks.at_death(Death::Killed, &rows([end(), (2, call.clone()), (3, call)]))),
        "O6"
    );
    let later = LedgerRows {
        unfollowed: [InvocationId(1)].into(),
        ..rows([end()])
    };
    assert_eq!(number(hooks.at_death(Death::Killed, &later)), "fine");
}

/// Slots with a distance of 30 seconds.
fn slot(first: u64, last: u64) -> InvocationRow {
    let cause = CauseSlots::new(first * 1000, last * 1000, (last - first) / 30 + 1);
    row(Trigger::Schedule, RunState::Succeeded, Some(Cause::Schedule(cause)))
}

#[test]
fn each_slot_is_one_run_and_none_is_left_out() {
    let plan = plan(script(Manner::Scheduled));
    let check = |slots: Vec<InvocationRow>| number(slots::SlotsOracle::new(&plan).at_end(&rows((1..).zip(slots))));
    assert_eq!(check(vec![slot(30, 30), slot(60, 120), slot(150, 150)]), "fine");
    assert_eq!(check(vec![slot(30, 30), slot(30, 30)]), "O5");
    assert_eq!(check(vec![slot(30, 60), slot(60, 60)]), "O5");
    assert_eq!(check(vec![slot(30, 30), slot(90, 90)]), "O5");
    let mut clock = slots::SlotsOracle::new(&plan);
    assert_eq!(see(&mut clock, [Fact::ClockStepped(9)]), "fine");
    let left_out = rows((1..).zip([slot(30, 30), slot(90, 90)]));
    assert_eq!(number(clock.at_end(&left_out)), "fine", "somebody has set the clock");
}

#[test]
fn a_schedule_begins_anew_once_if_the_clock_went_back_by_more_than_a_day() {
    const DAY: u64 = 86_400;
    let plan = plan(script(Manner::Scheduled));
    // The clock shows 0 after it was set.
    let set_back = |seconds: u64, slots: Vec<InvocationRow>| {
        let mut oracle = slots::SlotsOracle::new(&plan);
        let step_ms = i64::try_from(seconds * 1000).unwrap();
        assert_eq!(see(&mut oracle, [Fact::ClockStepped(-step_ms)]), "fine");
        number(oracle.at_end(&rows((1..).zip(slots))))
    };
    let before = || slot(30, 2 * DAY);
    assert_eq!(set_back(2 * DAY, vec![before(), slot(30, 30), slot(60, 60)]), "fine");
    assert_eq!(set_back(2 * DAY, vec![before(), slot(30, 30), slot(30, 30)]), "O5");
    assert_eq!(set_back(2 * DAY, vec![before(), slot(2 * DAY, 2 * DAY)]), "O5");
    assert_eq!(set_back(DAY, vec![slot(30, DAY), slot(30, 30)]), "O5");
    // The clock is set right again.
    let right = |first| vec![before(), slot(30, 30), slot(first, 2 * DAY + 60)];
    assert_eq!(set_back(2 * DAY, right(2 * DAY + 30)), "fine");
    assert_eq!(set_back(2 * DAY, right(60)), "O5");
}

#[test]
fn a_canary_gets_its_share_and_no_more() {
    let share = |own: &[bool]| {
        let mut shares = share::ShareCounts::default();
        let canary = SourceContent(7).version(0);
        number(own.iter().try_for_each(|own| {
            let version = if *own { canary } else { SourceContent(1).version(0) };
            let began = Began {
                worker: FIRST,
                function: function(),
                version,
                invocation: ID,
                attempt: 1,
                is_call: true,
            };
            shares.count(&began, Some((canary, 50)))
        }))
    };
    assert_eq!(share(&[false, true, false, true, true, false]), "fine");
    assert_eq!(share(&[false, false, false]), "fine", "it has no free worker");
    assert_eq!(share(&[false, true, true, true, true]), "O8");
}

#[test]
fn numbers_are_right_and_nothing_is_left() {
    let mut dead = row(Trigger::Manual, RunState::Failed, None);
    dead.is_dead_letter = true;
    let counted = |count| LedgerRows {
        dead_letters: [(function(), count)].into(),
        ..rows([(1, dead.clone())])
    };
    assert_eq!(number(numbers::NumbersOracle.at_end(&counted(1))), "fine");
    assert_eq!(number(numbers::NumbersOracle.at_end(&counted(2))), "O10");
    let defect = Fact::Defect("a defect of fnd".to_owned());
    assert_eq!(see(&mut numbers::NumbersOracle, [defect]), "O10");
    let mut at_rest = rest::RestOracle::new(&plan(PLAIN));
    assert_eq!(number(at_rest.at_end(&ended(RunState::Succeeded))), "fine");
    assert_eq!(number(at_rest.at_end(&ended(RunState::Running))), "O12");
    let mut deleted = row(Trigger::Manual, RunState::Skipped, None);
    deleted.reason = Some(Reason::Skipped(Skip::Deleted));
    let deleted = rows([(1, deleted)]);
    assert_eq!(number(at_rest.at_death(Death::Killed, &deleted)), "O12");
    let mut removing = plan(PLAIN);
    removing.acts.push((0, PersonAct::Remove(1)));
    assert_eq!(number(rest::RestOracle::new(&removing).at_end(&deleted)), "fine");
    assert_eq!(number(rest::is_nothing_left(&[("workers", 0)])), "fine");
    assert_eq!(number(rest::is_nothing_left(&[("workers", 0), ("slots", 2)])), "O11");
}
