//! The actions that are due: the renewal of the lease, then signs of life for messages, then ends that are tried again; and the fence.
//!
//! The renewal goes first: another node counts from when it hears of the renewal, and the server from the sign of life. If this node
//! goes down between the two, the others have the proof of its silence when the server delivers the message again.

use super::books::{ClaimPurpose, KnownClaim, MessageStage, OpenMessage};
use super::fact::EntryState;
use super::node::NodeKey;
use super::{MessageEffect, Messages};
use fnd_core::run::{Event, Now};
use fnd_core::triggers::nats::claim::ClaimLimit;
use fnd_core::triggers::nats::memory::MessageMemory;
use fnd_core::triggers::nats::rules::{self, CLOCKS_DIFFER};
use fnd_wire::ids::InvocationId;
use std::time::Duration;

/// The beat where no entry has one.
const BEAT: Duration = Duration::from_secs(10);
/// The beat of a message whose rules are not known yet: that of the shortest `ack_wait`.
const BEAT_LEAST: Duration = Duration::from_millis(650);
/// A claim is written anew after so long, so that the bucket does not forget it.
const KEEP: Duration = Duration::from_hours(1);
/// If that fails, it is tried again after so long.
const KEEP_AGAIN: Duration = Duration::from_mins(1);
/// How often messages are forgotten.
pub(super) const FORGET: Duration = Duration::from_mins(10);
/// Two clocks that are read at the same moment differ by less.
const CLOCKS_APART: Duration = Duration::from_millis(100);
/// Most messages that are looked at at once.
const LOOKED_AT: usize = 256;

