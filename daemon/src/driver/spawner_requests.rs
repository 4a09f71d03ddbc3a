//! Asks the spawner for measurements of homes and caches and for secrets, and passes its
//! answers to the parts that decide.

use super::Driver;
use crate::input::{Input, TaskOwner};
use crate::quotas::{self, LASTS, MeasurementEffect};
use crate::triggers::secrets::{self, SecretsAnswer};
use crate::workers::adoption::{PipeEnds, adoption_record};
use crate::workers::requests::PendingRequest;
use fnd_core::api::FunctionStatus;
use fnd_core::lifecycle::function::Function;
use fnd_core::quota::books::MeasurementFailure;
use fnd_core::quota::{Measured, Quotas};
use fnd_manifest::function::Manifest;
use fnd_manifest::function::route::Credential;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Exited, Request, SecretAsked, Spawn, Spawned};
use fnd_wire::ids::{FunctionName, WorkerId};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::Duration;

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
        self.workers.ask(&request, Vec::new(), PendingRequest::Measure(worker));
    }

    /// Reads the result of a measurement that the spawner has started.
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

    /// Handles a measurement that could not be started.
    pub(super) fn measurement_failed(&mut self, worker: WorkerId, why: &str) {
        let effect = self.quotas.not_started(worker, why, self.clock.now().mono);
        self.measured(worker, effect);
    }

    /// Handles the result that a measurement has printed; absent if the output is no result.
    pub(super) fn measurement_said(&mut self, worker: WorkerId, said: Option<Measured>) {
        let effect = self.quotas.said(worker, said, self.clock.now().mono);
        self.measured(worker, effect);
    }

    /// Handles the end of a process; returns whether the process was a measurement.
    pub(super) fn measurement_exited(&mut self, exited: &Exited) -> bool {
        let is_one = self.quotas.is_running(exited.worker);
        if is_one {
            self.workers.request(&Request::Acknowledge(exited.worker), Vec::new());
            let effect = self.quotas.ended(exited, self.clock.now().mono);
            self.measured(exited.worker, effect);
        }
        is_one
    }

    /// Kills all measurements, because fnd stops: otherwise their temporary directories would stay.
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
                self.turn.follow_up.extend(event.map(|event| *event));
            }
            None => {}
        }
    }
}

impl Driver {
    /// Asks for the secrets of a function whose files were just judged; those of the version that serves if the newest
    /// files are refused.
    pub(super) fn ask_for_secrets(&mut self, function: &FunctionName) {
        if let Some(known) = self.lifecycle.registry.get(function) {
            let versions = known.versions().map(|version| &*version.manifest);
            self.ask_for(secrets::of_function(function, versions));
        }
    }

    /// Asks for the files of `[http] tls`, if there is any, now and then again after a while.
    pub(crate) fn ask_for_tls(&mut self) {
        let has_tls = self.node.settings.settings.http.tls.is_some();
        let now = self.clock.now().mono;
        self.secrets.ask_for_tls_after(has_tls.then_some(now));
        if has_tls {
            self.ask_for(secrets::of_tls());
        }
    }

    /// Asks for the files of `[http] tls` if it is time.
    pub(super) fn ask_for_tls_if_due(&mut self) {
        let now = self.clock.now().mono;
        if self.secrets.next_due().is_some_and(|due| due <= now) {
            self.ask_for_tls();
        }
    }

    /// Asks for the secrets of `[http] events`.
    pub(crate) fn ask_for_events(&mut self) {
        self.ask_for(secrets::of_events(self.node.settings.settings.http.events.as_ref()));
        self.forget_secrets();
    }

    fn ask_for(&mut self, asked: impl IntoIterator<Item = SecretAsked>) {
        let workers = &mut self.workers;
        let is_of_0_1 = workers.welcome.is_of_0_1();
        self.secrets
            .ask(asked, is_of_0_1, |request| workers.send(request, Vec::new()));
        if is_of_0_1 {
            self.problems_changed();
        }
    }

    /// Handles the answer to a request for a secret; returns whether the request was one.
    pub(super) fn secret_answered(&mut self, request: u32, answer: SecretsAnswer) -> bool {
        let Some(again) = self.secrets.answered(request, answer) else {
            return false;
        };
        self.ask_for(again);
        // The listener gets all answers together: a new certificate fits only the new key, which is another answer.
        if !self.secrets.is_asking() && self.secrets.take_news() {
            self.renew_keys();
        }
        self.problems_changed();
        true
    }

    /// Forgets secrets that no function names any more.
    pub(super) fn forget_secrets(&mut self) {
        let credentials = self.credentials().into_iter();
        let names = credentials.map(|credential| credential.secret).collect();
        let has_tls = self.node.settings.settings.http.tls.is_some();
        self.secrets.retain(&names, has_tls);
        self.renew_keys();
        self.problems_changed();
    }

    /// Hands the secrets to the listener.
    fn renew_keys(&mut self) {
        let now = Duration::from_millis(self.clock.now().unix_ms);
        self.listener.renew(&self.secrets, self.credentials(), now);
    }

    fn credentials(&self) -> BTreeSet<Credential> {
        let functions = self.lifecycle.registry.iter().map(|(_, function)| function);
        let versions = functions.flat_map(Function::versions);
        let manifests = versions.map(|version| -> &Manifest { &version.manifest });
        secrets::credentials(manifests, self.node.settings.settings.http.events.as_ref())
    }
}
