//! Messages that several nodes share: claims that the register does not take, leases that end, and work that another node has.

use super::bench::*;
use super::pool;
use crate::records::cause::{Cause, EventCause};
use crate::records::outcome::{Class, Reason, RunState, Trigger};
use crate::records::{Attributes, InvocationRecord, MessageMark, Payload, StreamPlace};
use crate::run::{
    Action, AdoptedMember, Answered, Event, Exited, FunctionKind, NodeBudget, Pool, Restored, RoomForMessages, Rules,
    Submit, TakenOver,
};
use fnd_wire::frame::ExitStatus;
use fnd_wire::ids::WorkerId;
use std::sync::Arc;
use std::time::Duration;

/// Rules of a function whose work may begin again after an attempt without an end.
fn fenced(retries: u32) -> Rules {
    let mut rules = rules();
    rules.retry.retries = retries;
    rules.retry.on.push(Class::Interrupted);
    rules
}

/// Rules of a handler with one worker, which stays.
fn handler() -> Rules {
    pool::handler(Pool {
        most: 1,
        idle: None,
        ..pool::pool()
    })
}

/// A message of which other nodes have begun so many attempts; they end nowhere.
fn message(n: u128, begun: u32) -> Submit {
    let mark = MessageMark {
        key: format!("claims.{n}").into(),
        place: StreamPlace {
            stream: "ORDERS".into(),
            created_ns: 1,
            sequence: u64::try_from(n).unwrap(),
        },
        consumer: "fnd-f".into(),
        ack: "$JS.ACK.ORDERS".into(),
        revision: None,
        received_ms: EPOCH_MS,
        begun,
        is_accepted: false,
    };
    let taken_over = TakenOver {
        message: "vm1 had begun it at 09:14:03 and was silent for 31s".to_owned(),
        is_last: false,
    };
    Submit {
        message: Some(Box::new(mark)),
        taken_over: (begun > 0).then(|| Box::new(taken_over)),
        ..Submit::new(id(n), name("f"), Trigger::Nats)
    }
}

fn send(b: &mut Bench, submit: Submit) -> String {
    b.event(Event::Submit(Box::new(submit)))
}

/// Submits a message and stores it.
fn stored(b: &mut Bench, submit: Submit) -> String {
    let id = submit.id;
    send(b, submit);
    b.event(Event::Stored(id))
}

fn unclaimed(rules: Rules) -> Bench {
    let mut bench = Bench::with(rules);
    bench.claims = false;
    bench
}

fn claimed(b: &mut Bench, n: u128) -> String {
    b.event(Event::Claimed(vec![id(n)]))
}

fn put_off(b: &mut Bench, n: u128) -> String {
    let pause = secs(1);
    b.event(Event::ClaimPutOff { id: id(n), pause })
}

fn lease_lost(b: &mut Bench, n: u128) -> String {
    b.event(Event::LeaseLost(vec![(id(n), secs(23))]))
}

fn withdraw(b: &mut Bench, n: u128) -> String {
    b.event(Event::Withdraw(id(n)))
}

fn superseded(b: &mut Bench, n: u128) -> String {
    let node = "vm2".into();
    b.event(Event::Superseded { id: id(n), node })
}

fn killed(b: &mut Bench, worker: u64) -> String {
    b.exited(exit(worker, ExitStatus::Signal(15)))
}

/// The updates that the last event caused.
fn updates(b: &Bench) -> Vec<&InvocationRecord> {
    let updates = b.last.iter().filter_map(|action| match action {
        Action::Update(record) => Some(&**record),
        _ => None,
    });
    updates.collect()
}

#[test]
fn an_attempt_of_a_silent_node_counts_as_interrupted_and_as_one() {
    let mut b = Bench::with(fenced(3));
    assert_eq!(send(&mut b, message(1, 2)), "store 1");
    assert_eq!(b.event(Event::Stored(id(1))), "record interrupted: waiting interrupted");
    let Some(Action::Record(attempt, stands)) = b.last.iter().find(|action| matches!(action, Action::Record(..)))
    else {
        panic!("{:?}", b.last);
    };
    assert_eq!((attempt.attempt.0, stands.attempts), (2, 2));
    assert_eq!(attempt.message, "vm1 had begun it at 09:14:03 and was silent for 31s");
    assert_eq!((attempt.worker, attempt.duration_us), (None, 0));
    // It is the second attempt, so the pause is that after the first retry.
    assert_eq!(b.wait(Duration::from_millis(1999)), "");
    assert_eq!(b.wait(Duration::from_millis(1)), "spawn w1 a3 1");
    b.spawned(1);
    assert_eq!(b.code(1, 0), "record ok: succeeded ok");
}

