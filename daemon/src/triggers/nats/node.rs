//! The key of this node in the register. Its renewals are the lease of the node, and its instance number says whether the name is
//! this node's own: a second fnd with the same name takes no messages.
//!
//! ```text
//! Unread ──connected──▶ Asked ──own, or none──▶ Own ──renewal is refused──▶ Asked
//!   ▲                    │  ▲                    │
//!   └── connection lost ─┤  └─ time ─ Foreign ◀──┘ another fnd has written it
//! ```

use super::books::{KnownClaim, Question};
use super::fact::{ConnectedServer, FoundKey, KeyAnswer, WriteAnswer, WriteRefused};
use super::{MessageEffect, Messages};
use fnd_core::run::Now;
use fnd_core::triggers::nats::claim::NodeRecord;
use fnd_core::triggers::nats::claim_key::node_key;
use fnd_core::triggers::nats::witness::SilenceProof;
use std::sync::Arc;
use std::time::Duration;

/// How long the other fnd with the name of this one must be silent at least until this one takes the name.
const NAME_IS_FREE: Duration = Duration::from_secs(30);
/// How soon the key is asked for again if there was no answer, and at the earliest otherwise.
const AGAIN: Duration = Duration::from_secs(1);
/// The pause before the thread is started again.
const START_AGAIN: Duration = Duration::from_secs(30);

/// The identity of this node in the register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeIdentity {
    pub(super) name: String,
    /// A number that only this state directory on this machine has.
    pub(super) instance: u64,
    pub(super) bucket: Arc<str>,
    /// For how long the bucket keeps a key.
    pub(super) keeps: Duration,
}

/// The state of this node's key in the register.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum NodeKey {
    /// There is no connection.
    #[default]
    Unread,
    /// The question for it had no answer. It is asked for again at that time.
    Again(Duration),
    /// The question is on its way.
    Asked,
    /// This node has it, with the revision that the next renewal replaces; absent: it is to be created.
    Own(Option<u64>),
    /// Another fnd has it. It is asked for again at that time.
    Foreign(Duration),
}

/// The facts by which this process decides whether the name of this node is its own.
#[derive(Debug, Default)]
pub(super) struct NameBook {
    /// A number that no other process has.
    pub(super) process: u64,
    /// The process of this node that had the key before this one, if there was one; absent before the key was read.
    before: Option<Option<u64>>,
    /// Since when the key is this process's.
    since: Option<Duration>,
    /// Whether another fnd had the key when it was read last.
    pub(super) is_taken: bool,
}

impl NameBook {
    /// Begins, if this process has no number yet.
    pub(super) fn begins(&mut self) {
        if self.process == 0 {
            self.process = fastrand::u64(1..);
        }
    }

    /// The node gets another name or bucket, or none.
    pub(super) fn is_given_up(&mut self) {
        (self.before, self.since, self.is_taken) = (None, None, false);
    }

    /// Takes the record of the key. Returns whether it is this node's. A machine that is a copy of this one has written it if its
    /// process is neither this one nor the one that was there before.
    pub(super) fn is_own(&mut self, found: Option<&FoundKey>, instance: u64) -> bool {
        let record = found.and_then(|found| NodeRecord::read(&found.value));
        let process = record
            .filter(|record| record.instance == instance)
            .map(|record| record.process);
        let before = *self.before.get_or_insert(process);
        let is_this = process == Some(self.process);
        if !is_this {
            self.since = None;
        }
        is_this || (process.is_some() && process == before)
    }

    /// The key was written at `now`, at the latest.
    pub(super) fn is_written(&mut self, now: Duration) {
        self.since.get_or_insert(now);
    }

    /// Says whether all others with this name were silent for `time`: none of them renews its lease since this process has it.
    pub(super) fn silence(&self, time: Duration, now: Duration) -> SilenceProof {
        let silent = self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        match time.checked_sub(silent) {
            Some(rest) if !rest.is_zero() => SilenceProof::Wants(rest),
            _ => SilenceProof::Given(silent),
        }
    }
}

impl Messages {
    /// Handles a new connection, or another bucket.
    pub(super) fn connected(&mut self, now: Now, server: ConnectedServer) {
        if self.connection.up(now, server) {
            // The claims are gone with the old one.
            for message in self.open.values_mut() {
                (message.claim, message.keep_at) = (KnownClaim::Unknown, now.mono);
            }
        }
        self.witness.disconnected();
        self.lease.disconnected();
        self.ask_for_node(now);
        self.ask_for_forsaken();
        // Signs of life are late, and ends wait.
        for message in self.open.values_mut() {
            message.signal_at = now.mono;
            message.again_at = message.is_ending().then_some(now.mono);
        }
        self.look_at_all();
        self.out.push(MessageEffect::Changed);
    }

    /// Handles a connection whose bucket cannot be used: it brings signs of life all the same.
    pub(super) fn no_bucket(&mut self, now: Now, why: String) {
        self.connection.no_bucket(now, why);
        self.look_at_all();
        self.out.push(MessageEffect::Changed);
    }

    fn look_at_all(&mut self) {
        let all: Vec<_> = self.open.keys().copied().collect();
        all.into_iter().for_each(|id| self.schedule(id));
    }

