//! Starts attempts, ends them and decides what follows.

use super::Supervisor;
use super::action::{Action, Answer, AttemptOrder, Notice, SpawnOrder};
use super::event::{Exited, LAST_RESULT_MAX, LastAttempt, Now};
use super::function::{Function, FunctionKey, Serving};
use super::invocation::{End, Invocation, Stage, Started};
use super::submit::on_wall;
use super::timers::Timer;
use super::verdict::Verdict;
use super::worker::{Phase, Readiness, Run, Worker, WorkerKind};
use crate::outcome::{Class, Exhausted, Reason, State, Trigger};
use crate::record::{AttemptRecord, RunResult, Usage};
use fnd_wire::ids::{Attempt, InvocationId, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// The next step of an invocation after an attempt.
enum Next {
    /// Another attempt at this instant.
    Again(Duration),
    /// No further attempt; the limit that ran out, if any did.
    End(Option<Exhausted>),
}

/// The known facts about an attempt's end.
#[derive(Debug)]
pub(super) struct Ended {
    verdict: Verdict,
    usage: Usage,
    result: Option<RunResult>,
    /// How long ago the attempt ended and how long it had run, where fnd heard of the end late.
    late: Option<(Duration, Duration)>,
}

impl Ended {
    pub(super) fn new(verdict: Verdict, usage: Usage, result: Option<RunResult>) -> Self {
        Self {
            verdict,
            usage,
            result,
            late: None,
        }
    }

    /// Returns the end of a call, whose resources cannot be told from those of its worker.
    pub(super) fn of_call((reason, message): (Reason, String), result: Option<RunResult>) -> Self {
        let verdict = Verdict {
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
pub(super) struct Done {
    /// Absent where no process could be started.
    pub(super) worker: Option<WorkerId>,
    pub(super) function: FunctionKey,
    pub(super) serving: Arc<Serving>,
    pub(super) run: Run,
}

impl Supervisor {
    /// Returns the number of the next worker.
    pub(super) fn next_worker(&mut self) -> WorkerId {
        let worker = WorkerId(self.next_worker);
        self.next_worker = self.next_worker.saturating_add(1);
        worker
    }

    /// Starts the first of a script's ready invocations. Its place in the budget is already taken.
    pub(super) fn start(&mut self, now: Now, key: FunctionKey, serving: Arc<Serving>, out: &mut Vec<Action>) {
        let function = &mut self.functions[key];
        let Some(invocation) = function.queue.take_ready() else {
            self.node.give_back(function);
            return;
        };
        let id = self.next_worker();
        let Some((run, order)) = self.begin(now, invocation, (id, &serving, None), out) else {
            return;
        };
        let deadline = self
            .invocations
            .get(&invocation)
            .and_then(|invocation| invocation.deadline);
        let ends_at = [run.timeout_at, deadline.map(|deadline| deadline.at)];
        self.starts.began(id);
        let function = &mut self.functions[key];
        function.running.insert(id);
        out.push(Action::Spawn(Box::new(SpawnOrder {
            worker: id,
            function: function.name.clone(),
            id: serving.id,
            version: serving.version,
            rules: Arc::clone(&serving.rules),
            attempt: Some(order),
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
            phase: Phase::Starting,
            adopted: false,
            runs: vec![run],
        };
        self.workers.insert(id, worker);
        self.announce(key, out);
        self.claim_ahead(now, key, out);
    }

    /// Begins an invocation's next attempt in a worker; for a handler as a call.
    pub(super) fn begin(
        &mut self,
        now: Now,
        id: InvocationId,
        (worker, serving, call): (WorkerId, &Serving, Option<(u64, bool)>),
        out: &mut Vec<Action>,
    ) -> Option<(Run, AttemptOrder)> {
        let invocation = self.invocations.get_mut(&id)?;
        // The place in the queue depends on the number of attempts, so the stage changes first.
        let queue = &mut self.functions[invocation.function].queue;
        queue.change(invocation, Stage::Running { worker });
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
        invocation.started.get_or_insert(Started {
            unix_ms: now.unix_ms,
            at: now.mono,
            before: Duration::ZERO,
        });
        let timeout = [serving.rules.timeout, invocation.timeout].into_iter().flatten().min();
        let timeout_at = timeout.map(|timeout| now.mono.saturating_add(timeout));
        let ends = [
            timeout_at.map(|at| on_wall(now, at)),
            invocation.deadline.map(|deadline| deadline.unix_ms),
        ];
        let attempt = Attempt(invocation.attempts);
        let function = &mut self.functions[invocation.function];
        function.busy += 1;
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

    /// Handles a worker that ended and whose leaf is empty. An unknown worker ended twice, or with its spawner.
    pub(super) fn exited(&mut self, now: Now, exited: &Exited, out: &mut Vec<Action>) {
        let id = exited.worker;
        self.room_was_made();
        let Some(mut worker) = self.take_worker(id) else {
            out.push(Action::Forget(id));
            return;
        };
        if let WorkerKind::Member(_) = worker.kind {
            return self.member_exited(now, worker, exited, out);
        }
        let adopted = worker.adopted;
        if let Some((_, lasted)) = exited.late.filter(|_| !adopted) {
            self.ended_by_spawner(&mut worker, lasted);
        }
        for run in std::mem::take(&mut worker.runs) {
            let verdict = Verdict::of(&worker.serving.rules, &run, exited);
            let ended = Ended {
                late: exited.late,
                ..Ended::new(verdict, exited.usage, exited.result.clone())
            };
            let (function, serving) = (worker.function, Arc::clone(&worker.serving));
            let done = Done {
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
        match worker.kind {
            WorkerKind::Member(_) => return self.never_ready(now, (id, &worker), (Reason::Spawn, message), out),
            WorkerKind::Script => self.count_start_failure(now, worker.function, &worker.serving),
            // Each failed run of a service is counted when it has ended.
            WorkerKind::Service(_) => {}
        }
        for run in std::mem::take(&mut worker.runs) {
            let verdict = Verdict::without_exit(&worker.serving.rules, &run, Reason::Spawn, message.clone());
            let (function, serving) = (worker.function, Arc::clone(&worker.serving));
            let done = Done {
                worker: None,
                function,
                serving,
                run,
            };
            self.attempt_ended(now, done, Ended::new(verdict, Usage::default(), None), out);
        }
    }

    /// Handles the loss of the spawner, and with it of every worker.
    pub(super) fn spawner_lost(&mut self, now: Now, out: &mut Vec<Action>) {
        self.spawner = false;
        self.release_claims(out);
        while let Some(id) = self.workers.keys().next().copied() {
            let Some(worker) = self.take_worker(id) else { return };
            for run in worker.runs {
                let message = "fnd-spawner went down during the attempt".to_owned();
                let verdict = Verdict::without_exit(&worker.serving.rules, &run, Reason::Interrupted, message);
                let done = Done {
                    worker: Some(id),
                    function: worker.function,
                    serving: Arc::clone(&worker.serving),
                    run,
                };
                self.attempt_ended(now, done, Ended::new(verdict, Usage::default(), None), out);
            }
        }
    }

    pub(super) fn take_worker(&mut self, id: WorkerId) -> Option<Worker> {
        self.out_of_service(id);
        let worker = self.workers.remove(&id)?;
        if let WorkerKind::Service(Readiness { check_at: Some(at), .. }) = worker.kind {
            self.timers.disarm(at, Timer::ServiceCheck(id));
        }
        if let Some(at) = worker.phase.timer() {
            self.timers.disarm(at, Timer::Worker(id));
        }
        for run in &worker.runs {
            self.run_over(id, worker.function, run);
        }
        let function = &mut self.functions[worker.function];
        function.running.remove(&id);
        self.node.give_back(function);
        Some(worker)
    }

    /// Removes an attempt that is over from the timers and counts.
    pub(super) fn run_over(&mut self, id: WorkerId, function: FunctionKey, run: &Run) {
        if let Some(at) = run.timeout_at {
            self.timers.disarm(at, Timer::Attempt(id, run.invocation));
        }
        let function = &mut self.functions[function];
        function.busy = function.busy.saturating_sub(1);
    }

    pub(super) fn attempt_ended(&mut self, now: Now, done: Done, ended: Ended, out: &mut Vec<Action>) {
        let Ended {
            verdict,
            usage,
            result,
            late,
        } = ended;
        let Done {
            worker,
            function,
            serving,
            run,
        } = done;
        let at_once = (Duration::ZERO, now.mono.saturating_sub(run.started.mono));
        let (ago, lasted) = late.unwrap_or(at_once);
        let ago_ms = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
        let record = AttemptRecord {
            invocation: run.invocation,
            function: self.functions[function].name.clone(),
            attempt: run.attempt,
            poll: run.poll,
            worker,
            version: Some(serving.version),
            started_ms: run.started.unix_ms,
            ended_ms: now.unix_ms.saturating_sub(ago_ms).max(run.started.unix_ms),
            duration_us: u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX),
            reason: verdict.reason,
            message: verdict.message,
            exit_code: verdict.exit_code,
            signal: verdict.signal,
            usage,
            next_attempt_ms: None,
            cold: run.call.map(|(_, cold)| cold),
        };
        if worker.is_some() {
            self.functions[function].durations.push(record.duration_us);
        }
        self.conclude(now, &serving, (record, result), out);
        self.announce(function, out);
        self.line_up(now, function);
    }

    /// Records an ended attempt and decides what becomes of its invocation, by the rules of the version that ran.
    pub(super) fn conclude(
        &mut self,
        now: Now,
        serving: &Serving,
        (mut record, result): (AttemptRecord, Option<RunResult>),
        out: &mut Vec<Action>,
    ) {
        let id = record.invocation;
        let Some(invocation) = self.invocations.get_mut(&id) else {
            let defect = format!(
                "attempt {} of {id} ended, but there is no such invocation",
                record.attempt.0
            );
            out.push(Action::Notice(Notice::Defect(defect)));
            return;
        };
        let key = invocation.function;
        if record.attempt.0 < invocation.attempts {
            // The previous fnd started the next attempt, then went down before this end was on disk.
            let function = &mut self.functions[key];
            book(function, &record, invocation.trigger, result);
            let stands = Box::new(invocation.record(&function.name));
            out.push(Action::Record(Box::new(record), stands));
            return;
        }
        invocation.last = Some((record.reason, record.message.clone()));
        // A poll without a result keeps the result of the poll before it.
        if record.reason == Reason::ExecuteAgain && result.is_some() {
            invocation.previous.clone_from(&result);
        }
        match self.next(now, serving, &record) {
            Next::Again(at) => {
                let unix_ms = on_wall(now, at);
                record.next_attempt_ms = Some(unix_ms);
                let function = &mut self.functions[key];
                if let Some(invocation) = self.invocations.get_mut(&id) {
                    book(function, &record, invocation.trigger, result);
                    let stage = Stage::BackingOff { until: at, unix_ms };
                    function.queue.change(invocation, stage);
                    let stands = Box::new(invocation.record(&function.name));
                    out.push(Action::Record(Box::new(record), stands));
                }
                out.push(Action::Status(function.name.clone()));
                self.timers.arm(at, Timer::Begin(id));
                if !self.phase.is_serving() {
                    self.send_away(id, true, out);
                }
            }
            Next::End(exhausted) => {
                // If the deadline cut the attempt short, the invocation ran out of its deadline, as if a retry no
                // longer fitted.
                let cut = (record.reason == Reason::Deadline).then_some(Exhausted::Deadline);
                let exhausted = exhausted.or(cut);
                let end = End {
                    reason: record.reason,
                    message: record.message.clone(),
                    exhausted,
                    attempt: Some(Box::new((record, result))),
                };
                self.finish(now, id, end, out);
            }
        }
    }

    fn next(&mut self, now: Now, serving: &Serving, record: &AttemptRecord) -> Next {
        let Some(invocation) = self.invocations.get(&record.invocation) else {
            return Next::End(None);
        };
        let function = &self.functions[invocation.function];
        let Some(newest) = function.serving().filter(|_| function.is_enabled()) else {
            return Next::End(None);
        };
        // Each run of a service is an invocation with one attempt.
        if serving.rules.kind.is_service() {
            return Next::End(None);
        }
        // The run of a content by itself is not retried once other content serves: that content has its own run.
        let superseded = invocation.load_key.is_some_and(|content| content != newest.load_key);
        // A caller who waits could not be answered after a retry that only the next fnd makes.
        let unanswerable = !invocation.durable && (invocation.caller_gone || !self.phase.is_serving());
        if superseded || unanswerable {
            return Next::End(None);
        }
        let before_deadline = |at| invocation.deadline.is_none_or(|deadline| at < deadline.at);
        let class = record.reason.class();
        if let (Class::ExecuteAgain, Some(poll)) = (class, serving.rules.poll) {
            let at = now.mono.saturating_add(poll.repeat);
            return if invocation
                .started
                .is_some_and(|started| started.elapsed(at) > poll.until)
            {
                Next::End(Some(Exhausted::Poll))
            } else if before_deadline(at) {
                Next::Again(at)
            } else {
                Next::End(Some(Exhausted::Deadline))
            };
        }
        let retry = &serving.rules.retry;
        let never = matches!(
            class,
            Class::Success | Class::Failed | Class::Cancelled | Class::Deadline
        );
        // The exit code counts only where it is the reason. After a timeout it says only how the program reacted to
        // SIGTERM.
        let by_code = matches!(class, Class::Error | Class::Transient);
        let excepted = by_code && record.exit_code.is_some_and(|code| retry.not_on_exit.contains(&code));
        if never || excepted || !retry.on.contains(&class) {
            return Next::End(None);
        }
        if invocation.retries() >= retry.retries {
            return Next::End((retry.retries > 0).then_some(Exhausted::Retries));
        }
        let delay = retry.backoff.delay(invocation.retries() + 1, self.random.f64());
        let at = now.mono.saturating_add(delay);
        if before_deadline(at) {
            Next::Again(at)
        } else {
            Next::End(Some(Exhausted::Deadline))
        }
    }

    /// Ends an invocation: writes its one final record, with the attempt that ended with it if there was one.
    pub(super) fn finish(&mut self, now: Now, id: InvocationId, mut end: End, out: &mut Vec<Action>) {
        let attempt = end.attempt.take();
        let Some(invocation) = self.remove_invocation(id) else {
            return;
        };
        let function = &mut self.functions[invocation.function];
        // Without a last attempt, the result is the one of the attempt before.
        let result = match attempt.as_deref() {
            Some((_, result)) => result.clone(),
            None => invocation.previous.clone(),
        };
        let lasted = attempt.as_deref().map_or(Duration::ZERO, |(attempt, _)| {
            Duration::from_micros(attempt.duration_us)
        });
        let over = (end.reason, lasted);
        let key = invocation.function;
        let holds = invocation.holds_place();
        let record = Box::new(invocation.ended(&function.name, now, end, result));
        debug_assert!(record.state.is_final(), "{:?}", record.state);
        if let Some(ended) = attempt {
            let (attempt, result) = *ended;
            book(function, &attempt, invocation.trigger, result);
            out.push(Action::Record(Box::new(attempt), record.clone()));
            out.push(Action::Status(function.name.clone()));
        } else {
            out.push(Action::Update(record.clone()));
        }
        for reply in invocation.waiters {
            out.push(Action::Reply(reply, Box::new(Answer::Finished(record.clone()))));
        }
        if invocation.has_tmp {
            match function.id {
                Some(function) => out.push(Action::Release {
                    function,
                    invocation: id,
                }),
                // It ran under an earlier fnd, and its function is not installed yet.
                None => function.unreleased.push(id),
            }
        }
        if holds {
            self.line_up(now, key);
        }
        self.service_over(now, key, over, out);
    }

    /// Removes an invocation from the map and its queue and disarms its timers.
    pub(super) fn remove_invocation(&mut self, id: InvocationId) -> Option<Invocation> {
        let invocation = self.invocations.remove(&id)?;
        let function = &mut self.functions[invocation.function];
        function.queue.remove(&invocation);
        if invocation.holds_place() {
            self.node.give_back(function);
        }
        if let Some(deadline) = invocation.deadline {
            self.timers.disarm(deadline.at, Timer::Deadline(id));
        }
        if let Some(at) = invocation.expires {
            self.timers.disarm(at, Timer::Expire(id));
        }
        if let Stage::Delayed { until } | Stage::BackingOff { until, .. } = invocation.stage {
            self.timers.disarm(until, Timer::Begin(id));
        }
        Some(invocation)
    }
}

/// Counts an attempt and keeps it as its function's last.
fn book(function: &mut Function, record: &AttemptRecord, trigger: Trigger, result: Option<RunResult>) {
    function.runs = function.runs.saturating_add(1);
    if record.reason.final_state() != State::Succeeded {
        function.failures = function.failures.saturating_add(1);
    }
    function.last = Some(Box::new(LastAttempt {
        attempt: record.clone(),
        trigger,
        result: result.filter(|result| result.data.len() <= LAST_RESULT_MAX),
    }));
}
