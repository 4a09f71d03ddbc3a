//! Whether the address of a message still means that message. A stream that was made anew gives its numbers once more, and the server
//! compares nothing else: an acknowledgement for a message of the stream before it would end another message, which nobody has run, and
//! a sign of life would keep it from everybody. So fnd reads the message there first, where it may be another one.
//!
//! ```text
//!  good ──another connection or consumer, or none──▶ doubtful ──read──┬─ it is there ─▶ good
//!   ▲                                                             └─ it is not ──▶ gone: nothing is said about it
//!   └── it is delivered again ──────────────────────────────────────────────────────┘
//! ```

use super::books::{KnownAddress, OpenMessage, Question};
use super::fact::{ConsumerFigures, EntryState, MessageAnswer};
use super::request::{AckSignal, NatsRequest};
use super::{MessageEffect, Messages};
use fnd_core::run::Now;
use fnd_wire::ids::InvocationId;
use std::sync::Arc;
use std::time::Duration;

impl Messages {
    /// Takes the figures of an entry. They say when its consumer was made: one that was made anew may be that of another stream.
    pub(super) fn figures_are(&mut self, number: u32, figures: ConsumerFigures) {
        let Some(entry) = self.entries.get_mut(&number) else {
            return;
        };
        entry.figures = Some(figures);
        let before = entry.made_ns.replace(figures.made_ns);
        if before.is_some_and(|before| before != figures.made_ns) {
            self.doubt(|message| message.entry == Some(number));
        }
    }

    /// Takes the state of an entry.
    pub(super) fn entry_is(&mut self, number: u32, state: EntryState) {
        let Some(entry) = self.entries.get_mut(&number) else {
            return;
        };
        let is_gone = matches!(state, EntryState::Gone(_));
        entry.state = Some(state);
        self.out.push(MessageEffect::Changed);
        if is_gone {
            // A stream may be made anew at any moment from now on, and the figures, which would say so, come every 30 seconds.
            self.doubt(|message| message.entry == Some(number));
        }
    }

    /// The addresses of these messages may mean others from now on.
    pub(super) fn doubt(&mut self, are_doubtful: impl Fn(&OpenMessage) -> bool) {
        let doubtful = self.open.values_mut().filter(|message| are_doubtful(message));
        doubtful.for_each(|message| message.address = KnownAddress::Doubtful);
    }

    /// Sends a sign of life for a message, or looks first whether its address means it.
    pub(super) fn show_life(&mut self, id: InvocationId) {
        match self.open.get(&id).map(|message| message.address) {
            Some(KnownAddress::Good | KnownAddress::Unsaid) => self.send_life(id),
            Some(KnownAddress::Doubtful) => {
                let since = self.connection.since().mono;
                self.ask_for_place(Question::PlaceOfLife(id, since), id);
            }
            // The stream has another message there by now, or none: the signal would mean that one.
            Some(KnownAddress::Gone) | None => {}
        }
    }

    /// Sends a sign of life.
    pub(super) fn send_life(&mut self, id: InvocationId) {
        let Some(message) = self.open.get(&id) else { return };
        let (ack, signal) = (Arc::clone(&message.mark.ack), AckSignal::Progress);
        self.out.push(MessageEffect::Send(NatsRequest::Signal { ack, signal }));
    }

    /// Asks for the message that the stream has in the place of this one.
    fn ask_for_place(&mut self, question: Question, id: InvocationId) {
        let Some(message) = self.open.get(&id) else { return };
        let place = (Arc::clone(&message.mark.place.stream), message.mark.place.sequence);
        self.ask_for_message(question, place);
    }

    /// Takes the answer to that for a message for which a sign of life is due.
    pub(super) fn place_of_life(&mut self, (id, since): (InvocationId, Duration), read: &MessageAnswer) {
        if since != self.connection.since().mono {
            return; // the message is doubtful again since the question was sent
        }
        self.place_is_read(id, read);
        if self.open.get(&id).is_some_and(OpenMessage::signals) {
            self.send_life(id);
        }
    }

