//! Hands facts to the lifecycle, carries out its orders, and stores the releases that have changed. Among the orders are the runs
//! of fnd's own functions (builds in their lanes, and checks), and the deletion of files that are not needed any more: installed
//! versions, trees of dependencies, and the files that deleted functions have left. The lifecycle decides what is built, what is
//! checked, and which versions stay. Also has functions measured that have a quota, by another program of fnd's own.

use super::Driver;
use crate::functions::authors::{FunctionPlaces, author};
use crate::functions::catalog::Rescan;
use crate::input::{Input, TaskOwner};
use crate::ledger::LedgerCommand;
use crate::quotas::{self, LASTS, MeasurementEffect};
use crate::workers::adoption::{PipeEnds, adoption_record};
use crate::workers::requests::PendingRequest;
use fnd_core::api::FunctionStatus;
use fnd_core::lifecycle::builds::Lane;
use fnd_core::lifecycle::waiting_builds::BuildEnd;
use fnd_core::lifecycle::{CheckEnd, Lifecycle, NodeFacts, Order, Running, SourceFiles, checker};
use fnd_core::quota::books::MeasurementFailure;
use fnd_core::quota::{Measured, Quotas};
use fnd_core::records::outcome::Trigger;
use fnd_core::report::ReportEvent;
use fnd_core::run::Event;
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Exited, Installed, Request, Spawn, Sweep};
use fnd_wire::ids::{FunctionName, InvocationId, Version, WorkerId};
use std::path::Path;

impl Driver {
    /// Has the lifecycle decide, carries out its orders at once, and stores the releases that have changed.
    pub(super) fn decide_lifecycle<T>(
        &mut self,
        decide: impl FnOnce(&mut Lifecycle, NodeFacts<'_>, &mut Vec<Order>) -> T,
    ) -> T {
        self.changes += 1;
        let jobs = self.node.settings.settings.build.jobs;
        let lanes = if self.workers.welcome.is_of_0_1() { 1 } else { jobs };
        let places = FunctionPlaces {
            dirs: &self.workers.welcome.functions_dirs,
            state: &self.node.places.state,
            own_uid: self.node.settings.access.borrow().own_uid,
        };
        let (settings, supervisor) = (&self.node.settings, &self.supervisor);
        let node = NodeFacts {
            host: &settings.host,
            now: self.clock.now(),
            dirs: places.dirs,
            is_spawner_of_0_1: self.workers.welcome.is_of_0_1(),
            lanes,
            internal_memory: &|| settings.budget().memory / 4 / u64::from(lanes),
            is_live: &|function| supervisor.live_of(function).is_some(),
            is_cancelled: &|id| supervisor.is_cancelled(id),
            author: &|files: &SourceFiles, trusted| author(files, trusted, places),
        };
        let mut orders = Vec::new();
        let result = decide(&mut self.lifecycle, node, &mut orders);
        orders.into_iter().for_each(|order| self.carry_out(order));
        self.store_releases();
        result
    }

    /// Stores the releases that have changed, and answers the callers whose release can no longer come.
    pub(super) fn store_releases(&mut self) {
        let mut orders = Vec::new();
        for (function, releases) in self.lifecycle.take_changed(&mut orders) {
            let command = LedgerCommand::StoreReleases { function, releases };
            // The ledger counts a command without room, and never says that it is over.
            if let Err(LedgerCommand::StoreReleases { function, .. }) = self.records.ledger.submit(command) {
                self.lifecycle.releases_stored(&function, &mut orders);
            }
        }
        orders.into_iter().for_each(|order| self.carry_out(order));
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Supervise(event) => self.step(event),
            Order::Serve(mut installed, percent) => {
                installed.load_id = self.next_id();
                self.step(match percent {
                    None => Event::Installed(installed),
                    Some(percent) => Event::Canary { installed, percent },
                });
            }
            Order::Confirm(request, files) => self.functions.catalog.confirm(request, files),
            Order::Rescan(number) => self.functions.catalog.rescan(number, Rescan::default()),
            Order::Request(request) => self.workers.request(&request),
            Order::Seal(lane, tree) => self.workers.seal(lane, tree),
            Order::Lend(lane, tree) => self.workers.lend(lane, tree),
            Order::Build(lane) => self.start_build(&lane),
            Order::Check(input) => self.start_checks(input),
            Order::Prune(function) => self.prune(&function),
            Order::FollowCanary(function) => {
                let running = self.running(&function);
                self.decide_lifecycle(|lifecycle, _, out| lifecycle.follow_canary(&function, running, out));
            }
            Order::EnqueueCanary(function) => {
                let running = self.running(&function);
                self.lifecycle.enqueue_canary(&function, running);
                self.ask_for_installs();
            }
            Order::Settle => self.settle(),
            Order::StoreVersions(function, installed) => {
                self.records.store(LedgerCommand::StoreVersions { function, installed });
            }
            Order::Answer(caller, outcome) => self.callers.outcomes.answer(caller, outcome),
            Order::UploadSeen(function, seen) => self.functions.uploads.seen(&function, seen),
            Order::Remove(function) => self.remove(&function),
            Order::Listen(function) => self.listen_for(&function),
            Order::CheckAlert(function) => {
                self.check_alert(&function);
                self.catch_up();
            }
            Order::Status(function) => self.status_changed(&function),
            Order::AskForSecrets(function) => self.ask_for_secrets(&function),
            Order::ReportRefused(function, error, serving) => self.report(ReportEvent::ContentRefused {
                function: &function,
                error: &error,
                serving,
            }),
            Order::News(function, news) => self.report(ReportEvent::News(&function, &news)),
        }
    }

