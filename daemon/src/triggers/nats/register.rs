//! The claims of messages in the register that all nodes share. Each change names the revision that it replaces; where that is not
//! known, or is another one by now, or the outcome of a write is not known, the claim is read and it is decided anew.
//!
//! ```text
//!  none ──────────────create──▶┐
//!  written here ───────update──▶├─▶ written ──▶ the attempt, with the ledger's claim (or: the acknowledgement)
//!  unknown ──read──┬─ own ─────▶┘
//!                  └─ another node's, or own and at its end before it begins ──▶ superseded
//! ```

use super::beats::ms;
use super::books::{ClaimPurpose, KnownClaim, MessageStage, OpenMessage, Question};
use super::fact::{FoundKey, KeyAnswer, WriteAnswer, WriteRefused};
use super::{MessageEffect, Messages};
use fnd_core::run::{Event, Now};
use fnd_core::triggers::nats::claim::{ClaimLimit, ClaimRecord, ClaimState};
use fnd_core::triggers::nats::memory::MessageMemory;
use fnd_wire::ids::InvocationId;
use std::sync::Arc;
use std::time::Duration;

/// The pause before a claim is tried again without a connection, or which the server has refused to write.
pub(super) const AWAY: Duration = Duration::from_secs(5);
/// The pause before a claim is tried again that could not be written.
pub(super) const PUT_OFF: Duration = Duration::from_secs(1);

/// The pause if the claim cannot be read: a newer fnd may hold it.
const UNREADABLE: Duration = Duration::from_secs(60);

/// An attempt that begins no later than this after its claim has the limit of the claim: less than clocks may differ by.
const LATE_MS: u64 = 1000;

