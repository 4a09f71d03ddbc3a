//! Workers of handlers: when they start, which calls they get, when they stop.

use super::bench::*;
use crate::records::outcome::Reason;
use crate::run::{Action, Answered, Event, Exited, FunctionKind, FunctionState, Http, Pool, Rules};
use fnd_manifest::function::Listen;
use fnd_wire::frame::ExitStatus::{Code, Signal};
use fnd_wire::ids::WorkerId;

/// A pool of two workers, each with one call at once.
pub(super) fn pool() -> Pool {
    Pool {
        min: 0,
        most: 2,
        concurrency: 1,
        idle: Some(secs(300)),
        max_invocations: 0,
        max_age: None,
        spare: None,
        load_max: secs(30),
        alone: false,
    }
}

pub(super) fn handler(pool: Pool) -> Rules {
    Rules {
        max_running: pool.most,
        kind: FunctionKind::Handler(pool),
        ..rules()
    }
}

/// A bench with a handler whose worker 1 has served one call.
pub(super) fn warm() -> Bench {
    let mut b = Bench::with(handler(pool()));
    b.submit(1);
    b.ready(1);
    b.answer(1, 1, Reason::Ok);
    b
}

impl Bench {
    /// Starts a worker and loads its code.
    pub(super) fn ready(&mut self, worker: u64) -> String {
        self.spawned(worker);
        let concurrency = 100;
        let worker = WorkerId(worker);
        self.event(Event::WorkerReady {
            worker,
            concurrency,
            cancels: false,
        })
    }

    pub(super) fn answer(&mut self, worker: u64, call: u64, reason: Reason) -> String {
        self.event(Event::Answered(Box::new(Answered {
            worker: WorkerId(worker),
            call,
            reason,
            message: "why".to_owned(),
            result: None,
        })))
    }
}

#[test]
fn the_first_call_waits_for_a_worker_and_the_next_does_not() {
    let mut b = Bench::with(handler(pool()));
    assert_eq!(b.submit(1), "note 1; spawn w1");
    assert_eq!(b.ready(1), "call w1 #1 a1 1");
    assert_eq!(
        b.answer(1, 1, Reason::Ok),
        "record ok: succeeded ok; reply 1: succeeded ok"
    );
    assert_eq!(b.submit(2), "note 2; call w1 #2 a1 2");
}

#[test]
fn no_more_workers_start_than_calls_wait_for() {
    let mut b = Bench::with(handler(Pool {
        concurrency: 2,
        ..pool()
    }));
    assert_eq!(b.submit(1), "note 1; spawn w1");
    assert_eq!(b.submit(2), "note 2");
    assert_eq!(b.submit(3), "note 3; spawn w2");
    assert_eq!(b.ready(1), "call w1 #1 a1 1; call w1 #2 a1 2");
    assert_eq!(b.ready(2), "call w2 #3 a1 3");
}

#[test]
fn an_idle_worker_leaves_but_for_those_that_are_kept() {
    let mut b = warm();
    assert_eq!(b.wait(secs(299)), "");
    assert_eq!(b.wait(secs(1)), "stop w1");
    assert_eq!(b.code(1, 0), "forget w1");
    let mut b = Bench::with(handler(Pool { min: 1, ..pool() }));
    assert_eq!(b.actions(), "spawn w1");
    b.ready(1);
    assert_eq!(b.wait(secs(1000)), "");
}

#[test]
fn a_worker_that_may_not_idle_serves_the_call_that_waits() {
    let mut b = Bench::with(handler(Pool {
        idle: Some(secs(0)),
        ..pool()
    }));
    assert_eq!(b.submit(1), "note 1; spawn w1");
    assert_eq!(b.ready(1), "call w1 #1 a1 1");
    b.answer(1, 1, Reason::Ok);
    assert_eq!(b.wait(std::time::Duration::from_millis(1)), "stop w1");
}

