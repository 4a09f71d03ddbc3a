//! Invocations with the same value of a key.

use super::*;
use crate::data::{BytesOwner, Data};
use crate::run::Overlap;
use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn runs_of_one_customer_begin_one_after_the_other_and_others_pass_them() {
    let mut b = Bench::with(keyed(1));
    assert_eq!(ask(&mut b, 1, "a"), "note 1; spawn w1 a1 1");
    assert_eq!(ask(&mut b, 2, "a"), "note 2");
    assert_eq!(ask(&mut b, 3, "a"), "note 3");
    assert_eq!(ask(&mut b, 4, "b"), "note 4; spawn w2 a1 4");
    assert_eq!(b.s.function(&name("f")).unwrap().held_back, Some((2, "a")));
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w3 a1 2"
    );
    assert_eq!(
        b.code(3, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w4 a1 3"
    );
    assert_eq!(b.s.function(&name("f")).unwrap().held_back, None);
}

#[test]
fn as_many_of_one_customer_go_on_as_may() {
    let mut b = Bench::with(keyed(2));
    ask(&mut b, 1, "a");
    assert_eq!(ask(&mut b, 2, "a"), "note 2; spawn w2 a1 2");
    assert_eq!(ask(&mut b, 3, "a"), "note 3");
    assert_eq!(
        b.code(2, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w3 a1 3"
    );
}

/// A message is asked for only if it could begin.
#[test]
fn what_waits_for_its_key_leaves_that_much_less_room_for_messages() {
    let mut b = Bench::with(keyed(1));
    let room = |b: &Bench| b.s.room_for_messages(&name("f")).map(|room| room.places);
    assert_eq!(room(&b), Some(4));
    ask(&mut b, 1, "a");
    ask(&mut b, 2, "a");
    ask(&mut b, 3, "a");
    assert_eq!(room(&b), Some(1));
}

#[test]
fn a_run_without_the_value_waits_for_none_and_holds_up_none() {
    let mut b = Bench::with(keyed(1));
    assert_eq!(b.submit(1), "note 1; spawn w1 a1 1");
    assert_eq!(b.submit(2), "note 2; spawn w2 a1 2");
    let text = Submit {
        payload: Payload {
            data: Some(b"no JSON".into()),
            ..Payload::default()
        },
        ..submit("f", 3)
    };
    assert_eq!(b.request(text), "note 3; spawn w3 a1 3");
    assert_eq!(ask(&mut b, 4, "a"), "note 4; spawn w4 a1 4");
}

#[test]
fn a_retry_and_a_poll_keep_their_place() {
    let mut rules = keyed(1);
    rules.retry.retries = 1;
    let mut b = Bench::with(rules);
    ask(&mut b, 1, "a");
    assert_eq!(ask(&mut b, 2, "a"), "note 2");
    assert_eq!(b.code(1, 1), "record exit-1: waiting exit-1");
    assert_eq!(ask(&mut b, 3, "b"), "note 3; spawn w2 a1 3");
    assert_eq!(b.wait(secs(1)), "spawn w3 a2 1");
    assert_eq!(
        b.code(3, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w4 a1 2"
    );
}

#[test]
fn a_cancelled_run_lets_the_next_one_begin() {
    let mut b = Bench::with(keyed(1));
    for n in 1..=3 {
        ask(&mut b, n, "a");
    }
    assert_eq!(
        b.cancel(2),
        "update 2 cancelled cancelled; reply 2: cancelled cancelled; reply 99: done"
    );
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 1: succeeded ok; spawn w2 a1 3"
    );
}

#[test]
fn a_delayed_run_takes_its_place_when_its_time_comes() {
    let mut b = Bench::with(keyed(1));
    let later = Submit {
        not_before_ms: Some(EPOCH_MS + 10_000),
        ..of_customer(1, "a")
    };
    assert_eq!(b.request(later), "note 1");
    assert_eq!(ask(&mut b, 2, "a"), "note 2; spawn w1 a1 2");
    assert_eq!(b.wait(secs(11)), "");
    assert_eq!(ask(&mut b, 3, "a"), "note 3");
    assert_eq!(
        b.code(1, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w2 a1 1"
    );
}

#[test]
fn overlap_means_the_customer_where_the_customer_has_no_place() {
    for (overlap, second, other) in [
        (
            Overlap::Skip,
            "note 2; update 2 skipped skipped-overlap; reply 2: skipped skipped-overlap",
            "note 3; spawn w2 a1 3",
        ),
        (Overlap::Reject, "reply 2: rejected Overlap", "note 3; spawn w2 a1 3"),
        (Overlap::Replace, "note 2; term w1", "note 3; spawn w2 a1 3"),
    ] {
        let mut rules = keyed(1);
        rules.queue.overlap = overlap;
        let mut b = Bench::with(rules);
        ask(&mut b, 1, "a");
        b.spawned(1);
        assert_eq!(ask(&mut b, 2, "a"), second, "{overlap:?}");
        assert_eq!(ask(&mut b, 3, "b"), other, "{overlap:?}");
    }
}

#[test]
fn a_replacing_run_ends_the_one_of_its_customer_that_waits_for_a_retry() {
    let mut rules = keyed(1);
    rules.queue.overlap = Overlap::Replace;
    rules.retry.retries = 3;
    let mut b = Bench::with(rules);
    ask(&mut b, 1, "a");
    b.code(1, 1);
    assert_eq!(
        ask(&mut b, 2, "a"),
        "note 2; update 1 failed exit-1; reply 1: failed exit-1; spawn w2 a1 2"
    );
}

#[test]
fn another_key_of_a_new_release_puts_everything_in_its_order() {
    let mut b = Bench::with(four());
    ask(&mut b, 1, "a");
    ask(&mut b, 2, "a");
    for n in 3..=6 {
        ask(&mut b, n, "b");
    }
    // Four run: 1 and 2 of the customer `a`, 3 and 4 of `b`.
    b.event(installed("f", 2, keyed(1)));
    assert_eq!(b.code(3, 0), "record ok: succeeded ok; reply 3: succeeded ok");
    assert_eq!(
        b.code(4, 0),
        "record ok: succeeded ok; reply 4: succeeded ok; spawn w5 a1 5"
    );
    assert_eq!(ask(&mut b, 7, "a"), "note 7");
    assert_eq!(b.code(1, 0), "record ok: succeeded ok; reply 1: succeeded ok");
    assert_eq!(
        b.code(2, 0),
        "record ok: succeeded ok; reply 2: succeeded ok; spawn w6 a1 7"
    );
    assert_eq!(b.event(installed("f", 3, four())), "spawn w7 a1 6");
}

#[test]
fn a_replacing_run_touches_no_other_customer_even_if_all_processes_are_busy() {
    let mut rules = keyed(1);
    (rules.queue.overlap, rules.max_running) = (Overlap::Replace, 2);
    let mut b = Bench::with(rules.clone());
    ask(&mut b, 1, "a");
    ask(&mut b, 2, "b");
    b.spawned(1);
    b.spawned(2);
    assert_eq!(ask(&mut b, 3, "b"), "note 3; term w2");
    assert_eq!(ask(&mut b, 4, "c"), "note 4", "it waits for a process");
    // A run that only its customer holds up takes no process.
    let mut b = Bench::with(rules);
    ask(&mut b, 1, "a");
    b.spawned(1);
    assert_eq!(ask(&mut b, 2, "a"), "note 2; term w1");
    assert_eq!(ask(&mut b, 3, "b"), "note 3; spawn w2 a1 3");
}

#[test]
fn a_delayed_run_that_is_being_stored_holds_up_nobody() {
    let mut b = Bench::with(keyed(1));
    let later = Submit {
        wait: false,
        not_before_ms: Some(EPOCH_MS + 10_000),
        ..of_customer(1, "a")
    };
    assert_eq!(b.request(later), "store 1");
    assert_eq!(ask(&mut b, 2, "a"), "note 2; spawn w1 a1 2");
    assert_eq!(b.event(Event::Stored(id(1))), "reply 1: queued");
    b.code(1, 0);
    assert_eq!(b.wait(secs(11)), "spawn w2 a1 1");
}

#[test]
fn one_that_is_cancelled_while_it_is_being_stored_holds_up_nobody() {
    let mut rules = keyed(1);
    rules.queue.overlap = Overlap::Reject;
    let mut b = Bench::with(rules);
    let stored = |n| {
        let submit = Submit {
            wait: false,
            overlap: Some(Overlap::Queue),
            ..of_customer(n, "a")
        };
        Event::Submit(Box::new(submit))
    };
    assert_eq!(b.event(stored(1)), "store 1");
    assert_eq!(b.event(stored(2)), "store 2");
    assert_eq!(b.event(Event::Stored(id(2))), "reply 2: queued");
    assert_eq!(b.cancel(1), "reply 99: done; spawn w1 a1 2");
    assert_eq!(
        b.event(Event::Stored(id(1))),
        "reply 1: queued; update 1 cancelled cancelled"
    );
    b.code(1, 0);
    assert_eq!(b.event(stored(3)), "store 3");
    assert_eq!(b.cancel(3), "reply 99: done");
    assert_eq!(ask(&mut b, 4, "a"), "note 4; spawn w2 a1 4");
}

/// A payload that can be read once.
#[derive(Debug, Default)]
struct ReadOnce(AtomicBool);

impl BytesOwner for ReadOnce {
    fn size(&self) -> u64 {
        17
    }

    fn bytes(&self) -> io::Result<Cow<'_, [u8]>> {
        match self.0.swap(true, Ordering::Relaxed) {
            false => Ok(Cow::Owned(br#"{"customer": "a"}"#.to_vec())),
            true => Err(io::ErrorKind::Other.into()),
        }
    }
}

/// A second read would find no value, and the run would hold up nobody.
#[test]
fn a_payload_is_read_once_for_its_key() {
    for overlap in [Overlap::Queue, Overlap::Skip, Overlap::Reject, Overlap::Replace] {
        let mut rules = keyed(1);
        rules.queue.overlap = overlap;
        let mut b = Bench::with(rules);
        let mut submit = of_customer(1, "a");
        submit.payload.data = Some(Data::new(ReadOnce::default()));
        assert_eq!(b.request(submit), "note 1; spawn w1 a1 1");
        let second = ask(&mut b, 2, "a");
        assert!(!second.contains("spawn"), "{overlap:?}: {second}");
    }
}

#[test]
fn another_number_for_the_same_key_reads_no_payload_again() {
    let mut b = Bench::with(keyed(1));
    ask(&mut b, 1, "a");
    for n in 2..=3 {
        let mut submit = of_customer(n, "a");
        submit.payload.data = Some(Data::new(ReadOnce::default()));
        b.request(submit);
    }
    assert_eq!(
        b.event(installed("f", 2, keyed(2))),
        "spawn w2 a1 2",
        "the third one has its place"
    );
}
