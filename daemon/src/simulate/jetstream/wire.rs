//! The connection of a node to the server: packets on their way. Each direction keeps its order until the server has them; there,
//! requests about different streams overtake each other.

use super::{Peer, ToNode, ToServer};
use crate::triggers::nats::request::{KeyWrite, NatsRequest};
use fastrand::Rng;
use fnd_core::triggers::nats::server::ack_address;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// The longest way of a packet where nothing is slow.
const FAST: Duration = Duration::from_millis(3);

pub(in crate::simulate) struct Wire {
    random: Rng,
    /// The number of the connection; answers for one before it are lost.
    connection: u64,
    /// With the times at which they arrive.
    up: VecDeque<(Duration, u64, ToServer)>,
    down: VecDeque<(Duration, ToNode)>,
    /// The longest way of a packet, where the link is slow.
    pub(in crate::simulate) slow: Option<Duration>,
    /// The longest way of a packet to the node, where only answers are late.
    pub(in crate::simulate) late: Option<Duration>,
    /// Since when nothing goes through.
    pub(in crate::simulate) cut_since: Option<Duration>,
    /// Whether only the way to the server is cut: packets of the server still arrive.
    pub(in crate::simulate) is_unheard: bool,
    /// The server was killed, and the node does not know it yet: packets of the node are lost.
    is_reset: bool,
}

impl Wire {
    pub(in crate::simulate) fn new(random: Rng) -> Self {
        Self {
            random,
            connection: 0,
            up: VecDeque::new(),
            down: VecDeque::new(),
            slow: None,
            late: None,
            cut_since: None,
            is_unheard: false,
            is_reset: false,
        }
    }

    pub(super) fn ask(&mut self, asked: ToServer, now: Duration) {
        let at = self.arrives(self.up.back().map(|(at, ..)| *at), (self.slow, now));
        if !self.is_reset {
            self.up.push_back((at, self.connection, asked));
        }
    }

    /// Sends something to the node. It is lost if that connection is closed.
    pub(in crate::simulate) fn say(&mut self, connection: u64, said: ToNode, now: Duration) {
        let at = self.arrives(self.down.back().map(|(at, _)| *at), (self.late.or(self.slow), now));
        if connection == self.connection {
            self.down.push_back((at, said));
        }
    }

    fn arrives(&mut self, last: Option<Duration>, (longest, now): (Option<Duration>, Duration)) -> Duration {
        let longest = longest.unwrap_or(FAST);
        let at = now + longest.mul_f64(self.random.f64());
        last.map_or(at, |last| last.max(at))
    }

    /// Returns the number of the connection.
    pub(in crate::simulate) fn connection(&self) -> u64 {
        self.connection
    }

    /// Returns whether a pull request of this connection still has somebody who waits. The server does not see that a cut
    /// connection is closed.
    pub(in crate::simulate) fn is_open(&self, peer: Peer) -> bool {
        peer.connection == self.connection || self.cut_since.is_some()
    }

    /// Returns whether something has arrived at the server, and at the node.
    pub(in crate::simulate) fn has_arrived(&self, now: Duration) -> (bool, bool) {
        let up = self.up.front().is_some_and(|(at, ..)| *at <= now);
        let down = self.down.front().is_some_and(|(at, _)| *at <= now);
        (self.goes_up() && up, self.goes_down() && down)
    }

    /// Returns when something arrives that has not arrived yet.
    pub(in crate::simulate) fn wakes_at(&self, now: Duration) -> Option<Duration> {
        let up = self.up.iter().filter(|_| self.goes_up()).map(|(at, ..)| *at);
        let down = self.down.iter().filter(|_| self.goes_down()).map(|(at, _)| *at);
        up.chain(down).filter(|at| *at > now).min()
    }

    fn goes_up(&self) -> bool {
        self.cut_since.is_none()
    }

    fn goes_down(&self) -> bool {
        self.cut_since.is_none() || self.is_unheard
    }

    /// Takes something that has arrived at the server: the first packet about one of the streams, or about the bucket.
    pub(in crate::simulate) fn take_up(&mut self, now: Duration) -> Option<(u64, ToServer)> {
        let mut about = BTreeSet::new();
        let arrived = self.up.iter().take_while(|(at, ..)| *at <= now).enumerate();
        let firsts = arrived.filter_map(|(index, (_, _, asked))| about.insert(asked.about()).then_some(index));
        let index = self.random.choice(firsts.collect::<Vec<_>>())?;
        let (_, connection, asked) = self.up.remove(index)?;
        Some((connection, asked))
    }

    pub(super) fn take_down(&mut self, now: Duration) -> Option<ToNode> {
        let is_there = self.down.front().is_some_and(|(at, _)| *at <= now);
        is_there.then(|| self.down.pop_front())?.map(|(_, said)| said)
    }

    /// The node connects. Packets from before may still arrive; they belong to another connection.
    pub(super) fn open(&mut self) {
        self.is_reset = false;
    }

    /// The node closes the connection, or is killed. The kernel sends a part of what waits; answers reach nobody.
    pub(in crate::simulate) fn close(&mut self) {
        self.connection += 1;
        self.down.clear();
        self.up.truncate(self.random.usize(0..=self.up.len()));
    }

    /// The server is killed: packets that have not arrived are lost.
    pub(in crate::simulate) fn reset(&mut self) {
        self.is_reset = true;
        self.down.clear();
        self.up.clear();
    }
}

impl ToServer {
    /// Returns what it is about: requests about one thing are carried out in order. The bucket is a thing without a name.
    fn about(&self) -> String {
        match self {
            Self::FindBucket => String::new(),
            Self::Find(entry, _) | Self::Pull(entry, _) => entry.rules.stream.clone().unwrap_or_default(),
            Self::Request(NatsRequest::Signal { ack, .. } | NatsRequest::Settle { ack, .. }) => {
                ack_address::read(ack).map_or_else(String::new, |address| address.stream.to_owned())
            }
            Self::Request(NatsRequest::ReadMessage { place, .. }) => place.0.to_string(),
            Self::Request(_) => String::new(),
        }
    }

    /// Returns it in words, for the trace.
    pub(in crate::simulate) fn words(&self) -> String {
        let message = |ack: &str| {
            let number = ack_address::read(ack).map(|address| address.sequence);
            number.map_or_else(|| ack.to_owned(), |number| format!("message {number}"))
        };
        match self {
            Self::FindBucket => "looks for the bucket".to_owned(),
            Self::Find(entry, _) => format!("looks for entry {}", entry.number),
            Self::Pull(entry, count) => format!("waits for {count} messages of entry {}", entry.number),
            Self::Request(NatsRequest::Read { number, key }) => format!("reads {key}, request {number}"),
            Self::Request(NatsRequest::Write(KeyWrite {
                number,
                key,
                value,
                replaces,
            })) => {
                let value = String::from_utf8_lossy(value);
                format!("writes {key} in place of {replaces:?}, request {number}: {value}")
            }
            Self::Request(NatsRequest::Signal { ack, signal }) => format!("says {signal:?} of {}", message(ack)),
            Self::Request(NatsRequest::Settle { number, ack, .. }) => {
                format!("ends {}, request {number}", message(ack))
            }
            Self::Request(NatsRequest::ReadMessage { number, place }) => {
                format!("reads message {} of {}, request {number}", place.1, place.0)
            }
            Self::Request(_) => "asks for something else".to_owned(),
        }
    }
}
