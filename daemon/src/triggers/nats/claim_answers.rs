//! Handles the answers of the register about the claim on a message of this node.

use super::books::{ClaimPurpose, KnownClaim, MessageStage, OpenMessage};
use super::fact::{FoundKey, WriteRefused};
use super::register::{AWAY, PUT_OFF};
use super::{MessageEffect, Messages};
use fnd_core::run::{Event, Now};
use fnd_core::triggers::nats::claim::ClaimRecord;
use fnd_core::triggers::nats::memory::MessageMemory;
use fnd_wire::ids::InvocationId;
use std::sync::Arc;
use std::time::Duration;

/// The pause if the claim cannot be read: a newer fnd may hold it.
const UNREADABLE: Duration = Duration::from_secs(60);

/// The claim on the message of an invocation, as the register has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FoundClaim {
    Absent,
    /// It is this node's, for the same invocation.
    Own(ClaimRecord, u64),
    /// Another invocation has it; with its node.
    Other(String),
    Unreadable(String),
}

/// Says whose a claim is that was read.
pub(super) fn found_claim(found: Option<&FoundKey>, (node, id): (&str, InvocationId)) -> FoundClaim {
    let Some(found) = found else { return FoundClaim::Absent };
    match ClaimRecord::read(&found.value) {
        Err(why) => FoundClaim::Unreadable(why),
        Ok(claim) if claim.node == node && claim.invocation == id => FoundClaim::Own(claim, found.revision),
        Ok(claim) => FoundClaim::Other(claim.node),
    }
}

impl Messages {
    /// Takes the answer to a write of a claim.
    pub(super) fn claim_is_written(
        &mut self,
        now: Now,
        (id, purpose, key): (InvocationId, ClaimPurpose, Arc<str>),
        wanted: ClaimRecord,
        result: Result<u64, WriteRefused>,
    ) {
        let Some(message) = self.open.get_mut(&id) else {
            return self.claimed_too_late(now, (id, purpose, key), &wanted, &result);
        };
        match result {
            Ok(revision) => self.claim_is_known(now, (id, purpose), (wanted, revision)),
            // The refused write did not change the claim, so reading the claim again would show nothing new. An immediate second
            // write would be refused again for as long as the bucket is full.
            Err(WriteRefused::Refused(why)) => {
                message.is_asking = false;
                let text = format!(
                    "the claim on message {} of `{}` cannot be written: {why}",
                    message.mark.place.sequence, message.function
                );
                self.bad_claim = Some((text, now.mono));
                self.out.push(MessageEffect::Changed);
                self.claim_failed(now, (id, purpose), AWAY);
            }
            Err(refused @ (WriteRefused::Conflict | WriteRefused::Unknown(_))) => {
                message.claim = KnownClaim::Unknown;
                if refused == WriteRefused::Conflict && purpose == ClaimPurpose::Begin {
                    self.count(id, |counters| counters.claims_refused += 1);
                }
                self.write_claim(now, id, purpose);
            }
        }
    }

    /// Takes a claim that this node has, and goes on with what it was wanted for.
    fn claim_is_known(&mut self, now: Now, (id, purpose): (InvocationId, ClaimPurpose), claim: (ClaimRecord, u64)) {
        let keep_at = self.keep_at(now);
        let Some(message) = self.open.get_mut(&id) else { return };
        let (revision, limit) = (claim.1, claim.0.limit);
        message.claim = KnownClaim::Written(claim.0, revision);
        message.mark.revision = Some(revision);
        (message.is_asking, message.keep_at) = (false, keep_at);
        match (purpose, std::mem::replace(&mut message.stage, MessageStage::Open)) {
            (ClaimPurpose::Begin, MessageStage::Claiming(record)) => {
                self.out.push(MessageEffect::Claim(record, revision));
            }
            (_, MessageStage::Ending) => {
                message.stage = MessageStage::Ending;
                message.outcome.counts();
                if purpose == ClaimPurpose::Begin {
                    // It was cancelled meanwhile. Each claim of the supervisor has an answer.
                    self.put_off(id, PUT_OFF);
                }
                self.go_on(now, id);
            }
            (_, stage) => {
                message.stage = stage;
                let memory = MessageMemory::Claimed { id, revision };
                self.out.push(MessageEffect::Store(memory));
                if purpose == ClaimPurpose::Begin {
                    self.put_off(id, PUT_OFF);
                }
                self.adopt_attempt(now, id, limit);
            }
        }
    }