#[test]
fn work_that_does_not_begin_again_ends_where_it_was_taken_over() {
    let mut b = Bench::with(rules());
    assert_eq!(
        stored(&mut b, message(1, 1)),
        "record interrupted: interrupted interrupted"
    );
    assert_eq!((b.s.queued(), b.s.next_deadline()), (0, None));
    // All retries are used up, on whatever nodes.
    let mut b = Bench::with(fenced(2));
    let ended = "record interrupted: interrupted interrupted Retries";
    assert_eq!(stored(&mut b, message(1, 3)), ended);
    // Too many have had no end, so the policy is not asked.
    let mut b = Bench::with(fenced(9));
    let mut last = message(1, 1);
    last.taken_over.as_mut().unwrap().is_last = true;
    assert_eq!(stored(&mut b, last), ended);
}

#[test]
fn what_ends_it_while_it_is_stored_comes_after_the_lost_attempt() {
    let mut b = Bench::with(fenced(3));
    send(&mut b, message(1, 1));
    assert_eq!(b.cancel(1), "reply 99: done");
    assert_eq!(b.event(Event::Stored(id(1))), "record interrupted: cancelled cancelled");
    // Its function is deleted: it had begun, so it is not given back.
    let mut b = Bench::with(fenced(3));
    send(&mut b, message(1, 1));
    b.event(Event::Removed(name("f")));
    let end = b.event(Event::Stored(id(1)));
    assert!(end.ends_with("record interrupted: interrupted interrupted"), "{end}");
    // Nothing of one that could not be stored is recorded: it comes again.
    let mut b = Bench::with(fenced(3));
    send(&mut b, message(1, 1));
    assert_eq!(b.event(Event::StoreFailed(id(1))), "");
    assert_eq!((b.s.queued(), b.s.next_deadline()), (0, None));
}

#[test]
fn a_claim_that_the_register_does_not_take_is_sent_again_and_keeps_nobody_waiting() {
    let mut b = unclaimed(rules());
    assert_eq!(stored(&mut b, message(1, 0)), "claim 1 a1");
    assert_eq!(stored(&mut b, message(2, 0)), "", "the claim has the only place");
    assert_eq!(put_off(&mut b, 1), "claim 2 a1");
    let stands = updates(&b);
    assert_eq!(
        (stands[0].id, stands[0].state, stands[0].attempts),
        (id(1), RunState::Queued, 0)
    );
    assert_eq!(claimed(&mut b, 2), "spawn w1 a1 2");
    b.spawned(1);
    assert_eq!(b.code(1, 0), "record ok: succeeded ok");
    assert_eq!(b.wait(Duration::from_millis(999)), "");
    assert_eq!(b.wait(Duration::from_millis(1)), "claim 1 a1");
    assert_eq!(put_off(&mut b, 9), "", "nobody knows it");
    assert_eq!(claimed(&mut b, 1), "spawn w2 a1 1");
}

/// The register or the ledger may answer long after that. A claim in the ledger is replaced by the record of what has happened.
#[test]
fn nobody_waits_for_a_claim_whose_invocation_has_ended_or_was_put_back() {
    for answer in [claimed, put_off] {
        let mut b = unclaimed(rules());
        assert_eq!(stored(&mut b, message(1, 0)), "claim 1 a1");
        b.cancel(1);
        assert_eq!(updates(&b)[0].state, RunState::Cancelled);
        assert_eq!(answer(&mut b, 1), "");
        assert_eq!(stored(&mut b, message(2, 0)), "claim 2 a1");
        b.event(Event::HandOver);
        let stands = updates(&b);
        assert_eq!((stands[0].state, stands[0].attempts), (RunState::Queued, 0));
        let then = answer(&mut b, 2);
        assert!(!then.contains("spawn"), "the next fnd claims it: {then}");
    }
}

