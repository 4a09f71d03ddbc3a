//! O15: work that a person has cancelled does not begin any more, in no life of fnd. A function that is disabled begins
//! nothing, and neither does a node that is drained.
//!
//! Work that has begun can be cancelled although the disk refuses to store that. Then fnd and the spawner know it, and the table of
//! attempts in memory: when the spawner ends, or the power is cut, the work may begin again.

use super::{Oracle, PromiseCheck};
use crate::simulate::facts::{Began, Death, Fact};
use crate::simulate::people::{ActAnswer, AnsweredAct, PersonAct, name};
use fnd_core::run::{Answer, Now};
use fnd_wire::ids::{FunctionName, InvocationId};
use std::collections::BTreeMap;
use std::time::Duration;

/// The work that people have stopped: by a cancellation, by a function that is disabled, by a drain.
#[derive(Debug, Default)]
pub(super) struct StoppedWorkOracle {
    cancelled: BTreeMap<InvocationId, CancelledWork>,
    /// The cancellations without an answer, and whether the disk has refused a commit meanwhile.
    cancelling: BTreeMap<usize, bool>,
    /// Whether the disk has refused the last commit.
    is_refused: bool,
    /// Whether the spawner has ended in this life of fnd.
    has_lost_spawner: bool,
    /// The disabled functions, each with the time from which on no start is on its way any more.
    disabled: BTreeMap<FunctionName, Duration>,
    /// The acts that enable a function and have no answer: they can come into force at any time.
    enabling: BTreeMap<usize, FunctionName>,
    is_drained: bool,
    now: Duration,
}

/// An invocation that a person has cancelled.
#[derive(Debug)]
struct CancelledWork {
    /// One start may be on its way: only the next fnd can be sure that none is.
    may_begin: bool,
    /// The ledger has stored the cancellation.
    is_stored: bool,
}

/// How long a request to the spawner may wait there.
const ON_ITS_WAY: Duration = Duration::from_secs(120);

impl Oracle for StoppedWorkOracle {
    fn see(&mut self, now: Now, fact: &Fact) -> PromiseCheck {
        self.now = now.mono;
        match fact {
            Fact::Asked(number, PersonAct::SetEnabled(function, true)) => {
                self.disabled.remove(&name(*function));
                self.enabling.insert(*number, name(*function));
            }
            Fact::Asked(number, PersonAct::Cancel(_)) => {
                self.cancelling.insert(*number, self.is_refused);
            }
            Fact::Asked(_, PersonAct::CancelDrain) => self.is_drained = false,
            Fact::Committed(commit) => {
                self.is_refused = commit.is_denied;
                self.cancelling
                    .values_mut()
                    .for_each(|refused| *refused |= commit.is_denied);
            }
            Fact::SpawnerEnded => self.has_lost_spawner = true,
            Fact::Death(death) if self.has_lost_spawner || matches!(death, Death::Both | Death::PowerCut) => {
                self.cancelled.retain(|_, cancelled| cancelled.is_stored);
            }
            Fact::Life(_) => {
                (self.is_drained, self.has_lost_spawner) = (false, false);
                self.cancelled
                    .values_mut()
                    .for_each(|cancelled| cancelled.may_begin = false);
                self.disabled.values_mut().for_each(|until| *until = Duration::ZERO);
            }
            Fact::Answered(told) => self.told(told),
            Fact::Began(began) => return self.begins(began),
            // No other fact changes what may begin.
            _ => {}
        }
        Ok(())
    }
}

impl StoppedWorkOracle {
    fn told(&mut self, told: &AnsweredAct) {
        self.enabling.remove(&told.number);
        let is_stored = !self.cancelling.remove(&told.number).unwrap_or_default();
        let is_done = matches!(told.heard, ActAnswer::Answer(Answer::Done));
        match (&told.act, &told.heard) {
            (PersonAct::Cancel(_), _) if is_done => {
                let cancelled = CancelledWork {
                    may_begin: true,
                    is_stored,
                };
                self.cancelled.extend(told.id.map(|id| (id, cancelled)));
            }
            (PersonAct::SetEnabled(function, false), _) if is_done => {
                let function = name(*function);
                if !self.enabling.values().any(|other| *other == function) {
                    self.disabled.insert(function, self.now + ON_ITS_WAY);
                }
            }
            (PersonAct::Drain, ActAnswer::Changed(true)) => self.is_drained = true,
            // No other answer stops work.
            _ => {}
        }
    }

    fn begins(&mut self, began: &Began) -> PromiseCheck {
        let (id, attempt, function) = (began.invocation, began.attempt, &began.function);
        if let Some(cancelled) = self.cancelled.get_mut(&id)
            && !std::mem::take(&mut cancelled.may_begin)
        {
            return Err(format!("O15: attempt {attempt} of {id} begins, which was cancelled"));
        }
        if self.disabled.get(function).is_some_and(|until| *until <= self.now) {
            return Err(format!("O15: {id} begins, and `{function}` is disabled"));
        }
        match self.is_drained {
            true => Err(format!("O15: {id} begins, and the node is drained")),
            false => Ok(()),
        }
    }
}
