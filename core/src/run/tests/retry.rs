//! The next step after an attempt: retries and polls.

use super::bench::*;
use crate::records::outcome::Class;
use crate::records::{InvocationRecord, RunResult};
use crate::run::{Action, Answer, Event, Exited, Poll, Retry, Rules};
use fnd_wire::frame::ExitStatus::Code;
use fnd_wire::ids::WorkerId;
use std::sync::Arc;

fn retrying(retries: u32) -> Rules {
    let retry = Retry {
        retries,
        ..rules().retry
    };
    Rules { retry, ..rules() }
}

fn polling() -> Rules {
    let poll = Some(Poll {
        repeat: secs(15),
        until: secs(40),
    });
    Rules { poll, ..retrying(1) }
}

#[test]
fn delays_grow_and_the_last_failure_says_what_ran_out() {
    let mut b = Bench::with(retrying(2));
    b.submit(1);
    assert_eq!(b.code(1, 1), "record exit-1: waiting exit-1");
    assert_eq!(b.wait(secs(1)), "spawn w2 a2 1");
    assert_eq!(b.code(2, 75), "record transient: waiting transient");
    assert_eq!(b.wait(std::time::Duration::from_millis(1999)), "");
    assert_eq!(b.wait(std::time::Duration::from_millis(1)), "spawn w3 a3 1");
    assert_eq!(
        b.code(3, 1),
        "record exit-1: failed exit-1 Retries; reply 1: failed exit-1 Retries"
    );
    assert_eq!(b.s.next_deadline(), None);
}

#[test]
fn nothing_ran_out_where_nothing_was_allowed() {
    let mut b = Bench::with(retrying(0));
    b.submit(1);
    assert_eq!(b.code(1, 1), "record exit-1: failed exit-1; reply 1: failed exit-1");
}

#[test]
fn only_the_classes_named_are_retried() {
    let mut rules = retrying(3);
    rules.retry.on = vec![Class::Transient];
    rules.retry.not_on_exit = vec![];
    let mut b = Bench::with(rules);
    b.submit(1);
    assert_eq!(b.code(1, 1), "record exit-1: failed exit-1; reply 1: failed exit-1");
    b.submit(2);
    assert_eq!(b.code(2, 75), "record transient: waiting transient");
}

#[test]
fn failed_is_never_retried_and_neither_are_excepted_codes() {
    let mut rules = retrying(3);
    rules.retry.not_on_exit = vec![7];
    let mut b = Bench::with(rules);
    b.submit(1);
    assert_eq!(b.code(1, 65), "record failed: failed failed; reply 1: failed failed");
    b.submit(2);
    assert_eq!(b.code(2, 7), "record exit-7: failed exit-7; reply 2: failed exit-7");
}

#[test]
fn an_excepted_code_says_nothing_about_a_timeout() {
    let mut rules = retrying(3);
    rules.retry.not_on_exit = vec![143];
    rules.timeout = Some(secs(3));
    let mut b = Bench::with(rules);
    b.submit(1);
    b.spawned(1);
    b.wait(secs(3));
    assert_eq!(b.code(1, 143), "record timeout: waiting timeout");
}

#[test]
fn no_retry_begins_after_the_deadline() {
    let mut rules = retrying(5);
    rules.deadline = Some(secs(3));
    let mut b = Bench::with(rules);
    b.submit(1);
    b.code(1, 1);
    b.wait(secs(1));
    assert_eq!(
        b.code(2, 1),
        "record exit-1: failed exit-1 Deadline; reply 1: failed exit-1 Deadline"
    );
}

