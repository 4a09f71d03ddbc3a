//! Acceptance: durability, overlap, queue, rate, budget.

use super::bench::*;
use crate::idempotency::{IdempotencyKey, KeyOwner};
use crate::records::outcome::{Reason, Skip, Trigger};
use crate::run::{Action, Answer, Event, NodeBudget, Overlap, QueueRules, Rejection, Rules, Submit};
use std::time::Duration;

fn overlapping(overlap: Overlap, max: u32) -> Rules {
    let queue = QueueRules {
        max,
        overlap,
        rate: None,
        group: None,
        key: None,
    };
    Rules { queue, ..rules() }
}

#[test]
fn what_nobody_waits_for_is_on_disk_before_it_is_acknowledged_or_started() {
    let mut b = Bench::with(rules());
    assert_eq!(b.enqueue(submit("f", 1)), "store 1");
    assert_eq!(b.event(Event::Stored(id(1))), "reply 1: queued; spawn w1 a1 1");
}

#[test]
fn what_could_not_be_stored_is_forgotten() {
    let mut b = Bench::with(rules());
    b.enqueue(submit("f", 1));
    assert_eq!(b.event(Event::StoreFailed(id(1))), "reply 1: store failed");
    let wakes = |action: &Action| matches!(action, Action::Dropped(dropped) if *dropped == id(1));
    assert!(b.last.iter().any(wakes), "callers may wait for its end");
    assert_eq!((b.s.queued(), b.s.running()), (0, 0));
}

#[test]
fn cancelled_while_being_stored_it_is_acknowledged_first() {
    let mut b = Bench::with(rules());
    b.enqueue(submit("f", 1));
    assert_eq!(b.cancel(1), "reply 99: done");
    assert_eq!(
        b.event(Event::Stored(id(1))),
        "reply 1: queued; update 1 cancelled cancelled"
    );
}

#[test]
fn the_queue_is_bounded() {
    let mut b = Bench::with(overlapping(Overlap::Queue, 1));
    assert_eq!(b.submit(1), "note 1; spawn w1 a1 1");
    assert_eq!(b.submit(2), "note 2");
    assert_eq!(b.submit(3), "reply 3: rejected QueueFull");
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w2 a1 2"
    );
}

#[test]
fn reject_refuses_what_overlaps() {
    let mut b = Bench::with(overlapping(Overlap::Reject, 5));
    b.submit(1);
    assert_eq!(b.submit(2), "reply 2: rejected Overlap");
    b.code(1, 0);
    assert_eq!(b.submit(3), "note 3; spawn w2 a1 3");
}

#[test]
fn skip_records_what_overlaps() {
    let mut b = Bench::with(overlapping(Overlap::Skip, 0));
    b.submit(1);
    let skipped = "update 2 skipped skipped-overlap; reply 2: skipped skipped-overlap";
    assert_eq!(b.submit(2), format!("note 2; {skipped}"));
    assert_eq!(b.submit_stored(3), "reply 3: queued; update 3 skipped skipped-overlap");
    b.enqueue(submit("f", 4));
    b.code(1, 0);
    // A skipped invocation takes no place while it is being stored.
    assert_eq!(b.submit(5), "note 5; spawn w2 a1 5");
    assert_eq!(
        b.event(Event::Stored(id(4))),
        "reply 4: queued; update 4 skipped skipped-overlap"
    );
    b.code(2, 0);
    assert_eq!(b.submit(6), "note 6; spawn w3 a1 6");
}

#[test]
fn what_is_skipped_takes_nothing_of_the_rate() {
    let mut rules = overlapping(Overlap::Skip, 0);
    rules.queue.rate = Some((2, secs(1000)));
    let mut b = Bench::with(rules);
    b.submit(1);
    b.submit(2);
    b.submit(3);
    b.code(1, 0);
    assert!(b.submit(4).contains("spawn"));
}

#[test]
fn replace_cancels_the_oldest_and_then_the_one_that_waits_for_its_place() {
    let mut b = Bench::with(overlapping(Overlap::Replace, 5));
    b.submit(1);
    b.spawned(1);
    assert_eq!(b.submit(2), "note 2; term w1");
    let second = "note 3; update 2 skipped skipped-overlap; reply 2: skipped skipped-overlap";
    assert_eq!(b.submit(3), second);
    assert_eq!(
        b.code(1, 0),
        "record cancelled: cancelled cancelled; reply 1: cancelled cancelled; spawn w2 a1 3"
    );
}

