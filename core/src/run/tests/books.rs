//! The books of waiting work: one queue is fed with invocations in all stages.

use crate::idempotency::IdempotencyKey;
use crate::records::Payload;
use crate::records::outcome::{Reason, Trigger};
use crate::run_state::functions::SupervisedFunctions;
use crate::run_state::invocation::{Invocation, InvocationEnd, InvocationStage, WallTime};
use crate::run_state::queue::QueueBooks;
use fnd_wire::ids::{FunctionName, InvocationId, WorkerId};
use std::time::Duration;

fn invocation(n: u64, durable: bool, stage: InvocationStage) -> Invocation {
    Invocation {
        id: InvocationId(n.into()),
        function: SupervisedFunctions::default().find_or_add(&FunctionName::new("f").unwrap()),
        trigger: Trigger::Manual,
        accepted_ms: 0,
        payload: Payload::default(),
        load_key: None,
        timeout: None,
        deadline: None,
        expires: None,
        priority: 0,
        number: n,
        stage,
        durable,
        key: Some(IdempotencyKey::stored(format!("key {n}").into())),
        caller: None,
        of_stream: false,
        order_key: None,
        queue_key: None,
        acknowledge: Vec::new(),
        waiters: Vec::new(),
        caller_gone: false,
        attempts: 0,
        taken_over: None,
        polls: 0,
        started: None,
        last: None,
        version: None,
        previous: None,
        has_tmp: false,
    }
}

fn ready(n: u64) -> Invocation {
    invocation(n, false, InvocationStage::Ready)
}

fn storing(end: Option<InvocationEnd>) -> InvocationStage {
    InvocationStage::Storing { not_before: None, end }
}

fn stages() -> Vec<InvocationStage> {
    let (since, until) = (Duration::ZERO, Duration::ZERO);
    vec![
        storing(None),
        storing(Some(InvocationEnd::new(Reason::Cancelled, ""))),
        InvocationStage::Delayed {
            until: WallTime { unix_ms: 0, at: until },
        },
        InvocationStage::Ready,
        InvocationStage::Claiming {
            since,
            holds: false,
            group: None,
        },
        InvocationStage::Claiming {
            since,
            holds: true,
            group: Some("db".into()),
        },
        InvocationStage::Claimed,
        InvocationStage::Running { worker: WorkerId(1) },
        InvocationStage::BackingOff {
            until: WallTime { unix_ms: 5, at: until },
        },
        InvocationStage::Lost,
    ]
}

#[test]
fn each_stage_leaves_nothing_behind() {
    for (stage, durable) in stages().into_iter().zip([true, false].into_iter().cycle()) {
        let mut queue = QueueBooks::default();
        let mut invocation = invocation(1, durable, stage);
        queue.add(&invocation);
        assert_ne!(queue, QueueBooks::default());
        for to in stages() {
            queue.change(&mut invocation, to);
        }
        queue.change(&mut invocation, InvocationStage::Lost);
        queue.remove(&invocation);
        assert_eq!(queue, QueueBooks::default());
    }
}

/// Puts three invocations of one value through all stages: whatever happened before, the books are those of the stages.
#[test]
fn the_books_of_a_lane_depend_on_the_stages_alone() {
    for width in [1, 2] {
        let mut queue = QueueBooks::default();
        queue.set_per_key(width);
        let keyed = |n| Invocation {
            queue_key: Some("a".into()),
            order_key: (n == 3).then(|| "event".into()),
            ..invocation(n, n == 2, storing(None))
        };
        let mut lane: Vec<_> = (1..=3).map(keyed).collect();
        lane.iter().for_each(|invocation| queue.add(invocation));
        for step in 0..1000 {
            let (which, to) = (step * 7 % 3, step * 11 % stages().len());
            queue.change(&mut lane[which], stages().swap_remove(to));
            let mut counted = queue.emptied();
            lane.iter().for_each(|invocation| counted.add(invocation));
            assert_eq!(queue, counted, "step {step}");
            let may_begin = queue.waiting() - queue.held_back().len() - queue.claiming();
            assert!(may_begin <= width);
        }
        lane.iter().for_each(|invocation| queue.remove(invocation));
        assert_eq!(queue, queue.emptied());
    }
}

#[test]
fn one_that_is_claimed_waits_for_one_that_runs_although_it_came_before() {
    // Both went on at once without a key; then a release has one.
    let mut queue = QueueBooks::default();
    let mut claimed = invocation(1, true, InvocationStage::Claimed);
    let mut running = invocation(2, false, InvocationStage::Running { worker: WorkerId(1) });
    for invocation in [&mut claimed, &mut running] {
        queue.add(invocation);
        queue.set_key(invocation, Some("a".into()));
    }
    assert_eq!(queue.first_ready(), None);
    queue.remove(&running);
    assert_eq!(queue.first_ready(), Some(claimed.id));
}

#[test]
fn books_are_the_same_however_the_stage_was_reached() {
    for at in 0..stages().len() {
        for to in stages() {
            let (mut changed, mut added) = (QueueBooks::default(), QueueBooks::default());
            let mut invocation = invocation(1, true, stages().swap_remove(at));
            changed.add(&invocation);
            changed.change(&mut invocation, to);
            added.add(&invocation);
            assert_eq!(changed, added);
        }
    }
}

#[test]
fn retries_begin_first_then_the_greater_priority_then_the_older() {
    let mut queue = QueueBooks::default();
    let urgent = Invocation {
        priority: 1,
        ..ready(3)
    };
    let retried = Invocation {
        attempts: 1,
        ..ready(4)
    };
    for invocation in [ready(1), ready(2), urgent, retried] {
        queue.add(&invocation);
    }
    let order: Vec<_> = std::iter::from_fn(|| queue.take_ready()).map(|id| id.0).collect();
    assert_eq!(order, [4, 3, 1, 2]);
}

#[test]
fn an_unclaimed_one_is_first_only_if_it_may_be_claimed() {
    let mut queue = QueueBooks::default();
    queue.add(&invocation(1, true, InvocationStage::Ready));
    assert_eq!((queue.has_first(false), queue.has_first(true)), (false, true));
    assert!(queue.is_first_unclaimed());
    queue.add(&ready(2));
    assert!(queue.has_first(false) && queue.is_first_unclaimed());
    assert_eq!(queue.take_first(), Some(InvocationId(1)));
    assert_eq!(queue.take_first(), Some(InvocationId(2)));
    assert_eq!(queue.take_first(), None);
}

#[test]
fn one_that_was_ended_while_it_is_stored_counts_for_no_place() {
    let mut queue = QueueBooks::default();
    let mut invocation = invocation(1, true, storing(None));
    queue.add(&invocation);
    assert_eq!((queue.storing(), queue.live().len()), (1, 1));
    queue.change(
        &mut invocation,
        storing(Some(InvocationEnd::new(Reason::Cancelled, ""))),
    );
    assert_eq!((queue.storing(), queue.live().len()), (0, 0));
    assert!(queue.is_storing());
    queue.remove(&invocation);
    assert!(!queue.is_storing());
}
