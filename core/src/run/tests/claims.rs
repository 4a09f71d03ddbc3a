//! Asynchronous work begins only after its claim is on disk.

use super::bench::*;
use super::pool;
use crate::records::InvocationRecord;
use crate::records::outcome::Reason;
use crate::records::outcome::RunState;
use crate::run::{Action, Answered, Event, Exited, NodeBudget, Pool, Rules, Submit};
use fnd_wire::{frame::ExitStatus, ids::WorkerId};
use std::time::Duration;

fn unclaimed(rules: Rules) -> Bench {
    let mut bench = Bench::with(rules);
    bench.claims = false;
    bench
}

fn claimed(b: &mut Bench, ids: &[u128]) -> String {
    b.event(Event::Claimed(ids.iter().copied().map(id).collect()))
}

fn failed(b: &mut Bench, ids: &[u128]) -> String {
    b.event(Event::ClaimFailed(ids.iter().copied().map(id).collect()))
}

/// The updates that the last event caused.
fn updates(b: &Bench) -> Vec<&InvocationRecord> {
    let updates = b.last.iter().filter_map(|action| match action {
        Action::Update(record) => Some(&**record),
        _ => None,
    });
    updates.collect()
}

fn places(max_running: u32) -> Rules {
    Rules { max_running, ..rules() }
}

/// Rules of a handler with one worker, which stays.
fn handler() -> Rules {
    pool::handler(Pool {
        most: 1,
        idle: None,
        ..pool::pool()
    })
}

fn ready(b: &mut Bench, worker: u64) -> String {
    b.spawned(worker);
    b.event(Event::WorkerReady {
        worker: WorkerId(worker),
        concurrency: 1,
        cancels: false,
    })
}

fn answered(b: &mut Bench, call: u64) -> String {
    b.event(Event::Answered(Box::new(Answered {
        worker: WorkerId(1),
        call,
        reason: Reason::Ok,
        message: String::new(),
        result: None,
    })))
}

#[test]
fn an_attempt_begins_when_its_claim_is_on_disk() {
    let mut b = unclaimed(rules());
    assert_eq!(b.submit_stored(1), "reply 1: queued; claim 1 a1");
    let Some(Action::Claim(stands)) = b.last.iter().find(|action| matches!(action, Action::Claim(_))) else {
        panic!("no claim");
    };
    assert_eq!((stands.state, stands.attempts), (RunState::Running, 1));
    assert_eq!(
        b.s.invocation(id(1)).unwrap().state,
        RunState::Queued,
        "it has not begun"
    );
    assert_eq!((b.s.queued(), b.s.running()), (1, 0));
    assert_eq!(claimed(&mut b, &[1]), "spawn w1 a1 1");
    assert_eq!(claimed(&mut b, &[1]), "", "told twice");
}

#[test]
fn a_caller_who_waits_needs_no_claim() {
    let mut b = unclaimed(places(2));
    assert_eq!(b.submit(1), "note 1; spawn w1 a1 1");
    b.submit_stored(2);
    assert_eq!(b.submit(3), "note 3", "the claim of 2 holds the place");
    assert_eq!(claimed(&mut b, &[2]), "spawn w2 a1 2");
}

#[test]
fn every_retry_is_claimed() {
    let mut rules = rules();
    rules.retry.retries = 1;
    let mut b = unclaimed(rules);
    b.submit_stored(1);
    claimed(&mut b, &[1]);
    b.spawned(1);
    assert_eq!(b.code(1, 1), "record exit-1: waiting exit-1");
    assert_eq!(b.wait(secs(1)), "claim 1 a2");
    assert_eq!(claimed(&mut b, &[1]), "spawn w2 a2 1");
}

#[test]
fn cancelled_while_being_claimed_it_never_begins() {
    let mut b = unclaimed(rules());
    b.submit_stored(1);
    b.submit_stored(2);
    assert_eq!(b.cancel(1), "update 1 cancelled cancelled; reply 99: done; claim 2 a1");
    assert_eq!(claimed(&mut b, &[1]), "");
    assert_eq!(claimed(&mut b, &[2]), "spawn w1 a1 2");
}

#[test]
fn deleted_disabled_or_expired_while_being_claimed_it_never_begins() {
    let mut b = unclaimed(places(2));
    let expiring = Submit {
        wait: false,
        expires_ms: Some(EPOCH_MS + 1000),
        ..submit("f", 1)
    };
    b.request(expiring);
    assert_eq!(b.event(Event::Stored(id(1))), "reply 1: queued; claim 1 a1");
    assert_eq!(b.wait(secs(1)), "update 1 skipped skipped-expired");
    b.submit_stored(2);
    assert_eq!(
        b.event(Event::Removed(name("f"))),
        "follow 2; update 2 skipped skipped-deleted"
    );
    assert_eq!(claimed(&mut b, &[1, 2]), "");
    assert_eq!((b.s.queued(), b.s.running(), b.s.next_deadline()), (0, 0, None));
}

#[test]
fn what_has_not_begun_waits_for_the_next_fnd() {
    for end in [Event::HandOver, Event::Drain, Event::StopNow, Event::SpawnerLost] {
        let mut b = unclaimed(rules());
        b.submit_stored(1);
        let drained = matches!(end, Event::HandOver | Event::Drain | Event::StopNow);
        assert_eq!(b.event(end), if drained { "drained" } else { "" });
        let stands = updates(&b);
        assert_eq!((stands[0].state, stands[0].attempts), (RunState::Queued, 0));
        assert_eq!(stands[0].started_ms, None);
        assert_eq!(claimed(&mut b, &[1]), "");
    }
}

