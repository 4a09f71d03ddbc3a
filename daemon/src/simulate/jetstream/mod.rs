//! A model of a NATS server with JetStream, and of the connections of nodes. It takes the place of the thread that has the
//! connection: it gets the requests of fnd, and says facts.
//!
//! ```text
//!  fnd ── NatsRequest ─▶ link ─▶ wire: late, cut, closed ─▶ server: streams with a consumer each, the bucket
//!   ▲                     │                                   │
//!   └───── NatsFact ──────┴───────── wire ◀───────────────────┘
//! ```
//! The server does what was measured with a real one: an end counts from any node, a sign of life also prolongs another node's
//! delivery, a consumer that is made anew delivers everything with a count of 1, a server that was killed has lost signs of life,
//! and acknowledgements where the stream keeps its messages; an id is known for two minutes; its timers follow its wall clock.
//!
//! Files:
//! - `bucket`: the bucket of the claims
//! - `consumer`: deliveries, and when each is repeated
//! - `link`: the connection as the thread of fnd sees it
//! - `linked_entry`: an entry of `[[nats]]` in it
//! - `questions`: the requests that wait for an answer
//! - `stream`: a stream with its consumer
//! - `wire`: the packets on their way

mod bucket;
mod consumer;
mod link;
mod linked_entry;
mod questions;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub(super) use self::bucket::BucketModel;
pub(super) use self::link::NodeLink;
pub(super) use self::stream::StreamModel;
pub(super) use self::wire::Wire;

use self::consumer::{ConsumerModel, PullModel};
use crate::triggers::nats::fact::{DeliveredMessage, NatsAnswer, NatsFact, SettleFailed};
use crate::triggers::nats::request::{KeyWrite, NatsEntry, NatsRequest};
use fastrand::Rng;
use fnd_core::triggers::nats::claim_key::NODES;
use fnd_core::triggers::nats::server::ack_address::{self, AckAddress};
use std::sync::Arc;
use std::time::Duration;

/// How many milliseconds the server keeps a pull request.
const EXPIRES_MS: u64 = 30_000;

/// A connection of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) node: usize,
    pub(super) connection: u64,
}

/// A message from a node to the server.
pub(super) enum ToServer {
    /// It looks for the bucket.
    FindBucket,
    /// It looks for the stream and the consumer of an entry; whether it has seen the consumer before.
    Find(NatsEntry, bool),
    /// It waits for so many messages of an entry.
    Pull(NatsEntry, usize),
    Request(NatsRequest),
}

/// A message from the server to a node.
#[derive(Debug)]
pub(super) enum ToNode {
    /// When the bucket was made.
    Bucket(u64),
    /// The time for a sign of life of the consumer of an entry and the number of the consumer, or why there is none.
    Found(u32, Result<(Duration, u64), String>),
    /// The answer to a request.
    Answer(NatsFact),
    /// Somebody writes the key of this node, with this stamp.
    Heard(Arc<str>, u64),
    Delivered(Box<DeliveredMessage>),
    /// So many messages of an entry will not come.
    PullOver(u32, usize),
    /// Nobody takes what was said about this delivery.
    NobodyTakes(Arc<str>),
}

pub(super) struct JetStream {
    pub(super) streams: Vec<StreamModel>,
    pub(super) bucket: BucketModel,
    /// How often it was started; absent: it does not run.
    pub(super) run: Option<u64>,
    runs: u64,
    /// Consumers that were made.
    consumers: u64,
}

impl JetStream {
    /// Returns a server with these streams; each with whether it keeps messages that were acknowledged.
    pub(super) fn new(streams: &[(&str, bool)], now_ms: u64) -> Self {
        let made = |(name, keeps): &(&str, bool)| StreamModel::new(name, *keeps, now_ms * 1_000_000);
        Self {
            streams: streams.iter().map(made).collect(),
            bucket: BucketModel::new(now_ms * 1_000_000),
            run: Some(1),
            runs: 1,
            consumers: 0,
        }
    }

    /// The server is killed. Its files have all confirmed messages, but only a part of the state of its consumers.
    pub(super) fn kill(&mut self, now_ms: u64, random: &mut Rng) {
        self.run = None;
        self.streams.iter_mut().for_each(|stream| stream.killed(now_ms, random));
    }

    pub(super) fn start(&mut self) {
        self.runs += 1;
        self.run = Some(self.runs);
    }