/// Returns the claim on a message that nobody has claimed yet.
fn new_claim(node: &str, id: InvocationId, message: &OpenMessage) -> ClaimRecord {
    ClaimRecord {
        function: message.function.clone(),
        node: node.to_owned(),
        process: 0,
        invocation: id,
        state: ClaimState::Held,
        attempts: 0,
        lost: 0,
        at_ms: 0,
        limit: ClaimLimit::Person,
        stream: message.mark.place.stream.to_string(),
        sequence: message.mark.place.sequence,
    }
}

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
    /// Returns the revision of the claim on the message of an invocation, where this node has written it.
    pub(super) fn revision(&self, id: InvocationId) -> Option<u64> {
        match &self.open.get(&id)?.claim {
            KnownClaim::Written(_, revision) => Some(*revision),
            KnownClaim::None | KnownClaim::Unknown => None,
        }
    }

    /// Writes the claim, or reads it first.
    pub(super) fn write_claim(&mut self, now: Now, id: InvocationId, purpose: ClaimPurpose) {
        let running = self.open.get(&id).and_then(|message| message.attempt);
        let from_ms = match (purpose, running) {
            (ClaimPurpose::Keep, Some(attempt)) => attempt.began_ms,
            // It waits for its next attempt, which may begin at any time until its claim is looked at again.
            (ClaimPurpose::Keep, None) => now.unix_ms.saturating_add(ms(self.beat_of(id) * 3)),
            (ClaimPurpose::Begin | ClaimPurpose::End, _) => now.unix_ms,
        };
        // Only an end comes here before the function is known, and nobody looks at the limit of a claim that has ended.
        let limit = self
            .rules_of(id)
            .map_or(ClaimLimit::Person, |rules| rules.limit(from_ms));
        let (Some(node), Some(message)) = (&self.node, self.open.get_mut(&id)) else {
            return;
        };
        message.is_asking = true;
        let key = Arc::clone(&message.mark.key);
        let (base, replaces) = match &message.claim {
            KnownClaim::Unknown => {
                return self.ask_for_key(Question::ReadClaim(id, purpose), key);
            }
            KnownClaim::Written(claim, _) if purpose == ClaimPurpose::End && claim.is_final() => {
                return self.settle_end(id);
            }
            // The fnd before this one has ended the message. Messages that it published then are published once more, with the same ids.
            KnownClaim::Written(claim, _) if purpose == ClaimPurpose::Keep && claim.is_final() => {
                message.is_asking = false;
                message.outcome.counts();
                return self.go_on(now, id);
            }
            KnownClaim::Written(claim, revision) => (claim.clone(), Some(*revision)),
            KnownClaim::None => (new_claim(&node.name, id, message), None),
        };
        let wanted = match (purpose, &message.stage) {
            (ClaimPurpose::Begin, MessageStage::Claiming(attempt)) => ClaimRecord {
                // The supervisor counts an attempt that was claimed twice only once.
                attempts: *attempt,
                ..base.begins(now.unix_ms, limit)
            },
            (ClaimPurpose::Begin, _) => base.begins(now.unix_ms, limit),
            (ClaimPurpose::End, _) => base.ended(now.unix_ms, message.is_interrupted),
            // Nothing of it has begun here: it is a dead letter that is about to be published.
            (ClaimPurpose::Keep, MessageStage::Ending) if replaces.is_none() && message.mark.revision.is_none() => {
                base.kept(limit)
            }
            // The bucket has lost it.
            (ClaimPurpose::Keep, _) if replaces.is_none() => base.begins(now.unix_ms, limit),
            (ClaimPurpose::Keep, _) => base.kept(limit),
        };
        let wanted = ClaimRecord {
            process: self.name.process,
            ..wanted
        };
        let value = wanted.bytes();
        let question = Question::WriteClaim((id, purpose, Arc::clone(&key)), Box::new(wanted));
        self.ask_to_write(question, key, value, replaces);
    }

    /// Says whether the claim on a message promises an end that comes too early for an attempt that begins now.
    pub(super) fn ends_too_early(&self, now: Now, id: InvocationId) -> bool {
        let limit = self.rules_of(id).map(|rules| rules.limit(now.unix_ms));
        let claim = self.open.get(&id).map(|message| &message.claim);
        let (Some(ClaimLimit::Until(ends_ms)), Some(KnownClaim::Written(claim, _))) = (limit, claim) else {
            return false;
        };
        matches!(claim.limit, ClaimLimit::Until(promised_ms) if promised_ms.saturating_add(LATE_MS) < ends_ms)
    }

    /// Takes the answer to a write of a claim.
    pub(super) fn claim_is_written(
        &mut self,
        now: Now,
        (id, purpose, key): (InvocationId, ClaimPurpose, Arc<str>),
        wanted: ClaimRecord,
        result: WriteAnswer,
    ) {
        let Some(message) = self.open.get_mut(&id) else {
            return self.claimed_too_late(now, (id, purpose, key), &wanted, &result);
        };
        match result {
            Ok(revision) => self.claim_is_known(now, (id, purpose), (wanted, revision)),
            // The refused write did not change the claim, so reading the claim again would show nothing new. An immediate second
            // write would be refused again for as long as the bucket is full.
            Err(WriteRefused::Refused(why)) => {
                self.claim_is_bad(now, (id, purpose), (&format!(" cannot be written: {why}"), AWAY));
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
        if message.is_ending() {
            message.outcome.counts();
            // If it was to begin, it was cancelled meanwhile.
            self.put_off_attempt((id, purpose), PUT_OFF);
            return self.go_on(now, id);
        }
        let memory = MessageMemory::Claimed { id, revision };
        self.out.push(MessageEffect::Store(memory));
        if purpose == ClaimPurpose::Begin && matches!(message.stage, MessageStage::Claiming(_)) {
            message.stage = MessageStage::Open;
            return self.is_registered(now, id);
        }
        self.put_off_attempt((id, purpose), PUT_OFF);
        self.adopt_attempt(now, id, limit);
    }

    /// Takes the answer to a question for a claim.
    pub(super) fn claim_is_read(&mut self, now: Now, (id, purpose): (InvocationId, ClaimPurpose), result: KeyAnswer) {
        let (Some(node), Some(message)) = (&self.node, self.open.get_mut(&id)) else {
            return self.put_off_attempt((id, purpose), PUT_OFF);
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
                self.claim_is_bad(now, (id, purpose), (&format!(": {why}"), UNREADABLE));
            }
        }
    }

    /// Reports that the claim on a message cannot be used, and tries again after the pause.
    fn claim_is_bad(&mut self, now: Now, (id, purpose): (InvocationId, ClaimPurpose), (why, pause): (&str, Duration)) {
        let Some(message) = self.open.get_mut(&id) else { return };
        message.is_asking = false;
        let (sequence, function) = (message.mark.place.sequence, &message.function);
        let text = format!("the claim on message {sequence} of `{function}`{why}");
        self.bad_claim = Some((text, now.mono));
        self.out.push(MessageEffect::Changed);
        self.claim_failed(now, (id, purpose), pause);
    }

    /// Tries again later.
    fn claim_failed(&mut self, now: Now, (id, purpose): (InvocationId, ClaimPurpose), pause: Duration) {
        self.put_off_attempt((id, purpose), pause);
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
        self.put_off_attempt((id, purpose), PUT_OFF);
    }

    /// The message was given back while its claim was on its way.
    fn claimed_too_late(
        &mut self,
        now: Now,
        (id, purpose, key): (InvocationId, ClaimPurpose, Arc<str>),
        wanted: &ClaimRecord,
        result: &WriteAnswer,
    ) {
        match result {
            // The claim of work that has ended stays.
            _ if purpose == ClaimPurpose::End => {}
            Ok(revision) => self.let_go(now, (key, id), (wanted, *revision)),
            // A conflict may be that with an earlier write of this node, whose answer was lost.
            Err(WriteRefused::Unknown(_) | WriteRefused::Conflict) => self.forsake(now, key, id),
            // Nothing was written, so no other node sees a claim of this one.
            Err(WriteRefused::Refused(_)) => {}
        }
        self.put_off_attempt((id, purpose), PUT_OFF);
    }
}

#[cfg(test)]
mod tests;
