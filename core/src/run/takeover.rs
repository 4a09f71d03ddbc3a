//! Takes over workers that an earlier fnd started. Workers outlive fnd, and the spawner keeps an adoption record of
//! each.
//!
//! ```text
//! started: ScriptRecord -> spawner  fnd ends, or is killed          the next fnd: Restored { adopted, .. }
//!                                                                     │ the ledger has its end: Kill, then Forget
//!                                                                     │ its invocation goes on: Busy, or Terminating
//!                                                                     └ not in the ledger: as the adoption record says
//! ```
//! An attempt stays the same attempt under every fnd: its timeout counts from its start, and its end is recorded once.
//!
//! Workers of handlers are handed over at a planned restart only: each connection is left between two messages, and the
//! spawner keeps a record of the calls in flight. After a crash the state of a connection is unknown; then the worker is
//! killed.

use super::Supervisor;
use super::attempt::{EndFacts, EndedAttempt};
use crate::messages::Now;
use crate::messages::action::Action;
use crate::messages::adoption_records::{Adopted, AdoptedMember, CallRecord, MemberRecord, RunRecord};
use crate::messages::event::Restored;
use crate::records::cause::Cause;
use crate::records::outcome::Trigger;
use crate::records::{Accepted, Payload};
use crate::run_state::function::Presence;
use crate::run_state::invocation::{Invocation, InvocationStage};
use crate::run_state::run_record::{RunOrigin, ending_of_term, serving};
use crate::run_state::timers::Timer;
use crate::run_state::worker::{HandlerWorker, Run, Worker, WorkerKind, WorkerPhase};
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::frame::TermCause;
use fnd_wire::ids::{FunctionName, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// An end that waits until fnd knows whether its function still exists.
#[derive(Debug)]
pub(super) struct EarlyEnd {
    done: EndedAttempt,
    ended: EndFacts,
}

impl Supervisor {
    /// Returns the workers whose attempt has no stored end yet. The others are killed.
    pub(super) fn worth_adopting(&self, restored: &mut Restored, out: &mut Vec<Action>) -> Vec<Adopted> {
        let ended = &restored.ended;
        let is_over =
            |adopted: &mut Adopted| ended.contains(&(adopted.record.run.invocation, adopted.record.run.attempt));
        let mut adopted = std::mem::take(&mut restored.adopted);
        let over = adopted.extract_if(.., is_over);
        out.extend(over.map(|adopted| Action::Kill(adopted.worker)));
        adopted
    }

    /// Returns the workers of handlers that can go on: those with the rules of a pool and without a call whose end is
    /// stored. The others are killed.
    pub(super) fn members_worth_adopting(&self, restored: &mut Restored, out: &mut Vec<Action>) -> Vec<AdoptedMember> {
        let ended = &restored.ended;
        let is_over = |call: &CallRecord| ended.contains(&(call.run.invocation, call.run.attempt));
        let mut members = std::mem::take(&mut restored.members);
        let cannot_go_on = |member: &mut AdoptedMember| {
            member.record.rules.kind.pool().is_none() || member.record.calls.iter().any(is_over)
        };
        let over = members.extract_if(.., cannot_go_on);
        out.extend(over.map(|member| Action::Kill(member.worker)));
        members
    }

    /// Adds an invocation that only an adoption record mentions. Its caller, who waited on a connection, is gone, and
    /// so is its payload.
    fn insert_adopted(&mut self, now: Now, key: FunctionKey, origin: &RunOrigin) {
        let number = self.next_number();
        self.insert_invocation(Invocation {
            id: origin.run.invocation,
            function: key,
            trigger: origin.run.trigger,
            accepted_ms: origin.run.accepted_ms,
            payload: Payload {
                cause: origin.run.called.clone().map(|call| Arc::new(Cause::Call(call))),
                ..Payload::default()
            },
            load_key: None,
            timeout: None,
            deadline: origin.deadline(now),
            expires: None,
            priority: 0,
            number,
            stage: InvocationStage::Lost,
            durable: false,
            key: None,
            of_stream: false,
            order_key: None,
            queue_key: origin.run.queue_key.as_deref().map(Arc::from),
            acknowledge: Vec::new(),
            waiters: Vec::new(),
            caller_gone: true,
            attempts: 0,
            taken_over: None,
            polls: 0,
            started: None,
            last: None,
            version: None,
            previous: None,
            has_tmp: true,
        });
    }

    /// Sets an invocation to the state of its newest attempt, which runs in an adopted worker. Returns the attempt.
    pub(super) fn go_on(&mut self, now: Now, (worker, key): (WorkerId, FunctionKey), origin: &RunOrigin) -> Run {
        let run = origin.run;
        if !self.invocations.contains_key(&run.invocation) {
            self.insert_adopted(now, key, origin);
        }
        if let Some(invocation) = self.invocations.get_mut(&run.invocation)
            // The ledger may know a later attempt: it had begun before the end of this one was stored.
            && invocation.attempts <= run.attempt
        {
            // The place in the queue depends on the number of attempts, so the stage changes before that number.
            let queue = &mut self.functions[invocation.function].queue;
            queue.change(invocation, InvocationStage::Running { worker });
            invocation.attempts = run.attempt;
            invocation.polls = run.poll;
            invocation.version = Some(origin.version);
            let started = invocation.started.get_or_insert(origin.first(now));
            let deadline = origin.deadline(now);
            // The ledger has both times by the wall clock only.
            if run.times.is_some() {
                started.before = origin.first(now).before;
                let before = std::mem::replace(&mut invocation.deadline, deadline);
                if let Some(before) = before {
                    self.timers.disarm(before.at, Timer::Deadline(run.invocation));
                }
                if let Some(deadline) = deadline {
                    self.timers.arm(deadline.at, Timer::Deadline(run.invocation));
                }
            }
        }
        run.run(origin.started)
    }

    /// Gives an adopted call the caller that its adoption record names. The ledger may know of the call only that it has
    /// begun: its acceptance is stored a moment later, and the earlier fnd was killed before.
    fn adopt_parent(&mut self, run: &RunRecord, function: &FunctionName, out: &mut Vec<Action>) {
        let (Some(call), Some(invocation)) = (&run.called, self.invocations.get_mut(&run.invocation)) else {
            return;
        };
        if invocation.durable {
            return; // it was stored before it was accepted
        }
        let cause = Arc::new(Cause::Call(call.clone()));
        if invocation.payload.cause.is_none() {
            invocation.payload.cause = Some(Arc::clone(&cause));
            self.waited.add(invocation);
        }
        out.push(Action::StoreCaller(Box::new(Accepted {
            payload: Payload {
                cause: Some(cause),
                ..Payload::default()
            },
            durable: false,
            deadline_ms: run.deadline_ms,
            ..Accepted::new(run.invocation, function.clone(), run.trigger, run.accepted_ms)
        })));
    }

    /// Adopts a worker as if this fnd had started it.
    pub(super) fn adopt(&mut self, now: Now, adopted: Adopted, out: &mut Vec<Action>) {
        let Adopted {
            worker: id,
            mut record,
            age,
            termed,
            ended,
        } = adopted;
        let key = self.functions.find_or_add(&record.function);
        let ordered = record.run.ending.take();
        let origin = RunOrigin::new(&record.run, record.version, now, age);
        let started = origin.started;
        let mut run = self.go_on(now, (id, key), &origin);
        self.adopt_parent(&record.run, &record.function, out);
        let deadline = origin.deadline(now).map(|deadline| deadline.at);
        let mut phase = WorkerPhase::Busy;
        if let Some((ago, cause)) = termed {
            let at = now.mono.saturating_sub(ago);
            // The grace counts from the SIGTERM of the earlier fnd, not from the adoption.
            let kill_at = at.saturating_add(record.rules.grace);
            let cause = (cause, record.run.trigger);
            run.ending = Some(ending_of_term(cause, at, (run.timeout_at, deadline)));
            phase = WorkerPhase::Terminating { kill_at };
        }
        if ended {
            phase = WorkerPhase::Over;
        }
        // The attempt is over or is being ended, so its timeout does not count any more.
        if phase != WorkerPhase::Busy {
            run.timeout_at = None;
            // The earlier fnd may have told its callers this reason, also where its SIGTERM came too late or was not the
            // first one.
            run.ending = ordered.clone().or(run.ending);
        }
        if let Some(at) = run.timeout_at {
            self.timers.arm(at, Timer::Attempt(id, run.invocation));
        }
        let invocation = run.invocation;
        let worker = Worker {
            function: key,
            kind: WorkerKind::of_process(&record.rules.kind),
            serving: serving(record.id, (record.version, record.load_key), record.rules),
            started,
            phase,
            ended_at: None,
            adopted: true,
            ended_before: ended,
            runs: vec![run],
        };
        self.insert_adopted_worker(id, worker);
        // The earlier fnd was killed between the record and its SIGTERM.
        if let Some(ordered) = ordered.filter(|_| phase == WorkerPhase::Busy) {
            self.ask_to_end(now, (id, invocation), ordered, out);
        }
    }

    /// Adds a worker of an earlier fnd to the books of its function and of the node.
    pub(super) fn insert_adopted_worker(&mut self, id: WorkerId, worker: Worker) {
        if let Some(at) = worker.phase.timer() {
            self.timers.arm(at, Timer::Worker(id));
        }
        // A new worker must not get the number of an adopted one.
        self.next_worker = self.next_worker.max(id.0.saturating_add(1));
        let function = &mut self.functions[worker.function];
        function.id = Some(worker.serving.id);
        self.node.take_over(function, &worker.serving.rules);
        self.groups.take_over(worker.serving.group(), worker.runs.len());
        function.work.running.insert(id);
        function.work.busy += worker.runs.len();
        self.workers.insert(id, worker);
    }

    /// Marks the attempts of a worker that the spawner ended when its time was up, because this fnd was suspended or
    /// busy for long.
    pub(super) fn ended_by_spawner(&self, worker: &mut Worker, lasted: Duration) {
        let at = worker.started.mono.saturating_add(lasted);
        for run in &mut worker.runs {
            let timeout_at = run.timeout.map(|timeout| run.started.mono.saturating_add(timeout));
            let invocation = self.invocations.get(&run.invocation);
            let deadline = invocation.and_then(|invocation| Some(invocation.deadline?.at));
            let trigger = invocation.map_or(Trigger::Load, |invocation| invocation.trigger);
            let ending = ending_of_term((TermCause::TimeUp, trigger), at, (timeout_at, deadline));
            run.ending.get_or_insert(ending);
        }
    }

    /// Keeps the end of an adopted worker until the first scan has shown whether its function still exists, since that
    /// decides what follows. Returns an end that need not be kept.
    pub(super) fn keep_early(
        &mut self,
        adopted: bool,
        done: EndedAttempt,
        ended: EndFacts,
    ) -> Option<(EndedAttempt, EndFacts)> {
        let unknown = !matches!(self.functions[done.function].presence, Presence::Serving(_));
        if adopted && unknown && !self.scanned {
            self.early.push(EarlyEnd { done, ended });
            return None;
        }
        Some((done, ended))
    }

    /// Handles the kept ends: those of one function that is there now, or all.
    pub(super) fn release_early(&mut self, now: Now, of: Option<FunctionKey>, out: &mut Vec<Action>) {
        let is_due = |early: &mut EarlyEnd| of.is_none_or(|key| early.done.function == key);
        let due: Vec<EarlyEnd> = self.early.extract_if(.., is_due).collect();
        for EarlyEnd { done, ended } in due {
            self.attempt_ended(now, done, ended, out);
        }
    }

    /// Adopts a handler's worker as if this fnd had started it.
    pub(super) fn adopt_member(&mut self, now: Now, adopted: AdoptedMember) {
        let AdoptedMember {
            worker: id,
            record,
            age,
            ended,
            is_fenced,
        } = adopted;
        let Some(pool) = record.rules.kind.pool().copied() else {
            // `members_worth_adopting` returns no such worker.
            return;
        };
        let key = self.functions.find_or_add(&record.function);
        let runs: Vec<Run> = record
            .calls
            .iter()
            .map(|call| self.go_on_calling(now, (id, key), (&record, age), call))
            .collect();
        // A late answer to a call of the earlier fnd must never match a call of this one.
        self.next_call = self.next_call.max(record.last_call);
        let phase = match record.concurrency {
            _ if ended => WorkerPhase::Over,
            None => WorkerPhase::Loading {
                until: now.mono.saturating_add(pool.load_max),
            },
            Some(_) if !runs.is_empty() => WorkerPhase::Busy,
            Some(_) => WorkerPhase::Idle {
                since: now.mono,
                // The idle time starts anew.
                until: pool.idle_until(now.mono),
            },
        };
        let function = &mut self.functions[key];
        if !runs.is_empty() {
            function.work.last_call = Some(now.mono);
        }
        let concurrency = record.concurrency.unwrap_or(1);
        let takes_calls = !ended && !is_fenced && !record.retiring && record.concurrency.is_some();
        if takes_calls && runs.len() < to_usize(concurrency) {
            function.work.free.push(id);
        }
        let member = HandlerWorker {
            concurrency,
            cancels: record.cancels,
            dropped: record.dropped,
            served: record.served,
            ready: record.concurrency.is_some(),
            retiring: record.retiring,
            ..HandlerWorker::new(pool)
        };
        let worker = Worker {
            function: key,
            serving: serving(record.id, (record.version, record.load_key), record.rules),
            started: Now {
                mono: now.mono.saturating_sub(age),
                unix_ms: now.unix_ms,
            },
            phase,
            ended_at: None,
            adopted: true,
            // How one ended that was fenced is known: as if it had ended now.
            ended_before: ended && !is_fenced,
            runs,
            kind: WorkerKind::Member(Box::new(member)),
        };
        self.insert_adopted_worker(id, worker);
    }

    fn go_on_calling(
        &mut self,
        now: Now,
        (id, key): (WorkerId, FunctionKey),
        (record, worker_age): (&MemberRecord<'_>, Duration),
        call: &CallRecord,
    ) -> Run {
        let age = match call.run.times {
            Some(times) => worker_age.saturating_sub(times.started_after),
            None => Duration::from_millis(now.unix_ms.saturating_sub(call.run.started_ms)),
        };
        let origin = RunOrigin::new(&call.run, record.version, now, age);
        let mut run = self.go_on(now, (id, key), &origin);
        run.call = Some((call.call, call.cold));
        if let Some(ending) = &call.run.ending {
            // The grace starts anew.
            run.ending = Some(ending.clone());
            run.timeout_at = Some(now.mono.saturating_add(record.rules.grace));
        }
        if let Some(at) = run.timeout_at {
            self.timers.arm(at, Timer::Attempt(id, run.invocation));
        }
        run
    }

    /// Retires the workers of functions that were deleted while no fnd was running.
    pub(super) fn retire_deleted(&mut self, now: Now, out: &mut Vec<Action>) {
        let keys: Vec<_> = self.functions.keys().collect();
        for key in keys {
            if matches!(self.functions[key].presence, Presence::Absent) && !self.functions[key].work.running.is_empty()
            {
                self.retire_all(now, key, None, out);
            }
        }
    }
}