#[test]
fn a_claim_that_fails_is_tried_again_ever_later_and_keeps_no_caller_waiting() {
    let mut b = unclaimed(rules());
    b.submit_stored(1);
    assert_eq!(failed(&mut b, &[1]), "");
    assert_eq!(b.s.invocation(id(1)).unwrap().state, RunState::Queued);
    assert_eq!(b.submit(2), "note 2; spawn w1 a1 2");
    b.spawned(1);
    b.code(1, 0);
    assert_eq!(b.wait(Duration::from_millis(999)), "");
    assert_eq!(b.wait(Duration::from_millis(1)), "claim 1 a1");
    failed(&mut b, &[1]);
    assert_eq!(b.wait(Duration::from_millis(1999)), "");
    assert_eq!(b.wait(Duration::from_millis(1)), "claim 1 a1");
    assert_eq!(claimed(&mut b, &[1]), "spawn w2 a1 1");
    b.submit_stored(3);
    b.spawned(2);
    assert_eq!(b.code(2, 0), "record ok: succeeded ok; claim 3 a1");
    failed(&mut b, &[3]);
    assert_eq!(b.wait(secs(1)), "claim 3 a1", "the pause is short again");
}

#[test]
fn a_claim_holds_its_place_in_the_budget() {
    let mut b = Bench::new();
    b.claims = false;
    b.s.set_budget(NodeBudget {
        memory: 256 * MIB,
        cpu_milli: None,
        workers: 1,
    });
    b.event(installed("f", 1, rules()));
    b.event(installed("g", 2, rules()));
    b.submit_stored(1);
    assert_eq!(b.request(submit("g", 2)), "note 2");
    assert_eq!(claimed(&mut b, &[1]), "spawn w1 a1 1");
    b.spawned(1);
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; spawn w2 a1 2");
}

#[test]
fn a_free_worker_does_not_wait_for_the_disk_while_somebody_waits_for_it() {
    let mut b = unclaimed(handler());
    b.submit_stored(1);
    b.submit(2);
    assert_eq!(ready(&mut b, 1), "claim 1 a1; call w1 #1 a1 2");
    assert_eq!(claimed(&mut b, &[1]), "");
    b.submit(3);
    let next = answered(&mut b, 1);
    assert_eq!(
        next, "record ok: succeeded ok; reply 2: succeeded ok; call w1 #2 a1 1",
        "it was first"
    );
}

#[test]
fn the_next_one_is_claimed_where_the_first_ends_before_its_claim_is_on_disk() {
    let mut b = unclaimed(handler());
    b.submit_stored(1);
    b.submit_stored(2);
    assert_eq!(ready(&mut b, 1), "claim 1 a1");
    assert_eq!(b.cancel(1), "update 1 cancelled cancelled; reply 99: done; claim 2 a1");
    assert_eq!(claimed(&mut b, &[1]), "");
    assert_eq!(claimed(&mut b, &[2]), "call w1 #1 a1 2");
}

#[test]
fn short_runs_are_claimed_ahead_and_long_ones_are_not() {
    for (lasts, ahead) in [(Duration::from_millis(1), 16), (secs(1), 0)] {
        let mut rules = handler();
        rules.queue.max = 1000;
        let mut b = unclaimed(rules);
        for n in 1..=100 {
            b.submit_stored(n);
        }
        assert_eq!(ready(&mut b, 1), "claim 1 a1");
        // The time that the disk takes.
        b.wait(Duration::from_millis(1));
        assert_eq!(claimed(&mut b, &[1]), "call w1 #1 a1 1");
        b.wait(lasts);
        assert_eq!(answered(&mut b, 1), "record ok: succeeded ok; claim 2 a1");
        b.wait(Duration::from_millis(1));
        let actions = claimed(&mut b, &[2]);
        assert_eq!(actions.matches("claim").count(), ahead, "{actions}");
        if ahead > 0 {
            assert_eq!(claimed(&mut b, &(3..=18).collect::<Vec<_>>()), "");
            let next = answered(&mut b, 2);
            assert!(next.starts_with("record ok: succeeded ok; call w1 #3 a1 3"), "{next}");
        }
    }
}

#[test]
fn scripts_are_claimed_ahead_too() {
    let mut b = unclaimed(rules());
    for n in 1..=20 {
        b.submit_stored(n);
    }
    b.wait(Duration::from_millis(1));
    assert_eq!(claimed(&mut b, &[1]), "spawn w1 a1 1");
    b.spawned(1);
    b.wait(Duration::from_millis(4));
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; claim 2 a1");
    b.wait(Duration::from_millis(1));
    let actions = claimed(&mut b, &[2]);
    assert!(actions.starts_with("spawn w2 a1 2; claim 3 a1"), "{actions}");
    claimed(&mut b, &[3, 4]);
    let exit = Exited {
        late: None,
        ..exit(2, ExitStatus::Code(0))
    };
    b.spawned(2);
    let actions = b.exited(exit);
    assert!(
        actions.starts_with("record ok: succeeded ok; spawn w3 a1 3"),
        "{actions}"
    );
    assert_eq!(b.s.queued(), 17);
}
