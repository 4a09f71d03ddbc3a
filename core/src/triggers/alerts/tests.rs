//! Tests of the state of functions, by tables and against a naive model.

use super::*;
use crate::records::Accepted;
use crate::records::outcome::Reason;
use crate::run::FunctionState;
use fnd_manifest::function::{Alert as OwnAlert, AlertOn};
use fnd_manifest::settings::NodeAlert;
use proptest::prelude::*;
use std::time::Duration;

const ALL: [AlertOn; 5] = [
    AlertOn::Failed,
    AlertOn::CrashLooping,
    AlertOn::Invalid,
    AlertOn::Missed,
    AlertOn::Recovered,
];

fn name(text: &str) -> FunctionName {
    FunctionName::new(text).unwrap()
}

fn rules(after: u32, every_s: Option<u64>) -> AlertRules {
    AlertRules {
        call: name("page"),
        on: ALL.to_vec(),
        after,
        every: every_s.map(Duration::from_secs),
    }
}

fn record(state: RunState, trigger: Trigger, at_ms: u64) -> InvocationRecord {
    InvocationRecord {
        state,
        started_ms: Some(at_ms),
        ended_ms: Some(at_ms),
        attempts: 1,
        reason: Some(Reason::Exit(1)),
        message: "exit 1".into(),
        ..InvocationRecord::of(&Accepted::new(InvocationId(9), name("f"), trigger, at_ms))
    }
}

fn watching(rules: AlertRules) -> Alerts {
    let mut alerts = Alerts::default();
    alerts.set(0, &name("f"), Some(rules));
    alerts
}

fn end(alerts: &mut Alerts, state: RunState, at_ms: u64) -> Option<AlertCondition> {
    let change = alerts.ended(at_ms, &record(state, Trigger::Manual, at_ms));
    change.and_then(|change| change.alert).map(|alert| alert.word)
}

const WELL: AlertFacts<'_> = AlertFacts {
    enabled: true,
    crash_looping: false,
    invalid: None,
};

/// Restores the states that were stored.
fn restart(alerts: &Alerts, rules: &AlertRules, now_ms: u64) -> Alerts {
    let mut next = Alerts::default();
    for (function, watched) in &alerts.functions {
        let text = serde_json::to_string(&watched.health).unwrap();
        next.restore(function.clone(), serde_json::from_str(&text).unwrap());
        let change = next.set(now_ms, function, Some(rules.clone()));
        assert_eq!(change, None, "a restart changes nothing");
    }
    next
}

#[test]
fn a_function_has_its_own_rules_or_those_of_the_node() {
    let node = |call: Option<&str>| NodeAlert {
        call: call.map(name),
        on: vec![AlertOn::Failed, AlertOn::Node],
    };
    let own = |call: Option<&str>| OwnAlert {
        call: call.map(name),
        on: ALL.to_vec(),
        after: 3,
        expect_success_every: None,
    };
    let call = |own, node, may| AlertRules::of(&name("f"), own, &node, |_| may).map(|rules| rules.call.to_string());
    for (own, node, may, expected) in [
        (None, node(None), true, None),
        (None, node(Some("page")), true, Some("page")),
        (Some(own(None)), node(None), true, None),
        (Some(own(None)), node(Some("page")), true, Some("page")),
        (Some(own(Some("mine"))), node(Some("page")), true, Some("mine")),
        (Some(own(Some("mine"))), node(Some("page")), false, Some("page")),
        (Some(own(Some("mine"))), node(None), false, None),
        (Some(own(Some("f"))), node(Some("page")), true, None),
        (None, node(Some("f")), true, None),
    ] {
        assert_eq!(call(own, node, may).as_deref(), expected);
    }
    let of = |own| AlertRules::of(&name("f"), own, &node(Some("page")), |_| true).unwrap();
    assert_eq!((of(Some(own(None))).after, of(Some(own(None))).on), (3, ALL.to_vec()));
    assert_eq!((of(None).after, of(None).on), (1, node(None).on));
}

#[test]
fn a_state_is_turned_into_facts_when_it_is_known() {
    for (state, expected) in [
        (FunctionState::Building, None),
        (FunctionState::Disabled, Some((false, false, None))),
        (FunctionState::CrashLooping, Some((true, true, None))),
        (FunctionState::Ready, Some((true, false, Some("why")))),
        (FunctionState::Running, Some((true, false, Some("why")))),
        (FunctionState::Invalid, Some((true, false, Some("why")))),
    ] {
        let facts = AlertFacts::of(state, Some("why"));
        let found = facts.map(|facts| (facts.enabled, facts.crash_looping, facts.invalid));
        assert_eq!(found, expected, "{state:?}");
    }
}

