//! Taking over what an earlier fnd started: its workers outlive it, and what it knew of each lies with the spawner.
//!
//! ```text
//! started: Note -> spawner          fnd ends, or is killed          the next fnd: Restored { adopted, .. }
//!                                                                     │ the ledger has its end: Kill, then Forget
//!                                                                     │ its invocation runs on: Busy, or Terminating
//!                                                                     └ the ledger never heard of it: as the note says
//! ```
//! An attempt is the same one in every fnd: its timeout counts from its start, its end is recorded once.

use super::Supervisor;
use super::action::Action;
use super::attempt::{Done, Ended};
use super::event::{Now, Restored};
use super::function::{FunctionKey, Presence, Serving};
use super::handover::{AdoptedMember, CallNote};
use super::invocation::{Deadline, Invocation, Stage, Started};
use super::rules::Rules;
use super::submit::on_mono;
use super::timers::Timer;
use super::verdict::Ending;
use super::worker::{Phase, Run, Worker};
use crate::outcome::Trigger;
use crate::record::Payload;
use fnd_wire::frame::TermCause;
use fnd_wire::ids::{Attempt, FunctionId, FunctionName, InvocationId, Version, WorkerId};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// How much earlier than the limit it goes by a SIGTERM may seem to have been: times cross processes in milliseconds.
const TERM_SLACK: Duration = Duration::from_millis(50);

/// What the next fnd has to know of a worker to go on with it; the spawner keeps it, unread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Note<'a> {
    /// The function.
    #[serde(with = "crate::text::id")]
    pub function: Cow<'a, FunctionName>,
    /// Its number at the spawner.
    pub id: u32,
    /// The version that runs.
    #[serde(with = "crate::text::id")]
    pub version: Version,
    /// What "once per content" goes by.
    #[serde(with = "crate::text::id")]
    pub load_key: Version,
    /// The invocation.
    #[serde(with = "crate::text::id")]
    pub invocation: InvocationId,
    /// Which try.
    pub attempt: u32,
    /// Polls before it.
    pub poll: u32,
    /// What made the invocation.
    pub trigger: Trigger,
    /// When it was accepted, Unix milliseconds.
    pub accepted_ms: u64,
    /// When its first attempt began, Unix milliseconds.
    pub first_ms: u64,
    /// When this attempt began, Unix milliseconds.
    pub started_ms: u64,
    /// Timeout of this attempt.
    pub timeout: Option<Duration>,
    /// End of the whole invocation, Unix milliseconds.
    pub deadline_ms: Option<u64>,
    /// The same times without the wall clock; absent in a note of an older fnd.
    #[serde(default)]
    pub times: Option<Times>,
    /// The rules of the version that runs, but for its payload.
    pub rules: Cow<'a, Rules>,
}

/// Where an attempt stands in time, on the monotonic clock. The wall clock may be set while fnd is not there, so the next fnd
/// counts from the age of the worker, which the spawner measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// From its worker's start to its own; a script's worker is the attempt.
    pub started_after: Duration,
    /// From the start of its invocation's first attempt to its own.
    pub since_first: Duration,
    /// From its start to the end of the whole invocation.
    pub deadline_in: Option<Duration>,
}

/// A worker of an earlier fnd: it runs, or its exit follows.
#[derive(Debug, Clone)]
pub struct Adopted {
    /// Its number.
    pub worker: WorkerId,
    /// What that fnd knew of it.
    pub note: Note<'static>,
    /// Since its start.
    pub age: Duration,
    /// Its SIGTERM, if it got one: since then, and why.
    pub termed: Option<(Duration, TermCause)>,
    /// Whether it has ended; its [`Exited`](super::Exited) follows.
    pub ended: bool,
}

/// What a note says of an invocation and its newest attempt.
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
    /// Returns when the first attempt began; by the wall clock only where the note says nothing else.
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
        let left = self.times.and_then(|times| times.deadline_in);
        let at = left.map_or_else(|| on_mono(now, unix_ms), |left| self.started.saturating_add(left));
        Some(Deadline { at, unix_ms })
    }
}

/// An end that waits until it is known whether its function is still there.
#[derive(Debug)]
pub(super) struct EarlyEnd {
    done: Done,
    ended: Ended,
}

