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
use super::attempt::EndedAttempt;
use crate::messages::Now;
use crate::messages::action::Action;
use crate::messages::adoption_records::{Adopted, AdoptedMember, CallRecord, MemberRecord, RunRecord};
use crate::messages::event::Restored;
use crate::records::outcome::Trigger;
use crate::run_state::invocation::{Invocation, InvocationStage};
use crate::run_state::run_record::{ending_of_term, serving};
use crate::run_state::timers::Timer;
use crate::run_state::worker::{HandlerWorker, Run, Worker, WorkerKind, WorkerPhase};
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::frame::TermCause;
use fnd_wire::ids::{FunctionName, Version, WorkerId};
use std::sync::Arc;
use std::time::Duration;

impl Supervisor {
    /// Returns the workers that can go on: those without an attempt whose end is stored, and of those of handlers the ones with the
    /// rules of a pool. The others are killed.
    pub(super) fn worth_adopting(&mut self, restored: &mut Restored) -> (Vec<Adopted>, Vec<AdoptedMember>) {
        let mut adopted = std::mem::take(&mut restored.adopted);
        let mut members = std::mem::take(&mut restored.members);
        let is_over = |run: &RunRecord| restored.ended.contains(&(run.invocation, run.attempt));
        let over = adopted.extract_if(.., |adopted| is_over(&adopted.record.run));
        self.out.extend(over.map(|adopted| Action::Kill(adopted.worker)));
        for adopted in &mut adopted {
            let run = &adopted.record.run;
            if adopted.ended && restored.ended_by_themselves.contains(&(run.invocation, run.attempt)) {
                adopted.termed = None;
            }
        }
        let over = members.extract_if(.., |member| {
            let record = &member.record;
            record.rules.kind.pool().is_none() || record.calls.iter().any(|call| is_over(&call.run))
        });
        self.out.extend(over.map(|member| Action::Kill(member.worker)));
        (adopted, members)
    }

    /// Adds an invocation that only an adoption record mentions. Its caller, who waited on a connection, is gone, and
    /// so is its payload.
    fn insert_adopted(&mut self, key: FunctionKey, run: &RunRecord, started: Now) {
        let accepted = run.accepted(&self.functions[key].name);
        let invocation = Invocation {
            deadline: run.deadline(started),
            stage: InvocationStage::Lost,
            queue_key: run.queue_key.as_deref().map(Arc::from),
            caller_gone: true,
            has_tmp: true,
            ..Invocation::of(&accepted, key, self.next_number(), self.now)
        };
        self.insert_invocation(invocation);
    }

    /// Sets an invocation to the state of its newest attempt, which runs in an adopted worker and began `age` ago. Returns the
    /// attempt.
    fn go_on(
        &mut self,
        (worker, key): (WorkerId, FunctionKey),
        (run, version): (&RunRecord, Version),
        age: Duration,
    ) -> Run {
        let started = Now {
            mono: self.now.mono.saturating_sub(age),
            unix_ms: run.started_ms,
        };
        if !self.invocations.contains_key(&run.invocation) {
            self.insert_adopted(key, run, started);
        }
        if let Some(invocation) = self.invocations.get_mut(&run.invocation)
            // The ledger may know a later attempt: it had begun before the end of this one was stored.
            && invocation.attempts <= run.attempt
        {
            // The place in the queue depends on the number of attempts, so the stage changes before that number.
            let queue = &mut self.functions[invocation.function].work.queue;
            queue.change(invocation, InvocationStage::Running { worker });
            invocation.attempts = run.attempt;
            invocation.polls = run.poll;
            invocation.version = Some(version);
            // The ledger has both times by the wall clock only.
            let first = run.first(started, self.now);
            invocation.started.get_or_insert(first).before = first.before;
            let timer = Timer::Deadline(run.invocation);
            self.timers.disarm(invocation.deadline_at(), timer);
            invocation.deadline = run.deadline(started);
            self.timers.arm(invocation.deadline_at(), timer);
        }
        run.run(started)
    }

    /// Gives an adopted call the caller that its adoption record names. The ledger may know of the call only that it has
    /// begun: its acceptance is stored a moment later, and the earlier fnd was killed before.
    fn adopt_parent(&mut self, run: &RunRecord, function: &FunctionName) {
        let (Some(_), Some(invocation)) = (&run.called, self.invocations.get_mut(&run.invocation)) else {
            return;
        };
        if invocation.durable {
            return; // it was stored before it was accepted
        }
        let accepted = run.accepted(function);
        if invocation.payload.cause.is_none() {
            invocation.payload.cause.clone_from(&accepted.payload.cause);
            self.waited.add(invocation);
        }
        self.out.push(Action::StoreCaller(Box::new(accepted)));
    }