/// A worker sees the directories as they were when it was started.
#[test]
fn a_changed_view_replaces_idle_workers_at_once_and_busy_ones_after_their_call() {
    let mut b = Bench::with(handler(Pool { min: 1, ..pool() }));
    let changed = || Event::ViewChanged(name("f"));
    b.ready(1);
    assert_eq!(b.event(changed()), "stop w1; spawn w2");
    b.ready(2);
    b.submit(1);
    assert_eq!(b.event(changed()), "spawn w3");
    assert_eq!(b.event(Event::ViewChanged(name("other"))), "");
    b.ready(3);
    assert_eq!(b.submit(2), "note 2; call w3 #2 a1 2");
    let end = b.answer(2, 1, Reason::Ok);
    assert_eq!(end, "record ok: succeeded ok; reply 1: succeeded ok; stop w2");
}

#[test]
fn a_restart_replaces_workers_as_a_changed_view_does() {
    let mut b = Bench::with(handler(Pool { min: 1, ..pool() }));
    b.ready(1);
    b.submit(1);
    assert_eq!(b.event(Event::Restart(name("f"))), "spawn w2");
    b.ready(2);
    let end = b.answer(1, 1, Reason::Ok);
    assert_eq!(end, "record ok: succeeded ok; reply 1: succeeded ok; stop w1");
}

/// Without it, its version would count as one that cannot be loaded.
#[test]
fn a_changed_view_leaves_a_worker_on_trial() {
    let mut b = Bench::with(handler(Pool { min: 1, ..pool() }));
    b.ready(1);
    assert_eq!(b.event(installed("f", 2, kept())), "spawn w2");
    b.spawned(2);
    assert_eq!(b.event(Event::ViewChanged(name("f"))), "stop w1; spawn w3");
    assert_eq!(trial(&b), Some((0, false)));
}

#[test]
fn a_fresh_worker_serves_one_call_and_another_waits() {
    let alone = Pool {
        most: 3,
        spare: Some(1),
        ..pool()
    };
    let mut b = Bench::with(handler(alone));
    b.submit(1);
    assert_eq!(b.ready(1), "call w1 #1 a1 1; spawn w2");
    let end = b.answer(1, 1, Reason::Ok);
    assert_eq!(end, "record ok: succeeded ok; reply 1: succeeded ok; stop w1");
    b.ready(2);
    assert_eq!(b.submit(2), "note 2; call w2 #2 a1 2; spawn w3");
}

#[test]
fn a_fresh_worker_does_not_start_beside_a_call_where_the_next_has_one() {
    let two = Pool {
        most: 4,
        spare: Some(2),
        ..pool()
    };
    let mut b = Bench::with(handler(two));
    b.submit(1);
    assert_eq!(b.ready(1), "call w1 #1 a1 1; spawn w2");
    let end = b.answer(1, 1, Reason::Ok);
    assert_eq!(end, "record ok: succeeded ok; reply 1: succeeded ok; stop w1; spawn w3");
    b.ready(2);
    b.ready(3);
    assert_eq!(b.submit(2), "note 2; call w3 #2 a1 2");
    let end = b.answer(3, 2, Reason::Ok);
    assert_eq!(end, "record ok: succeeded ok; reply 2: succeeded ok; stop w3; spawn w4");
}

#[test]
fn who_answers_what_it_was_not_asked_is_killed_and_its_call_has_failed() {
    let mut b = Bench::with(handler(pool()));
    b.submit(1);
    b.ready(1);
    assert_eq!(b.answer(1, 7, Reason::Ok), "kill w1");
    let end = b.exited(exit(1, Signal(9)));
    assert_eq!(
        end,
        "record bad-answer: failed bad-answer; reply 1: failed bad-answer; forget w1"
    );
}

#[test]
fn what_waits_hears_why_the_code_cannot_be_loaded() {
    let mut b = Bench::with(handler(pool()));
    b.submit(1);
    b.spawned(1);
    let (worker, message) = (WorkerId(1), "no module named x".to_owned());
    assert_eq!(b.event(Event::LoadFailed { worker, message }), "");
    assert_eq!(
        b.code(1, 1),
        "record load: failed load; reply 1: failed load; forget w1"
    );
}

