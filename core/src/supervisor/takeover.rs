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
use super::action::Action;
use super::attempt::{Done, Ended};
use super::event::{Now, Restored};
use super::function::{FunctionKey, Presence, Serving};
use super::handover::{AdoptedMember, CallRecord};
use super::invocation::{Deadline, Invocation, Stage, Started};
use super::rules::Rules;
use super::submit::on_mono;
use super::timers::Timer;
use super::verdict::Ending;
use super::worker::{Phase, Run, Worker, WorkerKind};
use crate::outcome::Trigger;
use crate::record::Payload;
use fnd_wire::frame::TermCause;
use fnd_wire::ids::{Attempt, FunctionId, FunctionName, InvocationId, Version, WorkerId};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// A SIGTERM that was sent at a limit may seem to come this much before it: times cross processes in milliseconds.
const TERM_SLACK: Duration = Duration::from_millis(50);

/// The adoption record of a script's worker: what the next fnd needs to go on with it. The spawner keeps it, unread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScriptRecord<'a> {
    /// The function.
    #[serde(with = "crate::text::id")]
    pub function: Cow<'a, FunctionName>,
    /// The function's number at the spawner.
    pub id: u32,
    /// The version that runs.
    #[serde(with = "crate::text::id")]
    pub version: Version,
    /// The content key by which "once per content" is decided.
    #[serde(with = "crate::text::id")]
    pub load_key: Version,
    /// The invocation.
    #[serde(with = "crate::text::id")]
    pub invocation: InvocationId,
    /// Number of the attempt.
    pub attempt: u32,
    /// Polls before this attempt.
    pub poll: u32,
    /// The invocation's trigger.
    pub trigger: Trigger,
    /// When the invocation was accepted, Unix milliseconds.
    pub accepted_ms: u64,
    /// When the invocation's first attempt began, Unix milliseconds.
    pub first_ms: u64,
    /// When this attempt began, Unix milliseconds.
    pub started_ms: u64,
    /// Timeout of this attempt.
    pub timeout: Option<Duration>,
    /// End of the whole invocation, Unix milliseconds.
    pub deadline_ms: Option<u64>,
    /// The same times without the wall clock; absent in a record of an older fnd.
    #[serde(default)]
    pub times: Option<Times>,
    /// The rules of the version that runs, without the payload.
    pub rules: Cow<'a, Rules>,
}

/// The times of an attempt on the monotonic clock. The wall clock may be set while no fnd runs, so the next fnd counts
/// from the age of the worker, which the spawner measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// From the worker's start to the attempt's; zero for a script, whose worker is the attempt.
    pub started_after: Duration,
    /// From the start of the invocation's first attempt to the start of this one.
    pub since_first: Duration,
    /// From the attempt's start to the deadline of the invocation.
    pub deadline_in: Option<Duration>,
}

/// A worker of an earlier fnd. It runs, or its exit follows.
#[derive(Debug, Clone)]
pub struct Adopted {
    /// The worker's number.
    pub worker: WorkerId,
    /// The adoption record that the earlier fnd left.
    pub record: ScriptRecord<'static>,
    /// Time since the worker's start.
    pub age: Duration,
    /// Time since the worker's SIGTERM, and its cause; absent without a SIGTERM.
    pub termed: Option<(Duration, TermCause)>,
    /// Whether the worker has ended; its [`Exited`](super::Exited) follows.
    pub ended: bool,
}

/// What an adoption record says of an invocation and its newest attempt.
pub(super) struct Origin {
    pub(super) invocation: InvocationId,
    pub(super) attempt: u32,
    pub(super) poll: u32,
    pub(super) version: Version,
    pub(super) trigger: Trigger,
    pub(super) accepted_ms: u64,
    pub(super) first_ms: u64,
    pub(super) deadline_ms: Option<u64>,
    /// When this attempt began.
    pub(super) started: Duration,
    pub(super) times: Option<Times>,
}

