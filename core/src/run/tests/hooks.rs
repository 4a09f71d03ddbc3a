//! The supervisor's part in the calls that follow an end.

use super::bench::*;
use crate::records::cause::{Cause, HookCause};
use crate::records::outcome::{Skip, Trigger};
use crate::run::{Action, Event, Now, Rejection, ReplyTo, Rules, Submit};
use std::sync::Arc;

fn hooked() -> Rules {
    Rules {
        has_hooks: true,
        ..rules()
    }
}

/// A call of `f` that follows another invocation.
fn call(n: u128, marks: bool) -> Submit {
    let mut call = Submit::new(id(n), name("f"), Trigger::Hook);
    call.payload.cause = Some(Arc::new(Cause::Hook(HookCause {
        invocation: id(900),
        function: name("g"),
        depth: 3,
        marks,
    })));
    call
}

#[test]
fn a_final_record_of_a_function_with_hooks_is_announced_with_its_payload() {
    let mut b = Bench::with(hooked());
    b.submit_stored(1);
    assert!(
        b.code(1, 0).starts_with("follow 1; record ok: succeeded ok"),
        "{}",
        b.actions()
    );
    let Some(Action::Follow(_, payload)) = b.last.iter().find(|action| matches!(action, Action::Follow(..))) else {
        panic!("{:?}", b.last);
    };
    assert_eq!(**payload, submit("f", 1).payload);
    // An end without an attempt.
    b.submit_stored(2);
    b.submit_stored(3);
    assert_eq!(b.cancel(3), "follow 3; update 3 cancelled cancelled; reply 99: done");
}

#[test]
fn a_retry_is_not_announced_and_neither_is_a_function_without_hooks() {
    let mut rules = hooked();
    rules.retry.retries = 1;
    let mut b = Bench::with(rules);
    b.submit_stored(1);
    assert!(!b.code(1, 1).contains("follow"), "{}", b.actions());
    let mut b = Bench::with(self::rules());
    b.submit_stored(1);
    assert!(!b.code(1, 0).contains("follow"));
}

#[test]
fn a_call_whose_failure_is_shown_elsewhere_is_announced() {
    for (marks, expected) in [(true, true), (false, false)] {
        let mut b = Bench::with(rules());
        b.request(call(1, marks));
        b.event(Event::Stored(id(1)));
        assert_eq!(b.code(1, 1).contains("follow 1"), expected);
    }
}

#[test]
fn a_drain_accepts_a_call_and_the_next_fnd_runs_it() {
    let mut b = Bench::with(rules());
    b.event(Event::HandOver);
    assert_eq!(b.submit(1), "reply 1: unavailable");
    assert_eq!(b.request(call(2, false)), "store 2");
    assert_eq!(b.event(Event::Stored(id(2))), "", "it does not begin");
}

#[test]
fn a_refusal_is_known_before_and_changes_nothing() {
    let mut b = Bench::with(rules());
    let now = Now::default();
    assert_eq!(b.s.refusal(now, &call(1, false)), None);
    let mut unknown = call(1, false);
    unknown.function = name("nobody");
    assert_eq!(b.s.refusal(now, &unknown), Some(Rejection::NoSuchFunction));
    b.event(Event::SetEnabled {
        function: name("f"),
        enabled: false,
        reply: ReplyTo(1),
    });
    let disabled = b.s.refusal(now, &call(1, false));
    assert!(
        matches!(
            disabled,
            Some(Rejection::Skipped {
                skip: Skip::Disabled,
                ..
            })
        ),
        "{disabled:?}"
    );
    assert_eq!(b.s.queued(), 0);
}
