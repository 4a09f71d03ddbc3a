//! Handles a message that the server has delivered. `fnd_core` decides by the ledger, the claim and the key of the claim's holder;
//! each of them is read only if the decision needs it.
//!
//! ```text
//!  delivered ─▶ weigh ─┬─ the ledger, the claim, its holder, its message ──▶ weigh
//!                      ├─ accept, or take over ──▶ a submission
//!                      └─ sign of life, acknowledgement, give back
//! ```

use super::acceptance::REFUSED;
use super::books::{KnownAddress, MessageCounters, OpenMessage, SeenClaim};
use super::fact::DeliveredMessage;
use super::proofs::ReadClaim;
use super::request::{AckSignal, NatsRequest};
use super::search::key_of;
use super::submission::view;
use super::{MessageEffect, Messages};
use fnd_core::records::StreamPlace;
use fnd_core::run::Now;
use fnd_core::triggers::nats::delivery::{
    ClaimSeen, Delivery, DeliveryStep, GIVE_BACK_LEAST, HolderSilence, LocalMessage, LocalStep, NothingRuns,
    OriginalMessage, decide,
};
use fnd_core::triggers::nats::memory::{KnownMessage, MessageMemory};
use fnd_core::triggers::nats::message::{self, BadMessage, ReadMessage};
use fnd_core::triggers::nats::rules::NatsRules;
use fnd_wire::ids::InvocationId;
use std::sync::Arc;
use std::time::Duration;

/// The row of a message in the ledger, as it was read.
struct KnownRow {
    id: InvocationId,
    place: StreamPlace,
    step: LocalStep,
}

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
    local: Option<Option<KnownRow>>,
    pub(super) claim: ReadClaim,
    /// When the claim was read.
    pub(super) claim_at: Duration,
    pub(super) silence: HolderSilence,
    pub(super) original: OriginalMessage,
}

