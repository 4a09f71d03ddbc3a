//! One of several calls of a worker is cancelled, or reaches its limit.

use super::bench::*;
use super::pool::{handler, pool};
use crate::records::outcome::Reason;
use crate::run::{Action, Event, FunctionKind, Http, Pool, Rules, Submit};
use fnd_manifest::function::Listen;
use fnd_wire::frame::ExitStatus::Signal;
use fnd_wire::ids::WorkerId;

const LIMIT: &str = "it did not end within 180s (limits.timeout)";

fn three() -> Pool {
    Pool {
        most: 1,
        concurrency: 3,
        ..pool()
    }
}

/// A worker with three calls, which knows Cancel or not.
fn busy(rules: Rules, cancels: bool) -> Bench {
    let mut b = Bench::with(rules);
    (1..=3).for_each(|n| drop(b.submit(n)));
    b.spawned(1);
    b.event(Event::WorkerReady {
        worker: WorkerId(1),
        concurrency: 3,
        cancels,
    });
    assert_eq!(b.actions(), "call w1 #1 a1 1; call w1 #2 a1 2; call w1 #3 a1 3");
    b
}

/// Submits a fourth call, with a limit of its own.
fn submit_within(b: &mut Bench, n: u128, seconds: u64) -> String {
    b.event(Event::Submit(Box::new(Submit {
        timeout: Some(secs(seconds)),
        ..submit("f", n)
    })))
}

fn server() -> Rules {
    let http = Http {
        listen: Listen::Free,
        ready: None,
    };
    Rules {
        kind: FunctionKind::Http(three(), http),
        ..handler(three())
    }
}

fn message(b: &Bench) -> String {
    let of = |action: &Action| match action {
        Action::Record(attempt, _) => Some(attempt.message.clone()),
        _ => None,
    };
    b.last.iter().find_map(of).unwrap_or_default()
}

#[test]
fn a_worker_that_knows_cancel_ends_one_call_and_goes_on_with_the_others() {
    let mut b = busy(handler(three()), true);
    assert_eq!(b.cancel(2), "cancel w1 #2; reply 99: done");
    assert_eq!(b.cancel(2), "reply 99: done", "once");
    assert_eq!([1, 2].map(|n| b.s.is_cancelled(id(n))), [false, true]);
    let end = b.answer(1, 2, Reason::Error);
    assert!(!b.s.is_cancelled(id(2)), "it has ended");
    assert_eq!(
        end,
        "record cancelled: cancelled cancelled; reply 2: cancelled cancelled"
    );
    assert_eq!(message(&b), "cancelled on request");
    assert_eq!(b.submit(4), "note 4; call w1 #4 a1 4", "the worker takes further calls");
    for n in [1, 3, 4] {
        assert!(b.answer(1, n, Reason::Ok).contains("record ok"));
    }
    assert_eq!(b.wait(secs(300)), "stop w1");
}

#[test]
fn the_only_call_ends_with_its_worker() {
    let mut b = busy(handler(three()), true);
    b.answer(1, 1, Reason::Ok);
    b.answer(1, 2, Reason::Ok);
    assert_eq!(b.cancel(3), "term w1; reply 99: done");
    // Calls that are all being ended have no other that goes on.
    let mut b = busy(handler(three()), true);
    b.cancel(1);
    b.cancel(2);
    assert_eq!(b.cancel(3), "term w1; reply 99: done");
    let end = b.exited(exit(1, Signal(15)));
    assert_eq!(end.matches("record cancelled").count(), 3, "{end}");
}

#[test]
fn a_worker_that_does_not_know_cancel_drops_the_answer_and_ends_after_its_other_calls() {
    let mut b = busy(handler(three()), false);
    let end = "drop w1 #2; record cancelled: cancelled cancelled; reply 2: cancelled cancelled; reply 99: done";
    assert_eq!(b.cancel(2), end);
    let words = "cancelled on request; its runtime cannot end one of several calls, so its code may run on in w1 until that \
        has ended its other calls";
    assert_eq!(message(&b), words);
    assert_eq!(b.submit(4), "note 4; spawn w2", "it takes no more calls");
    assert_eq!(
        b.answer(1, 1, Reason::Ok),
        "record ok: succeeded ok; reply 1: succeeded ok"
    );
    // The code of the cancelled call ends with the last other call at the latest.
    assert_eq!(
        b.answer(1, 3, Reason::Ok),
        "record ok: succeeded ok; reply 3: succeeded ok; term w1"
    );
    // The answer of the dropped call may come at any time; any other unknown answer breaks the protocol.
    assert_eq!(b.answer(1, 2, Reason::Ok), "");
    assert_eq!(b.answer(1, 2, Reason::Ok), "kill w1");
}

