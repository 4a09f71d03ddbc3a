//! The promises of fnd that must hold in every world. An oracle sees facts, as the world outside of fnd does, and the rows of
//! the ledger; it knows nothing of how fnd decides.
//!
//! Files:
//! - `answers`: O2, O3, O4: an answer to a person is true, and stays true
//! - `attempts`: O1: no function sees an attempt twice, or two attempts of an invocation at once
//! - `budget`: O9: no more workers and memory than the node has
//! - `frames`: O14: every request to the spawner is legal
//! - `hooks`: O6: each end has its follow-ups
//! - `numbers`: O10: fnd reports no defect, and the figures of the ledger are right
//! - `rest`: O11, O12: at the end all work is final, nothing is left, and no function was taken for deleted
//! - `share`: O8: a canary gets its share of the calls
//! - `slots`: O5: each slot and each event is one invocation
//! - `stopped_work`: O15: work that a person has cancelled or disabled does not begin

mod answers;
mod attempts;
mod budget;
mod frames;
mod hooks;
mod numbers;
mod rest;
mod share;
mod slots;
mod stopped_work;
#[cfg(test)]
mod tests;

pub(crate) use share::CanaryShare;

use super::facts::{Began, Death, Fact};
use super::plan::WorldPlan;
use super::rows::{LedgerRows, RowReader};
use fnd_core::run::Now;

/// Whether a promise holds; if not, the promise that is broken, in words.
pub(crate) type PromiseCheck = Result<(), String>;

/// A promise of fnd.
trait Oracle {
    /// Looks at something that has happened.
    fn see(&mut self, now: Now, fact: &Fact) -> PromiseCheck {
        let _ = (now, fact);
        Ok(())
    }

    /// Looks at the rows after a death, before another fnd begins.
    fn at_death(&mut self, death: Death, rows: &LedgerRows) -> PromiseCheck {
        let _ = (death, rows);
        Ok(())
    }

    /// Looks at the rows at the end, when the faults are over and everything had time to come to rest.
    fn at_end(&mut self, rows: &LedgerRows) -> PromiseCheck {
        let _ = rows;
        Ok(())
    }
}

/// All promises. The shares are apart, because that oracle needs the canary of the moment.
pub(crate) struct Oracles {
    all: Vec<Box<dyn Oracle>>,
    shares: share::ShareCounts,
}

impl Oracles {
    pub(crate) fn new(plan: &WorldPlan) -> Self {
        Self {
            all: vec![
                Box::new(attempts::AttemptsOracle::default()),
                Box::new(answers::AnswersOracle::default()),
                Box::new(frames::FramesOracle::default()),
                Box::new(budget::BudgetOracle::default()),
                Box::new(stopped_work::StoppedWorkOracle::default()),
                Box::new(numbers::NumbersOracle),
                Box::new(hooks::HooksOracle::new(plan)),
                Box::new(slots::SlotsOracle::new(plan)),
                Box::new(rest::RestOracle::new(plan)),
            ],
            shares: share::ShareCounts::default(),
        }
    }

    /// Looks at something that has happened; `ledger` reads the database of the fnd that lives.
    pub(crate) fn see(&mut self, now: Now, fact: &Fact, ledger: Option<&RowReader>) -> PromiseCheck {
        if let Some(ledger) = ledger {
            answers::is_stored(fact, |id| ledger.row(id).is_some())?;
        }
        if matches!(fact, Fact::Life(_)) {
            self.shares.begin();
        }
        self.all.iter_mut().try_for_each(|oracle| oracle.see(now, fact))
    }

    /// Looks at a call; `canary` is the canary of its function at that moment, as fnd shows it.
    pub(crate) fn call(&mut self, began: &Began, canary: CanaryShare) -> PromiseCheck {
        self.shares.count(began, canary)
    }

    /// Looks at the rows after a death, before another fnd begins.
    pub(crate) fn at_death(&mut self, death: Death, rows: &LedgerRows) -> PromiseCheck {
        self.all.iter_mut().try_for_each(|oracle| oracle.at_death(death, rows))
    }

    /// Looks at the number of remaining things of each kind. At the end of all work each has to be 0.
    pub(crate) fn is_nothing_left(left: &[(&'static str, usize)]) -> PromiseCheck {
        rest::is_nothing_left(left)
    }

    /// Looks at the rows at the end.
    pub(crate) fn at_end(&mut self, rows: &LedgerRows) -> PromiseCheck {
        self.all.iter_mut().try_for_each(|oracle| oracle.at_end(rows))
    }
}
