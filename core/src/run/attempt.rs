//! Starts attempts, and ends them: their worker ended, could not be started, or is lost with the spawner.

use super::Supervisor;
use crate::messages::action::{Action, AttemptOrder, Notice, SpawnOrder};
use crate::messages::event::Exited;
use crate::records::AttemptRecord;
use crate::records::outcome::Reason;
use crate::run_state::function::Presence;
use crate::run_state::invocation::{InvocationStage, Started, WallTime};
use crate::run_state::releases::ServingRelease;
use crate::run_state::timers::Timer;
use crate::run_state::verdict::AttemptVerdict;
use crate::run_state::worker::{Run, Worker, WorkerKind, WorkerPhase};
use crate::run_state::{FunctionKey, failure_message};
use fnd_wire::ids::{Attempt, InvocationId, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// An attempt that has ended, and where it ran.
#[derive(Debug)]
pub(super) struct EndedAttempt {
    /// Absent where no process could be started.
    pub(super) worker: Option<WorkerId>,
    pub(super) function: FunctionKey,
    pub(super) serving: Arc<ServingRelease>,
    /// Whether an earlier fnd started the worker.
    pub(super) adopted: bool,
    pub(super) run: Run,
    pub(super) verdict: AttemptVerdict,
}

impl EndedAttempt {
    pub(super) fn new(id: Option<WorkerId>, worker: &Worker, run: Run, verdict: AttemptVerdict) -> Self {
        Self {
            worker: id,
            function: worker.function,
            serving: Arc::clone(&worker.serving),
            adopted: worker.adopted,
            run,
            verdict,
        }
    }
}

impl Supervisor {
    /// Returns a number for a worker that no other worker has.
    pub fn next_worker(&mut self) -> WorkerId {
        let worker = WorkerId(self.next_worker);
        self.next_worker = self.next_worker.saturating_add(1);
        worker
    }

    /// Starts the first of a script's ready invocations, with the version that was chosen for it. Its place in the budget is
    /// already taken.
    pub(super) fn start(&mut self, key: FunctionKey, serving: Arc<ServingRelease>) {
        let function = &mut self.functions[key];
        let Some(invocation) = function.work.queue.take_ready() else {
            self.node.give_back(function);
            return;
        };
        let id = self.next_worker();
        let Some((run, order)) = self.begin(invocation, id, &serving, None) else {
            return;
        };
        self.functions[key].begins_with(serving.version);
        let deadline = self.invocations.get(&invocation).and_then(|one| one.deadline_at());
        // The spawner ends the attempt by itself at the earlier limit, if fnd hangs or is stopped.
        let ends_at = run.timeout_at.into_iter().chain(deadline).min();
        let lasts = ends_at.map(|at| at.saturating_sub(self.now.mono));
        let kind = WorkerKind::of_process(&serving.rules.kind);
        let worker = Worker {
            runs: vec![run],
            ..Worker::new(key, serving, self.now, kind)
        };
        self.spawn(id, worker, Some(order), lasts);
        self.announce(key);
        // One claim fewer is ahead now, so the next one can be stored while this attempt runs.
        self.claim_ahead(key);
    }

    /// Starts a worker. Its place in the budget is already taken. The worker of a script starts with its attempt, and
    /// `lasts` is the time until that attempt has to end.
    pub(super) fn spawn(
        &mut self,
        id: WorkerId,
        worker: Worker,
        attempt: Option<AttemptOrder>,
        lasts: Option<Duration>,
    ) {
        self.starts.began(id);
        let function = &mut self.functions[worker.function];
        function.work.running.insert(id);
        self.out.push(Action::Spawn(Box::new(SpawnOrder {
            worker: id,
            function: function.name.clone(),
            id: worker.serving.id,
            version: worker.serving.version,
            rules: Arc::clone(&worker.serving.rules),
            attempt,
            lasts,
        })));
        self.workers.insert(id, worker);
    }

    /// Begins an invocation's next attempt in a worker. `call` is there for handlers: the number of the call, and
    /// whether the invocation waited for the worker to start.
    pub(super) fn begin(
        &mut self,
        id: InvocationId,
        worker: WorkerId,
        serving: &ServingRelease,
        call: Option<(u64, bool)>,
    ) -> Option<(Run, AttemptOrder)> {
        let invocation = self.invocations.get_mut(&id)?;
        // The place in the queue depends on the number of attempts, so the stage changes first.
        let queue = &mut self.functions[invocation.function].work.queue;
        queue.change(invocation, InvocationStage::Running { worker });
        // The expiry stays in the invocation: if the attempt cannot be started, the invocation has not begun.
        self.timers.disarm(invocation.expires_at(), Timer::Expire(id));
        // Polls are derived from the last reason, not stored: after a restart the record has that reason as well.
        if matches!(invocation.last, Some((Reason::ExecuteAgain, _))) {
            invocation.polls = invocation.polls.saturating_add(1);
        }
        invocation.attempts = invocation.attempts.saturating_add(1);
        invocation.has_tmp |= call.is_none();
        invocation.version = Some(serving.version);
        // Retries and polls keep the start of the first attempt, because `poll.until` counts from it.
        invocation.started.get_or_insert(Started {
            unix_ms: self.now.unix_ms,
            at: self.now.mono,
            before: Duration::ZERO,
        });
        // A caller may shorten the timeout of the manifest, but not extend it.
        let timeout = [serving.rules.timeout, invocation.timeout].into_iter().flatten().min();
        let timeout_at = timeout.map(|timeout| self.now.mono.saturating_add(timeout));
        let ends = [
            timeout_at.map(|at| WallTime::of_instant(self.now, at).unix_ms),
            invocation.deadline.map(|deadline| deadline.unix_ms),
        ];
        let attempt = Attempt(invocation.attempts);
        self.groups.take(serving.group(), invocation.function);
        let function = &mut self.functions[invocation.function];
        function.work.busy += 1;
        self.out
            .push(Action::Update(Box::new(invocation.record(&function.name))));
        self.out.push(Action::Notice(Notice::AttemptStarted {
            function: function.name.clone(),
            invocation: id,
            attempt,
            worker,
            trigger: invocation.trigger,
        }));
        self.timers.arm(timeout_at, Timer::Attempt(worker, id));
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
            started: self.now,
            timeout,
            timeout_at,
            ending: None,
            call,
        };
        Some((run, order))
    }

    /// Handles a worker that has ended, and whose end is reported later. An unknown worker has ended with its spawner.
    pub(super) fn ends_later(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        worker.ended_at.get_or_insert(self.now.mono);
        // The attempt is over and only waits for room for its result, so its timeout does not count any more.
        for run in &mut worker.runs {
            self.timers
                .disarm(run.timeout_at.take(), Timer::Attempt(id, run.invocation));
        }
        self.enter(id, WorkerPhase::Over);
    }

    /// Handles a worker that ended and whose leaf is empty. An unknown worker ended twice, or with its spawner.
    pub(super) fn exited(&mut self, exited: &Exited) {
        let id = exited.worker;
        // The end of an unknown worker frees descriptors and processes, too.
        self.room_was_made();
        let Some(mut worker) = self.take_worker(id) else {
            // The spawner keeps an exit until fnd acknowledges it, and of this worker nothing is left to record.
            self.out.push(Action::Forget(id, None));
            return;
        };
        if let WorkerKind::Member(_) = worker.kind {
            return self.member_exited(worker, exited);
        }
        // If the worker ended before its adoption, `adopt` has already set the reason, which the spawner reported.
        if let Some((_, lasted)) = exited.late.filter(|_| !worker.ended_before) {
            self.ended_by_spawner(&mut worker, lasted);
        }
        for run in std::mem::take(&mut worker.runs) {
            let asks_for_result = self.invocations.get(&run.invocation).is_some_and(|invocation| {
                let cause = invocation.payload.cause.as_deref();
                invocation.trigger.asks_for_result(cause)
            });
            let mut verdict = AttemptVerdict::of(&worker.serving.rules, &run, asks_for_result, exited);
            let reported_late = || worker.ended_at.map(|at| run.ended_at(at, self.now));
            verdict.late = exited.late.or_else(reported_late);
            self.attempt_ended(EndedAttempt::new(Some(id), &worker, run, verdict));
        }
    }

    /// Handles a worker that could not be started because of its function.
    pub(super) fn spawn_failed(&mut self, id: WorkerId, message: String) {
        self.start_unanswered(id);
        let Some(mut worker) = self.take_worker(id) else { return };
        let message = failure_message::of_start(&worker.serving.rules, message);
        match worker.kind {
            WorkerKind::Member(_) => return self.never_ready(id, &worker, Reason::Spawn, message),
            WorkerKind::Script => self.count_start_failure(worker.function, &worker.serving),
            // Each failed run of a service is counted when it has ended.
            WorkerKind::Service(_) => {}
        }
        for run in std::mem::take(&mut worker.runs) {
            let verdict = AttemptVerdict::without_exit(&worker.serving.rules, &run, Reason::Spawn, message.clone());
            self.attempt_ended(EndedAttempt::new(None, &worker, run, verdict));
        }
    }

    /// Handles the loss of the spawner, and with it of every worker.
    pub(super) fn spawner_lost(&mut self) {
        // This is set first: `end_unwaited` then ends no call of a lost attempt, because each call says by itself why
        // it ended.
        self.spawner = false;
        self.release_claims();
        while let Some(id) = self.workers.keys().next().copied() {
            let Some(mut worker) = self.take_worker(id) else { return };
            // This fnd ends, so no end can wait for the first scan.
            worker.adopted = false;
            for run in std::mem::take(&mut worker.runs) {
                let message = "fnd-spawner went down during the attempt".to_owned();
                let verdict = AttemptVerdict::without_exit(&worker.serving.rules, &run, Reason::Interrupted, message);
                self.attempt_ended(EndedAttempt::new(Some(id), &worker, run, verdict));
            }
        }
    }

    /// Removes a worker, and gives back its place in the budget, its timers and the counts of its attempts.
    pub(super) fn take_worker(&mut self, id: WorkerId) -> Option<Worker> {
        // The list of free workers is found by the worker's version, so the worker leaves that list before it is
        // removed.
        self.out_of_service(id);
        let worker = self.workers.remove(&id)?;
        if let WorkerKind::Service(readiness) = &worker.kind {
            self.timers.disarm(readiness.check_at, Timer::ServiceCheck(id));
        }
        self.timers.disarm(worker.phase.timer(), Timer::Worker(id));
        for run in &worker.runs {
            self.run_over(id, worker.function, &worker.serving, run);
        }
        let function = &mut self.functions[worker.function];
        // `give_back` frees memory and CPU only if `running` is empty, so the worker leaves `running` first.
        function.work.running.remove(&id);
        self.node.give_back(function);
        Some(worker)
    }

    /// Removes an attempt that is over from the timers and counts.
    pub(super) fn run_over(&mut self, id: WorkerId, function: FunctionKey, of: &ServingRelease, run: &Run) {
        self.timers.disarm(run.timeout_at, Timer::Attempt(id, run.invocation));
        self.groups.give_back(of.group());
        let function = &mut self.functions[function];
        function.work.busy = function.work.busy.saturating_sub(1);
    }

    /// Records an attempt that has ended, and decides what follows. If an earlier fnd started the worker, and the
    /// function is not known yet, the end is kept: only the first complete scan shows whether the function still
    /// exists.
    pub(super) fn attempt_ended(&mut self, ended: EndedAttempt) {
        let is_unknown = !matches!(self.functions[ended.function].presence, Presence::Serving(_));
        if ended.adopted && is_unknown && !self.scanned {
            return self.early.push(ended);
        }
        let (function, serving, run, verdict) = (ended.function, ended.serving, ended.run, ended.verdict);
        self.end_unwaited(run.invocation);
        let at_once = (Duration::ZERO, self.now.mono.saturating_sub(run.started.mono));
        let (ago, lasted) = verdict.late.unwrap_or(at_once);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        // fnd hears late of an end that the spawner made; how long the attempt lasted is known exactly.
        let ended_ms = self.now.unix_ms.saturating_sub(millis(ago));
        let ended_ms = match verdict.late {
            Some(_) => ended_ms.min(run.started.unix_ms.saturating_add(millis(lasted))),
            None => ended_ms,
        };
        let record = AttemptRecord {
            invocation: run.invocation,
            function: self.functions[function].name.clone(),
            attempt: run.attempt,
            poll: run.poll,
            worker: ended.worker,
            version: Some(serving.version),
            started_ms: run.started.unix_ms,
            // The wall clock may have been set back during the attempt.
            ended_ms: ended_ms.max(run.started.unix_ms),
            duration_us: u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX),
            reason: verdict.reason,
            message: verdict.message,
            exit_code: verdict.exit_code,
            signal: verdict.signal,
            usage: verdict.usage,
            next_attempt_ms: None,
            cold: run.call.map(|(_, cold)| cold),
        };
        // An attempt whose process could not be started says nothing about how long runs take.
        if ended.worker.is_some() {
            self.functions[function].work.durations.push(record.duration_us);
        }
        self.count_canary(function, serving.version, record.reason);
        self.conclude(&serving, record, verdict.result);
        // A deleted function is shown as long as an attempt runs, so this end may be the moment at which it vanishes.
        self.announce(function);
        self.line_up(function);
    }
}