impl PendingDelivery {
    /// Returns the claim on it that was read at `now`. That of a duplicate belongs to another message.
    fn seen_claim(&self, now: Now) -> Option<SeenClaim> {
        let ReadClaim::Found(claim, revision) = &self.claim else {
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
        if let Some(book) = self.functions.get_mut(&function) {
            book.counters.redelivered += u64::from(message.delivered > 1);
        }
        // By an earlier manifest it may run, elsewhere or here.
        let is_it = |known: &OpenMessage| known.function == function && known.mark.place == message.place;
        if !is_wanted && message.delivered <= 1 && !self.open.values().any(is_it) {
            if let Some(book) = self.functions.get_mut(&function) {
                book.counters.skipped += 1;
            }
            return self.settle_delivery(message.ack);
        }
        let read = wanted.unwrap_or_else(|| message::read(&view(&message), body_max));
        let key = key_of(&function, &view(&message), &read);
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
            claim: ReadClaim::Unread,
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
        let Some(pending) = self.deliveries.get_mut(&number) else {
            return;
        };
        match known {
            Ok(known) => {
                pending.local = Some(known.map(|known| KnownRow {
                    id: known.id,
                    place: known.mark.place,
                    step: known.step,
                }));
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
        let (function, rules) = (entry.function.clone(), Arc::clone(&entry.wanted.rules));
        let open = self.keys.get(&(function.clone(), Arc::clone(&pending.key))).copied();
        let local = match (open.and_then(|id| self.open.get(&id)), &pending.local) {
            (Some(message), _) => Some(LocalMessage {
                place: &message.mark.place,
                // A duplicate need not outlast a message whose acknowledgement may never be answered: its claim says that it has ended.
                step: match message.is_unanswered && message.mark.place != pending.message.place {
                    true => LocalStep::Closed,
                    false => message.step(),
                },
            }),
            (None, None) => {
                let key = Arc::clone(&pending.key);
                return self.out.push(MessageEffect::LookUp(number, function, key));
            }
            (None, Some(known)) => known
                .as_ref()
                .map(|KnownRow { place, step, .. }| LocalMessage { place, step: *step }),
        };
        let takes_work = self.functions.get(&function).is_some_and(|book| book.takes_work);
        let step = decide(&Delivery {
            rules: &rules,
            place: &pending.message.place,
            delivered: pending.message.delivered,
            takes_work: takes_work && !self.is_draining && !self.is_closing,
            local,
            claim: match &pending.claim {
                ReadClaim::Unread => ClaimSeen::Unread,
                ReadClaim::Absent => ClaimSeen::Absent,
                ReadClaim::Found(claim, revision) => ClaimSeen::Found(claim, *revision),
                ReadClaim::Unreadable => ClaimSeen::Unreadable,
            },
            silence: pending.silence,
            original: pending.original,
            now_ms: now.unix_ms,
        });
        self.carry_out(now, (number, open), &rules, step);
    }

    fn carry_out(
        &mut self,
        now: Now,
        (number, open): (u64, Option<InvocationId>),
        rules: &Arc<NatsRules>,
        step: DeliveryStep,
    ) {
        match step {
            DeliveryStep::Accept if self.deliveries.get(&number).is_some_and(|pending| !pending.is_wanted) => {
                self.settle_pending(number, |counters| counters.skipped += 1);
            }
            DeliveryStep::Renew | DeliveryStep::GoOn => self.renewed(now, number, open),
            DeliveryStep::Acknowledge(NothingRuns::Duplicate) => {
                self.settle_pending(number, |counters| counters.duplicates += 1);
            }
            DeliveryStep::Acknowledge(NothingRuns::Ended) => self.settle_pending(number, |_| {}),
            DeliveryStep::GiveBack(rest) => {
                let seen = self.deliveries.get(&number).and_then(|pending| pending.seen_claim(now));
                if let Some(seen) = seen {
                    self.remember_elsewhere(seen);
                }
                self.drop_delivery(number, rest);
            }
            DeliveryStep::ReadClaim => self.ask_for_claim(number),
            DeliveryStep::ReadHolder => self.ask_for_holder(now, number),
            DeliveryStep::ReadOriginal => self.ask_for_original(number),
            DeliveryStep::Accept => self.accept(now, number, rules, None),
            DeliveryStep::TakeOver(takeover) => self.take_over(now, number, *takeover),
        }
    }

    /// Acknowledges a delivery with which nothing runs, and counts that for its function.
    fn settle_pending(&mut self, number: u64, count: impl FnOnce(&mut MessageCounters)) {
        let Some(pending) = self.deliveries.remove(&number) else {
            return;
        };
        if let Some(entry) = self.entries.get(&pending.message.entry)
            && let Some(book) = self.functions.get_mut(&entry.function)
        {
            count(&mut book.counters);
        }
        if let ReadClaim::Found(claim, _) = &pending.claim {
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
            // The ledger has a row that is not in the books: its commit was done, and this fnd was told that it was not. Nothing of it
            // has begun here. Without the row, the next delivery is accepted as a new one.
            if let Some(row) = pending.local.flatten().filter(is_stray) {
                self.out.push(MessageEffect::Withdraw(row.id));
            }
            return self.give_back(ack, REFUSED);
        };
        message.mark.ack = Arc::clone(&ack);
        message.address = KnownAddress::Good;
        let memory = MessageMemory::Renewed {
            id,
            ack: Arc::clone(&ack),
        };
        self.out.push(MessageEffect::Store(memory));
        if message.is_ending() {
            return self.go_on(now, id);
        }
        let signal = AckSignal::Progress;
        self.out.push(MessageEffect::Send(NatsRequest::Signal { ack, signal }));
    }
}

/// Says whether a row is of work that this fnd does not have. That of an end is told by the next fnd.
fn is_stray(row: &KnownRow) -> bool {
    row.step == LocalStep::Open
}

#[cfg(test)]
mod tests;