#[test]
fn a_worker_that_only_exits_is_explained_by_what_it_printed() {
    for (line, expected) in [
        (None, "its worker exited before it was ready"),
        (Some("no licence"), "its worker exited before it was ready: no licence"),
    ] {
        let mut b = Bench::with(handler(pool()));
        b.submit(1);
        b.spawned(1);
        b.exited(Exited {
            last_error_line: line.map(str::to_owned),
            ..exit(1, Code(0))
        });
        let message = b.last.iter().find_map(|action| match action {
            Action::Record(attempt, _) => Some(attempt.message.clone()),
            _ => None,
        });
        assert_eq!(message.as_deref(), Some(expected));
    }
}

#[test]
fn a_new_version_is_tried_before_it_serves() {
    let mut b = warm();
    assert_eq!(b.event(installed("f", 2, handler(pool()))), "spawn w2");
    assert_eq!(b.submit(2), "note 2; call w1 #2 a1 2", "the old one serves meanwhile");
    assert_eq!(b.ready(2), "");
    assert_eq!(b.submit(3), "note 3; call w2 #3 a1 3");
    let end = b.answer(1, 2, Reason::Ok);
    assert_eq!(end, "record ok: succeeded ok; reply 2: succeeded ok; stop w1");
}

#[test]
fn without_a_check_a_new_version_serves_at_once() {
    let mut b = warm();
    let unchecked = Rules {
        unchecked: true,
        ..handler(pool())
    };
    assert_eq!(b.event(installed("f", 2, unchecked)), "stop w1");
    assert_eq!(trial(&b), None);
    assert_eq!(b.submit(2), "note 2; spawn w2", "even if it cannot be loaded");
}

#[test]
fn a_new_version_that_cannot_be_loaded_replaces_nothing() {
    let mut b = with_a_trial(&handler(pool()));
    assert_eq!(b.code(2, 1), "forget w2");
    let error = b.s.function(&name("f")).unwrap().error.unwrap().into_owned();
    assert!(error.contains("the previous version serves"), "{error}");
    assert_eq!(b.submit(2), "note 2; call w1 #2 a1 2");
}

#[test]
fn a_worker_that_is_killed_before_it_is_ready_leaves_the_reason() {
    let mut b = with_a_trial(&handler(pool()));
    let (worker, message) = (WorkerId(2), "its first frame has no length".to_owned());
    assert_eq!(b.event(Event::Broken { worker, message }), "kill w2");
    assert_eq!(b.exited(exit(2, Signal(9))), "forget w2");
    let error = b.s.function(&name("f")).unwrap().error.unwrap().into_owned();
    assert!(error.contains("its first frame has no length"), "{error}");
}

#[test]
fn the_worker_idle_longest_makes_room_for_what_waits() {
    let large = Rules {
        memory: 700 * MIB,
        ..handler(pool())
    };
    let mut b = Bench::with(large.clone());
    b.submit(1);
    b.ready(1);
    b.answer(1, 1, Reason::Ok);
    b.event(installed("g", 1, large));
    let waits = b.request(submit("g", 2));
    assert_eq!(waits, "note 2; stop w1");
    assert_eq!(b.exited(exit(1, Code(0))), "forget w1; spawn w2");
}

fn server(pool: Pool) -> Rules {
    let http = Http {
        listen: Listen::Free,
        ready: None,
    };
    Rules {
        kind: FunctionKind::Http(pool, http),
        ..handler(pool)
    }
}

#[test]
fn a_program_that_serves_http_is_stopped_by_a_signal() {
    let mut b = Bench::with(server(pool()));
    b.submit(1);
    b.ready(1);
    b.answer(1, 1, Reason::Ok);
    assert_eq!(b.wait(secs(300)), "term w1");
    // The worker has one grace, not one for finishing and one more for ending.
    assert_eq!(b.wait(secs(5)), "kill w1");
    assert_eq!(b.exited(exit(1, Signal(9))), "forget w1");
}

