//! Hands invocations to ready workers as calls, handles the answers and handles workers that end without an answer.

use super::Supervisor;
use super::attempt::{EndFacts, EndedAttempt};
use crate::messages::Now;
use crate::messages::action::{Action, CallOrder};
use crate::messages::event::{Answered, Exited};
use crate::records::Usage;
use crate::records::outcome::Reason;
use crate::run_state::queue::First;
use crate::run_state::verdict::AttemptVerdict;
use crate::run_state::worker::{Worker, WorkerKind, WorkerPhase};
use crate::run_state::{FunctionKey, failure_message, to_usize};
use fnd_wire::ids::{InvocationId, WorkerId};
use std::sync::Arc;
use std::time::Duration;

impl Supervisor {
    /// Hands a function's ready invocations to its free workers. The worker used last comes first, so that the others
    /// become idle and can be stopped.
    pub(super) fn serve(&mut self, now: Now, key: FunctionKey, out: &mut Vec<Action>) {
        self.claim_next(now, key, out);
        loop {
            let function = &self.functions[key];
            let Some(serving) = function.serving().filter(|_| function.is_enabled()).cloned() else {
                return;
            };
            // There may be more workers than places, because fresh workers wait for the next call.
            let room = function.work.busy < to_usize(serving.rules.places());
            let Some(worker) = self.next_free(key).filter(|_| room) else {
                return;
            };
            if !self.group_has_room(key) {
                return self.wait_for_group(key);
            }
            let Some(invocation) = self.functions[key].queue.take_ready() else {
                return;
            };
            self.call(now, worker, invocation, out);
            self.claim_ahead(now, key, out);
        }
    }

    /// Claims the invocations at the head of the queue that could be called now. Until they are claimed the free
    /// workers may serve others, so that an invocation that needs no disk never waits for one.
    fn claim_next(&mut self, now: Now, key: FunctionKey, out: &mut Vec<Action>) {
        let function = &self.functions[key];
        if !self.claim_rate.may_claim() || !function.queue.has_unclaimed() || !function.is_enabled() {
            return;
        }
        let Some(serving) = function.serving() else { return };
        let slots = |id: &WorkerId| {
            let worker = self.workers.get(id)?;
            let concurrency = to_usize(worker.member()?.concurrency);
            Some(concurrency.saturating_sub(worker.runs.len()))
        };
        let free: usize = function.all_free().filter_map(slots).sum();
        let open = free.min(to_usize(serving.rules.places()).saturating_sub(function.work.busy));
        while self.functions[key].queue.claiming() < open
            && matches!(self.functions[key].queue.first(true), Some(First::Unclaimed))
            && self.group_has_room(key)
        {
            // A call needs no place in the budget of the node: its worker has one.
            self.claim(now, key, false, out);
        }
    }