    /// Handles the loss of the connection, or that there is none yet. Questions that were on their way are answered before.
    pub(super) fn disconnected(&mut self, now: Now, why: String) {
        self.connection.down(now, why);
        self.witness.disconnected();
        self.lease.disconnected();
        self.node_key = NodeKey::Unread;
        self.doubt(|_| true);
        // Nothing may be said about these with the next connection, so they come again.
        self.not_stored.clear();
        self.deliveries.retain(|_, pending| pending.local.is_some());
        for entry in self.entries.values_mut() {
            (entry.asked, entry.state) = (0, None);
        }
        self.out.push(MessageEffect::Changed);
    }

    /// Handles that there is no thread to talk to a server, and why.
    pub(crate) fn has_no_thread(&mut self, now: Now, why: String) {
        self.disconnected(now, why);
        self.start_at = Some(now.mono.saturating_add(START_AGAIN));
    }

    pub(super) fn ask_for_node(&mut self, now: Now) {
        let Some(node) = &self.node else { return };
        let key = node_key(&node.name).into();
        self.node_key = NodeKey::Asked;
        self.ask_for_key(Question::ReadNode(now.mono), key);
    }

    /// Takes the answer to the question for the key of this node.
    pub(super) fn node_is_read(&mut self, now: Now, asked: Duration, result: KeyAnswer) {
        let Some(node) = &self.node else { return };
        // Attempts of the other fnd may go on for the `ack_wait` of its functions. Its functions are those of this node.
        let waits = self.entries.values().map(|entry| entry.wanted.rules.ack_wait);
        let is_free = waits.max().unwrap_or_default().max(NAME_IS_FREE);
        let Ok(found) = result else {
            if self.connection.is_connected() {
                self.node_key = NodeKey::Again(now.mono.saturating_add(AGAIN));
            }
            return;
        };
        let is_own = self.name.is_own(found.as_ref(), node.instance);
        self.node_key = match found {
            None => NodeKey::Own(None),
            Some(found) if is_own => NodeKey::Own(Some(found.revision)),
            Some(found) => {
                self.witness.answered(&node.name, Some(found.stamp), (asked, now.mono));
                let silence = self.witness.silence(&node.name, is_free, (Duration::ZERO, now.mono));
                match silence {
                    SilenceProof::Given(_) => NodeKey::Own(Some(found.revision)),
                    SilenceProof::Wants(rest) => NodeKey::Foreign(now.mono.saturating_add(rest.max(AGAIN))),
                }
            }
        };
        self.name.is_taken = matches!(self.node_key, NodeKey::Foreign(_));
        self.out.push(MessageEffect::Changed);
        self.renew(now);
    }

    /// Renews the key, if it is this node's.
    pub(super) fn renew(&mut self, now: Now) {
        let (Some(node), NodeKey::Own(revision)) = (&self.node, self.node_key) else {
            return;
        };
        let record = NodeRecord {
            instance: node.instance,
            process: self.name.process,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            at_ms: now.unix_ms,
        };
        let key = node_key(&node.name).into();
        self.lease.sends(now.mono);
        self.ask_to_write(Question::Renew(now.mono), key, record.bytes(), revision);
    }

    /// Takes the answer to a renewal.
    pub(super) fn node_is_written(&mut self, now: Now, sent: Duration, result: &WriteAnswer) {
        match result {
            Ok(revision) => {
                self.name.is_written(now.mono);
                self.lease.renewed((sent, now.mono));
                // The renewal does not bring back an attempt whose lease had ended before it.
                self.fence(now);
                if let NodeKey::Own(known) = &mut self.node_key {
                    *known = Some(*revision).max(*known);
                }
                let deadlines = self.lease.deadlines().into_iter();
                let at = |end: Duration| Some(end.max(now.mono));
                self.out
                    .extend(deadlines.map(|(worker, end)| MessageEffect::Lease(worker, at(end))));
            }
            Err(WriteRefused::Conflict) => self.ask_for_node(now),
            // The next renewal finds out.
            Err(WriteRefused::Refused(_) | WriteRefused::Unknown(_)) => {}
        }
    }

    /// Says whether this node may claim messages: it has a connection, the bucket, and its name in it.
    pub(super) fn may_claim(&self) -> bool {
        self.connection.is_ready() && matches!(self.node_key, NodeKey::Own(Some(_)))
    }

    /// Returns why the name is not this node's own.
    pub(super) fn node_problem(&self) -> Option<String> {
        let node = self.node.as_ref()?;
        if self.is_closing {
            let count = self.open.len();
            return Some(format!(
                "the new name or bucket in `[events.nats]` waits for the end of {count} messages that are claimed here as `{}`",
                node.name
            ));
        }
        let is_foreign = matches!(self.node_key, NodeKey::Foreign(_));
        is_foreign.then(|| {
            format!(
                "another fnd, or a copy of this machine, has the name `{}` in the bucket `{}`: this one takes no messages as long as the other one is there; \
                 give each node a name of its own (`[events.nats] node`)",
                node.name, node.bucket
            )
        })
    }

    /// Returns what hinders the whole node.
    pub(super) fn node_error(&self) -> Option<String> {
        let connection = self.connection.error().map(str::to_owned);
        connection.or_else(|| self.node_problem())
    }
}

#[cfg(test)]
mod tests;
