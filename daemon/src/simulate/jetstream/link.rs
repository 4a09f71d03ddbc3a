//! The connection as the thread of fnd sees it (`triggers/nats/connection`): it sends what fnd asks for, answers each question
//! exactly once, looks for the bucket and the entries, and has one pull request for each entry.

use super::linked_entry::LinkedEntry;
use super::questions::{Questions, refused};
use super::{ToNode, ToServer, Wire};
use crate::triggers::nats::fact::{ConnectedServer, NatsFact};
use crate::triggers::nats::request::{AckSignal, NatsEntry, NatsRequest};
use fnd_core::triggers::nats::server::ack_address;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// When a connection is given up through which nothing goes: two signs of life of the server are missing.
const SILENT_MAX: Duration = Duration::from_secs(12);
/// The pause after a failed try.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(in crate::simulate) struct NodeLink {
    /// Whether fnd wants a connection.
    is_wanted: bool,
    /// The run of the server to which it is connected.
    run: Option<u64>,
    try_at: Duration,
    has_bucket: bool,
    told: Option<&'static str>,
    entries: BTreeMap<u32, LinkedEntry>,
    questions: Questions,
    /// The newest stamp of each node's key.
    heard: BTreeMap<Arc<str>, u64>,
    /// Facts that fnd has not received yet.
    pub(in crate::simulate) facts: Vec<NatsFact>,
}

impl NodeLink {
    /// Takes a request of fnd.
    pub(in crate::simulate) fn request(&mut self, request: NatsRequest, wire: &mut Wire, now: Duration) {
        match request {
            NatsRequest::Connect(_) => self.is_wanted = true,
            NatsRequest::Entries(entries) => self.set_entries(entries, now),
            NatsRequest::Pull { entry, count } => self.want(entry, count),
            request if self.run.is_some() => {
                self.questions.ask(&request, now);
                wire.ask(ToServer::Request(request), now);
            }
            request => self.facts.extend(refused(&request)),
        }
        self.ask_for_messages(wire, now);
    }

    fn want(&mut self, entry: u32, count: usize) {
        match self.entries.get_mut(&entry) {
            Some(known) if known.is_ready() => known.owed += count,
            _ => self.facts.push(NatsFact::PullEnded { entry, left: count }),
        }
    }

    fn set_entries(&mut self, entries: Vec<NatsEntry>, now: Duration) {
        let mut before = std::mem::take(&mut self.entries);
        let look_at = self.has_bucket.then_some(now);
        for entry in entries {
            let known = before.remove(&entry.number).filter(|known| known.entry == entry);
            let known = known.unwrap_or_else(|| LinkedEntry::new(entry, look_at));
            self.entries.insert(known.entry.number, known);
        }
    }

    /// Asks for the messages that are wanted.
    fn ask_for_messages(&mut self, wire: &mut Wire, now: Duration) {
        if self.run.is_none() {
            return;
        }
        for known in self.entries.values_mut() {
            if let Some(count) = known.asks(now) {
                wire.ask(ToServer::Pull(known.entry.clone(), count), now);
            }
        }
    }

    /// Reads what has arrived.
    pub(in crate::simulate) fn read(&mut self, wire: &mut Wire, now: Duration) {
        match wire.take_down(now) {
            Some(ToNode::Bucket(created_ns)) => self.bucket_found(created_ns, now),
            Some(ToNode::Found(entry, found)) => {
                let known = self.entries.get_mut(&entry);
                let facts = known.map(|known| known.found(found, now));
                self.facts.extend(facts.into_iter().flatten());
            }
            // One that comes too late was answered with that already.
            Some(ToNode::Answer(fact)) => self.facts.extend(self.questions.take(&fact).then_some(fact)),
            Some(ToNode::Heard(node, stamp)) => {
                let last = self.heard.entry(Arc::clone(&node)).or_default();
                if stamp > *last {
                    *last = stamp;
                    self.facts.push(NatsFact::Renewed { node, stamp });
                }
            }
            Some(ToNode::Delivered(message)) => {
                // A message says its consumer, and not for which entry it was asked for.
                let mut entries = self.entries.values_mut();
                if let Some(known) = entries.find(|known| known.is_of(&message.place.stream)) {
                    self.facts.push(known.delivered(message));
                } else {
                    let (ack, signal) = (message.ack, AckSignal::GiveBack(PAUSE));
                    wire.ask(ToServer::Request(NatsRequest::Signal { ack, signal }), now);
                }
            }
            Some(ToNode::PullOver(entry, left)) => {
                let known = self.entries.get_mut(&entry);
                let fact = known.and_then(|known| known.pull_over(left, now));
                self.facts.extend(fact);
            }
            Some(ToNode::NobodyTakes(ack)) => {
                let stream = ack_address::read(&ack).map_or("", |address| address.stream);
                let doubted = self.entries.values_mut().filter(|known| known.is_of(stream));
                doubted.for_each(|known| known.doubt(now));
            }
            None => {}
        }
        self.ask_for_messages(wire, now);
    }

