//! How many messages are asked for: only as many as could begin now.

use super::books::{EntryBook, MessageStage, OpenMessage};
use super::fact::EntryState;
use super::request::NatsRequest;
use super::{MessageEffect, Messages};
use fnd_core::run::{Event, RoomForMessages};
use fnd_core::triggers::nats::pull::{EntryLoad, to_ask_for};
use fnd_wire::ids::FunctionName;
use std::time::Duration;

/// A message that waits in its stream comes within this time after it was asked for. A message that has not come by then may not come
/// for long, so other functions may ask for the same room.
const COMES_SOON: Duration = Duration::from_secs(1);

/// Messages that may need room.
#[derive(Default)]
struct Undecided {
    on_node: usize,
    in_group: usize,
    /// When there are fewer of them, if nothing comes.
    until: Option<Duration>,
}

impl Messages {
    /// Says once whether functions may have more room for messages than when they were looked at last.
    pub(crate) fn takes_new_room(&mut self) -> bool {
        std::mem::take(&mut self.has_new_room)
    }

    /// Functions are looked at again: the clock or a person may have let them begin something.
    pub(crate) fn room_may_have_changed(&mut self) {
        self.has_new_room = true;
    }

    /// Returns the functions that could ask for more messages, if they had room; each time another one is the first.
    pub(crate) fn asking(&mut self) -> Vec<FunctionName> {
        if self.is_draining || self.is_closing {
            return Vec::new();
        }
        let asks = self
            .functions
            .iter()
            .filter(|(_, book)| book.takes_work && self.entries_of(book).any(|entry| has_room(self.load(entry))));
        let mut asks: Vec<FunctionName> = asks.map(|(function, _)| function.clone()).collect();
        self.turn = self.turn.wrapping_add(1);
        let first = self.turn.checked_rem(asks.len()).unwrap_or_default();
        asks.rotate_left(first);
        asks
    }

    /// Asks for the messages that a function has room for; `group` is that of its next attempt.
    pub(crate) fn room(
        &mut self,
        now: Duration,
        (function, group): (&FunctionName, Option<&str>),
        room: RoomForMessages,
    ) {
        let Some(book) = self.functions.get_mut(function) else {
            return;
        };
        book.group = group.map(Into::into);
        let (numbers, first) = (book.entries.clone(), book.first);
        let others = self.undecided_of_others(now, function);
        if let Some(at) = others.until {
            self.ask_again_at = Some(self.ask_again_at.map_or(at, |known| known.min(at)));
        }
        let known = numbers
            .iter()
            .filter_map(|number| Some((*number, self.entries.get(number)?)));
        let loads: Vec<(u32, EntryLoad)> = known.map(|entry| (entry.0, self.load(entry))).collect();
        let only: Vec<EntryLoad> = loads.iter().map(|(_, load)| *load).collect();
        // The supervisor does not know of deliveries that are not decided yet.
        let pending: usize = numbers.iter().map(|number| self.deliveries_of(*number)).sum();
        let room = RoomForMessages {
            places: room.places.saturating_sub(pending),
            group: room.group.map(|group| group.saturating_sub(pending + others.in_group)),
            node: room.node.saturating_sub(pending + others.on_node),
            ..room
        };
        let more = to_ask_for(room, &only, first);
        if more.iter().all(|count| *count == 0) {
            return;
        }
        if let Some(book) = self.functions.get_mut(function) {
            book.first = book.first.wrapping_add(1);
        }
        for ((number, _), count) in loads.into_iter().zip(more) {
            if let Some(entry) = self.entries.get_mut(&number).filter(|_| count > 0) {
                (entry.asked, entry.asked_at) = (entry.asked.saturating_add(count), now);
                self.out
                    .push(MessageEffect::Send(NatsRequest::Pull { entry: number, count }));
            }
        }
    }

    /// Counts the messages that may need room soon of which the supervisor knows nothing: those of the other functions.
    fn undecided_of_others(&self, now: Duration, function: &FunctionName) -> Undecided {
        if self.functions.len() < 2 {
            return Undecided::default(); // and no walk over all open messages
        }
        let group_of = |function: &FunctionName| self.functions.get(function)?.group.as_deref();
        let own_group = group_of(function);
        let asks = |entry: &&EntryBook| entry.wanted.rules.claims() && entry.asked > 0;
        let asked = self.entries.values().filter(asks).map(|entry| {
            let until = entry.asked_at.saturating_add(COMES_SOON);
            (&entry.function, entry.asked, Some(until))
        });
        let asked = asked.filter(|(_, _, until)| *until > Some(now));
        let pending = self.deliveries.values().filter_map(|pending| {
            let entry = self.entries.get(&pending.message.entry)?;
            Some((&entry.function, 1, None))
        });
        let storing = |message: &&OpenMessage| matches!(message.stage, MessageStage::Storing);
        let storing = self.open.values().filter(storing);
        let storing = storing.map(|message| (&message.function, 1, None));
        let undecided = asked.chain(pending).chain(storing);
        let mut all = Undecided::default();
        for (other, count, until) in undecided.filter(|(other, ..)| *other != function) {
            all.on_node += count;
            if own_group.is_some() && group_of(other) == own_group {
                all.in_group += count;
            }
            all.until = all.until.into_iter().chain(until).min();
        }
        all
    }

    /// Takes whether fnd drains. Messages that have not begun are given back, so that another node can run them.
    pub(crate) fn drains(&mut self, is_draining: bool) {
        if std::mem::replace(&mut self.is_draining, is_draining) == is_draining {
            return;
        }
        self.has_new_room = true;
        // Requests have no place where they could wait: other nodes answer them.
        if self.entries.values().any(|entry| entry.wanted.rules.stream.is_none()) {
            self.tell_entries();
        }
        if is_draining {
            self.give_all_back();
        }
    }

    /// Gives the messages back that have not begun.
    pub(super) fn give_all_back(&mut self) {
        // No other node can get a message that was acknowledged at its beginning.
        let all = self.open.iter().filter(|(_, message)| !message.mark.is_accepted);
        // The supervisor knows which ones have begun.
        let withdrawn = all.map(|(id, _)| MessageEffect::Event(Event::Withdraw(*id)));
        self.out.extend(withdrawn);
    }

    /// Returns how many deliveries of an entry are not decided yet.
    fn deliveries_of(&self, entry: u32) -> usize {
        self.deliveries
            .values()
            .filter(|pending| pending.message.entry == entry)
            .count()
    }

    fn load(&self, (number, entry): (u32, &EntryBook)) -> EntryLoad {
        let rules = &entry.wanted.rules;
        let pending = self.deliveries_of(number);
        // Under a spawner that ends nothing by itself, no work may run that another node may take over.
        let is_safe = self.has_fence || rules.lease().is_none();
        // A message that is acknowledged once it is stored needs no register, only a name that is this node's own.
        let is_ready = match rules.claims() {
            true => self.may_claim(),
            false => self.connection.is_connected() && self.node_problem().is_none(),
        };
        let most = usize::try_from(rules.max_in_flight).unwrap_or(usize::MAX);
        EntryLoad {
            most,
            here: entry.here + pending,
            asked: entry.asked,
            can_ask: is_safe
                && is_ready
                && entry.paused_until.is_none()
                // A server that confirms ends more slowly than work ends gets no more of it.
                && entry.ending < most
                && matches!(entry.state, Some(EntryState::Ready { .. })),
            is_ahead: !rules.claims(),
        }
    }
}

/// Says whether an entry may ask for one more.
fn has_room(load: EntryLoad) -> bool {
    load.can_ask && load.here + load.asked < load.most
}

#[cfg(test)]
mod tests;
