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

use super::Supervisor;
use super::attempt_end::{EndFacts, EndedAttempt};
use crate::messages::Now;
use crate::messages::action::Action;
use crate::messages::adoption_records::{Adopted, RunRecord, ScriptRecord};
use crate::messages::adoption_records::{AdoptedMember, CallRecord};
use crate::messages::end_cause::{CANCELLED_BEFORE, EndCause};
use crate::messages::event::Restored;
use crate::messages::rules::Rules;
use crate::records::cause::Cause;
use crate::records::{Accepted, Payload};
use crate::run_state::FunctionKey;
use crate::run_state::function::Presence;
use crate::run_state::invocation::{Invocation, InvocationStage};
use crate::run_state::releases::ServingRelease;
use crate::run_state::run_record::RunOrigin;
use crate::run_state::timers::Timer;
use crate::run_state::worker::{Run, Worker, WorkerKind, WorkerPhase};
use fnd_wire::frame::TermCause;
use fnd_wire::ids::{FunctionId, FunctionName, InvocationId, Version, WorkerId};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// A SIGTERM that was sent at a limit may seem to come this much before it: times cross processes in milliseconds.
const TERM_SLACK: Duration = Duration::from_millis(50);

/// An end that waits until fnd knows whether its function still exists.
#[derive(Debug)]
pub(super) struct EarlyEnd {
    done: EndedAttempt,
    ended: EndFacts,
}

impl Supervisor {
    /// Returns the adoption record of a script's worker.
    #[must_use]
    pub fn script_record(&self, id: WorkerId) -> Option<ScriptRecord<'_>> {
        let worker = self.workers.get(&id)?;
        let run = worker.runs.first()?;
        let invocation = self.invocations.get(&run.invocation)?;
        Some(ScriptRecord {
            function: Cow::Borrowed(&self.functions[worker.function].name),
            id: worker.serving.id.0,
            version: worker.serving.version,
            load_key: worker.serving.load_key,
            run: RunRecord::of(worker, run, invocation),
            rules: Cow::Borrowed(&*worker.serving.rules),
        })
    }

    /// Returns the adoption record of a script that is being ended: the next fnd records why.
    #[must_use]
    pub fn record_of_ending(&self, id: WorkerId) -> Option<ScriptRecord<'_>> {
        let worker = self.workers.get(&id)?;
        let is_script = worker.member().is_none() && worker.runs.iter().any(|run| run.ending.is_some());
        is_script.then(|| self.script_record(id))?
    }

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
            order_key: None,
            acknowledge: Vec::new(),
            waiters: Vec::new(),
            caller_gone: true,
            attempts: 0,
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
            id: run.invocation,
            function: function.clone(),
            trigger: run.trigger,
            accepted_ms: run.accepted_ms,
            payload: Payload {
                cause: Some(cause),
                ..Payload::default()
            },
            durable: false,
            dead_letter: false,
            load_key: None,
            timeout_ms: None,
            not_before_ms: None,
            expires_ms: None,
            deadline_ms: run.deadline_ms,
            priority: 0,
            key: None,
            origin: None,
            mark: None,
            files: Vec::new(),
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
            run.ending = Some(match (cause, ordered.clone()) {
                (TermCause::Asked, Some(ordered)) => ordered,
                (cause, _) => ending_of_term(cause, at, (run.timeout_at, deadline)),
            });
            phase = WorkerPhase::Terminating { kill_at };
        }
        if ended {
            phase = WorkerPhase::Over;
        }
        // The attempt is over or is being ended, so its timeout does not count any more.
        if phase != WorkerPhase::Busy {
            run.timeout_at = None;
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
            let ending = ending_of_term(TermCause::TimeUp, at, (timeout_at, deadline));
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
}

/// Returns the version that a worker of an earlier fnd runs.
pub(super) fn serving(id: u32, (version, load_key): (Version, Version), rules: Cow<'_, Rules>) -> Arc<ServingRelease> {
    Arc::new(ServingRelease {
        id: FunctionId(id),
        version,
        load_key,
        // Only the worker has this release, and it never serves: so no content runs by itself with this id.
        load_id: InvocationId(0),
        rules: Arc::new(rules.into_owned()),
    })
}

/// Returns why a worker got SIGTERM at an instant, as the fnd that sent it would have recorded it. An fnd that asked for it
/// has said the reason in the adoption record; only for an older fnd the instant decides.
fn ending_of_term(
    cause: TermCause,
    at: Duration,
    (timeout, deadline): (Option<Duration>, Option<Duration>),
) -> EndCause {
    let due = |limit: Option<Duration>| limit.is_some_and(|limit| limit <= at.saturating_add(TERM_SLACK));
    match cause {
        TermCause::Stopped => EndCause::Stopped,
        // The spawner has one limit for both, the earlier one.
        TermCause::TimeUp if timeout.is_some_and(|timeout| deadline.is_none_or(|deadline| timeout <= deadline)) => {
            EndCause::Timeout
        }
        TermCause::TimeUp => EndCause::Deadline,
        TermCause::Asked if due(timeout) => EndCause::Timeout,
        TermCause::Asked if due(deadline) => EndCause::Deadline,
        TermCause::Asked => EndCause::Cancelled(CANCELLED_BEFORE.into()),
    }
}