#[test]
fn the_rate_allows_a_burst_and_then_says_when_to_come_again() {
    let mut rules = rules();
    rules.max_running = 9;
    rules.memory = MIB;
    rules.queue.rate = Some((2, secs(10)));
    let mut b = Bench::with(rules);
    assert!(b.submit(1).contains("spawn"));
    assert!(b.submit(2).contains("spawn"));
    b.submit(3);
    let Some(Action::Reply(_, Answer::Rejected(Rejection::Skipped { skip, retry_after }))) = b.last.first() else {
        panic!()
    };
    assert_eq!((*skip, *retry_after), (Skip::Rate, Some(secs(5))));
    b.wait(secs(5));
    assert!(b.submit(4).contains("spawn"));
    assert_eq!(b.submit(5), "reply 5: rejected Rate");
}

#[test]
fn the_same_idempotency_key_is_the_same_invocation_while_it_lives() {
    let mut b = Bench::with(rules());
    let keyed = |n| {
        Event::Submit(Box::new(Submit {
            idempotency_key: Some(IdempotencyKey::stored("k".into())),
            ..submit("f", n)
        }))
    };
    b.event(keyed(1));
    assert_eq!(b.event(keyed(2)), "");
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; reply 2: succeeded ok"
    );
    assert_eq!(b.event(keyed(3)), "note 3; spawn w2 a1 3");
}

#[test]
fn a_key_of_a_live_invocation_is_for_the_same_request_of_the_same_caller() {
    let mut b = Bench::with(rules());
    let keyed = |n, user, content: &'static [u8]| {
        Event::Submit(Box::new(Submit {
            idempotency_key: Some(IdempotencyKey::new(KeyOwner::User(user), "k", [content])),
            ..submit("f", n)
        }))
    };
    b.event(keyed(1, 7, b"x"));
    assert_eq!(b.event(keyed(2, 7, b"y")), "reply 2: key reused");
    assert_eq!(b.event(keyed(3, 8, b"y")), "note 3", "the key of another user");
    assert_eq!(b.event(keyed(4, 7, b"x")), "");
    let ended = b.code(1, 0);
    assert!(
        ended.contains("reply 1: succeeded ok; reply 4: succeeded ok"),
        "{ended}"
    );
    assert!(!ended.contains("reply 3"), "{ended}");
}

#[test]
fn greater_priorities_begin_first_and_equal_ones_in_order() {
    let mut b = Bench::with(rules());
    let prior = |n, priority| {
        Event::Submit(Box::new(Submit {
            priority,
            ..submit("f", n)
        }))
    };
    assert_eq!(b.event(prior(1, -100)), "note 1; spawn w1 a1 1");
    for (n, priority) in [(2, 0), (3, 5), (4, -1), (5, 5)] {
        assert_eq!(b.event(prior(n, priority)), format!("note {n}"));
    }
    for (worker, next) in [(1, 3), (2, 5), (3, 2), (4, 4)] {
        let actions = b.code(worker, 0);
        assert!(
            actions.ends_with(&format!("spawn w{} a1 {next}", worker + 1)),
            "{actions}"
        );
    }
}

#[test]
fn a_delayed_start_waits_for_its_instant() {
    let mut b = Bench::with(rules());
    b.event(Event::Submit(Box::new(Submit {
        not_before_ms: Some(EPOCH_MS + 10_000),
        ..submit("f", 1)
    })));
    assert_eq!(b.submit(2), "note 2; spawn w1 a1 2");
    let begins_ms = |b: &Bench| b.s.invocation(id(1)).unwrap().next_attempt_ms;
    assert_eq!(begins_ms(&b), Some(EPOCH_MS + 10_000), "people are shown it");
    b.code(1, 0);
    assert_eq!(b.wait(Duration::from_millis(9_999)), "");
    assert_eq!(b.wait(Duration::from_millis(1)), "spawn w2 a1 1");
    assert_eq!(begins_ms(&b), None);
}

#[test]
fn what_has_not_begun_when_it_expires_is_skipped() {
    let mut b = Bench::with(rules());
    let expiring = |n, ms| {
        Event::Submit(Box::new(Submit {
            expires_ms: Some(ms),
            ..submit("f", n)
        }))
    };
    assert_eq!(b.event(expiring(1, EPOCH_MS)), "reply 1: rejected Expired");
    b.event(expiring(2, EPOCH_MS + 1_000));
    b.event(expiring(3, EPOCH_MS + 1_000));
    assert_eq!(
        b.wait(secs(1)),
        "update 3 skipped skipped-expired; reply 3: skipped skipped-expired"
    );
}

