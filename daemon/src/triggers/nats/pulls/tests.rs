//! Functions that ask for messages.

use super::super::fact::NatsFact;
use super::super::tests::{
    at, delivered, entry_is_ready, function, messages, sent, up, wanted, wanted_entry, wanted_reply,
};
use super::*;
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
    messages.delivered(at(12), delivered(first[0], 7, 1), InvocationId(1));
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