#[test]
fn one_call_when_it_turns_bad_and_one_when_it_is_well_again() {
    let mut alerts = watching(rules(1, None));
    let mut found = Vec::new();
    for state in [
        RunState::Succeeded,
        RunState::Failed,
        RunState::Failed,
        RunState::Cancelled,
        RunState::Skipped,
        RunState::Interrupted,
        RunState::Succeeded,
        RunState::Succeeded,
    ] {
        found.push(end(&mut alerts, state, 1000));
    }
    let (failed, recovered) = (Some(AlertCondition::Failed), Some(AlertCondition::Recovered));
    assert_eq!(found, [None, failed, None, None, None, None, recovered, None]);
}

#[test]
fn failures_in_a_row_count_over_restarts() {
    let rules = rules(3, None);
    let mut alerts = watching(rules.clone());
    assert_eq!(end(&mut alerts, RunState::Failed, 1), None);
    assert_eq!(end(&mut alerts, RunState::Succeeded, 2), None);
    assert_eq!(end(&mut alerts, RunState::Failed, 3), None);
    assert_eq!(end(&mut alerts, RunState::Failed, 4), None);
    let mut alerts = restart(&alerts, &rules, 5);
    let change = alerts.ended(6, &record(RunState::Failed, Trigger::Manual, 6)).unwrap();
    let alert = change.alert.unwrap();
    assert_eq!(alert.word, AlertCondition::Failed);
    assert_eq!(alert.message, "3 invocations in a row failed; the last one: exit 1");
    assert_eq!(alert.about, Some(name("f")));
}

#[test]
fn an_alert_that_fails_is_no_alert() {
    let mut alerts = watching(rules(1, None));
    assert_eq!(alerts.ended(1, &record(RunState::Failed, Trigger::Alert, 1)), None);
}

#[test]
fn a_success_that_does_not_come_is_missed_over_a_restart() {
    let rules = rules(1, Some(60));
    let mut alerts = watching(rules.clone());
    assert_eq!(alerts.next_due_ms(), Some(60_000));
    assert_eq!(end(&mut alerts, RunState::Succeeded, 30_000), None);
    assert_eq!(alerts.tick(60_000), []);
    let mut alerts = restart(&alerts, &rules, 80_000);
    assert_eq!(alerts.next_due_ms(), Some(90_000));
    let word = |changes: Vec<AlertChange>| {
        changes
            .into_iter()
            .filter_map(|change| change.alert)
            .map(|a| a.word)
            .collect::<Vec<_>>()
    };
    assert_eq!(word(alerts.tick(90_000)), [AlertCondition::Missed]);
    assert_eq!(alerts.next_due_ms(), None);
    let mut alerts = restart(&alerts, &rules, 95_000);
    assert_eq!(word(alerts.tick(500_000)), []);
    assert_eq!(
        end(&mut alerts, RunState::Succeeded, 600_000),
        Some(AlertCondition::Recovered)
    );
    assert_eq!(alerts.next_due_ms(), Some(660_000));
}

#[test]
fn of_a_disabled_function_no_success_is_expected() {
    let mut alerts = watching(rules(1, Some(60)));
    alerts.facts(10_000, &name("f"), AlertFacts { enabled: false, ..WELL });
    assert_eq!(alerts.next_due_ms(), None);
    assert_eq!(alerts.tick(100_000), []);
    alerts.facts(200_000, &name("f"), WELL);
    assert_eq!(alerts.next_due_ms(), Some(260_000));
}

#[test]
fn a_clock_that_was_ahead_does_not_silence_a_function() {
    let mut alerts = watching(rules(1, Some(60)));
    end(&mut alerts, RunState::Succeeded, 1_000_000_000);
    // The timer is due by the wrong clock; the daemon also ticks at other times.
    let watched = alerts.functions.get_mut(&name("f")).unwrap();
    assert_eq!(watched.health.tick(70_000, &watched.rules, &mut watched.seen), None);
    alerts.facts(70_000, &name("f"), WELL);
    assert_eq!(alerts.next_due_ms(), Some(130_000));
}

