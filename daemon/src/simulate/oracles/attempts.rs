//! O1: no function sees an attempt twice, and none begins before the one before it has ended.

use super::{Oracle, PromiseCheck};
use crate::simulate::facts::{Began, Fact};
use fnd_core::run::Now;
use fnd_wire::ids::{InvocationId, WorkerId};
use std::collections::BTreeMap;

/// The last attempt of each invocation that a function has seen.
#[derive(Debug, Default)]
pub(super) struct AttemptsOracle {
    last: BTreeMap<InvocationId, SeenAttempt>,
}

#[derive(Debug)]
struct SeenAttempt {
    number: u32,
    worker: WorkerId,
    is_over: bool,
}

impl Oracle for AttemptsOracle {
    fn see(&mut self, _: Now, fact: &Fact) -> PromiseCheck {
        match fact {
            Fact::Began(began) => return self.begins(began),
            Fact::Over(invocation, number) => {
                if let Some(seen) = self.last.get_mut(invocation) {
                    seen.is_over |= seen.number == *number;
                }
            }
            Fact::Gone(worker) => {
                let of_worker = self.last.values_mut().filter(|seen| seen.worker == *worker);
                of_worker.for_each(|seen| seen.is_over = true);
            }
            // No other fact is the beginning or the end of an attempt.
            _ => {}
        }
        Ok(())
    }
}

impl AttemptsOracle {
    fn begins(&mut self, began: &Began) -> PromiseCheck {
        let Began {
            invocation,
            attempt,
            worker,
            ..
        } = began;
        if let Some(seen) = self.last.get(invocation) {
            if *attempt <= seen.number {
                return Err(format!(
                    "O1: {worker} sees attempt {attempt} of {invocation}, and {} has seen attempt {}",
                    seen.worker, seen.number
                ));
            }
            if !seen.is_over {
                return Err(format!(
                    "O1: {worker} sees attempt {attempt} of {invocation}, and attempt {} still runs in {}",
                    seen.number, seen.worker
                ));
            }
        }
        let seen = SeenAttempt {
            number: *attempt,
            worker: *worker,
            is_over: false,
        };
        self.last.insert(*invocation, seen);
        Ok(())
    }
}