#[test]
fn the_first_in_line_for_memory_is_not_overtaken() {
    let mut b = Bench::new();
    let sized = |mib| Rules {
        memory: mib * MIB,
        memory_text: format!("{mib} MiB"),
        ..rules()
    };
    b.event(installed("a", 1, sized(600)));
    b.event(installed("big", 1, sized(1000)));
    b.event(installed("c", 1, sized(100)));
    let run = |b: &mut Bench, function, n| b.request(submit(function, n));
    assert_eq!(run(&mut b, "a", 1), "note 1; spawn w1 a1 1");
    assert_eq!(run(&mut b, "big", 2), "note 2");
    assert_eq!(run(&mut b, "c", 3), "note 3");
    assert_eq!(run(&mut b, "a", 4), "note 4");
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w2 a1 2"
    );
    assert_eq!(
        b.code(2, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w3 a1 3; spawn w4 a1 4"
    );
}

#[test]
fn what_can_never_fit_is_refused_in_words() {
    let mut b = Bench::with(Rules {
        memory: 2048 * MIB,
        memory_text: "2 GiB".to_owned(),
        ..rules()
    });
    let words = "it needs 2 GiB of memory (limits.memory), more than the 1 GiB that all functions together may use ([node] memory)";
    assert_eq!(b.submit(1), format!("reply 1: invalid: {words}"));
    assert_eq!(b.s.function(&name("f")).unwrap().error.as_deref(), Some(words));
}

#[test]
fn the_memory_of_a_machine_is_told_in_round_numbers() {
    for (memory, spelled) in [
        (1024 * MIB + 4096, "1 GiB"),
        (1023 * MIB + 4096, "1023 MiB"),
        (4096, "4 KiB"),
    ] {
        let mut b = Bench::new();
        b.s.set_budget(NodeBudget {
            memory,
            cpu_milli: None,
            workers: 1,
        });
        let large = Rules {
            memory: 2048 * MIB,
            ..rules()
        };
        b.event(installed("f", 1, large));
        let error = b.s.function(&name("f")).unwrap().error.unwrap_or_default();
        assert!(error.contains(&format!("more than the {spelled} that")), "{error}");
    }
}

#[test]
fn quotas_share_the_cpu_of_the_node() {
    let mut b = Bench::new();
    b.s.set_budget(NodeBudget {
        memory: 1024 * MIB,
        cpu_milli: Some(1000),
        workers: 10,
    });
    let quota = |cpu_milli| Rules {
        cpu_milli,
        memory: MIB,
        max_running: 2,
        ..rules()
    };
    b.event(installed("a", 1, quota(Some(600))));
    b.event(installed("b", 1, quota(Some(500))));
    b.event(installed("free", 1, quota(None)));
    b.event(installed("wide", 1, quota(Some(1500))));
    let run = |b: &mut Bench, function, n| b.request(submit(function, n));
    assert_eq!(run(&mut b, "a", 1), "note 1; spawn w1 a1 1");
    // The quota belongs to the function, not to each worker.
    assert_eq!(run(&mut b, "a", 2), "note 2; spawn w2 a1 2");
    assert_eq!(run(&mut b, "free", 3), "note 3; spawn w3 a1 3");
    assert_eq!(run(&mut b, "b", 4), "note 4");
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; reply 1: succeeded ok");
    assert_eq!(
        b.code(2, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w4 a1 4"
    );
    let words =
        "it may use 1500m of CPU (limits.cpu), more than the 1 that all functions together may use ([node] cpu)";
    assert_eq!(run(&mut b, "wide", 5), format!("reply 5: invalid: {words}"));
}

#[test]
fn a_budget_that_shrinks_below_what_waits_ends_it() {
    let mut b = Bench::with(rules());
    b.submit(1);
    b.submit_stored(2);
    b.s.set_budget(NodeBudget {
        memory: MIB,
        cpu_milli: None,
        workers: 1,
    });
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; update 2 failed spawn"
    );
}

