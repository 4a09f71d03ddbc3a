//! Handles a message that the server has delivered. `fnd_core` decides by the ledger, the claim and the key of the claim's holder;
//! each of them is read only if the decision needs it.
//!
//! ```text
//!  delivered ─▶ weigh ─┬─ the ledger, the claim, its holder, its message ──▶ weigh
//!                      ├─ accept, or take over ──▶ a submission
//!                      └─ sign of life, acknowledgement, give back
//! ```

use super::acceptance::REFUSED;
use super::books::{KnownAddress, MessageCounters, OpenMessage, Question, SeenClaim};
use super::fact::{DeliveredMessage, KeyAnswer, MessageAnswer};
use super::search::key_of;
use super::{MessageEffect, Messages};
use fnd_core::run::Now;
use fnd_core::triggers::nats::claim::{ClaimLimit, ClaimRecord};
use fnd_core::triggers::nats::claim_key::node_key;
use fnd_core::triggers::nats::delivery::{
    ClaimSeen, Delivery, DeliveryStep, GIVE_BACK_LEAST, HolderSilence, LocalMessage, LocalStep, OriginalMessage, decide,
};
use fnd_core::triggers::nats::memory::{KnownMessage, MessageMemory};
use fnd_core::triggers::nats::message::{self, BadMessage, ReadMessage};
use fnd_wire::ids::{FunctionName, InvocationId};
use std::sync::Arc;
use std::time::Duration;

/// A delivery of which it is not decided yet what to do.
pub(super) struct PendingDelivery {
    /// The id of its invocation, if it becomes one.
    pub(super) id: InvocationId,
    pub(super) message: DeliveredMessage,
    pub(super) read: Result<ReadMessage, BadMessage>,
    /// Whether the function wants it (`when`), or wants such events.
    is_wanted: bool,
    pub(super) key: Arc<str>,
    /// The answer of the ledger about the message; absent: the ledger was not asked.
    pub(super) local: Option<Option<KnownMessage>>,
    pub(super) claim: ClaimSeen,
    /// When the claim was read.
    pub(super) claim_at: Duration,
    pub(super) silence: HolderSilence,
    pub(super) original: OriginalMessage,
}

impl PendingDelivery {
    /// Returns the claim on it that was read at `now`. That of a duplicate belongs to another message.
    fn seen_claim(&self, now: Now) -> Option<SeenClaim> {
        let ClaimSeen::Found(claim, revision) = &self.claim else {
            return None;
        };
        let place = &self.message.place;
        let is_its = claim.sequence == place.sequence && *claim.stream == *place.stream;
        is_its.then(|| SeenClaim {
            key: Arc::clone(&self.key),
            ack: Arc::clone(&self.message.ack),
            revision: *revision,
            record: (**claim).clone(),
            seen_at: now.mono,
            count: 1,
        })
    }
}

impl Messages {
    /// Handles a message that the server has delivered.
    pub(super) fn delivered(&mut self, now: Now, message: DeliveredMessage, id: InvocationId) {
        let Some(entry) = self.entries.get_mut(&message.entry) else {
            return self.give_back(message.ack, GIVE_BACK_LEAST);
        };
        entry.asked = entry.asked.saturating_sub(1);
        let function = entry.function.clone();
        let (wanted, body_max) = (entry.wanted.read(&message), entry.wanted.body_max);
        let is_wanted = wanted.is_some();
        self.count_for(&function, |counters| {
            counters.redelivered += u64::from(message.delivered > 1);
        });
        // By an earlier manifest it may run, elsewhere or here.
        let is_it = |known: &OpenMessage| known.function == function && known.mark.place == message.place;
        if !is_wanted && message.delivered <= 1 && !self.open.values().any(is_it) {
            self.count_for(&function, |counters| counters.skipped += 1);
            return self.settle_delivery(message.ack);
        }
        let read = wanted.unwrap_or_else(|| message::read(&message.view(), body_max));
        let key = key_of(&function, &message.view(), &read);
        // The ledger takes one message with a key at a time.
        let same = self.deliveries.values_mut().find(|pending| pending.key == key);
        if let Some(pending) = same {
            if pending.message.place == message.place {
                pending.message.ack = message.ack;
                return;
            }
            return self.give_back(message.ack, GIVE_BACK_LEAST);
        }
        let number = self.next_number();
        let pending = PendingDelivery {
            id,
            message,
            read,
            is_wanted,
            key,
            local: None,
            claim: ClaimSeen::Unread,
            claim_at: Duration::ZERO,
            silence: HolderSilence::Unseen,
            original: OriginalMessage::Unread,
        };
        self.deliveries.insert(number, pending);
        self.weigh(now, number);
    }