#[test]
fn what_only_one_worker_can_have_is_not_tried_beside_the_one_that_has_it() {
    let alone = Pool {
        most: 1,
        min: 1,
        alone: true,
        ..pool()
    };
    let mut b = Bench::with(server(alone));
    assert_eq!(b.actions(), "spawn w1");
    b.ready(1);
    let new = b.event(installed("f", 2, server(alone)));
    assert_eq!(new, "term w1");
    assert_eq!(b.submit(1), "note 1");
    assert_eq!(b.code(1, 0), "forget w1; spawn w2");
    assert_eq!(b.ready(2), "call w2 #1 a1 1");
}

/// A function whose version 1 serves with worker 1, and whose version 2 is tried with worker 2.
fn with_a_trial(rules: &Rules) -> Bench {
    let mut b = Bench::with(rules.clone());
    b.submit(1);
    b.ready(1);
    b.answer(1, 1, Reason::Ok);
    assert_eq!(b.event(installed("f", 2, rules.clone())), "spawn w2");
    b.spawned(2);
    b
}

/// The same, and version 2 could not be loaded.
fn with_a_failed_trial() -> Bench {
    let mut b = with_a_trial(&kept());
    assert_eq!(b.code(2, 1), "forget w2");
    b
}

/// Rules with workers that stay even if they are never called.
fn kept() -> Rules {
    handler(Pool { idle: None, ..pool() })
}

fn trial(b: &Bench) -> Option<(u32, bool)> {
    let trial = b.s.function(&name("f")).unwrap().trial?;
    Some((trial.failures, trial.again_ms.is_some()))
}

#[test]
fn a_version_that_could_not_be_loaded_is_tried_again() {
    let mut b = with_a_failed_trial();
    assert_eq!(trial(&b), Some((1, true)));
    assert_eq!(b.wait(secs(3)), "spawn w3");
    b.spawned(3);
    assert_eq!(b.code(3, 1), "forget w3");
    assert_eq!(trial(&b), Some((2, true)));
    assert_eq!(b.wait(secs(5)), "spawn w4");
    assert_eq!(b.ready(4), "stop w1");
    assert_eq!(trial(&b), None);
    assert!(b.s.function(&name("f")).unwrap().error.is_none());
    assert_eq!(b.submit(2), "note 2; call w4 #2 a1 2");
}

#[test]
fn a_version_that_never_can_be_loaded_is_given_up_until_somebody_asks() {
    let mut b = with_a_failed_trial();
    for worker in 3..=21 {
        assert_eq!(b.wait(secs(600)), format!("spawn w{worker}"));
        b.spawned(worker);
        b.code(worker, 1);
    }
    assert_eq!(trial(&b), Some((20, false)));
    let error = b.s.function(&name("f")).unwrap().error.unwrap().into_owned();
    assert!(error.contains("fndctl reload"), "{error}");
    b.wait(secs(86_400));
    // The same content again, after a reload or a touched file.
    assert_eq!(b.event(installed("f", 2, kept())), "spawn w22");
    assert_eq!(trial(&b), Some((0, false)));
}

#[test]
fn a_reload_does_not_wait_for_the_pause() {
    let mut b = with_a_failed_trial();
    assert_eq!(b.event(installed("f", 2, kept())), "spawn w3");
    // A second reload does not start a second trial beside the first.
    assert_eq!(b.event(installed("f", 2, kept())), "");
    b.spawned(3);
    b.code(3, 1);
    assert_eq!(trial(&b), Some((1, true)));
    // A version that is no longer on trial is not started again.
    b.event(installed("f", 1, kept()));
    assert_eq!(trial(&b), None);
    assert!(!b.wait(secs(600)).contains("spawn"));
}

