//! Tests of what follows an end and a change of health: which calls, which commands, and in which order.

use super::hooks::{AfterEnd, after_end};
use super::*;
use fnd_core::records::cause::{AlertCondition, HookCause};
use fnd_core::triggers::alerts::{AlertRules, QUEUE_FULL_LASTS_MS};
use fnd_manifest::function::{AlertOn, HookCall, Hooks, OnHookFailure};
use fnd_manifest::settings::NodeAlert;

fn name(text: &str) -> FunctionName {
    FunctionName::new(text).unwrap()
}

/// Returns the record of the end of `f`.
fn record(id: u128, state: RunState) -> InvocationRecord {
    let submit = Submit::new(InvocationId(id), name("f"), Trigger::Manual);
    let (record, _) = refused(submit, 1, (Skip::Disabled, "why".to_owned()));
    InvocationRecord { state, ..*record }
}

/// Returns the payload of a call of a hook that follows invocation 7.
fn payload(depth: u8, marks: bool) -> Payload {
    let cause = HookCause {
        invocation: InvocationId(7),
        function: name("first"),
        depth,
        marks,
    };
    Payload {
        cause: Some(Arc::new(Cause::Hook(cause))),
        ..Payload::default()
    }
}

fn hooks(calls: &[(&str, OnHookFailure)]) -> Hooks {
    let call = |(function, on_failure): &(&str, OnHookFailure)| HookCall {
        call: name(function),
        on_failure: *on_failure,
    };
    Hooks {
        on_completion: calls.iter().map(call).collect(),
        ..Hooks::default()
    }
}

fn accepted(id: u128) -> LedgerCommand {
    LedgerCommand::Store(Box::new(Accepted {
        dead_letter: true,
        ..Accepted::new(InvocationId(id), name("called"), Trigger::Hook, 1)
    }))
}

/// Returns commands in short.
fn short<'a>(commands: impl IntoIterator<Item = &'a LedgerCommand>) -> Vec<String> {
    let short = |command: &LedgerCommand| match command {
        LedgerCommand::Update(record) => format!("end {}", record.id.0),
        LedgerCommand::FollowLater(id) => format!("later {}", id.0),
        LedgerCommand::HookFailed(id) => format!("mark {}", id.0),
        LedgerCommand::StoreAlert { about, health } => format!("{about}: {}", health.as_deref().unwrap_or("nothing")),
        other => format!("{other:?}"),
    };
    commands.into_iter().map(short).collect()
}

fn settings(call: Option<&str>, on: &[AlertOn]) -> NodeAlert {
    NodeAlert {
        call: call.map(name),
        on: on.to_vec(),
    }
}

/// Returns the called function and the alert of a change, and the command to store.
fn told(books: &mut FollowUps, mut change: HealthChange, refused: Option<&str>) -> (Option<String>, String) {
    let call = change.call.take();
    let called = call.map(|(alert, call)| format!("{} {}", call.function, alert.word.as_str()));
    let command = books.store_health(change, refused);
    (called, short([&command]).remove(0))
}

/// Returns the books of an fnd whose function `f` calls `page` after a failure.
fn watching() -> FollowUps {
    let mut books = FollowUps::default();
    let rules = AlertRules {
        call: name("page"),
        on: vec![AlertOn::Failed, AlertOn::Recovered],
        after: 1,
        every: None,
    };
    books.function_change("", |alerts| alerts.set(0, &name("f"), Some(rules)));
    books
}

fn ends(books: &mut FollowUps, state: RunState, output: &str) -> HealthChange {
    let record = record(1, state);
    books
        .function_change(output, |alerts| alerts.ended(5, &record))
        .unwrap()
}

#[test]
fn a_late_end_waits_with_its_payload_and_its_output() {
    let earlier = Unfollowed {
        record: record(1, RunState::Failed),
        payload: payload(1, true),
    };
    let mut books = FollowUps::new(vec![earlier.clone()], Vec::new(), 0);
    let ended = record(2, RunState::Succeeded);
    let command = books.follow_later(&ended, Some(payload(2, false)), "lines");
    assert_eq!(short([&command]), ["later 2"]);
    // Without hooks there is no payload, and an alert may follow nevertheless.
    let _ = books.follow_later(&record(3, RunState::Failed), None, "");
    let late = |record, payload, output: &str| (Unfollowed { record, payload }, output.to_owned());
    assert_eq!(
        books.late,
        [
            (earlier, String::new()),
            late(ended, payload(2, false), "lines"),
            late(record(3, RunState::Failed), Payload::default(), ""),
        ]
    );
}

