//! Decides whether workers can be started now. The obstacle may be the node and no function: no descriptors,
//! processes or memory left, a full disk, a spawner that does not answer.
//!
//! ```text
//! Open ──NodeCannotStart──▶ Paused ──time, or a worker ended──▶ Trying ──Spawned──▶ Recovering ──time──▶ Open
//!                             ▲                                 │   └──nothing to start──▶ Open  │
//!                             └──────────NodeCannotStart────────┴────────────────────────────────┘
//! ```
//! An attempt that could not be started has not begun: its invocation waits again, with its attempt number, its claim
//! and its expiry as before. During a pause nothing is started. Then one start is tried, and the others follow only
//! after it has worked.
//!
//! Where the obstacle is a function, only this function is held: after some failures in a row it is crash-looping, and each
//! further start waits for its backoff.

use super::attempt::EndedAttempt;
use super::versions::{DELETED, DISABLED, SUPERSEDED};
use super::{Supervisor, pause_after};
use crate::messages::action::{Action, Notice};
use crate::records::outcome::{Reason, Skip};
use crate::run_state::FunctionKey;
use crate::run_state::invocation::{InvocationEnd, InvocationStage};
use crate::run_state::releases::ServingRelease;
use crate::run_state::timers::Timer;
use crate::run_state::verdict::AttemptVerdict;
use crate::run_state::worker::{Run, Worker, WorkerPhase};
use fnd_wire::ids::{InvocationId, WorkerId};
use std::time::Duration;

/// How long starts must work before people are told that the node is well again: a node at its limit may start one
/// worker and then no more.
const CALM: Duration = Duration::from_secs(5);

/// Shortest pause between starts of a crash-looping function, whatever its backoff says.
const LOOP_PAUSE_MIN: Duration = Duration::from_secs(1);

const SILENT: &str = "fnd-spawner does not answer, so nothing can be started";

/// Whether the node can start workers, and why not.
#[derive(Debug, Default)]
pub(super) struct Starts {
    phase: StartPhase,
    /// Pauses in a row.
    failures: u32,
    /// Why the last start failed; absent once starts work again.
    why: Option<String>,
    /// Whether the spawner does not answer.
    silent: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum StartPhase {
    #[default]
    Open,
    /// No worker is started until this instant.
    Paused { until: Duration },
    /// One start is tried, to see whether others would work.
    Trying { worker: Option<WorkerId> },
    /// Workers are started again; at this instant the node counts as well.
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

    /// Records that a worker is being started.
    pub(super) fn began(&mut self, id: WorkerId) {
        if let StartPhase::Trying { worker } = &mut self.phase {
            worker.get_or_insert(id);
        }
    }

    /// Says whether the next start is the trial start.
    pub(super) fn is_to_be_tried(&self) -> bool {
        self.phase == (StartPhase::Trying { worker: None })
    }

    fn is_tried_with(&self, id: WorkerId) -> bool {
        self.phase == (StartPhase::Trying { worker: Some(id) })
    }
}

impl Supervisor {
    /// Returns why the node starts no workers at the moment; absent if it can.
    #[must_use]
    pub fn cannot_start(&self) -> Option<&str> {
        self.starts.why.as_deref()
    }

    /// Says whether the spawner does not answer.
    #[must_use]
    pub fn is_spawner_silent(&self) -> bool {
        self.starts.silent
    }

    /// Returns why a caller is refused at once: it would wait for a start, but the spawner does not answer.
    pub(super) fn start_refusal(&self, key: FunctionKey) -> Option<String> {
        let warm = !self.functions[key].work.free.is_empty();
        (self.starts.silent && !warm).then(|| SILENT.to_owned())
    }

    /// Handles a worker that could not be started for the node's reason: its attempts have not begun.
    pub(super) fn node_cannot_start(&mut self, id: WorkerId, message: &str) {
        let Some(mut worker) = self.take_worker(id) else { return };
        self.pause_starts(id, message);
        let key = worker.function;
        if let Some(candidate) = self.functions[key].tried_with(id) {
            // The version has not failed: it is tried when the node can start workers again.
            (candidate.worker, candidate.wanted) = (None, true);
        }
        for run in std::mem::take(&mut worker.runs) {
            self.put_back(&worker, run, message);
        }
        self.announce(key);
        self.line_up(key);
    }