#[test]
fn a_function_that_is_bad_for_two_reasons_recovers_when_both_are_over() {
    let mut alerts = watching(rules(1, None));
    let facts = |alerts: &mut Alerts, facts| {
        let change = alerts.facts(5, &name("f"), facts);
        change.and_then(|change| change.alert).map(|alert| alert.word)
    };
    let invalid = AlertFacts {
        invalid: Some("no"),
        ..WELL
    };
    assert_eq!(facts(&mut alerts, invalid), Some(AlertCondition::Invalid));
    assert_eq!(end(&mut alerts, RunState::Failed, 6), None);
    let since = |alerts: &Alerts| {
        [
            AlertCondition::Invalid,
            AlertCondition::Failed,
            AlertCondition::CrashLooping,
        ]
        .map(|condition| alerts.bad_since(&name("f"), condition))
    };
    assert_eq!(since(&alerts), [Some(5), Some(6), None], "each has its own time");
    assert_eq!(since(&restart(&alerts, &rules(1, None), 9)), [Some(5), Some(6), None]);
    assert_eq!(facts(&mut alerts, WELL), None);
    assert_eq!(since(&alerts), [None, Some(6), None]);
    assert_eq!(
        end(&mut alerts, RunState::Succeeded, 7),
        Some(AlertCondition::Recovered)
    );
    assert_eq!(alerts.unhealthy(&name("f")), None);
}

#[test]
fn a_crash_loop_of_the_earlier_fnd_may_show_again() {
    let rules = rules(1, None);
    let mut alerts = watching(rules.clone());
    let looping = AlertFacts {
        crash_looping: true,
        ..WELL
    };
    let word = |change: Option<AlertChange>| change.and_then(|change| change.alert).map(|alert| alert.word);
    assert_eq!(
        word(alerts.facts(1, &name("f"), looping)),
        Some(AlertCondition::CrashLooping)
    );
    let mut again = restart(&alerts, &rules, 1000);
    assert_eq!(word(again.facts(1001, &name("f"), WELL)), None);
    assert_eq!(word(again.facts(2000, &name("f"), looping)), None);
    assert_eq!(
        word(again.facts(3000, &name("f"), WELL)),
        Some(AlertCondition::Recovered)
    );
    // It does not show again.
    let mut gone = restart(&alerts, &rules, 1000);
    gone.facts(1001, &name("f"), WELL);
    let due = gone.next_due_ms().unwrap();
    assert_eq!(word(gone.tick(due).into_iter().next()), Some(AlertCondition::Recovered));
}

#[test]
fn rules_that_name_less_recover_silently() {
    let mut alerts = watching(rules(1, None));
    end(&mut alerts, RunState::Failed, 1);
    let less = AlertRules {
        on: vec![AlertOn::Invalid, AlertOn::Recovered],
        ..rules(1, None)
    };
    let change = alerts.set(2, &name("f"), Some(less)).unwrap();
    assert_eq!(change.alert, None);
    assert_eq!(end(&mut alerts, RunState::Succeeded, 3), None);
    let gone = alerts.set(4, &name("f"), None).unwrap();
    assert_eq!((gone.health, gone.alert), (None, None));
    assert_eq!(alerts.set(5, &name("f"), None), None);
}

#[test]
fn a_change_says_whether_the_status_shows_another_alert() {
    let rules = rules(2, None);
    let mut alerts = watching(rules.clone());
    let shown = |change: Option<AlertChange>| change.map(|change| change.is_shown);
    let failed = |alerts: &mut Alerts| shown(alerts.ended(1, &record(RunState::Failed, Trigger::Manual, 1)));
    assert_eq!(failed(&mut alerts), Some(false), "it is only counted");
    assert_eq!(failed(&mut alerts), Some(true));
    assert_eq!(failed(&mut alerts), None, "it is told already");
    let gone = restart(&alerts, &rules, 2).set(3, &name("f"), None);
    assert_eq!(shown(gone), Some(true), "nobody is called any more");
    let succeeded = alerts.ended(2, &record(RunState::Succeeded, Trigger::Manual, 2));
    assert_eq!(shown(succeeded), Some(true));
}

/// A step of the property.
#[derive(Debug, Clone)]
enum Step {
    End(RunState, Trigger),
    Facts { crash_looping: bool, invalid: bool },
    Wait(u64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let states = [
        RunState::Succeeded,
        RunState::Failed,
        RunState::Interrupted,
        RunState::Cancelled,
        RunState::Skipped,
    ];
    prop_oneof![
        4 => (0..5_usize, 0..6_u8).prop_map(move |(n, alert)| {
            Step::End(states[n], if alert == 0 { Trigger::Alert } else { Trigger::Manual })
        }),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(crash_looping, invalid)| Step::Facts { crash_looping, invalid }),
        2 => (1..100_000_u64).prop_map(Step::Wait),
        1 => Just(Step::Restart),
    ]
}

