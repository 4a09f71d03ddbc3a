//! A worker: one started process tree, from the order to start it until its leaf is empty.
//!
//! A script's worker runs one attempt. A handler's worker belongs to the function's pool: it becomes
//! ready, serves calls, each of which is an attempt, and stops.
//! ```text
//! script:  Starting ──Spawned──▶ Busy ──asked to end: Term──▶ Terminating ──grace over: Kill──▶ Killed
//!              └─SpawnFailed─▶ gone ◀──────────── Exited, from each ───────────────────────────┘
//! handler: Starting ──Spawned──▶ Loading ──WorkerReady──▶ Idle ◀──▶ Busy ──asked to end──▶ Terminating ...
//!                                    └───────────────────────┴──Stop──▶ Leaving ──grace over──▶ Terminating
//! ```

use super::FunctionKey;
use super::releases::ServingRelease;
use crate::messages::Now;
use crate::messages::end_cause::EndCause;
use crate::messages::rules::{FunctionKind, Pool, Rules};
use crate::records::outcome::Reason;
use fnd_wire::ids::{Attempt, InvocationId};
use std::sync::Arc;
use std::time::Duration;

/// A worker and the attempts it runs.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) function: FunctionKey,
    /// The version that was started, whatever is installed meanwhile.
    pub(crate) serving: Arc<ServingRelease>,
    pub(crate) started: Now,
    pub(crate) phase: WorkerPhase,
    /// Whether an earlier fnd started the worker.
    pub(crate) adopted: bool,
    /// Whether the worker had ended when this fnd adopted it.
    pub(crate) ended_before: bool,
    /// When the worker ended, if its end is reported later.
    pub(crate) ended_at: Option<Duration>,
    /// Why the last readiness probe failed.
    pub(crate) waits_for: Option<String>,
    /// The attempts: exactly one for a script, one for each call in flight for a handler.
    pub(crate) runs: Vec<Run>,
    pub(crate) kind: WorkerKind,
}

/// The kind of a worker, with the state that only this kind has.
#[derive(Debug)]
pub(crate) enum WorkerKind {
    /// One attempt of a script.
    Script,
    /// Calls of a handler or requests to an HTTP program, as a member of the function's pool.
    Member(Box<HandlerWorker>),
    /// One run of a service.
    Service(Readiness),
}

/// Whether a service's process is ready.
#[derive(Debug)]
pub(crate) struct Readiness {
    pub(crate) ready: bool,
    /// When the time to become ready is over; for a ready process, when it has run long enough to count as healthy.
    pub(crate) check_at: Option<Duration>,
}

impl WorkerKind {
    /// Returns the kind of a worker that runs one attempt in a process of its own.
    pub(crate) fn of_process(kind: &FunctionKind) -> Self {
        let readiness = Readiness {
            ready: true,
            check_at: None,
        };
        match kind.is_service() {
            true => Self::Service(readiness),
            false => Self::Script,
        }
    }
}

/// An attempt in a worker.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) invocation: InvocationId,
    pub(crate) attempt: Attempt,
    pub(crate) poll: u32,
    pub(crate) started: Now,
    /// Timeout of the attempt: the manifest's, or a shorter one from the caller.
    pub(crate) timeout: Option<Duration>,
    /// When its timer is due, while that is armed: at the timeout, or at the end of the grace of a call that is ended
    /// while others go on.
    pub(crate) timeout_at: Option<Duration>,
    /// Why fnd ends the attempt; absent if it does not.
    pub(crate) ending: Option<EndCause>,
    /// For a call: its number, and whether an invocation waited for its worker to start.
    pub(crate) call: Option<(u64, bool)>,
}

impl Run {
    /// Returns reason and message of its end, if fnd ends it.
    pub(crate) fn ended_by_fnd(&self, rules: &Rules) -> Option<(Reason, String)> {
        let ending = self.ending.as_ref()?;
        Some((ending.reason(), ending.words(Some(rules), self.timeout)))
    }

    /// Returns how long ago the attempt ended, and how long it had run, if it ended at this instant.
    pub(crate) fn ended_at(&self, at: Duration, now: Now) -> (Duration, Duration) {
        (now.mono.saturating_sub(at), at.saturating_sub(self.started.mono))
    }
}

