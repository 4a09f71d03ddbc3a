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
use super::conclude::release_files;
use crate::messages::action::{Action, Answer, Rejection};
use crate::messages::end_cause::EndCause;
use crate::messages::event::Exited;
use crate::messages::{Now, on_wall};
use crate::records::outcome::{Reason, Trigger};
use crate::run_state::invocation::{Invocation, InvocationEnd, InvocationStage};
use crate::run_state::timers::Timer;
use crate::run_state::worker::{Worker, WorkerPhase};
use fnd_wire::ids::InvocationId;
use std::time::Duration;

impl Supervisor {
    /// Handles a claim that the register has not taken: the invocation keeps its place in the order of its key, and is claimed
    /// again after a pause.
    pub(super) fn claim_put_off(&mut self, now: Now, id: InvocationId, pause: Duration, out: &mut Vec<Action>) {
        self.claim_rate.answered(1);
        let until = now.mono.saturating_add(pause);
        let unix_ms = on_wall(now, until);
        // It may have ended meanwhile, or have been put back.
        let Some((key, _)) = self.leave_claiming(now, id, InvocationStage::BackingOff { until, unix_ms }) else {
            return;
        };
        self.timers.arm(until, Timer::Begin(id));
        self.unclaim_on_disk(id, out);
        // Another one may begin in the place that the claim held.
        self.line_up(now, key);
    }

    /// Stores that an invocation waits: its claim may be on disk, and says that the attempt runs.
    fn unclaim_on_disk(&self, id: InvocationId, out: &mut Vec<Action>) {
        if let Some(invocation) = self.invocations.get(&id) {
            let record = invocation.record(&self.functions[invocation.function].name);
            out.push(Action::Update(Box::new(record)));
        }
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
    pub(super) fn lease_lost(&mut self, now: Now, lost: &[(InvocationId, Duration)], out: &mut Vec<Action>) {
        for (id, silent) in lost {
            match self.invocations.get(id).map(|invocation| &invocation.stage) {
                Some(InvocationStage::Running { worker }) => {
                    let worker = *worker;
                    self.ask_to_end(now, (worker, *id), EndCause::LeaseLost(Some(*silent)), out);
                    self.end_waited_for(now, *id, out);
                }
                Some(InvocationStage::Claimed) => {
                    self.make_ready(now, *id);
                    self.unclaim_on_disk(*id, out);
                }
                // One that is being claimed is answered after this, by `ClaimPutOff`.
                _ => {}
            }
        }
    }

    /// Gives the message of an invocation back that has not begun: another node may have the function. Returns whether the
    /// invocation is gone.
    pub(super) fn give_back_message(&mut self, now: Now, id: InvocationId, out: &mut Vec<Action>) -> bool {
        let invocation = self.invocations.get(&id);
        let is_given = invocation.is_some_and(|invocation| invocation.of_stream && has_not_begun(invocation));
        if is_given {
            self.take_back(now, id, out);
        }
        is_given
    }

    /// Gives the work of an invocation back that has not begun.
    pub(super) fn withdraw(&mut self, now: Now, id: InvocationId, out: &mut Vec<Action>) {
        if self.invocations.get(&id).is_some_and(has_not_begun) {
            self.take_back(now, id, out);
        }
    }

    /// Handles that another node goes on with an invocation.
    pub(super) fn superseded(&mut self, now: Now, id: InvocationId, node: Box<str>, out: &mut Vec<Action>) {
        match self.invocations.get(&id) {
            Some(invocation) if has_not_begun(invocation) => self.take_back(now, id, out),
            Some(invocation) if invocation.durable && waits(&invocation.stage) => {
                self.end_without_count(now, id, node, out);
            }
            // It runs, or what it takes over is still being stored: its next claim, or its end, shows the same again.
            Some(_) | None => {}
        }
    }

    /// Removes an invocation as if it had never been accepted.
    fn take_back(&mut self, now: Now, id: InvocationId, out: &mut Vec<Action>) {
        let stage = self.invocations.get(&id).map(|invocation| &invocation.stage);
        if let Some(InvocationStage::Claiming { .. } | InvocationStage::Claimed) = stage {
            // Only a row that has not begun is deleted.
            self.unclaim_on_disk(id, out);
        }
        let Some(invocation) = self.remove_invocation(id) else {
            return;
        };
        let key = invocation.function;
        out.push(Action::Withdraw(id));
        let joining = self.joining.remove(&id).into_iter().flatten();
        for reply in invocation
            .acknowledge
            .into_iter()
            .chain(invocation.waiters)
            .chain(joining)
        {
            let reason = "another node has taken it".to_owned();
            let rejection = Rejection::Unavailable { reason };
            out.push(Action::Reply(reply, Box::new(Answer::Rejected(rejection))));
        }
        if invocation.has_tmp {
            release_files(&mut self.functions[key], id, out);
        }
        self.line_up(now, key);
    }

    /// Ends an invocation with a record that does not count: another node has begun it again.
    fn end_without_count(&mut self, now: Now, id: InvocationId, node: Box<str>, out: &mut Vec<Action>) {
        let Some(invocation) = self.remove_invocation(id) else {
            return;
        };
        let key = invocation.function;
        let function = &mut self.functions[key];
        let end = InvocationEnd::new(Reason::Interrupted, format!("{node} goes on with it"));
        let record = invocation.ended(&function.name, now, end, invocation.previous.clone());
        // It has run here, so this node counts it, as its ledger does.
        function.runs = function.runs.saturating_add(1);
        function.failures = function.failures.saturating_add(1);
        out.push(Action::Supersede(Box::new(record.to_kept()), node));
        for reply in invocation.waiters {
            out.push(Action::Reply(
                reply,
                Box::new(Answer::Finished(Box::new(record.clone()))),
            ));
        }
        if invocation.has_tmp {
            release_files(function, id, out);
        }
        self.line_up(now, key);
    }
}

/// Says whether an invocation waits, with or without a begun attempt behind it.
fn waits(stage: &InvocationStage) -> bool {
    match stage {
        InvocationStage::Delayed { .. }
        | InvocationStage::Ready
        | InvocationStage::Claiming { .. }
        | InvocationStage::Claimed
        | InvocationStage::BackingOff { .. } => true,
        InvocationStage::Storing { .. } | InvocationStage::Running { .. } | InvocationStage::Lost => false,
    }
}

/// Says whether nothing of an invocation has begun, on this node or on another one. Calls are not shared by nodes.
fn has_not_begun(invocation: &Invocation) -> bool {
    let is_being_stored = matches!(invocation.stage, InvocationStage::Storing { end: None, .. });
    invocation.durable && invocation.attempts == 0 && (is_being_stored || waits(&invocation.stage))
}
