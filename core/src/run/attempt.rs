//! Starts attempts.

use super::Supervisor;
use crate::messages::Now;
use crate::messages::action::{Action, AttemptOrder, Notice, SpawnOrder};
use crate::messages::on_wall;
use crate::records::outcome::Reason;
use crate::run_state::FunctionKey;
use crate::run_state::invocation::{InvocationStage, Started};
use crate::run_state::releases::ServingRelease;
use crate::run_state::timers::Timer;
use crate::run_state::worker::{Run, Worker, WorkerKind, WorkerPhase};
use fnd_wire::ids::{Attempt, InvocationId, WorkerId};
use std::sync::Arc;
use std::time::Duration;

impl Supervisor {
    /// Returns a number for a worker that no other worker has.
    pub fn next_worker(&mut self) -> WorkerId {
        let worker = WorkerId(self.next_worker);
        self.next_worker = self.next_worker.saturating_add(1);
        worker
    }

    /// Starts the first of a script's ready invocations, with the version that was chosen for it. Its place in the budget is
    /// already taken.
    pub(super) fn start(&mut self, now: Now, key: FunctionKey, serving: Arc<ServingRelease>, out: &mut Vec<Action>) {
        let function = &mut self.functions[key];
        let Some(invocation) = function.queue.take_ready() else {
            self.node.give_back(function);
            return;
        };
        let id = self.next_worker();
        let Some((run, order)) = self.begin(now, invocation, (id, &serving, None), out) else {
            return;
        };
        self.functions[key].begins_with(serving.version);
        let deadline = self
            .invocations
            .get(&invocation)
            .and_then(|invocation| invocation.deadline);
        let ends_at = [run.timeout_at, deadline.map(|deadline| deadline.at)];
        self.starts.began(id);
        let function = &mut self.functions[key];
        function.work.running.insert(id);
        out.push(Action::Spawn(Box::new(SpawnOrder {
            worker: id,
            function: function.name.clone(),
            id: serving.id,
            version: serving.version,
            rules: Arc::clone(&serving.rules),
            attempt: Some(order),
            // The spawner ends the attempt by itself at the earlier limit, if fnd hangs or is stopped.
            lasts: ends_at
                .into_iter()
                .flatten()
                .min()
                .map(|at| at.saturating_sub(now.mono)),
        })));
        let worker = Worker {
            function: key,
            kind: WorkerKind::of_process(&serving.rules.kind),
            serving,
            started: now,
            phase: WorkerPhase::Starting,
            ended_at: None,
            adopted: false,
            ended_before: false,
            runs: vec![run],
        };
        self.workers.insert(id, worker);
        self.announce(key, out);
        // One claim fewer is ahead now, so the next one can be stored while this attempt runs.
        self.claim_ahead(now, key, out);
    }

    /// Begins an invocation's next attempt in a worker; for a handler as a call.
    pub(super) fn begin(
        &mut self,
        now: Now,
        id: InvocationId,
        (worker, serving, call): (WorkerId, &ServingRelease, Option<(u64, bool)>),
        out: &mut Vec<Action>,
    ) -> Option<(Run, AttemptOrder)> {
        let invocation = self.invocations.get_mut(&id)?;
        // The place in the queue depends on the number of attempts, so the stage changes first.
        let queue = &mut self.functions[invocation.function].queue;
        queue.change(invocation, InvocationStage::Running { worker });
        // The expiry stays in the invocation: if the attempt cannot be started, the invocation has not begun.
        if let Some(at) = invocation.expires {
            self.timers.disarm(at, Timer::Expire(id));
        }
        // Polls are derived from the last reason, not stored: after a restart the record has that reason as well.
        if matches!(invocation.last, Some((Reason::ExecuteAgain, _))) {
            invocation.polls = invocation.polls.saturating_add(1);
        }
        invocation.attempts = invocation.attempts.saturating_add(1);
        invocation.has_tmp |= call.is_none();
        invocation.version = Some(serving.version);
        // Retries and polls keep the start of the first attempt, because `poll.until` counts from it.
        invocation.started.get_or_insert(Started {
            unix_ms: now.unix_ms,
            at: now.mono,
            before: Duration::ZERO,
        });
        // A caller may shorten the timeout of the manifest, but not extend it.
        let timeout = [serving.rules.timeout, invocation.timeout].into_iter().flatten().min();
        let timeout_at = timeout.map(|timeout| now.mono.saturating_add(timeout));
        let ends = [
            timeout_at.map(|at| on_wall(now, at)),
            invocation.deadline.map(|deadline| deadline.unix_ms),
        ];
        let attempt = Attempt(invocation.attempts);
        let function = &mut self.functions[invocation.function];
        function.work.busy += 1;
        out.push(Action::Update(Box::new(invocation.record(&function.name))));
        out.push(Action::Notice(Notice::AttemptStarted {
            function: function.name.clone(),
            invocation: id,
            attempt,
            worker,
            trigger: invocation.trigger,
        }));
        if let Some(at) = timeout_at {
            self.timers.arm(at, Timer::Attempt(worker, id));
        }
        let order = AttemptOrder {
            invocation: id,
            attempt,
            poll: invocation.polls,
            trigger: invocation.trigger,
            payload: invocation.payload.clone(),
            previous: invocation.previous.clone(),
            deadline_ms: ends.into_iter().flatten().min(),
        };
        let run = Run {
            invocation: id,
            attempt,
            poll: invocation.polls,
            started: now,
            timeout,
            timeout_at,
            ending: None,
            call,
        };
        Some((run, order))
    }
}