/// The conditions as a person would keep them, without a state to store.
#[derive(Debug, Default)]
struct Model {
    failures: u32,
    failed: bool,
    looping: bool,
    invalid: bool,
    missed: bool,
    success_ms: u64,
    notified: bool,
}

proptest! {
    /// Calls alternate, and each follows from what is bad: against a model that knows all facts at once.
    #[test]
    fn calls_follow_the_facts(
        steps in proptest::collection::vec(step(), 0..80),
        after in 1..4_u32,
        every_s in proptest::option::of(30..200_u64),
        on in proptest::sample::subsequence(ALL.to_vec(), 1..=5),
    ) {
        let rules = AlertRules { on: on.clone(), ..rules(after, every_s) };
        let mut alerts = watching(rules.clone());
        let mut model = Model::default();
        let mut now_ms = 0;
        for step in steps {
            let mut calls = Vec::new();
            let mut take = |changes: Vec<AlertChange>| calls.extend(changes.into_iter().filter_map(|change| change.alert));
            match step {
                Step::End(state, trigger) => {
                    take(alerts.ended(now_ms, &record(state, trigger, now_ms)).into_iter().collect());
                    match state {
                        _ if trigger == Trigger::Alert => {}
                        RunState::Succeeded => {
                            model = Model { invalid: model.invalid, notified: model.notified, success_ms: now_ms, ..Model::default() };
                        }
                        RunState::Failed | RunState::Interrupted => {
                            model.failures += 1;
                            model.failed |= model.failures >= after;
                        }
                        _ => {}
                    }
                }
                Step::Facts { crash_looping, invalid } => {
                    let facts = AlertFacts { crash_looping, invalid: invalid.then_some("no"), ..WELL };
                    // A loop of the earlier fnd is over only later; the property of it is above.
                    let known = alerts.functions[&name("f")].seen.loop_until_ms.is_none();
                    take(alerts.facts(now_ms, &name("f"), facts).into_iter().collect());
                    model.invalid = invalid;
                    model.looping = crash_looping || (model.looping && !known);
                }
                Step::Wait(ms) => {
                    now_ms += ms;
                    let over = alerts.functions[&name("f")].seen.loop_until_ms.is_some_and(|at| at <= now_ms);
                    take(alerts.tick(now_ms));
                    model.looping &= !over;
                    let late = |every_s: u64| model.success_ms + every_s * 1000 <= now_ms;
                    model.missed |= on.contains(&AlertOn::Missed) && every_s.is_some_and(late);
                }
                Step::Restart => alerts = restart(&alerts, &rules, now_ms),
            }
            let bad = [
                (model.failed, AlertOn::Failed),
                (model.looping, AlertOn::CrashLooping),
                (model.invalid, AlertOn::Invalid),
                (model.missed, AlertOn::Missed),
            ];
            let is_bad = bad.iter().any(|(holds, word)| *holds && on.contains(word));
            let expected = match (model.notified, is_bad) {
                (false, true) => 1,
                (true, false) if on.contains(&AlertOn::Recovered) => 1,
                _ => 0,
            };
            prop_assert_eq!(calls.len(), expected, "{:?} {:?}", calls, model);
            if let Some(call) = calls.first() {
                prop_assert_eq!(call.word == AlertCondition::Recovered, !is_bad);
            }
            model.notified = is_bad;
            prop_assert_eq!(alerts.unhealthy(&name("f")).is_some(), is_bad);
            let watched = &alerts.functions[&name("f")];
            prop_assert_eq!(alerts.next_due_ms(), watched.health.due_ms(&watched.rules, &watched.seen));
        }
    }
}

/// An earlier fnd has stored these, and a later one reads them.
#[test]
fn the_stored_form_keeps_its_names() {
    let mut health = Health::default();
    health.notified = Some((AlertCondition::Failed, 7));
    assert_eq!(
        serde_json::to_value(&health).unwrap()["told"],
        serde_json::json!(["failed", 7])
    );
    let node: NodeHealth = serde_json::from_str(r#"{"told": {"spawner-lost": 7}}"#).unwrap();
    let since_ms = ["spawner-silent", "history-lost", "metrics"].map(|code| node.since_ms(code));
    assert_eq!(since_ms, [Some(7), None, None]);
}
