//! The wall clock is set: attempts that have begun keep their times, and what waits for a time of the wall clock follows it.

use super::bench::*;
use super::pool::pool;
use crate::records::outcome::{Class, Reason, RunState};
use crate::records::{Accepted, InvocationRecord, Unfinished};
use crate::run::{Adopted, AdoptedMember, Event, FunctionKind, Poll, Pool, Restored, Retry, Rules, Submit};
use fnd_wire::ids::{Version, WorkerId};
use std::time::Duration;

const DAY_MS: u64 = 86_400_000;

/// How far the clock was set forward or back, in milliseconds.
const STEPS: [i64; 3] = [0, DAY_MS.cast_signed(), -DAY_MS.cast_signed()];

/// The next fnd at the same instant, after the clock was set.
fn next(before: &Bench, step: i64, restored: Restored) -> Bench {
    let mut b = Bench::new();
    b.now = before.now;
    b.now.unix_ms = b.now.unix_ms.saturating_add_signed(step);
    b.restore(restored);
    b
}

fn handler() -> Rules {
    let pool = Pool {
        most: 1,
        concurrency: 2,
        ..pool()
    };
    Rules {
        timeout: Some(secs(30)),
        deadline: Some(secs(100)),
        kind: FunctionKind::Handler(pool),
        ..rules()
    }
}

/// A worker runs for 40 s, is called, and is handed over 2 s later, twice.
#[test]
fn a_call_keeps_its_timeout() {
    for step in STEPS {
        let mut b = Bench::with(handler());
        b.submit(1);
        b.spawned(1);
        let ready = |worker| Event::WorkerReady {
            worker,
            concurrency: 2,
            cancels: false,
        };
        assert_eq!(b.event(ready(WorkerId(1))), "call w1 #1 a1 1");
        b.event(Event::Answered(Box::new(crate::run::Answered {
            worker: WorkerId(1),
            call: 1,
            reason: Reason::Ok,
            message: String::new(),
            result: None,
        })));
        b.wait(secs(40));
        assert_eq!(b.submit(2), "note 2; call w1 #2 a1 2");
        for age in [42, 44] {
            b.wait(secs(2));
            let record = serde_json::to_string(&b.s.member_record(WorkerId(1)).unwrap()).unwrap();
            let member = AdoptedMember {
                worker: WorkerId(1),
                record: serde_json::from_str(&record).unwrap(),
                age: secs(age),
                ended: false,
                is_fenced: false,
            };
            let members = vec![member];
            b = next(
                &b,
                step,
                Restored {
                    members,
                    ..Restored::default()
                },
            );
            b.event(installed("f", 1, handler()));
            b.event(Event::Scanned { whole: true });
        }
        assert_eq!(b.wait(Duration::from_millis(25_999)), "", "{step}");
        assert_eq!(b.wait(Duration::from_millis(1)), "term w1", "{step}");
    }
}

fn polling() -> Rules {
    Rules {
        timeout: None,
        deadline: Some(secs(60)),
        poll: Some(Poll {
            repeat: secs(2),
            until: secs(20),
        }),
        ..rules()
    }
}

/// An attempt that began 5 s ago, with its adoption record.
fn script() -> (Bench, Adopted) {
    let mut b = Bench::with(polling());
    b.submit_stored(1);
    let record = serde_json::to_string(&b.s.script_record(WorkerId(1)).unwrap()).unwrap();
    b.spawned(1);
    b.wait(secs(5));
    let adopted = Adopted {
        worker: WorkerId(1),
        record: serde_json::from_str(&record).unwrap(),
        age: secs(5),
        termed: None,
        ended: false,
    };
    (b, adopted)
}

/// The ledger's state of that attempt.
fn unfinished(b: &Bench, state: RunState) -> Unfinished {
    let at = b.now.unix_ms - 5_000;
    let accepted = Accepted {
        accepted_ms: at,
        dead_letter: true,
        deadline_ms: Some(at + 60_000),
        ..accepted(1)
    };
    let record = InvocationRecord {
        state,
        started_ms: Some(at),
        attempts: 1,
        reason: (state == RunState::Waiting).then_some(Reason::Exit(1)),
        next_attempt_ms: (state == RunState::Waiting).then_some(b.now.unix_ms + 2_000),
        version: Some(Version([1; 32])),
        ..InvocationRecord::of(&accepted)
    };
    Unfinished { accepted, record }
}

