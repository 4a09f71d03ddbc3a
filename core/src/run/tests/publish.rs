//! Events: each function that takes one gets an invocation, all of them are stored together, and order keys keep the
//! order.

use super::bench::*;
use crate::records::Attributes;
use crate::records::cause::{Cause, EventCause};
use crate::records::outcome::{Reason, Skip, Trigger};
use crate::run::{
    Action, Delivered, Event, NotTaken, Overlap, Publication, Publish, QueueRules, ReplyTo, Rules, Submit, Taken,
};
use std::sync::Arc;

fn share(function: &str, n: u128, order_key: Option<&str>) -> Submit {
    let cause = Cause::Event(EventCause {
        attributes: Attributes::default(),
        order_key: order_key.map(str::to_owned),
        depth: 0,
    });
    let mut submit = Submit::new(id(n), name(function), Trigger::Event);
    submit.payload.cause = Some(Arc::new(cause));
    submit
}

fn publish(b: &mut Bench, events: Vec<Vec<Submit>>) -> String {
    let events = events.into_iter().enumerate().map(|(number, submits)| Publication {
        key: number.to_string().into(),
        submits,
        refused: Vec::new(),
    });
    publish_all(b, events.collect())
}

fn publish_all(b: &mut Bench, events: Vec<Publication>) -> String {
    let reply = ReplyTo(7);
    b.event(Event::Publish(Box::new(Publish { reply, events })))
}

fn published(b: &mut Bench, earlier: Vec<Option<Delivered>>) -> String {
    let number = b.published.expect("shares to store");
    b.event(Event::Published { number, earlier })
}

fn full(max: u32) -> Rules {
    let queue = QueueRules {
        max,
        overlap: Overlap::Queue,
        rate: None,
        group: None,
        key: None,
    };
    Rules { queue, ..rules() }
}

/// A bench with the functions `f` and `g`, one run at a time each.
fn two(rules: &Rules) -> Bench {
    let mut b = Bench::with(rules.clone());
    b.event(installed("g", 1, rules.clone()));
    b
}

#[test]
fn each_function_gets_its_invocation_when_all_are_on_disk() {
    let mut b = two(&rules());
    assert_eq!(
        publish(&mut b, vec![vec![share("f", 1, None), share("g", 2, None)]]),
        "publish 1,2"
    );
    assert_eq!(
        published(&mut b, vec![]),
        "reply 7: published 1,2; spawn w1 a1 1; spawn w2 a1 2"
    );
    assert_eq!(published(&mut b, vec![]), "", "a second answer of the ledger");
}

#[test]
fn what_could_not_be_stored_is_forgotten() {
    let mut b = two(&rules());
    publish(&mut b, vec![vec![share("f", 1, None), share("g", 2, None)]]);
    let number = b.published.unwrap();
    assert_eq!(b.event(Event::PublishFailed(number)), "reply 7: store failed");
    assert_eq!((b.s.queued(), b.s.running()), (0, 0));
}

#[test]
fn a_full_queue_refuses_its_function_only() {
    let mut b = two(&full(0));
    b.submit(1);
    let words = publish(&mut b, vec![vec![share("f", 2, None), share("g", 3, None)]]);
    assert_eq!(words, "publish 3,2 QueueFull");
    assert_eq!(published(&mut b, vec![]), "reply 7: published 3; spawn w2 a1 3");
}

#[test]
fn a_share_that_must_not_run_beside_another_one_is_stored_with_its_end() {
    let mut rules = full(1);
    rules.queue.overlap = Overlap::Skip;
    let mut b = two(&rules);
    b.submit(1);
    assert_eq!(publish(&mut b, vec![vec![share("f", 2, None)]]), "publish 2");
    let stored = b.last.iter().find_map(|action| match action {
        Action::Publish(shares) => shares.events[0].accepted[0].skipped.as_ref(),
        _ => None,
    });
    assert_eq!(stored.map(|(reason, _)| *reason), Some(Reason::Skipped(Skip::Overlap)));
    assert_eq!(
        published(&mut b, vec![]),
        "update 2 skipped skipped-overlap; reply 7: published 2"
    );
}

