//! Whether workers can be started here. What stands in the way may be the node's and no function's: descriptors, processes or
//! memory of the machine that have run out, a disk without room, a spawner that does not answer.
//!
//! ```text
//! Open ──NodeCannotStart──▶ Paused ──time, or a worker ended──▶ Trying ──Spawned──▶ Recovering ──time──▶ Open
//!                             ▲                                 │   └──nothing to start──▶ Open  │
//!                             └──────────NodeCannotStart────────┴────────────────────────────────┘
//! ```
//! What could not be started has not begun: it waits again, with its attempt, its claim and its expiry as before. While a
//! pause lasts nothing is started; then one start is tried, and only after it has worked the others follow.

use super::Supervisor;
use super::action::{Action, Notice};
use super::attempt::{Done, Ended};
use super::event::Now;
use super::function::FunctionKey;
use super::invocation::{End, Stage};
use super::timers::Timer;
use super::verdict::Verdict;
use super::worker::{Phase, Run, Worker};
use crate::outcome::{Reason, Skip};
use crate::record::Usage;
use fnd_wire::ids::{InvocationId, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// How long nothing is started after the first start that failed; twice as long after each that follows.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// So long starts have to work before people are told that all is well: a node at its limit starts one worker and then none.
const CALM: Duration = Duration::from_secs(5);

const SILENT: &str = "fnd-spawner does not answer, so that nothing can be started";

/// Starts, and what the node has against them.
#[derive(Debug, Default)]
pub(super) struct Starts {
    phase: StartPhase,
    /// Pauses in a row.
    failures: u32,
    /// Why the last start failed, until they work again.
    why: Option<String>,
    /// Whether the spawner does not answer.
    silent: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum StartPhase {
    #[default]
    Open,
    /// Nothing is started.
    Paused { until: Duration },
    /// One start shows whether others would work.
    Trying { worker: Option<WorkerId> },
    /// Starts work again.
    Recovering { until: Duration },
}

impl Starts {
    /// Says whether a worker may be started now.
    pub(super) fn may_start(&self) -> bool {
        let open = match self.phase {
            StartPhase::Open | StartPhase::Recovering { .. } => true,
            StartPhase::Paused { .. } => false,
            StartPhase::Trying { worker } => worker.is_none(),
        };
        open && !self.silent
    }

    /// A worker is being started.
    pub(super) fn began(&mut self, id: WorkerId) {
        if let StartPhase::Trying { worker } = &mut self.phase {
            worker.get_or_insert(id);
        }
    }

    /// Says whether the next start is the one that shows whether others would work.
    pub(super) fn is_to_be_tried(&self) -> bool {
        self.phase == (StartPhase::Trying { worker: None })
    }

    /// There is nothing to try with.
    pub(super) fn nothing_waits(&mut self, out: &mut Vec<Action>) {
        self.phase = StartPhase::Open;
        self.all_is_well(out);
    }

    fn all_is_well(&mut self, out: &mut Vec<Action>) {
        self.failures = 0;
        if self.why.take().is_some() {
            out.push(Action::Notice(Notice::StartsChanged));
        }
    }

    fn is_tried_with(&self, id: WorkerId) -> bool {
        self.phase == (StartPhase::Trying { worker: Some(id) })
    }
}

impl Supervisor {
    /// Returns why the node starts no workers at the moment, if it is so.
    #[must_use]
    pub fn cannot_start(&self) -> Option<&str> {
        self.starts.why.as_deref()
    }

    /// Says whether the spawner does not answer.
    #[must_use]
    pub fn is_spawner_silent(&self) -> bool {
        self.starts.silent
    }

    /// Returns why a caller is turned away at once, who would wait for a start that nobody can make.
    pub(super) fn start_refusal(&self, key: FunctionKey) -> Option<String> {
        let warm = !self.functions[key].free.is_empty();
        (self.starts.silent && !warm).then(|| SILENT.to_owned())
    }

    /// A worker could not be started, and no function is the reason: what it was to run has not begun.
    pub(super) fn node_cannot_start(&mut self, now: Now, id: WorkerId, message: &str, out: &mut Vec<Action>) {
        let Some(mut worker) = self.take_worker(id) else { return };
        self.pause_starts(now, id, message, out);
        let key = worker.function;
        let candidate = self.functions[key].candidate.as_mut();
        if let Some(candidate) = candidate.filter(|candidate| candidate.worker == Some(id)) {
            (candidate.worker, candidate.wanted) = (None, true);
        }
        for run in std::mem::take(&mut worker.runs) {
            self.put_back(now, &worker, (run, message), out);
        }
        self.announce(key, out);
        self.line_up(now, key);
    }

    fn pause_starts(&mut self, now: Now, id: WorkerId, why: &str, out: &mut Vec<Action>) {
        if self.starts.why.replace(why.to_owned()).is_none() {
            out.push(Action::Notice(Notice::StartsChanged));
        }
        let ordered_before = match self.starts.phase {
            StartPhase::Paused { .. } => true,
            StartPhase::Trying { worker } => worker != Some(id),
            StartPhase::Open | StartPhase::Recovering { .. } => false,
        };
        // What was ordered before the pause began says nothing new.
        if ordered_before {
            return;
        }
        let times = 1_u32.checked_shl(self.starts.failures).unwrap_or(u32::MAX);
        self.starts.failures = self.starts.failures.saturating_add(1);
        let until = now.mono.saturating_add(PAUSE.saturating_mul(times).min(PAUSE_MAX));
        self.enter_start_phase(StartPhase::Paused { until });
    }

    fn enter_start_phase(&mut self, phase: StartPhase) {
        let timer = |phase| match phase {
            StartPhase::Paused { until } | StartPhase::Recovering { until } => Some(until),
            StartPhase::Open | StartPhase::Trying { .. } => None,
        };
        if let Some(at) = timer(self.starts.phase) {
            self.timers.disarm(at, Timer::Starts);
        }
        if let Some(at) = timer(phase) {
            self.timers.arm(at, Timer::Starts);
        }
        self.starts.phase = phase;
    }

    /// The time of a phase is over.
    pub(super) fn starts_due(&mut self, out: &mut Vec<Action>) {
        match self.starts.phase {
            StartPhase::Paused { .. } => self.enter_start_phase(StartPhase::Trying { worker: None }),
            StartPhase::Recovering { .. } => {
                self.enter_start_phase(StartPhase::Open);
                self.starts.all_is_well(out);
            }
            // They have no timer.
            StartPhase::Open | StartPhase::Trying { .. } => {}
        }
    }

    /// A worker was started.
    pub(super) fn start_worked(&mut self, now: Now, id: WorkerId) {
        if self.starts.is_tried_with(id) {
            let until = now.mono.saturating_add(CALM);
            self.enter_start_phase(StartPhase::Recovering { until });
        }
    }

    /// A start failed for its function's reason: another one has to show whether the node can start workers.
    pub(super) fn start_said_nothing(&mut self, id: WorkerId) {
        if self.starts.is_tried_with(id) {
            self.enter_start_phase(StartPhase::Trying { worker: None });
        }
    }

    /// A worker ended: what it had (descriptors, processes, memory) may be what was missing.
    pub(super) fn room_was_made(&mut self) {
        if matches!(self.starts.phase, StartPhase::Paused { .. }) {
            self.enter_start_phase(StartPhase::Trying { worker: None });
        }
    }

    /// Lets an invocation wait again whose attempt could not be started.
    fn put_back(&mut self, now: Now, worker: &Worker, (run, message): (Run, &str), out: &mut Vec<Action>) {
        if run.ending.is_some() {
            // Whatever was to end it has ended it.
            let verdict = Verdict::without_exit(&worker.serving.rules, &run, Reason::Spawn, message.to_owned());
            let done = Done {
                worker: None,
                function: worker.function,
                serving: Arc::clone(&worker.serving),
                run,
            };
            return self.attempt_ended(now, done, Ended::new(verdict, Usage::default(), None), out);
        }
        let (key, id) = (worker.function, run.invocation);
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        invocation.stage = Stage::Ready;
        invocation.attempts = run.attempt.0.saturating_sub(1);
        if matches!(invocation.last, Some((Reason::ExecuteAgain, _))) {
            invocation.polls = invocation.polls.saturating_sub(1);
        }
        if invocation.attempts == 0 {
            (invocation.started, invocation.version) = (None, None);
            if let Some(at) = invocation.expires {
                self.timers.arm(at, Timer::Expire(id));
            }
        }
        let record = Box::new(invocation.record(&self.functions[key].name));
        out.push(Action::PutBack(run.attempt, record));
        match self.why_not_again(key, id) {
            Some((skip, why)) => self.give_up(now, id, (skip, why), out),
            None => self.make_ready(now, id),
        }
        if !self.phase.is_serving() {
            self.release(now, id, out);
        }
    }

    /// Says why an invocation that waits again is not to run, if its function changed while it was being started.
    fn why_not_again(&self, key: FunctionKey, id: InvocationId) -> Option<(Skip, &'static str)> {
        let function = &self.functions[key];
        let content = self.invocations.get(&id).and_then(|invocation| invocation.load_key);
        match function.serving() {
            None => Some((Skip::Deleted, "the function was deleted while it waited")),
            Some(_) if !function.is_enabled() => Some((Skip::Disabled, "the function was disabled while it waited")),
            Some(serving) if content.is_some_and(|content| content != serving.load_key) => {
                Some((Skip::Overlap, "newer content came before it could run"))
            }
            Some(_) => None,
        }
    }

    /// The spawner answers, or does not. Who waits for something that it would have to start is told so at once.
    pub(super) fn spawner_answers(&mut self, now: Now, answers: bool, out: &mut Vec<Action>) {
        self.starts.silent = !answers;
        out.push(Action::Notice(Notice::StartsChanged));
        if answers {
            return;
        }
        let waited_for = self
            .invocations
            .values()
            .filter(|invocation| !invocation.waiters.is_empty());
        for id in waited_for.map(|invocation| invocation.id).collect::<Vec<_>>() {
            let Some(invocation) = self.invocations.get(&id) else {
                continue;
            };
            let goes_on = match invocation.stage {
                Stage::Running { worker } => {
                    let worker = self.workers.get(&worker);
                    if worker.is_none_or(|worker| worker.phase != Phase::Starting) {
                        continue;
                    }
                    true
                }
                // A worker that is there takes it.
                _ if self.has_warm(invocation.function) => continue,
                _ => invocation.durable,
            };
            if goes_on {
                let reason = format!("{SILENT}; invocation {id} goes on when it can: see `fndctl result {id}`");
                self.turn_away(id, &reason, out);
            } else {
                self.turn_away(id, &format!("{SILENT}: ask again, {id} is `cancelled`"), out);
                self.end(now, id, End::new(Reason::Cancelled, SILENT), out);
            }
        }
    }

    fn has_warm(&self, key: FunctionKey) -> bool {
        let workers = self.functions[key].running.iter().filter_map(|id| self.workers.get(id));
        let mut warm = workers
            .filter(|worker| worker.member.is_some() && matches!(worker.phase, Phase::Idle { .. } | Phase::Busy));
        warm.next().is_some()
    }
}
