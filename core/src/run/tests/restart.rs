//! Restoring what an earlier fnd left.

use super::bench::*;
use crate::records::outcome::{Class, Reason, RunState, Trigger};
use crate::records::{Accepted, InvocationRecord, Unfinished};
use crate::run::{Action, Event, Restored, Retry, Rules};
use fnd_wire::ids::Version;

fn unfinished(n: u128, state: RunState, attempts: u32) -> Unfinished {
    let accepted = Accepted {
        accepted_ms: EPOCH_MS - 60_000,
        dead_letter: true,
        ..accepted(n)
    };
    let record = InvocationRecord {
        state,
        started_ms: (attempts > 0).then_some(EPOCH_MS - 50_000),
        attempts,
        reason: matches!(state, RunState::Waiting).then_some(Reason::Exit(1)),
        next_attempt_ms: matches!(state, RunState::Waiting | RunState::Polling).then_some(EPOCH_MS + 3_000),
        version: (attempts > 0).then_some(Version([1; 32])),
        ..InvocationRecord::of(&accepted)
    };
    Unfinished { accepted, record }
}

fn bench(unfinished: Vec<Unfinished>) -> (Bench, String) {
    let mut b = Bench::new();
    let actions = b.restore(Restored {
        unfinished,
        ..Restored::default()
    });
    (b, actions)
}

fn retrying(on: Vec<Class>) -> Rules {
    let retry = Retry {
        retries: 3,
        on,
        ..rules().retry
    };
    Rules { retry, ..rules() }
}

#[test]
fn what_was_queued_goes_on_when_its_function_is_there() {
    let (mut b, actions) = bench(vec![
        unfinished(1, RunState::Queued, 0),
        unfinished(2, RunState::Queued, 0),
    ]);
    assert_eq!(actions, "");
    assert_eq!(b.event(installed("f", 1, rules())), "spawn w1 a1 1");
    assert_eq!(b.event(Event::Scanned { whole: true }), "");
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; spawn w2 a1 2");
}

#[test]
fn what_was_running_is_interrupted_and_retried_only_where_asked() {
    let (mut b, _) = bench(vec![unfinished(1, RunState::Running, 2)]);
    assert_eq!(
        b.event(installed("f", 1, retrying(vec![Class::Error]))),
        "record interrupted: interrupted interrupted"
    );
    let (mut b, _) = bench(vec![unfinished(1, RunState::Running, 2)]);
    assert_eq!(
        b.event(installed("f", 1, retrying(vec![Class::Interrupted]))),
        "record interrupted: waiting interrupted"
    );
    // The invocation had one retry before, so the second delay applies.
    assert_eq!(b.wait(secs(1)), "");
    assert_eq!(b.wait(secs(1)), "spawn w1 a3 1");
}

#[test]
fn a_retry_waits_for_what_remains_of_its_delay() {
    let (mut b, _) = bench(vec![unfinished(1, RunState::Waiting, 1)]);
    let mut retrying = retrying(vec![Class::Error]);
    retrying.retry.backoff.interval = secs(4);
    assert_eq!(b.event(installed("f", 1, retrying)), "");
    assert_eq!(b.wait(secs(2)), "");
    assert_eq!(b.wait(secs(1)), "spawn w1 a2 1");
}

#[test]
fn what_belongs_to_a_deleted_function_ends_with_the_first_scan() {
    let (mut b, _) = bench(vec![
        unfinished(1, RunState::Queued, 0),
        unfinished(2, RunState::Running, 1),
        unfinished(3, RunState::Waiting, 1),
    ]);
    assert_eq!(
        b.event(Event::Scanned { whole: true }),
        "update 1 skipped skipped-deleted; record interrupted: interrupted interrupted; update 3 failed exit-1"
    );
    assert_eq!((b.s.queued(), b.s.next_deadline()), (0, None));
}

