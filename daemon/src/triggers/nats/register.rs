//! The claims of messages in the register that all nodes share. Each change names the revision that it replaces; where that is not
//! known, or is another one by now, or the outcome of a write is not known, the claim is read and it is decided anew.
//!
//! ```text
//!  none ──────────────create──▶┐
//!  written here ───────update──▶├─▶ written ──▶ the ledger's claim, then the attempt (or: the acknowledgement)
//!  unknown ──read──┬─ own ─────▶┘
//!                  └─ another node's, or own and at its end before it begins ──▶ superseded
//! ```

use super::beats::ms;
use super::books::{ClaimPurpose, KnownClaim, MessageStage, OpenMessage, Question};
use super::{MessageEffect, Messages};
use fnd_core::records::InvocationRecord;
use fnd_core::run::{Event, Now};
use fnd_core::triggers::nats::claim::{ClaimLimit, ClaimRecord, ClaimState};
use fnd_wire::ids::InvocationId;
use std::sync::Arc;
use std::time::Duration;

/// The pause before a claim is tried again without a connection, or which the server has refused to write.
pub(super) const AWAY: Duration = Duration::from_secs(5);
/// The pause before a claim is tried again that could not be written.
pub(super) const PUT_OFF: Duration = Duration::from_secs(1);

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

impl Messages {
    /// Returns the revision of the claim on the message of an invocation, where this node has written it.
    pub(super) fn revision(&self, id: InvocationId) -> Option<u64> {
        match &self.open.get(&id)?.claim {
            KnownClaim::Written(_, revision) => Some(*revision),
            KnownClaim::None | KnownClaim::Unknown => None,
        }
    }

    /// Claims the message of an invocation, whose next attempt is about to begin. One of [`MessageEffect::Claim`] and
    /// [`Event::ClaimPutOff`] follows.
    pub(crate) fn claim(&mut self, now: Now, record: Box<InvocationRecord>) {
        let id = record.id;
        if !self.may_claim() {
            return self.put_off(id, AWAY);
        }
        let rules = self.rules_now(id);
        let is_free = self.open.get(&id).is_some_and(|message| !message.is_asking);
        let (Some(rules), true) = (rules, is_free) else {
            return self.put_off(id, PUT_OFF);
        };
        let is_held = rules.lease().is_none_or(|lease| self.lease.hold(id, lease, now.mono));
        let Some(message) = self.open.get_mut(&id).filter(|_| is_held) else {
            return self.put_off(id, PUT_OFF);
        };
        // Its deadline and its grace period will be those of the manifest as it is now.
        (message.lease, message.adopts) = (rules.lease(), None);
        message.is_leased = message.lease.is_some();
        message.rules = Some(rules);
        #[cfg(feature = "simulate")]
        if fnd_core::mutants::Mutant::StartBeforeRegister.is_on() {
            self.out.push(MessageEffect::Claim(record, 0));
            return self.write_claim(now, id, ClaimPurpose::Keep);
        }
        message.stage = MessageStage::Claiming(record);
        self.write_claim(now, id, ClaimPurpose::Begin);
    }

    /// Says that an invocation is to be claimed again later.
    pub(super) fn put_off(&mut self, id: InvocationId, pause: Duration) {
        self.unlease(id);
        if let Some(message) = self.open.get_mut(&id)
            && matches!(message.stage, MessageStage::Claiming(_))
        {
            message.stage = MessageStage::Open;
        }
        self.out.push(MessageEffect::Event(Event::ClaimPutOff { id, pause }));
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
            (ClaimPurpose::Begin, MessageStage::Claiming(record)) => ClaimRecord {
                // The supervisor counts an attempt that was claimed twice only once.
                attempts: record.attempts,
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
            process: self.name.process(),
            ..wanted
        };
        let value = wanted.bytes();
        let question = Question::WriteClaim {
            id,
            purpose,
            key: Arc::clone(&key),
            wanted: Box::new(wanted),
        };
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
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, function, mark, open_message};
    use super::*;

    const ID: InvocationId = InvocationId(1);

    #[test]
    fn a_new_claim_counts_no_attempt() {
        let new = new_claim("vm1", ID, &OpenMessage::new(function("f"), mark("a", 7)));
        assert_eq!((new.sequence, new.attempts, new.node.as_str()), (7, 0, "vm1"));
    }

    #[test]
    fn a_claim_is_put_off_without_a_connection() {
        let mut messages = open_message(ID);
        messages.disconnected(at(1), "away".to_owned());
        messages.take_effects();
        messages.put_off(ID, PUT_OFF);
        let effects = messages.take_effects();
        assert!(matches!(
            effects[..],
            [MessageEffect::Event(Event::ClaimPutOff { id: ID, .. })]
        ));
    }
}