#[test]
fn a_cancelled_call_that_does_not_end_is_dropped_after_the_grace() {
    let mut b = busy(handler(three()), true);
    b.cancel(2);
    b.cancel(2);
    let end = "drop w1 #2; record cancelled: cancelled cancelled; reply 2: cancelled cancelled";
    assert_eq!(b.wait(secs(5)), end);
    assert!(
        message(&b).contains("it did not end within the grace"),
        "{}",
        message(&b)
    );
    assert_eq!(b.answer(1, 2, Reason::Ok), "");
    b.answer(1, 1, Reason::Ok);
    assert!(b.answer(1, 3, Reason::Ok).ends_with("stop w1"), "nothing of it is left");
}

#[test]
fn a_limit_ends_one_call_or_after_the_grace_its_worker() {
    for cancels in [true, false] {
        let mut b = Bench::with(handler(three()));
        submit_within(&mut b, 1, 10);
        b.submit(2);
        b.spawned(1);
        b.event(Event::WorkerReady {
            worker: WorkerId(1),
            concurrency: 3,
            cancels,
        });
        let words = "it did not end within 10s (set by the caller)";
        assert_eq!(b.wait(secs(10)), format!("cancel w1 #1; reply 1: {words}"));
        assert!(!b.submit(3).contains("term"));
        let others = if cancels { 2 } else { 1 };
        assert_eq!(b.wait(secs(4)), "");
        assert_eq!(b.wait(secs(1)), "kill w1");
        let end = b.exited(exit(1, Signal(9)));
        assert_eq!(end.matches("record timeout: failed timeout").count(), 1, "{end}");
        assert_eq!(end.matches("record interrupted").count(), others, "{end}");
    }
}

#[test]
fn an_answer_after_the_limit_does_not_count_and_the_others_go_on() {
    let mut b = busy(handler(three()), true);
    b.answer(1, 2, Reason::Ok);
    b.answer(1, 3, Reason::Ok);
    b.wait(secs(100));
    b.submit(4);
    assert_eq!(b.wait(secs(80)), format!("cancel w1 #1; reply 1: {LIMIT}"));
    assert_eq!(b.answer(1, 1, Reason::Ok), "record timeout: failed timeout");
    assert_eq!(message(&b), LIMIT);
    assert_eq!(
        b.answer(1, 4, Reason::Ok),
        "record ok: succeeded ok; reply 4: succeeded ok"
    );
}

#[test]
fn a_server_that_answers_nothing_while_a_request_reaches_its_limit_takes_no_more() {
    let limit = |b: &mut Bench| {
        b.wait(secs(100));
        b.answer(1, 2, Reason::Ok);
        b.answer(1, 3, Reason::Ok);
        b.wait(secs(1));
        b.submit(4);
        assert_eq!(b.wait(secs(79)), format!("cancel w1 #1; reply 1: {LIMIT}"));
        assert_eq!(b.answer(1, 1, Reason::Cancelled), "record timeout: failed timeout");
    };
    let mut b = busy(server(), false);
    limit(&mut b);
    assert_eq!(b.submit(5), "note 5; call w1 #5 a1 5");
    // The fourth began after the last answer.
    b.wait(secs(100));
    assert_eq!(b.submit(6), "note 6; call w1 #6 a1 6");
    b.wait(secs(1));
    assert!(
        b.last
            .iter()
            .any(|action| matches!(action, Action::CancelCall { call: 4, .. }))
    );
    assert_eq!(b.submit(7), "note 7; spawn w2", "another worker takes its place");
    assert_eq!(b.answer(1, 4, Reason::Cancelled), "record timeout: failed timeout");
}

#[test]
fn a_cancelled_request_to_a_server_is_closed() {
    let mut b = busy(server(), false);
    assert_eq!(b.cancel(1), "cancel w1 #1; reply 99: done");
    let end = b.answer(1, 1, Reason::Cancelled);
    assert_eq!(
        end,
        "record cancelled: cancelled cancelled; reply 1: cancelled cancelled"
    );
    assert_eq!(b.submit(4), "note 4; call w1 #4 a1 4");
}

#[test]
fn the_next_fnd_goes_on_with_the_end_of_a_call() {
    let mut b = busy(handler(three()), true);
    b.cancel(1);
    b.wait(secs(5));
    b.cancel(2);
    let record = b.s.member_record(WorkerId(1)).unwrap();
    let text = serde_json::to_string(&record).unwrap();
    assert!(
        text.contains(r#""dropped":[1]"#) && text.contains(r#""ending":{"cancelled":"#),
        "{text}"
    );
    let mut next = Bench::new();
    next.restore(crate::run::Restored {
        members: vec![crate::run::AdoptedMember {
            worker: WorkerId(1),
            record: serde_json::from_str(&text).unwrap(),
            age: secs(5),
            ended: false,
            is_fenced: false,
        }],
        ..Default::default()
    });
    next.event(installed("f", 1, handler(three())));
    next.event(Event::Scanned { whole: true });
    assert_eq!(next.answer(1, 1, Reason::Ok), "");
    assert!(next.answer(1, 2, Reason::Error).contains("record cancelled"));
    assert!(next.answer(1, 3, Reason::Ok).contains("record ok"));
}
