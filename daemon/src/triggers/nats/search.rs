//! The claim on a message that this node was not offered, and that a person ends: the message says what its key is, and the register
//! says whose claim it is.
//!
//! ```text
//!  function, sequence ─▶ the message, in each stream of the function ─▶ its key ─▶ the claim ─▶ ended
//!                              └─ gone                                    └─ none, or final ─▶ the next stream, or unknown
//! ```

use super::Messages;
use super::books::{ClaimSearch, Question};
use super::fact::{KeyAnswer, MessageAnswer, ReleaseFailed};
use super::release::{ends_itself, tell};
use fnd_core::run::Now;
use fnd_core::triggers::nats::claim::ClaimRecord;
use fnd_core::triggers::nats::claim_key::{MessageIdentity, claim_key};
use fnd_core::triggers::nats::message::{self, BadMessage, NatsMessage, ReadMessage};
use fnd_wire::ids::FunctionName;
use std::sync::Arc;

/// Returns the key of the claim on a message. It is the same one whether the function, or a version of it, takes the message or not.
/// One that nobody can read has no identity but its place.
pub(super) fn key_of(
    function: &FunctionName,
    message: &NatsMessage<'_>,
    read: &Result<ReadMessage, BadMessage>,
) -> Arc<str> {
    let bad = match read {
        Ok(read) => return claim_key(function, &read.identity(message)),
        Err(bad) => bad,
    };
    let mut readable = *message;
    // Data above the limit is never parsed: then the headers say which message it is.
    if matches!(bad, BadMessage::TooLarge { .. }) {
        readable.payload = &[];
    }
    match message::read(&readable, u64::MAX) {
        Ok(read) => claim_key(function, &read.identity(&readable)),
        Err(_) => claim_key(function, &MessageIdentity::Place(message.place)),
    }
}

impl Messages {
    /// Returns the streams from which a function gets messages that are claimed, each once.
    pub(super) fn streams_of(&self, function: &FunctionName) -> Vec<(Arc<str>, u64)> {
        let book = self.functions.get(function).into_iter();
        let mut streams: Vec<(Arc<str>, u64)> = Vec::new();
        for (_, entry) in book.flat_map(|book| self.entries_of(book)) {
            let rules = &entry.wanted.rules;
            if let Some(stream) = rules.stream.as_deref().filter(|_| rules.claims())
                && streams.iter().all(|(known, _)| **known != *stream)
            {
                streams.push((stream.into(), entry.wanted.body_max));
            }
        }
        streams
    }

    /// Looks for the message in the next stream.
    pub(super) fn search(&mut self, search: Box<ClaimSearch>) {
        let Some((stream, _)) = search.streams.last() else {
            tell(search.answer, Err(ReleaseFailed::Unknown));
            return;
        };
        let place = (Arc::clone(stream), search.sequence);
        self.ask_for_message(Question::SearchMessage(search), place);
    }

    /// Takes the message that was looked for.
    pub(super) fn searched_message_is_read(&mut self, mut search: Box<ClaimSearch>, result: MessageAnswer) {
        let body_max = search.streams.pop().map_or(0, |(_, body_max)| body_max);
        match result {
            Ok(Some(found)) => {
                let found = found.view();
                let key = key_of(&search.function, &found, &message::read(&found, body_max));
                self.ask_for_key(Question::SearchClaim(search, Arc::clone(&key)), key);
            }
            Ok(None) => self.search(search),
            Err(why) => tell(search.answer, Err(ReleaseFailed::Failed(why))),
        }
    }