    /// Takes what the ledger knows of the message of a delivery.
    pub(crate) fn known(&mut self, now: Now, number: u64, known: Result<Option<KnownMessage>, String>) {
        self.has_new_room = true;
        if let Some(message) = self.not_stored.remove(&number) {
            return self.row_is_known(now, message, known);
        }
        let Some(pending) = self.deliveries.get_mut(&number) else {
            return;
        };
        match known {
            Ok(known) => {
                pending.local = Some(known);
                self.weigh(now, number);
            }
            // The ledger is busy or fails: others may be able to run it.
            Err(_) => self.refuse_delivery(now, number),
        }
    }

    /// Decides what to do with a delivery, or asks for what the decision needs.
    pub(super) fn weigh(&mut self, now: Now, number: u64) {
        let Some(pending) = self.deliveries.get(&number) else {
            return;
        };
        let Some(entry) = self.entries.get(&pending.message.entry) else {
            return self.drop_delivery(number, GIVE_BACK_LEAST);
        };
        let key = (entry.function.clone(), Arc::clone(&pending.key));
        let open = self.keys.get(&key).copied();
        let local = match (open.and_then(|id| self.open.get(&id)), &pending.local) {
            (Some(message), _) => Some(LocalMessage {
                place: &message.mark.place,
                // A duplicate need not outlast a message whose acknowledgement may never be answered: its claim says that it has ended.
                step: match message.is_unanswered && message.mark.place != pending.message.place {
                    true => LocalStep::Closed,
                    false => message.step(),
                },
            }),
            (None, known) => known.as_ref().and_then(Option::as_ref).map(|known| LocalMessage {
                place: &known.mark.place,
                step: known.step,
            }),
        };
        let takes_work = self.takes_work(&entry.function);
        // One that is accepted at once would begin before those that came earlier and are still looked up.
        let waits = |before: &PendingDelivery| before.message.entry == pending.message.entry && before.local.is_none();
        let follows = self.deliveries.range(..number).any(|(_, before)| waits(before));
        let step = decide(&Delivery {
            rules: &entry.wanted.rules,
            place: &pending.message.place,
            delivered: pending.message.delivered,
            takes_work: takes_work && !self.is_draining && !self.is_closing,
            local,
            is_looked_up: pending.local.is_some(),
            looks_first: follows || entry.looks_first(now.mono),
            claim: &pending.claim,
            silence: pending.silence,
            original: pending.original,
            now_ms: now.unix_ms,
        });
        self.carry_out(now, (number, open), key, step);
    }

    fn carry_out(
        &mut self,
        now: Now,
        (number, open): (u64, Option<InvocationId>),
        (function, key): (FunctionName, Arc<str>),
        step: DeliveryStep,
    ) {
        match step {
            DeliveryStep::Accept if self.deliveries.get(&number).is_some_and(|pending| !pending.is_wanted) => {
                self.settle_pending(number, |counters| counters.skipped += 1);
            }
            DeliveryStep::Renew => self.renewed(now, number, open),
            DeliveryStep::Acknowledge { is_duplicate } => {
                self.settle_pending(number, |counters| counters.duplicates += u64::from(is_duplicate));
            }
            DeliveryStep::GiveBack(rest) => {
                let seen = self.deliveries.get(&number).and_then(|pending| pending.seen_claim(now));
                if let Some(seen) = seen {
                    self.remember_elsewhere(seen);
                }
                self.drop_delivery(number, rest);
            }
            DeliveryStep::LookUp => self.out.push(MessageEffect::LookUp(number, function, key)),
            DeliveryStep::ReadClaim => self.ask_for_key(Question::ClaimOfDelivery(number), key),
            DeliveryStep::ReadHolder => self.ask_for_holder(now, number),
            DeliveryStep::ReadOriginal(stream, sequence) => {
                self.ask_for_message(Question::OriginalOfDelivery(number), (stream, sequence));
            }
            DeliveryStep::Accept => self.accept(now, number, None),
            DeliveryStep::TakeOver(takeover) => self.take_over(now, number, *takeover),
        }
    }

    /// Takes the claim of a delivery.
    pub(super) fn claim_of_delivery(&mut self, now: Now, number: u64, result: KeyAnswer) {
        let Some(pending) = self.deliveries.get_mut(&number) else {
            return;
        };
        let Ok(found) = result else {
            return self.refuse_delivery(now, number);
        };
        pending.claim_at = now.mono;
        pending.claim = match found {
            None => ClaimSeen::Absent,
            Some(found) => match ClaimRecord::read(&found.value) {
                Ok(claim) => ClaimSeen::Found(Box::new(claim), found.revision),
                Err(why) => {
                    let place = &pending.message.place;
                    let why = format!("the claim on message {} of {}: {why}", place.sequence, place.stream);
                    self.bad_claim = Some((why, now.mono));
                    self.out.push(MessageEffect::Changed);
                    ClaimSeen::Unreadable
                }
            },
        };
        self.weigh(now, number);
    }

