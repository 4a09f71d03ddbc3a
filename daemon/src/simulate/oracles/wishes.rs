//! O15: work that a person has cancelled does not begin any more, in no life of fnd. A function that is disabled begins
//! nothing, and neither does a node that is drained.

use super::{Oracle, Verdict};
use crate::simulate::facts::{Began, Fact};
use crate::simulate::people::{Act, Heard, Told, name};
use fnd_core::run::{Answer, Now};
use fnd_wire::frame::Request;
use fnd_wire::ids::{FunctionName, InvocationId};
use std::collections::BTreeMap;

/// A request to the spawner: the life of fnd, and the number of the request in it.
type Sent = (u32, u32);

/// What people have wished. A wish comes too late for a start that was sent to the spawner before; therefore each wish is kept with
/// the last request before it.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    life: u32,
    cancelled: BTreeMap<InvocationId, Sent>,
    disabled: BTreeMap<FunctionName, Sent>,
    /// The wishes to enable a function that have no answer: they can come into force at any time.
    enabling: BTreeMap<usize, FunctionName>,
    drained: Option<Sent>,
    /// The requests for a start that the spawner has carried out.
    starts: BTreeMap<InvocationId, Sent>,
}

impl Oracle for Wishes {
    fn see(&mut self, _: Now, fact: &Fact) -> Verdict {
        match fact {
            Fact::Requested(number, Request::Spawn(spawn)) => {
                self.starts.insert(spawn.invocation, (self.life, *number));
            }
            Fact::Asked(number, Act::SetEnabled(function, true)) => {
                self.disabled.remove(&name(*function));
                self.enabling.insert(*number, name(*function));
            }
            Fact::Asked(_, Act::CancelDrain) => self.drained = None,
            Fact::Life(number) => (self.life, self.drained) = (*number, None),
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
        let sent = (self.life, told.last_request);
        match (&told.act, &told.heard) {
            (Act::Cancel(_), _) if is_done => self.cancelled.extend(told.id.map(|id| (id, sent))),
            (Act::SetEnabled(function, false), _) if is_done => {
                let function = name(*function);
                if !self.enabling.values().any(|other| *other == function) {
                    self.disabled.insert(function, sent);
                }
            }
            (Act::Drain, Heard::Changed(true)) => self.drained = Some(sent),
            _ => {}
        }
    }

    fn begins(&mut self, began: &Began) -> Verdict {
        let (id, attempt, function) = (began.invocation, began.attempt, &began.function);
        // A call is in its worker's socket at once.
        let start = self.starts.get(&id).filter(|_| !began.is_call);
        let is_against = |wish: Option<&Sent>| wish.is_some_and(|wish| start.is_none_or(|start| start > wish));
        if is_against(self.cancelled.get(&id)) {
            return Err(format!("O15: attempt {attempt} of {id} begins, which was cancelled"));
        }
        if is_against(self.disabled.get(function)) {
            return Err(format!("O15: {id} begins, and `{function}` is disabled"));
        }
        match is_against(self.drained.as_ref()) {
            true => Err(format!("O15: {id} begins, and the node is drained")),
            false => Ok(()),
        }
    }
}
