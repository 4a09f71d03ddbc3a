//! People: they save files, send requests and change releases, at any moment. Each request is a caller of [`Backend`], as a
//! connection to the control socket is.
//!
//! A caller's future is polled here and not by a task, so that people hear of an answer in the step in which fnd sends it.
//!
//! Files:
//! - `act`: the acts of people
//! - `act_answers`: the answers to acts
//! - `requests`: the requests, and how they are sent

mod act;
mod act_answers;
mod requests;

pub(crate) use act::{PersonAct, PersonRequest, name};
pub(crate) use act_answers::{ActAnswer, AnsweredAct};

use crate::backend::Backend;
use fnd_core::run::Answer;
use fnd_wire::ids::InvocationId;
use futures_util::future::LocalBoxFuture;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A person who waits for an answer.
struct WaitingPerson {
    act: PersonAct,
    /// Resolves to the answer, and to the invocation that it is about if the person chose one.
    answer: LocalBoxFuture<'static, (Option<InvocationId>, ActAnswer)>,
    woken: Arc<Woken>,
}

/// Whether the answer of a caller may be there.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Default)]
pub(super) struct People {
    /// The people who wait, by the number of their act.
    callers: BTreeMap<usize, WaitingPerson>,
    /// The invocations that people know of, in the order in which they were told.
    known: Vec<InvocationId>,
}

impl People {
    /// Does an act that concerns fnd. It has to be called with the runtime and the tasks of fnd entered, and [`Self::hear`] after it.
    pub(super) fn act(&mut self, number: usize, act: &PersonAct, backend: &Backend) {
        if let PersonAct::Leave(which) = act {
            self.leave(*which);
        } else if let Some(answer) = requests::send(act, backend, &self.known) {
            let woken = Arc::new(Woken(AtomicBool::new(true)));
            let act = act.clone();
            self.callers.insert(number, WaitingPerson { act, answer, woken });
        }
    }

    /// Closes the connection of one of the people who wait for a run.
    fn leave(&mut self, which: u8) {
        let waiting = self
            .callers
            .iter()
            .filter(|(_, caller)| matches!(caller.act, PersonAct::Submit(_)));
        let waiting: Vec<usize> = waiting.map(|(number, _)| *number).collect();
        if let Some(number) = waiting.get(usize::from(which) % waiting.len().max(1)) {
            self.callers.remove(number);
        }
    }

    /// Returns the answers that have come since the last call.
    pub(super) fn hear(&mut self) -> Vec<AnsweredAct> {
        let mut all = Vec::new();
        let woken = |caller: &WaitingPerson| caller.woken.0.swap(false, Ordering::Relaxed);
        self.callers.retain(|number, caller| {
            if !woken(caller) {
                return true;
            }
            let waker = Waker::from(Arc::clone(&caller.woken));
            match caller.answer.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => true,
                Poll::Ready((id, heard)) => {
                    let act = caller.act.clone();
                    all.push(AnsweredAct {
                        number: *number,
                        act,
                        id,
                        heard,
                    });
                    false
                }
            }
        });
        let ids = all.iter().filter_map(|told| match &told.heard {
            ActAnswer::Answer(Answer::Queued(id) | Answer::TimedOut { id, .. }) => Some(*id),
            ActAnswer::Answer(Answer::Finished(record)) => Some(record.id),
            _ => None,
        });
        self.known.extend(ids);
        all
    }

    /// Returns how many people wait for an answer.
    pub(super) fn waiting(&self) -> usize {
        self.callers.len()
    }

    /// Cuts all connections, because fnd was killed. Its connection to the spawner has to be closed before, so that the daemon
    /// takes no notice of callers that leave.
    pub(super) fn cut(&mut self) {
        self.callers.clear();
    }
}
