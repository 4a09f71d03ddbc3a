//! Leads a worker through its phases, from `Spawned` until its leaf is empty. `run_state/worker.rs` shows the phases.
//!
//! Nothing is sent to a starting worker: a request to end it waits for `Spawned`.

use super::Supervisor;
use super::chain::CALLER_ENDS;
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
    pub(super) fn spawned(&mut self, id: WorkerId) {
        // The spawner was lost meanwhile.
        let Some(worker) = self.workers.get(&id) else { return };
        // The start was reported before.
        if worker.phase != WorkerPhase::Starting {
            return;
        }
        let (key, is_member) = (worker.function, worker.member().is_some());
        let is_to_end = worker.runs.iter().any(|run| run.ending.is_some());
        self.start_worked(id);
        if self.phase.is_stopping() {
            self.kill(id);
        } else if is_to_end {
            self.terminate(id);
        } else if is_member {
            self.member_spawned(id);
        } else {
            self.enter(id, WorkerPhase::Busy);
        }
        match self.workers.get(&id).map(|worker| &worker.kind) {
            Some(WorkerKind::Script) => self.spawn_worked(key),
            Some(WorkerKind::Service(_)) => self.service_spawned(id),
            // The start of a member has worked once the member is ready.
            Some(WorkerKind::Member(_)) | None => {}
        }
    }

    /// Changes a worker's phase and arms its timer.
    pub(super) fn enter(&mut self, id: WorkerId, phase: WorkerPhase) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        self.timers.disarm(worker.phase.timer(), Timer::Worker(id));
        worker.phase = phase;
        self.timers.arm(phase.timer(), Timer::Worker(id));
    }

    /// Ends a worker because one of its attempts must end.
    pub(super) fn ask_to_end(&mut self, id: WorkerId, invocation: InvocationId, ending: EndCause) {
        // The end of a worker that is over is reported later, and nothing that is due now may become its reason.
        let Some(worker) = self
            .workers
            .get_mut(&id)
            .filter(|worker| worker.phase != WorkerPhase::Over)
        else {
            return;
        };
        let Some(run) = worker.run_mut(invocation) else {
            return;
        };
        let first = run.ending.is_none();
        // The first reason stays, unless somebody cancels the whole invocation.
        let replaces = !first && matches!(ending, EndCause::Cancelled(_)) && run.ending.as_ref() != Some(&ending);
        if first || replaces {
            run.ending = Some(ending);
        }
        // Later the timer is that of the grace.
        if first {
            self.timers
                .disarm(run.timeout_at.take(), Timer::Attempt(id, invocation));
        }
        // A worker that starts gets its SIGTERM once it is started, one that is ending has it. An idle one has no attempt.
        if first && matches!(worker.phase, WorkerPhase::Busy | WorkerPhase::Leaving { .. }) {
            let others_go_on = worker.phase == WorkerPhase::Busy && worker.runs.iter().any(|run| run.ending.is_none());
            if others_go_on {
                self.end_one_call(id, invocation);
            } else {
                self.terminate(id);
            }
        } else if replaces && worker.phase.was_ended() {
            // The spawner has the first reason. If fnd is killed after the answer, the next fnd must not record it.
            self.out.push(Action::KeepReason(id));
        }
    }

    /// Sends a worker SIGTERM.
    pub(super) fn terminate(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        let kill_at = self.now.mono.saturating_add(worker.serving.rules.grace);
        self.out.push(Action::Term(id));
        self.enter(id, WorkerPhase::Terminating { kill_at });
        self.out_of_service(id);
    }

    /// Kills a worker that runs and was not killed yet.
    pub(super) fn kill(&mut self, id: WorkerId) {
        self.out.push(Action::Kill(id));
        let report_at = Some(self.now.mono.saturating_add(UNKILLABLE_AFTER));
        self.enter(id, WorkerPhase::Killed { report_at });
        self.out_of_service(id);
    }

    /// Handles an attempt's timeout.
    pub(super) fn attempt_due(&mut self, id: WorkerId, invocation: InvocationId) {
        let Some(worker) = self.workers.get(&id) else { return };
        let Some(run) = worker.run(invocation) else { return };
        if run.ending.is_some() {
            return self.call_overdue(id, invocation);
        }
        let retry = &worker.serving.rules.retry;
        let invoked = self.invocations.get(&invocation);
        let is_retried =
            retry.on.contains(&Class::Timeout) && invoked.is_some_and(|invoked| invoked.retries() < retry.retries);
        // Else its callers wait for the retry, as after any other failure.
        self.end_attempt(id, invocation, EndCause::Timeout, !is_retried);
    }

    /// Ends an attempt, and the invocations that it waits for. If `tells`, its callers hear at once that a limit was reached; the
    /// final record follows.
    pub(super) fn end_attempt(&mut self, id: WorkerId, invocation: InvocationId, ending: EndCause, tells: bool) {
        let words = self.workers.get(&id).and_then(|worker| {
            let run = worker.run(invocation).filter(|_| tells)?;
            Some(ending.words(Some(&worker.serving.rules), run.timeout))
        });
        self.ask_to_end(id, invocation, ending);
        if let Some(message) = words {
            self.answer_waiters(invocation, || Answer::TimedOut {
                id: invocation,
                message: message.clone(),
            });
        }
        self.end_calls(invocation, CALLER_ENDS);
    }

    /// Handles the end of a phase's time.
    pub(super) fn worker_due(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get(&id) else { return };
        match worker.phase {
            WorkerPhase::Loading { .. } => self.not_ready(id),
            WorkerPhase::Idle { .. } => self.idle_due(id),
            WorkerPhase::Leaving { .. } => self.terminate(id),
            WorkerPhase::Terminating { .. } => self.kill(id),
            WorkerPhase::Killed { .. } => {
                let function = self.functions[worker.function].name.clone();
                self.out
                    .push(Action::Notice(Notice::Unkillable { worker: id, function }));
                // Without an instant the timer is not armed again, so the worker is reported once.
                self.enter(id, WorkerPhase::Killed { report_at: None });
            }
            // These phases have no timer.
            WorkerPhase::Starting | WorkerPhase::Busy | WorkerPhase::Over => {}
        }
    }
}