    /// Returns the versions of a function that the supervisor has besides the one that serves.
    pub(super) fn running(&self, function: &FunctionName) -> Running {
        let Some(view) = self.supervisor.function(function) else {
            return Running::default();
        };
        Running {
            trial: view.trial.map(|trial| (trial.version, trial.canary)),
            canary: view.canary.map(|canary| canary.version),
        }
    }
}

impl Driver {
    /// Handles the spawner's answer about a lane that was to be sealed: the work is done, or `why` it is not.
    pub(super) fn sealed(&mut self, lane: &Lane, why: Option<String>) {
        // The size of all trees is counted anew when the next status asks for it.
        self.trees.changed();
        let sealed = why.map_or(Ok(()), Err);
        self.decide_lifecycle(|lifecycle, node, out| lifecycle.sealed(lane, sealed, node, out));
    }

    /// Handles the answer that a lane has the version that builds its tree, or the reason why not.
    pub(super) fn lent(&mut self, lent_to: (Lane, Version), lent: Result<Installed, String>) {
        self.decide_lifecycle(|lifecycle, node, out| lifecycle.lent(lent_to, lent, node, out));
    }

    /// Starts a build in its lane. If a build of an earlier fnd still runs there, its end is waited for.
    pub(super) fn start_build(&mut self, lane: &Lane) {
        let builder = lane.builder();
        if let Some(id) = self.supervisor.live_of(&builder) {
            self.lifecycle.builds.started(lane, id, false);
            return;
        }
        if !self.decide_lifecycle(|lifecycle, node, out| lifecycle.is_empty_lane(lane, node, out)) {
            return;
        }
        let submit = self.new_submit(builder, Trigger::Manual);
        let id = submit.id;
        self.lifecycle.builds.started(lane, id, true);
        // The supervisor has refused the build. Its end is handled later, because other orders may still have to be carried out.
        if let Err(why) = self.submit_own(submit) {
            self.turn.builds.push_back(BuildEnd::not_started(id, &why));
        }
    }

    /// Handles an invocation that the ledger has not stored. If it is a build, its lane waits for its end, and no record tells
    /// of that.
    pub(super) fn not_stored(&mut self, id: InvocationId, why: &str) {
        self.turn.builds.push_back(BuildEnd::not_started(id, why));
    }

    /// Removes the files that builds of an earlier fnd have left, if that fnd was killed.
    fn sweep_builds(&mut self) {
        if std::mem::replace(&mut self.trees.is_swept, true) {
            return;
        }
        let homes = Path::new(&self.node.places.state).join("home");
        // Other lanes are emptied when something is built there: fnd may not list the homes.
        for lane in Lane::of_root().filter(|lane| homes.join(lane.builder().as_str()).exists()) {
            let live = self.supervisor.live_of(&lane.builder());
            self.decide_lifecycle(|lifecycle, node, out| lifecycle.sweep_lane(lane, live, node, out));
        }
    }

    /// Starts a run of checks with this input. It has many files, because the start of a process in a new sandbox takes longer
    /// than all other steps of an edit.
    pub(super) fn start_checks(&mut self, input: Vec<u8>) {
        let mut submit = self.new_submit(checker(), Trigger::Manual);
        let id = submit.id;
        self.lifecycle.installer.checks.started(id);
        // A run that is waited for is not made durable, and this one need not be: the next fnd checks the files anew. A failed
        // check is no dead letter, either.
        submit.wait = true;
        submit.payload.data = Some(input.into());
        if let Err(why) = self.submit_own(submit) {
            self.turn.checks.push_back(CheckEnd::not_started(id, &why));
        }
    }
}