    fn bucket_found(&mut self, bucket_created_ns: u64, now: Duration) {
        (self.has_bucket, self.told) = (true, None);
        self.facts.push(NatsFact::Connected(Box::new(ConnectedServer {
            server: "n1 (n1:4222, version 2.15.1)".to_owned(),
            bucket_created_ns,
            bucket_problem: None,
            max_payload: 1 << 20,
        })));
        self.entries.values_mut().for_each(|known| known.look_at = Some(now));
    }

    /// Does what is due; `server` is the run of the server, if it runs.
    pub(in crate::simulate) fn due(&mut self, server: Option<u64>, wire: &mut Wire, now: Duration) {
        self.facts.extend(self.questions.overdue(now));
        if self.is_over(server, wire, now) {
            self.lose(wire, now);
        } else if self.run.is_none() && self.is_wanted && self.try_at <= now {
            self.run = server.filter(|_| wire.cut_since.is_none());
            match self.run {
                Some(_) => {
                    wire.open();
                    wire.ask(ToServer::FindBucket, now);
                }
                None => self.tell("no server answers", now),
            }
        }
        for known in self.entries.values_mut() {
            if self.run.is_some() && known.look_at.take_if(|at| *at <= now).is_some() {
                wire.ask(ToServer::Find(known.entry.clone(), known.was_there), now);
            }
        }
        self.ask_for_messages(wire, now);
    }

    /// Returns whether the connection is over, as the node sees it.
    fn is_over(&self, server: Option<u64>, wire: &Wire, now: Duration) -> bool {
        let is_over = match wire.cut_since {
            Some(since) => since + SILENT_MAX <= now,
            None => self.run != server,
        };
        self.run.is_some() && is_over
    }

    /// Gives the connection up.
    pub(in crate::simulate) fn lose(&mut self, wire: &mut Wire, now: Duration) {
        if self.run.take().is_none() {
            return;
        }
        wire.close();
        self.facts.extend(self.questions.lost());
        self.entries.values_mut().for_each(LinkedEntry::lose);
        self.heard.clear();
        self.has_bucket = false;
        self.tell("the connection to the server was lost", now);
    }

    fn tell(&mut self, why: &'static str, now: Duration) {
        self.try_at = now + PAUSE;
        if self.told.replace(why) != Some(why) {
            self.facts.push(NatsFact::Disconnected(why.to_owned()));
        }
    }

    pub(in crate::simulate) fn is_up(&self) -> bool {
        self.run.is_some()
    }

    /// Returns when [`Self::due`] has something to do.
    pub(in crate::simulate) fn wakes_at(&self, server: Option<u64>, wire: &Wire, now: Duration) -> Option<Duration> {
        let over = self.is_over(server, wire, now).then_some(now);
        let silence = wire.cut_since.filter(|_| self.run.is_some()).map(|at| at + SILENT_MAX);
        let tries = (self.run.is_none() && self.is_wanted).then_some(self.try_at);
        let entries = self.entries.values().filter(|_| self.run.is_some());
        let looks = entries.flat_map(LinkedEntry::wakes_at);
        let all = [over, silence, tries, self.questions.next_due()];
        all.into_iter().chain(looks).flatten().min()
    }
}
