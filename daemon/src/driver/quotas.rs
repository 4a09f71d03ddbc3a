//! Has the homes and caches of functions measured, and tells the supervisor which functions are over their quotas.

use super::Driver;
use crate::input::Input;
use crate::input::TaskOwner;
use crate::quotas::{self, LASTS, MeasurementEffect};
use crate::workers::PendingRequest;
use crate::workers::adoption::{PipeEnds, adoption_record};
use fnd_core::api::FunctionStatus;
use fnd_core::quota::books::MeasurementFailure;
use fnd_core::quota::{Measured, Quotas};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Exited, Request, Spawn, Spawned};
use fnd_wire::ids::{FunctionName, WorkerId};
use std::os::fd::OwnedFd;

impl Driver {
    /// Uses the quotas of the version that serves. Called when another version serves or none does.
    pub(crate) fn requota(&mut self, function: &FunctionName) {
        let limits = self.serving(function).map(|serving| &serving.manifest.limits);
        let wanted = limits.map(|limits| Quotas {
            home: limits.home,
            cache: limits.cache,
        });
        // An older spawner cannot measure. Without a measurement no quota is enforced, and `status` says so.
        let wanted = wanted.filter(|_| !self.workers.welcome.is_of_0_1());
        self.turn.follow_up.extend(self.quotas.serves(function, wanted));
    }

    /// Notices by a function's status that an attempt has ended. Status files are written at most every 50 ms, so a
    /// function that is called all the time costs nothing here.
    pub(crate) fn quota_after(&mut self, status: &FunctionStatus) {
        let Some(invocation) = status.invocation else { return };
        let last = self.supervisor.function(&status.function).and_then(|view| view.last);
        let is_earlier = last.is_some_and(|last| last.attempt.started_ms < self.node.started_ms);
        let end = (invocation, status.attempt, status.poll);
        let now = self.clock.now().mono;
        self.quotas.books.ended(&status.function, end, is_earlier, now);
    }

    /// Has a function measured again soon: somebody wanted to run it, and perhaps it has room by now.
    pub(crate) fn quota_refused(&mut self, function: &FunctionName) {
        self.quotas.books.refused(function, self.clock.now().mono);
    }

    /// Has the functions measured that are due.
    pub(super) fn measure_due(&mut self) {
        let now = self.clock.now().mono;
        while let Some(function) = self.quotas.books.due(now) {
            self.turn.measurements.push_back(function);
        }
    }

    /// Asks the spawner for a process that measures a function.
    pub(super) fn start_measurement(&mut self, function: FunctionName) {
        let serving = self.serving(&function).map(|serving| (serving.id, serving.version));
        let Some((id, version)) = serving.filter(|_| !self.supervisor.is_draining()) else {
            let why = MeasurementFailure::NotPossible("no version of the function serves, or fnd drains".to_owned());
            return self.quotas.books.measured(&function, Err(why), self.clock.now().mono);
        };
        let (worker, tmp) = (
            self.supervisor.next_worker(),
            (id, self.ids.next(self.clock.now().unix_ms)),
        );
        self.quotas.starting(worker, function, tmp);
        let request = Request::Measure(Spawn {
            worker,
            function: id,
            version,
            invocation: tmp.1,
            environment: Vec::new(),
            input: false,
            previous: false,
            lasts_ms: u64::try_from(LASTS.as_millis()).unwrap_or(u64::MAX),
            // The record says nothing of the worker's state, so the next fnd kills the worker and measures again itself.
            record: Bytes(adoption_record(Some(tmp), None)),
        });
        // Without a number the connection to the spawner is lost. fnd ends then, so nobody misses the measurement.
        if let Some(number) = self.workers.send(&request, Vec::new()) {
            self.workers.asked.insert(number, PendingRequest::Measure(worker));
        }
    }

    /// Reads from a process that the spawner has started.
    pub(super) fn measurement_runs(
        &mut self,
        worker: WorkerId,
        spawned: &Spawned,
        mut descriptors: impl Iterator<Item = OwnedFd>,
    ) {
        let Some(stdout) = PipeEnds::take(spawned, &mut descriptors).stdout else {
            // The kernel drops descriptors for which there is no room.
            return self.measurement_said(worker, None);
        };
        let inbox = self.inbox.clone();
        self.inbox.spawn(TaskOwner::Caller, async move {
            let said = quotas::read(stdout).await;
            inbox.input(Input::Measured(worker, said));
        });
    }

    /// Handles a process that was not started.
    pub(super) fn measurement_failed(&mut self, worker: WorkerId, why: &str) {
        let effect = self.quotas.not_started(worker, why, self.clock.now().mono);
        self.measured(worker, effect);
    }

    /// Handles what a process has printed.
    pub(super) fn measurement_said(&mut self, worker: WorkerId, said: Option<Measured>) {
        let effect = self.quotas.said(worker, said, self.clock.now().mono);
        self.measured(worker, effect);
    }

    /// Handles the end of a process; returns whether it measured.
    pub(super) fn measurement_exited(&mut self, exited: &Exited) -> bool {
        let is_one = self.quotas.is_running(exited.worker);
        if is_one {
            self.workers.request(&Request::Acknowledge(exited.worker), Vec::new());
            let effect = self.quotas.ended(exited, self.clock.now().mono);
            self.measured(exited.worker, effect);
        }
        is_one
    }

    /// Ends what measures, since fnd stops: otherwise the directories of these processes would stay.
    pub(super) fn end_measurements(&mut self) {
        for worker in self.quotas.stop() {
            self.workers.kill(worker);
        }
    }

    fn measured(&mut self, worker: WorkerId, effect: Option<MeasurementEffect>) {
        match effect {
            Some(MeasurementEffect::Kill) => self.workers.kill(worker),
            Some(MeasurementEffect::Over { tmp, event }) => {
                self.workers.release_tmp(Some(tmp));
                self.turn.follow_up.extend(event);
            }
            None => {}
        }
    }
}