    /// Carries out what a node asks. Returns the answer, and the key of a node that everybody hears of, with its stamp.
    pub(super) fn serve(
        &mut self,
        peer: Peer,
        asked: ToServer,
        now_ms: u64,
    ) -> (Option<ToNode>, Option<(Arc<str>, u64)>) {
        let request = match asked {
            ToServer::FindBucket => return (Some(ToNode::Bucket(self.bucket.created_ns)), None),
            ToServer::Find(entry, was_there) => {
                return (Some(ToNode::Found(entry.number, self.find(&entry, was_there))), None);
            }
            ToServer::Pull(entry, count) => return (self.pull(peer, &entry, count, now_ms), None),
            ToServer::Request(request) => request,
        };
        let fact = match request {
            NatsRequest::Read { number, key } => NatsFact::Answer(number, NatsAnswer::Key(Ok(self.bucket.read(&key)))),
            NatsRequest::ReadMessage {
                number,
                place: (stream, sequence),
            } => {
                let found = self.streams.iter().find(|found| found.name == stream);
                let message = found.and_then(|found| found.message(sequence));
                NatsFact::Answer(number, NatsAnswer::Message(Ok(message.map(Box::new))))
            }
            NatsRequest::Write(KeyWrite {
                number,
                key,
                value,
                replaces,
            }) => {
                let result = self.bucket.write(&key, value, replaces);
                let node = key.strip_prefix(NODES);
                let heard = node.map(|node| (node.into(), bucket::stamp(replaces)));
                let fact = NatsFact::Answer(number, NatsAnswer::Written(result));
                return (Some(ToNode::Answer(fact)), heard);
            }
            NatsRequest::Signal { ack, signal } => match self.delivery(&ack) {
                Some((stream, message)) => {
                    if let Some(consumer) = &mut stream.consumer {
                        consumer.signal(message, signal, now_ms);
                    }
                    return (None, None);
                }
                None => return (Some(ToNode::NobodyTakes(ack)), None),
            },
            NatsRequest::Settle { number, ack, .. } => {
                let found = self.delivery(&ack).ok_or(SettleFailed::NoResponders);
                let result = found.and_then(|(stream, message)| {
                    // A consumer that was made again does not answer about what it has not delivered.
                    let consumer = stream.consumer.as_ref();
                    if consumer.is_none_or(|consumer| consumer.next() <= message) {
                        return Err(SettleFailed::Timeout);
                    }
                    stream.end(message, now_ms);
                    Ok(())
                });
                NatsFact::Answer(number, NatsAnswer::Settled(result))
            }
            // No function here publishes anything; the rest is what the link does.
            NatsRequest::Publish { .. }
            | NatsRequest::Connect(_)
            | NatsRequest::Entries(_)
            | NatsRequest::Pull { .. }
            | NatsRequest::Answer(_)
            | NatsRequest::Stop => return (None, None),
        };
        (Some(ToNode::Answer(fact)), None)
    }

    /// Returns the stream and the number of the message that an address names, if its consumer is there.
    fn delivery(&mut self, ack: &str) -> Option<(&mut StreamModel, u64)> {
        let AckAddress {
            stream,
            consumer,
            sequence,
            ..
        } = ack_address::read(ack)?;
        let mut streams = self.streams.iter_mut();
        let found = streams.find(|found| {
            *found.name == *stream && found.consumer.as_ref().is_some_and(|found| found.name == consumer)
        })?;
        Some((found, sequence))
    }

    fn find(&mut self, entry: &NatsEntry, was_there: bool) -> Result<(Duration, u64), String> {
        let rules = &entry.rules;
        let next = self.consumers + 1;
        let stream = self.stream(entry).filter(|stream| stream.created_ns().is_some());
        let stream = stream.ok_or_else(|| "there is no such stream".to_owned())?;
        if stream.consumer.is_none() {
            if was_there && !rules.is_own_consumer {
                return Err("the consumer is gone".to_owned());
            }
            stream.consumer = Some(ConsumerModel::new(rules.consumer.clone(), rules.ack_wait, next));
        }
        let made = stream.consumer.as_ref().map_or(0, |consumer| consumer.made);
        self.consumers = self.consumers.max(made);
        Ok((rules.ack_wait, made))
    }

    fn stream(&mut self, entry: &NatsEntry) -> Option<&mut StreamModel> {
        let name = entry.rules.stream.as_deref()?;
        self.streams.iter_mut().find(|stream| *stream.name == *name)
    }

    fn pull(&mut self, peer: Peer, entry: &NatsEntry, left: usize, now_ms: u64) -> Option<ToNode> {
        let number = entry.number;
        let consumer = self.stream(entry).and_then(|stream| stream.consumer.as_mut());
        let Some(consumer) = consumer else {
            return Some(ToNode::PullOver(number, left));
        };
        consumer.pulls.push(PullModel {
            peer,
            entry: number,
            left,
            until_ms: now_ms + EXPIRES_MS,
        });
        None
    }

    /// Forgets the pull requests of connections that are closed.
    pub(super) fn forget_closed(&mut self, is_open: impl Fn(Peer) -> bool) {
        let consumers = self.streams.iter_mut().filter_map(|stream| stream.consumer.as_mut());
        consumers.for_each(|consumer| consumer.pulls.retain(|pull| is_open(pull.peer)));
    }

    /// Ends the pull requests whose time is over.
    pub(super) fn expire(&mut self, now_ms: u64) -> Vec<(Peer, ToNode)> {
        let mut over = Vec::new();
        let consumers = self.streams.iter_mut().filter_map(|stream| stream.consumer.as_mut());
        for consumer in consumers {
            let ended = consumer.pulls.extract_if(.., |pull| pull.until_ms <= now_ms);
            over.extend(ended.map(|pull| (pull.peer, ToNode::PullOver(pull.entry, pull.left))));
        }
        over
    }

    /// Returns the streams that have a message for somebody.
    pub(super) fn can_deliver(&self, now_ms: u64) -> impl Iterator<Item = usize> {
        let runs = self.run.is_some();
        let streams = self.streams.iter().enumerate();
        streams.filter_map(move |(index, stream)| (runs && stream.can_deliver(now_ms)).then_some(index))
    }

    pub(super) fn deliver(&mut self, stream: usize, now_ms: u64, random: &mut Rng) -> Option<(Peer, ToNode)> {
        self.streams.get_mut(stream)?.deliver(now_ms, random)
    }

    fn consumers(&self) -> impl Iterator<Item = &ConsumerModel> {
        let all = self.streams.iter().filter(|_| self.run.is_some());
        all.filter_map(|stream| stream.consumer.as_ref())
    }

    /// Returns when a pull request ends.
    pub(super) fn expires_at(&self) -> Option<u64> {
        let pulls = self.consumers().flat_map(|consumer| &consumer.pulls);
        pulls.map(|pull| pull.until_ms).min()
    }

    /// Returns when a message is delivered again that is not to be delivered now.
    pub(super) fn again_after(&self, now_ms: u64) -> Option<u64> {
        self.consumers()
            .filter_map(|consumer| consumer.again_after(now_ms))
            .min()
    }
}