#[test]
fn a_failed_hook_marks_the_invocation_before_its_own_hooks_are_called() {
    for (state, marks, expected) in [
        (RunState::Failed, true, &["mark 7"][..]),
        (RunState::Interrupted, true, &["mark 7"]),
        (RunState::Skipped, true, &["mark 7"]),
        (RunState::Succeeded, true, &[]),
        (RunState::Failed, false, &[]),
    ] {
        // Without hooks of its own nothing else follows.
        let AfterEnd {
            marks: found, calls, ..
        } = after_end((&record(1, state), &payload(1, marks), ""), None, |_| true);
        assert_eq!(
            (short(&found), calls.len()),
            (expected.iter().map(ToString::to_string).collect(), 0)
        );
    }
    let hooks = hooks(&[("not-ours", OnHookFailure::Fail), ("next", OnHookFailure::Fail)]);
    let failed = record(1, RunState::Failed);
    let AfterEnd { marks, calls, .. } = after_end((&failed, &payload(1, true), ""), Some(&hooks), |called| {
        *called == name("next")
    });
    assert_eq!(
        (short(&marks), calls.len()),
        (vec!["mark 7".to_owned(), "mark 1".to_owned()], 1)
    );
}

#[test]
fn a_hook_may_call_only_what_the_author_operates() {
    let all = hooks(&[
        ("ours", OnHookFailure::Fail),
        ("not-ours", OnHookFailure::Continue),
        ("not-ours-marked", OnHookFailure::Fail),
    ]);
    let ended = record(1, RunState::Succeeded);
    let mut first = payload(3, false);
    first.data = Some(b"{\"n\": 1}".into());
    let AfterEnd { marks, mut calls, news } =
        after_end((&ended, &first, "line"), Some(&all), |called| *called == name("ours"));
    assert_eq!(short(&marks), ["mark 1"]);
    assert_eq!(news.len(), 2, "{news:?}");
    let call = calls.remove(0);
    assert_eq!(
        (calls.len(), call.function, call.trigger),
        (0, name("ours"), Trigger::Hook)
    );
    assert_eq!((call.skip, call.at_once), (None, false));
    let cause = HookCause {
        invocation: InvocationId(1),
        function: name("f"),
        depth: 4,
        marks: true,
    };
    assert_eq!(call.payload.cause.as_deref(), Some(&Cause::Hook(cause)));
    let data = call.payload.data.unwrap();
    let data: serde_json::Value = serde_json::from_slice(&data.bytes().unwrap()).unwrap();
    assert_eq!((&data["payload"]["n"], &data["output"]), (&1.into(), &"line".into()));
}

#[test]
fn the_ninth_call_of_a_chain_is_only_recorded() {
    let hooks = hooks(&[("next", OnHookFailure::Continue)]);
    for (depth, expected) in [(7, None), (8, Some("the chain of hooks ends after 8 calls"))] {
        let ended = record(1, RunState::Succeeded);
        let AfterEnd { calls, .. } = after_end((&ended, &payload(depth, false), ""), Some(&hooks), |_| true);
        let skip = calls[0].skip.as_ref().map(|(skip, message)| (*skip, message.as_str()));
        assert_eq!(skip, expected.map(|message| (Skip::Depth, message)));
    }
}

#[test]
fn a_refused_call_is_a_skipped_record_and_marks_the_invocation_before() {
    let rejection = Rejection::NoSuchFunction;
    let why = words(&name("called"), rejection);
    for (marks, expected) in [(true, Some("mark 7")), (false, None)] {
        let mut submit = Submit::new(InvocationId(2), name("called"), Trigger::Hook);
        submit.payload = payload(1, marks);
        let (record, mark) = refused(submit, 9, why.clone());
        assert_eq!((record.id, record.function), (InvocationId(2), name("called")));
        assert_eq!((record.trigger, record.state), (Trigger::Hook, RunState::Skipped));
        assert_eq!(
            (record.accepted_ms, record.ended_ms, record.durable),
            (9, Some(9), true)
        );
        assert_eq!(record.reason, Some(Reason::Skipped(Skip::Unknown)));
        assert_eq!(record.message, "there is no function `called`");
        assert_eq!(
            short(&mark),
            expected.map(str::to_owned).into_iter().collect::<Vec<_>>()
        );
    }
}

#[test]
fn without_room_the_ends_are_kept_and_the_calls_wait_for_the_next_start() {
    let alert = LedgerCommand::StoreAlert {
        about: "f".to_owned(),
        health: None,
    };
    let end = |id| LedgerCommand::Update(Box::new(record(id, RunState::Failed)));
    let hook = LedgerCommand::HookFailed(InvocationId(7));
    let (kept, calls) = without_room(vec![end(1), hook, accepted(2), end(3), alert, accepted(4)]);
    assert_eq!(short(&kept), ["end 1", "later 1", "end 3", "later 3"]);
    let ids: Vec<_> = calls.iter().map(|call| call.id.0).collect();
    assert_eq!(ids, [2, 4]);
    // Of a late end, the ledger has the record: it stays in `unfollowed`.
    let (kept, calls) = without_room(vec![accepted(2), LedgerCommand::Followed(InvocationId(1))]);
    assert_eq!((kept.len(), calls.len()), (0, 1));
}

