//! Ends invocations for a reason outside of the attempt: cancellation, deadline, expiry.

use super::Supervisor;
use super::chain::CALLER_LEFT;
use crate::messages::action::{Action, Answer};
use crate::messages::end_cause::{CALLERS_DEADLINE, EndCause, deadline_words};
use crate::messages::{Now, ReplyTo};
use crate::records::outcome::{Exhausted, Reason, Skip};
use crate::run_state::invocation::{InvocationEnd, InvocationStage};
use crate::run_state::timers::Timer;
use fnd_wire::ids::InvocationId;

/// Message of an invocation that somebody has cancelled.
pub(super) const ON_REQUEST: &str = "cancelled on request";

impl Supervisor {
    /// Cancels an invocation on request.
    pub(super) fn cancel(&mut self, now: Now, id: InvocationId, reply: ReplyTo, out: &mut Vec<Action>) {
        let answer = if self.end_all(now, id, EndCause::Cancelled(ON_REQUEST.into()), out) {
            Answer::Done
        } else {
            Answer::NotFound
        };
        out.push(Action::Reply(reply, Box::new(answer)));
    }

    /// Handles a caller that closed its connection before the answer.
    pub(super) fn caller_left(&mut self, now: Now, id: InvocationId, reply: ReplyTo, out: &mut Vec<Action>) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            // The invocation has ended, was refused, or is shared by idempotency key with another caller and goes on.
            // An answer to a caller that has left is dropped.
            return;
        };
        invocation.waiters.retain(|waiter| *waiter != reply);
        // A caller with a key comes back with it, and a durable invocation must run.
        let unwanted = invocation.waiters.is_empty() && invocation.key.is_none() && !invocation.durable;
        if unwanted && invocation.called().is_some() {
            // The caller of a call that nobody waits for is a part of the function that has ended, or has given up.
            self.end_call(now, id, CALLER_LEFT, out);
        } else if unwanted && invocation.attempts == 0 && matches!(invocation.stage, InvocationStage::Ready) {
            let why = "its caller closed the connection before it started";
            self.end(now, id, InvocationEnd::new(Reason::Cancelled, why), out);
        }
    }

    /// Handles a timer that is due.
    pub(super) fn fire(&mut self, now: Now, timer: Timer, out: &mut Vec<Action>) {
        match timer {
            Timer::Deadline(id) => {
                let deadline = self.invocations.get(&id).and_then(|invocation| invocation.deadline);
                let ending = match deadline {
                    Some(deadline) if deadline.of_caller => EndCause::CallersDeadline,
                    _ => EndCause::Deadline,
                };
                self.end_all(now, id, ending, out);
            }
            Timer::Expire(id) => {
                self.give_up(now, id, (Skip::Expired, "it expired before it started"), out);
            }
            Timer::Attempt(worker, id) => self.attempt_due(now, worker, id, out),
            Timer::Worker(id) => self.worker_due(now, id, out),
            Timer::ServiceCheck(id) => self.check_service(now, id, out),
            Timer::Begin(id) => self.make_ready(now, id),
            Timer::Hold(key) => self.hold_over(now, key, out),
            Timer::Claims => self.claim_again(now),
            Timer::Starts => self.starts_due(out),
            Timer::Trial(key) => {
                self.try_again(key, false);
                self.refuse_trial(now, key);
                self.line_up(now, key);
            }
        }
    }

    /// Ends an invocation in any stage; says whether the invocation exists.
    pub(super) fn end_all(&mut self, now: Now, id: InvocationId, ending: EndCause, out: &mut Vec<Action>) -> bool {
        let Some(invocation) = self.invocations.get(&id) else {
            return false;
        };
        let is_deadline = matches!(ending, EndCause::Deadline | EndCause::CallersDeadline);
        if let InvocationStage::Running { worker } = invocation.stage {
            // Callers of an attempt that is already ending hear of its end anyway.
            let found = self
                .workers
                .get(&worker)
                .and_then(|worker| Some((worker, worker.run(id)?)));
            let going_on = found.filter(|(_, run)| is_deadline && run.ending.is_none());
            let words = going_on.map(|(worker, run)| ending.words(&worker.serving.rules, run.timeout));
            self.ask_to_end(now, (worker, id), ending, out);
            if let Some(words) = words {
                self.reply_timed_out(id, &words, out);
            }
            self.end_waited_for(now, id, out);
            return true;
        }
        let end = match ending {
            EndCause::Deadline => InvocationEnd {
                // Without an attempt there was nothing to try again, so no limit ended the tries.
                exhausted: (invocation.attempts > 0).then_some(Exhausted::Deadline),
                ..InvocationEnd::new(
                    Reason::Deadline,
                    deadline_words(self.functions[invocation.function].serving().map(|s| &*s.rules)),
                )
            },
            EndCause::CallersDeadline => InvocationEnd {
                exhausted: (invocation.attempts > 0).then_some(Exhausted::Deadline),
                ..InvocationEnd::new(Reason::Deadline, CALLERS_DEADLINE)
            },
            EndCause::Cancelled(why) => InvocationEnd::new(Reason::Cancelled, why),
            EndCause::Timeout | EndCause::Stopped | EndCause::NotReady(_) => {
                InvocationEnd::new(Reason::Interrupted, "fnd stopped")
            }
        };
        self.end(now, id, end, out);
        true
    }

    /// Ends an invocation that does not run.
    pub(super) fn end(&mut self, now: Now, id: InvocationId, end: InvocationEnd, out: &mut Vec<Action>) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        match invocation.stage {
            // The callers first hear of the acceptance, and the first end stays. The invocation no longer counts for a
            // place.
            InvocationStage::Storing { not_before, end: None } => {
                let end = Some(end);
                let queue = &mut self.functions[invocation.function].queue;
                queue.change(invocation, InvocationStage::Storing { not_before, end });
            }
            InvocationStage::Storing { end: Some(_), .. } => {}
            InvocationStage::Lost => {
                let attempt = self.lost_attempt(now, id).map(|attempt| Box::new((attempt, None)));
                self.finish(now, id, InvocationEnd { attempt, ..end }, out);
            }
            // For one that is being claimed, the final record reaches the disk after the claim.
            InvocationStage::Delayed { .. }
            | InvocationStage::Ready
            | InvocationStage::Claiming { .. }
            | InvocationStage::Claimed
            | InvocationStage::BackingOff { .. }
            | InvocationStage::Running { .. } => {
                self.finish(now, id, end, out);
            }
        }
    }
}