fn taken_over(step: i64) -> Bench {
    let (before, adopted) = script();
    let restored = Restored {
        unfinished: vec![unfinished(&before, RunState::Running)],
        adopted: vec![adopted],
        ..Restored::default()
    };
    let mut b = next(&before, step, restored);
    b.event(installed("f", 1, polling()));
    b
}

#[test]
fn an_attempt_keeps_the_deadline_of_its_invocation() {
    for step in STEPS {
        let mut b = taken_over(step);
        assert_eq!(b.wait(Duration::from_millis(54_999)), "", "{step}");
        assert_eq!(b.wait(Duration::from_millis(1)), "term w1", "{step}");
    }
}

#[test]
fn polling_goes_on_until_its_time_is_over() {
    for step in STEPS {
        let mut b = taken_over(step);
        assert_eq!(b.code(1, 99), "record execute-again: polling execute-again", "{step}");
        let mut b = taken_over(step);
        b.wait(secs(14));
        assert_eq!(
            b.code(1, 99),
            "record execute-again: failed execute-again Poll",
            "{step}"
        );
    }
}

#[test]
fn a_retry_waits_no_longer_than_its_back_off_after_the_clock_was_set_back() {
    let retry = Retry {
        retries: 3,
        on: vec![Class::Error],
        ..rules().retry
    };
    let retrying = Rules { retry, ..rules() };
    for is_refused_first in [false, true] {
        let before = Bench::new();
        let restored = Restored {
            unfinished: vec![unfinished(&before, RunState::Waiting)],
            ..Restored::default()
        };
        let mut b = next(&before, -DAY_MS.cast_signed(), restored);
        if is_refused_first {
            b.event(Event::Refused {
                function: name("f"),
                error: "bad".to_owned(),
            });
        }
        b.event(installed("f", 1, retrying.clone()));
        let due = b.s.function(&name("f")).unwrap().next_attempt_ms;
        assert_eq!(due, Some(b.now.unix_ms + 1_000), "{is_refused_first}");
        assert_eq!(b.wait(secs(1)), "spawn w1 a2 1");
        b.spawned(1);
        // The rest of its deadline is no more than it had at first.
        assert_eq!(b.wait(secs(58)), "");
        assert_eq!(b.wait(secs(1)), "term w1");
    }
}

#[test]
fn delayed_work_and_work_that_expires_follow_a_clock_that_is_set() {
    let mut b = Bench::with(Rules {
        timeout: None,
        ..rules()
    });
    b.submit(9);
    let noon = b.now.unix_ms;
    for (n, not_before_ms, expires_ms) in [(1, Some(noon + DAY_MS), None), (2, None, Some(noon + DAY_MS))] {
        b.event(Event::Submit(Box::new(Submit {
            not_before_ms,
            expires_ms,
            ..submit("f", n)
        })));
    }
    b.now.unix_ms = noon - 3_600_000;
    assert_eq!(b.event(Event::ClockSet), "");
    assert_eq!(b.wait(Duration::from_millis(DAY_MS)), "", "an hour is left");
    // Forward by two days: the times have come.
    b.now.unix_ms = noon + 2 * DAY_MS;
    let due = b.event(Event::ClockSet);
    assert!(due.contains("reply 2: skipped skipped-expired"), "{due}");
    assert!(b.code(1, 0).contains("a1 1"));
}

#[test]
fn delayed_work_that_is_being_stored_follows_as_well() {
    let mut b = Bench::with(rules());
    let noon = b.now.unix_ms;
    b.event(Event::Submit(Box::new(Submit {
        wait: false,
        not_before_ms: Some(noon + 60_000),
        ..submit("f", 1)
    })));
    b.now.unix_ms = noon - 60_000;
    b.event(Event::ClockSet);
    b.event(Event::Stored(id(1)));
    assert_eq!(b.wait(secs(119)), "");
    assert!(!b.wait(secs(1)).is_empty());
}
