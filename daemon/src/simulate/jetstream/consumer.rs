//! The consumer of a stream, which all nodes share: the messages that it has delivered, and when it delivers each of them again.
//!
//! An acknowledgement names only the message. So a node that was replaced ends, gives back or prolongs the delivery of another
//! node, and the server answers it like any other node.

use super::Peer;
use crate::triggers::nats::request::AckSignal;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

/// A server that is killed has lost acknowledgements of so many milliseconds, where the stream keeps its messages.
const FLUSH_MS: u64 = 5_000;

#[derive(Debug)]
pub(crate) struct ConsumerModel {
    pub(super) name: String,
    pub(super) ack_wait: Duration,
    /// Its number among all consumers that were made.
    pub(super) made: u64,
    /// The first message that was never delivered.
    next: u64,
    /// The number of the last delivery.
    sequence: u64,
    /// Messages that were delivered and not acknowledged.
    pending: BTreeMap<u64, PendingMessage>,
    /// How often each of them was delivered.
    counts: BTreeMap<u64, u64>,
    /// Messages that the stream keeps although they were acknowledged, with the time.
    acked: BTreeMap<u64, u64>,
    pub(super) pulls: Vec<PullModel>,
}

#[derive(Debug, Clone, Copy)]
struct PendingMessage {
    delivered_ms: u64,
    /// When it is delivered again.
    due_ms: u64,
}

/// A node that waits for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct PullModel {
    pub(super) peer: Peer,
    pub(super) entry: u32,
    pub(super) left: usize,
    pub(super) until_ms: u64,
}

/// A delivery: the number of the message, and how often it was delivered; and the number of the delivery.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeliveryNumbers {
    pub(super) message: u64,
    pub(super) count: u64,
    pub(super) sequence: u64,
}

impl ConsumerModel {
    /// Returns a consumer that has delivered nothing. One that is made anew has forgotten everything.
    pub(super) fn new(name: String, ack_wait: Duration, made: u64) -> Self {
        Self {
            name,
            ack_wait,
            made,
            next: 1,
            sequence: 0,
            pending: BTreeMap::new(),
            counts: BTreeMap::new(),
            acked: BTreeMap::new(),
            pulls: Vec::new(),
        }
    }

    fn ack_wait_ms(&self) -> u64 {
        u64::try_from(self.ack_wait.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the number from which on nothing was delivered yet.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns a message that is to be delivered again now.
    pub(super) fn again(&self, now_ms: u64) -> Option<u64> {
        let due = self.pending.iter().filter(|(_, pending)| pending.due_ms <= now_ms);
        due.min_by_key(|(_, pending)| pending.due_ms).map(|(number, _)| *number)
    }

    /// Returns when a message is delivered again that is not to be delivered now.
    pub(super) fn again_after(&self, now_ms: u64) -> Option<u64> {
        let all = self.pending.values().map(|pending| pending.due_ms);
        all.filter(|due_ms| *due_ms > now_ms).min()
    }

    pub(super) fn deliver(&mut self, message: u64, now_ms: u64) -> DeliveryNumbers {
        let due_ms = now_ms + self.ack_wait_ms();
        let delivered_ms = now_ms;
        self.pending.insert(message, PendingMessage { delivered_ms, due_ms });
        self.next = self.next.max(message + 1);
        self.sequence += 1;
        let count = self.counts.entry(message).or_default();
        *count += 1;
        DeliveryNumbers {
            message,
            count: *count,
            sequence: self.sequence,
        }
    }

    /// Takes a signal. After the end of a message it changes nothing.
    pub(super) fn signal(&mut self, message: u64, signal: AckSignal, now_ms: u64) {
        let rest_ms = match signal {
            AckSignal::Progress => self.ack_wait_ms(),
            AckSignal::GiveBack(rest) => u64::try_from(rest.as_millis()).unwrap_or(u64::MAX),
        };
        if let Some(pending) = self.pending.get_mut(&message) {
            pending.due_ms = now_ms + rest_ms;
        }
    }

    /// Takes the end of a message, whoever says it.
    pub(super) fn end(&mut self, message: u64, now_ms: u64) {
        self.pending.remove(&message);
        self.counts.remove(&message);
        self.acked.insert(message, now_ms);
    }

    /// The server was killed: it does not know all signs of life, all counts, and all ends that are in no file. `keeps`: the stream
    /// has the messages that were acknowledged.
    pub(super) fn killed(&mut self, keeps: bool, now_ms: u64, random: &mut Rng) {
        self.pulls.clear();
        let ack_wait_ms = self.ack_wait_ms();
        for pending in self.pending.values_mut().filter(|_| random.bool()) {
            pending.due_ms = pending.due_ms.min(pending.delivered_ms + ack_wait_ms);
        }
        if random.bool() {
            self.counts.clear();
        }
        let lost = self
            .acked
            .extract_if(.., |_, at_ms| keeps && *at_ms + FLUSH_MS > now_ms);
        for (message, delivered_ms) in lost {
            let due_ms = now_ms;
            self.pending.insert(message, PendingMessage { delivered_ms, due_ms });
        }
    }

    /// Returns the first message that was never delivered, and the number of those that were delivered and have no end.
    pub(super) fn left(&self) -> (u64, usize) {
        (self.next, self.pending.len())
    }
}