/// State of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkerPhase {
    /// The spawner was asked to start it.
    Starting,
    /// The process exists; its code is not loaded.
    Loading { until: Duration },
    /// The code is loaded; the worker has no call.
    Idle { since: Duration, until: Option<Duration> },
    /// The worker runs an attempt, or several calls.
    Busy,
    /// The worker was told to finish, or is exiting by itself.
    Leaving { until: Duration },
    /// The worker got SIGTERM.
    Terminating { kill_at: Duration },
    /// The worker got SIGKILL.
    Killed { report_at: Option<Duration> },
    /// The worker ended while no fnd was running; nothing that is due now can have ended it.
    Over,
}

impl WorkerPhase {
    /// Says whether its code is being loaded, or serves.
    pub(crate) fn goes_on(self) -> bool {
        matches!(self, Self::Loading { .. } | Self::Idle { .. } | Self::Busy)
    }

    /// Says whether its process was told to end, and has got no SIGKILL.
    pub(crate) fn is_stopping(self) -> bool {
        matches!(self, Self::Leaving { .. } | Self::Terminating { .. })
    }

    /// Says whether it has a process that has got no SIGKILL.
    pub(crate) fn can_be_killed(self) -> bool {
        self.goes_on() || self.is_stopping()
    }

    /// Says whether fnd ended it, so that its exit says nothing.
    pub(crate) fn was_ended(self) -> bool {
        matches!(self, Self::Terminating { .. } | Self::Killed { .. })
    }

    /// Returns when the phase's time is over; absent for a phase without a timer.
    pub(crate) fn timer(self) -> Option<Duration> {
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
    /// Returns a worker that is being started, without an attempt.
    pub(crate) fn new(function: FunctionKey, serving: Arc<ServingRelease>, started: Now, kind: WorkerKind) -> Self {
        Self {
            function,
            serving,
            started,
            phase: WorkerPhase::Starting,
            adopted: false,
            ended_before: false,
            ended_at: None,
            waits_for: None,
            runs: Vec::new(),
            kind,
        }
    }

    /// Returns the attempt of an invocation.
    pub(crate) fn run(&self, invocation: InvocationId) -> Option<&Run> {
        self.runs.iter().find(|run| run.invocation == invocation)
    }

    /// Returns the attempt of an invocation.
    pub(crate) fn run_mut(&mut self, invocation: InvocationId) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.invocation == invocation)
    }

    /// Says whether an answer belongs to a call that was dropped; its code has ended now.
    pub(crate) fn is_dropped(&mut self, call: u64) -> bool {
        let Some(member) = self.member_mut() else { return false };
        let before = member.dropped.len();
        member.dropped.retain(|dropped| *dropped != call);
        member.dropped.len() < before
    }

    /// Says whether the worker runs a service.
    pub(crate) fn is_service(&self) -> bool {
        matches!(self.kind, WorkerKind::Service(_))
    }

    /// Returns the state of a pool's member; absent for other workers.
    pub(crate) fn member(&self) -> Option<&HandlerWorker> {
        match &self.kind {
            WorkerKind::Member(member) => Some(member),
            WorkerKind::Script | WorkerKind::Service(_) => None,
        }
    }

    /// Returns the state of a pool's member; absent for other workers.
    pub(crate) fn member_mut(&mut self) -> Option<&mut HandlerWorker> {
        match &mut self.kind {
            WorkerKind::Member(member) => Some(member),
            WorkerKind::Script | WorkerKind::Service(_) => None,
        }
    }
}

/// State of a handler's worker that other workers do not have. By default its code is not loaded.
#[derive(Debug, Default)]
pub(crate) struct HandlerWorker {
    /// The rules of the worker's version.
    pub(crate) pool: Pool,
    /// Most calls in flight; known once the worker is ready.
    pub(crate) concurrency: u32,
    /// Whether the worker can end one call while others go on.
    pub(crate) cancels: bool,
    /// Cancelled calls whose end is recorded, although their code may still run. Such a worker is retired.
    pub(crate) dropped: Vec<u64>,
    /// When the worker last answered a call.
    pub(crate) answered_at: Option<Duration>,
    /// Number of calls served.
    pub(crate) served: u32,
    /// Whether the worker's code is loaded.
    pub(crate) ready: bool,
    /// Whether an invocation waited for this worker to start.
    pub(crate) cold: bool,
    /// Whether the worker takes no more calls.
    pub(crate) retiring: bool,
    /// Why the worker's code could not be loaded.
    pub(crate) load_error: Option<String>,
    /// Why the worker's answers are not trusted any more.
    pub(crate) broken: Option<String>,
}
