//! Leads a worker through its phases, from `Spawned` until its leaf is empty. `run_state/worker.rs` shows the phases.
//!
//! Nothing is sent to a starting worker: a request to end it waits for `Spawned`.

use super::Supervisor;
use crate::messages::Now;
use crate::messages::action::{Action, Answer, Notice};
use crate::messages::end_cause::EndCause;
use crate::records::outcome::Class;
use crate::run_state::timers::Timer;
use crate::run_state::worker::{WorkerKind, WorkerPhase};
use fnd_wire::ids::{InvocationId, WorkerId};
use std::time::Duration;

/// Time after SIGKILL until fnd reports that a worker does not end.
const UNKILLABLE_AFTER: Duration = Duration::from_secs(10);

impl Supervisor {
    /// Handles a worker that the spawner started.
    pub(super) fn spawned(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        // The spawner was lost meanwhile.
        let Some(worker) = self.workers.get(&id) else { return };
        // The start was reported before.
        if worker.phase != WorkerPhase::Starting {
            return;
        }
        let (key, is_member) = (worker.function, worker.member().is_some());
        let is_to_end = worker.runs.iter().any(|run| run.ending.is_some());
        self.start_worked(now, id);
        if self.phase.is_stopping() {
            self.kill(now, id, out);
        } else if is_to_end {
            self.terminate(now, id, out);
        } else if is_member {
            self.member_spawned(now, id, out);
        } else {
            self.enter(id, WorkerPhase::Busy);
        }
        match self.workers.get(&id).map(|worker| &worker.kind) {
            Some(WorkerKind::Script) => self.spawn_worked(now, key, out),
            Some(WorkerKind::Service(_)) => self.service_spawned(now, id),
            // The start of a member has worked once the member is ready.
            Some(WorkerKind::Member(_)) | None => {}
        }
    }

    /// Changes a worker's phase and arms its timer.
    pub(super) fn enter(&mut self, id: WorkerId, phase: WorkerPhase) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        if let Some(at) = worker.phase.timer() {
            self.timers.disarm(at, Timer::Worker(id));
        }
        worker.phase = phase;
        if let Some(at) = phase.timer() {
            self.timers.arm(at, Timer::Worker(id));
        }
    }

    /// Ends a worker because one of its attempts must end.
    pub(super) fn ask_to_end(
        &mut self,
        now: Now,
        (id, invocation): (WorkerId, InvocationId),
        ending: EndCause,
        out: &mut Vec<Action>,
    ) {
        // The end of a worker that is over is reported later, and nothing that is due now may become its reason.
        let Some(worker) = self
            .workers
            .get_mut(&id)
            .filter(|worker| worker.phase != WorkerPhase::Over)
        else {
            return;
        };
        let Some(run) = worker.runs.iter_mut().find(|run| run.invocation == invocation) else {
            return;
        };
        let first = run.ending.is_none();
        // The first reason stays, unless somebody cancels the whole invocation.
        let replaces = !first && matches!(ending, EndCause::Cancelled(_)) && run.ending.as_ref() != Some(&ending);
        if first || replaces {
            run.ending = Some(ending);
        }
        // Later the timer is that of the grace.
        if first && let Some(at) = run.timeout_at.take() {
            self.timers.disarm(at, Timer::Attempt(id, invocation));
        }
        // A worker that starts gets its SIGTERM once it is started, one that is ending has it. An idle one has no attempt.
        if first && matches!(worker.phase, WorkerPhase::Busy | WorkerPhase::Leaving { .. }) {
            let others_go_on = worker.phase == WorkerPhase::Busy && worker.runs.iter().any(|run| run.ending.is_none());
            if others_go_on {
                self.end_one_call(now, (id, invocation), out);
            } else {
                self.terminate(now, id, out);
            }
        } else if replaces
            && matches!(
                worker.phase,
                WorkerPhase::Terminating { .. } | WorkerPhase::Killed { .. }
            )
        {
            // The spawner has the first reason. If fnd is killed after the answer, the next fnd must not record it.
            out.push(Action::KeepReason(id));
        }
    }

    /// Sends a worker SIGTERM.
    pub(super) fn terminate(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get(&id) else { return };
        let kill_at = now.mono.saturating_add(worker.serving.rules.grace);
        out.push(Action::Term(id));
        self.enter(id, WorkerPhase::Terminating { kill_at });
        self.out_of_service(id);
    }

    /// Kills a worker that runs and was not killed yet.
    pub(super) fn kill(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        out.push(Action::Kill(id));
        let report_at = Some(now.mono.saturating_add(UNKILLABLE_AFTER));
        self.enter(id, WorkerPhase::Killed { report_at });
        self.out_of_service(id);
    }

    /// Handles an attempt's timeout.
    pub(super) fn attempt_due(&mut self, now: Now, id: WorkerId, invocation: InvocationId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get(&id) else { return };
        let Some(run) = worker.run(invocation) else { return };
        if run.ending.is_some() {
            return self.call_overdue(now, (id, invocation), out);
        }
        let message = EndCause::Timeout.words(&worker.serving.rules, run.timeout);
        let retry = &worker.serving.rules.retry;
        let is_retried = retry.on.contains(&Class::Timeout)
            && self
                .invocations
                .get(&invocation)
                .is_some_and(|invocation| invocation.retries() < retry.retries);
        self.ask_to_end(now, (id, invocation), EndCause::Timeout, out);
        // Else its callers wait for the retry, as after any other failure.
        if !is_retried {
            self.reply_timed_out(invocation, &message, out);
        }
        self.end_waited_for(now, invocation, out);
    }

    /// Handles the end of a phase's time.
    pub(super) fn worker_due(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get(&id) else { return };
        match worker.phase {
            WorkerPhase::Loading { .. } => self.not_ready(now, id, out),
            WorkerPhase::Idle { .. } => self.idle_due(now, id, out),
            WorkerPhase::Leaving { .. } => self.terminate(now, id, out),
            WorkerPhase::Terminating { .. } => self.kill(now, id, out),
            WorkerPhase::Killed { .. } => {
                let function = self.functions[worker.function].name.clone();
                out.push(Action::Notice(Notice::Unkillable { worker: id, function }));
                // Without an instant the timer is not armed again, so the worker is reported once.
                self.enter(id, WorkerPhase::Killed { report_at: None });
            }
            // These phases have no timer.
            WorkerPhase::Starting | WorkerPhase::Busy | WorkerPhase::Over => {}
        }
    }

    /// Answers waiting callers that a limit was reached; the final record follows.
    pub(super) fn reply_timed_out(&mut self, id: InvocationId, message: &str, out: &mut Vec<Action>) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        for reply in invocation.waiters.drain(..) {
            let message = message.to_owned();
            out.push(Action::Reply(reply, Box::new(Answer::TimedOut { id, message })));
        }
    }
}