    /// Adopts a worker as if this fnd had started it.
    pub(super) fn adopt(&mut self, adopted: Adopted) {
        let Adopted {
            worker: id,
            mut record,
            age,
            termed,
            ended,
        } = adopted;
        let key = self.functions.find_or_add(&record.function);
        let ordered = record.run.ending.take();
        let mut run = self.go_on((id, key), (&record.run, record.version), age);
        self.adopt_parent(&record.run, &record.function);
        let started = run.started;
        let deadline = record.run.deadline(started).map(|deadline| deadline.at);
        let mut phase = WorkerPhase::Busy;
        if let Some((ago, cause)) = termed {
            let at = self.now.mono.saturating_sub(ago);
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
        self.timers.arm(run.timeout_at, Timer::Attempt(id, run.invocation));
        let invocation = run.invocation;
        let kind = WorkerKind::of_process(&record.rules.kind);
        let serving = serving(record.id, record.version, record.load_key, record.rules);
        let worker = Worker {
            phase,
            adopted: true,
            ended_before: ended,
            runs: vec![run],
            ..Worker::new(key, serving, started, kind)
        };
        self.insert_adopted_worker(id, worker);
        // The earlier fnd was killed between the record and its SIGTERM.
        if let Some(ordered) = ordered.filter(|_| phase == WorkerPhase::Busy) {
            self.ask_to_end(id, invocation, ordered);
        }
    }

    /// Adds a worker of an earlier fnd to the books of its function and of the node.
    pub(super) fn insert_adopted_worker(&mut self, id: WorkerId, worker: Worker) {
        self.timers.arm(worker.phase.timer(), Timer::Worker(id));
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
            let deadline = invocation.and_then(|invocation| invocation.deadline_at());
            let trigger = invocation.map_or(Trigger::Load, |invocation| invocation.trigger);
            let ending = ending_of_term((TermCause::TimeUp, trigger), at, (timeout_at, deadline));
            run.ending.get_or_insert(ending);
        }
    }

    /// Handles the kept ends: those of one function that is there now, or all.
    pub(super) fn release_early(&mut self, of: Option<FunctionKey>) {
        let is_due = |early: &mut EndedAttempt| of.is_none_or(|key| early.function == key);
        for ended in self.early.extract_if(.., is_due).collect::<Vec<_>>() {
            self.attempt_ended(ended);
        }
    }

    /// Adopts a handler's worker as if this fnd had started it.
    pub(super) fn adopt_member(&mut self, adopted: AdoptedMember) {
        let AdoptedMember {
            worker: id,
            record,
            age,
            ended,
            is_fenced,
        } = adopted;
        let Some(pool) = record.rules.kind.pool().copied() else {
            // `worth_adopting` returns no such worker.
            return;
        };
        let key = self.functions.find_or_add(&record.function);
        let runs: Vec<Run> = record
            .calls
            .iter()
            .map(|call| self.go_on_calling((id, key), (&record, age), call))
            .collect();
        // A late answer to a call of the earlier fnd must never match a call of this one.
        self.next_call = self.next_call.max(record.last_call);
        let phase = match record.concurrency {
            _ if ended => WorkerPhase::Over,
            None => WorkerPhase::Loading {
                until: self.now.mono.saturating_add(pool.load_max),
            },
            Some(_) if !runs.is_empty() => WorkerPhase::Busy,
            Some(_) => WorkerPhase::Idle {
                since: self.now.mono,
                // The idle time starts anew.
                until: pool.idle_until(self.now.mono),
            },
        };
        let function = &mut self.functions[key];
        if !runs.is_empty() {
            function.work.last_call = Some(self.now.mono);
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
            pool,
            ..HandlerWorker::default()
        };
        let serving = serving(record.id, record.version, record.load_key, record.rules);
        let started = Now {
            mono: self.now.mono.saturating_sub(age),
            ..self.now
        };
        let worker = Worker {
            phase,
            adopted: true,
            // How one ended that was fenced is known: as if it had ended now.
            ended_before: ended && !is_fenced,
            runs,
            ..Worker::new(key, serving, started, WorkerKind::Member(Box::new(member)))
        };
        self.insert_adopted_worker(id, worker);
    }

    fn go_on_calling(
        &mut self,
        (id, key): (WorkerId, FunctionKey),
        (record, worker_age): (&MemberRecord<'_>, Duration),
        call: &CallRecord,
    ) -> Run {
        let age = worker_age.saturating_sub(call.run.times.started_after);
        let mut run = self.go_on((id, key), (&call.run, record.version), age);
        run.call = Some((call.call, call.cold));
        if let Some(ending) = &call.run.ending {
            // The grace starts anew.
            run.ending = Some(ending.clone());
            run.timeout_at = Some(self.now.mono.saturating_add(record.rules.grace));
        }
        self.timers.arm(run.timeout_at, Timer::Attempt(id, run.invocation));
        run
    }
}
