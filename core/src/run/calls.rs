//! Hands invocations to ready workers as calls, handles the answers and handles workers that end without an answer. It also ends one
//! of several calls of a worker, because of a cancel or a limit, while the others go on:
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
use crate::messages::action::{Action, CallOrder};
use crate::messages::end_cause::EndCause;
use crate::messages::event::{Answered, Exited};
use crate::records::outcome::Reason;
use crate::run_state::timers::Timer;
use crate::run_state::verdict::AttemptVerdict;
use crate::run_state::worker::{Worker, WorkerKind, WorkerPhase};
use crate::run_state::{FunctionKey, failure_message, to_usize};
use fnd_wire::ids::{InvocationId, WorkerId};
use std::sync::Arc;

impl Supervisor {
    /// Hands a function's ready invocations to its free workers. The worker used last comes first, so that the others
    /// become idle and can be stopped.
    pub(super) fn serve(&mut self, key: FunctionKey) {
        self.claim_next(key);
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
            let Some(invocation) = self.functions[key].work.queue.take_ready() else {
                return;
            };
            self.call(worker, invocation);
            self.claim_ahead(key);
        }
    }

    /// Claims the invocations at the head of the queue that could be called now. Until they are claimed the free
    /// workers may serve others, so that an invocation that needs no disk never waits for one.
    fn claim_next(&mut self, key: FunctionKey) {
        let function = &self.functions[key];
        if !self.claim_rate.may_claim() || function.work.queue.first_unclaimed().is_none() || !function.is_enabled() {
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
        while self.functions[key].work.queue.claiming() < open
            && self.functions[key].work.queue.is_first_unclaimed()
            && self.group_has_room(key)
        {
            // A call needs no place in the budget of the node: its worker has one.
            self.claim(key, false);
        }
    }

    fn call(&mut self, id: WorkerId, invocation: InvocationId) {
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
        let Some((run, order)) = self.begin(invocation, id, &serving, Some((call, cold))) else {
            return;
        };
        self.out.push(Action::Call(Box::new(CallOrder {
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
        self.functions[key].work.last_call = Some(self.now.mono);
        self.line_up(key);
        self.announce(key);
    }

    /// Handles a worker's answer.
    pub(super) fn answered(&mut self, answered: Answered) {
        let id = answered.worker;
        // The worker is gone, and its attempts have ended with it.
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let mut calls = worker.runs.iter().map(|run| run.call.map(|(call, _)| call));
        let Some(at) = calls.position(|call| call == Some(answered.call)) else {
            // The end of a dropped call was recorded when the call was cancelled, so its late answer changes nothing.
            if worker.is_dropped(answered.call) {
                return;
            }
            let message = format!("it answered call {}, which it did not have", answered.call);
            return self.broken(id, message);
        };
        let is_ending = worker.runs.get(at).is_none_or(|run| run.ending.is_some());
        if is_ending && worker.phase != WorkerPhase::Busy {
            // The answer is too late: the call ends with its worker.
            return;
        }
        let run = worker.runs.remove(at);
        // The end of a request whose connection fnd has closed is no answer of the worker.
        if let (false, WorkerKind::Member(member)) = (is_ending, &mut worker.kind) {
            member.answered_at = Some(self.now.mono);
        }
        let verdict = AttemptVerdict::of_answer(&worker.serving.rules, &run, answered);
        let ended = EndedAttempt::new(Some(id), worker, run, verdict);
        self.call_ended(id, ended);
    }

    /// Records a call that has ended, and decides whether its worker takes further calls.
    pub(super) fn call_ended(&mut self, id: WorkerId, ended: EndedAttempt) {
        self.run_over(id, ended.function, &ended.serving, &ended.run);
        self.attempt_ended(ended);
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let (key, started, empty) = (worker.function, worker.started, worker.runs.is_empty());
        let version = worker.serving.version;
        let (WorkerPhase::Busy, WorkerKind::Member(member)) = (worker.phase, &mut worker.kind) else {
            return;
        };
        let aged = member.pool.age_over(started).is_some_and(|at| at <= self.now.mono);
        member.retiring |= aged;
        let retiring = member.retiring;
        if empty {
            self.rest(id);
        } else if !retiring {
            let free = self.functions[key].free_of(version);
            if !free.contains(&id) {
                free.push(id);
                self.line_up(key);
            }
        } else {
            self.out_of_service(id);
        }
    }

    /// Handles a worker that reports that its code could not be loaded; it is about to end.
    pub(super) fn load_failed(&mut self, id: WorkerId, message: String) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        // A worker that was told to stop while it loaded may still send this report.
        let loading = matches!(worker.phase, WorkerPhase::Loading { .. } | WorkerPhase::Leaving { .. });
        let rules = Arc::clone(&worker.serving.rules);
        let Some(member) = worker.member_mut().filter(|member| loading && !member.ready) else {
            return self.broken(
                id,
                "it reported that it cannot serve, but had reported before that it is ready".to_owned(),
            );
        };
        member.load_error = Some(failure_message::of_code(&rules, message));
        // The worker ends by itself. If it does not, it gets SIGTERM after the grace.
        let until = self.now.mono.saturating_add(worker.serving.rules.grace);
        self.enter(id, WorkerPhase::Leaving { until });
    }

    /// Handles a worker whose code was not loaded in time.
    pub(super) fn not_ready(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let why = worker.waits_for.take();
        if let Some(member) = worker.member_mut() {
            let limit = fnd_wire::units::print_duration(member.pool.load_max);
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            let error = format!("it was not ready within {limit}{why}");
            member.load_error = Some(failure_message::bounded(error));
        }
        self.terminate(id);
    }

    /// Keeps why a readiness probe failed. The reason is used only if the worker is not ready in time.
    pub(super) fn not_ready_yet(&mut self, id: WorkerId, why: String) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.waits_for = Some(why);
        }
    }

    /// Handles a worker that closed its end of the connection: it exits by itself, or is terminated after the grace.
    pub(super) fn closed(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let until = self.now.mono.saturating_add(worker.serving.rules.grace);
        if let (true, WorkerKind::Member(member)) = (worker.phase.goes_on(), &mut worker.kind) {
            member.broken = Some("it closed descriptor 3".to_owned());
            member.retiring = true;
            self.enter(id, WorkerPhase::Leaving { until });
            self.out_of_service(id);
        }
    }

    /// Handles a worker that broke the protocol: it is killed, since its messages cannot be trusted any more.
    pub(super) fn broken(&mut self, id: WorkerId, message: String) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let Some(member) = worker.member_mut() else { return };
        member.broken.get_or_insert(message);
        member.retiring = true;
        // A starting worker has no process to kill yet: `retiring` has it stopped once it is started.
        if worker.phase.can_be_killed() {
            self.kill(id);
        }
    }

    /// Handles the end of a handler's worker, with all its calls.
    pub(super) fn member_exited(&mut self, mut worker: Worker, exited: &Exited) {
        let id = exited.worker;
        let fenced_at = self.fenced_by_spawner(&mut worker, exited);
        for run in std::mem::take(&mut worker.runs) {
            let mut verdict = AttemptVerdict::of_call(&worker, &run, exited);
            verdict.late = fenced_at.map(|at| run.ended_at(at, self.now));
            self.attempt_ended(EndedAttempt::new(Some(id), &worker, run, verdict));
        }
        if worker.member().is_some_and(|member| !member.ready) {
            let message = AttemptVerdict::of_load(&worker, exited);
            self.never_ready(id, &worker, Reason::Load, message);
        }
        self.out
            .push(Action::Forget(id, Some(self.functions[worker.function].name.clone())));
        self.line_up(worker.function);
    }

    /// Handles a worker that ended before it was ready: a trial of a new version fails; otherwise the first waiting
    /// invocation fails with the reason.
    pub(super) fn never_ready(&mut self, id: WorkerId, worker: &Worker, reason: Reason, message: String) {
        let key = worker.function;
        let function = &mut self.functions[key];
        // The end of a worker that was retired before it was ready is no failure.
        let is_retired = worker
            .member()
            .is_some_and(|member| member.retiring && member.load_error.is_none() && member.broken.is_none());
        if let Some(candidate) = function.tried_with(id) {
            // fnd ended the worker, so the version has not failed its trial: another worker tries it.
            if is_retired {
                (candidate.worker, candidate.wanted) = (None, true);
                return;
            }
            self.out.push(Action::Status(function.name.clone()));
            let what = if reason == Reason::Load { "loaded" } else { "started" };
            self.trial_failed(key, what, &message);
            return;
        }
        if is_retired {
            return;
        }
        // No invocation waits for a canary, so none fails with the canary's worker.
        if function.is_canary(worker.serving.version) {
            return self.canary_not_ready(key);
        }
        self.count_start_failure(key, &worker.serving);
        let function = &mut self.functions[key];
        let Some(invocation) = function.work.queue.take_first() else {
            self.announce(key);
            return;
        };
        let serving = &worker.serving;
        // The failure becomes an attempt of the invocation, so that retries and history count it. The numbers of real
        // calls begin at 1, so 0 is none of them.
        let begun = self.begin(invocation, id, serving, Some((0, true)));
        let Some((run, _)) = begun else { return };
        self.run_over(id, key, serving, &run);
        let verdict = AttemptVerdict::of_call_alone(reason, message, None);
        self.attempt_ended(EndedAttempt {
            // This attempt is of this fnd, also if an earlier one started the worker.
            adopted: false,
            ..EndedAttempt::new(Some(id), worker, run, verdict)
        });
    }

    /// Ends one call of a worker that has others.
    pub(super) fn end_one_call(&mut self, id: WorkerId, invocation: InvocationId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let until = self.now.mono.saturating_add(worker.serving.rules.grace);
        let Some(member) = worker.member() else { return };
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
        let ended = run.ended_by_fnd(&worker.serving.rules);
        let words = ended.map(|(_, words)| words).unwrap_or_default();
        let message = format!("{words}; {why}, so its code may run on in {id} until that has ended its other calls");
        let verdict = AttemptVerdict::of_call_alone(Reason::Cancelled, message, None);
        let ended = EndedAttempt::new(Some(id), worker, run, verdict);
        // The output of the call must be complete before its record is written.
        self.out.push(Action::DropCall { worker: id, call });
        self.call_ended(id, ended);
    }
}
