//! Services: kept running, with a delay after each end; replaced and ended with their function.

use super::bench::*;
use crate::records::outcome::Trigger;
use crate::run::{Event, FunctionKind, Rules, Service, Submit};
use fnd_wire::frame::ExitStatus;
use fnd_wire::ids::WorkerId;
use std::time::Duration;

fn service(ready: Option<&str>) -> Rules {
    let mut rules = Rules {
        max_running: 1,
        timeout: None,
        kind: FunctionKind::Service(Service {
            replicas: 1,
            ready: ready.map(str::to_owned),
            start_timeout: secs(10),
        }),
        ..rules()
    };
    rules.retry.backoff.jitter = crate::backoff::Jitter::None;
    rules
}

impl Bench {
    /// Submits the run that the supervisor requested.
    fn submit_requested(&mut self, n: u128) -> String {
        let submit = Submit {
            trigger: Trigger::Load,
            reply: None,
            wait: false,
            ..submit("f", n)
        };
        let stored = self.request(submit);
        assert_eq!(stored, format!("store {n}"));
        self.event(Event::Stored(id(n)))
    }

    fn running(ready: Option<&str>) -> Self {
        let mut b = Self::with(service(ready));
        assert_eq!(b.event(Event::Scanned { whole: true }), "run f");
        assert_eq!(b.submit_requested(1), "spawn w1 a1 1");
        assert_eq!(b.spawned(1), "");
        b
    }
}

#[test]
fn it_runs_by_itself_and_takes_no_invocations() {
    let mut b = Bench::running(None);
    assert_eq!(b.submit(9), "reply 9: a service");
    assert_eq!(b.wait(secs(100_000)), "");
}

#[test]
fn each_end_is_a_run_and_the_next_follows_after_a_growing_delay() {
    let mut b = Bench::running(None);
    let next = |b: &Bench| b.s.function(&name("f")).unwrap().next_attempt_ms;
    assert_eq!(next(&b), None);
    assert_eq!(b.code(1, 3), "record exit-3: failed exit-3");
    assert_eq!(next(&b), Some(b.now.unix_ms + 1_000));
    assert_eq!(b.wait(Duration::from_millis(999)), "");
    assert_eq!(b.wait(Duration::from_millis(1)), "run f");
    assert_eq!(next(&b), None);
    assert_eq!(b.submit_requested(2), "spawn w2 a1 2");
    b.spawned(2);
    // An exit with 0 is an end like any other.
    assert_eq!(b.code(2, 0), "record ok: succeeded ok");
    assert_eq!(b.wait(Duration::from_millis(1999)), "");
    assert_eq!(b.wait(Duration::from_millis(1)), "run f");
    b.submit_requested(3);
    b.spawned(3);
    b.wait(secs(60));
    // The process had run well for a while, so the first delay applies.
    b.code(3, 3);
    assert_eq!(b.wait(secs(1)), "run f");
}

#[test]
fn five_ends_in_a_minute_are_a_crash_loop_and_a_minute_without_one_ends_it() {
    let mut rules = service(None);
    rules.retry.backoff.interval = Duration::from_millis(10);
    let mut b = Bench::with(rules);
    b.event(Event::Scanned { whole: true });
    for n in 1..5 {
        b.submit_requested(n.into());
        b.spawned(n);
        b.code(n, 1);
        assert_eq!(b.wait(secs(1)), "run f");
    }
    b.submit_requested(5);
    b.spawned(5);
    assert_eq!(b.code(5, 1), "record exit-1: failed exit-1; Running to CrashLooping");
    assert_eq!(b.wait(secs(1)), "run f");
    b.submit_requested(6);
    b.spawned(6);
    assert_eq!(b.wait(secs(60)), "CrashLooping to Running");
}

#[test]
fn a_new_version_starts_when_the_old_one_has_ended() {
    let mut b = Bench::running(None);
    assert_eq!(b.event(installed("f", 2, service(None))), "term w1");
    assert_eq!(b.code(1, 0), "record cancelled: cancelled cancelled; run f");
    assert_eq!(b.submit_requested(2), "spawn w2 a1 2");
    b.spawned(2);
    // Installing the same version again changes nothing.
    assert_eq!(b.event(installed("f", 2, service(None))), "");
}

#[test]
fn it_ends_with_its_function_and_when_it_is_disabled_or_fnd_drains() {
    for event in [
        Event::Removed(name("f")),
        Event::SetEnabled {
            function: name("f"),
            enabled: false,
            reply: crate::run::ReplyTo(7),
        },
        Event::Drain,
    ] {
        let mut b = Bench::running(None);
        let actions = b.event(event);
        assert!(actions.contains("term w1"), "{actions}");
        let actions = b.code(1, 0);
        assert!(
            actions.starts_with("record ") && !actions.contains("run f"),
            "{actions}"
        );
    }
}