#[test]
fn a_claim_that_is_put_off_keeps_its_place_in_its_order() {
    let in_order = |n| {
        let cause = Cause::Event(EventCause {
            attributes: Attributes::default(),
            order_key: Some("a".to_owned()),
            depth: 0,
        });
        let payload = Payload {
            cause: Some(Arc::new(cause)),
            ..Payload::default()
        };
        Submit {
            payload,
            ..message(n, 0)
        }
    };
    let mut b = unclaimed(Rules {
        max_running: 2,
        ..rules()
    });
    assert_eq!(stored(&mut b, in_order(1)), "claim 1 a1");
    assert_eq!(stored(&mut b, in_order(2)), "");
    assert_eq!(put_off(&mut b, 1), "", "the second one does not overtake it");
    assert_eq!(b.wait(secs(1)), "claim 1 a1");
}

#[test]
fn no_message_is_claimed_before_it_can_begin() {
    let mut b = unclaimed(rules());
    for n in 1..=20 {
        stored(&mut b, message(n, 0));
    }
    b.wait(Duration::from_millis(1));
    assert_eq!(claimed(&mut b, 1), "spawn w1 a1 1");
    b.spawned(1);
    b.wait(Duration::from_millis(4));
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; claim 2 a1");
    b.wait(Duration::from_millis(1));
    assert_eq!(claimed(&mut b, 2), "spawn w2 a1 2");
}

#[test]
fn an_attempt_whose_lease_is_lost_is_ended_and_may_begin_again() {
    let mut b = Bench::with(fenced(1));
    assert_eq!(stored(&mut b, message(1, 0)), "spawn w1 a1 1");
    b.spawned(1);
    assert_eq!(lease_lost(&mut b, 1), "term w1");
    assert_eq!(lease_lost(&mut b, 1), "", "it is being ended");
    assert_eq!(killed(&mut b, 1), "record lease-lost: waiting lease-lost");
    let Some(Action::Record(attempt, _)) = b.last.iter().find(|action| matches!(action, Action::Record(..))) else {
        panic!("{:?}", b.last);
    };
    assert_eq!(
        attempt.message,
        "the server of NATS did not answer for 23s, and another node may begin the message soon (nats.ack_wait)"
    );
    assert_eq!(b.wait(secs(1)), "spawn w2 a2 1");

    let mut b = Bench::with(rules());
    stored(&mut b, message(1, 0));
    b.spawned(1);
    lease_lost(&mut b, 1);
    assert_eq!(killed(&mut b, 1), "record lease-lost: interrupted lease-lost");
    assert_eq!(lease_lost(&mut b, 1), "", "it has ended");
}

#[test]
fn what_was_claimed_and_has_not_begun_is_claimed_again_after_a_lost_lease() {
    let mut b = unclaimed(handler());
    stored(&mut b, message(1, 0));
    b.submit(2);
    b.spawned(1);
    let ready = Event::WorkerReady {
        worker: WorkerId(1),
        concurrency: 1,
        cancels: false,
    };
    assert_eq!(b.event(ready), "claim 1 a1; call w1 #1 a1 2");
    assert_eq!(claimed(&mut b, 1), "");
    assert_eq!(lease_lost(&mut b, 1), "");
    let stands = updates(&b);
    assert_eq!(
        (stands[0].id, stands[0].state, stands[0].attempts),
        (id(1), RunState::Queued, 0)
    );
    let answered = Event::Answered(Box::new(Answered {
        worker: WorkerId(1),
        call: 1,
        reason: Reason::Ok,
        message: String::new(),
        result: None,
    }));
    assert_eq!(
        b.event(answered),
        "record ok: succeeded ok; reply 2: succeeded ok; claim 1 a1"
    );
    assert_eq!(claimed(&mut b, 1), "call w1 #2 a1 1");
}