impl Messages {
    /// Returns when [`Self::beat`] has something to do, by the monotonic clock.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.node.as_ref()?;
        let node = self.node_due();
        let message = self.due.first().map(|(at, _)| *at);
        let down = self.connection.counts_as_down_at();
        let paused = self.entries.values().filter_map(|entry| entry.paused_until);
        let asks = paused.chain(self.ask_again_at).min();
        let forget = Some(self.forget_at);
        let all = [node, self.lease.ends_at(), message, down, asks, self.start_at, forget];
        all.into_iter().flatten().min()
    }

    /// Does what is due.
    pub(crate) fn beat(&mut self, now: Now) {
        if self.node.is_none() {
            return;
        }
        if self.node_due().is_some_and(|at| at <= now.mono) {
            match self.node_key {
                NodeKey::Own(_) => self.renew(now),
                NodeKey::Unread | NodeKey::Again(_) | NodeKey::Asked | NodeKey::Foreign(_) => self.ask_for_node(now),
            }
        }
        self.fence(now);
        self.ask_again_at.take_if(|at| *at <= now.mono);
        if self.start_at.take_if(|at| *at <= now.mono).is_some() {
            self.out.push(MessageEffect::StartAgain);
            self.tell_entries();
        }
        for entry in self.entries.values_mut() {
            entry.paused_until.take_if(|until| *until <= now.mono);
        }
        for _ in 0..LOOKED_AT {
            let Some((at, id)) = self.due.first().copied().filter(|(at, _)| *at <= now.mono) else {
                break;
            };
            self.due.remove(&(at, id));
            self.look_at(now, id);
        }
        if self.connection.tells_down(now.mono) {
            self.out.push(MessageEffect::Changed);
        }
        if self.forget_at <= now.mono {
            self.forget_at = now.mono.saturating_add(FORGET);
            self.closed = 0;
            let keeps = self.node.as_ref().map_or(Duration::ZERO, |node| node.keeps);
            let before_ms = now.unix_ms.saturating_sub(ms(keeps));
            self.out.push(MessageEffect::Store(MessageMemory::Forget { before_ms }));
            // A message whose claim cannot be read comes again every minute at least.
            let is_over = |(_, at): &mut (String, Duration)| at.saturating_add(FORGET * 2) <= now.mono;
            if self.bad_claim.take_if(is_over).is_some() {
                self.out.push(MessageEffect::Changed);
            }
            self.forget_elsewhere(now.mono);
            self.ask_for_forsaken();
        }
    }

    /// Returns when the key of the node is renewed, or asked for again.
    fn node_due(&self) -> Option<Duration> {
        match self.node_key {
            _ if !self.connection.is_ready() => None,
            NodeKey::Own(_) => Some(self.lease.due_at(self.beat_of_node())),
            NodeKey::Again(at) | NodeKey::Foreign(at) => Some(at),
            NodeKey::Unread | NodeKey::Asked => None,
        }
    }

    /// Returns how often the key of the node is renewed.
    fn beat_of_node(&self) -> Duration {
        let beats = self.entries.values().map(|entry| entry.wanted.rules.beat());
        // An attempt keeps the lease with which it was claimed, whatever its entry says by now, and also if there is none any more.
        let running = self.lease.shortest().map(rules::beat);
        beats.chain(running).min().unwrap_or(BEAT)
    }

    /// Takes for how long the machine was suspended since it was started. The other nodes have counted on meanwhile, and the clock
    /// of this one has not.
    pub(crate) fn was_suspended(&mut self, now: Now, suspended: Duration) {
        let before = self.suspended.replace(suspended).unwrap_or(suspended);
        let time = suspended.saturating_sub(before);
        // The two clocks are read one after the other.
        if time > CLOCKS_APART {
            self.lease.slept(time, now.mono);
            self.fence(now);
        }
    }

    /// Ends the attempts whose time is over.
    pub(super) fn fence(&mut self, now: Now) {
        let lost = self.take_lost(now);
        self.out.extend(lost.into_iter().flatten().map(MessageEffect::Event));
    }

    /// The same before another event, which may let an attempt begin. Returns the event that comes before that one. An attempt that
    /// runs may have ended with the other event, so its own event comes after that.
    pub(crate) fn over(&mut self, now: Now) -> Option<Event> {
        let [waiting, running] = self.take_lost(now);
        self.out.extend(running.map(MessageEffect::Event));
        waiting
    }

    /// Returns the events about the attempts whose time is over: about those that have not begun, then about those that run.
    fn take_lost(&mut self, now: Now) -> [Option<Event>; 2] {
        if self.lease.ends_at().is_none_or(|at| at > now.mono) {
            return [None, None];
        }
        let (mut waiting, mut running) = (Vec::new(), Vec::new());
        for id in self.lease.fence(now.mono) {
            self.count(id, |counters| counters.leases_lost += 1);
            let message = self.open.get(&id);
            let lost = (id, message.and_then(|message| message.lease).unwrap_or_default());
            match message.is_some_and(|message| message.attempt.is_some()) {
                true => running.push(lost),
                false => waiting.push(lost),
            }
        }
        [waiting, running].map(|lost| (!lost.is_empty()).then_some(Event::LeaseLost(lost)))
    }

    /// Looks at a message: whether a sign of life, its end, or its claim is due.
    fn look_at(&mut self, now: Now, id: InvocationId) {
        let (beat, is_left) = (self.beat_of(id), self.is_left_to_others(id));
        let Some(message) = self.open.get_mut(&id) else { return };
        message.due_at = None;
        if !self.connection.is_connected() {
            return; // the next connection looks at all
        }
        let again = message.again_at.take_if(|at| *at <= now.mono);
        if message.signal_at <= now.mono && message.signals() {
            message.signal_at = now.mono.saturating_add(beat);
            if !is_left {
                self.show_life(id);
            }
        }
        match again {
            Some(_) => self.go_on(now, id),
            None => self.keep_claim(now, id),
        }
        self.schedule(id);
    }

    /// Says whether a message is left to the others. It waits for an attempt, and none begins here while another fnd has the name of
    /// this node. A sign of life would keep it from them for as long, and so would a claim whose end is moved.
    fn is_left_to_others(&self, id: InvocationId) -> bool {
        self.name.is_taken && self.open.get(&id).is_some_and(OpenMessage::waits)
    }

    /// Writes the claim on a message anew, if that is due.
    pub(super) fn keep_claim(&mut self, now: Now, id: InvocationId) {
        let (knows_rules, is_left) = (self.rules_of(id).is_some(), self.is_left_to_others(id));
        let beat = self.beat_of(id);
        let Some(message) = self.open.get_mut(&id) else { return };
        // An fnd before this one has written it, or the bucket is another one. Where it is missing, it is written by the rules. Its
        // revision is stored a moment after its attempt has begun.
        let has_attempt = message.has_begun || message.attempt.is_some();
        let has_begun = message.mark.revision.is_some() || (has_attempt && !message.mark.is_accepted);
        let is_lost = matches!(message.claim, KnownClaim::Unknown) && has_begun && knows_rules;
        let keeps = (is_lost || (matches!(message.claim, KnownClaim::Written(..)) && !is_left))
            && matches!(message.stage, MessageStage::Open)
            && !message.is_asking
            && self.connection.is_ready()
            && (message.keep_at <= now.mono || (message.attempt.is_none() && is_over_soon(now, &message.claim, beat)));
        if keeps {
            message.keep_at = now.mono.saturating_add(KEEP_AGAIN);
            self.write_claim(now, id, ClaimPurpose::Keep);
        }
    }

    /// Returns when a claim that is written now is written anew.
    pub(super) fn keep_at(&self, now: Now) -> Duration {
        let keep = self.node.as_ref().map_or(KEEP, |node| KEEP.min(node.keeps / 2));
        now.mono.saturating_add(keep)
    }

    /// Returns how often the server gets a sign of life for a message. Its consumer may wait for less than the manifest says.
    pub(super) fn beat_of(&self, id: InvocationId) -> Duration {
        let own = self.rules_of(id).map_or(BEAT_LEAST, |rules| rules.beat());
        let entry = self.open.get(&id).and_then(|message| message.entry);
        match entry.and_then(|number| self.entries.get(&number)?.state.as_ref()) {
            Some(EntryState::Ready { ack_wait, .. }) => own.min(*ack_wait / 3),
            Some(EntryState::Gone(_) | EntryState::Stalled) | None => own,
        }
    }

    /// Has a message looked at when something of it is due.
    pub(super) fn schedule(&mut self, id: InvocationId) {
        if !self.connection.is_connected() {
            return; // the next connection looks at all
        }
        let Some(message) = self.open.get_mut(&id) else { return };
        let signal = message.signals().then_some(message.signal_at);
        let at = message.again_at.into_iter().chain(signal).min();
        if let Some(before) = std::mem::replace(&mut message.due_at, at) {
            self.due.remove(&(before, id));
        }
        self.due.extend(at.map(|at| (at, id)));
    }
}

pub(super) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Says whether the end that a claim promises may come before the claim is looked at again. Of work that waits for its next attempt
/// that would be wrong: another node would record an attempt without an end.
fn is_over_soon(now: Now, claim: &KnownClaim, beat: Duration) -> bool {
    is_over_at(claim, now.unix_ms.saturating_add(ms(beat * 2 + CLOCKS_DIFFER)))
}

/// Says whether the end that a claim promises has come at this time, Unix milliseconds.
pub(super) fn is_over_at(claim: &KnownClaim, unix_ms: u64) -> bool {
    match claim {
        KnownClaim::Written(claim, _) => matches!(claim.limit, ClaimLimit::Until(until_ms) if until_ms <= unix_ms),
        KnownClaim::None | KnownClaim::Unknown => false,
    }
}

#[cfg(test)]
mod tests;
