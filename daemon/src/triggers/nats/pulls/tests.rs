//! Functions that ask for messages.

use super::super::fact::{NatsAnswer, NatsFact, WriteRefused};
use super::super::tests::{
    at, delivered, entry_is_ready, function, messages, record, sent, up, wanted, wanted_entry, wanted_reply,
};
use super::*;
use fnd_core::records::outcome::Reason;
use fnd_wire::ids::{Attempt, InvocationId};

const ROOM: RoomForMessages = RoomForMessages {
    places: 3,
    group: None,
    node: 9,
    is_held: false,
};

/// Returns the part with an entry 1 of a function `f`, for which nothing was asked yet.
fn with_entry() -> Messages {
    let mut messages = messages();
    up(&mut messages);
    messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "x")])));
    entry_is_ready(&mut messages, 1);
    messages.take_effects();
    messages
}

#[test]
fn a_function_asks_for_its_room_once_and_again_for_what_will_not_come() {
    let mut messages = with_entry();
    assert_eq!(messages.asking(), [function("f")]);
    messages.room(at(1).mono, (&function("f"), None), ROOM);
    assert!(matches!(
        sent(&mut messages)[..],
        [NatsRequest::Pull { entry: 1, count: 3 }]
    ));
    messages.room(at(1).mono, (&function("f"), None), ROOM);
    assert!(sent(&mut messages).is_empty());
    messages.fact(at(6), NatsFact::PullEnded { entry: 1, left: 2 }, InvocationId(1));
    messages.room(at(6).mono, (&function("f"), None), ROOM);
    assert!(matches!(
        sent(&mut messages)[..],
        [NatsRequest::Pull { entry: 1, count: 2 }]
    ));
}

/// Takes a message, as the invocation of its number.
fn take(messages: &mut Messages, sequence: u64) {
    messages.delivered(at(1), delivered(1, sequence, 1), InvocationId(sequence.into()));
    assert!(matches!(messages.take_effects()[..], [MessageEffect::Submit(_)]));
}

#[test]
fn a_message_that_has_ended_makes_room_before_the_server_is_told_and_no_more_than_as_many() {
    let mut messages = with_entry();
    let most: u64 = 4;
    for round in 0..2_u64 {
        (1..=most).for_each(|number| take(&mut messages, round * most + number));
        assert!(messages.asking().is_empty(), "as many are here as may be");
        for number in 1..=most {
            let id = InvocationId((round * most + number).into());
            messages.ends(&record(id, Reason::Ok));
            // The others of this round are not forgotten yet.
            assert_eq!(messages.asking().is_empty(), number == most);
        }
        for number in 1..=most {
            assert!(messages.forget(InvocationId((round * most + number).into())).is_some());
            assert_eq!(messages.asking(), [function("f")]);
        }
    }
    let entry = &messages.entries[&1];
    assert_eq!((entry.here, entry.ending), (0, 0));
}

#[test]
fn at_most_twice_as_many_are_here_while_the_server_confirms_nothing() {
    let mut messages = with_entry();
    let end = |messages: &mut Messages, number: u64| {
        messages.ends(&record(InvocationId(number.into()), Reason::Ok));
    };
    (1..=4).for_each(|number| take(&mut messages, number));
    (1..=3).for_each(|number| end(&mut messages, number));
    assert_eq!(messages.asking(), [function("f")]);
    (5..=7).for_each(|number| take(&mut messages, number));
    assert!(messages.asking().is_empty(), "as many are worked on as may be");
    (4..=7).for_each(|number| end(&mut messages, number));
    let entry = &messages.entries[&1];
    assert_eq!((entry.here, entry.ending), (0, 7));
    for number in 1..=4_u64 {
        assert!(
            messages.asking().is_empty(),
            "as many as may be, or more, wait for their end"
        );
        assert!(messages.forget(InvocationId(number.into())).is_some());
    }
    assert_eq!(messages.asking(), [function("f")]);
}

/// The manifest has changed, or the function was away.
#[test]
fn an_entry_that_is_made_anew_counts_the_work_and_the_ends_that_are_here() {
    let mut messages = with_entry();
    (1..=3).for_each(|number| take(&mut messages, number));
    messages.ends(&record(InvocationId(1), Reason::Ok));
    messages.wants(&function("f"), None);
    messages.ends(&record(InvocationId(2), Reason::Ok));
    messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "y")])));
    let places = |messages: &Messages| {
        let entries = messages.entries.values();
        entries.map(|entry| (entry.here, entry.ending)).collect::<Vec<_>>()
    };
    assert_eq!(places(&messages), [(1, 2)]);
    for number in 1..=3_u64 {
        messages.forget(InvocationId(number.into()));
    }
    assert_eq!(places(&messages), [(0, 0)]);
}

