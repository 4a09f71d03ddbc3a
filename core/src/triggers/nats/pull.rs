//! How many messages are asked for: only as many as could begin now. So a node that is killed has little that it has not begun,
//! and a message waits on the server, where each node can get it. Messages that are acknowledged at once are taken ahead.

use crate::run::RoomForMessages;

/// The messages that an entry of `[[nats]]` has, and those that it has asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryLoad {
    /// `max_in_flight`.
    pub most: usize,
    /// Messages that this node has and whose work has not ended.
    pub here: usize,
    /// Messages that were asked for and have not come.
    pub asked: usize,
    /// Whether its stream and its consumer are there, and the server confirms the ends of messages quickly enough.
    pub can_ask: bool,
    /// Whether it takes messages ahead (`ack = "accept"`): messages that are acknowledged at once may wait on this node.
    pub is_ahead: bool,
}

/// Returns how many messages each entry of a function asks for now, in the order of the entries. The room is divided one by one,
/// beginning with entry `first`, so that no entry takes all of it for ever; `first` goes up with each call.
#[must_use]
pub fn to_ask_for(room: RoomForMessages, entries: &[EntryLoad], first: usize) -> Vec<usize> {
    let ahead = |entry: &EntryLoad| match entry.is_ahead && entry.can_ask && !room.is_held {
        true => entry.most.saturating_sub(entry.here + entry.asked),
        false => 0,
    };
    let mut more: Vec<usize> = entries.iter().map(ahead).collect();
    let in_turn = entries.iter().filter(|entry| !entry.is_ahead);
    let asked: usize = in_turn.map(|entry| entry.asked).sum();
    let most = room.group.unwrap_or(usize::MAX).min(room.places).min(room.node);
    let mut rest = if room.is_held { 0 } else { most.saturating_sub(asked) };
    let wants = |entry: &EntryLoad, more: usize| {
        !entry.is_ahead && entry.can_ask && entry.here + entry.asked + more < entry.most
    };
    while rest > 0 {
        let before = rest;
        for step in 0..entries.len() {
            let index = first.wrapping_add(step) % entries.len();
            let (Some(entry), Some(more)) = (entries.get(index), more.get_mut(index)) else {
                continue;
            };
            if rest > 0 && wants(entry, *more) {
                *more += 1;
                rest -= 1;
            }
        }
        if rest == before {
            break; // every entry has what it may have
        }
    }
    more
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn room(places: usize) -> RoomForMessages {
        RoomForMessages {
            places,
            group: None,
            node: 100,
            is_held: false,
        }
    }

    fn entry(most: usize, here: usize, asked: usize) -> EntryLoad {
        EntryLoad {
            most,
            here,
            asked,
            can_ask: true,
            is_ahead: false,
        }
    }

    #[test]
    fn an_entry_asks_for_what_could_begin_now() {
        assert_eq!(to_ask_for(room(4), &[entry(4, 0, 0)], 0), [4]);
        assert_eq!(to_ask_for(room(4), &[entry(4, 0, 3)], 0), [1]);
        assert_eq!(to_ask_for(room(4), &[entry(2, 1, 0)], 0), [1]);
        assert_eq!(to_ask_for(room(0), &[entry(4, 0, 0)], 0), [0]);
        let group = RoomForMessages {
            group: Some(1),
            ..room(4)
        };
        assert_eq!(to_ask_for(group, &[entry(4, 0, 0)], 0), [1]);
        let node = RoomForMessages { node: 2, ..room(4) };
        assert_eq!(to_ask_for(node, &[entry(4, 0, 0)], 0), [2]);
        let held = RoomForMessages {
            is_held: true,
            ..room(4)
        };
        assert_eq!(to_ask_for(held, &[entry(4, 0, 0)], 0), [0]);
        assert!(to_ask_for(room(4), &[], 3).is_empty());
    }

    #[test]
    fn entries_share_the_room_and_take_turns() {
        let two = [entry(9, 0, 0), entry(9, 0, 0)];
        assert_eq!(to_ask_for(room(3), &two, 0), [2, 1]);
        assert_eq!(to_ask_for(room(3), &two, 1), [1, 2]);
        let gone = EntryLoad {
            can_ask: false,
            ..entry(9, 0, 0)
        };
        assert_eq!(to_ask_for(room(3), &[gone, entry(9, 0, 0)], 0), [0, 3]);
    }

    #[test]
    fn what_is_acknowledged_at_once_is_taken_ahead_up_to_its_most() {
        let ahead = EntryLoad {
            is_ahead: true,
            ..entry(9, 2, 3)
        };
        assert_eq!(to_ask_for(room(0), &[ahead, entry(4, 0, 0)], 0), [4, 0]);
        assert_eq!(to_ask_for(room(2), &[ahead, entry(4, 0, 0)], 0), [4, 2]);
        let held = RoomForMessages {
            is_held: true,
            ..room(2)
        };
        assert_eq!(to_ask_for(held, &[ahead], 0), [0]);
    }

    proptest! {
        #[test]
        fn no_bound_is_exceeded_and_no_room_is_left(
            places in 0..20_usize, group in proptest::option::of(0..20_usize), first in 0..9_usize,
            loads in proptest::collection::vec((0..8_usize, 0..8_usize, 0..4_usize, any::<bool>()), 0..5),
        ) {
            let entries: Vec<_> = loads.iter().map(|(most, here, asked, can_ask)| EntryLoad {
                most: *most, here: *here, asked: *asked, can_ask: *can_ask, is_ahead: false,
            }).collect();
            let room = RoomForMessages { places, group, node: 100, is_held: false };
            let more = to_ask_for(room, &entries, first);
            let asked: usize = entries.iter().map(|entry| entry.asked).sum();
            let total: usize = more.iter().sum();
            let most = group.map_or(places, |group| group.min(places));
            prop_assert!(total == 0 || total + asked <= most);
            let mut could = 0;
            for (entry, more) in entries.iter().zip(&more) {
                prop_assert!(*more == 0 || (entry.can_ask && entry.here + entry.asked + more <= entry.most));
                if entry.can_ask {
                    could += entry.most.saturating_sub(entry.here + entry.asked + more);
                }
            }
            prop_assert!(could == 0 || total + asked >= most);
        }
    }
}
