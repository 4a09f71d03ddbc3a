//! Ends that come from outside an attempt: cancel, deadline, expiry.

use super::Supervisor;
use super::action::{Action, Answer};
use super::event::{Now, ReplyTo};
use super::invocation::{End, Stage};
use super::timers::Timer;
use super::verdict::{Ending, deadline_words};
use crate::outcome::{Exhausted, Reason, Skip};
use fnd_wire::ids::InvocationId;

impl Supervisor {
    /// A person wants an invocation to end.
    pub(super) fn cancel(&mut self, now: Now, id: InvocationId, reply: ReplyTo, out: &mut Vec<Action>) {
        let answer = if self.end_all(now, id, Ending::Cancelled("cancelled on request"), out) {
            Answer::Done
        } else {
            Answer::NotFound
        };
        out.push(Action::Reply(reply, Box::new(answer)));
    }

    /// A caller went away before its answer came.
    pub(super) fn caller_left(&mut self, now: Now, id: InvocationId, reply: ReplyTo, out: &mut Vec<Action>) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            // It has ended, was refused, or shares the invocation of another caller's key, which goes on: an answer to a
            // caller that has left is dropped.
            return;
        };
        invocation.waiters.retain(|waiter| *waiter != reply);
        // A caller with a key comes back with it, and a durable invocation was promised to run.
        let unwanted = invocation.waiters.is_empty() && invocation.key.is_none() && !invocation.durable;
        if unwanted && invocation.attempts == 0 && matches!(invocation.stage, Stage::Ready) {
            let why = "its caller closed the connection before it began";
            self.end(now, id, End::new(Reason::Cancelled, why), out);
        }
    }

    /// Something is due.
    pub(super) fn fire(&mut self, now: Now, timer: Timer, out: &mut Vec<Action>) {
        match timer {
            Timer::Deadline(id) => {
                self.end_all(now, id, Ending::Deadline, out);
            }
            Timer::Expire(id) => {
                self.give_up(now, id, (Skip::Expired, "it had not begun when it expired"), out);
            }
            Timer::Attempt(worker, id) => self.attempt_due(now, worker, id, out),
            Timer::Worker(id) => self.worker_due(now, id, out),
            Timer::Look(id) => self.look(now, id, out),
            Timer::Begin(id) => self.make_ready(now, id),
            Timer::Hold(key) => self.hold_over(now, key, out),
            Timer::Claims => self.claim_again(now),
            Timer::Starts => self.starts_due(out),
            Timer::Trial(key) => {
                self.try_again(key, false);
                self.line_up(now, key);
            }
        }
    }

    /// Ends an invocation wherever it stands; says whether there is one.
    fn end_all(&mut self, now: Now, id: InvocationId, ending: Ending, out: &mut Vec<Action>) -> bool {
        let Some(invocation) = self.invocations.get(&id) else {
            return false;
        };
        let is_deadline = ending == Ending::Deadline;
        if let Stage::Running { worker } = invocation.stage {
            // Who waits for one that is on its way out already hears of its end.
            let found = self
                .workers
                .get(&worker)
                .and_then(|worker| Some((worker, worker.run(id)?)));
            let going_on = found.filter(|(_, run)| is_deadline && run.ending.is_none());
            let words = going_on.map(|(worker, run)| ending.words(&worker.serving.rules, run.timeout));
            self.ask_to_end(now, (worker, id), ending, out);
            if let Some(words) = words {
                self.tell_timed_out(id, &words, out);
            }
            return true;
        }
        let end = match ending {
            Ending::Deadline => End {
                exhausted: (invocation.attempts > 0).then_some(Exhausted::Deadline),
                ..End::new(
                    Reason::Deadline,
                    deadline_words(self.functions[invocation.function].serving().map(|s| &*s.rules)),
                )
            },
            Ending::Cancelled(why) => End::new(Reason::Cancelled, why),
            Ending::Timeout | Ending::Stopped | Ending::NotReady(_) => End::new(Reason::Interrupted, "fnd stopped"),
        };
        self.end(now, id, end, out);
        true
    }

    /// Ends an invocation of which nothing runs.
    pub(super) fn end(&mut self, now: Now, id: InvocationId, end: End, out: &mut Vec<Action>) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        match &mut invocation.stage {
            // Its callers first hear that it was accepted; the first reason stays. It waits for no place any more.
            Stage::Storing {
                end: waiting @ None, ..
            } => {
                *waiting = Some(end);
                let function = &mut self.functions[invocation.function];
                function.live.remove(&id);
                function.storing = function.storing.saturating_sub(1);
            }
            Stage::Storing { end: Some(_), .. } => {}
            Stage::Lost => {
                let attempt = self.lost_attempt(now, id).map(|attempt| Box::new((attempt, None)));
                self.finish(now, id, End { attempt, ..end }, out);
            }
            // Of one that is being claimed the final record follows its claim to the disk.
            Stage::Delayed { .. }
            | Stage::Ready
            | Stage::Claiming { .. }
            | Stage::Claimed
            | Stage::BackingOff { .. }
            | Stage::Running { .. } => {
                self.finish(now, id, end, out);
            }
        }
    }
}
