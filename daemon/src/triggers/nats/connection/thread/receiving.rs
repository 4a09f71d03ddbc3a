//! Handles messages that come from the server: answers, deliveries, renewals of nodes, and requests of others.

use super::NatsThread;
use crate::clock::monotonic;
use crate::triggers::nats::connection::headers;
use crate::triggers::nats::connection::keys::{self, WriteStep};
use crate::triggers::nats::connection::pending_replies::{NoAnswer, PendingReply, Question, unanswered};
use crate::triggers::nats::connection::subscriptions::Source;
use crate::triggers::nats::fact::{DeliveredMessage, NatsAnswer, NatsFact, RequestedMessage};
use async_nats::{Message, StatusCode};
use fnd_core::records::StreamPlace;
use fnd_core::triggers::nats::server::ack_address::{self, AckAddress};
use fnd_core::triggers::nats::server::answers::{self, BadAnswer};
use fnd_core::triggers::nats::server::objects;
use fnd_core::triggers::nats::server::pull_status;
use std::sync::Arc;
use std::time::Duration;

/// A message that the part does not hear of is delivered again after this time.
const AGAIN: Duration = Duration::from_secs(1);
/// How often a round trip is reported at most.
const MEASURE: Duration = Duration::from_secs(1);
/// A request counts as at least this many bytes. So few requests wait at once that other facts have room beside them.
const REQUEST_LEAST: usize = 128 << 10;

impl NatsThread {
    pub(super) async fn message(&mut self, source: Source, message: Message) {
        match source {
            Source::Answers => self.answer(message).await,
            Source::Renewals => {
                let bucket = self.settings.as_ref().map(|settings| &*settings.bucket.name);
                let renewed = bucket.and_then(|bucket| self.heard.heard(bucket, &message));
                self.out.extend(renewed);
            }
            Source::Pulls => self.pulled(message).await,
            Source::Service(entry) => self.requested(entry, message),
        }
    }

    /// Takes a request of another client. A request without room is dropped, as if no node were there: its sender repeats it.
    fn requested(&mut self, entry: u32, message: Message) {
        let size = u32::try_from(message.length.max(REQUEST_LEAST)).unwrap_or(u32::MAX);
        let Ok(room) = Arc::clone(&self.room).try_acquire_many_owned(size) else {
            return;
        };
        self.out.push(NatsFact::Requested(Box::new(RequestedMessage {
            entry,
            subject: message.subject.to_string(),
            inbox: message.reply.as_deref().map(Into::into),
            headers: headers::of(&message),
            payload: message.payload,
            room: Some(room),
        })));
    }

    /// Takes the answer to a question. One that comes too late was answered with that already.
    async fn answer(&mut self, message: Message) {
        let Some(PendingReply { question, sent }) = self.pending.take(&message.subject) else {
            return;
        };
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            return self.nobody_takes(&question);
        }
        let now = monotonic();
        if self
            .measured
            .is_none_or(|last| now.saturating_duration_since(last) >= MEASURE)
        {
            self.measured = Some(now);
            self.out.push(NatsFact::RoundTrip(now.saturating_duration_since(sent)));
        }
        let step = match question {
            Question::Read { number } => WriteStep::Fact(keys::read_answer(number, &message.payload)),
            Question::Write(write) => keys::write_answer(write, &message.payload),
            Question::Deleted(write) => keys::deleted_answer(write, &message.payload),
            // The server confirms with an empty message.
            Question::Settle { number } => WriteStep::Fact(NatsFact::Answer(number, NatsAnswer::Settled(Ok(())))),
            Question::Publish { number } => WriteStep::Fact(published(number, &message.payload)),
            // Nothing waits for the answer to a signal.
            Question::Signal { .. } => return,
        };
        match step {
            WriteStep::Fact(fact) => self.out.push(fact),
            WriteStep::Ask(question) => self.ask_again(question).await,
        }
    }

    /// No receiver took a question: its stream, consumer or bucket is gone, and the thread looks for it.
    fn nobody_takes(&mut self, question: &Question) {
        match question {
            Question::Read { .. } | Question::Write(_) | Question::Deleted(_) => self.doubt_bucket(),
            Question::Signal { ack } => {
                if let Some(AckAddress { stream, consumer, .. }) = ack_address::read(ack) {
                    self.entries.doubt((stream, consumer), monotonic());
                }
            }
            Question::Settle { .. } | Question::Publish { .. } => {}
        }
        self.out.extend(unanswered(question, NoAnswer::NoResponders));
    }

    /// Takes what came for a pull request: a message with its own subject, or what the server says about the request,
    /// to the inbox of the request.
    async fn pulled(&mut self, message: Message) {
        let now = monotonic();
        // A message of a stream has a subject of its own, and may have the line of a status: older servers keep what its sender
        // has written.
        if let (Some(status), Some(pull)) = (message.status, self.pull_of(&message.subject)) {
            let status = pull_status::read(status.as_u16(), message.description.as_deref().unwrap_or_default());
            let facts = self.entries.status(pull, &status, now);
            self.out.extend(facts);
            return;
        }
        let Some(ack) = message.reply.as_deref() else { return };
        let Some(address) = ack_address::read(ack) else {
            return; // no delivery: nobody could acknowledge it
        };
        let Some(entry) = self.entries.delivered(&address, now) else {
            return self.give_back(ack.to_owned(), AGAIN).await;
        };
        self.out.push(NatsFact::Delivered(Box::new(DeliveredMessage {
            entry,
            subject: message.subject.to_string(),
            place: StreamPlace {
                stream: address.stream.into(),
                created_ns: address.stored_ns,
                sequence: address.sequence,
            },
            ack: ack.into(),
            delivered: address.delivered,
            headers: headers::of(&message),
            payload: message.payload,
        })));
    }

    /// Returns the numbers of the entry and of the pull request that a status is about.
    fn pull_of(&self, subject: &str) -> Option<(u32, u64)> {
        let (entry, pull) = subject.strip_prefix(&self.pulls)?.split_once('.')?;
        Some((entry.parse().ok()?, pull.parse().ok()?))
    }
}