    fn call(&mut self, now: Now, id: WorkerId, invocation: InvocationId, out: &mut Vec<Action>) {
        self.next_call += 1;
        let call = self.next_call;
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let (key, serving) = (worker.function, Arc::clone(&worker.serving));
        let WorkerKind::Member(member) = &mut worker.kind else {
            return;
        };
        // Only the first call of a worker can have waited for the worker's start.
        let cold = member.cold && member.served == 0;
        member.served = member.served.saturating_add(1);
        let pool = &member.pool;
        // Where fresh workers are kept ready, each worker serves one call only.
        let worn = pool.spare.is_some() || (pool.max_invocations > 0 && member.served >= pool.max_invocations);
        member.retiring |= worn;
        let full = worker.runs.len() + 1 >= to_usize(member.concurrency);
        if worn || full {
            self.out_of_service(id);
        }
        self.functions[key].begins_with(serving.version);
        let Some((run, order)) = self.begin(now, invocation, (id, &serving, Some((call, cold))), out) else {
            return;
        };
        out.push(Action::Call(Box::new(CallOrder {
            worker: id,
            call,
            function: self.functions[key].name.clone(),
            rules: Arc::clone(&serving.rules),
            attempt: order,
        })));
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.runs.push(run);
        }
        self.enter(id, WorkerPhase::Busy);
        self.functions[key].work.last_call = Some(now.mono);
        self.line_up(now, key);
        self.announce(key, out);
    }

    /// Handles a worker's answer.
    pub(super) fn answered(&mut self, now: Now, answered: Answered, out: &mut Vec<Action>) {
        let id = answered.worker;
        // The worker is gone, and its attempts have ended with it.
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let at = worker
            .runs
            .iter()
            .position(|run| run.call.is_some_and(|(call, _)| call == answered.call));
        let Some(at) = at else {
            // The end of a dropped call was recorded when the call was cancelled, so its late answer changes nothing.
            if worker.is_dropped(answered.call) {
                return;
            }
            let message = format!("it answered call {}, which it did not have", answered.call);
            return self.broken(now, id, message, out);
        };
        let is_ending = worker.runs.get(at).is_none_or(|run| run.ending.is_some());
        if is_ending && worker.phase != WorkerPhase::Busy {
            // The answer is too late: the call ends with its worker.
            return;
        }
        let run = worker.runs.remove(at);
        // The end of a request whose connection fnd has closed is no answer of the worker.
        if let (false, WorkerKind::Member(member)) = (is_ending, &mut worker.kind) {
            member.answered_at = Some(now.mono);
        }
        let (function, serving, adopted) = (worker.function, Arc::clone(&worker.serving), worker.adopted);
        self.run_over(id, (function, &serving), &run);
        let ended = EndFacts::of_answer(&serving.rules, &run, answered);
        let done = EndedAttempt {
            worker: Some(id),
            function,
            serving,
            run,
        };
        if let Some((done, ended)) = self.keep_early(adopted, done, ended) {
            self.attempt_ended(now, done, ended, out);
        }
        self.after_call(now, id, out);
    }

    /// Decides after a call whether its worker takes further calls.
    pub(super) fn after_call(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let (key, started, empty) = (worker.function, worker.started, worker.runs.is_empty());
        let version = worker.serving.version;
        let (WorkerPhase::Busy, WorkerKind::Member(member)) = (worker.phase, &mut worker.kind) else {
            return;
        };
        let aged = member.pool.age_over(started).is_some_and(|at| at <= now.mono);
        member.retiring |= aged;
        let retiring = member.retiring;
        if empty {
            self.rest(now, id, out);
        } else if !retiring {
            let free = self.functions[key].free_of(version);
            if !free.contains(&id) {
                free.push(id);
                self.line_up(now, key);
            }
        } else {
            self.out_of_service(id);
        }
    }

    /// Handles a worker that reports that its code could not be loaded; it is about to end.
    pub(super) fn load_failed(&mut self, now: Now, id: WorkerId, message: String, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        // A worker that was told to stop while it loaded may still send this report.
        let loading = matches!(worker.phase, WorkerPhase::Loading { .. } | WorkerPhase::Leaving { .. });
        let rules = Arc::clone(&worker.serving.rules);
        let Some(member) = worker.member_mut().filter(|member| loading && !member.ready) else {
            return self.broken(
                now,
                id,
                "it reported that it cannot serve, but had reported before that it is ready".to_owned(),
                out,
            );
        };
        member.load_error = Some(failure_message::of_code(&rules, message));
        // The worker ends by itself. If it does not, it gets SIGTERM after the grace.
        let until = now.mono.saturating_add(worker.serving.rules.grace);
        self.enter(id, WorkerPhase::Leaving { until });
    }

    /// Handles a worker whose code was not loaded in time.
    pub(super) fn not_ready(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        if let Some(member) = worker.member_mut() {
            let limit = fnd_wire::units::print_duration(member.pool.load_max);
            let why = member
                .waits_for
                .take()
                .map(|why| format!(": {why}"))
                .unwrap_or_default();
            member.load_error = Some(failure_message::bounded(format!(
                "it was not ready within {limit}{why}"
            )));
        }
        self.terminate(now, id, out);
    }

    /// Keeps why a readiness probe failed. The reason is used only if the worker is not ready in time.
    pub(super) fn not_ready_yet(&mut self, id: WorkerId, why: String) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        match &mut worker.kind {
            WorkerKind::Member(member) => member.waits_for = Some(why),
            WorkerKind::Service(readiness) => readiness.waits_for = Some(why),
            // Scripts have no readiness probe.
            WorkerKind::Script => {}
        }
    }

    /// Handles a worker that closed its end of the connection: it exits by itself, or is terminated after the grace.
    pub(super) fn closed(&mut self, now: Now, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        if let (
            WorkerPhase::Loading { .. } | WorkerPhase::Idle { .. } | WorkerPhase::Busy,
            WorkerKind::Member(member),
        ) = (worker.phase, &mut worker.kind)
        {
            member.broken = Some("it closed descriptor 3".to_owned());
            member.retiring = true;
            let until = now.mono.saturating_add(worker.serving.rules.grace);
            self.enter(id, WorkerPhase::Leaving { until });
            self.out_of_service(id);
        }
    }

    /// Handles a worker that broke the protocol: it is killed, since its messages cannot be trusted any more.
    pub(super) fn broken(&mut self, now: Now, id: WorkerId, message: String, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let WorkerKind::Member(member) = &mut worker.kind else {
            return;
        };
        member.broken.get_or_insert(message);
        member.retiring = true;
        match worker.phase {
            WorkerPhase::Loading { .. }
            | WorkerPhase::Idle { .. }
            | WorkerPhase::Busy
            | WorkerPhase::Leaving { .. }
            | WorkerPhase::Terminating { .. } => {
                self.kill(now, id, out);
            }
            // A starting worker has no process to kill yet: `retiring` has it stopped once it is started. The others
            // are ending.
            WorkerPhase::Starting | WorkerPhase::Killed { .. } | WorkerPhase::Over => {}
        }
    }

    /// Handles the end of a handler's worker, with all its calls.
    pub(super) fn member_exited(&mut self, now: Now, mut worker: Worker, exited: &Exited, out: &mut Vec<Action>) {
        let id = exited.worker;
        let fenced_at = self.fenced_by_spawner(&mut worker, exited);
        for run in std::mem::take(&mut worker.runs) {
            let verdict = AttemptVerdict::of_call(&worker, &run, exited);
            let usage = Usage {
                scope_worker: true,
                ..exited.usage
            };
            let since = |at: Duration| (now.mono.saturating_sub(at), at.saturating_sub(run.started.mono));
            let mut ended = EndFacts::new(verdict, usage, None);
            ended.late = fenced_at.map(since);
            let done = EndedAttempt {
                worker: Some(id),
                function: worker.function,
                serving: Arc::clone(&worker.serving),
                run,
            };
            if let Some((done, ended)) = self.keep_early(worker.adopted, done, ended) {
                self.attempt_ended(now, done, ended, out);
            }
        }
        if worker.member().is_some_and(|member| !member.ready) {
            let message = AttemptVerdict::of_load(&worker, exited);
            self.never_ready(now, (id, &worker), (Reason::Load, message), out);
        }
        out.push(Action::Forget(id, Some(self.functions[worker.function].name.clone())));
        self.line_up(now, worker.function);
    }

    /// Handles a worker that ended before it was ready: a trial of a new version fails; otherwise the first waiting
    /// invocation fails with the reason.
    pub(super) fn never_ready(
        &mut self,
        now: Now,
        (id, worker): (WorkerId, &Worker),
        (reason, message): (Reason, String),
        out: &mut Vec<Action>,
    ) {
        let key = worker.function;
        let function = &mut self.functions[key];
        // The end of a worker that was retired before it was ready is no failure.
        let is_retired = worker
            .member()
            .is_some_and(|member| member.retiring && member.load_error.is_none() && member.broken.is_none());
        if let Some(candidate) = function
            .candidate
            .as_mut()
            .filter(|candidate| candidate.worker == Some(id))
        {
            // fnd ended the worker, so the version has not failed its trial: another worker tries it.
            if is_retired {
                (candidate.worker, candidate.wanted) = (None, true);
                return;
            }
            out.push(Action::Status(function.name.clone()));
            let what = if reason == Reason::Load { "loaded" } else { "started" };
            self.trial_failed(now, key, (what, &message));
            return;
        }
        if is_retired {
            return;
        }
        // No invocation waits for a canary, so none fails with the canary's worker.
        if function.is_canary(worker.serving.version) {
            return self.canary_not_ready(key, out);
        }
        self.count_start_failure(now, key, &worker.serving);
        let function = &mut self.functions[key];
        let Some(invocation) = function.queue.take_first() else {
            self.announce(key, out);
            return;
        };
        let serving = &worker.serving;
        // The failure becomes an attempt of the invocation, so that retries and history count it. The numbers of real
        // calls begin at 1, so 0 is none of them.
        let begun = self.begin(now, invocation, (id, serving, Some((0, true))), out);
        let Some((run, _)) = begun else { return };
        self.run_over(id, (key, serving), &run);
        let done = EndedAttempt {
            worker: Some(id),
            function: key,
            serving: Arc::clone(serving),
            run,
        };
        self.attempt_ended(now, done, EndFacts::of_call((reason, message), None), out);
    }
}