    /// Takes note whether the address of a message means it.
    fn place_is_read(&mut self, id: InvocationId, read: &MessageAnswer) {
        let Some(message) = self.open.get_mut(&id) else { return };
        let entry = message.entry.and_then(|number| self.entries.get(&number));
        let is_gone = entry.is_some_and(|entry| matches!(entry.state, Some(EntryState::Gone(_))));
        message.address = match read {
            Ok(found) if found.as_ref().is_none_or(|found| found.place != message.mark.place) => KnownAddress::Gone,
            // As long as the entry is gone, the stream may be made anew right after the answer.
            _ if is_gone => KnownAddress::Doubtful,
            Ok(_) => KnownAddress::Good,
            Err(_) => KnownAddress::Unsaid,
        };
    }

    /// Has the server forget a message whose claim says that it has ended.
    pub(super) fn settle_end(&mut self, id: InvocationId) {
        let Some(message) = self.open.get_mut(&id) else { return };
        message.is_asking = true;
        if message.address == KnownAddress::Good && !message.is_unanswered {
            return self.acknowledge_end(id);
        }
        self.ask_for_place(Question::PlaceOfEnd(id), id);
    }

    /// Takes the answer for a message that has ended.
    pub(super) fn place_of_end(&mut self, now: Now, id: InvocationId, read: &MessageAnswer) {
        self.place_is_read(id, read);
        let Some(message) = self.open.get_mut(&id) else { return };
        if message.address != KnownAddress::Gone {
            return self.acknowledge_end(id);
        }
        // The server has forgotten it already.
        message.is_asking = false;
        self.end_is_confirmed(now, id);
    }

