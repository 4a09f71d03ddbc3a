//! Numbers of functions and attempts, kept while functions change, so that the node's status walks over no list.
//!
//! Every change of a function goes through [`SupervisedFunctions`]'s `IndexMut`, which notes the function. At the end of each event
//! [`SupervisedFunctions::count`] compares each noted function with what the counts have of it. So no code that changes a function
//! has to think of the counts.
//!
//! [`SupervisedFunctions`]: super::function::SupervisedFunctions
//! [`SupervisedFunctions::count`]: super::function::SupervisedFunctions::count

use super::Supervisor;
use super::function::SupervisedFunction;
use super::queue::RECOUNT_MAX;
use crate::messages::FunctionState;
use fnd_wire::plan;

/// The numbers of all functions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Shown functions in each state, in the order of [`FunctionState::ALL`]; not fnd's own.
    by_state: [usize; FunctionState::ALL.len()],
    /// Attempts that run or are being started; also those of fnd's own functions.
    running: usize,
}

/// The part of one function in the counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CountedFunction {
    /// Its state; absent if it is not shown, or is one of fnd's own.
    state: Option<FunctionState>,
    running: usize,
}

impl CountedFunction {
    /// Returns what the counts should have of a function.
    pub(super) fn of(function: &SupervisedFunction) -> Self {
        let shown = function.is_shown() && !plan::is_own(function.name.as_str());
        Self {
            state: shown.then(|| function.state()),
            running: function.work.busy,
        }
    }
}

impl Counts {
    /// Replaces what the counts have of a function.
    pub(super) fn replace(&mut self, before: CountedFunction, after: CountedFunction) {
        if let Some(state) = before.state {
            let number = &mut self.by_state[state as usize];
            *number = number.saturating_sub(1);
        }
        if let Some(state) = after.state {
            self.by_state[state as usize] += 1;
        }
        self.running = self.running.saturating_sub(before.running) + after.running;
    }
}

impl Supervisor {
    /// Returns how many shown functions are in each state that any is in; fnd's own do not count.
    pub fn by_state(&self) -> impl Iterator<Item = (FunctionState, usize)> {
        let numbers = self.functions.counts().by_state;
        FunctionState::ALL
            .into_iter()
            .zip(numbers)
            .filter(|(_, number)| *number > 0)
    }

    /// Returns how many attempts run or are being started.
    #[must_use]
    pub fn running(&self) -> usize {
        self.functions.counts().running
    }

    /// Counts all functions and workers anew; says whether the kept counts agree. Counts nothing where that would take too
    /// long for an assertion after each event.
    pub(super) fn counts_agree(&self) -> bool {
        if self.functions.keys().nth(RECOUNT_MAX).is_some() {
            return true;
        }
        let mut counts = Counts::default();
        for key in self.functions.keys() {
            counts.replace(CountedFunction::default(), CountedFunction::of(&self.functions[key]));
        }
        let running: usize = self.workers.values().map(|worker| worker.runs.len()).sum();
        counts == *self.functions.counts() && running == counts.running
    }
}
