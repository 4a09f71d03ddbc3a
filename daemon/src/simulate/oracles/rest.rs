//! O11, O12: some time after the last fault all accepted work is final, all callers have their answers, and nothing is left
//! of work that is over. At no time does work end as that of a deleted function, if nobody has deleted the function.

use super::{Oracle, PromiseCheck};
use crate::simulate::facts::Death;
use crate::simulate::people::{PersonAct, name};
use crate::simulate::plan::WorldPlan;
use crate::simulate::rows::LedgerRows;
use fnd_core::records::outcome::{Reason, Skip};
use fnd_wire::ids::FunctionName;
use std::collections::BTreeSet;

#[derive(Debug)]
pub(super) struct RestOracle {
    /// The functions that no person removes.
    kept: BTreeSet<FunctionName>,
}

impl RestOracle {
    pub(super) fn new(plan: &WorldPlan) -> Self {
        let mut kept: BTreeSet<_> = (0..plan.functions).map(name).collect();
        for (_, act) in &plan.acts {
            if let PersonAct::Remove(function) = act {
                kept.remove(&name(*function));
            }
        }
        Self { kept }
    }

    fn has_lost_no_function(&self, rows: &LedgerRows) -> PromiseCheck {
        let deleted = Some(Reason::Skipped(Skip::Deleted));
        let mut ends = rows.invocations.iter().filter(|(_, row)| row.reason == deleted);
        match ends.find(|(_, row)| self.kept.contains(&row.function)) {
            Some((id, row)) => Err(format!(
                "O12: {id} ended because `{}` was deleted, and nobody has deleted it",
                row.function
            )),
            None => Ok(()),
        }
    }
}

/// O11: `left` has the number of things of each kind that should be gone.
pub(super) fn is_nothing_left(left: &[(&'static str, usize)]) -> PromiseCheck {
    let left: Vec<_> = left.iter().filter(|(_, count)| *count > 0).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(format!("O11: at the end there is still {left:?}")),
    }
}

impl Oracle for RestOracle {
    fn at_death(&mut self, _: Death, rows: &LedgerRows) -> PromiseCheck {
        self.has_lost_no_function(rows)
    }

    fn at_end(&mut self, rows: &LedgerRows) -> PromiseCheck {
        self.has_lost_no_function(rows)?;
        let open = rows.invocations.iter().find(|(_, row)| !row.state.is_final());
        match open {
            Some((id, row)) => Err(format!(
                "O12: {id} of `{}` is still {} at the end",
                row.function,
                row.state.as_str()
            )),
            None => Ok(()),
        }
    }
}
