//! A request that does not wait shares the invocation of callers who do: it is told that this one outlives fnd.

use super::bench::*;
use crate::idempotency::IdempotencyKey;
use crate::records::outcome::RunState;
use crate::run::{Action, Calling, Event, ReplyTo, Submit};

fn keyed(function: &str, n: u128, wait: bool) -> Submit {
    Submit {
        idempotency_key: Some(IdempotencyKey::stored("k".into())),
        wait,
        ..submit(function, n)
    }
}

impl Bench {
    fn keyed(&mut self, n: u128, wait: bool) -> String {
        self.request(keyed("f", n, wait))
    }

    /// The records that the last event stores without an attempt.
    fn updates(&self) -> Vec<(RunState, u32, bool)> {
        let update = |action: &Action| match action {
            Action::Update(stands) => Some((stands.state, stands.attempts, stands.durable)),
            _ => None,
        };
        self.last.iter().filter_map(update).collect()
    }
}

/// A bench whose only process runs another invocation, with a caller who waits.
fn busy() -> Bench {
    let mut b = Bench::with(rules());
    b.submit(9);
    b.spawned(1);
    b.keyed(1, true);
    b
}

#[test]
fn it_is_acknowledged_once_the_run_is_durable() {
    let mut b = Bench::with(rules());
    b.keyed(1, true);
    b.spawned(1);
    assert_eq!(b.keyed(2, false), "make 1 durable");
    assert_eq!(b.updates(), [(RunState::Running, 1, true)], "the attempt has begun");
    assert_eq!(b.keyed(3, false), "", "it waits for the same answer");
    assert_eq!(b.event(Event::Stored(id(1))), "reply 2: queued; reply 3: queued");
    assert_eq!(b.keyed(4, false), "reply 4: queued");
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; reply 1: succeeded ok");
}

#[test]
fn it_is_acknowledged_although_the_run_has_ended_meanwhile() {
    let mut b = Bench::with(rules());
    b.keyed(1, true);
    b.spawned(1);
    b.keyed(2, false);
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; reply 1: succeeded ok");
    assert_eq!(b.event(Event::Stored(id(1))), "reply 2: queued");
}

#[test]
fn what_has_not_begun_is_claimed() {
    let mut b = busy();
    assert_eq!(b.keyed(2, false), "make 1 durable");
    assert_eq!(b.updates(), []);
    b.event(Event::Stored(id(1)));
    b.claims = false;
    assert!(b.code(1, 0).ends_with("claim 1 a1"), "{}", b.actions());
    assert_eq!(b.event(Event::Claimed(vec![id(1)])), "spawn w2 a1 1");
}

#[test]
fn a_failure_is_told_to_those_who_do_not_wait_and_the_run_goes_on_as_before() {
    let mut b = busy();
    b.keyed(2, false);
    b.keyed(3, false);
    assert_eq!(
        b.event(Event::StoreFailed(id(1))),
        "reply 2: store failed; reply 3: store failed"
    );
    let wakes = |action: &Action| matches!(action, Action::Dropped(_));
    assert!(!b.last.iter().any(wakes), "callers wait on for its end");
    b.claims = false;
    assert!(
        b.code(1, 0).ends_with("spawn w2 a1 1"),
        "it needs no claim: {}",
        b.actions()
    );
    b.spawned(2);
    assert_eq!(b.keyed(4, false), "make 1 durable", "the next one tries again");
    assert_eq!(b.event(Event::StoreFailed(id(1))), "reply 4: store failed");
    assert_eq!(b.code(2, 0), "record ok: succeeded ok; reply 1: succeeded ok");
}

#[test]
fn the_run_goes_on_without_the_callers_who_waited() {
    let mut b = busy();
    b.keyed(2, false);
    b.event(Event::Stored(id(1)));
    assert_eq!(
        b.event(Event::CallerLeft {
            id: id(1),
            reply: ReplyTo(1)
        }),
        ""
    );
    assert!(b.code(1, 0).ends_with("spawn w2 a1 1"), "{}", b.actions());
}

/// The daemon keeps the end of durable work over a kill if a caller is told of it, and looks for the answer there.
#[test]
fn an_end_without_an_attempt_is_told_right_after_its_record() {
    let mut b = busy();
    b.keyed(2, false);
    b.event(Event::Stored(id(1)));
    b.cancel(1);
    assert_eq!(b.updates(), [(RunState::Cancelled, 0, true)]);
    let is_update = |action: &Action| matches!(action, Action::Update(_));
    let behind = b.last.iter().skip_while(|action| !is_update(action)).nth(1);
    assert!(matches!(behind, Some(Action::Reply(ReplyTo(1), _))), "{}", b.actions());
}

#[test]
fn a_drain_keeps_it_for_the_next_fnd_and_answers_everybody() {
    for stored in [true, false] {
        let mut b = busy();
        b.keyed(2, false);
        assert_eq!(b.event(Event::Drain), "reply 1: unavailable");
        assert_eq!(b.code(1, 0), "record ok: succeeded ok; reply 9: succeeded ok");
        if stored {
            assert_eq!(b.event(Event::Stored(id(1))), "reply 2: queued; drained");
        } else {
            assert_eq!(
                b.event(Event::StoreFailed(id(1))),
                "reply 2: store failed; update 1 cancelled cancelled; drained"
            );
        }
    }
}

/// `a` waits for `b`, and has sent the same request once more without waiting.
fn called_twice() -> Bench {
    let mut b = Bench::new();
    b.event(installed("a", 1, rules()));
    b.event(installed("b", 1, rules()));
    b.submit_of("a", 1);
    b.spawned(1);
    for (n, wait) in [(2, true), (3, false)] {
        b.event(Event::Submit(Box::new(Submit {
            calling: calling("a", 1),
            ..keyed("b", n, wait)
        })));
    }
    b.event(Event::Stored(id(2)));
    b.spawned(2);
    b
}

fn calling(function: &str, n: u128) -> Option<Calling> {
    Some(Calling {
        function: name(function),
        invocation: Some(id(n)),
    })
}

#[test]
fn a_call_that_would_wait_for_itself_is_still_refused() {
    let mut b = called_twice();
    let refused = b.event(Event::Submit(Box::new(Submit {
        calling: calling("b", 2),
        ..submit("a", 4)
    })));
    assert!(refused.starts_with("reply 4: "), "{refused}");
    assert!(!refused.contains("note 4"), "{refused}");
}

#[test]
fn a_call_goes_on_after_the_end_of_its_caller() {
    let mut b = called_twice();
    let ended = b.code(1, 1);
    assert!(!ended.contains("term w2"), "{ended}");
    assert!(b.code(2, 0).starts_with("record ok: succeeded ok"), "{}", b.actions());
}
