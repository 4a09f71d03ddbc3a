//! Workers that outlive the fnd that started them.

use super::bench::*;
use crate::records::outcome::RunState;
use crate::records::{Accepted, InvocationRecord, Unfinished};
use crate::run::{Action, Adopted, Event, Exited, Restored, Retry, Rules, ScriptRecord, Times};
use fnd_wire::frame::{ExitStatus, TermCause};
use fnd_wire::ids::{Version, WorkerId};
use std::time::Duration;

fn retrying() -> Rules {
    let retry = Retry {
        retries: 2,
        ..rules().retry
    };
    let timeout = Some(secs(30));
    Rules {
        timeout,
        retry,
        ..rules()
    }
}

/// The adoption record of an fnd that started invocation 1, durable or not, as worker 1 and went down ten seconds
/// later.
fn script_record(durable: bool) -> ScriptRecord<'static> {
    let mut b = Bench::with(retrying());
    if durable {
        b.submit_stored(1);
    } else {
        b.submit(1);
    }
    let text = serde_json::to_string(&b.s.script_record(WorkerId(1)).unwrap()).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The spawner keeps the record over an upgrade, so the next fnd reads what this one wrote.
#[test]
fn an_adoption_record_has_its_fields_beside_each_other() {
    let text = serde_json::to_string(&script_record(true)).unwrap();
    let fields = [
        "function",
        "id",
        "version",
        "load_key",
        "invocation",
        "attempt",
        "poll",
        "trigger",
        "accepted_ms",
        "first_ms",
        "started_ms",
        "timeout",
        "deadline_ms",
        "times",
        "rules",
    ];
    let mut from = 0;
    for field in fields {
        let at = text[from..].find(&format!("\"{field}\":"));
        from += at.unwrap_or_else(|| panic!("no `{field}` in its place: {text}"));
    }
    let mut older: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(older.as_object().unwrap().len(), fields.len());
    older.as_object_mut().unwrap().remove("times");
    let older: ScriptRecord<'_> = serde_json::from_value(older).unwrap();
    assert_eq!((older.run.invocation, older.run.times), (id(1), Times::default()));
}

fn adopted(record: ScriptRecord<'static>) -> Adopted {
    Adopted {
        worker: WorkerId(1),
        record,
        age: secs(10),
        termed: None,
        ended: false,
    }
}

fn unfinished(state: RunState, attempts: u32, durable: bool) -> Unfinished {
    let accepted = Accepted {
        durable,
        dead_letter: durable,
        expires_ms: Some(EPOCH_MS + 1),
        ..accepted(1)
    };
    let record = InvocationRecord {
        state,
        started_ms: (attempts > 0).then_some(EPOCH_MS),
        attempts,
        next_attempt_ms: (state == RunState::Waiting).then_some(EPOCH_MS + 11_000),
        version: Some(Version([1; 32])),
        ..InvocationRecord::of(&accepted)
    };
    Unfinished { accepted, record }
}

/// The next fnd, ten seconds after the start, with the state of the ledger and the spawner.
fn next(unfinished: Vec<Unfinished>, adopted: Vec<Adopted>) -> (Bench, String) {
    let mut b = Bench::new();
    b.now.unix_ms += 10_000;
    let actions = b.restore(Restored {
        unfinished,
        adopted,
        ..Restored::default()
    });
    (b, actions)
}

#[test]
fn what_runs_goes_on_and_its_timeout_counts_from_its_start() {
    let (mut b, actions) = next(
        vec![unfinished(RunState::Running, 1, true)],
        vec![adopted(script_record(true))],
    );
    assert_eq!((actions.as_str(), b.s.running()), ("", 1));
    b.event(installed("f", 1, retrying()));
    assert_eq!(b.event(Event::Scanned { whole: true }), "");
    assert_eq!(b.wait(Duration::from_millis(19_999)), "");
    assert_eq!(b.wait(Duration::from_millis(1)), "term w1");
    assert_eq!(
        b.exited(exit(1, ExitStatus::Signal(15))),
        "record timeout: waiting timeout"
    );
    assert_eq!(b.wait(secs(1)), "spawn w2 a2 1");
}

#[test]
fn a_start_the_ledger_had_not_heard_of_yet_goes_on_and_does_not_expire() {
    for queued in [
        unfinished(RunState::Queued, 0, true),
        unfinished(RunState::Queued, 0, false),
    ] {
        let (mut b, actions) = next(vec![queued], vec![adopted(script_record(true))]);
        assert_eq!((actions.as_str(), b.s.running()), ("", 1));
        b.event(installed("f", 1, retrying()));
        assert_eq!(b.code(1, 0), "record ok: succeeded ok");
    }
}