#[test]
fn a_due_retry_goes_before_what_is_queued() {
    let mut b = Bench::with(retrying(1));
    b.submit(1);
    b.submit(2);
    b.submit(3);
    assert_eq!(b.code(1, 1), "record exit-1: waiting exit-1; spawn w2 a1 2");
    assert_eq!(b.wait(secs(2)), "");
    assert_eq!(
        b.code(2, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w3 a2 1"
    );
}

#[test]
fn a_poll_gets_the_result_of_the_last_one_and_is_no_retry() {
    let mut b = Bench::with(polling());
    b.submit(1);
    b.exited(Exited {
        result: Some(text("one")),
        ..exit(1, Code(99))
    });
    assert_eq!(b.actions(), "record execute-again: polling execute-again");
    assert_eq!(b.wait(secs(15)), "spawn w2 a2 1");
    assert_eq!(previous(&b), Some("one".to_owned()));
    // A retry after a poll gets the result of the poll.
    b.exited(Exited {
        result: Some(text("noise")),
        ..exit(2, Code(75))
    });
    assert_eq!(b.wait(secs(1)), "spawn w3 a3 1");
    assert_eq!(previous(&b), Some("one".to_owned()));
    assert_eq!(
        b.code(3, 1),
        "record exit-1: failed exit-1 Retries; reply 1: failed exit-1 Retries"
    );
}

#[test]
fn records_have_what_is_kept_of_a_result_and_callers_and_polls_the_result() {
    let result = |data: &str| RunResult {
        kept: Some(Arc::new(text("***"))),
        ..text(data)
    };
    let data = |record: &InvocationRecord| {
        let result = record.result.as_ref()?;
        assert_eq!(result.kept, None);
        Some(String::from_utf8(result.data.to_vec()).unwrap())
    };
    let mut b = Bench::with(polling());
    b.submit(1);
    let mut recorded = Vec::new();
    for (worker, code) in [(1, 99), (2, 0)] {
        b.exited(Exited {
            result: Some(result("secret")),
            ..exit(worker, Code(code))
        });
        for action in &b.last {
            match action {
                Action::Record(_, record) | Action::Update(record) => recorded.extend(data(record)),
                Action::Reply(_, answer) => {
                    let Answer::Finished(record) = answer else {
                        panic!("{answer:?}");
                    };
                    assert_eq!(record.result, Some(result("secret")));
                }
                _ => {}
            }
        }
        if code == 99 {
            b.wait(secs(15));
            assert_eq!(previous(&b), Some("secret".to_owned()));
        }
    }
    assert_eq!(recorded, ["***", "***"]);
}

fn previous(b: &Bench) -> Option<String> {
    b.last.iter().find_map(|action| match action {
        Action::Spawn(order) => order
            .attempt
            .as_ref()?
            .previous
            .as_ref()
            .map(|result| String::from_utf8(result.data.to_vec()).unwrap()),
        _ => None,
    })
}

#[test]
fn polling_ends_when_the_next_would_begin_too_late() {
    let mut b = Bench::with(polling());
    b.submit(1);
    b.code(1, 99);
    b.wait(secs(15));
    b.code(2, 99);
    b.wait(secs(15));
    let end = "record execute-again: failed execute-again Poll; reply 1: failed execute-again Poll";
    assert_eq!(b.code(3, 99), end);
}

#[test]
fn a_worker_that_could_not_be_started_is_retried() {
    let mut b = Bench::with(retrying(1));
    b.submit(1);
    let failed = |worker| Event::SpawnFailed {
        worker: WorkerId(worker),
        message: "no interpreter".to_owned(),
    };
    assert_eq!(b.event(failed(1)), "record spawn: waiting spawn");
    assert_eq!(b.wait(secs(1)), "spawn w2 a2 1");
    assert_eq!(
        b.event(failed(2)),
        "record spawn: failed spawn Retries; reply 1: failed spawn Retries"
    );
}

#[test]
fn a_retry_runs_on_the_newest_version_and_what_runs_ends_on_its_own() {
    let mut b = Bench::with(retrying(1));
    b.submit(1);
    b.event(installed("f", 2, retrying(1)));
    b.code(1, 1);
    b.wait(secs(1));
    let version = b.last.iter().find_map(|action| match action {
        Action::Spawn(order) => Some(order.version.0[0]),
        _ => None,
    });
    assert_eq!(version, Some(2));
}

#[test]
fn interrupted_is_retried_only_where_asked() {
    for (on, expected) in [
        (
            vec![],
            "record interrupted: interrupted interrupted; reply 1: interrupted interrupted",
        ),
        (vec![Class::Interrupted], "record interrupted: waiting interrupted"),
    ] {
        let mut rules = retrying(1);
        rules.retry.on = on;
        let mut b = Bench::with(rules);
        b.submit(1);
        assert_eq!(b.event(Event::SpawnerLost), expected);
        assert_eq!(b.submit(2), "note 2");
        assert_eq!(b.wait(secs(5)), "");
    }
}