#[test]
fn what_has_not_begun_can_be_given_back_in_each_stage() {
    // While it is stored: the answer of the ledger finds nothing.
    let mut b = unclaimed(rules());
    send(&mut b, message(1, 0));
    assert_eq!(withdraw(&mut b, 1), "withdraw 1");
    assert_eq!(b.event(Event::Stored(id(1))), "");
    // While it is claimed: the next one gets its place, and the answer of the register finds nothing.
    stored(&mut b, message(2, 0));
    stored(&mut b, message(3, 0));
    assert_eq!(withdraw(&mut b, 2), "withdraw 2; claim 3 a1");
    assert_eq!(updates(&b).len(), 1, "the claim may be on disk");
    assert_eq!(put_off(&mut b, 2), "");
    // While it waits, and before its time.
    stored(&mut b, message(4, 0));
    assert_eq!(withdraw(&mut b, 4), "withdraw 4");
    assert!(updates(&b).is_empty());
    let later = Submit {
        not_before_ms: Some(EPOCH_MS + 60_000),
        ..message(5, 0)
    };
    stored(&mut b, later);
    assert_eq!(withdraw(&mut b, 5), "withdraw 5");
    assert_eq!((b.s.queued(), b.s.next_deadline()), (1, None));
    assert_eq!(withdraw(&mut b, 5), "", "it is gone");
}

#[test]
fn what_has_begun_is_not_given_back() {
    let mut rules = rules();
    rules.retry.retries = 1;
    let mut b = unclaimed(rules);
    stored(&mut b, message(1, 0));
    claimed(&mut b, 1);
    b.spawned(1);
    assert_eq!(withdraw(&mut b, 1), "", "it runs");
    assert_eq!(b.code(1, 1), "record exit-1: waiting exit-1");
    assert_eq!(withdraw(&mut b, 1), "", "it waits for its retry");
    assert_eq!(b.wait(secs(1)), "claim 1 a2");
    assert_eq!(withdraw(&mut b, 1), "", "its retry is claimed");
    assert_eq!(claimed(&mut b, 1), "spawn w2 a2 1");
}

#[test]
fn a_call_is_never_given_back() {
    let mut b = Bench::with(rules());
    b.submit(1);
    b.submit(2);
    assert_eq!(
        (withdraw(&mut b, 2), superseded(&mut b, 2)),
        (String::new(), String::new())
    );
    assert_eq!(b.s.queued(), 1);
}

#[test]
fn a_function_that_is_disabled_or_deleted_gives_its_messages_back() {
    for end in [
        Event::Removed(name("f")),
        installed(
            "f",
            2,
            Rules {
                enabled: false,
                ..rules()
            },
        ),
    ] {
        let mut b = unclaimed(rules());
        stored(&mut b, message(1, 0));
        stored(&mut b, message(2, 0));
        let actions = b.event(end);
        assert!(
            actions.contains("withdraw 1") && actions.contains("withdraw 2"),
            "{actions}"
        );
        assert!(!actions.contains("skipped"), "{actions}");
        assert_eq!(b.s.queued(), 0);
    }
}

/// Nobody else gets it, so it may be claimed ahead and is skipped like other work.
#[test]
fn a_message_that_is_acknowledged_already_is_not_given_back() {
    let mut submit = message(1, 0);
    if let Some(mark) = &mut submit.message {
        mark.is_accepted = true;
    }
    let mut b = unclaimed(rules());
    stored(&mut b, submit);
    let disabled = Rules {
        enabled: false,
        ..rules()
    };
    let actions = b.event(installed("f", 2, disabled));
    assert!(
        !actions.contains("withdraw") && actions.contains("skipped"),
        "{actions}"
    );
}

#[test]
fn what_another_node_has_leaves_no_record_unless_it_had_begun_here() {
    let mut rules = rules();
    rules.retry.retries = 1;
    rules.has_hooks = true;
    let mut b = unclaimed(rules);
    stored(&mut b, message(1, 0));
    assert_eq!(superseded(&mut b, 1), "withdraw 1");
    assert_eq!(put_off(&mut b, 1), "");

    stored(&mut b, message(2, 0));
    claimed(&mut b, 2);
    b.spawned(1);
    assert_eq!(superseded(&mut b, 2), "", "its own end says that it does not count");
    assert_eq!(b.code(1, 1), "record exit-1: waiting exit-1");
    assert_eq!(b.wait(secs(1)), "claim 2 a2");
    // No call follows that end, although the function has hooks.
    assert_eq!(superseded(&mut b, 2), "supersede 2 interrupted interrupted by vm2");
    let Some(Action::Supersede(record, _)) = b.last.iter().find(|action| matches!(action, Action::Supersede(..)))
    else {
        panic!("{:?}", b.last);
    };
    assert_eq!((record.attempts, &*record.message), (1, "vm2 goes on with it"));
    assert!(record.ended_ms.is_some() && record.next_attempt_ms.is_none());
    assert_eq!(put_off(&mut b, 2), "");
    assert_eq!((b.s.queued(), b.s.next_deadline()), (0, None));
}

