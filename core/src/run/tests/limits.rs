//! Draining and stopping, and the cost of ten thousand functions.

use super::bench::*;
use crate::run::{Event, Rules};
use fnd_wire::frame::ExitStatus::Signal;
use std::time::Duration;

#[test]
fn a_drain_finishes_what_runs_and_keeps_what_is_durable() {
    let mut rules = rules();
    rules.retry.retries = 1;
    let mut b = Bench::with(rules);
    b.submit_stored(1);
    b.submit_stored(2);
    b.submit(3);
    assert_eq!(
        b.event(Event::Drain),
        "reply 3: unavailable; update 3 cancelled cancelled"
    );
    assert_eq!(b.code(1, 1), "record exit-1: waiting exit-1; drained");
    assert_eq!(b.wait(secs(10)), "");
    assert_eq!(b.event(Event::Drain), "");
    assert_eq!(b.s.queued(), 2);
}

#[test]
fn a_caller_does_not_wait_for_a_retry_after_the_drain() {
    let mut rules = rules();
    rules.retry.retries = 1;
    let mut b = Bench::with(rules);
    b.submit(1);
    b.event(Event::Drain);
    assert_eq!(
        b.code(1, 1),
        "record exit-1: failed exit-1; reply 1: failed exit-1; drained"
    );
}

#[test]
fn a_cancelled_drain_runs_what_waits_and_accepts_again() {
    let mut rules = rules();
    rules.retry.retries = 1;
    let mut b = Bench::with(rules);
    b.submit_stored(1);
    b.submit_stored(2);
    // While something still runs.
    assert_eq!(b.event(Event::Drain), "");
    assert_eq!(b.event(Event::CancelDrain), "");
    assert!(!b.s.is_draining());
    let actions = b.code(1, 0);
    assert!(actions.contains("spawn w2"), "the other one begins: {actions}");
    // When nothing runs any more.
    b.event(Event::Drain);
    let actions = b.code(2, 1);
    assert!(actions.ends_with("; drained"), "{actions}");
    assert_eq!(b.wait(secs(10)), "");
    let actions = b.event(Event::CancelDrain);
    assert!(actions.contains("spawn w3"), "the retry begins: {actions}");
    // Without a drain nothing happens.
    assert_eq!(b.event(Event::CancelDrain), "");
}

#[test]
fn a_stop_and_a_hand_over_are_not_cancelled() {
    for end in [Event::StopNow, Event::HandOver] {
        let mut b = Bench::with(rules());
        b.event(end);
        assert_eq!(b.event(Event::CancelDrain), "");
        assert!(b.s.is_draining());
    }
}

#[test]
fn a_drain_waits_for_acknowledgements() {
    let mut b = Bench::with(rules());
    b.enqueue(submit("f", 1));
    assert_eq!(b.event(Event::Drain), "");
    assert_eq!(b.event(Event::Stored(id(1))), "reply 1: queued; drained");
}

#[test]
fn stop_kills_at_once_and_what_is_starting_as_soon_as_it_is_there() {
    let mut b = Bench::with(Rules {
        max_running: 2,
        ..rules()
    });
    b.submit_stored(1);
    b.submit_stored(2);
    b.spawned(1);
    assert_eq!(b.event(Event::StopNow), "kill w1");
    assert_eq!(b.event(Event::StopNow), "");
    assert_eq!(b.spawned(2), "kill w2");
    assert_eq!(
        b.exited(exit(1, Signal(9))),
        "record interrupted: interrupted interrupted"
    );
    assert_eq!(
        b.exited(exit(2, Signal(9))),
        "record interrupted: interrupted interrupted; drained"
    );
}

#[test]
fn an_idle_function_is_small() {
    let size = size_of::<crate::run_state::function::SupervisedFunction>()
        + size_of::<crate::run_state::releases::ServingRelease>();
    assert!(size < 320, "{size} bytes");
}

/// Prints the cost of one invocation among ten thousand functions; run in release mode with `--ignored --nocapture`.
#[test]
#[ignore = "a measurement, not a test"]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn cost_of_an_invocation_among_ten_thousand_functions() {
    const FUNCTIONS: u128 = 10_000;
    const ROUNDS: u128 = 200_000;
    let mut b = Bench::new();
    for n in 0..FUNCTIONS {
        b.event(installed(&format!("f{n}"), 1, rules()));
    }
    let names: Vec<String> = (0..FUNCTIONS).map(|n| format!("f{n}")).collect();
    let mut out = Vec::with_capacity(64);
    let mut spent = Duration::ZERO;
    for n in 0..ROUNDS {
        let function = &names[usize::try_from(n * 7919 % FUNCTIONS).unwrap()];
        let submit = Event::Submit(Box::new(submit(function, n + 5_000)));
        let worker = u64::try_from(n + 1).unwrap();
        let exited = Event::Exited(Box::new(exit(worker, fnd_wire::frame::ExitStatus::Code(0))));
        let begin = std::time::Instant::now();
        b.s.handle(b.now, submit, &mut out);
        b.s.handle(b.now, Event::Spawned(fnd_wire::ids::WorkerId(worker)), &mut out);
        b.s.handle(b.now, exited, &mut out);
        out.clear();
        spent += begin.elapsed();
    }
    println!(
        "{:?} for Submit, Spawned and Exited",
        spent / u32::try_from(ROUNDS).unwrap()
    );
}