#[test]
fn one_that_a_drain_ended_starts_anew_when_the_drain_is_cancelled() {
    // After its end, and before it.
    let mut b = Bench::running(None);
    b.event(Event::Drain);
    b.code(1, 0);
    let actions = b.event(Event::CancelDrain);
    assert!(actions.contains("run f"), "{actions}");
    let mut b = Bench::running(None);
    b.event(Event::Drain);
    let early = b.event(Event::CancelDrain);
    let actions = b.code(1, 0);
    assert!(actions.contains("run f"), "{early} | {actions}");
}

#[test]
fn one_that_is_cancelled_is_started_again_at_once() {
    // The stop signal does not matter, and neither does a program that handles it.
    for status in [ExitStatus::Signal(15), ExitStatus::Signal(2), ExitStatus::Code(0)] {
        let mut b = Bench::running(None);
        assert_eq!(b.cancel(1), "term w1; reply 99: done");
        let end = b.exited(exit(1, status));
        assert_eq!(end, "record cancelled: cancelled cancelled; run f", "{status:?}");
    }
}

#[test]
fn a_restart_ends_it_and_it_begins_anew_at_once_also_in_a_pause() {
    let mut b = Bench::running(None);
    let restart = || Event::Restart(name("f"));
    assert_eq!(b.event(restart()), "term w1");
    assert_eq!(b.code(1, 0), "record cancelled: cancelled cancelled; run f");
    b.submit_requested(2);
    b.spawned(2);
    assert_eq!(b.code(2, 3), "record exit-3: failed exit-3");
    assert_eq!(b.event(restart()), "run f");
    b.submit_requested(3);
    b.spawned(3);
    assert_eq!(b.event(Event::Restart(name("other"))), "");
}

#[test]
fn one_that_was_stopped_in_a_pause_begins_at_once_when_it_is_started() {
    let mut b = Bench::running(None);
    b.code(1, 3);
    let mut enable = |enabled| {
        let (function, reply) = (name("f"), crate::run::ReplyTo(7));
        b.event(Event::SetEnabled {
            function,
            enabled,
            reply,
        })
    };
    enable(false);
    let actions = enable(true);
    assert!(actions.contains("run f"), "{actions}");
}

#[test]
fn one_that_is_started_in_a_pause_begins_at_once_and_its_failures_still_count() {
    let mut b = Bench::running(None);
    let start = || Event::SetEnabled {
        function: name("f"),
        enabled: true,
        reply: crate::run::ReplyTo(7),
    };
    b.code(1, 3);
    assert_eq!(b.event(start()), "run f; reply 7: done");
    b.submit_requested(2);
    b.spawned(2);
    assert_eq!(b.event(start()), "reply 7: done", "it runs already");
    b.code(2, 3);
    assert_eq!(b.wait(Duration::from_millis(1999)), "", "the second pause is longer");
    assert_eq!(b.wait(Duration::from_millis(1)), "run f");
}

/// It has no success that would end its failures.
#[test]
fn one_that_ran_well_fails_since_its_next_end() {
    let mut b = Bench::running(None);
    let since = |b: &Bench| b.s.function(&name("f")).unwrap().last.unwrap().failing_since_ms;
    b.code(1, 3);
    let first = b.now.unix_ms;
    b.wait(secs(1));
    b.submit_requested(2);
    b.spawned(2);
    b.code(2, 3);
    assert_eq!(since(&b), Some(first));
    b.wait(secs(2));
    b.submit_requested(3);
    b.spawned(3);
    b.wait(secs(60));
    b.code(3, 3);
    assert_eq!(since(&b), Some(b.now.unix_ms));
}

#[test]
fn one_that_is_not_ready_in_time_is_ended_and_says_why() {
    let mut b = Bench::running(Some("/healthz"));
    let (worker, why) = (WorkerId(1), "`/healthz` answered 500".to_owned());
    b.event(Event::NotReady { worker, why });
    assert_eq!(b.wait(secs(10)), "term w1");
    assert_eq!(b.code(1, 0), "record load: failed load");
    assert_eq!(b.wait(secs(1)), "run f");
    b.submit_requested(2);
    b.spawned(2);
    let (worker, concurrency) = (WorkerId(2), 1);
    b.event(Event::WorkerReady {
        worker,
        concurrency,
        cancels: false,
    });
    assert_eq!(b.wait(secs(1000)), "");
}
