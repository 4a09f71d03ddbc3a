//! Starts that fail because of the node, and a spawner that does not answer.

use super::bench::*;
use super::pool::pool;
use crate::records::outcome::RunState;
use crate::run::{Action, Answer, Event, FunctionKind, FunctionState, Rejection, Rules, Submit};
use fnd_wire::frame::ExitStatus;
use fnd_wire::ids::WorkerId;
use std::time::Duration;

impl Bench {
    fn no_room(&mut self, worker: u64) -> String {
        let message = "failed to make a pipe: too many open files".to_owned();
        let worker = WorkerId(worker);
        self.event(Event::NodeCannotStart { worker, message })
    }
}

fn many() -> Rules {
    Rules {
        max_running: 4,
        ..rules()
    }
}

#[test]
fn what_the_node_cannot_start_has_not_begun_and_runs_later() {
    let mut b = Bench::with(many());
    assert_eq!(b.submit_stored(1), "reply 1: queued; spawn w1 a1 1");
    assert_eq!(b.no_room(1), "put back a1 queued");
    assert_eq!(b.s.cannot_start(), Some("failed to make a pipe: too many open files"));
    let view = b.s.function(&name("f")).unwrap();
    assert_eq!((view.runs, view.running, view.queued), (0, 0, 1));
    assert_eq!(b.s.invocation(id(1)).unwrap().started_ms, None);
    // Other invocations are accepted and wait as well.
    assert_eq!(b.submit_stored(2), "reply 2: queued");
    assert_eq!(b.wait(Duration::from_millis(999)), "");
    // One start is tried first.
    assert_eq!(b.wait(Duration::from_millis(1)), "spawn w2 a1 1");
    assert_eq!(b.spawned(2), "spawn w3 a1 2");
    assert!(
        b.s.cannot_start().is_some(),
        "it is not over before starts have worked for a while"
    );
    b.wait(secs(5));
    assert_eq!(b.s.cannot_start(), None);
    b.spawned(3);
    assert_eq!(b.code(2, 0), "record ok: succeeded ok");
    assert_eq!(b.code(3, 0), "record ok: succeeded ok");
}

#[test]
fn a_hundred_run_after_the_shortage_and_no_function_loops() {
    let mut b = Bench::with(many());
    for n in 1..=100 {
        b.submit_stored(n);
    }
    let mut failed = 0;
    while failed < 60 {
        let starting: Vec<u64> = b.s.workers.keys().map(|id| id.0).collect();
        for worker in starting {
            b.no_room(worker);
            failed += 1;
        }
        assert_eq!(b.s.function(&name("f")).unwrap().state, FunctionState::Ready);
        b.wait(secs(30));
    }
    let mut ended = 0;
    while ended < 100 {
        let workers: Vec<u64> = b.s.workers.keys().map(|id| id.0).collect();
        assert!(!workers.is_empty(), "{ended}");
        for worker in workers {
            b.spawned(worker);
            let actions = b.code(worker, 0);
            assert!(actions.starts_with("record ok: succeeded ok"), "{actions}");
            ended += 1;
        }
    }
    let view = b.s.function(&name("f")).unwrap();
    assert_eq!((view.runs, view.failures), (100, 0));
}

#[test]
fn the_pause_grows_while_nothing_starts_and_only_one_is_tried() {
    let mut b = Bench::with(many());
    for n in 1..=4 {
        b.submit(n);
    }
    // All four starts were ordered before the first one failed, so they count as one failure.
    for worker in 1..=4 {
        assert_eq!(b.no_room(worker), "put back a1 queued");
    }
    for (worker, pause) in (5..).zip([1, 2, 4, 8, 16, 30, 30]) {
        assert_eq!(b.wait(secs(pause) - Duration::from_millis(1)), "", "{pause}");
        assert_eq!(b.wait(Duration::from_millis(1)), format!("spawn w{worker} a1 1"));
        b.no_room(worker);
    }
}

#[test]
fn a_worker_that_ends_may_have_made_room() {
    let mut b = Bench::with(many());
    b.submit(1);
    b.spawned(1);
    b.submit(2);
    assert_eq!(b.no_room(2), "put back a1 queued");
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w3 a1 2"
    );
}

#[test]
fn nothing_that_waits_means_nothing_to_say() {
    let mut b = Bench::with(many());
    b.submit(1);
    b.no_room(1);
    b.cancel(1);
    assert!(b.s.cannot_start().is_some());
    b.wait(secs(1));
    assert_eq!((b.s.cannot_start(), b.s.next_deadline()), (None, None));
}

