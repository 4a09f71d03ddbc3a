//! Starts attempts, and ends them: their worker ended, could not be started, or is lost with the spawner.

use super::Supervisor;
use crate::messages::action::{Action, AttemptOrder, Notice, SpawnOrder};
use crate::messages::event::{Answered, Exited};
use crate::messages::rules::Rules;
use crate::messages::{Now, on_wall};
use crate::records::outcome::Reason;
use crate::records::{AttemptRecord, RunResult, Usage};
use crate::run_state::invocation::{InvocationStage, Started};
use crate::run_state::releases::ServingRelease;
use crate::run_state::timers::Timer;
use crate::run_state::verdict::{AttemptVerdict, asks_for_result};
use crate::run_state::worker::{Readiness, Run, Worker, WorkerKind, WorkerPhase};
use crate::run_state::{FunctionKey, failure_message};
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
        if let Some(expires) = invocation.expires {
            self.timers.disarm(expires.at, Timer::Expire(id));
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
        self.groups.take(serving.group(), invocation.function);
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

/// The known facts about an attempt's end.
#[derive(Debug)]
pub(super) struct EndFacts {
    verdict: AttemptVerdict,
    usage: Usage,
    result: Option<RunResult>,
    /// How long ago the attempt ended and how long it had run, where fnd heard of the end late.
    pub(super) late: Option<(Duration, Duration)>,
}

impl EndFacts {
    pub(super) fn new(verdict: AttemptVerdict, usage: Usage, result: Option<RunResult>) -> Self {
        Self {
            verdict,
            usage,
            result,
            late: None,
        }
    }

    /// Returns the end of a call with this answer. If fnd was ending the call, the answer does not count.
    pub(super) fn of_answer(rules: &Rules, run: &Run, answered: Answered) -> Self {
        if run.ending.is_some() {
            let verdict = AttemptVerdict::without_exit(rules, run, Reason::Interrupted, String::new());
            return Self::of_call((verdict.reason, verdict.message), None);
        }
        // Without `[poll]` nothing would ask again. Exit code 99 of a script is an error then, too.
        let reason = match answered.reason {
            Reason::ExecuteAgain if rules.poll.is_none() => Reason::Error,
            reason => reason,
        };
        let message = if reason == Reason::Ok {
            String::new()
        } else {
            failure_message::of_code(rules, answered.message)
        };
        Self::of_call((reason, message), answered.result)
    }

    /// Returns the end of a call, whose resources cannot be told from those of its worker.
    pub(super) fn of_call((reason, message): (Reason, String), result: Option<RunResult>) -> Self {
        let verdict = AttemptVerdict {
            reason,
            message,
            exit_code: None,
            signal: None,
        };
        let usage = Usage {
            scope_worker: true,
            ..Usage::default()
        };
        Self::new(verdict, usage, result)
    }
}

/// An attempt that has ended, and where it ran.
#[derive(Debug)]
pub(super) struct EndedAttempt {
    /// Absent where no process could be started.
    pub(super) worker: Option<WorkerId>,
    pub(super) function: FunctionKey,
    pub(super) serving: Arc<ServingRelease>,
    pub(super) run: Run,
}

impl Supervisor {
    /// Handles a worker that has ended, and whose end is reported later. An unknown worker has ended with its spawner.
    pub(super) fn ends_later(&mut self, now: Now, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        worker.ended_at.get_or_insert(now.mono);
        // The attempt is over and only waits for room for its result, so its timeout does not count any more.
        for run in &mut worker.runs {
            if let Some(at) = run.timeout_at.take() {
                self.timers.disarm(at, Timer::Attempt(id, run.invocation));
            }
        }
        self.enter(id, WorkerPhase::Over);
    }

    /// Handles a worker that ended and whose leaf is empty. An unknown worker ended twice, or with its spawner.
    pub(super) fn exited(&mut self, now: Now, exited: &Exited, out: &mut Vec<Action>) {
        let id = exited.worker;
        // The end of an unknown worker frees descriptors and processes, too.
        self.room_was_made();
        let Some(mut worker) = self.take_worker(id) else {
            // The spawner keeps an exit until fnd acknowledges it, and of this worker nothing is left to record.
            out.push(Action::Forget(id, None));
            return;
        };
        if let WorkerKind::Member(_) = worker.kind {
            return self.member_exited(now, worker, exited, out);
        }
        let adopted = worker.adopted;
        // Of a worker that had ended before the adoption, the spawner has told why: see `adopt`.
        if let Some((_, lasted)) = exited.late.filter(|_| !worker.ended_before) {
            self.ended_by_spawner(&mut worker, lasted);
        }
        let ended_at = worker.ended_at;
        for run in std::mem::take(&mut worker.runs) {
            let since = |at: Duration| (now.mono.saturating_sub(at), at.saturating_sub(run.started.mono));
            let late = exited.late.or_else(|| ended_at.map(since));
            let invocation = self.invocations.get(&run.invocation);
            let asks_for_result = invocation.is_some_and(|invocation| {
                let cause = invocation.payload.cause.as_deref();
                asks_for_result(invocation.trigger, cause)
            });
            let verdict = AttemptVerdict::of(&worker.serving.rules, (&run, asks_for_result), exited);
            let ended = EndFacts {
                late,
                ..EndFacts::new(verdict, exited.usage, exited.result.clone())
            };
            let (function, serving) = (worker.function, Arc::clone(&worker.serving));
            let done = EndedAttempt {
                worker: Some(id),
                function,
                serving,
                run,
            };
            if let Some((done, ended)) = self.keep_early(adopted, done, ended) {
                self.attempt_ended(now, done, ended, out);
            }
        }
    }

    /// Handles a worker that could not be started because of its function.
    pub(super) fn spawn_failed(&mut self, now: Now, id: WorkerId, message: String, out: &mut Vec<Action>) {
        self.start_unanswered(id);
        let Some(mut worker) = self.take_worker(id) else { return };
        let message = failure_message::of_start(&worker.serving.rules, message);
        match worker.kind {
            WorkerKind::Member(_) => return self.never_ready(now, (id, &worker), (Reason::Spawn, message), out),
            WorkerKind::Script => self.count_start_failure(now, worker.function, &worker.serving),
            // Each failed run of a service is counted when it has ended.
            WorkerKind::Service(_) => {}
        }
        for run in std::mem::take(&mut worker.runs) {
            let verdict = AttemptVerdict::without_exit(&worker.serving.rules, &run, Reason::Spawn, message.clone());
            let (function, serving) = (worker.function, Arc::clone(&worker.serving));
            let done = EndedAttempt {
                worker: None,
                function,
                serving,
                run,
            };
            self.attempt_ended(now, done, EndFacts::new(verdict, Usage::default(), None), out);
        }
    }

    /// Handles the loss of the spawner, and with it of every worker.
    pub(super) fn spawner_lost(&mut self, now: Now, out: &mut Vec<Action>) {
        // This is set first: `end_unwaited` then ends no call of a lost attempt, because each call says by itself why
        // it ended.
        self.spawner = false;
        self.release_claims(out);
        while let Some(id) = self.workers.keys().next().copied() {
            let Some(worker) = self.take_worker(id) else { return };
            for run in worker.runs {
                let message = "fnd-spawner went down during the attempt".to_owned();
                let verdict = AttemptVerdict::without_exit(&worker.serving.rules, &run, Reason::Interrupted, message);
                let done = EndedAttempt {
                    worker: Some(id),
                    function: worker.function,
                    serving: Arc::clone(&worker.serving),
                    run,
                };
                self.attempt_ended(now, done, EndFacts::new(verdict, Usage::default(), None), out);
            }
        }
    }

    pub(super) fn take_worker(&mut self, id: WorkerId) -> Option<Worker> {
        // The list of free workers is found by the worker's version, so the worker leaves that list before it is
        // removed.
        self.out_of_service(id);
        let worker = self.workers.remove(&id)?;
        if let WorkerKind::Service(Readiness { check_at: Some(at), .. }) = worker.kind {
            self.timers.disarm(at, Timer::ServiceCheck(id));
        }
        if let Some(at) = worker.phase.timer() {
            self.timers.disarm(at, Timer::Worker(id));
        }
        for run in &worker.runs {
            self.run_over(id, (worker.function, &worker.serving), run);
        }
        let function = &mut self.functions[worker.function];
        // `give_back` frees memory and CPU only if `running` is empty, so the worker leaves `running` first.
        function.work.running.remove(&id);
        self.node.give_back(function);
        Some(worker)
    }

    /// Removes an attempt that is over from the timers and counts.
    pub(super) fn run_over(&mut self, id: WorkerId, (function, of): (FunctionKey, &ServingRelease), run: &Run) {
        if let Some(at) = run.timeout_at {
            self.timers.disarm(at, Timer::Attempt(id, run.invocation));
        }
        self.groups.give_back(of.group());
        let function = &mut self.functions[function];
        function.work.busy = function.work.busy.saturating_sub(1);
    }

    pub(super) fn attempt_ended(&mut self, now: Now, done: EndedAttempt, ended: EndFacts, out: &mut Vec<Action>) {
        let EndFacts {
            verdict,
            usage,
            result,
            late,
        } = ended;
        let EndedAttempt {
            worker,
            function,
            serving,
            run,
        } = done;
        self.end_unwaited(now, run.invocation, out);
        let at_once = (Duration::ZERO, now.mono.saturating_sub(run.started.mono));
        let (ago, lasted) = late.unwrap_or(at_once);
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        // fnd hears late of an end that the spawner made; how long the attempt lasted is known exactly.
        let ended_ms = now.unix_ms.saturating_sub(millis(ago));
        let ended_ms = match late {
            Some(_) => ended_ms.min(run.started.unix_ms.saturating_add(millis(lasted))),
            None => ended_ms,
        };
        let record = AttemptRecord {
            invocation: run.invocation,
            function: self.functions[function].name.clone(),
            attempt: run.attempt,
            poll: run.poll,
            worker,
            version: Some(serving.version),
            started_ms: run.started.unix_ms,
            // The wall clock may have been set back during the attempt.
            ended_ms: ended_ms.max(run.started.unix_ms),
            duration_us: u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX),
            reason: verdict.reason,
            message: verdict.message,
            exit_code: verdict.exit_code,
            signal: verdict.signal,
            usage,
            next_attempt_ms: None,
            cold: run.call.map(|(_, cold)| cold),
        };
        // An attempt whose process could not be started says nothing about how long runs take.
        if worker.is_some() {
            self.functions[function].work.durations.push(record.duration_us);
        }
        self.count_canary(function, serving.version, record.reason, out);
        self.conclude(now, &serving, (record, result), out);
        // A deleted function is shown as long as an attempt runs, so this end may be the moment at which it vanishes.
        self.announce(function, out);
        self.line_up(now, function);
    }
}
