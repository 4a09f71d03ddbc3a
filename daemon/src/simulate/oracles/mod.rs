//! What must hold, whatever happens. An oracle sees what the world outside of fnd sees, and the rows of the ledger; it
//! knows nothing of how fnd decides.
//!
//! Files:
//! - `answers`: O2, O3, O4: what people were told is true, and stays true
//! - `attempts`: O1: no function sees an attempt twice, or two attempts of an invocation at once
//! - `budget`: O9: no more workers and memory than the node has
//! - `frames`: O14: every request to the spawner is legal
//! - `hooks`: O6: each end has its follow-ups
//! - `numbers`: O10: the figures of the ledger are right
//! - `rest`: O11, O12: at the end all work is final, and nothing is left
//! - `share`: O8: a canary gets its share of the calls
//! - `slots`: O5: each slot and each event is one invocation
//! - `wishes`: O15: work that a person has cancelled or disabled does not begin

mod answers;
mod attempts;
mod budget;
mod frames;
mod hooks;
mod numbers;
mod rest;
mod share;
mod slots;
#[cfg(test)]
mod tests;
mod wishes;

pub(crate) use share::CanaryShare;

use super::facts::{Began, Death, Fact};
use super::plan::Plan;
use super::rows::{LedgerReader, Rows};
use fnd_core::run::Now;

/// Whether a promise holds; if not, the promise that is broken, in words.
pub(crate) type Verdict = Result<(), String>;

/// A promise of fnd.
trait Oracle {
    /// Looks at something that has happened.
    fn see(&mut self, now: Now, fact: &Fact) -> Verdict {
        let _ = (now, fact);
        Ok(())
    }

    /// Looks at the rows after a death, before another fnd begins.
    fn at_death(&mut self, death: Death, rows: &Rows) -> Verdict {
        let _ = (death, rows);
        Ok(())
    }

    /// Looks at the rows at the end, when the faults are over and everything had time to come to rest.
    fn at_end(&mut self, rows: &Rows) -> Verdict {
        let _ = rows;
        Ok(())
    }
}

/// All promises, and those that need more than facts and rows.
pub(crate) struct Oracles {
    all: Vec<Box<dyn Oracle>>,
    shares: share::Shares,
}

impl Oracles {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            all: vec![
                Box::new(attempts::Attempts::default()),
                Box::new(answers::Answers::default()),
                Box::new(frames::Frames::default()),
                Box::new(budget::Budget::default()),
                Box::new(wishes::Wishes::default()),
                Box::new(numbers::Numbers),
                Box::new(hooks::Hooks::new(plan)),
                Box::new(slots::Slots::new(plan)),
                Box::new(rest::Rest),
            ],
            shares: share::Shares::default(),
        }
    }

    /// Looks at something that has happened; `ledger` reads the database of the fnd that lives.
    pub(crate) fn see(&mut self, now: Now, fact: &Fact, ledger: Option<&LedgerReader>) -> Verdict {
        if let Some(ledger) = ledger {
            answers::is_stored(fact, |id| ledger.row(id).is_some())?;
        }
        if matches!(fact, Fact::Life(_)) {
            self.shares.begin();
        }
        self.all.iter_mut().try_for_each(|oracle| oracle.see(now, fact))
    }

    /// Looks at a call; `canary` is the canary of its function at that moment, as fnd shows it.
    pub(crate) fn call(&mut self, began: &Began, canary: CanaryShare) -> Verdict {
        self.shares.count(began, canary)
    }

    /// Looks at the rows after a death, before another fnd begins.
    pub(crate) fn at_death(&mut self, death: Death, rows: &Rows) -> Verdict {
        self.all.iter_mut().try_for_each(|oracle| oracle.at_death(death, rows))
    }

    /// Looks at the number of things of each kind that should be gone at the end of all work.
    pub(crate) fn is_nothing_left(left: &[(&'static str, usize)]) -> Verdict {
        rest::is_nothing_left(left)
    }

    /// Looks at the end.
    pub(crate) fn at_end(&mut self, rows: &Rows) -> Verdict {
        self.all.iter_mut().try_for_each(|oracle| oracle.at_end(rows))
    }
}
