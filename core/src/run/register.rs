//! Work that several nodes share: what the register of claims, which all nodes see, says of an invocation. The driver writes the
//! register and reads it; here is what follows.
//!
//! ```text
//! Claiming ──ClaimPutOff──▶ BackingOff ──▶ Ready     the register does not answer, or this node has no lease
//! Claimed ──LeaseLost──▶ Ready                       another node may have it by now: it is claimed again
//! Running ──LeaseLost──▶ is being ended              before another node may begin it; by the spawner while fnd is stopped
//! nothing has begun ──Withdraw, Superseded──▶ gone, as if it had never come
//! an attempt has begun ──Superseded──▶ a final record that does not count
//! ```
//! An attempt that runs is not taken back. Whether its end counts is decided when its end is written to the register.

use super::Supervisor;
use crate::messages::action::{Action, Answer, Rejection};
use crate::messages::end_cause::EndCause;
use crate::messages::event::Exited;
use crate::records::outcome::{Reason, Trigger};
use crate::run_state::invocation::{Invocation, InvocationEnd, InvocationStage, WallTime};
use crate::run_state::worker::{Worker, WorkerPhase};
use fnd_wire::ids::InvocationId;
use std::time::Duration;

impl Supervisor {
    /// Handles a claim that the register has not taken: the invocation keeps its place in the order of its key, and is claimed
    /// again after a pause.
    pub(super) fn claim_put_off(&mut self, id: InvocationId, pause: Duration) {
        self.claim_rate.answered(&[id]);
        let until = WallTime::after(self.now, pause);
        // It may have ended meanwhile, or have been put back.
        let Some((key, _)) = self.leave_claiming(id, InvocationStage::BackingOff { until }) else {
            return;
        };
        // The claim may be on disk, and says that the attempt runs.
        self.update(id);
        // Another one may begin in the place that the claim held.
        self.line_up(key);
    }

    /// Marks the calls of a handler's worker that the spawner ended because this fnd was stopped: only the lease of a message gives
    /// such a worker a time there. Returns when the worker ended.
    pub(super) fn fenced_by_spawner(&self, worker: &mut Worker, exited: &Exited) -> Option<Duration> {
        // Of a worker that had ended before the adoption, the spawner has told whether its time was up.
        let (_, lasted) = exited.late.filter(|_| !worker.ended_before)?;
        for run in &mut worker.runs {
            let invocation = self.invocations.get(&run.invocation);
            if invocation.is_some_and(|invocation| invocation.trigger == Trigger::Nats) {
                run.ending.get_or_insert(EndCause::LeaseLost(None));
            }
        }
        // The calls of other triggers ended because of these.
        worker.phase = WorkerPhase::Killed { report_at: None };
        Some(worker.started.mono.saturating_add(lasted))
    }

    /// Ends the attempts whose lease was not renewed in time, and has claimed again what has not begun.
    pub(super) fn lease_lost(&mut self, lost: &[(InvocationId, Duration)]) {
        for (id, silent) in lost {
            match self.invocations.get(id).map(|invocation| &invocation.stage) {
                Some(&InvocationStage::Running { worker }) => {
                    self.end_attempt(worker, *id, EndCause::LeaseLost(Some(*silent)), false);
                }
                Some(InvocationStage::Claimed) => {
                    self.make_ready(*id);
                    self.update(*id);
                }
                // One that is being claimed is answered after this, by `ClaimPutOff`.
                _ => {}
            }
        }
    }

    /// Gives the message of an invocation back that has not begun: another node may have the function. Returns whether the
    /// invocation is gone.
    pub(super) fn give_back_message(&mut self, id: InvocationId) -> bool {
        let invocation = self.invocations.get(&id);
        let is_given = invocation.is_some_and(|invocation| invocation.of_stream && has_not_begun(invocation));
        if is_given {
            self.take_back(id);
        }
        is_given
    }

    /// Gives the work of an invocation back that has not begun.
    pub(super) fn withdraw(&mut self, id: InvocationId) {
        if self.invocations.get(&id).is_some_and(has_not_begun) {
            self.take_back(id);
        }
    }

    /// Handles that another node goes on with an invocation.
    pub(super) fn superseded(&mut self, id: InvocationId, node: Box<str>) {
        match self.invocations.get(&id) {
            Some(invocation) if has_not_begun(invocation) => self.take_back(id),
            Some(invocation) if invocation.durable && waits(&invocation.stage) => {
                self.end_without_count(id, node);
            }
            // Nothing is done yet if the invocation runs, or if the run that it takes over is still being stored: the
            // register shows the other node again at the next claim, or at the end.
            Some(_) | None => {}
        }
    }

    /// Removes an invocation as if it had never been accepted.
    fn take_back(&mut self, id: InvocationId) {
        if self.invocations.get(&id).is_some_and(|one| one.stage.is_claimed()) {
            // Only a row that has not begun is deleted.
            self.update(id);
        }
        let Some(invocation) = self.remove_invocation(id) else {
            return;
        };
        self.out.push(Action::Withdraw(id));
        let joining = self.joining.remove(&id).unwrap_or_default();
        let callers = invocation.acknowledge.iter().chain(&invocation.waiters).chain(&joining);
        let refusal = || Answer::Rejected(Rejection::unavailable("another node has taken it"));
        self.answer_all(callers.copied(), refusal);
        self.release_files(&invocation);
        self.line_up(invocation.function);
    }

    /// Ends an invocation with a record that does not count: another node has begun it again.
    fn end_without_count(&mut self, id: InvocationId, node: Box<str>) {
        let Some(invocation) = self.remove_invocation(id) else {
            return;
        };
        let function = &mut self.functions[invocation.function];
        let end = InvocationEnd::new(Reason::Interrupted, format!("{node} goes on with it"));
        let record = invocation.ended(&function.name, self.now, end, invocation.previous.clone());
        // It has run here, so this node counts it, as its ledger does.
        function.runs = function.runs.saturating_add(1);
        function.failures = function.failures.saturating_add(1);
        self.out.push(Action::Supersede(Box::new(record.to_kept()), node));
        self.after_end(&invocation, record);
        self.line_up(invocation.function);
    }
}

/// Says whether an invocation waits, with or without a begun attempt behind it.
fn waits(stage: &InvocationStage) -> bool {
    let waits_for_an_instant = stage.begins_at().is_some();
    waits_for_an_instant || stage.is_claimed() || matches!(stage, InvocationStage::Ready)
}

/// Says whether nothing of an invocation has begun, on this node or on another one. Calls are not shared by nodes.
fn has_not_begun(invocation: &Invocation) -> bool {
    let is_being_stored = matches!(invocation.stage, InvocationStage::Storing { end: None, .. });
    invocation.durable && invocation.attempts == 0 && (is_being_stored || waits(&invocation.stage))
}
