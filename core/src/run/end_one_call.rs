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
use super::attempt::EndedAttempt;
use crate::messages::action::Action;
use crate::messages::end_cause::EndCause;
use crate::records::outcome::Reason;
use crate::run_state::timers::Timer;
use crate::run_state::verdict::AttemptVerdict;
use crate::run_state::worker::{WorkerKind, WorkerPhase};
use fnd_wire::ids::{InvocationId, WorkerId};

impl Supervisor {
    /// Ends one call of a worker that has others.
    pub(super) fn end_one_call(&mut self, id: WorkerId, invocation: InvocationId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let until = self.now.mono.saturating_add(worker.serving.rules.grace);
        let WorkerKind::Member(member) = &worker.kind else {
            return;
        };
        let (cancels, answered_at) = (member.cancels, member.answered_at);
        let is_http = worker.serving.rules.kind.http().is_some();
        let Some(run) = worker.run_mut(invocation) else {
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
            self.retire(id);
        }
        if cancels || is_limit {
            self.out.push(Action::CancelCall { worker: id, call });
        } else {
            self.drop_call(id, invocation, "its runtime cannot end one of several calls");
        }
    }

    /// Handles a call that was to end and has not within its grace.
    pub(super) fn call_overdue(&mut self, id: WorkerId, invocation: InvocationId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let others_go_on = worker.runs.iter().any(|run| run.ending.is_none());
        let is_busy = worker.phase == WorkerPhase::Busy;
        let Some(run) = worker.run_mut(invocation) else {
            return;
        };
        run.timeout_at = None;
        // Since then the whole worker is being ended.
        if !is_busy {
            return;
        }
        match run.ending {
            Some(EndCause::Cancelled(_)) if others_go_on => {
                self.retire(id);
                self.drop_call(id, invocation, "it did not end within the grace");
            }
            Some(EndCause::Cancelled(_)) => self.terminate(id),
            // A limit holds whatever the code does, even if the other calls of the worker are lost.
            _ => self.kill(id),
        }
    }

    /// Records a cancelled call as ended, although its code may still run. Its answer is ignored.
    fn drop_call(&mut self, id: WorkerId, invocation: InvocationId, why: &str) {
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
        let words = run
            .ending
            .as_ref()
            .map_or_else(String::new, |ending| ending.words(&worker.serving.rules, run.timeout));
        let message = format!("{words}; {why}, so its code may run on in {id} until that has ended its other calls");
        let verdict = AttemptVerdict::of_call_alone(Reason::Cancelled, message, None);
        let ended = EndedAttempt::new(Some(id), worker, run, verdict);
        // The output of the call must be complete before its record is written.
        self.out.push(Action::DropCall { worker: id, call });
        self.call_ended(id, ended);
    }
}
