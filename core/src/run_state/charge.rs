//! The memory and CPU that a function takes of the node's budget.

use crate::messages::rules::Rules;

/// Memory and CPU of a function, for all its workers together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) memory: u64,
    pub(crate) cpu_milli: u64,
}

impl Charge {
    pub(crate) fn of(rules: &Rules) -> Self {
        Self {
            memory: rules.memory,
            // Without a quota the function has only a weight on the CPU that others leave, which cannot be counted.
            cpu_milli: rules.cpu_milli.map_or(0, u64::from),
        }
    }

    pub(crate) fn both(self, with: impl Fn(u64, u64) -> u64, other: Self) -> Self {
        Self {
            memory: with(self.memory, other.memory),
            cpu_milli: with(self.cpu_milli, other.cpu_milli),
        }
    }
}

/// A function's share of the node's budget, and whether the function waits for more.
#[derive(Debug, Default)]
pub(crate) struct NodeShare {
    /// The part of the budget that the function uses while it has workers.
    pub(crate) charged: Charge,
    /// Whether the function is in the line for the budget.
    pub(crate) in_line: bool,
    /// Whether the function is in the list of those with free workers and waiting invocations.
    pub(crate) in_calls: bool,
}