#[test]
fn what_only_the_spawner_knows_is_recorded_but_not_tried_again() {
    let (mut b, actions) = next(vec![], vec![adopted(script_record(false))]);
    assert_eq!(actions, "");
    b.event(installed("f", 1, retrying()));
    assert_eq!(b.code(1, 1), "record exit-1: failed exit-1");
}

#[test]
fn what_the_ledger_has_the_end_of_is_killed_and_forgotten() {
    let mut b = Bench::new();
    let actions = b.restore(Restored {
        adopted: vec![adopted(script_record(false))],
        ended: [(id(1), 1)].into(),
        ..Restored::default()
    });
    assert_eq!(actions, "kill w1");
    assert_eq!(b.code(1, 0), "forget w1");
    let mut b = Bench::new();
    b.now.unix_ms += 10_000;
    let actions = b.restore(Restored {
        unfinished: vec![unfinished(RunState::Waiting, 1, true)],
        adopted: vec![adopted(script_record(true))],
        ended: [(id(1), 1)].into(),
        ..Restored::default()
    });
    assert_eq!(actions, "kill w1");
    assert_eq!(b.code(1, 0), "forget w1");
    b.event(installed("f", 1, retrying()));
    assert_eq!(b.wait(secs(1)), "spawn w1 a2 1");
}

/// The table of begun attempts shows the second attempt, but the end of the first is not stored.
#[test]
fn the_end_of_an_earlier_attempt_that_is_not_on_disk_is_recorded() {
    let (first, mut second) = (adopted(script_record(false)), adopted(script_record(false)));
    (second.worker, second.record.run.attempt) = (WorkerId(2), 2);
    let (mut b, actions) = next(vec![unfinished(RunState::Running, 2, false)], vec![first, second]);
    assert_eq!(actions, "");
    b.event(installed("f", 1, retrying()));
    assert_eq!(b.code(1, 1), "record exit-1: running");
    assert_eq!(b.code(2, 0), "record ok: succeeded ok");
}

/// The spawner keeps the end of the first attempt, because it could not be stored. The second one is over, too.
#[test]
fn the_end_of_an_attempt_before_one_that_is_over_does_not_bring_its_invocation_back() {
    let ended = |durable| Adopted {
        ended: true,
        ..adopted(script_record(durable))
    };
    let (mut b, actions) = next(vec![unfinished(RunState::Waiting, 2, false)], vec![ended(false)]);
    assert_eq!(actions, "follow 1; update 1 interrupted interrupted; kill w1");
    assert_eq!(b.code(1, 1), "forget w1");
    // Durable work waits for its third attempt.
    let (mut b, actions) = next(vec![unfinished(RunState::Waiting, 2, true)], vec![ended(true)]);
    assert_eq!(actions, "");
    b.event(installed("f", 1, retrying()));
    let recorded = b.code(1, 1);
    assert!(
        recorded.starts_with("record exit-1: ") && !recorded.contains("failed"),
        "{recorded}"
    );
    assert_eq!(b.wait(secs(1)), "spawn w2 a3 1");
}

#[test]
fn a_worker_terminated_meanwhile_has_the_rest_of_its_grace() {
    let mut late = adopted(script_record(true));
    (late.age, late.termed) = (secs(32), Some((secs(2), TermCause::TimeUp)));
    let (mut b, actions) = next(vec![unfinished(RunState::Running, 1, true)], vec![late]);
    assert_eq!(actions, "");
    b.event(installed("f", 1, retrying()));
    assert_eq!(b.wait(secs(3)), "kill w1");
    assert_eq!(
        b.exited(exit(1, ExitStatus::Signal(9))),
        "record timeout: waiting timeout"
    );
    let mut cancelled = adopted(script_record(true));
    cancelled.termed = Some((secs(1), TermCause::Asked));
    let (mut b, _) = next(vec![unfinished(RunState::Running, 1, true)], vec![cancelled]);
    b.event(installed("f", 1, retrying()));
    assert_eq!(
        b.exited(exit(1, ExitStatus::Signal(15))),
        "record cancelled: cancelled cancelled"
    );
    let mut stopped = adopted(script_record(true));
    (stopped.termed, stopped.ended) = (Some((secs(100), TermCause::Stopped)), true);
    let (mut b, _) = next(vec![unfinished(RunState::Running, 1, true)], vec![stopped]);
    b.event(installed("f", 1, retrying()));
    assert_eq!(b.code(1, 7), "record interrupted: interrupted interrupted");
}

