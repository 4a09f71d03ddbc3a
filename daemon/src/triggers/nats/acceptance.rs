//! From a delivery, or the claim of another node on it, to an invocation whose row is on the disk. With `ack = "accept"` the server
//! forgets the message then.

use super::books::{KnownAddress, KnownClaim, MessageStage, OpenMessage, Question, TakenPlace};
use super::fact::{WriteAnswer, WriteRefused};
use super::node::NodeKey;
use super::request::{AckSignal, NatsRequest};
use super::submission::submission;
use super::{MessageEffect, Messages};
use fnd_core::records::MessageMark;
use fnd_core::run::{Now, TakenOver};
use fnd_core::triggers::nats::claim::ClaimRecord;
use fnd_core::triggers::nats::delivery::{ClaimSeen, DeliveryStep, GIVE_BACK_LEAST, LocalMessage, Takeover, of_row};
use fnd_core::triggers::nats::memory::KnownMessage;
use fnd_wire::ids::InvocationId;
use std::sync::Arc;
use std::time::Duration;

/// How soon a message comes again that the supervisor or the ledger has refused.
pub(super) const REFUSED: Duration = Duration::from_secs(5);
/// For how long the messages of an entry are looked up first, once the ledger had one. If a consumer was made anew, or somebody sends
/// everything twice, a look costs less than a row that is refused.
const LOOKS_FOR: Duration = Duration::from_secs(5);

