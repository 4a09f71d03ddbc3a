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

use super::Supervisor;
use super::attempt::{EndFacts, EndedAttempt};
use crate::messages::Now;
use crate::messages::action::{Action, Notice};
use crate::records::Usage;
use crate::records::outcome::{Reason, Skip};
use crate::run_state::FunctionKey;
use crate::run_state::function::StartFailures;
use crate::run_state::invocation::{InvocationEnd, InvocationStage};
use crate::run_state::releases::ServingRelease;
use crate::run_state::timers::Timer;
use crate::run_state::verdict::AttemptVerdict;
use crate::run_state::worker::{Run, Worker, WorkerPhase};
use fnd_wire::ids::{InvocationId, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// How long nothing is started after the first failed start; the pause doubles with each further failure.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How long starts must work before people are told that the node is well again: a node at its limit may start one
/// worker and then no more.
const CALM: Duration = Duration::from_secs(5);

/// This many workers that could not be started within [`LOOP_WINDOW`] make a crash loop.
pub(super) const LOOP_FAILURES: usize = 5;
pub(super) const LOOP_WINDOW: Duration = Duration::from_secs(60);
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

    /// Ends the trial phase, because nothing waits that could be started.
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
    pub(super) fn node_cannot_start(&mut self, now: Now, id: WorkerId, message: &str, out: &mut Vec<Action>) {
        let Some(mut worker) = self.take_worker(id) else { return };
        self.pause_starts(now, id, message, out);
        let key = worker.function;
        let candidate = self.functions[key].candidate.as_mut();
        if let Some(candidate) = candidate.filter(|candidate| candidate.worker == Some(id)) {
            // The version has not failed: it is tried when the node can start workers again.
            (candidate.worker, candidate.wanted) = (None, true);
        }
        for run in std::mem::take(&mut worker.runs) {
            self.put_back(now, &worker, (run, message), out);
        }
        self.announce(key, out);
        self.line_up(now, key);
    }

    fn pause_starts(&mut self, now: Now, id: WorkerId, why: &str, out: &mut Vec<Action>) {
        // One notice tells of a whole series of failures.
        if self.starts.why.replace(why.to_owned()).is_none() {
            out.push(Action::Notice(Notice::StartsChanged));
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

    /// Handles the end of a phase's time.
    pub(super) fn starts_due(&mut self, out: &mut Vec<Action>) {
        match self.starts.phase {
            StartPhase::Paused { .. } => self.enter_start_phase(StartPhase::Trying { worker: None }),
            StartPhase::Recovering { .. } => {
                self.enter_start_phase(StartPhase::Open);
                self.starts.all_is_well(out);
            }
            // These phases have no timer.
            StartPhase::Open | StartPhase::Trying { .. } => {}
        }
    }

    /// Handles a worker that was started.
    pub(super) fn start_worked(&mut self, now: Now, id: WorkerId) {
        if self.starts.is_tried_with(id) {
            let until = now.mono.saturating_add(CALM);
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
    fn put_back(&mut self, now: Now, worker: &Worker, (run, message): (Run, &str), out: &mut Vec<Action>) {
        if run.ending.is_some() {
            // A timeout or a cancel came meanwhile: the attempt ends now.
            let verdict = AttemptVerdict::without_exit(&worker.serving.rules, &run, Reason::Spawn, message.to_owned());
            let done = EndedAttempt {
                worker: None,
                function: worker.function,
                serving: Arc::clone(&worker.serving),
                run,
            };
            return self.attempt_ended(now, done, EndFacts::new(verdict, Usage::default(), None), out);
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
            if let Some(expires) = invocation.expires {
                self.timers.arm(expires.at, Timer::Expire(id));
            }
        }
        // The place in the queue depends on the number of attempts, so the stage changes last.
        let function = &mut self.functions[key];
        function.queue.change(invocation, InvocationStage::Ready);
        let record = Box::new(invocation.record(&function.name));
        out.push(Action::PutBack(run.attempt, record));
        // No process was started, so nobody can have called; should the books say otherwise, nobody waits.
        self.end_unwaited(now, id, out);
        match self.why_not_again(key, id) {
            Some((skip, why)) => self.give_up(now, id, (skip, why), out),
            None => self.line_up(now, key),
        }
        if !self.phase.is_serving() {
            self.release(now, id, out);
        }
    }

    /// Returns why an invocation must not wait again, if its function changed while it was being started.
    fn why_not_again(&self, key: FunctionKey, id: InvocationId) -> Option<(Skip, &'static str)> {
        let function = &self.functions[key];
        let content = self.invocations.get(&id).and_then(|invocation| invocation.load_key);
        match function.serving() {
            None => Some((Skip::Deleted, "the function was deleted while it waited")),
            Some(_) if !function.is_enabled() => Some((Skip::Disabled, "the function was disabled while it waited")),
            Some(serving) if content.is_some_and(|content| content != serving.load_key) => {
                Some((Skip::Overlap, "it was replaced by newer content before it started"))
            }
            Some(_) => None,
        }
    }

    /// Handles whether the spawner answers. If it does not, callers that wait for a start are answered at once.
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
                InvocationStage::Running { worker } => {
                    let worker = self.workers.get(&worker);
                    if worker.is_none_or(|worker| worker.phase != WorkerPhase::Starting) {
                        continue;
                    }
                    true
                }
                // A worker that is already running takes the invocation.
                _ if self.has_warm(invocation.function) => continue,
                _ => invocation.durable,
            };
            if goes_on {
                let reason = format!("{SILENT}; invocation {id} continues when it can: see `fndctl result {id}`");
                self.turn_away(id, &reason, out);
            } else {
                self.turn_away(
                    id,
                    &format!("{SILENT}: send the request again, {id} is `cancelled`"),
                    out,
                );
                self.end(now, id, InvocationEnd::new(Reason::Cancelled, SILENT), out);
            }
        }
    }

    fn has_warm(&self, key: FunctionKey) -> bool {
        let workers = self.functions[key]
            .work
            .running
            .iter()
            .filter_map(|id| self.workers.get(id));
        let mut warm = workers.filter(|worker| {
            worker.member().is_some() && matches!(worker.phase, WorkerPhase::Idle { .. } | WorkerPhase::Busy)
        });
        warm.next().is_some()
    }

    /// Counts a worker that could not be started, and delays the next start if there were too many.
    pub(super) fn count_start_failure(&mut self, now: Now, key: FunctionKey, serving: &ServingRelease) {
        let function = &mut self.functions[key];
        // Failures of a version that has been replaced meanwhile do not count.
        if function
            .serving()
            .is_none_or(|newest| newest.version != serving.version)
        {
            return;
        }
        let failures = function
            .start_failures
            .get_or_insert_with(Box::<StartFailures>::default);
        let recent = |at: &Duration| now.mono.saturating_sub(*at) <= LOOP_WINDOW;
        failures.failures.retain(recent);
        failures.failures.push(now.mono);
        if failures.failures.len() > LOOP_FAILURES {
            failures.failures.remove(0);
        }
        if failures.looping == 0 && failures.failures.len() < LOOP_FAILURES {
            return;
        }
        failures.looping = failures.looping.saturating_add(1);
        let delay = serving.rules.retry.backoff.delay(failures.looping, self.random.f64());
        let hold = now.mono.saturating_add(delay.max(LOOP_PAUSE_MIN));
        if let Some(before) = failures.hold.replace(hold) {
            self.timers.disarm(before, Timer::Hold(key));
        }
        self.timers.arm(hold, Timer::Hold(key));
    }

    /// Handles the end of a crash-looping function's pause.
    pub(super) fn hold_over(&mut self, now: Now, key: FunctionKey, out: &mut Vec<Action>) {
        if let Some(failures) = &mut self.functions[key].start_failures {
            failures.hold = None;
        }
        self.keep_running(key, out);
        self.line_up(now, key);
    }

    /// Handles a worker that was started: earlier start failures no longer count.
    pub(super) fn spawn_worked(&mut self, now: Now, key: FunctionKey, out: &mut Vec<Action>) {
        if self.functions[key].start_failures.is_some() {
            self.forget_start_failures(key);
            self.announce(key, out);
            self.line_up(now, key);
        }
    }

    pub(super) fn forget_start_failures(&mut self, key: FunctionKey) {
        if let Some(hold) = self.functions[key]
            .start_failures
            .take()
            .and_then(|failures| failures.hold)
        {
            self.timers.disarm(hold, Timer::Hold(key));
        }
    }
}