#[test]
fn a_drain_that_is_cancelled_waits_for_claims_that_are_put_off_too() {
    let mut b = unclaimed(rules());
    stored(&mut b, message(1, 0));
    b.event(Event::Drain);
    b.event(Event::CancelDrain);
    assert!(b.s.is_draining(), "a claim is not answered");
    assert_eq!(put_off(&mut b, 1), "claim 1 a1");
    assert!(!b.s.is_draining());
}

/// Its message is given back, and the register may have the claim, which is ended when its answer comes.
#[test]
fn a_drain_ends_once_the_claims_of_messages_are_answered() {
    for answer in [claimed, put_off] {
        let mut b = unclaimed(rules());
        stored(&mut b, message(1, 0));
        let drains = b.event(Event::Drain);
        assert!(!drains.contains("drained"), "{drains}");
        let given_back = withdraw(&mut b, 1);
        assert!(!given_back.contains("drained"), "{given_back}");
        assert_eq!(answer(&mut b, 1), "drained");
    }
    let mut b = unclaimed(rules());
    stored(&mut b, message(1, 0));
    b.event(Event::Drain);
    assert_eq!(b.event(Event::StopNow), "drained", "it waits for nobody");
}

/// The spawner has the end of the lease as the deadline of the worker. It is before the timeout of 180 s.
#[test]
fn what_the_spawner_ended_before_its_limits_has_lost_its_lease() {
    for (trigger, lasted, expected) in [
        (Trigger::Nats, 23, "record lease-lost: waiting lease-lost"),
        (Trigger::Nats, 180, "record timeout: waiting timeout"),
        // Nothing else has such a lease.
        (Trigger::Manual, 23, "record timeout: waiting timeout"),
    ] {
        let mut b = Bench::with(fenced(1));
        let submit = Submit {
            trigger,
            ..message(1, 0)
        };
        stored(&mut b, submit);
        b.spawned(1);
        b.now = b.now.after(secs(200));
        let ended = Exited {
            late: Some((Duration::ZERO, secs(lasted))),
            ..exit(1, ExitStatus::Signal(15))
        };
        assert_eq!(b.exited(ended), expected, "{trigger:?} {lasted}");
    }
}

/// Returns the attempts that ended with the last event: the reason of each, and how many seconds it lasted.
fn ended(b: &Bench) -> Vec<(u128, Reason, u64)> {
    let ended = b.last.iter().filter_map(|action| match action {
        Action::Record(attempt, _) => Some((attempt.invocation.0, attempt.reason, attempt.duration_us / 1_000_000)),
        _ => None,
    });
    let mut ended: Vec<_> = ended.collect();
    ended.sort_by_key(|(id, ..)| *id);
    ended
}

/// Returns a worker with the call of a message and another one.
fn two_calls(rules: Rules) -> Bench {
    let mut b = Bench::with(rules);
    stored(&mut b, message(1, 0));
    b.submit(2);
    b.spawned(1);
    let ready = Event::WorkerReady {
        worker: WorkerId(1),
        concurrency: 2,
        cancels: false,
    };
    let called = b.event(ready);
    assert_eq!(called.matches("call w1").count(), 2, "{called}");
    b
}

fn two_at_once() -> Rules {
    let kind = FunctionKind::Handler(Pool {
        concurrency: 2,
        ..*handler().kind.pool().unwrap()
    });
    Rules {
        kind,
        max_running: 2,
        ..fenced(1)
    }
}

/// Returns the end of a worker that the spawner ended `ago`, after 23 s.
fn fenced_by_spawner(ago: u64) -> Exited {
    Exited {
        late: Some((secs(ago), secs(23))),
        ..exit(1, ExitStatus::Signal(15))
    }
}

