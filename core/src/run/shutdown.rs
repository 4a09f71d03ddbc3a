//! Drains, stops, and hands over to the next fnd.
//!
//! A drain finishes the running attempts. Durable invocations that are queued or wait for a retry stay in the ledger
//! for the next fnd. Invocations whose caller waits on a connection end now, so that every caller is answered.

use super::Supervisor;
use crate::messages::action::{Action, Answer, Rejection};
use crate::messages::end_cause::EndCause;
use crate::messages::rules::FunctionKind;
use crate::records::outcome::Reason;
use crate::run_state::invocation::InvocationEnd;
use crate::run_state::timers::Timer;
use crate::run_state::worker::Worker;
use fnd_wire::ids::{InvocationId, WorkerId};

/// Phase of the supervisor's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShutdownPhase {
    /// Accepts requests and starts attempts.
    Serving,
    /// Finishes the running attempts.
    Draining,
    /// The drain was cancelled, and ends when every claim is answered.
    Resuming,
    /// Kills the running attempts.
    Stopping,
    /// Answers all callers; the next fnd goes on with the running attempts. Requests to programs that serve HTTP end
    /// with this fnd, so `finishing` waits for them.
    HandingOver { finishing: bool },
    /// Has reported that nothing runs any more.
    Drained(DrainedBy),
}

/// Why nothing runs any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrainedBy {
    /// A drain, which can be cancelled.
    Drain,
    /// A stop, which has killed the running attempts.
    Stop,
    /// A hand-over: the next fnd has the work.
    HandOver,
}

impl ShutdownPhase {
    pub(super) fn is_serving(self) -> bool {
        self == Self::Serving
    }

    pub(super) fn is_stopping(self) -> bool {
        matches!(self, Self::Stopping | Self::Drained(DrainedBy::Stop))
    }
}

impl Supervisor {
    /// Accepts nothing new from now on and finishes the running attempts.
    pub(super) fn drain(&mut self) {
        // The last request counts; the end of this drain is reported anew.
        if self.phase == ShutdownPhase::Resuming {
            self.phase = ShutdownPhase::Draining;
        }
        // A second request changes nothing.
        if self.phase.is_serving() {
            self.phase = ShutdownPhase::Draining;
            self.release_claims();
            self.release_callers();
            self.end_services();
            // The workers have no more work, or none after their calls.
            for id in self.workers.keys().copied().collect::<Vec<_>>() {
                self.retire(id);
            }
        }
    }

    /// Accepts and starts work again after a drain, as soon as [`Self::end_cancelled_drain`] can.
    pub(super) fn cancel_drain(&mut self) {
        // Without a drain there is nothing to cancel, and a stop or a hand-over goes on.
        if let ShutdownPhase::Draining | ShutdownPhase::Drained(DrainedBy::Drain) = self.phase {
            self.phase = ShutdownPhase::Resuming;
        }
    }

    /// Ends a drain that was cancelled. Services that it ended start anew. The drain gave claims back that the ledger may
    /// not have answered yet: if such an invocation were claimed again, the answer to its first claim would count for
    /// the second, which may not be stored. So the drain ends when every claim is answered.
    pub(super) fn end_cancelled_drain(&mut self) {
        if self.phase == ShutdownPhase::Resuming && self.claim_rate.is_answered() {
            self.phase = ShutdownPhase::Serving;
            for key in self.functions.keys().collect::<Vec<_>>() {
                self.resume(key);
            }
        }
    }

    /// Accepts and starts nothing more and answers all callers; running attempts go on under the next fnd. Requests
    /// that cannot go on are finished first, until hand-over is requested a second time.
    pub(super) fn hand_over(&mut self) {
        match self.phase {
            // A cancelled drain has ended but for answers to claims, which nobody waits for any more.
            ShutdownPhase::Serving | ShutdownPhase::Resuming => {
                self.phase = ShutdownPhase::HandingOver { finishing: true };
                self.release_claims();
                self.release_callers();
                for id in self.in_flight(false) {
                    self.send_away(id, true);
                }
            }
            ShutdownPhase::HandingOver { .. } => {
                self.phase = ShutdownPhase::HandingOver { finishing: false };
                for id in self.in_flight(true) {
                    self.send_away(id, false);
                }
            }
            // It is too late: a drain ends the running attempts.
            ShutdownPhase::Draining | ShutdownPhase::Stopping | ShutdownPhase::Drained(_) => {}
        }
    }