impl Messages {
    /// Makes a submission of a delivery.
    pub(super) fn accept(&mut self, now: Now, number: u64, taken: Option<(ClaimRecord, u64, Takeover)>) {
        let Some(pending) = self.deliveries.remove(&number) else {
            return;
        };
        let Some(entry) = self.entries.get(&pending.message.entry) else {
            // The function has changed meanwhile. As long as this node lives, no other node begins what this node has taken over.
            if let Some((claim, revision, _)) = &taken {
                self.let_go(now, (pending.key, pending.id), (claim, *revision));
            }
            return self.give_back(pending.message.ack, GIVE_BACK_LEAST);
        };
        let (id, rules) = (pending.id, Arc::clone(&entry.wanted.rules));
        let mark = MessageMark {
            key: Arc::clone(&pending.key),
            place: pending.message.place.clone(),
            consumer: rules.consumer.as_str().into(),
            ack: Arc::clone(&pending.message.ack),
            revision: taken.as_ref().map(|(_, revision, _)| *revision),
            received_ms: now.unix_ms,
            begun: taken.as_ref().map_or(0, |(_, _, takeover)| takeover.attempts),
            is_accepted: !rules.claims(),
        };
        let taken_over = taken.as_ref().map(|(_, _, takeover)| TakenOver {
            message: takeover.message.clone(),
            is_last: takeover.is_last,
        });
        let submit = submission(id, entry, (&pending.message, &pending.read), mark.clone(), taken_over);
        let number = pending.message.entry;
        let last = taken.as_ref().filter(|(.., takeover)| takeover.is_last);
        let message = OpenMessage {
            entry: Some(number),
            signal_at: now.mono.saturating_add(rules.beat()),
            rules: Some(rules),
            targets: entry.wanted.targets.clone(),
            keep_at: self.keep_at(now),
            term: last.map(|(claim, ..)| format!("fnd: begun {} times without an end", claim.lost)),
            claim: taken.map_or(KnownClaim::None, |(claim, revision, _)| {
                KnownClaim::Written(claim, revision)
            }),
            ..OpenMessage::new(submit.function.clone(), mark)
        };
        self.not_elsewhere(&submit.function, pending.message.place.sequence);
        self.keys.insert((submit.function.clone(), pending.key), id);
        self.open.insert(id, message);
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.moves(TakenPlace::Nothing, TakenPlace::Work);
        }
        self.schedule(id);
        self.out.push(MessageEffect::Submit(Box::new(submit)));
    }

    /// Replaces the claim of another node with one of this node.
    pub(super) fn take_over(&mut self, now: Now, number: u64, takeover: Takeover) {
        let node = self.node.as_ref().map(|node| node.name.clone()).unwrap_or_default();
        let Some(pending) = self.deliveries.get_mut(&number) else {
            return;
        };
        let ClaimSeen::Found(claim, _) = &pending.claim else {
            return;
        };
        if !matches!(self.node_key, NodeKey::Own(_)) {
            return self.drop_delivery(number, GIVE_BACK_LEAST);
        }
        // A duplicate goes on in place of the message that is gone.
        let taken = ClaimRecord {
            stream: pending.message.place.stream.to_string(),
            sequence: pending.message.place.sequence,
            ..claim.taken_over((&node, self.name.process), pending.id, now.unix_ms)
        };
        let (key, value, replaces) = (Arc::clone(&pending.key), taken.bytes(), Some(takeover.revision));
        let question = Question::TakeOver(number, Box::new((taken, takeover)));
        self.ask_to_write(question, key, value, replaces);
    }

    /// Takes the answer to that.
    pub(super) fn taken_over(&mut self, now: Now, number: u64, both: (ClaimRecord, Takeover), result: &WriteAnswer) {
        match (result, self.deliveries.get(&number)) {
            (Ok(revision), _) => return self.accept(now, number, Some((both.0, *revision, both.1))),
            // The write may have changed the claim all the same, and another node may get the message next.
            (Err(WriteRefused::Unknown(_)), Some(pending)) => {
                let (key, id) = (Arc::clone(&pending.key), pending.id);
                self.forsake(now, key, id);
            }
            (Err(_), _) => {}
        }
        self.drop_delivery(number, GIVE_BACK_LEAST);
    }

    /// The supervisor does not take the submission of a message.
    pub(crate) fn refused(&mut self, now: Now, id: InvocationId) {
        if let Some(message) = self.forget_storing(now, id) {
            self.refuse(now, message.entry, message.mark.ack);
        }
    }

    /// Forgets a message whose row is not stored.
    fn forget_storing(&mut self, now: Now, id: InvocationId) -> Option<OpenMessage> {
        let message = self.open.get(&id);
        let is_storing = message.is_some_and(|message| matches!(message.stage, MessageStage::Storing));
        let message = is_storing.then(|| self.forget(id)).flatten()?;
        // If it was taken over from another node, any node may go on with it now.
        self.let_go_of(now, id, &message);
        Some(message)
    }

    /// The ledger has not stored a submission, because it has a row of the same message. That row decides, so it is read.
    pub(crate) fn has_row(&mut self, now: Now, id: InvocationId) {
        let Some(message) = self.forget_storing(now, id) else {
            return;
        };
        if let Some(entry) = message.entry.and_then(|number| self.entries.get_mut(&number)) {
            entry.looks_until = Some(now.mono.saturating_add(LOOKS_FOR));
        }
        let (number, key) = (self.next_number(), Arc::clone(&message.mark.key));
        let look = MessageEffect::LookUp(number, message.function.clone(), key);
        self.out.push(look);
        self.not_stored.insert(number, message);
    }

    /// Takes the row for which a submission was not stored. A delivery that is given back is looked up when it comes again.
    pub(super) fn row_is_known(&mut self, now: Now, message: OpenMessage, known: Result<Option<KnownMessage>, String>) {
        if message.address != KnownAddress::Good {
            return; // it may mean another message by now; this one comes again
        }
        let ack = message.mark.ack;
        let (Ok(Some(row)), Some(rules)) = (known, message.rules) else {
            // The row is gone by now, or the ledger has refused this one for another reason.
            return self.refuse(now, message.entry, ack);
        };
        let local = LocalMessage {
            place: &row.mark.place,
            step: row.step,
        };
        match of_row(local, &message.mark.place, &rules) {
            Some(DeliveryStep::Acknowledge { is_duplicate }) => {
                self.count_for(&message.function, |counters| {
                    counters.duplicates += u64::from(is_duplicate);
                });
                self.settle_delivery(ack);
            }
            Some(DeliveryStep::GiveBack(rest)) => self.give_back(ack, rest),
            Some(_) => self.give_back_row(Some(row), ack),
            None => self.give_back(ack, GIVE_BACK_LEAST),
        }
    }

    /// Takes the ledger's answer to a submission.
    pub(crate) fn stored(&mut self, now: Now, id: InvocationId, is_stored: bool) {
        if !is_stored {
            return self.refused(now, id);
        }
        if let Some(message) = self.open.get_mut(&id)
            && matches!(message.stage, MessageStage::Storing)
        {
            message.stage = MessageStage::Open;
            if message.mark.is_accepted && message.address == KnownAddress::Good {
                // If this is lost, or the address may mean another message by now, the message comes again and is known.
                let ack = Arc::clone(&message.mark.ack);
                self.settle_delivery(ack);
            }
        }
    }

    /// Gives a delivery back that this node cannot take, and asks for nothing for its entry for a while.
    pub(super) fn refuse(&mut self, now: Now, entry: Option<u32>, ack: Arc<str>) {
        if let Some(entry) = entry.and_then(|number| self.entries.get_mut(&number)) {
            entry.paused_until = Some(now.mono.saturating_add(REFUSED));
        }
        self.give_back(ack, REFUSED);
    }

    pub(super) fn refuse_delivery(&mut self, now: Now, number: u64) {
        if let Some(pending) = self.deliveries.remove(&number) {
            self.refuse(now, Some(pending.message.entry), pending.message.ack);
        }
    }

    pub(super) fn drop_delivery(&mut self, number: u64, pause: Duration) {
        if let Some(pending) = self.deliveries.remove(&number) {
            self.give_back(pending.message.ack, pause);
        }
    }

    /// Gives a delivery back to the server.
    pub(super) fn give_back(&mut self, ack: Arc<str>, pause: Duration) {
        let signal = AckSignal::GiveBack(pause);
        self.out.push(MessageEffect::Send(NatsRequest::Signal { ack, signal }));
    }
}