#[test]
fn what_was_to_end_meanwhile_ends_and_what_expires_expires() {
    let mut b = Bench::with(many());
    b.submit(1);
    b.cancel(1);
    assert_eq!(
        b.no_room(1),
        "record cancelled: cancelled cancelled; reply 1: cancelled cancelled"
    );
    let expires_ms = Some(b.now.unix_ms + 1_500);
    b.wait(secs(1));
    let expiring = Submit {
        expires_ms,
        ..submit("f", 2)
    };
    assert_eq!(b.request(expiring), "note 2; spawn w2 a1 2");
    assert_eq!(b.no_room(2), "put back a1 queued");
    assert_eq!(
        b.wait(Duration::from_millis(500)),
        "update 2 skipped skipped-expired; reply 2: skipped skipped-expired"
    );
}

#[test]
fn one_whose_function_was_deleted_or_that_has_no_next_fnd_ends() {
    let mut b = Bench::with(many());
    b.submit_stored(1);
    b.event(Event::Removed(name("f")));
    assert_eq!(
        b.no_room(1),
        "put back a1 queued; follow 1; update 1 skipped skipped-deleted"
    );
    for (event, end) in [(Event::Drain, "; drained"), (Event::HandOver, "")] {
        let mut b = Bench::with(many());
        b.submit(1);
        b.submit_stored(2);
        b.event(event);
        assert_eq!(b.no_room(2), "put back a1 queued");
        let actions = b.no_room(1);
        assert!(
            actions.contains("update 1 cancelled cancelled") && actions.ends_with(end),
            "{actions}"
        );
    }
}

#[test]
fn a_handler_and_a_version_on_trial_are_started_again() {
    let handler = || Rules {
        kind: FunctionKind::Handler(pool()),
        max_running: 2,
        ..rules()
    };
    let mut b = Bench::with(handler());
    assert_eq!(b.submit(1), "note 1; spawn w1");
    assert_eq!(b.no_room(1), "");
    assert_eq!(b.wait(secs(1)), "spawn w2");
    b.spawned(2);
    let ready = |worker| Event::WorkerReady {
        worker,
        concurrency: 1,
        cancels: false,
    };
    assert_eq!(b.event(ready(WorkerId(2))), "call w2 #1 a1 1");
    assert_eq!(b.event(installed("f", 2, handler())), "spawn w3");
    b.no_room(3);
    assert_eq!(b.s.function(&name("f")).unwrap().trial.unwrap().failures, 0);
    // This start follows soon after the last shortage, so the longer pause applies.
    assert_eq!(b.wait(secs(2)), "spawn w4");
}

#[test]
fn callers_are_answered_at_once_where_the_spawner_does_not_answer() {
    let mut b = Bench::with(Rules {
        max_running: 1,
        ..rules()
    });
    b.submit(1);
    b.submit(2);
    b.submit_stored(3);
    let silent = b.event(Event::SpawnerAnswers(false));
    assert_eq!(
        silent,
        "reply 1: unavailable; reply 2: unavailable; update 2 cancelled cancelled"
    );
    let reason = b.last.iter().find_map(|action| match action {
        Action::Reply(_, Answer::Rejected(Rejection::Unavailable { reason })) => Some(reason.clone()),
        _ => None,
    });
    assert!(reason.unwrap().starts_with("fnd-spawner does not answer"));
    assert_eq!(b.submit(4), "reply 4: unavailable");
    assert_eq!(b.submit_stored(5), "reply 5: queued");
    assert_eq!(b.event(Event::SpawnerAnswers(true)), "");
    b.spawned(1);
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; spawn w2 a1 3");
    assert_eq!(b.s.invocation(id(5)).unwrap().state, RunState::Queued);
    assert_eq!(b.s.running_invocations().collect::<Vec<_>>(), [id(3)]);
}

/// fnd itself was suspended: the spawner ended a worker whose time was up, and reports how long it ran.
#[test]
fn what_the_spawner_ended_for_its_time_has_timed_out() {
    let mut b = Bench::with(rules());
    b.submit(1);
    b.spawned(1);
    b.now = b.now.after(secs(200));
    let exited = crate::run::Exited {
        late: Some((Duration::ZERO, secs(181))),
        ..exit(1, ExitStatus::Signal(15))
    };
    assert_eq!(
        b.exited(exited),
        "record timeout: failed timeout; reply 1: failed timeout"
    );
    let ended = b.last.iter().find_map(|action| match action {
        crate::run::Action::Record(attempt, _) => Some(attempt.ended_ms),
        _ => None,
    });
    assert_eq!(ended, Some(EPOCH_MS + 181_000), "not when fnd heard of it");
}