    /// Takes the answer to a question for a claim.
    pub(super) fn claim_is_read(
        &mut self,
        now: Now,
        (id, purpose): (InvocationId, ClaimPurpose),
        result: Result<Option<FoundKey>, String>,
    ) {
        let (Some(node), Some(message)) = (&self.node, self.open.get_mut(&id)) else {
            if purpose == ClaimPurpose::Begin {
                self.put_off(id, PUT_OFF);
            }
            return;
        };
        message.is_asking = false;
        let Ok(found) = result else {
            return self.claim_failed(now, (id, purpose), PUT_OFF);
        };
        match found_claim(found.as_ref(), (&node.name, id)) {
            // The work has ended here once: the history is older than that, from a backup or on a disk that was set back.
            // An end that is about to be told is another matter: the fnd before this one has told it already.
            FoundClaim::Own(claim, _)
                if claim.is_final()
                    && match purpose {
                        ClaimPurpose::Begin => true,
                        ClaimPurpose::Keep => !message.is_ending(),
                        ClaimPurpose::End => false,
                    } =>
            {
                self.is_elsewhere(id, purpose, claim.node);
            }
            // Also if the claim already says all that: an attempt that begins now has its limit from now on, and the server may have
            // been away since.
            FoundClaim::Own(claim, revision) => {
                message.claim = KnownClaim::Written(claim, revision);
                self.write_claim(now, id, purpose);
            }
            FoundClaim::Absent => {
                message.claim = KnownClaim::None;
                self.write_claim(now, id, purpose);
            }
            FoundClaim::Other(node) => self.is_elsewhere(id, purpose, node),
            FoundClaim::Unreadable(why) => {
                let text = format!(
                    "the claim on message {} of `{}`: {why}",
                    message.mark.place.sequence, message.function
                );
                self.bad_claim = Some((text, now.mono));
                self.out.push(MessageEffect::Changed);
                self.claim_failed(now, (id, purpose), UNREADABLE);
            }
        }
    }

    /// Tries again later.
    fn claim_failed(&mut self, now: Now, (id, purpose): (InvocationId, ClaimPurpose), pause: Duration) {
        if purpose == ClaimPurpose::Begin {
            self.put_off(id, pause);
        }
        if let Some(message) = self.open.get_mut(&id).filter(|message| message.is_ending()) {
            message.again_at = Some(now.mono.saturating_add(pause));
        }
        self.schedule(id);
    }

    /// Another node goes on with the message, or this one has ended it before.
    fn is_elsewhere(&mut self, id: InvocationId, purpose: ClaimPurpose, node: String) {
        if let Some(message) = self.open.get_mut(&id) {
            message.claim = KnownClaim::Unknown;
        }
        let node: Box<str> = node.into();
        if self.open.get(&id).is_some_and(OpenMessage::is_ending) {
            self.out.push(MessageEffect::Supersede(id, node));
            self.forget(id);
        } else {
            // While an attempt runs nothing follows: its end shows the same again.
            self.out.push(MessageEffect::Event(Event::Superseded { id, node }));
        }
        if purpose == ClaimPurpose::Begin {
            self.put_off(id, PUT_OFF);
        }
    }

    /// The message was given back while its claim was on its way.
    fn claimed_too_late(
        &mut self,
        now: Now,
        (id, purpose, key): (InvocationId, ClaimPurpose, Arc<str>),
        wanted: &ClaimRecord,
        result: &Result<u64, WriteRefused>,
    ) {
        if purpose != ClaimPurpose::Begin {
            return;
        }
        match result {
            Ok(revision) => self.let_go(now, (key, id), (wanted, *revision)),
            Err(WriteRefused::Unknown(_)) => self.forsake(key, id),
            Err(WriteRefused::Conflict | WriteRefused::Refused(_)) => {}
        }
        self.put_off(id, PUT_OFF);
    }
}

#[cfg(test)]
mod tests;