    /// Asks whether the holder of a claim is silent. This process knows its own attempts by its ledger. Another process with
    /// the name of this node may have left attempts that this process does not know: they end while this process has the name.
    pub(super) fn ask_for_holder(&mut self, now: Now, number: u64) {
        let own = self.node.as_ref().map(|node| &node.name);
        let Some(pending) = self.deliveries.get_mut(&number) else {
            return;
        };
        let ClaimSeen::Found(claim, _) = &pending.claim else {
            return;
        };
        if Some(&claim.node) == own {
            pending.silence = match claim.process == self.name.process {
                true => HolderSilence::Own,
                false => HolderSilence::Other(self.name.silence(silence_of(claim.limit), now.mono)),
            };
            return self.weigh(now, number);
        }
        let key: Arc<str> = node_key(&claim.node).into();
        self.ask_for_key(Question::HolderOfDelivery(number, now.mono), key);
    }

    /// Takes the key of the node that holds the claim of a delivery; the question for it was sent at `asked`.
    pub(super) fn holder_of_delivery(&mut self, now: Now, (number, asked): (u64, Duration), result: KeyAnswer) {
        let Some(pending) = self.deliveries.get_mut(&number) else {
            return;
        };
        let (Ok(found), ClaimSeen::Found(claim, _)) = (result, &pending.claim) else {
            return self.refuse_delivery(now, number);
        };
        let stamp = found.map(|found| found.stamp);
        self.witness.answered(&claim.node, stamp, (asked, now.mono));
        let time = silence_of(claim.limit);
        let proof = self.witness.silence(&claim.node, time, (pending.claim_at, now.mono));
        pending.silence = HolderSilence::Other(proof);
        self.weigh(now, number);
    }

    /// Takes the message that the claim of a delivery was made for.
    pub(super) fn original_of_delivery(&mut self, now: Now, number: u64, result: MessageAnswer) {
        let Some(pending) = self.deliveries.get_mut(&number) else {
            return;
        };
        let Some(entry) = self.entries.get(&pending.message.entry) else {
            return self.drop_delivery(number, GIVE_BACK_LEAST);
        };
        let Ok(found) = result else {
            // Where the right to read it is missing, the duplicate waits until the bucket forgets the claim.
            return self.drop_delivery(number, entry.wanted.rules.ack_wait);
        };
        // A stream that was made anew may have another message there.
        let is_it = found.is_some_and(|found| {
            let found = found.view();
            let read = message::read(&found, entry.wanted.body_max);
            key_of(&entry.function, &found, &read) == pending.key
        });
        pending.original = match is_it {
            true => OriginalMessage::There,
            false => OriginalMessage::Gone,
        };
        self.weigh(now, number);
    }

    /// Acknowledges a delivery with which nothing runs, and counts that for its function.
    fn settle_pending(&mut self, number: u64, count: impl FnOnce(&mut MessageCounters)) {
        let Some(pending) = self.deliveries.remove(&number) else {
            return;
        };
        let entry = self.entries.get(&pending.message.entry);
        if let Some(function) = entry.map(|entry| entry.function.clone()) {
            self.count_for(&function, count);
        }
        if let ClaimSeen::Found(claim, _) = &pending.claim {
            self.not_elsewhere(&claim.function, pending.message.place.sequence);
        }
        self.settle_delivery(pending.message.ack);
    }

    /// Takes another delivery of a message that this node has.
    fn renewed(&mut self, now: Now, number: u64, open: Option<InvocationId>) {
        let Some(pending) = self.deliveries.remove(&number) else {
            return;
        };
        let ack = pending.message.ack;
        let Some((id, message)) = open.and_then(|id| Some((id, self.open.get_mut(&id)?))) else {
            return self.give_back_row(pending.local.flatten(), ack);
        };
        message.mark.ack = Arc::clone(&ack);
        message.address = KnownAddress::Good;
        let memory = MessageMemory::Renewed { id, ack };
        self.out.push(MessageEffect::Store(memory));
        if message.is_ending() {
            return self.go_on(now, id);
        }
        self.send_life(id);
    }

    /// The ledger has a row that is not in the books: its commit was done, and this fnd was told that it was not. Nothing of it has
    /// begun here. Without the row, the next delivery is accepted as a new one. An end is told by the next fnd.
    pub(super) fn give_back_row(&mut self, row: Option<KnownMessage>, ack: Arc<str>) {
        // Since the question another delivery may have been accepted.
        let is_of_nobody = |row: &KnownMessage| row.step == LocalStep::Open && !self.open.contains_key(&row.id);
        if let Some(row) = row.filter(is_of_nobody) {
            self.out.push(MessageEffect::Withdraw(row.id));
        }
        self.give_back(ack, REFUSED);
    }
}

/// Returns for how long the holder of a claim must be silent.
fn silence_of(limit: ClaimLimit) -> Duration {
    match limit {
        ClaimLimit::Silence(ms) => Duration::from_millis(ms),
        // No decision looks at the holder then.
        ClaimLimit::Until(_) | ClaimLimit::Person => Duration::MAX,
    }
}

#[cfg(test)]
mod tests;