fn published(number: u64, answer: &[u8]) -> NatsFact {
    let result = answers::read(answer).map_err(|bad| match bad {
        BadAnswer::Refused(error) => objects::refusal("the message is not stored", &error),
        BadAnswer::Unreadable(_) => bad.to_string(),
    });
    NatsFact::Answer(number, NatsAnswer::Published(result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triggers::nats::connection::entries::tests::entry;
    use futures_util::FutureExt as _;
    use tokio::sync::mpsc::unbounded_channel;

    fn message(subject: &str, reply: &str) -> Message {
        Message {
            subject: subject.into(),
            reply: Some(reply.into()),
            payload: "{}".into(),
            headers: None,
            status: None,
            description: None,
            length: 2,
        }
    }

    /// Returns the thread with entry 1, and what it says about messages that have come.
    fn hears(messages: Vec<(Source, Message)>) -> Vec<NatsFact> {
        let (events, _) = unbounded_channel();
        let mut thread = NatsThread::new(events);
        thread.entries.set(vec![entry(1, Some("ORDERS"))], true, monotonic());
        for (source, message) in messages {
            thread.message(source, message).now_or_never().unwrap();
        }
        thread.out
    }

    /// A stream that was made anew may be quicker than the answer that says so: each message says itself which one it is.
    #[test]
    fn a_delivery_is_told_from_all_others_by_what_it_says_itself() {
        let ack = |stored| format!("$JS.ACK.ORDERS.fnd-f.1.2.2.{stored}.0");
        let delivered = |stored: u64| (Source::Pulls, message("orders.a", &ack(stored)));
        let facts = hears(vec![
            delivered(1_795_248_000_123_456_789),
            delivered(1_795_248_000_123_456_790),
        ]);
        let [NatsFact::Delivered(one), NatsFact::Delivered(other)] = &facts[..] else {
            panic!("{facts:?}");
        };
        assert_eq!((one.place.sequence, other.place.sequence), (2, 2));
        assert_eq!(one.place.created_ns, 1_795_248_000_123_456_789);
        assert_ne!(one.place, other.place);
    }

    #[test]
    fn a_message_with_the_line_of_a_status_is_a_message() {
        let with_status = Message {
            status: Some(StatusCode::NOT_FOUND),
            ..message("orders.a", "$JS.ACK.ORDERS.fnd-f.1.7.1.1795248000123456789.0")
        };
        let facts = hears(vec![(Source::Pulls, with_status)]);
        assert!(
            matches!(&facts[..], [NatsFact::Delivered(message)] if message.entry == 1),
            "{facts:?}"
        );
    }

    #[test]
    fn requests_wait_only_as_long_as_there_is_room() {
        let (events, _) = unbounded_channel();
        let mut thread = NatsThread::new(events);
        let mut asks = |length: usize| {
            let request = Message {
                length,
                ..message("sum", "_INBOX.a")
            };
            thread.message(Source::Service(1), request).now_or_never().unwrap();
            thread.out.len()
        };
        assert_eq!([asks(32 << 20), asks(40 << 20), asks(32 << 20), asks(2)], [1, 1, 2, 2]);
        thread.out.clear();
        for _ in 0..600 {
            thread.requested(1, message("sum", "_INBOX.a"));
        }
        assert_eq!(thread.out.len(), 512);
    }
}