/// A warm worker has no other time at the spawner. Its other calls end with it, and are not at fault.
#[test]
fn the_call_of_a_message_has_lost_its_lease_where_the_spawner_ended_the_worker() {
    let mut b = two_calls(two_at_once());
    b.now = b.now.after(secs(90));
    b.exited(fenced_by_spawner(0));
    assert_eq!(ended(&b), [(1, Reason::LeaseLost, 23), (2, Reason::Interrupted, 23)]);
}

/// The worker was handed over with its calls, and the next fnd came too late.
#[test]
fn a_call_that_was_fenced_between_two_fnd_has_lost_its_lease() {
    for (is_ended, is_fenced, is_lost) in [(true, true, true), (false, true, true), (true, false, false)] {
        let b = two_calls(two_at_once());
        let text = serde_json::to_string(&b.s.member_record(WorkerId(1)).unwrap()).unwrap();
        let mut next = Bench::new();
        next.restore(Restored {
            members: vec![AdoptedMember {
                worker: WorkerId(1),
                record: serde_json::from_str(&text).unwrap(),
                age: secs(27),
                ended: is_ended,
                is_fenced,
            }],
            ..Restored::default()
        });
        next.event(installed("f", 1, two_at_once()));
        next.event(Event::Scanned { whole: true });
        assert!(!next.submit(3).contains("call w1"), "it takes no more calls");
        next.exited(fenced_by_spawner(4));
        let found = ended(&next);
        assert_eq!(found.len(), 2, "{found:?}");
        let has_lost = found[0].1 == Reason::LeaseLost;
        assert_eq!(has_lost, is_lost, "{is_ended} {is_fenced}: {found:?}");
    }
}

#[test]
fn messages_are_asked_for_as_far_as_they_could_begin() {
    let room = |places, group, is_held| Some((places, group, is_held));
    let of = |b: &Bench| {
        let room: RoomForMessages = b.s.room_for_messages(&name("f"))?;
        Some((room.places, room.group, room.is_held))
    };
    assert_eq!(of(&Bench::new()), None);
    let mut b = Bench::with(Rules {
        max_running: 4,
        ..rules()
    });
    assert_eq!(of(&b), room(4, None, false));
    send(&mut b, message(1, 0));
    assert_eq!(of(&b), room(3, None, false), "it is being stored");
    b.event(Event::Stored(id(1)));
    assert_eq!(of(&b), room(3, None, false), "it runs");
    b.event(Event::Full {
        function: name("f"),
        why: Some("full".into()),
    });
    assert_eq!(of(&b), room(3, None, true));
    b.event(Event::Full {
        function: name("f"),
        why: None,
    });
    b.event(Event::Drain);
    assert_eq!(of(&b), room(3, None, true));

    let mut rules = rules();
    rules.max_running = 4;
    rules.queue.group = Some("db".to_owned());
    let mut b = Bench::new();
    b.s.set_groups([("db", 2)]);
    b.event(installed("f", 1, rules));
    assert_eq!(of(&b), room(4, Some(2), false));
    assert_eq!(b.s.next_group(&name("f")), Some("db"));
    stored(&mut b, message(1, 0));
    assert_eq!(of(&b), room(3, Some(1), false));
}

#[test]
fn messages_are_asked_for_as_far_as_the_node_has_workers() {
    let script = Rules {
        max_running: 4,
        ..rules()
    };
    let mut b = Bench::with(script.clone());
    let of = |b: &Bench, function: &str| b.s.room_for_messages(&name(function)).map(|room| room.node);
    assert_eq!(of(&b, "f"), Some(10));
    b.s.set_budget(NodeBudget {
        memory: 1024 * MIB,
        cpu_milli: None,
        workers: 1,
    });
    b.event(installed("g", 2, script));
    assert_eq!((of(&b, "f"), of(&b, "g")), (Some(1), Some(1)));
    send(&mut b, message(1, 0));
    assert_eq!((of(&b, "f"), of(&b, "g")), (Some(0), Some(1)), "it is being stored");
    b.event(Event::Stored(id(1)));
    assert_eq!((of(&b, "f"), of(&b, "g")), (Some(0), Some(0)), "it runs");
}
