//! A stream with its consumer.

use super::consumer::{ConsumerModel, DeliveryNumbers};
use super::{Peer, ToNode};
use crate::triggers::nats::fact::{DeliveredMessage, FoundMessage};
use bytes::Bytes;
use fastrand::Rng;
use fnd_core::records::StreamPlace;
use std::collections::BTreeMap;
use std::sync::Arc;

/// For so many milliseconds a stream knows the ids of its messages.
const DUPLICATES_MS: u64 = 120_000;

#[derive(Debug)]
pub(crate) struct StreamModel {
    pub(crate) name: Arc<str>,
    /// Whether it keeps messages that were acknowledged.
    keeps: bool,
    /// When it was made, nanoseconds since 1970; absent: it was deleted.
    created_ns: Option<u64>,
    /// The number of the last message.
    last: u64,
    messages: BTreeMap<u64, StoredMessage>,
    /// The ids of its messages, with the times.
    ids: BTreeMap<u32, u64>,
    pub(super) consumer: Option<ConsumerModel>,
}

#[derive(Debug, Clone, Copy)]
struct StoredMessage {
    /// The id that the sender has given it, as a number.
    id: u32,
    stored_ms: u64,
}

impl StoredMessage {
    fn headers(self) -> Vec<(String, String)> {
        vec![("Nats-Msg-Id".to_owned(), self.id.to_string())]
    }

    fn payload(self) -> Bytes {
        format!("{{\"message\":{}}}", self.id).into_bytes().into()
    }
}

impl StreamModel {
    pub(super) fn new(name: &str, keeps: bool, created_ns: u64) -> Self {
        Self {
            name: name.into(),
            keeps,
            created_ns: Some(created_ns),
            last: 0,
            messages: BTreeMap::new(),
            ids: BTreeMap::new(),
            consumer: None,
        }
    }

    pub(crate) fn created_ns(&self) -> Option<u64> {
        self.created_ns
    }

    /// Deletes it with its messages and its consumer. Returns the nodes that wait for messages.
    pub(crate) fn delete(&mut self) -> Vec<(Peer, ToNode)> {
        (self.created_ns, self.last) = (None, 0);
        self.messages.clear();
        self.ids.clear();
        self.delete_consumer()
    }

    /// Makes it again: it counts from 1.
    pub(crate) fn make_again(&mut self, created_ns: u64) {
        self.created_ns = Some(created_ns);
    }

    pub(crate) fn delete_consumer(&mut self) -> Vec<(Peer, ToNode)> {
        let pulls = self.consumer.take().map(|consumer| consumer.pulls).unwrap_or_default();
        let over = pulls.into_iter();
        over.map(|pull| (pull.peer, ToNode::PullOver(pull.entry, pull.left)))
            .collect()
    }

    /// Stores a message, unless it has the id of one of the last minutes. Returns its place.
    ///
    /// # Errors
    /// There is no such stream.
    pub(crate) fn publish(&mut self, id: u32, now_ms: u64) -> Result<Option<StreamPlace>, ()> {
        self.created_ns.ok_or(())?;
        self.ids.retain(|_, at_ms| at_ms.saturating_add(DUPLICATES_MS) > now_ms);
        if self.ids.contains_key(&id) {
            return Ok(None);
        }
        self.ids.insert(id, now_ms);
        self.last += 1;
        let stored_ms = now_ms;
        self.messages.insert(self.last, StoredMessage { id, stored_ms });
        Ok(Some(self.place(self.last, stored_ms)))
    }

    /// Returns a message that it has.
    pub(super) fn message(&self, sequence: u64) -> Option<FoundMessage> {
        let message = self.messages.get(&sequence)?;
        Some(FoundMessage {
            place: self.place(sequence, message.stored_ms),
            headers: message.headers(),
            payload: message.payload(),
        })
    }

    fn place(&self, sequence: u64, stored_ms: u64) -> StreamPlace {
        StreamPlace {
            stream: Arc::clone(&self.name),
            created_ns: stored_ms * 1_000_000,
            sequence,
        }
    }

    fn subject(&self) -> String {
        self.name.to_ascii_lowercase()
    }

    /// Returns the number of the message that is to be delivered now.
    fn due(&self, now_ms: u64) -> Option<u64> {
        let consumer = self.consumer.as_ref()?;
        let never = || self.messages.range(consumer.next()..).next();
        let again = consumer.again(now_ms);
        again.or_else(|| never().map(|(number, _)| *number))
    }

    /// Returns whether somebody waits for a message that is to be delivered now.
    pub(super) fn can_deliver(&self, now_ms: u64) -> bool {
        let waits = self
            .consumer
            .as_ref()
            .is_some_and(|consumer| !consumer.pulls.is_empty());
        waits && self.due(now_ms).is_some()
    }

    /// Delivers a message to one of the nodes that wait.
    pub(super) fn deliver(&mut self, now_ms: u64, random: &mut Rng) -> Option<(Peer, ToNode)> {
        let number = self.due(now_ms)?;
        let message = *self.messages.get(&number)?;
        let consumer = self.consumer.as_mut()?;
        let pull = random.choice(&mut consumer.pulls)?;
        pull.left -= 1;
        let (peer, entry) = (pull.peer, pull.entry);
        consumer.pulls.retain(|pull| pull.left > 0);
        let numbers = consumer.deliver(number, now_ms);
        let ack = self.ack(numbers, message.stored_ms)?;
        let delivered = DeliveredMessage {
            entry,
            subject: self.subject(),
            place: self.place(number, message.stored_ms),
            ack: ack.into(),
            delivered: numbers.count,
            headers: message.headers(),
            payload: message.payload(),
        };
        Some((peer, ToNode::Delivered(Box::new(delivered))))
    }

    /// Returns the address for what is said about a delivery.
    fn ack(&self, numbers: DeliveryNumbers, stored_ms: u64) -> Option<String> {
        let DeliveryNumbers {
            message,
            count,
            sequence,
        } = numbers;
        let (stream, consumer) = (&self.name, &self.consumer.as_ref()?.name);
        let stored_ns = stored_ms * 1_000_000;
        Some(format!(
            "$JS.ACK.{stream}.{consumer}.{count}.{message}.{sequence}.{stored_ns}.0"
        ))
    }

    /// Takes the end of a message. The message is deleted unless the stream keeps its messages, whichever node ends it.
    pub(super) fn end(&mut self, number: u64, now_ms: u64) {
        if let Some(consumer) = &mut self.consumer {
            consumer.end(number, now_ms);
        }
        if !self.keeps {
            self.messages.remove(&number);
        }
    }

    /// The server was killed.
    pub(super) fn killed(&mut self, now_ms: u64, random: &mut Rng) {
        if let Some(consumer) = &mut self.consumer {
            consumer.killed(self.keeps, now_ms, random);
        }
    }

    /// Returns the number of messages that no node has ended.
    pub(crate) fn left(&self) -> usize {
        let (next, pending) = self.consumer.as_ref().map_or((1, 0), ConsumerModel::left);
        self.messages.range(next..).count() + pending
    }
}