    fn pause_starts(&mut self, id: WorkerId, why: &str) {
        // One notice tells of a whole series of failures.
        if self.starts.why.replace(why.to_owned()).is_none() {
            self.out.push(Action::Notice(Notice::StartsChanged));
        }
        let ordered_before = match self.starts.phase {
            StartPhase::Paused { .. } => true,
            StartPhase::Trying { worker } => worker != Some(id),
            StartPhase::Open | StartPhase::Recovering { .. } => false,
        };
        // This start was ordered before the pause began, so its failure must not lengthen the pause.
        if ordered_before {
            return;
        }
        let until = self.now.mono.saturating_add(pause_after(&mut self.starts.failures));
        self.enter_start_phase(StartPhase::Paused { until });
    }

    fn enter_start_phase(&mut self, phase: StartPhase) {
        let timer = |phase| match phase {
            StartPhase::Paused { until } | StartPhase::Recovering { until } => Some(until),
            StartPhase::Open | StartPhase::Trying { .. } => None,
        };
        self.timers.disarm(timer(self.starts.phase), Timer::Starts);
        self.timers.arm(timer(phase), Timer::Starts);
        self.starts.phase = phase;
    }

    /// Starts workers as if none had failed.
    pub(super) fn open_starts(&mut self) {
        self.enter_start_phase(StartPhase::Open);
        self.starts.failures = 0;
        if self.starts.why.take().is_some() {
            self.out.push(Action::Notice(Notice::StartsChanged));
        }
    }

    /// Handles the end of a phase's time.
    pub(super) fn starts_due(&mut self) {
        match self.starts.phase {
            StartPhase::Paused { .. } => self.enter_start_phase(StartPhase::Trying { worker: None }),
            StartPhase::Recovering { .. } => self.open_starts(),
            // These phases have no timer.
            StartPhase::Open | StartPhase::Trying { .. } => {}
        }
    }

    /// Handles a worker that was started.
    pub(super) fn start_worked(&mut self, id: WorkerId) {
        if self.starts.is_tried_with(id) {
            let until = self.now.mono.saturating_add(CALM);
            self.enter_start_phase(StartPhase::Recovering { until });
        }
    }

    /// Handles a trial start that failed because of its function: another start must show whether the node can start
    /// workers.
    pub(super) fn start_unanswered(&mut self, id: WorkerId) {
        if self.starts.is_tried_with(id) {
            self.enter_start_phase(StartPhase::Trying { worker: None });
        }
    }

    /// Handles the end of a worker: its descriptors, processes and memory are free again, so that a start may work now.
    pub(super) fn room_was_made(&mut self) {
        if matches!(self.starts.phase, StartPhase::Paused { .. }) {
            self.enter_start_phase(StartPhase::Trying { worker: None });
        }
    }

    /// Puts an invocation whose attempt could not be started back into the queue.
    fn put_back(&mut self, worker: &Worker, run: Run, message: &str) {
        if run.ending.is_some() {
            // A timeout or a cancel came meanwhile: the attempt ends now.
            let verdict = AttemptVerdict::without_exit(&worker.serving.rules, &run, Reason::Spawn, message.to_owned());
            return self.attempt_ended(EndedAttempt::new(None, worker, run, verdict));
        }
        let (key, id) = (worker.function, run.invocation);
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        invocation.attempts = run.attempt.0.saturating_sub(1);
        // `begin` has counted the attempt as a poll, but it has not begun.
        if matches!(invocation.last, Some((Reason::ExecuteAgain, _))) {
            invocation.polls = invocation.polls.saturating_sub(1);
        }
        if invocation.attempts == 0 {
            (invocation.started, invocation.version) = (None, None);
            self.timers.arm(invocation.expires_at(), Timer::Expire(id));
        }
        // The place in the queue depends on the number of attempts, so the stage changes last.
        let function = &mut self.functions[key];
        function.work.queue.change(invocation, InvocationStage::Ready);
        let record = Box::new(invocation.record(&function.name));
        self.out.push(Action::PutBack(run.attempt, record));
        // No process was started, so nobody can have called; should the books say otherwise, nobody waits.
        self.end_unwaited(id);
        match self.why_not_again(key, id) {
            Some((skip, why)) => self.give_up(id, (skip, why)),
            None => self.line_up(key),
        }
        if !self.phase.is_serving() {
            self.release(id);
        }
    }