    fn acknowledge_end(&mut self, id: InvocationId) {
        let Some(message) = self.open.get(&id) else { return };
        let (ack, term) = (Arc::clone(&message.mark.ack), message.term.clone());
        self.ask(Question::Settle(Some(id)), |number| NatsRequest::Settle {
            number,
            ack,
            term,
        });
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::books::KnownClaim;
    use super::super::fact::{FoundMessage, NatsFact};
    use super::super::tests::{
        at, claim, figures, function, mark, open_message, sent, server, up, wanted, wanted_entry, wrote_claim,
    };
    use super::*;
    use fnd_core::records::StreamPlace;

    const ID: InvocationId = InvocationId(1);

    /// Returns message 7, as it was stored at this time.
    pub(in crate::triggers::nats) fn stored(created_ns: u64) -> Box<FoundMessage> {
        let place = StreamPlace {
            created_ns,
            ..mark("ORDERS", 7).place
        };
        Box::new(FoundMessage {
            place,
            headers: Vec::new(),
            payload: "{}".into(),
        })
    }

    /// Returns the part with message 7 of an entry whose consumer was made at 1.
    fn with_entry() -> Messages {
        let mut messages = open_message(ID);
        up(&mut messages);
        messages.wants(&function("f"), Some(wanted(vec![wanted_entry("f", "x")])));
        consumer_is_made(&mut messages, 1);
        messages.take_effects();
        messages
    }

    /// The thread has looked for the entry: its consumer was made at this time.
    fn consumer_is_made(messages: &mut Messages, made_ns: u64) {
        let figures = ConsumerFigures { made_ns, ..figures() };
        messages.fact(at(1), NatsFact::Figures { entry: 1, figures }, InvocationId(2));
    }

    /// Returns the number of the only request, which asks for the message in this place.
    #[track_caller]
    fn asked_for_place(messages: &mut Messages) -> u64 {
        let requests = sent(messages);
        let [NatsRequest::ReadMessage { number, place: (_, 7) }] = requests[..] else {
            panic!("its place is looked at");
        };
        number
    }

    fn shows_life(messages: &mut Messages) -> bool {
        let is_life = |request: &NatsRequest| {
            matches!(
                request,
                NatsRequest::Signal {
                    signal: AckSignal::Progress,
                    ..
                }
            )
        };
        sent(messages).iter().any(is_life)
    }

    /// The stream was deleted and made anew, and the connection was never lost.
    #[test]
    fn a_stream_that_was_made_anew_gets_no_sign_of_life_and_no_end_for_a_message_of_the_one_before() {
        let mut messages = with_entry();
        consumer_is_made(&mut messages, 1);
        messages.show_life(ID);
        assert!(shows_life(&mut messages), "the same consumer was found again");
        consumer_is_made(&mut messages, 2);
        messages.show_life(ID);
        let number = asked_for_place(&mut messages);
        messages.message_read(at(2), number, Ok(Some(stored(2))));
        assert!(sent(&mut messages).is_empty() && !messages.open[&ID].signals());
        messages.open.get_mut(&ID).unwrap().claim = KnownClaim::Written(claim("vm1", ID), 3);
        messages.ended(at(3), ID);
        let (number, _) = wrote_claim(&mut messages, Some(3));
        messages.written(at(3), number, Ok(4));
        let number = asked_for_place(&mut messages);
        messages.message_read(at(3), number, Ok(Some(stored(2))));
        assert!(sent(&mut messages).is_empty() && !messages.has(ID));
    }

    /// Found by a seed: an end went to the message that had the number in the new stream, before any figures were there.
    #[test]
    fn a_stream_that_was_gone_gets_no_end_before_it_is_known_what_it_has() {
        let mut messages = with_entry();
        let gone = EntryState::Gone("there is no such stream".to_owned());
        messages.fact(at(1), NatsFact::Entry { entry: 1, state: gone }, InvocationId(2));
        messages.open.get_mut(&ID).unwrap().claim = KnownClaim::Written(claim("vm1", ID), 3);
        messages.ended(at(2), ID);
        let (number, _) = wrote_claim(&mut messages, Some(3));
        messages.written(at(2), number, Ok(4));
        let number = asked_for_place(&mut messages);
        messages.message_read(at(3), number, Ok(Some(stored(2))));
        assert!(sent(&mut messages).is_empty() && !messages.has(ID));
    }

    /// Only the consumer was deleted at first.
    #[test]
    fn a_message_of_an_entry_that_is_gone_is_looked_at_before_each_sign_of_life() {
        let mut messages = with_entry();
        let gone = EntryState::Gone("there is no such consumer".to_owned());
        messages.fact(at(1), NatsFact::Entry { entry: 1, state: gone }, InvocationId(2));
        for found in [
            Ok(Some(stored(mark("ORDERS", 7).place.created_ns))),
            Err("no right to read".to_owned()),
        ] {
            messages.show_life(ID);
            let number = asked_for_place(&mut messages);
            messages.message_read(at(2), number, found);
            assert!(shows_life(&mut messages));
        }
        messages.show_life(ID);
        let number = asked_for_place(&mut messages);
        messages.message_read(at(3), number, Ok(Some(stored(2))));
        assert!(sent(&mut messages).is_empty() && !messages.open[&ID].signals());
    }

    #[test]
    fn a_message_that_is_still_there_gets_its_sign_of_life_and_is_looked_at_once() {
        for found in [
            Ok(Some(stored(mark("ORDERS", 7).place.created_ns))),
            Err("no right to read".to_owned()),
        ] {
            let mut messages = with_entry();
            consumer_is_made(&mut messages, 2);
            messages.show_life(ID);
            let number = asked_for_place(&mut messages);
            messages.message_read(at(2), number, found);
            assert!(shows_life(&mut messages));
            messages.show_life(ID);
            assert!(shows_life(&mut messages));
        }
    }

    #[test]
    fn another_connection_and_another_delivery_say_more() {
        let mut messages = with_entry();
        messages.disconnected(at(2), "away".to_owned());
        assert_eq!(messages.open[&ID].address, KnownAddress::Doubtful);
        messages.connected(at(3), server());
        messages.take_effects();
        messages.beat(at(3));
        let late = asked_for_place_among(&mut messages);
        messages.disconnected(at(4), "away".to_owned());
        messages.connected(at(5), server());
        messages.take_effects();
        messages.message_read(at(5), late, Ok(Some(stored(mark("ORDERS", 7).place.created_ns))));
        assert_eq!(
            messages.open[&ID].address,
            KnownAddress::Doubtful,
            "it was there before that"
        );
        messages.beat(at(5));
        let number = asked_for_place_among(&mut messages);
        messages.message_read(at(5), number, Ok(None));
        assert_eq!(messages.open[&ID].address, KnownAddress::Gone);
        messages.beat(at(60));
        let is_about_it =
            |request: &NatsRequest| matches!(request, NatsRequest::Signal { .. } | NatsRequest::ReadMessage { .. });
        assert!(!sent(&mut messages).iter().any(is_about_it), "nothing is said about it");
    }

    /// Returns the number of the question for the place of the message, beside others.
    fn asked_for_place_among(messages: &mut Messages) -> u64 {
        let mut requests = sent(messages).into_iter();
        let asked = requests.find_map(|request| match request {
            NatsRequest::ReadMessage { number, .. } => Some(number),
            _ => None,
        });
        asked.expect("its place is looked at")
    }
}
