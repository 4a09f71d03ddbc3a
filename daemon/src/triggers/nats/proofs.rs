//! Reads the proofs that the decision about a delivery needs: the claim, the key of the claim's holder, and the message that the
//! claim was made for.

use super::books::Question;
use super::fact::{FoundKey, FoundMessage};
use super::search::{key_of, view_of_found};
use super::{MessageEffect, Messages};
use fnd_core::run::Now;
use fnd_core::triggers::nats::claim::{ClaimLimit, ClaimRecord};
use fnd_core::triggers::nats::claim_key::node_key;
use fnd_core::triggers::nats::delivery::{GIVE_BACK_LEAST, HolderSilence, OriginalMessage};
use fnd_core::triggers::nats::message;
use std::sync::Arc;
use std::time::Duration;

/// The claim on a delivered message, as far as it was read.
pub(super) enum ReadClaim {
    Unread,
    Absent,
    Found(Box<ClaimRecord>, u64),
    Unreadable,
}

/// Returns for how long the holder of a claim must be silent.
fn silence_of(limit: ClaimLimit) -> Duration {
    match limit {
        ClaimLimit::Silence(ms) => Duration::from_millis(ms),
        // No decision looks at the holder then.
        ClaimLimit::Until(_) | ClaimLimit::Person => Duration::MAX,
    }
}

impl Messages {
    /// Asks for the claim of a delivery.
    pub(super) fn ask_for_claim(&mut self, number: u64) {
        let Some(pending) = self.deliveries.get(&number) else {
            return;
        };
        let key = Arc::clone(&pending.key);
        self.ask_for_key(Question::ClaimOfDelivery(number), key);
    }

    /// Takes the claim of a delivery.
    pub(super) fn claim_of_delivery(&mut self, now: Now, number: u64, result: Result<Option<FoundKey>, String>) {
        let Some(pending) = self.deliveries.get_mut(&number) else {
            return;
        };
        let Ok(found) = result else {
            return self.refuse_delivery(now, number);
        };
        pending.claim_at = now.mono;
        pending.claim = match found {
            None => ReadClaim::Absent,
            Some(found) => match ClaimRecord::read(&found.value) {
                Ok(claim) => ReadClaim::Found(Box::new(claim), found.revision),
                Err(why) => {
                    let place = &pending.message.place;
                    let why = format!("the claim on message {} of {}: {why}", place.sequence, place.stream);
                    self.bad_claim = Some((why, now.mono));
                    self.out.push(MessageEffect::Changed);
                    ReadClaim::Unreadable
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
        let ReadClaim::Found(claim, _) = &pending.claim else {
            return;
        };
        if Some(&claim.node) == own {
            pending.silence = match claim.process == self.name.process() {
                true => HolderSilence::Own,
                false => HolderSilence::Other(self.name.silence(silence_of(claim.limit), now.mono)),
            };
            return self.weigh(now, number);
        }
        let key: Arc<str> = node_key(&claim.node).into();
        self.ask_for_key(Question::HolderOfDelivery(number, now.mono), key);
    }

    /// Takes the key of the node that holds the claim of a delivery; the question for it was sent at `asked`.
    pub(super) fn holder_of_delivery(
        &mut self,
        now: Now,
        (number, asked): (u64, Duration),
        result: Result<Option<FoundKey>, String>,
    ) {
        let Some(pending) = self.deliveries.get_mut(&number) else {
            return;
        };
        let (Ok(found), ReadClaim::Found(claim, _)) = (result, &pending.claim) else {
            return self.refuse_delivery(now, number);
        };
        let stamp = found.map(|found| found.stamp);
        self.witness.answered(&claim.node, stamp, (asked, now.mono));
        let time = silence_of(claim.limit);
        let proof = self.witness.silence(&claim.node, time, (pending.claim_at, now.mono));
        pending.silence = HolderSilence::Other(proof);
        self.weigh(now, number);
    }

    /// Asks for the message that the claim was made for.
    pub(super) fn ask_for_original(&mut self, number: u64) {
        let Some(pending) = self.deliveries.get(&number) else {
            return;
        };
        let ReadClaim::Found(claim, _) = &pending.claim else {
            return;
        };
        let place = (claim.stream.as_str().into(), claim.sequence);
        self.ask_for_message(Question::OriginalOfDelivery(number), place);
    }

    /// Takes the message that the claim of a delivery was made for.
    pub(super) fn original_of_delivery(
        &mut self,
        now: Now,
        number: u64,
        result: Result<Option<Box<FoundMessage>>, String>,
    ) {
        let Some(pending) = self.deliveries.get(&number) else {
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
            let found = view_of_found(&found);
            let read = message::read(&found, entry.wanted.body_max);
            key_of(&entry.function, &found, &read) == pending.key
        });
        if let Some(pending) = self.deliveries.get_mut(&number) {
            pending.original = match is_it {
                true => OriginalMessage::There,
                false => OriginalMessage::Gone,
            };
        }
        self.weigh(now, number);
    }
}
