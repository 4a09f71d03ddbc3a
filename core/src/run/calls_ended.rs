//! Ends one of several calls of a worker, because of a cancel or a limit, while the others go on.
//!
//! ```text
//! ask_to_end ──the only call──▶ SIGTERM, as for a script
//!     │
//!     ├─ the worker knows Cancel, or serves HTTP ──▶ CancelCall; it answers ──▶ recorded, the worker goes on
//!     │                                                  └─ no answer within the grace ─▶ as below
//!     └─ it does not ──▶ the worker takes no more calls, and
//!          cancelled: recorded at once, its answer is dropped; the worker ends after its other calls
//!          a limit:   the worker is killed at the end of the grace, its other calls are `interrupted`
//! ```
//! A limit is enforced whatever the code does, so it may cost the other calls of the worker. A cancel may not.

use super::Supervisor;
use super::attempt::{EndFacts, EndedAttempt};
use crate::messages::Now;
use crate::messages::action::Action;
use crate::messages::end_cause::EndCause;
use crate::records::outcome::Reason;
use crate::run_state::timers::Timer;
use crate::run_state::worker::{WorkerKind, WorkerPhase};
use fnd_wire::ids::{InvocationId, WorkerId};
use std::sync::Arc;

impl Supervisor {
    /// Ends one call of a worker that has others.
    pub(super) fn end_one_call(&mut self, now: Now, (id, invocation): (WorkerId, InvocationId), out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let until = now.mono.saturating_add(worker.serving.rules.grace);
        let WorkerKind::Member(member) = &worker.kind else {
            return;
        };
        let (cancels, answered_at) = (member.cancels, member.answered_at);
        let is_http = worker.serving.rules.kind.http().is_some();
        let Some(run) = worker.runs.iter_mut().find(|run| run.invocation == invocation) else {
            return;
        };
        let is_limit = !matches!(run.ending, Some(EndCause::Cancelled(_)));
        // A server that has answered nothing since this request began may be stuck.
        let is_stuck = is_http && is_limit && answered_at.is_none_or(|at| at < run.started.mono);
        let call = run.call.map_or(0, |(call, _)| call);
        // The worker stays `Busy` for its other calls, so the timer of the attempt watches the grace of this call.
        run.timeout_at = Some(until);
        self.timers.arm(until, Timer::Attempt(id, invocation));
        if !cancels || is_stuck {
            self.retire(now, id, out);
        }
        if cancels || is_limit {
            out.push(Action::CancelCall { worker: id, call });
        } else {
            self.drop_call(
                now,
                (id, invocation),
                "its runtime cannot end one of several calls",
                out,
            );
        }
    }

    /// Handles a call that was to end and has not within its grace.
    pub(super) fn call_overdue(&mut self, now: Now, (id, invocation): (WorkerId, InvocationId), out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let others_go_on = worker.runs.iter().any(|run| run.ending.is_none());
        let Some(run) = worker.runs.iter_mut().find(|run| run.invocation == invocation) else {
            return;
        };
        run.timeout_at = None;
        // Since then the whole worker is being ended.
        if worker.phase != WorkerPhase::Busy {
            return;
        }
        match run.ending {
            Some(EndCause::Cancelled(_)) if others_go_on => {
                self.retire(now, id, out);
                self.drop_call(now, (id, invocation), "it did not end within the grace", out);
            }
            Some(EndCause::Cancelled(_)) => self.terminate(now, id, out),
            // A limit holds whatever the code does, even if the other calls of the worker are lost.
            _ => self.kill(now, id, out),
        }
    }

    /// Records a cancelled call as ended, although its code may still run. Its answer is ignored.
    fn drop_call(&mut self, now: Now, (id, invocation): (WorkerId, InvocationId), why: &str, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let Some(at) = worker.runs.iter().position(|run| run.invocation == invocation) else {
            return;
        };
        let run = worker.runs.remove(at);
        let call = run.call.map_or(0, |(call, _)| call);
        if let WorkerKind::Member(member) = &mut worker.kind {
            member.dropped.push(call);
        }
        let (function, serving, adopted) = (worker.function, Arc::clone(&worker.serving), worker.adopted);
        self.run_over(id, (function, &serving), &run);
        // The output of the call must be complete before its record is written.
        out.push(Action::DropCall { worker: id, call });
        let words = run
            .ending
            .as_ref()
            .map_or_else(String::new, |ending| ending.words(&serving.rules, run.timeout));
        let message = format!("{words}; {why}, so its code may run on in {id} until that has ended its other calls");
        let done = EndedAttempt {
            worker: Some(id),
            function,
            serving,
            run,
        };
        let ended = EndFacts::of_call((Reason::Cancelled, message), None);
        if let Some((done, ended)) = self.keep_early(adopted, done, ended) {
            self.attempt_ended(now, done, ended, out);
        }
        self.after_call(now, id, out);
    }
}