impl Supervisor {
    /// Returns what the next fnd has to know of a worker.
    #[must_use]
    pub fn note(&self, id: WorkerId) -> Option<Note<'_>> {
        let worker = self.workers.get(&id)?;
        let run = worker.runs.first()?;
        let invocation = self.invocations.get(&run.invocation)?;
        Some(Note {
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

    /// Returns the workers that still have something to tell; what is left of the others is killed.
    pub(super) fn worth_adopting(&self, restored: &mut Restored, out: &mut Vec<Action>) -> Vec<Adopted> {
        let ended = &restored.ended;
        let is_over = |adopted: &mut Adopted| ended.contains(&(adopted.note.invocation, adopted.note.attempt));
        let mut adopted = std::mem::take(&mut restored.adopted);
        let over = adopted.extract_if(.., is_over);
        out.extend(over.map(|adopted| Action::Kill(adopted.worker)));
        adopted
    }

    /// Returns the workers of handlers that can go on: of none of their calls the end is known.
    pub(super) fn members_worth_adopting(&self, restored: &mut Restored, out: &mut Vec<Action>) -> Vec<AdoptedMember> {
        let ended = &restored.ended;
        let is_over = |call: &CallNote| ended.contains(&(call.invocation, call.attempt));
        let mut members = std::mem::take(&mut restored.members);
        let over = members.extract_if(.., |member| member.note.calls.iter().any(is_over));
        out.extend(over.map(|member| Action::Kill(member.worker)));
        members
    }

    /// Takes an invocation into the books of which there is nothing but a note: its caller, who waited on a connection, is
    /// gone, and what it brought is, too.
    fn insert_adopted(&mut self, now: Now, key: FunctionKey, note: &Origin) {
        let number = self.next_number();
        self.insert_invocation(Invocation {
            id: note.invocation,
            function: key,
            trigger: note.trigger,
            accepted_ms: note.accepted_ms,
            payload: Payload::default(),
            load_key: None,
            timeout: None,
            deadline: note.deadline(now),
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

    /// Lets an invocation stand where its newest attempt, in a worker that was taken over, says.
    pub(super) fn go_on(&mut self, now: Now, (worker, key): (WorkerId, FunctionKey), note: &Origin) {
        if !self.invocations.contains_key(&note.invocation) {
            self.insert_adopted(now, key, note);
        }
        if let Some(invocation) = self.invocations.get_mut(&note.invocation)
            && invocation.attempts <= note.attempt
        {
            invocation.attempts = note.attempt;
            invocation.polls = note.poll;
            invocation.version = Some(note.version);
            let started = invocation.started.get_or_insert(note.first(now));
            let deadline = note.deadline(now);
            // The ledger has both by the wall clock only.
            if note.times.is_some() {
                started.before = note.first(now).before;
                let before = std::mem::replace(&mut invocation.deadline, deadline);
                if let Some(before) = before {
                    self.timers.disarm(before.at, Timer::Deadline(note.invocation));
                }
                if let Some(deadline) = deadline {
                    self.timers.arm(deadline.at, Timer::Deadline(note.invocation));
                }
            }
            invocation.stage = Stage::Running { worker };
        }
    }

    /// Goes on with a worker as if this fnd had started it.
    pub(super) fn adopt(&mut self, now: Now, adopted: Adopted) {
        let Adopted {
            worker: id,
            note,
            age,
            termed,
            ended,
        } = adopted;
        let key = self.functions.find_or_add(&note.function);
        let started = Now {
            mono: now.mono.saturating_sub(age),
            unix_ms: note.started_ms,
        };
        let origin = Origin {
            started: started.mono,
            times: note.times,
            invocation: note.invocation,
            attempt: note.attempt,
            poll: note.poll,
            version: note.version,
            trigger: note.trigger,
            accepted_ms: note.accepted_ms,
            first_ms: note.first_ms,
            deadline_ms: note.deadline_ms,
        };
        self.go_on(now, (id, key), &origin);
        let serving = Arc::new(Serving {
            id: FunctionId(note.id),
            version: note.version,
            load_key: note.load_key,
            load_id: InvocationId(0),
            rules: Arc::new(note.rules.into_owned()),
        });
        let timeout_at = note.timeout.map(|timeout| started.mono.saturating_add(timeout));
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
            self.timers.arm(at, Timer::Attempt(id, note.invocation));
        }
        self.next_worker = self.next_worker.max(id.0.saturating_add(1));
        let function = &mut self.functions[key];
        function.id = Some(serving.id);
        self.node.take_over(function, &serving.rules);
        function.running.insert(id);
        function.busy += 1;
        let run = Run {
            invocation: note.invocation,
            attempt: Attempt(note.attempt),
            poll: note.poll,
            started,
            timeout: note.timeout,
            timeout_at,
            ending,
            call: None,
        };
        let worker = Worker {
            function: key,
            serving,
            started,
            phase,
            adopted: true,
            runs: vec![run],
            member: None,
            ready: true,
            look_at: None,
            waits_for: None,
        };
        self.workers.insert(id, worker);
    }

    /// The spawner ended a worker whose time was up, since this fnd did not: it was stopped, or busy for long.
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

    /// Keeps the end of a worker that was taken over until the first scan has said what became of its function: what
    /// follows goes by that. Returns what was not kept.
    pub(super) fn keep_early(&mut self, adopted: bool, done: Done, ended: Ended) -> Option<(Done, Ended)> {
        let unknown = !matches!(self.functions[done.function].presence, Presence::Serving(_));
        if adopted && unknown && !self.scanned {
            self.early.push(EarlyEnd { done, ended });
            return None;
        }
        Some((done, ended))
    }

    /// Handles the ends that waited: of one function that is there now, or of all.
    pub(super) fn release_early(&mut self, now: Now, of: Option<FunctionKey>, out: &mut Vec<Action>) {
        let is_due = |early: &mut EarlyEnd| of.is_none_or(|key| early.done.function == key);
        let due: Vec<EarlyEnd> = self.early.extract_if(.., is_due).collect();
        for EarlyEnd { done, ended } in due {
            self.attempt_ended(now, done, ended, out);
        }
    }
}

/// Returns where an attempt stands in time.
pub(super) fn times(worker: &Worker, run: &Run, invocation: &Invocation) -> Times {
    let at = run.started.mono;
    Times {
        started_after: at.saturating_sub(worker.started.mono),
        since_first: invocation.started.map_or(Duration::ZERO, |started| started.elapsed(at)),
        deadline_in: invocation.deadline.map(|deadline| deadline.at.saturating_sub(at)),
    }
}

/// Returns why a worker got SIGTERM at an instant, as the fnd that sent it would have said.
fn ending_of_term(cause: TermCause, at: Duration, (timeout, deadline): (Option<Duration>, Option<Duration>)) -> Ending {
    let due = |limit: Option<Duration>| limit.is_some_and(|limit| limit <= at.saturating_add(TERM_SLACK));
    match cause {
        TermCause::Stopped => Ending::Stopped,
        TermCause::Asked | TermCause::TimeUp if due(timeout) => Ending::Timeout,
        TermCause::Asked if !due(deadline) => Ending::Cancelled("cancelled before fnd was restarted"),
        TermCause::Asked | TermCause::TimeUp => Ending::Deadline,
    }
}
