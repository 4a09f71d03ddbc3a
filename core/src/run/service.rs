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
use super::starts::{LOOP_FAILURES, LOOP_WINDOW};
use crate::messages::Now;
use crate::messages::action::Action;
use crate::messages::end_cause::EndCause;
use crate::messages::rules::FunctionKind;
use crate::records::outcome::{Class, Reason};
use crate::run_state::function::StartFailures;
use crate::run_state::releases::ServingRelease;
use crate::run_state::timers::Timer;
use crate::run_state::worker::{WorkerKind, WorkerPhase};
use crate::run_state::{FunctionKey, to_usize};
use fnd_wire::ids::{Version, WorkerId};
use std::time::Duration;

/// A process that has run this long is well: after its end the backoff starts with the first delay again.
const STEADY_AFTER: Duration = LOOP_WINDOW;

impl Supervisor {
    /// Requests as many runs of a service as are missing.
    pub(super) fn keep_running(&mut self, key: FunctionKey, out: &mut Vec<Action>) {
        let function = &mut self.functions[key];
        let Some(FunctionKind::Service(service)) = function.serving().map(|serving| &serving.rules.kind) else {
            return;
        };
        let replicas = to_usize(service.replicas);
        let serves = self.phase.is_serving() && self.spawner && self.first_scan_done;
        if !serves || function.is_held() || !function.is_enabled() || function.full.is_some() {
            return;
        }
        // A run that is requested is not in the queue yet. If it did not count, the next event would request it again.
        let there = function.queue.live().len() + function.work.requested;
        for _ in there..replicas {
            function.work.requested += 1;
            out.push(Action::Run(function.name.clone()));
        }
    }

    /// Ends a service's processes, except those of version `but`.
    pub(super) fn end_service(
        &mut self,
        now: Now,
        key: FunctionKey,
        (but, why): (Option<Version>, &'static str),
        out: &mut Vec<Action>,
    ) {
        let ends = |id: &WorkerId| {
            let worker = self.workers.get(id)?;
            let other = worker.is_service() && Some(worker.serving.version) != but;
            other.then(|| worker.runs.iter().map(|run| (*id, run.invocation)).collect::<Vec<_>>())
        };
        let runs: Vec<_> = self.functions[key]
            .work
            .running
            .iter()
            .filter_map(ends)
            .flatten()
            .collect();
        for run in runs {
            self.ask_to_end(now, run, EndCause::Cancelled(why.into()), out);
        }
    }

    /// Says whether processes of another version of a function run.
    pub(super) fn runs_another(&self, key: FunctionKey, version: Version) -> bool {
        let running = self.functions[key].work.running.iter();
        let mut workers = running.filter_map(|id| self.workers.get(id));
        workers.any(|worker| worker.serving.version != version)
    }

    /// Ends all services for a drain, since they would never end by themselves.
    pub(super) fn end_services(&mut self, now: Now, out: &mut Vec<Action>) {
        let services = self.workers.iter().filter(|(_, worker)| worker.is_service());
        let runs: Vec<_> = services
            .flat_map(|(id, worker)| worker.runs.iter().map(|run| (*id, run.invocation)))
            .collect();
        for run in runs {
            self.ask_to_end(now, run, EndCause::Stopped, out);
        }
    }

    /// Handles a service's started process: it is well if it runs for a while, and fails if it is not ready in time.
    pub(super) fn service_spawned(&mut self, now: Now, id: WorkerId) {
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
        let at = now.mono.saturating_add(within);
        readiness.check_at = Some(at);
        readiness.ready = service.ready.is_none();
        self.timers.arm(at, Timer::ServiceCheck(id));
    }

    /// Handles a service's process that is ready.
    pub(super) fn service_ready(&mut self, now: Now, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let (WorkerPhase::Busy, WorkerKind::Service(readiness)) = (worker.phase, &mut worker.kind) else {
            // The process is already ending.
            return;
        };
        let Some(before) = readiness.check_at.filter(|_| !readiness.ready) else {
            // The process reports its readiness twice.
            return;
        };
        self.timers.disarm(before, Timer::ServiceCheck(id));
        let at = now.mono.saturating_add(STEADY_AFTER);
        readiness.ready = true;
        readiness.check_at = Some(at);
        self.timers.arm(at, Timer::ServiceCheck(id));
    }

    /// Handles a service's process whose time to get ready, or to be well, is over.
    pub(super) fn check_service(&mut self, now: Now, id: WorkerId, out: &mut Vec<Action>) {
        let Some(worker) = self.workers.get_mut(&id) else {
            return;
        };
        let WorkerKind::Service(readiness) = &mut worker.kind else {
            return;
        };
        readiness.check_at = None;
        let (key, run) = (worker.function, worker.runs.first().map(|run| run.invocation));
        if readiness.ready {
            self.spawn_worked(now, key, out);
        } else if let Some(run) = run {
            let why = readiness.waits_for.take();
            self.ask_to_end(now, (id, run), EndCause::NotReady(why), out);
        }
    }

    /// Handles the end of a service's run: the next run follows, after a pause if the process ended by itself.
    pub(super) fn service_over(
        &mut self,
        now: Now,
        key: FunctionKey,
        (reason, lasted): (Reason, Duration),
        out: &mut Vec<Action>,
    ) {
        let function = &mut self.functions[key];
        let Some(serving) = function
            .serving()
            .filter(|serving| serving.rules.kind.is_service())
            .cloned()
        else {
            return;
        };
        // Cancelled, interrupted and skipped runs do not show that the service is unwell.
        if !matches!(reason.class(), Class::Cancelled | Class::Interrupted | Class::Skipped) {
            self.wait_before_next(now, key, (&serving, lasted >= STEADY_AFTER));
        }
        self.keep_running(key, out);
        self.announce(key, out);
    }

    fn wait_before_next(&mut self, now: Now, key: FunctionKey, (serving, was_well): (&ServingRelease, bool)) {
        let failures = self.functions[key]
            .start_failures
            .get_or_insert_with(Box::<StartFailures>::default);
        if was_well {
            **failures = StartFailures {
                // The instant of the hold is needed below, where its timer is disarmed.
                hold: failures.hold.take(),
                ..StartFailures::default()
            };
        }
        failures
            .failures
            .retain(|at| now.mono.saturating_sub(*at) <= LOOP_WINDOW);
        failures.failures.push(now.mono);
        if failures.failures.len() > LOOP_FAILURES {
            failures.failures.remove(0);
        }
        failures.quick = failures.quick.saturating_add(1);
        if failures.looping > 0 || failures.failures.len() >= LOOP_FAILURES {
            failures.looping = failures.looping.saturating_add(1);
        }
        let delay = serving.rules.retry.backoff.delay(failures.quick, self.random.f64());
        let hold = now.mono.saturating_add(delay);
        if let Some(before) = failures.hold.replace(hold) {
            self.timers.disarm(before, Timer::Hold(key));
        }
        self.timers.arm(hold, Timer::Hold(key));
    }
}
