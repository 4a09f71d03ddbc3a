//! Keeps the processes of services running while their function exists. A service is never invoked.
//!
//! Each run of a process is its own invocation with one attempt, so that the history shows how each run ended and
//! deletes it in time. For each missing process the supervisor requests an invocation
//! ([`Action::Run`]): at once for the first, after the backoff of `[retry]` when a process has
//! ended by itself.
//!
//! A new version starts only after the processes of the old one were told to end and have ended. Two versions at once
//! would compete for the port, the lock or the queue of the service.

use super::Supervisor;
use crate::messages::action::Action;
use crate::messages::end_cause::EndCause;
use crate::messages::rules::FunctionKind;
use crate::records::outcome::{Class, Reason};
use crate::run_state::function::{LOOP_WINDOW, StartFailures};
use crate::run_state::releases::ServingRelease;
use crate::run_state::timers::Timer;
use crate::run_state::worker::{Worker, WorkerKind, WorkerPhase};
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::ids::{Version, WorkerId};
use std::time::Duration;

/// A process that has run this long is well: after its end the backoff starts with the first delay again.
pub(super) const STEADY_AFTER: Duration = LOOP_WINDOW;

impl Supervisor {
    /// Requests as many runs of a service as are missing.
    pub(super) fn keep_running(&mut self, key: FunctionKey) {
        let serves = self.serves() && self.first_scan_done;
        let function = &mut self.functions[key];
        let Some(FunctionKind::Service(service)) = function.serving().map(|serving| &serving.rules.kind) else {
            return;
        };
        let replicas = to_usize(service.replicas);
        if !serves || function.is_held() || !function.is_enabled() || function.full.is_some() {
            return;
        }
        // A run that is requested is not in the queue yet. If it did not count, the next event would request it again.
        let there = function.work.queue.live().len() + function.work.requested;
        for _ in there..replicas {
            function.work.requested += 1;
            self.out.push(Action::Run(function.name.clone()));
        }
    }

    /// Ends a service's processes, except those of version `but`.
    pub(super) fn end_service(&mut self, key: FunctionKey, but: Option<Version>, why: &'static str) {
        let ends = |worker: &Worker| worker.is_service() && Some(worker.serving.version) != but;
        let workers = self.workers_of(key).filter(|(_, worker)| ends(worker));
        let runs: Vec<_> = workers
            .flat_map(|(id, worker)| worker.runs.iter().map(move |run| (id, run.invocation)))
            .collect();
        for (id, run) in runs {
            self.ask_to_end(id, run, EndCause::Cancelled(why.into()));
        }
    }

    /// Says whether processes of another version of a function run.
    pub(super) fn runs_another(&self, key: FunctionKey, version: Version) -> bool {
        self.workers_of(key)
            .any(|(_, worker)| worker.serving.version != version)
    }

    /// Ends all services for a drain, since they would never end by themselves.
    pub(super) fn end_services(&mut self) {
        let services = self.workers.iter().filter(|(_, worker)| worker.is_service());
        let runs: Vec<_> = services
            .flat_map(|(id, worker)| worker.runs.iter().map(|run| (*id, run.invocation)))
            .collect();
        for (id, run) in runs {
            self.ask_to_end(id, run, EndCause::Stopped);
        }
    }

    /// Handles a service's started process: it is well if it runs for a while, and fails if it is not ready in time.
    pub(super) fn service_spawned(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let (FunctionKind::Service(service), WorkerKind::Service(readiness)) =
            (&worker.serving.rules.kind, &mut worker.kind)
        else {
            return;
        };
        let within = if service.ready.is_some() {
            service.start_timeout
        } else {
            STEADY_AFTER
        };
        readiness.check_at = Some(self.now.mono.saturating_add(within));
        readiness.ready = service.ready.is_none();
        self.timers.arm(readiness.check_at, Timer::ServiceCheck(id));
    }

    /// Handles a service's process that is ready.
    pub(super) fn service_ready(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let (WorkerPhase::Busy, WorkerKind::Service(readiness)) = (worker.phase, &mut worker.kind) else {
            // The process is already ending.
            return;
        };
        let before = readiness.check_at;
        // A process may report its readiness twice.
        if before.is_none() || readiness.ready {
            return;
        }
        self.timers.disarm(before, Timer::ServiceCheck(id));
        readiness.ready = true;
        readiness.check_at = Some(self.now.mono.saturating_add(STEADY_AFTER));
        self.timers.arm(readiness.check_at, Timer::ServiceCheck(id));
    }

    /// Handles a service's process whose time to get ready, or to be well, is over.
    pub(super) fn check_service(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let WorkerKind::Service(readiness) = &mut worker.kind else {
            return;
        };
        readiness.check_at = None;
        let (key, run) = (worker.function, worker.runs.first().map(|run| run.invocation));
        if readiness.ready {
            self.spawn_worked(key);
        } else if let Some(run) = run {
            let why = worker.waits_for.take();
            self.ask_to_end(id, run, EndCause::NotReady(why));
        }
    }

    /// Handles the end of a service's run: the next run follows, after a pause if the process ended by itself.
    pub(super) fn service_over(&mut self, key: FunctionKey, reason: Reason, lasted: Duration) {
        let Some(serving) = self.functions[key].service().cloned() else {
            return;
        };
        // Cancelled, interrupted and skipped runs do not show that the service is unwell.
        if !matches!(reason.class(), Class::Cancelled | Class::Interrupted | Class::Skipped) {
            self.wait_before_next(key, &serving, lasted >= STEADY_AFTER);
        }
        self.keep_running(key);
        self.announce(key);
    }

    fn wait_before_next(&mut self, key: FunctionKey, serving: &ServingRelease, was_well: bool) {
        let failures = self.functions[key].start_failures.get_or_insert_default();
        if was_well {
            **failures = StartFailures {
                // The timer of the hold is disarmed below.
                hold: failures.hold,
                ..StartFailures::default()
            };
        }
        failures.count(self.now.mono);
        failures.quick = failures.quick.saturating_add(1);
        let delay = serving.rules.retry.backoff.delay(failures.quick, self.random.f64());
        self.hold(key, delay);
    }
}