/// The spawner is stopped, and a script ends by its SIGTERM. The earlier fnd did not know of the signal when it told the
/// caller.
#[test]
fn an_end_that_was_recorded_keeps_its_reason() {
    let mut stopped = adopted(script_record(true));
    (stopped.termed, stopped.ended) = (Some((secs(1), TermCause::Stopped)), true);
    let mut b = Bench::new();
    b.restore(Restored {
        unfinished: vec![unfinished(RunState::Running, 1, true)],
        adopted: vec![stopped],
        ended_by_themselves: [(id(1), 1)].into(),
        ..Restored::default()
    });
    b.event(installed("f", 1, retrying()));
    assert_eq!(
        b.exited(exit(1, ExitStatus::Signal(15))),
        "record signal-TERM: waiting signal-TERM"
    );
}

/// Returns the adoption record of a script that fnd has begun to end in this way.
fn record_of_ending(begins: impl FnOnce(&mut Bench) -> String) -> ScriptRecord<'static> {
    let mut b = Bench::with(retrying());
    b.submit_stored(1);
    b.spawned(1);
    assert!(b.s.record_of_ending(WorkerId(1)).is_none());
    assert!(begins(&mut b).contains("term w1"));
    let text = serde_json::to_string(&b.s.record_of_ending(WorkerId(1)).unwrap()).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn timed_out(b: &mut Bench) -> String {
    b.wait(secs(30))
}

fn cancelled(b: &mut Bench) -> String {
    b.cancel(1)
}

/// The spawner measures the age of a worker from a later moment than fnd its timeout, on a busy machine by seconds.
#[test]
fn a_worker_ends_for_the_reason_of_the_order_whenever_that_came() {
    type Begins = fn(&mut Bench) -> String;
    let timeout = "record timeout: waiting timeout";
    let cancel = "record cancelled: cancelled cancelled";
    for (begins, age, end) in [
        (timed_out as Begins, 25, timeout),
        (timed_out, 31, timeout),
        (cancelled, 25, cancel),
        (cancelled, 31, cancel),
    ] {
        let mut worker = adopted(record_of_ending(begins));
        (worker.age, worker.termed) = (secs(age), Some((secs(1), TermCause::Asked)));
        let (mut b, actions) = next(vec![unfinished(RunState::Running, 1, true)], vec![worker]);
        assert_eq!(actions, "");
        b.event(installed("f", 1, retrying()));
        assert_eq!(b.exited(exit(1, ExitStatus::Signal(9))), end, "{age} s");
    }
}

#[test]
fn an_order_to_end_that_was_cut_off_is_carried_out() {
    for (begins, end) in [
        (timed_out as fn(&mut Bench) -> String, "record timeout: waiting timeout"),
        (cancelled, "record cancelled: cancelled cancelled"),
    ] {
        let worker = adopted(record_of_ending(begins));
        let (mut b, actions) = next(vec![unfinished(RunState::Running, 1, true)], vec![worker]);
        assert_eq!(actions, "term w1");
        b.event(installed("f", 1, retrying()));
        assert_eq!(b.exited(exit(1, ExitStatus::Signal(15))), end);
    }
}

/// The script ended before the spawner read the order, or because its time was up or the spawner was stopped. The
/// earlier fnd has told its callers the reason of the order.
#[test]
fn the_reason_of_an_order_counts_also_where_another_end_came_before_it() {
    for (begins, end) in [
        (timed_out as fn(&mut Bench) -> String, "record timeout: waiting timeout"),
        (cancelled, "record cancelled: cancelled cancelled"),
    ] {
        for cause in [None, Some(TermCause::Stopped), Some(TermCause::TimeUp)] {
            let worker = Adopted {
                ended: true,
                termed: cause.map(|cause| (secs(1), cause)),
                ..adopted(record_of_ending(begins))
            };
            let (mut b, actions) = next(vec![unfinished(RunState::Running, 1, true)], vec![worker]);
            assert_eq!(actions, "");
            b.event(installed("f", 1, retrying()));
            assert_eq!(b.code(1, 0), end, "{cause:?}");
        }
    }
}

/// A script is cancelled in the grace after its timeout, and its caller is told that it was cancelled.
#[test]
fn the_spawner_gets_a_reason_that_takes_the_place_of_the_first_one() {
    let mut b = Bench::with(retrying());
    b.submit_stored(1);
    b.spawned(1);
    let keeps = |b: &Bench| {
        let mut actions = b.last.iter();
        actions.any(|action| matches!(action, Action::KeepReason(WorkerId(1))))
    };
    assert!(timed_out(&mut b).contains("term w1"));
    assert_eq!(b.cancel(1), "reply 99: done");
    assert!(keeps(&b));
    let text = serde_json::to_string(&b.s.record_of_ending(WorkerId(1)).unwrap()).unwrap();
    assert!(text.contains("cancelled on request"), "{text}");
    b.cancel(1);
    assert!(!keeps(&b), "the spawner has it");
}

