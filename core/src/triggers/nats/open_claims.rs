//! The claims of the supervisor whose answers are on their way. An attempt is claimed in the register and in the ledger at the same
//! time, so the answers come in any order. A claim has one outcome, once both have come: the ledger must not answer a claim of
//! which the supervisor has heard already, since the next claim of the same invocation would take that answer for its own.
//!
//! | the register | the ledger | outcome |
//! |---|---|---|
//! | has the claim | has stored it | the attempt begins |
//! | has the claim | has not stored it | the ledger has failed: that of the register stays |
//! | has not | has stored it, or not | put off: the supervisor stores the state before the claim |

use fnd_wire::ids::InvocationId;
use std::collections::BTreeMap;
use std::time::Duration;

/// An answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimAnswer {
    /// Whether the register has the claim. If it has not, or if nobody knows whether it has, the attempt is claimed again after this
    /// pause.
    Register(Result<(), Duration>),
    /// Whether the claim is on the disk of this node.
    Ledger(bool),
}

/// The outcome of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The attempt may begin.
    Begins,
    /// The ledger has failed.
    Failed,
    /// It is claimed again after this pause.
    PutOff(Duration),
}

/// The answers to one claim that have come.
#[derive(Debug, Clone, Copy, Default)]
struct Answers {
    /// The pause, if the register has not taken the claim.
    register: Option<Result<(), Duration>>,
    is_stored: Option<bool>,
}

impl Answers {
    fn outcome(self) -> Option<ClaimOutcome> {
        Some(match (self.register?, self.is_stored?) {
            (Err(pause), _) => ClaimOutcome::PutOff(pause),
            (Ok(()), true) => ClaimOutcome::Begins,
            (Ok(()), false) => ClaimOutcome::Failed,
        })
    }
}

/// The claims of the supervisor that have no outcome yet.
#[derive(Debug, Default)]
pub struct OpenClaims(BTreeMap<InvocationId, Answers>);

impl OpenClaims {
    /// Takes note that the register and the ledger are asked for a claim.
    pub fn asks(&mut self, id: InvocationId) {
        self.0.insert(id, Answers::default());
    }

    /// Says whether the outcome of a claim is open.
    #[must_use]
    pub fn is_open(&self, id: InvocationId) -> bool {
        self.0.contains_key(&id)
    }

    /// Takes an answer. Returns the outcome with the second one.
    #[must_use]
    pub fn answered(&mut self, id: InvocationId, answer: ClaimAnswer) -> Option<ClaimOutcome> {
        let answers = self.0.get_mut(&id)?;
        match answer {
            ClaimAnswer::Register(result) => answers.register = Some(result),
            ClaimAnswer::Ledger(is_stored) => answers.is_stored = Some(is_stored),
        }
        let outcome = answers.outcome();
        #[cfg(feature = "simulate")]
        let outcome = match answer {
            ClaimAnswer::Register(Ok(())) | ClaimAnswer::Ledger(true)
                if crate::mutants::Mutant::BeginsAtFirstAnswer.is_on() =>
            {
                Some(ClaimOutcome::Begins)
            }
            _ => outcome,
        };
        if outcome.is_some() {
            self.0.remove(&id);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: InvocationId = InvocationId(1);
    const PAUSE: Duration = Duration::from_secs(5);

    #[test]
    fn a_claim_has_one_outcome_with_the_second_answer_in_any_order() {
        use ClaimAnswer::{Ledger, Register};
        for (register, ledger, expected) in [
            (Register(Ok(())), Ledger(true), ClaimOutcome::Begins),
            (Register(Ok(())), Ledger(false), ClaimOutcome::Failed),
            (Register(Err(PAUSE)), Ledger(true), ClaimOutcome::PutOff(PAUSE)),
            (Register(Err(PAUSE)), Ledger(false), ClaimOutcome::PutOff(PAUSE)),
        ] {
            for [first, second] in [[register, ledger], [ledger, register]] {
                let mut claims = OpenClaims::default();
                claims.asks(ID);
                assert_eq!(claims.answered(ID, first), None, "{first:?} comes first");
                assert!(claims.is_open(ID));
                assert_eq!(claims.answered(ID, second), Some(expected), "{second:?} comes second");
                assert!(!claims.is_open(ID));
                assert_eq!(claims.answered(ID, second), None, "it has its outcome");
            }
        }
    }

    #[test]
    fn an_answer_counts_for_its_own_claim_and_once() {
        let mut claims = OpenClaims::default();
        assert_eq!(claims.answered(ID, ClaimAnswer::Ledger(true)), None, "nobody has asked");
        claims.asks(ID);
        claims.asks(InvocationId(2));
        assert_eq!(claims.answered(ID, ClaimAnswer::Ledger(true)), None);
        assert_eq!(claims.answered(InvocationId(2), ClaimAnswer::Register(Ok(()))), None);
        assert_eq!(
            claims.answered(ID, ClaimAnswer::Ledger(true)),
            None,
            "the same answer is no second one"
        );
        // The next claim of the invocation needs both answers anew.
        assert_eq!(
            claims.answered(ID, ClaimAnswer::Register(Err(PAUSE))),
            Some(ClaimOutcome::PutOff(PAUSE))
        );
        claims.asks(ID);
        assert_eq!(claims.answered(ID, ClaimAnswer::Register(Ok(()))), None);
    }
}
