//! A worker: one started process tree, from the wish to start it until its leaf is empty.
//!
//! A script's worker is one attempt. A handler's worker belongs to the function's [pool](super::pool): it gets ready, serves
//! calls, each an attempt, and leaves.
//! ```text
//! script:  Starting ──Spawned──▶ Busy ──asked to end: Term──▶ Terminating ──grace over: Kill──▶ Killed
//!              └─SpawnFailed─▶ gone ◀──────────── Exited, from each ───────────────────────────┘
//! handler: Starting ──Spawned──▶ Loading ──WorkerReady──▶ Idle ◀──▶ Busy ──asked to end──▶ Terminating ...
//!                                    └───────────────────────┴──Stop──▶ Leaving ──grace over──▶ Terminating
//! ```
//! Nothing is sent to a worker that is still starting: what is to end it waits for `Spawned`.

use super::Supervisor;
use super::action::{Action, Answer, Notice};
use super::event::Now;
use super::function::{FunctionKey, Serving};
use super::pool::Member;
use super::timers::Timer;
use super::verdict::Ending;
use fnd_wire::ids::{Attempt, InvocationId, WorkerId};
use std::sync::Arc;
use std::time::Duration;

/// How long after SIGKILL people are told that a worker does not end.
pub(super) const UNKILLABLE_AFTER: Duration = Duration::from_secs(10);

/// A worker and the attempts it runs.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) function: FunctionKey,
    /// What runs: the version of its start, whatever is installed meanwhile.
    pub(super) serving: Arc<Serving>,
    pub(super) started: Now,
    pub(super) phase: Phase,
    /// Whether an earlier fnd started it.
    pub(super) adopted: bool,
    /// Of a script exactly one, of a handler one for each call in flight.
    pub(super) runs: Vec<Run>,
    /// What a handler's worker has beside.
    pub(super) member: Option<Box<Member>>,
    /// Of a service: whether it is ready, when that is looked at next, and what stood in its way when somebody looked last.
    pub(super) ready: bool,
    pub(super) look_at: Option<Duration>,
    pub(super) waits_for: Option<String>,
}

/// An attempt in a worker.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) invocation: InvocationId,
    pub(super) attempt: Attempt,
    pub(super) poll: u32,
    pub(super) started: Now,
    /// Timeout of the attempt: the manifest's, or a shorter one the caller asked for.
    pub(super) timeout: Option<Duration>,
    /// When that is, while it counts.
    pub(super) timeout_at: Option<Duration>,
    /// Why fnd ends it, if it does.
    pub(super) ending: Option<Ending>,
    /// Of a call: its number, and whether its worker was started for it.
    pub(super) call: Option<(u64, bool)>,
}

/// Where a worker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The spawner was asked.
    Starting,
    /// It is there, its code is not loaded.
    Loading { until: Duration },
    /// Its code is loaded, it has no call.
    Idle { since: Duration, until: Option<Duration> },
    /// It runs an attempt, or several calls.
    Busy,
    /// It was told to finish, or does so by itself.
    Leaving { until: Duration },
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
            Self::Loading { until } | Self::Leaving { until } => Some(until),
            Self::Idle { until, .. } => until,
            Self::Terminating { kill_at } => Some(kill_at),
            Self::Killed { report_at } => report_at,
            Self::Starting | Self::Busy | Self::Over => None,
        }
    }
}

impl Worker {
    /// Returns the attempt of an invocation.
    pub(super) fn run(&self, invocation: InvocationId) -> Option<&Run> {
        self.runs.iter().find(|run| run.invocation == invocation)
    }
}

impl Supervisor {
    /// The spawner started it.
    pub(super) fn spawned(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        // Unknown: the spawner was lost meanwhile.
        let Some(worker) = self.workers.get(&id) else { return };
        // Otherwise said twice.
        if worker.phase != Phase::Starting {
            return;
        }
        let (key, is_member) = (worker.function, worker.member.is_some());
        let is_service = worker.serving.rules.service.is_some();
        let is_to_end = worker.runs.iter().any(|run| run.ending.is_some());
        self.start_worked(now, id);
        if self.phase.is_stopping() {
            self.kill(now, id, out);
        } else if is_to_end {
            self.terminate(now, id, out);
        } else if is_member {
            self.member_spawned(now, id, out);
        } else {
            self.enter(id, Phase::Busy);
        }
        if is_service {
            self.service_spawned(now, id);
        } else if !is_member {
            self.spawn_worked(now, key, out);
        }
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

    /// Asks a worker to end because of one of its attempts, for a reason.
    pub(super) fn ask_to_end(
        &mut self,
        now: Now,
        (id, invocation): (WorkerId, InvocationId),
        ending: Ending,
        out: &mut Vec<Action>,
    ) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let over = worker.phase == Phase::Over;
        let Some(run) = worker.runs.iter_mut().find(|run| run.invocation == invocation) else {
            return;
        };
        if over {
            return;
        }
        let first = run.ending.is_none();
        // The first reason stays, but for a person who wants the whole invocation to end.
        if first || matches!(ending, Ending::Cancelled(_)) {
            run.ending = Some(ending);
        }
        if let Some(at) = run.timeout_at.take() {
            self.timers.disarm(at, Timer::Attempt(id, invocation));
        }
        match worker.phase {
            Phase::Busy | Phase::Idle { .. } | Phase::Leaving { .. } if first => self.terminate(now, id, out),
            // It gets its SIGTERM when it is there.
            Phase::Starting | Phase::Loading { .. } => {}
            // Already on its way.
            _ => {}
        }
    }

    /// Sends a worker SIGTERM.
    pub(super) fn terminate(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get(&id) else { return };
        let kill_at = now.mono.saturating_add(worker.serving.rules.grace);
        out.push(Action::Term(id));
        self.enter(id, Phase::Terminating { kill_at });
        self.out_of_service(id);
    }

    /// Kills a worker that is there and was not killed yet.
    pub(super) fn kill(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        out.push(Action::Kill(id));
        let report_at = Some(now.mono.saturating_add(UNKILLABLE_AFTER));
        self.enter(id, Phase::Killed { report_at });
        self.out_of_service(id);
    }

    /// An attempt has lasted its time.
    pub(super) fn attempt_due(&mut self, now: Now, id: WorkerId, invocation: InvocationId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get(&id) else { return };
        let Some(run) = worker.run(invocation) else { return };
        let message = Ending::Timeout.words(&worker.serving.rules, run.timeout);
        self.ask_to_end(now, (id, invocation), Ending::Timeout, out);
        self.tell_timed_out(invocation, &message, out);
    }

    /// A worker's phase has lasted its time.
    pub(super) fn worker_due(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get(&id) else { return };
        match worker.phase {
            Phase::Loading { .. } => self.not_ready(now, id, out),
            Phase::Idle { .. } => self.idle_due(now, id, out),
            Phase::Leaving { .. } => self.terminate(now, id, out),
            Phase::Terminating { .. } => self.kill(now, id, out),
            Phase::Killed { .. } => {
                let function = self.functions[worker.function].name.clone();
                out.push(Action::Notice(Notice::Unkillable { worker: id, function }));
                self.enter(id, Phase::Killed { report_at: None });
            }
            // They have no timer.
            Phase::Starting | Phase::Busy | Phase::Over => {}
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
