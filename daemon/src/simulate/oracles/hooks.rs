//! O6: each end of a function with hooks has the call that follows it, in the same transaction: no death leaves an end whose
//! hooks will never be called.

use super::{Oracle, PromiseCheck};
use crate::simulate::facts::Death;
use crate::simulate::people::{PersonAct, name};
use crate::simulate::plan::WorldPlan;
use crate::simulate::rows::LedgerRows;
use crate::simulate::spawner::contents::Manner;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_wire::ids::{FunctionName, InvocationId};
use std::collections::{BTreeMap, BTreeSet};

/// The functions that have hooks with each of their contents.
#[derive(Debug)]
pub(super) struct HooksOracle {
    functions: BTreeSet<FunctionName>,
}

impl HooksOracle {
    pub(super) fn new(plan: &WorldPlan) -> Self {
        let (mut hooked, mut others) = (BTreeSet::new(), BTreeSet::new());
        for (_, act) in &plan.acts {
            match act {
                // The function that hooks call must not call itself.
                PersonAct::Save(0, _) => continue,
                PersonAct::Save(function, content) if content.manner() == Manner::Hooked => hooked.insert(*function),
                // While the function is gone, it has no hooks.
                PersonAct::Save(function, _) | PersonAct::Remove(function) => others.insert(*function),
                // No other act changes the hooks of a function.
                _ => continue,
            };
        }
        Self {
            functions: hooked.difference(&others).map(|function| name(*function)).collect(),
        }
    }

    fn compare(&self, rows: &LedgerRows) -> PromiseCheck {
        if self.functions.is_empty() {
            return Ok(());
        }
        let mut calls: BTreeMap<InvocationId, u32> = BTreeMap::new();
        // A call that was refused at once has a row of its own, which does not name the end that it follows.
        let mut refused = 0;
        for row in rows.invocations.values().filter(|row| row.trigger == Trigger::Hook) {
            match &row.cause {
                Some(Cause::Hook(cause)) => *calls.entry(cause.invocation).or_default() += 1,
                _ => refused += u32::from(row.state == RunState::Skipped),
            }
        }
        for (id, row) in &rows.invocations {
            let has_hook = matches!(
                row.state,
                RunState::Succeeded | RunState::Failed | RunState::Interrupted
            );
            if !has_hook || !self.functions.contains(&row.function) {
                continue;
            }
            let (count, is_later) = (calls.get(id).copied().unwrap_or_default(), rows.unfollowed.contains(id));
            let all = count + u32::from(is_later);
            if all == 0 && refused > 0 {
                refused -= 1;
            } else if all != 1 {
                return Err(format!(
                    "O6: {id} of `{}` is {}, and {count} hooks were called (later: {is_later})",
                    row.function,
                    row.state.as_str()
                ));
            }
        }
        Ok(())
    }
}

impl Oracle for HooksOracle {
    fn at_death(&mut self, _: Death, rows: &LedgerRows) -> PromiseCheck {
        self.compare(rows)
    }

    fn at_end(&mut self, rows: &LedgerRows) -> PromiseCheck {
        self.compare(rows)
    }
}