/// This fnd was busy for long after the adoption, so that the spawner ended the script for its time.
#[test]
fn the_time_of_an_adopted_script_is_over_when_the_spawner_says_so() {
    let (mut b, _) = next(
        vec![unfinished(RunState::Running, 1, true)],
        vec![adopted(script_record(true))],
    );
    b.event(installed("f", 1, rules()));
    let ended = Exited {
        late: Some((Duration::ZERO, secs(182))),
        ..exit(1, ExitStatus::Signal(15))
    };
    assert_eq!(b.exited(ended), "record timeout: waiting timeout");
}

#[test]
fn an_end_waits_for_its_function_and_says_when_it_was() {
    let before = Adopted {
        ended: true,
        ..adopted(script_record(true))
    };
    let (mut b, _) = next(vec![unfinished(RunState::Running, 1, true)], vec![before]);
    let ended = Exited {
        late: Some((secs(4), secs(6))),
        ..exit(1, ExitStatus::Code(1))
    };
    assert_eq!(b.exited(ended), "");
    assert_eq!(b.event(installed("f", 1, retrying())), "record exit-1: waiting exit-1");
    let lasted = b.last.iter().find_map(|action| match action {
        Action::Record(attempt, _) => Some((attempt.duration_us, attempt.ended_ms)),
        _ => None,
    });
    assert_eq!(lasted, Some((6_000_000, EPOCH_MS + 6_000)));
    // The function was deleted meanwhile: no retry follows.
    let (mut b, _) = next(
        vec![unfinished(RunState::Running, 1, true)],
        vec![adopted(script_record(true))],
    );
    assert_eq!(b.code(1, 1), "");
    assert_eq!(b.event(Event::Scanned { whole: true }), "record exit-1: failed exit-1");
}

#[test]
fn the_retry_of_an_adopted_script_waits_for_a_function_that_is_invalid_or_being_built() {
    for is_invalid in [true, false] {
        for is_scanned_first in [true, false] {
            let (mut b, _) = next(
                vec![unfinished(RunState::Running, 1, true)],
                vec![adopted(script_record(true))],
            );
            b.event(match is_invalid {
                true => Event::Refused {
                    function: name("f"),
                    error: "bad".to_owned(),
                },
                false => Event::Building(name("f")),
            });
            let actions = match is_scanned_first {
                true => [b.event(Event::Scanned { whole: true }), b.code(1, 1)],
                false => [b.code(1, 1), b.event(Event::Scanned { whole: true })],
            };
            assert_eq!(actions.concat(), "record exit-1: waiting exit-1");
            assert_eq!(b.wait(secs(1)), "");
            let mended = b.event(installed("f", 1, retrying()));
            assert!(mended.ends_with("spawn w2 a2 1"), "{mended}");
        }
    }
}

#[test]
fn of_two_attempts_the_newer_goes_on_and_the_older_is_recorded() {
    let older = adopted(script_record(true));
    let mut newer = older.clone();
    (newer.worker, newer.record.run.attempt, newer.age) = (WorkerId(2), 2, secs(1));
    let (mut b, actions) = next(vec![unfinished(RunState::Running, 1, true)], vec![older, newer]);
    assert_eq!((actions.as_str(), b.s.running()), ("", 2));
    b.event(installed("f", 1, retrying()));
    assert_eq!(b.code(1, 1), "record exit-1: running");
    assert_eq!(b.code(2, 0), "record ok: succeeded ok");
}

#[test]
fn a_hand_over_answers_everybody_and_ends_nothing_that_runs() {
    let mut b = Bench::with(retrying());
    b.submit(1);
    b.submit(2);
    b.submit_stored(3);
    b.enqueue(submit("f", 4));
    assert_eq!(
        b.event(Event::HandOver),
        "reply 2: unavailable; update 2 cancelled cancelled; reply 1: unavailable"
    );
    assert_eq!(b.event(Event::Stored(id(4))), "reply 4: queued; drained");
    assert_eq!(b.submit(5), "reply 5: unavailable");
    assert_eq!(b.code(1, 1), "record exit-1: failed exit-1");
    assert_eq!(b.s.running(), 0);
}