#[test]
fn a_version_is_undecided_until_the_trial_that_was_asked_for_is_over() {
    let f = name("f");
    let mut b = with_a_trial(&kept());
    assert!(b.s.is_undecided(&f), "its worker loads");
    b.code(2, 1);
    assert!(!b.s.is_undecided(&f), "fnd tries again by itself");
    b.event(installed("f", 2, kept()));
    assert!(b.s.is_undecided(&f), "a reload asks for a trial");
    b.ready(3);
    assert!(!b.s.is_undecided(&f), "it serves");
    assert!(!b.s.is_undecided(&name("none")));
}

/// A reload waits for this trial.
#[test]
fn a_new_version_is_tried_in_the_pause_of_a_crash_loop() {
    let mut b = Bench::with(kept());
    for n in 1..=5 {
        b.submit(n.into());
        b.spawned(n);
        b.code(n, 1);
    }
    let state = |b: &Bench| b.s.function(&name("f")).unwrap().state;
    assert_eq!(state(&b), FunctionState::CrashLooping);
    let tried = b.event(installed("f", 2, kept()));
    assert!(tried.contains("spawn w6"), "{tried}");
    assert!(b.s.is_undecided(&name("f")));
    b.ready(6);
    assert_eq!(state(&b), FunctionState::Ready);
}

#[test]
fn a_hand_over_waits_for_requests_whose_connections_end_with_it() {
    let mut b = Bench::with(server(Pool {
        concurrency: 2,
        most: 1,
        ..pool()
    }));
    b.submit(1);
    b.ready(1);
    b.submit(2);
    assert_eq!(b.event(Event::HandOver), "");
    let end = b.answer(1, 1, Reason::Ok);
    assert_eq!(end, "record ok: succeeded ok; reply 1: succeeded ok");
    // The time for the remaining requests is over.
    assert_eq!(b.event(Event::HandOver), "reply 2: unavailable; drained");
}

#[test]
fn a_new_version_that_can_never_fit_fails_its_trial_and_blocks_nobody() {
    let mut b = Bench::with(kept());
    b.submit(1);
    b.ready(1);
    b.answer(1, 1, Reason::Ok);
    let large = Rules {
        memory: 1 << 50,
        ..kept()
    };
    assert_eq!(b.event(installed("f", 2, large)), "");
    let error = b.s.function(&name("f")).unwrap().error.clone().unwrap();
    assert!(
        error.contains("could not be started") && error.contains("[node] memory"),
        "{error}"
    );
    assert_eq!(trial(&b), Some((1, true)));
    b.event(installed("g", 1, rules()));
    assert!(b.request(submit("g", 7)).contains("spawn"));
    b.wait(secs(3600));
    assert_eq!(trial(&b).map(|(failures, _)| failures > 1), Some(true));
}

#[test]
fn a_version_that_can_never_fit_is_replaced_by_one_that_does() {
    let mut b = Bench::with(Rules {
        memory: 1 << 50,
        ..handler(pool())
    });
    assert_eq!(b.event(installed("f", 3, handler(pool()))), "spawn w1");
    b.spawned(1);
    b.ready(1);
    assert_eq!(b.s.function(&name("f")).unwrap().error, None);
    assert!(b.submit(1).contains("call"), "{:?}", b.last);
}

#[test]
fn disabling_a_function_is_no_failure_of_the_version_on_trial() {
    let mut b = with_a_trial(&handler(pool()));
    let enable = |b: &mut Bench, enabled| {
        let (function, reply) = (name("f"), crate::run::ReplyTo(9));
        b.event(Event::SetEnabled {
            function,
            enabled,
            reply,
        })
    };
    enable(&mut b, false);
    b.exited(exit(2, Code(0)));
    assert_eq!(trial(&b), Some((0, false)));
    assert!(!b.s.is_undecided(&name("f")), "a disabled function tries nothing");
    assert!(enable(&mut b, true).contains("spawn w3"), "{:?}", b.last);
}