    /// Returns why an invocation must not wait again, if its function changed while it was being started.
    fn why_not_again(&self, key: FunctionKey, id: InvocationId) -> Option<(Skip, &'static str)> {
        let function = &self.functions[key];
        let content = self.invocations.get(&id).and_then(|invocation| invocation.load_key);
        match function.serving() {
            None => Some(DELETED),
            Some(_) if !function.is_enabled() => Some(DISABLED),
            Some(serving) if content.is_some_and(|content| content != serving.load_key) => Some(SUPERSEDED),
            Some(_) => None,
        }
    }

    /// Handles whether the spawner answers. If it does not, callers that wait for a start are answered at once.
    pub(super) fn spawner_answers(&mut self, answers: bool) {
        self.starts.silent = !answers;
        self.out.push(Action::Notice(Notice::StartsChanged));
        if answers {
            return;
        }
        for id in self.invocations_with(|invocation| !invocation.waiters.is_empty()) {
            let Some(invocation) = self.invocations.get(&id) else {
                continue;
            };
            let worker = invocation.stage.worker();
            let goes_on = match worker.map(|worker| self.workers.get(&worker)) {
                Some(Some(worker)) if worker.phase == WorkerPhase::Starting => true,
                // A worker has it already, and the end of the attempt answers the caller.
                Some(_) => continue,
                // A worker that is already running takes the invocation.
                None if self.has_warm(invocation.function) => continue,
                None => invocation.durable,
            };
            if goes_on {
                let reason = format!("{SILENT}; invocation {id} continues when it can: see `fndctl result {id}`");
                self.turn_away(id, &reason);
            } else {
                self.turn_away(id, &format!("{SILENT}: send the request again, {id} is `cancelled`"));
                self.end(id, InvocationEnd::new(Reason::Cancelled, SILENT));
            }
        }
    }

    fn has_warm(&self, key: FunctionKey) -> bool {
        self.workers_of(key).any(|(_, worker)| {
            worker.member().is_some() && matches!(worker.phase, WorkerPhase::Idle { .. } | WorkerPhase::Busy)
        })
    }

    /// Counts a worker that could not be started, and delays the next start if there were too many.
    pub(super) fn count_start_failure(&mut self, key: FunctionKey, serving: &ServingRelease) {
        let function = &mut self.functions[key];
        // Failures of a version that has been replaced meanwhile do not count.
        let newest = function.serving();
        if newest.is_none_or(|newest| newest.version != serving.version) {
            return;
        }
        let failures = function.start_failures.get_or_insert_default();
        if failures.count(self.now.mono) {
            let delay = serving.rules.retry.backoff.delay(failures.looping, self.random.f64());
            self.hold(key, delay.max(LOOP_PAUSE_MIN));
        }
    }

    /// Starts no worker of a function with start failures during a pause.
    pub(super) fn hold(&mut self, key: FunctionKey, pause: Duration) {
        if let Some(failures) = &mut self.functions[key].start_failures {
            let until = self.now.mono.saturating_add(pause);
            self.timers.disarm(failures.hold.replace(until), Timer::Hold(key));
            self.timers.arm(until, Timer::Hold(key));
        }
    }

    /// Ends the pause of a function with start failures, which still count.
    pub(super) fn end_hold(&mut self, key: FunctionKey) {
        if let Some(failures) = &mut self.functions[key].start_failures {
            self.timers.disarm(failures.hold.take(), Timer::Hold(key));
        }
    }

    /// Starts what a crash-looping function has to do, after its pause.
    pub(super) fn hold_over(&mut self, key: FunctionKey) {
        self.end_hold(key);
        self.keep_running(key);
        self.line_up(key);
    }

    /// Handles a worker that was started: earlier start failures no longer count.
    pub(super) fn spawn_worked(&mut self, key: FunctionKey) {
        if self.functions[key].start_failures.is_some() {
            self.forget_start_failures(key);
            self.announce(key);
            self.line_up(key);
        }
    }

    pub(super) fn forget_start_failures(&mut self, key: FunctionKey) {
        let failures = self.functions[key].start_failures.take();
        self.timers
            .disarm(failures.and_then(|failures| failures.hold), Timer::Hold(key));
    }
}
