//! A worker: one started process tree, from the wish to start it until its leaf is empty.
//!
//! ```text
//! Starting ──Spawned──▶ Busy ──asked to end: Term──▶ Terminating ──grace over: Kill──▶ Killed
//!     └─SpawnFailed─▶ gone ◀──────────────── Exited, from each ────────────────────────┘
//! ```
//! Nothing is sent to a worker that is still starting: what is to end it waits for `Spawned`.

use super::Supervisor;
use super::action::{Action, Answer, Notice};
use super::event::Now;
use super::function::{FunctionKey, Serving};
use super::timers::Timer;
use super::verdict::Ending;
use crate::ids::{Attempt, InvocationId, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// How long after SIGKILL people are told that a worker does not end.
pub(super) const UNKILLABLE_AFTER: Duration = Duration::from_secs(10);

/// A worker and the attempt it runs.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) function: FunctionKey,
    pub(super) invocation: InvocationId,
    /// What runs: the version of its start, whatever is installed meanwhile.
    pub(super) serving: Arc<Serving>,
    pub(super) attempt: Attempt,
    pub(super) poll: u32,
    pub(super) started: Now,
    /// Timeout of the attempt: the manifest's, or a shorter one the caller asked for.
    pub(super) timeout: Option<Duration>,
    pub(super) phase: Phase,
    /// Why fnd ends it, if it does.
    pub(super) ending: Option<Ending>,
    /// Whether an earlier fnd started it.
    pub(super) adopted: bool,
}

/// Where a worker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The spawner was asked.
    Starting { timeout_at: Option<Duration> },
    /// It runs.
    Busy { timeout_at: Option<Duration> },
    /// It got SIGTERM.
    Terminating { kill_at: Duration },
    /// It got SIGKILL.
    Killed { report_at: Option<Duration> },
    /// It ended while no fnd was there; nothing that is due now can have ended it.
    Over,
}

impl Phase {
    /// Returns when its time is over.
    pub(super) fn timer(self) -> Option<Duration> {
        match self {
            Self::Starting { timeout_at } | Self::Busy { timeout_at } => timeout_at,
            Self::Terminating { kill_at } => Some(kill_at),
            Self::Killed { report_at } => report_at,
            Self::Over => None,
        }
    }
}

impl Supervisor {
    /// The spawner started it.
    pub(super) fn spawned(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        // Unknown: the spawner was lost meanwhile.
        let Some(worker) = self.workers.get(&id) else { return };
        // Otherwise said twice.
        let Phase::Starting { timeout_at } = worker.phase else {
            return;
        };
        let key = worker.function;
        if self.phase.is_stopping() {
            self.kill(now, id, out);
        } else if worker.ending.is_some() {
            self.terminate(now, id, out);
        } else {
            self.enter(id, Phase::Busy { timeout_at });
        }
        self.spawn_worked(key, out);
    }

    /// Changes a worker's phase and arms its timer.
    pub(super) fn enter(&mut self, id: WorkerId, phase: Phase) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        if let Some(at) = worker.phase.timer() {
            self.timers.disarm(at, Timer::Worker(id));
        }
        worker.phase = phase;
        if let Some(at) = phase.timer() {
            self.timers.arm(at, Timer::Worker(id));
        }
    }

    /// Asks a worker to end, for a reason.
    pub(super) fn ask_to_end(&mut self, now: Now, id: WorkerId, ending: Ending, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        if worker.phase == Phase::Over {
            return;
        }
        let first = worker.ending.is_none();
        // The first reason stays, but for a person who wants the whole invocation to end.
        if first || matches!(ending, Ending::Cancelled(_)) {
            worker.ending = Some(ending);
        }
        if !first {
            return;
        }
        match worker.phase {
            Phase::Starting { .. } => self.enter(id, Phase::Starting { timeout_at: None }),
            Phase::Busy { .. } => self.terminate(now, id, out),
            // Already on its way.
            Phase::Terminating { .. } | Phase::Killed { .. } | Phase::Over => {}
        }
    }

    fn terminate(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get(&id) else { return };
        let kill_at = now.mono.saturating_add(worker.serving.rules.grace);
        out.push(Action::Term(id));
        self.enter(id, Phase::Terminating { kill_at });
    }

    /// Kills a worker that is there and was not killed yet.
    pub(super) fn kill(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        out.push(Action::Kill(id));
        let report_at = Some(now.mono.saturating_add(UNKILLABLE_AFTER));
        self.enter(id, Phase::Killed { report_at });
    }

    /// A worker's phase has lasted its time.
    pub(super) fn worker_due(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get(&id) else { return };
        match worker.phase {
            Phase::Starting { .. } | Phase::Busy { .. } => {
                let (invocation, ending) = (worker.invocation, Ending::Timeout);
                let message = ending.words(worker);
                self.ask_to_end(now, id, ending, out);
                self.tell_timed_out(invocation, &message, out);
            }
            Phase::Terminating { .. } => self.kill(now, id, out),
            Phase::Killed { .. } => {
                let function = self.functions[worker.function].name.clone();
                out.push(Action::Notice(Notice::Unkillable { worker: id, function }));
                self.enter(id, Phase::Killed { report_at: None });
            }
            // It has no timer.
            Phase::Over => {}
        }
    }

    /// Tells whoever waits that a limit was reached; the final record follows.
    pub(super) fn tell_timed_out(&mut self, id: InvocationId, message: &str, out: &mut Vec<Action>) {
        let Some(invocation) = self.invocations.get_mut(&id) else {
            return;
        };
        for reply in invocation.waiters.drain(..) {
            let message = message.to_owned();
            out.push(Action::Reply(reply, Box::new(Answer::TimedOut { id, message })));
        }
    }
}
