//! O15: work that a person has cancelled does not begin any more, in no life of fnd. A function that is disabled begins
//! nothing, and neither does a node that is drained.

use super::{Oracle, Verdict};
use crate::simulate::facts::{Began, Fact};
use crate::simulate::people::{Act, Heard, Told, name};
use fnd_core::run::{Answer, Now};
use fnd_wire::frame::Request;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::collections::{BTreeMap, BTreeSet};

/// What people have wished.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    cancelled: BTreeSet<InvocationId>,
    disabled: BTreeSet<FunctionName>,
    /// The wishes to enable a function that have no answer: they can come into force at any time.
    enabling: BTreeMap<usize, FunctionName>,
    is_drained: bool,
    /// The invocations whose start is on its way to the spawner. A wish may come too late for them.
    starting: BTreeSet<InvocationId>,
}

impl Oracle for Wishes {
    fn see(&mut self, _: Now, fact: &Fact) -> Verdict {
        match fact {
            Fact::Requested(_, Request::Spawn(spawn)) => {
                self.starting.insert(spawn.invocation);
            }
            Fact::Asked(number, Act::SetEnabled(function, true)) => {
                self.disabled.remove(&name(*function));
                self.enabling.insert(*number, name(*function));
            }
            Fact::Asked(_, Act::CancelDrain) | Fact::Life(_) => self.is_drained = false,
            Fact::Told(told) => self.told(told),
            Fact::Began(began) => return self.begins(began),
            _ => {}
        }
        Ok(())
    }
}

impl Wishes {
    fn told(&mut self, told: &Told) {
        self.enabling.remove(&told.number);
        let is_done = matches!(told.heard, Heard::Answer(Answer::Done));
        match (&told.act, &told.heard) {
            (Act::Cancel(_), _) if is_done => {
                self.cancelled.extend(told.id.filter(|id| !self.starting.contains(id)));
            }
            (Act::SetEnabled(function, false), _) if is_done => {
                let function = name(*function);
                if !self.enabling.values().any(|other| *other == function) {
                    self.disabled.insert(function);
                }
            }
            (Act::Drain, Heard::Changed(true)) => self.is_drained = true,
            _ => {}
        }
    }

    fn begins(&mut self, began: &Began) -> Verdict {
        let is_late = self.starting.remove(&began.invocation);
        let (id, attempt, function) = (began.invocation, began.attempt, &began.function);
        if self.cancelled.contains(&id) {
            return Err(format!("O15: attempt {attempt} of {id} begins, which was cancelled"));
        }
        if !is_late && self.disabled.contains(function) {
            return Err(format!("O15: {id} begins, and `{function}` is disabled"));
        }
        match self.is_drained {
            true => Err(format!("O15: {id} begins, and the node is drained")),
            false => Ok(()),
        }
    }
}