    /// Returns the running invocations whose connection ends with this fnd, or the others.
    fn in_flight(&self, ends_with_fnd: bool) -> Vec<InvocationId> {
        let those = |worker: &&Worker| matches!(worker.serving.rules.kind, FunctionKind::Http(..)) == ends_with_fnd;
        let runs = self.workers.values().filter(those).flat_map(|worker| &worker.runs);
        runs.map(|run| run.invocation).collect()
    }

    /// Kills the running attempts.
    pub(super) fn stop_now(&mut self) {
        // A stop begins as a drain, so that callers are answered and claims are given back as by a drain.
        self.drain();
        if !matches!(self.phase, ShutdownPhase::Draining) {
            return;
        }
        self.phase = ShutdownPhase::Stopping;
        let workers: Vec<WorkerId> = self.workers.keys().copied().collect();
        for id in workers {
            let Some(worker) = self.workers.get_mut(&id) else {
                continue;
            };
            for run in &mut worker.runs {
                run.ending.get_or_insert(EndCause::Stopped);
                self.timers
                    .disarm(run.timeout_at.take(), Timer::Attempt(id, run.invocation));
            }
            // A starting worker gets its SIGKILL once it is started.
            if worker.phase.can_be_killed() {
                self.kill(id);
            }
        }
    }

    /// Answers all callers that wait for invocations that would not run before the next fnd.
    fn release_callers(&mut self) {
        let waited_for = self.invocations_with(|invocation| {
            let is_waited_for = !invocation.durable || !invocation.waiters.is_empty();
            is_waited_for && invocation.stage.worker().is_none()
        });
        for id in waited_for {
            self.release(id);
        }
    }

    /// Answers the callers of an invocation that does not run and would not before the next fnd. One that is not
    /// durable ends.
    pub(super) fn release(&mut self, id: InvocationId) {
        let Some(invocation) = self.invocations.get(&id) else {
            return;
        };
        if invocation.durable {
            self.send_away(id, true);
        } else {
            let why = "fnd is stopping, and the invocation had not started";
            self.turn_away(id, &format!("{why}: send the request again, {id} is `cancelled`"));
            let end = InvocationEnd::new(Reason::Cancelled, why);
            self.end(id, end);
        }
    }

    /// Tells the callers of an invocation whether it goes on under the next fnd, because this fnd will not know its
    /// end.
    pub(super) fn send_away(&mut self, id: InvocationId, goes_on: bool) {
        let reason = if goes_on {
            format!("fnd is stopping; invocation {id} continues: see `fndctl result {id}` when fnd is back")
        } else {
            format!("fnd is stopping, and the connection of invocation {id} ends with it: it is `interrupted`")
        };
        self.turn_away(id, &reason);
    }

    /// Tells the callers of an invocation that fnd cannot say how it ends: 503, and when to ask again.
    pub(super) fn turn_away(&mut self, id: InvocationId, reason: &str) {
        self.answer_waiters(id, || Answer::Rejected(Rejection::unavailable(reason)));
    }

    /// Sends [`Action::Drained`] once, when nothing runs any more and all callers were answered.
    pub(super) fn notice_drained(&mut self) {
        let is_idle = self.workers.is_empty() && self.early.is_empty();
        let (over, by) = match self.phase {
            // A message is given back by now, and its claim is ended once it is answered: otherwise the other nodes would take it for
            // one that has begun here.
            ShutdownPhase::Draining => (is_idle && self.claim_rate.is_shared_answered(), DrainedBy::Drain),
            ShutdownPhase::Stopping => (is_idle, DrainedBy::Stop),
            ShutdownPhase::HandingOver { finishing } => {
                (!finishing || self.in_flight(true).is_empty(), DrainedBy::HandOver)
            }
            // Nobody waits for a drain, or its end was reported already.
            ShutdownPhase::Serving | ShutdownPhase::Resuming | ShutdownPhase::Drained(_) => return,
        };
        let is_storing = |key| self.functions[key].work.queue.is_storing();
        // Asked last, because each event of a drain comes here, and this walks over all functions.
        let is_answering = !self.publishing.is_empty() || !self.joining.is_empty();
        let unanswered = || is_answering || self.functions.keys().any(is_storing);
        if over && (self.phase.is_stopping() || !unanswered()) {
            self.phase = ShutdownPhase::Drained(by);
            self.out.push(Action::Drained);
        }
    }
}