#[test]
fn refusals_say_what_is_wrong() {
    let mut b = Bench::new();
    assert_eq!(b.submit(1), "reply 1: no such function");
    b.event(Event::Refused {
        function: name("f"),
        error: "f.toml:1:1: unknown key".to_owned(),
    });
    assert_eq!(b.submit(2), "reply 2: invalid: f.toml:1:1: unknown key");
    b.event(installed(
        "f",
        1,
        Rules {
            enabled: false,
            ..rules()
        },
    ));
    assert_eq!(b.submit(3), "reply 3: rejected Disabled");
    b.event(installed("f", 2, rules()));
    b.event(Event::Drain);
    assert_eq!(b.submit(4), "reply 4: unavailable");
}

/// A request of a trigger: nobody waits for the answer.
fn unattended(n: u128) -> Submit {
    Submit {
        reply: None,
        wait: false,
        ..submit("f", n)
    }
}

#[test]
fn a_refused_run_that_nobody_waits_for_is_recorded() {
    let mut b = Bench::with(overlapping(Overlap::Queue, 1));
    b.submit(1);
    b.submit(2);
    assert_eq!(b.request(unattended(3)), "store 3");
    assert_eq!(b.event(Event::Stored(id(3))), "update 3 skipped skipped-queue-full");
    let mut b = Bench::with(overlapping(Overlap::Queue, 1));
    b.submit(1);
    let rejects = Submit {
        overlap: Some(Overlap::Reject),
        ..unattended(2)
    };
    assert_eq!(b.request(rejects), "store 2");
    assert_eq!(b.event(Event::Stored(id(2))), "update 2 skipped skipped-overlap");
}

#[test]
fn the_overlap_of_a_request_wins_over_that_of_the_function() {
    let mut b = Bench::with(overlapping(Overlap::Queue, 1));
    b.submit(1);
    let skips = Submit {
        overlap: Some(Overlap::Skip),
        ..unattended(2)
    };
    assert_eq!(b.request(skips), "store 2");
    assert_eq!(b.event(Event::Stored(id(2))), "update 2 skipped skipped-overlap");
}

/// Otherwise the next fnd would run it if this one is killed before the end is stored.
#[test]
fn what_never_begins_is_stored_with_its_end() {
    let missed = Submit {
        skipped: Some((Reason::Skipped(Skip::Missed), "the run was missed".into())),
        ..unattended(3)
    };
    let overlaps = |overlap| Submit {
        overlap: Some(overlap),
        ..unattended(3)
    };
    for (submit, expected) in [
        (missed, Skip::Missed),
        (overlaps(Overlap::Skip), Skip::Overlap),
        (overlaps(Overlap::Reject), Skip::Overlap),
        (overlaps(Overlap::Queue), Skip::QueueFull),
    ] {
        let mut b = Bench::with(overlapping(Overlap::Queue, 1));
        b.submit(1);
        b.submit(2);
        b.request(submit);
        let stored = b.last.iter().find_map(|action| match action {
            Action::Store(accepted) => Some(accepted),
            _ => None,
        });
        let stored = stored.expect("it is recorded");
        let reason = stored.skipped.as_ref().map(|(reason, _)| *reason);
        assert_eq!((reason, stored.dead_letter), (Some(Reason::Skipped(expected)), false));
    }
}

#[test]
fn a_missed_run_is_recorded_and_never_begins() {
    let mut b = Bench::with(rules());
    let missed = Submit {
        skipped: Some((Reason::Skipped(Skip::Missed), "the run was missed".into())),
        ..unattended(1)
    };
    assert_eq!(b.request(missed), "store 1");
    assert_eq!(b.event(Event::Stored(id(1))), "update 1 skipped skipped-missed");
    assert_eq!((b.s.queued(), b.s.running()), (0, 0));
}

#[test]
fn input_that_cannot_be_read_is_a_dead_letter_and_never_begins() {
    let mut b = Bench::with(rules());
    let unreadable = Submit {
        trigger: Trigger::Nats,
        skipped: Some((Reason::Input, "it is a batch".into())),
        ..unattended(1)
    };
    assert_eq!(b.request(unreadable), "store 1");
    let is_dead_letter = b.last.iter().any(|action| match action {
        Action::Store(accepted) => accepted.dead_letter,
        _ => false,
    });
    assert!(is_dead_letter);
    assert_eq!(b.event(Event::Stored(id(1))), "update 1 failed input");
    assert_eq!((b.s.queued(), b.s.running()), (0, 0));
}