    /// Takes the claim that was looked for.
    pub(super) fn searched_claim_is_read(
        &mut self,
        now: Now,
        (search, key): (Box<ClaimSearch>, Arc<str>),
        result: KeyAnswer,
    ) {
        let found = match result {
            Ok(found) => found,
            Err(why) => return tell(search.answer, Err(ReleaseFailed::Failed(why))),
        };
        let read = found.map(|found| (ClaimRecord::read(&found.value), found.revision));
        match read {
            _ if self.keys.contains_key(&(search.function.clone(), Arc::clone(&key))) => {
                tell(search.answer, Err(ReleaseFailed::Here));
            }
            Some((Ok(claim), revision)) if !claim.is_final() => {
                if let Some(failed) = ends_itself(&claim) {
                    return tell(search.answer, Err(failed));
                }
                self.end_claim(now, (key, &claim, revision), (search.sequence, None), search.answer);
            }
            Some((Err(why), _)) => tell(search.answer, Err(ReleaseFailed::Failed(why))),
            Some((Ok(_), _)) | None => self.search(search),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fact::FoundMessage;
    use super::super::request::NatsRequest;
    use super::super::tests::{
        asked_for_key, at, claim, delivered, found, function, sent, serving, wanted_entry, wrote_claim,
    };
    use super::*;
    use fnd_core::api::ReleasedClaim;
    use fnd_core::records::StreamPlace;
    use fnd_core::triggers::nats::claim::ClaimLimit;
    use fnd_wire::ids::InvocationId;
    use tokio::sync::oneshot;

    type Answered = oneshot::Receiver<Result<ReleasedClaim, ReleaseFailed>>;

    /// Returns the part with a function `f`, and the number of the question for message 7 of its stream.
    fn searching() -> (Messages, Answered, u64) {
        let mut messages = serving(wanted_entry("f", "x"));
        let answered = messages.release(at(1), (&function("f"), 7));
        let requests = sent(&mut messages);
        let [NatsRequest::ReadMessage { number, place: (_, 7) }] = requests[..] else {
            panic!("the message is read");
        };
        (messages, answered, number)
    }

    fn message_7() -> Option<Box<FoundMessage>> {
        Some(Box::new(FoundMessage {
            place: StreamPlace {
                stream: "ORDERS".into(),
                created_ns: 1,
                sequence: 7,
            },
            headers: vec![("Nats-Msg-Id".to_owned(), "a".to_owned())],
            payload: "{}".into(),
        }))
    }

    #[test]
    fn a_message_is_the_same_one_whether_the_function_takes_it_or_not() {
        let key = |headers: &[(&str, &str)], max| {
            let mut message = delivered(1, 7, 1);
            let headers = headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            message.headers = headers.collect();
            let view = message.view();
            key_of(&function("f"), &view, &message::read(&view, max))
        };
        let event = [
            ("ce-specversion", "1.0"),
            ("ce-id", "7"),
            ("ce-source", "shop"),
            ("ce-type", "a"),
        ];
        for headers in [&[("Nats-Msg-Id", "a")][..], &event[..], &[]] {
            assert_eq!(key(headers, 1), key(headers, 100), "{headers:?}");
        }
        assert_ne!(key(&event, 1), key(&[], 1));
    }

    #[test]
    fn a_claim_that_this_node_has_not_seen_is_found_by_its_message_and_ended() {
        let (mut messages, mut answered, number) = searching();
        messages.message_read(at(2), number, Ok(message_7()));
        let requests = sent(&mut messages);
        let [NatsRequest::Read { number, key }] = &requests[..] else {
            panic!("the claim is read");
        };
        let id = MessageIdentity::MessageId {
            stream: "ORDERS",
            id: "a",
        };
        assert_eq!(*key, claim_key(&function("f"), &id));
        let endless = ClaimRecord {
            limit: ClaimLimit::Person,
            ..claim("vm2", InvocationId(9))
        };
        messages.read(at(2), *number, Ok(Some(found(&endless, 4))));
        let (number, _) = wrote_claim(&mut messages, Some(4));
        messages.written(at(3), number, Ok(5));
        let released = answered.try_recv().unwrap().unwrap();
        assert_eq!((released.node.as_str(), released.sequence), ("vm2", 7));
    }

    #[test]
    fn the_claim_of_a_node_that_loses_it_by_silence_is_not_ended() {
        let (mut messages, mut answered, number) = searching();
        messages.message_read(at(2), number, Ok(message_7()));
        let number = asked_for_key(&mut messages);
        messages.read(at(2), number, Ok(Some(found(&claim("vm2", InvocationId(9)), 4))));
        assert!(matches!(
            answered.try_recv().unwrap(),
            Err(ReleaseFailed::EndsItself(node, _)) if node == "vm2"
        ));
        assert!(sent(&mut messages).is_empty());
    }

    #[test]
    fn what_has_no_message_or_no_claim_or_has_ended_is_unknown() {
        let (mut messages, mut answered, number) = searching();
        messages.message_read(at(2), number, Ok(None));
        assert_eq!(answered.try_recv().unwrap(), Err(ReleaseFailed::Unknown));
        let ended = claim("vm2", InvocationId(9)).ended(1, false);
        for known in [None, Some(found(&ended, 4))] {
            let (mut messages, mut answered, number) = searching();
            messages.message_read(at(2), number, Ok(message_7()));
            let number = asked_for_key(&mut messages);
            messages.read(at(2), number, Ok(known));
            assert_eq!(answered.try_recv().unwrap(), Err(ReleaseFailed::Unknown));
        }
        let (mut messages, mut answered, number) = searching();
        messages.message_read(at(2), number, Err("away".to_owned()));
        assert_eq!(
            answered.try_recv().unwrap(),
            Err(ReleaseFailed::Failed("away".to_owned()))
        );
    }
}