#[test]
fn an_alert_that_reached_nobody_is_remembered_until_the_function_is_well() {
    let mut books = watching();
    let change = ends(&mut books, RunState::Failed, "last line");
    let (alert, call) = change.call.as_ref().unwrap();
    assert_eq!(
        (alert.word, call.trigger, call.at_once),
        (AlertCondition::Failed, Trigger::Alert, false)
    );
    let data = call.payload.data.as_ref().unwrap().bytes().unwrap();
    assert!(String::from_utf8_lossy(&data).contains("last line"));
    let (called, command) = told(&mut books, change, Some("there is no function `page`"));
    assert_eq!(called.as_deref(), Some("page failed"));
    assert!(
        command.starts_with("f: ") && command.contains("there is no function `page`"),
        "{command}"
    );
    assert_eq!(
        books.alerts.not_delivered(&name("f")),
        Some("there is no function `page`")
    );
    let change = ends(&mut books, RunState::Succeeded, "");
    let (called, command) = told(&mut books, change, Some("again"));
    assert_eq!(called.as_deref(), Some("page recovered"));
    assert!(!command.contains("again"), "{command}");
}

#[test]
fn states_of_functions_that_are_gone_are_forgotten() {
    let stored = [("gone", r#"{"failures":1}"#), ("broken", "{")];
    let stored = stored.map(|(about, health)| (about.to_owned(), health.to_owned()));
    let mut books = FollowUps::new(Vec::new(), stored.into(), 0);
    let mut gone = books.forget_unknown();
    assert_eq!(
        told(&mut books, gone.remove(0), None),
        (None, "gone: nothing".to_owned())
    );
    assert_eq!((gone.len(), books.forget_unknown().len()), (0, 0));
}

#[test]
fn a_problem_of_the_node_is_told_if_the_settings_say_so() {
    let begins = |books: &mut FollowUps, settings: &NodeAlert| {
        books.node_problem(settings, |node| node.begins(1000, AlertCondition::SpawnerLost, "gone"))
    };
    let mut books = FollowUps::default();
    assert!(begins(&mut books, &settings(None, &[AlertOn::Node])).is_none());
    assert!(begins(&mut books, &settings(Some("page"), &[AlertOn::Failed])).is_none());
    let all = settings(Some("page"), &[AlertOn::Node, AlertOn::Recovered]);
    let change = begins(&mut books, &all).unwrap();
    // A problem of the node is stored as told, whether or not the call reached somebody.
    let stored = r#": {"told":{"spawner-lost":1000}}"#.to_owned();
    assert_eq!(
        told(&mut books, change, Some("why")),
        (Some("page spawner-lost".to_owned()), stored)
    );
    assert!(begins(&mut books, &all).is_none());
}

#[test]
fn the_end_of_a_problem_is_stored_even_if_nobody_is_called() {
    let told_before = vec![(String::new(), r#"{"told":{"spawner-lost":1000}}"#.to_owned())];
    for (settings, expected) in [
        (settings(Some("page"), &[AlertOn::Recovered]), Some("page recovered")),
        (settings(Some("page"), &[AlertOn::Node]), None),
        (settings(None, &[AlertOn::Node, AlertOn::Recovered]), None),
    ] {
        let mut books = FollowUps::new(Vec::new(), told_before.clone(), 2000);
        let mut changes = books.compare_problems(3000, &settings, std::iter::empty());
        let (called, command) = told(&mut books, changes.remove(0), None);
        assert_eq!((called.as_deref(), command.as_str()), (expected, r#": {"told":{}}"#));
        assert!(changes.is_empty());
    }
}

#[test]
fn only_the_call_about_a_full_disk_begins_without_the_disk() {
    let mut books = FollowUps::default();
    let problems = [
        ("history-failing", "no space"),
        ("no-alert", ""),
        ("spawner-silent", "silent"),
    ];
    let changes = books.compare_problems(1, &settings(Some("page"), &[AlertOn::Node]), problems.into_iter());
    let calls: Vec<_> = changes.iter().filter_map(|change| change.call.as_ref()).collect();
    let found: Vec<_> = calls.iter().map(|(alert, call)| (alert.word, call.at_once)).collect();
    assert_eq!(
        found,
        [(AlertCondition::DiskFull, true), (AlertCondition::SpawnerLost, false)]
    );
}

#[test]
fn a_queue_that_refused_nothing_for_long_enough_is_told_by_the_passing_of_time() {
    let all = settings(Some("page"), &[AlertOn::Node, AlertOn::Recovered]);
    let mut books = FollowUps::default();
    assert_eq!(books.next_due_ms(), None);
    let change = books
        .node_problem(&all, |node| node.queue_full(1000, &name("f")))
        .unwrap();
    let (called, _) = told(&mut books, change, None);
    assert_eq!(called.as_deref(), Some("page queue-full"));
    let due_ms = books.next_due_ms().unwrap();
    assert_eq!(due_ms, 1000 + QUEUE_FULL_LASTS_MS);
    assert!(books.alerts_due(due_ms - 1, &all).is_empty());
    let change = books.alerts_due(due_ms, &all).remove(0);
    assert_eq!(told(&mut books, change, None).0.as_deref(), Some("page recovered"));
}
