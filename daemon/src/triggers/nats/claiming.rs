//! The claims of the supervisor. Each attempt of a message is claimed in the register and in the ledger of this node at the same time,
//! so it waits for the slower one of the two answers. It begins only if both say yes, and within the lease.
//!
//! ```text
//!  claim ─┬─▶ register: has it, or put off ─┬─▶ one outcome, with the second answer: begins, failed, put off
//!         └─▶ ledger: stored, or not ───────┘
//! ```
//! The ledger's claim of an attempt that does not begin is taken back: the supervisor stores the state before it. If fnd is killed
//! before that, the table of begun attempts says that nothing has begun, and the next fnd asks the register before it goes on.

use super::beats::is_over_at;
use super::books::{ClaimPurpose, KnownClaim, MessageStage};
use super::register::{AWAY, PUT_OFF};
use super::{MessageEffect, Messages};
use fnd_core::records::InvocationRecord;
use fnd_core::run::{Event, Now};
use fnd_core::triggers::nats::open_claims::{ClaimAnswer, ClaimOutcome};
use fnd_wire::ids::InvocationId;
use std::time::Duration;

impl Messages {
    /// Claims the next attempt of the message of an invocation in the register. Returns whether the ledger is to store the claim, too:
    /// [`Self::ledger_answers`] takes its answer. If not, the claim is put off.
    #[must_use]
    pub(crate) fn claim(&mut self, now: Now, record: &InvocationRecord) -> bool {
        match self.begin_claim(now, record) {
            Ok(purpose) => {
                self.write_claim(now, record.id, purpose);
                true
            }
            Err(pause) => {
                self.tell_outcome(record.id, ClaimOutcome::PutOff(pause));
                false
            }
        }
    }

    /// Has a message wait for its claim, or returns the pause before it can be claimed.
    fn begin_claim(&mut self, now: Now, record: &InvocationRecord) -> Result<ClaimPurpose, Duration> {
        let id = record.id;
        if !self.may_claim() {
            return Err(AWAY);
        }
        let is_free = self.open.get(&id).is_some_and(|message| !message.is_asking) && !self.open_claims.is_open(id);
        let rules = self.rules_now(id).filter(|_| is_free).ok_or(PUT_OFF)?;
        let is_held = rules.lease().is_none_or(|lease| self.lease.hold(id, lease, now.mono));
        let message = self.open.get_mut(&id).filter(|_| is_held).ok_or(PUT_OFF)?;
        // Its deadline and its grace period will be those of the manifest as it is now.
        (message.lease, message.adopts) = (rules.lease(), None);
        message.rules = Some(rules);
        #[cfg(feature = "simulate")]
        if fnd_core::mutants::Mutant::StartBeforeRegister.is_on() {
            return Ok(ClaimPurpose::Keep);
        }
        message.stage = MessageStage::Claiming(record.attempts);
        self.open_claims.asks(id);
        Ok(ClaimPurpose::Begin)
    }

    /// Takes the ledger's answer to claims. Returns those of which the supervisor is to hear now: those of other work, and those of
    /// messages whose attempts begin, or fail, with this answer.
    pub(crate) fn ledger_answers(
        &mut self,
        now: Now,
        mut ids: Vec<InvocationId>,
        is_stored: bool,
    ) -> Vec<InvocationId> {
        ids.retain(|id| !self.open_claims.is_open(*id) || self.is_told(now, *id, is_stored));
        ids
    }

    /// Takes an answer of the ledger. Returns whether the outcome is the one that the ledger's answer has.
    fn is_told(&mut self, now: Now, id: InvocationId, is_stored: bool) -> bool {
        match self.outcome(now, id, ClaimAnswer::Ledger(is_stored)) {
            None => false,
            Some(ClaimOutcome::Begins) => true,
            Some(ClaimOutcome::Failed) => {
                self.lease.ended(id);
                self.has_new_room = true; // as for `tell_outcome`
                true
            }
            Some(outcome @ ClaimOutcome::PutOff(_)) => {
                self.tell_outcome(id, outcome);
                false
            }
        }
    }

    /// The register has a claim for which an attempt waits.
    pub(super) fn is_registered(&mut self, now: Now, id: InvocationId) {
        if let Some(outcome) = self.outcome(now, id, ClaimAnswer::Register(Ok(()))) {
            self.tell_outcome(id, outcome);
        }
    }

    /// The register has not taken a claim, or nobody knows whether it has: the invocation is to be claimed again later.
    pub(super) fn put_off(&mut self, id: InvocationId, pause: Duration) {
        self.lease.ended(id);
        if let Some(message) = self.open.get_mut(&id)
            && matches!(message.stage, MessageStage::Claiming(_))
        {
            message.stage = MessageStage::Open;
        }
        if let Some(outcome) = self.open_claims.answered(id, ClaimAnswer::Register(Err(pause))) {
            self.tell_outcome(id, outcome);
        }
    }

    /// Does the same if an attempt waits for the claim.
    pub(super) fn put_off_attempt(&mut self, (id, purpose): (InvocationId, ClaimPurpose), pause: Duration) {
        if purpose == ClaimPurpose::Begin {
            self.put_off(id, pause);
        }
    }

    /// Takes an answer to a claim; returns the outcome if it is known now.
    fn outcome(&mut self, now: Now, id: InvocationId, answer: ClaimAnswer) -> Option<ClaimOutcome> {
        match self.open_claims.answered(id, answer)? {
            ClaimOutcome::Begins if !self.may_begin(now, id) => Some(ClaimOutcome::PutOff(PUT_OFF)),
            outcome => Some(outcome),
        }
    }

    /// Says whether an attempt with both claims may begin: its message is still here, and has not ended, the register still has the
    /// claim as far as this node knows, and its time is not over: that of the lease, or the end that the claim promises. A copy of this
    /// machine with its name takes the claim for its own.
    fn may_begin(&self, now: Now, id: InvocationId) -> bool {
        let message = self.open.get(&id).filter(|_| !self.name.is_taken);
        message.is_some_and(|message| {
            let is_held = match message.lease {
                Some(_) => self.lease.is_held(id, now.mono),
                None => !is_over_at(&message.claim, now.unix_ms),
            };
            is_held && message.claim != KnownClaim::Unknown && !message.has_ended && !message.is_ending()
        })
    }

    /// Takes those out of an event about claims that may not begin any more: fnd may have been stopped since both answers came. They
    /// are put off.
    pub(crate) fn take_late(&mut self, now: Now, event: &mut Event) {
        let Event::Claimed(ids) = event else { return };
        let is_late = |id: &mut InvocationId| self.claims(*id) && !self.may_begin(now, *id);
        let late: Vec<InvocationId> = ids.extract_if(.., is_late).collect();
        for id in late {
            self.tell_outcome(id, ClaimOutcome::PutOff(PUT_OFF));
        }
    }

    fn tell_outcome(&mut self, id: InvocationId, outcome: ClaimOutcome) {
        if outcome != ClaimOutcome::Begins {
            self.lease.ended(id);
            self.has_new_room = true; // it may have had a place of its group
        }
        self.out.push(MessageEffect::Event(match outcome {
            ClaimOutcome::Begins => Event::Claimed(vec![id]),
            ClaimOutcome::Failed => Event::ClaimFailed(vec![id]),
            ClaimOutcome::PutOff(pause) => Event::ClaimPutOff { id, pause },
        }));
    }
}

#[cfg(test)]
mod tests;