/// A functions directory cannot be read at the start, so fnd cannot know which functions were deleted.
#[test]
fn what_may_be_in_a_directory_that_is_away_waits_for_it() {
    let all = || {
        vec![
            unfinished(1, RunState::Queued, 0),
            unfinished(2, RunState::Running, 1),
            unfinished(3, RunState::Waiting, 1),
        ]
    };
    let (mut b, _) = bench(all());
    assert_eq!(b.event(Event::Scanned { whole: false }), "");
    assert_eq!(b.wait(secs(3_600)), "");
    assert_eq!(b.s.queued(), 3);
    assert!(!b.s.is_scanned());
    assert_eq!(
        b.event(installed("f", 1, retrying(vec![Class::Error]))),
        "record interrupted: interrupted interrupted; spawn w1 a2 3"
    );
    assert_eq!(b.event(Event::Scanned { whole: true }), "");

    let (mut b, _) = bench(all());
    b.event(Event::Scanned { whole: false });
    assert_eq!(
        b.event(Event::Scanned { whole: true }),
        "update 1 skipped skipped-deleted; record interrupted: interrupted interrupted; update 3 failed exit-1"
    );
}

/// A caller of a function that may exist is told to come again, not that the function does not exist.
#[test]
fn a_function_in_a_directory_that_is_away_is_not_unknown() {
    let (mut b, _) = bench(vec![unfinished(1, RunState::Queued, 0)]);
    b.event(Event::Scanned { whole: false });
    let mut ask = |function: &str, n: u128| {
        let mut out = Vec::new();
        let submit = crate::run::Submit {
            reply: Some(crate::run::ReplyTo(1)),
            ..crate::run::Submit::new(id(n), name(function), Trigger::Manual)
        };
        b.s.handle(crate::run::Now::default(), Event::Submit(Box::new(submit)), &mut out);
        format!("{out:?}")
    };
    assert!(ask("f", 9).contains("Unavailable"));
    assert!(ask("never-heard-of", 10).contains("NoSuchFunction"));
}

#[test]
fn what_belongs_to_an_invalid_function_waits_for_it() {
    let (mut b, _) = bench(vec![unfinished(1, RunState::Queued, 0)]);
    b.event(Event::Refused {
        function: name("f"),
        error: "bad".to_owned(),
    });
    assert_eq!(b.event(Event::Scanned { whole: true }), "");
    assert_eq!(b.event(installed("f", 1, rules())), "Invalid to Ready; spawn w1 a1 1");
}

#[test]
fn what_a_caller_waited_for_does_not_run_again() {
    let mut queued = unfinished(1, RunState::Queued, 0);
    queued.accepted.durable = false;
    let mut running = unfinished(2, RunState::Running, 1);
    running.accepted.durable = false;
    let (_, actions) = bench(vec![queued, running]);
    assert_eq!(
        actions,
        "follow 1; update 1 interrupted interrupted; follow 2; record interrupted: interrupted interrupted"
    );
}

#[test]
fn temporary_files_of_what_ended_at_the_start_are_released_when_the_function_is_known() {
    let mut running = unfinished(1, RunState::Running, 1);
    running.accepted.durable = false;
    let (mut b, _) = bench(vec![running]);
    let released = |b: &Bench| {
        let all = b.last.iter();
        let released =
            all.filter(|action| matches!(action, Action::Release { invocation, .. } if *invocation == id(1)));
        released.count()
    };
    assert_eq!(released(&b), 0);
    b.event(installed("f", 1, rules()));
    assert_eq!(released(&b), 1);
    b.event(installed("f", 2, rules()));
    assert_eq!(released(&b), 0);
}

#[test]
fn what_expired_or_passed_its_deadline_meanwhile_ends_at_once() {
    let mut expired = unfinished(1, RunState::Queued, 0);
    expired.accepted.expires_ms = Some(EPOCH_MS - 1);
    let mut late = unfinished(2, RunState::Waiting, 1);
    late.accepted.deadline_ms = Some(EPOCH_MS - 1);
    let (_, actions) = bench(vec![expired, late]);
    assert_eq!(
        actions,
        "follow 2; update 2 failed deadline Deadline; follow 1; update 1 skipped skipped-expired"
    );
}