#[test]
fn an_event_that_nobody_has_room_for_refuses_the_whole_request() {
    let mut b = two(&full(0));
    b.submit(1);
    let events = vec![vec![share("g", 2, None)], vec![share("f", 3, None)]];
    assert_eq!(
        publish(&mut b, events),
        "reply 7: not published: event 1, f Some(QueueFull)"
    );
    assert_eq!((b.s.queued(), b.s.running()), (0, 1));
    assert_eq!(b.submit_of("g", 4), "note 4; spawn w2 a1 4", "its place is free again");
}

#[test]
fn an_event_that_was_sent_before_runs_nothing_and_gets_its_first_answer() {
    let mut b = two(&rules());
    publish(&mut b, vec![vec![share("f", 5, None)], vec![share("g", 6, None)]]);
    let before = Delivered {
        invocations: vec![Taken {
            id: id(1),
            function: name("f"),
        }],
        refused: vec![NotTaken {
            function: name("h"),
            why: "full".to_owned(),
        }],
        ..Delivered::default()
    };
    assert_eq!(
        published(&mut b, vec![Some(before), None]),
        "reply 7: published again 1 | 6; spawn w1 a1 6"
    );
    assert_eq!((b.s.queued(), b.s.running()), (0, 1));
}

#[test]
fn an_event_that_is_twice_in_a_request_needs_room_once() {
    let mut b = two(&full(0));
    let twice = ["a", "a", "b"].into_iter().zip([(1, "f"), (2, "f"), (3, "g")]);
    let events = twice.map(|(key, (n, function))| Publication {
        key: key.into(),
        submits: vec![share(function, n, None)],
        refused: Vec::new(),
    });
    assert_eq!(publish_all(&mut b, events.collect()), "publish 1 |  | 3");
    let before = Delivered {
        invocations: vec![Taken {
            id: id(1),
            function: name("f"),
        }],
        ..Delivered::default()
    };
    assert_eq!(
        published(&mut b, vec![None, Some(before), None]),
        "reply 7: published 1 | again 1 | 3; spawn w1 a1 1; spawn w2 a1 3"
    );
}

#[test]
fn invocations_of_one_order_key_run_one_after_the_other() {
    let mut b = Bench::with(Rules {
        max_running: 4,
        ..rules()
    });
    let shares = [(1, "a"), (2, "a"), (3, "b"), (4, "a")].map(|(n, key)| vec![share("f", n, Some(key))]);
    publish(&mut b, shares.into());
    assert_eq!(
        published(&mut b, vec![]),
        "reply 7: published 1 | 2 | 3 | 4; spawn w1 a1 1; spawn w2 a1 3"
    );
    b.spawned(1);
    b.spawned(2);
    assert_eq!(b.code(2, 0), "record ok: succeeded ok", "another key frees nobody");
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; spawn w3 a1 2");
    b.spawned(3);
    assert_eq!(b.cancel(4), "update 4 cancelled cancelled; reply 99: done");
    assert_eq!(b.code(3, 0), "record ok: succeeded ok");
}

#[test]
fn a_retry_holds_back_the_later_ones_of_its_order_key() {
    let mut retried = rules();
    retried.max_running = 4;
    retried.retry.retries = 1;
    let mut b = Bench::with(retried);
    publish(
        &mut b,
        vec![vec![share("f", 1, Some("a"))], vec![share("f", 2, Some("a"))]],
    );
    published(&mut b, vec![]);
    b.spawned(1);
    assert_eq!(b.code(1, 1), "record exit-1: waiting exit-1");
    assert_eq!(b.wait(secs(60)), "spawn w2 a2 1");
    b.spawned(2);
    assert_eq!(b.code(2, 1), "record exit-1: failed exit-1 Retries; spawn w3 a1 2");
}