/// Returns the part with the entries 1 of `f` and 2 of `g`.
fn with_two_functions() -> Messages {
    let mut messages = with_entry();
    messages.wants(&function("g"), Some(wanted(vec![wanted_entry("g", "y")])));
    entry_is_ready(&mut messages, 2);
    messages.take_effects();
    messages
}

/// Lets both functions ask, with room for one in their group, or on the node. Returns the entries that have asked.
fn asked(messages: &mut Messages, seconds: u64, (group, node): (Option<&str>, usize)) -> Vec<u32> {
    let room = RoomForMessages {
        group: group.map(|_| 1),
        node,
        ..ROOM
    };
    for function in messages.asking() {
        messages.room(at(seconds).mono, (&function, group), room);
    }
    let requests = sent(messages).into_iter();
    let pulls = requests.filter_map(|request| match request {
        NatsRequest::Pull { entry, count: 1 } => Some(entry),
        _ => None,
    });
    pulls.collect()
}

#[test]
fn functions_that_share_room_ask_for_it_in_turn() {
    for shared in [(Some("db"), 9), (None, 1)] {
        let mut messages = with_two_functions();
        let first = asked(&mut messages, 10, shared);
        assert_eq!(first.len(), 1, "{shared:?}");
        assert!(asked(&mut messages, 10, shared).is_empty(), "{shared:?}");
        assert_eq!(messages.ask_again_at, Some(at(11).mono));
        // Nothing has come: its stream is empty, and the other function must not wait for it.
        let other = asked(&mut messages, 11, shared);
        assert_eq!((other.len(), other == first), (1, false), "{shared:?}");
    }
    let mut messages = with_two_functions();
    let first = asked(&mut messages, 10, (Some("db"), 9));
    let other = 3 - first[0];
    // A message has come that is not decided yet.
    messages.delivered(at(12), delivered(first[0], 7, 2), InvocationId(1));
    assert!(asked(&mut messages, 12, (Some("db"), 9)).is_empty(), "{other}");
}

#[test]
fn functions_are_looked_at_again_when_something_has_happened() {
    let mut messages = with_entry();
    assert!(messages.takes_new_room() && !messages.takes_new_room());
    messages.attempt_ended(at(1), InvocationId(9), Attempt(1));
    assert!(messages.takes_new_room() && !messages.takes_new_room());
    messages.fact(at(6), NatsFact::PullEnded { entry: 1, left: 2 }, InvocationId(1));
    assert!(messages.takes_new_room());
    messages.room_may_have_changed();
    assert!(messages.takes_new_room());
    // The answer to a claim says nothing of room, unless its attempt begins later.
    let id = InvocationId(7);
    messages.take_effects();
    for (answer, makes_room) in [(Ok(5), false), (Err(WriteRefused::Refused("full".to_owned())), true)] {
        take(&mut messages, 7);
        messages.stored(at(7), id, true);
        assert!(messages.claim(at(7), &record(id, Reason::Ok)));
        messages.takes_new_room();
        let requests = sent(&mut messages);
        let [NatsRequest::Write(write)] = &requests[..] else {
            panic!("the claim is written");
        };
        let fact = NatsFact::Answer(write.number, NatsAnswer::Written(answer));
        messages.fact(at(8), fact, id);
        // The outcome comes with the second answer.
        messages.ledger_answers(at(8), vec![id], true);
        assert_eq!(messages.takes_new_room(), makes_room);
        messages.forget(id);
        messages.take_effects();
    }
}

#[test]
fn a_node_that_drains_answers_no_requests() {
    let mut messages = with_entry();
    let entries = vec![wanted_entry("f", "x"), wanted_reply("f", "sum")];
    messages.wants(&function("f"), Some(wanted(entries)));
    messages.take_effects();
    for (is_draining, told) in [(true, vec![1]), (false, vec![1, 2])] {
        messages.drains(is_draining);
        let requests = sent(&mut messages);
        let [NatsRequest::Entries(entries)] = &requests[..] else {
            panic!("the thread is told");
        };
        let numbers: Vec<u32> = entries.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, told);
    }
}

#[test]
fn nothing_is_asked_for_while_fnd_drains_or_has_no_lease_for_its_name() {
    let mut messages = with_entry();
    messages.drains(true);
    assert!(messages.asking().is_empty());
    messages.drains(false);
    assert_eq!(messages.asking().len(), 1);
    messages.disconnected(at(6), "away".to_owned());
    assert!(messages.asking().is_empty());
}
