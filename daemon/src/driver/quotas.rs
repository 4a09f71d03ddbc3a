//! Has the homes and caches of functions measured, and tells the supervisor which functions are over their quotas.

use super::Driver;
use crate::input::Input;
use crate::input::TaskOwner;
use crate::quotas::{self, LASTS, MeasurementEnd, QuotaChange};
use crate::workers::PendingRequest;
use crate::workers::adoption::{PipeEnds, adoption_record};
use fnd_core::api::{FunctionStatus, StorageUse};
use fnd_core::instant;
use fnd_core::quota::books::MeasurementFailure;
use fnd_core::quota::{Measured, Paths, Quotas};
use fnd_core::supervisor::Event;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Exited, Request, Spawn, Spawned};
use fnd_wire::ids::{FunctionName, WorkerId};
use std::os::fd::OwnedFd;

/// The text of `status` about quotas that nobody measures.
const OLD_SPAWNER: &str = "the running fnd-spawner is older than quotas: start it again (`systemctl stop fnd && systemctl start \
     fnd`, which ends running functions)";

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
        self.quotas.books.needs(function, wanted);
        self.quota_changed(function);
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
        let (worker, tmp) = (self.supervisor.next_worker(), (id, self.next_id()));
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
        if let Some(done) = self.quotas.not_started(worker, format!("it cannot be started: {why}")) {
            self.measured(done);
        }
    }

    /// Handles what a process has printed.
    pub(super) fn measurement_said(&mut self, worker: WorkerId, said: Option<Measured>) {
        let is_result = said.is_some();
        if let Some(done) = self.quotas.said(worker, said) {
            self.measured(done);
        } else if !is_result && self.quotas.is_running(worker) {
            self.workers.kill(worker);
        }
    }

    /// Handles the end of a process; returns whether it measured.
    pub(super) fn measurement_exited(&mut self, exited: &Exited) -> bool {
        let is_one = self.quotas.is_running(exited.worker);
        if is_one {
            self.workers.request(&Request::Acknowledge(exited.worker), Vec::new());
            if let Some(done) = self.quotas.ended(exited) {
                self.measured(done);
            }
        }
        is_one
    }

    /// Ends what measures, since fnd stops: otherwise the directories of these processes would stay.
    pub(super) fn end_measurements(&mut self) {
        for worker in self.quotas.stop() {
            self.workers.kill(worker);
        }
    }

    fn measured(&mut self, done: MeasurementEnd) {
        let MeasurementEnd { function, tmp, result } = done;
        self.workers.release_tmp(Some(tmp));
        if let Err(MeasurementFailure::NotPossible(why) | MeasurementFailure::CutOff(why)) = &result {
            tracing::debug!(FND_FUNCTION = %function, "failed to measure the home of `{function}`: {why}");
        }
        self.quotas.books.measured(&function, result, self.clock.now().mono);
        self.quota_changed(&function);
    }

    /// Tells the supervisor and people if a function has no room any more, or has room again.
    fn quota_changed(&mut self, function: &FunctionName) {
        let paths = self.quota_paths(function);
        let paths = Paths {
            home: &paths.0,
            cache: &paths.1,
        };
        let Some(QuotaChange { began, why }) = self.quotas.change(function, paths) else {
            return;
        };
        match &why {
            Some(why) if began => {
                tracing::warn!(FND_FUNCTION = %function, "`{function}` is over its quota, new runs of it are refused: {why}");
            }
            Some(_) => {}
            None => tracing::info!(FND_FUNCTION = %function, "`{function}` is within its quota again"),
        }
        let function = function.clone();
        let why = why.map(Into::into);
        self.turn.follow_up.push_back(Event::Full { function, why });
    }

    fn quota_paths(&self, function: &FunctionName) -> (String, String) {
        let (state, name) = (&self.node.places.state, function.file_form());
        (format!("{state}/home/{name}"), format!("{state}/cache/{name}"))
    }

    /// Returns what a function keeps on the disk, as far as it was measured.
    pub(super) fn storage(&self, function: &FunctionName) -> Option<StorageUse> {
        let (found, at) = self.quotas.books.found(function)?;
        let now = self.clock.now();
        let ago = at.map(|at| u64::try_from(now.mono.saturating_sub(at).as_millis()).unwrap_or(u64::MAX));
        let measured = found.measured.as_ref();
        let failure = found.failure.as_ref().map(|failure| match failure {
            MeasurementFailure::NotPossible(why) | MeasurementFailure::CutOff(why) => {
                format!("the last measurement failed: {why}")
            }
        });
        let unfinished = measured.and_then(Measured::unfinished);
        Some(StorageUse {
            home_bytes: measured.map(|measured| measured.home.bytes),
            cache_bytes: measured.map(|measured| measured.cache.bytes),
            measured_at: ago.map(|ago| instant::text(now.unix_ms.saturating_sub(ago))),
            problem: failure.or_else(|| unfinished.map(|why| format!("at least this much: {why}"))),
        })
    }

    /// Returns the limits that an old spawner keeps fnd from enforcing, each with the reason.
    pub(super) fn unmeasured(&self) -> impl Iterator<Item = (String, String)> {
        let is_old = self.workers.welcome.is_of_0_1();
        let keys: &[&str] = if is_old { &["home", "cache"] } else { &[] };
        keys.iter().map(|key| ((*key).to_owned(), OLD_SPAWNER.to_owned()))
    }
}