impl Origin {
    /// Returns when the first attempt began. The wall clock is used only where the record has nothing else.
    fn first(&self, now: Now) -> Started {
        let by_wall = || Duration::from_millis(now.unix_ms.saturating_sub(self.first_ms));
        let since = |times: Times| now.mono.saturating_sub(self.started).saturating_add(times.since_first);
        Started {
            unix_ms: self.first_ms,
            at: now.mono,
            before: self.times.map_or_else(by_wall, since),
        }
    }

    /// Returns when the whole invocation ends.
    fn deadline(&self, now: Now) -> Option<Deadline> {
        let unix_ms = self.deadline_ms?;
        let remaining = self.times.and_then(|times| times.deadline_in);
        let at = remaining.map_or_else(
            || on_mono(now, unix_ms),
            |remaining| self.started.saturating_add(remaining),
        );
        Some(Deadline { at, unix_ms })
    }
}

/// An end that waits until fnd knows whether its function still exists.
#[derive(Debug)]
pub(super) struct EarlyEnd {
    done: Done,
    ended: Ended,
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
            invocation: run.invocation,
            attempt: run.attempt.0,
            poll: run.poll,
            trigger: invocation.trigger,
            accepted_ms: invocation.accepted_ms,
            first_ms: invocation
                .started
                .map_or(run.started.unix_ms, |started| started.unix_ms),
            started_ms: run.started.unix_ms,
            timeout: run.timeout,
            deadline_ms: invocation.deadline.map(|deadline| deadline.unix_ms),
            times: Some(times(worker, run, invocation)),
            rules: Cow::Borrowed(&*worker.serving.rules),
        })
    }

    /// Returns the workers whose attempt has no stored end yet. The others are killed.
    pub(super) fn worth_adopting(&self, restored: &mut Restored, out: &mut Vec<Action>) -> Vec<Adopted> {
        let ended = &restored.ended;
        let is_over = |adopted: &mut Adopted| ended.contains(&(adopted.record.invocation, adopted.record.attempt));
        let mut adopted = std::mem::take(&mut restored.adopted);
        let over = adopted.extract_if(.., is_over);
        out.extend(over.map(|adopted| Action::Kill(adopted.worker)));
        adopted
    }

    /// Returns the workers of handlers that can go on: those with the rules of a pool and without a call whose end is
    /// stored. The others are killed.
    pub(super) fn members_worth_adopting(&self, restored: &mut Restored, out: &mut Vec<Action>) -> Vec<AdoptedMember> {
        let ended = &restored.ended;
        let is_over = |call: &CallRecord| ended.contains(&(call.invocation, call.attempt));
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
    fn insert_adopted(&mut self, now: Now, key: FunctionKey, origin: &Origin) {
        let number = self.next_number();
        self.insert_invocation(Invocation {
            id: origin.invocation,
            function: key,
            trigger: origin.trigger,
            accepted_ms: origin.accepted_ms,
            payload: Payload::default(),
            load_key: None,
            timeout: None,
            deadline: origin.deadline(now),
            expires: None,
            priority: 0,
            number,
            stage: Stage::Lost,
            durable: false,
            key: None,
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

    /// Sets an invocation to the state of its newest attempt, which runs in an adopted worker.
    pub(super) fn go_on(&mut self, now: Now, (worker, key): (WorkerId, FunctionKey), origin: &Origin) {
        if !self.invocations.contains_key(&origin.invocation) {
            self.insert_adopted(now, key, origin);
        }
        if let Some(invocation) = self.invocations.get_mut(&origin.invocation)
            && invocation.attempts <= origin.attempt
        {
            let queue = &mut self.functions[invocation.function].queue;
            queue.change(invocation, Stage::Running { worker });
            invocation.attempts = origin.attempt;
            invocation.polls = origin.poll;
            invocation.version = Some(origin.version);
            let started = invocation.started.get_or_insert(origin.first(now));
            let deadline = origin.deadline(now);
            // The ledger has both times by the wall clock only.
            if origin.times.is_some() {
                started.before = origin.first(now).before;
                let before = std::mem::replace(&mut invocation.deadline, deadline);
                if let Some(before) = before {
                    self.timers.disarm(before.at, Timer::Deadline(origin.invocation));
                }
                if let Some(deadline) = deadline {
                    self.timers.arm(deadline.at, Timer::Deadline(origin.invocation));
                }
            }
        }
    }

    /// Adopts a worker as if this fnd had started it.
    pub(super) fn adopt(&mut self, now: Now, adopted: Adopted) {
        let Adopted {
            worker: id,
            record,
            age,
            termed,
            ended,
        } = adopted;
        let key = self.functions.find_or_add(&record.function);
        let started = Now {
            mono: now.mono.saturating_sub(age),
            unix_ms: record.started_ms,
        };
        let origin = Origin {
            started: started.mono,
            times: record.times,
            invocation: record.invocation,
            attempt: record.attempt,
            poll: record.poll,
            version: record.version,
            trigger: record.trigger,
            accepted_ms: record.accepted_ms,
            first_ms: record.first_ms,
            deadline_ms: record.deadline_ms,
        };
        self.go_on(now, (id, key), &origin);
        let serving = Arc::new(Serving {
            id: FunctionId(record.id),
            version: record.version,
            load_key: record.load_key,
            load_id: InvocationId(0),
            rules: Arc::new(record.rules.into_owned()),
        });
        let timeout_at = record.timeout.map(|timeout| started.mono.saturating_add(timeout));
        let deadline = origin.deadline(now).map(|deadline| deadline.at);
        let (phase, ending) = match termed {
            None => (Phase::Busy, None),
            Some((ago, cause)) => {
                let at = now.mono.saturating_sub(ago);
                let kill_at = at.saturating_add(serving.rules.grace);
                let ending = ending_of_term(cause, at, (timeout_at, deadline));
                (Phase::Terminating { kill_at }, Some(ending))
            }
        };
        let phase = if ended { Phase::Over } else { phase };
        if let Some(at) = phase.timer() {
            self.timers.arm(at, Timer::Worker(id));
        }
        let timeout_at = timeout_at.filter(|_| phase == Phase::Busy);
        if let Some(at) = timeout_at {
            self.timers.arm(at, Timer::Attempt(id, record.invocation));
        }
        self.next_worker = self.next_worker.max(id.0.saturating_add(1));
        let function = &mut self.functions[key];
        function.id = Some(serving.id);
        self.node.take_over(function, &serving.rules);
        function.running.insert(id);
        function.busy += 1;
        let run = Run {
            invocation: record.invocation,
            attempt: Attempt(record.attempt),
            poll: record.poll,
            started,
            timeout: record.timeout,
            timeout_at,
            ending,
            call: None,
        };
        let worker = Worker {
            function: key,
            kind: WorkerKind::of_process(&serving.rules.kind),
            serving,
            started,
            phase,
            adopted: true,
            runs: vec![run],
        };
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
    pub(super) fn keep_early(&mut self, adopted: bool, done: Done, ended: Ended) -> Option<(Done, Ended)> {
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

/// Returns the times of an attempt for its adoption record.
pub(super) fn times(worker: &Worker, run: &Run, invocation: &Invocation) -> Times {
    let at = run.started.mono;
    Times {
        started_after: at.saturating_sub(worker.started.mono),
        since_first: invocation.started.map_or(Duration::ZERO, |started| started.elapsed(at)),
        deadline_in: invocation.deadline.map(|deadline| deadline.at.saturating_sub(at)),
    }
}

/// Returns why a worker got SIGTERM at an instant, as the fnd that sent it would have recorded it.
fn ending_of_term(cause: TermCause, at: Duration, (timeout, deadline): (Option<Duration>, Option<Duration>)) -> Ending {
    let due = |limit: Option<Duration>| limit.is_some_and(|limit| limit <= at.saturating_add(TERM_SLACK));
    match cause {
        TermCause::Stopped => Ending::Stopped,
        TermCause::Asked | TermCause::TimeUp if due(timeout) => Ending::Timeout,
        TermCause::Asked if !due(deadline) => Ending::Cancelled("cancelled before fnd was restarted"),
        TermCause::Asked | TermCause::TimeUp => Ending::Deadline,
    }
}