impl Driver {
    /// Has the spawner delete the surplus versions of a function.
    pub(crate) fn prune(&mut self, function: &FunctionName) {
        let keep = self.keep_versions(function);
        // Each end of an attempt is an occasion, and hardly any function has a surplus.
        if !self.lifecycle.versions.has_surplus(function, keep) {
            return;
        }
        let in_use = self.supervisor.versions_in_use(function);
        let Some(stay) = self.lifecycle.prune(function, in_use, keep) else {
            return;
        };
        if self.workers.prune(function, stay) {
            self.lifecycle.versions.asked(function);
        }
    }

    /// Has the surplus versions of every function deleted: at a start, and when fewer versions are to be kept.
    pub(crate) fn prune_all(&mut self) {
        let functions: Vec<_> = self.lifecycle.versions.functions().cloned().collect();
        for function in functions {
            self.prune(&function);
        }
    }

    /// Handles the releases that the ledger has stored, or given up.
    pub(super) fn releases_stored(&mut self, functions: &[FunctionName]) {
        self.decide_lifecycle(|lifecycle, _, out| {
            for function in functions {
                lifecycle.releases_stored(function, out);
            }
        });
    }

    /// Handles the spawner's answer to a request to delete versions.
    pub(crate) fn pruned(&mut self, (function, stay): (FunctionName, Vec<Version>), worked: bool) {
        self.decide_lifecycle(|lifecycle, _, out| lifecycle.pruned(&function, &stay, worked, out));
    }

    /// Has the spawner remove the directories of invocations that are over, and report which deleted functions left files.
    pub(crate) fn sweep(&mut self) {
        // Before the first scan is over, fnd does not know all functions.
        if !self.supervisor.is_scanned() {
            return;
        }
        let functions = self.lifecycle.registry.iter().map(|(name, _)| name.clone());
        let functions = functions
            .chain(Lane::of_root().map(|lane| lane.builder()))
            .chain([checker()])
            .collect();
        let invocations = self.supervisor.live_invocations().collect();
        self.workers.request(&Request::Sweep(Sweep { functions, invocations }));
        // The spawner of fnd 0.1 builds nothing, and ends the connection at a request that it does not know.
        if !self.workers.welcome.is_of_0_1() {
            self.trees.changed();
            // Trees that no version has are deleted.
            let keep = self.node.settings.settings.build.keep.as_secs();
            self.workers.request(&Request::PruneTrees(keep));
            self.sweep_builds();
        }
    }

    /// Returns the deleted functions that left files and have not come back since, with their names as people write
    /// them.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let written = self.workers.left_behind.iter().map(|name| name.replacen('.', "/", 1));
        let is_there =
            |name: &String| FunctionName::new(name).is_ok_and(|name| self.lifecycle.registry.get(&name).is_some());
        written.filter(|name| !is_there(name)).collect()
    }

    fn keep_versions(&self, function: &FunctionName) -> usize {
        // Its file is gone, so no version is needed again.
        if self.supervisor.is_scanned() && self.lifecycle.registry.get(function).is_none() {
            return 0;
        }
        usize::try_from(self.node.settings.settings.keep_versions).unwrap_or(usize::MAX)
    }
}

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
        self.quota_found(function);
    }

    /// Tells the supervisor if a function has no room any more, if it has room again, or if the reason is another one.
    fn quota_found(&mut self, function: &FunctionName) {
        let (before, now) = (self.supervisor.full(function), self.quotas.exceeded(function));
        if before == now.as_deref() {
            return;
        }
        if let Some(news) = quotas::news(before, now.as_deref()) {
            self.report(ReportEvent::News(function, &news));
        }
        let (function, why) = (function.clone(), now.map(Into::into));
        self.turn.follow_up.push_back(Event::Full { function, why });
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
    pub(super) fn measurement_runs(&mut self, worker: WorkerId, ends: PipeEnds) {
        let Some(stdout) = ends.stdout else {
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
            self.workers.request(&Request::Acknowledge(exited.worker));
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
            Some(MeasurementEffect::Over { tmp, function }) => {
                self.workers.release_tmp(Some(tmp));
                self.quota_found(&function);
            }
            None => {}
        }
    }
}
