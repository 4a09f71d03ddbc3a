//! Installations and releases: passes to the lifecycle what the catalog sees, what the spawner answers about files, and
//! people's requests about releases (going back, pinning, reading stored files). Then does what follows from the end of
//! a scan or a reload, and from a release that serves or cannot be loaded.

use super::Driver;
use crate::functions::catalog::{CatalogEvent, Findings, marked};
use crate::functions::retention_policy::retention;
use crate::systemd;
use crate::workers::requests::StoredFiles;
use fnd_core::lifecycle::release::{NotHeld, ReleaseState, Releases};
use fnd_core::lifecycle::{CallerNumber, ChangeResult, InstallAnswer, InstallResult, ReleaseChange, ReleaseRequest};
use fnd_core::report::ReportEvent;
use fnd_core::run::Event;
use fnd_manifest::function::listing::unclaimed as no_function;
use fnd_wire::frame::Request;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::oneshot;

impl Driver {
    /// Handles an event of the catalog.
    pub(super) fn catalog_event(&mut self, event: CatalogEvent) {
        match event {
            CatalogEvent::Changed(files) => self.lifecycle.files_changed(files),
            CatalogEvent::Secrets(names) => self.lifecycle.secrets_changed(&names),
            CatalogEvent::Removed(names) => {
                // Somebody may be deleting a project file by file: its functions must not run until all of it is gone.
                self.lifecycle.not_quiet();
                self.decide_lifecycle(|lifecycle, _, out| lifecycle.removed(&names, out));
            }
            CatalogEvent::Findings(Findings {
                problems,
                clashes,
                unclaimed,
                unread,
            }) => {
                if marked(&problems).ne(marked(&self.functions.name_problems)) {
                    self.lifecycle.not_quiet();
                }
                self.functions.name_problems = problems;
                let before = std::mem::replace(&mut self.functions.unclaimed, unclaimed);
                // Each scan reports all of these files, but people are told of each one once.
                let paths = self.functions.unclaimed.paths.iter();
                let new = paths.filter(|path| !before.paths.contains(path));
                let new: Vec<_> = new.map(|path| no_function(path).text()).collect();
                for text in new {
                    self.report(ReportEvent::NodeWarning(format_args!("{text}")));
                }
                for (files, problem) in clashes {
                    self.decide_lifecycle(|lifecycle, _, out| lifecycle.clash(files, problem, out));
                }
                let installer = &mut self.lifecycle.installer;
                self.functions
                    .set_unread(unread, self.supervisor.is_scanned(), installer);
                self.problems_changed();
            }
            CatalogEvent::Scanned(number) => {
                self.lifecycle.installer.scanned(number);
                self.report(ReportEvent::Rescanned);
            }
            CatalogEvent::Confirmed(request, same) => {
                self.decide_lifecycle(|lifecycle, node, out| lifecycle.confirmed(request, same, node, out));
            }
            CatalogEvent::Reported(number, reported) => self.functions.saved.reported(number, reported),
            CatalogEvent::Arranged(function) => self.functions.uploads.arranged(&function),
            CatalogEvent::Quiet => self.lifecycle.quiet(),
            CatalogEvent::Blind(problem) => self.report(ReportEvent::NodeWarning(format_args!("{problem}"))),
        }
    }

    /// Handles the spawner's answer about files or a copy.
    pub(super) fn judged(&mut self, request: u32, judged: InstallAnswer) {
        // Actions that were put off may be about this function, and the decision must know them.
        self.catch_up();
        self.decide_lifecycle(|lifecycle, node, out| lifecycle.judged(request, judged, node, out));
    }

    /// Listens for a function if the version that serves, or the one on trial, may do something at its socket.
    pub(super) fn listen_for(&self, function: &FunctionName) {
        let newest = self.lifecycle.registry.get(function);
        let newest = newest.and_then(|known| known.newest.as_deref());
        let mut versions = self.serving(function).into_iter().chain(newest);
        let calls = versions.find(|version| !version.manifest.access.is_empty());
        self.function_sockets.set(function, calls.map(|version| version.id));
    }

    /// Stops everything that a deleted function does.
    pub(super) fn remove(&mut self, function: &FunctionName) {
        // Nobody may get a connection on behalf of a function that is being removed.
        self.function_sockets.set(function, None);
        self.step(Event::Removed(function.clone()));
        self.check_alert(function);
        self.catch_up();
        self.workers.request(&Request::Remove(function.clone()));
        self.rewatch(function);
        self.set_messages(function);
        self.forget_files_of(function.clone());
        self.prune(function);
        self.sweep();
    }

    /// Retries refused installations that may work now, and fetches code again.
    pub(super) fn install_due(&mut self) {
        if self.lifecycle.install_due(self.clock.now().mono) {
            self.settle();
        }
    }

    /// Asks for installations while there is room.
    pub(super) fn ask_for_installs(&mut self) {
        let is_of_0_1 = self.workers.welcome.is_of_0_1();
        while let Some((request, files)) = self.lifecycle.next_request(is_of_0_1) {
            match self.workers.send(&request, Vec::new()) {
                Some(number) => self.lifecycle.asked(number, &request, files),
                // Without a connection fnd ends, and the next fnd scans the directories anew. Until then these files wait: without
                // them the first scan would be over, and everything about their functions would be forgotten.
                None => {
                    self.lifecycle.installer.not_asked(files);
                    break;
                }
            }
        }
    }

    /// Wakes the callers who wait for versions that are decided by now: new ones, and those of files that were just saved.
    pub(super) fn wake_waiting(&mut self) {
        self.wake_tried();
        self.wake_savers();
    }

    /// The same after a change of the status of one function: each run has such a change.
    pub(super) fn wake_waiting_for(&mut self, function: &FunctionName) {
        if !self.functions.trials.is_empty() && !self.supervisor.is_undecided(function) {
            self.functions.trials.decided(function);
        }
        self.wake_savers();
    }

    /// Wakes the callers who wait until it is decided whether newer versions can be loaded. While fnd drains, nothing is tried.
    fn wake_tried(&mut self) {
        let supervisor = &self.supervisor;
        let is_tried = |function: &FunctionName| !supervisor.is_draining() && supervisor.is_undecided(function);
        self.functions.trials.wake(is_tried);
    }

    /// Waits until it is decided whether the newer versions of these functions can be loaded.
    pub(crate) fn await_trials(&mut self, functions: BTreeSet<FunctionName>) -> oneshot::Receiver<()> {
        let decided = self.functions.trials.wait(functions);
        self.wake_tried();
        decided
    }

    /// Returns the functions with a newer version of which nobody knows yet whether it can be loaded.
    pub(crate) fn undecided(&self) -> BTreeSet<FunctionName> {
        let names = self.lifecycle.registry.iter().map(|(name, _)| name);
        names
            .filter(|name| self.supervisor.is_undecided(name))
            .cloned()
            .collect()
    }

    /// Wakes the callers who wait for files that were just saved, and are installed or refused by now.
    fn wake_savers(&mut self) {
        let (saved, installer) = (&mut self.functions.saved, &self.lifecycle.installer);
        let supervisor = &self.supervisor;
        let is_on_trial = |function: &FunctionName| {
            let trial = supervisor.function(function).and_then(|view| view.trial);
            trial.is_some_and(|trial| !trial.canary && trial.failures == 0)
        };
        saved.wake(|function| installer.has_work(function) || is_on_trial(function));
    }

    /// Asks for installations while there is room, and wakes the callers that wait when all installations are over.
    pub(super) fn settle(&mut self) {
        self.ask_for_installs();
        self.wake_waiting();
        // The spawner was not asked, so the request is not done. fnd ends, and its caller learns that.
        if self.workers.is_cut {
            return;
        }
        if self.lifecycle.has_settled() {
            let roots = &self.workers.welcome.functions_dirs;
            let held = self.functions.find_projects(&self.lifecycle.registry, roots);
            self.problems_changed();
            self.step(Event::Quiet(held));
        }
        if self.lifecycle.installer.is_idle() && self.lifecycle.registry.take_changed() {
            self.announce();
            self.lifecycle.installer.shrink();
            // When the next file is installed, a path may lead to another interpreter.
            self.lifecycle.registry.forget_interpreters();
            self.problems_changed();
            // These walk over all functions, so an edit of the code of one does without them.
            if self.lifecycle.registry.take_manifests_changed() {
                self.lifecycle.find_calls();
                self.retain();
                self.forget_secrets();
                let interpreters = self.lifecycle.registry.interpreters();
                self.functions.interpreters.follow(&interpreters);
            }
        }
        if self.functions.has_decided(&mut self.lifecycle.installer) {
            self.step(Event::Scanned { whole: true });
            self.all_known();
        }
        // If there is no function to install, a scan may be over before the configuration is read.
        // A reload is over only when the secrets are read, because with a reload a person ends the rotation of a secret.
        // A reload waits for the checks as well. A start does not: the earlier versions serve.
        let checks = self.functions.reloading && !self.lifecycle.installer.checks.is_idle();
        let reading = self.workers.is_reloading() || self.secrets.is_asking() || checks;
        if self.functions.wake_settled(&self.lifecycle.installer, reading) {
            // The service manager waits for this line since fnd reported the beginning of the reload.
            systemd::ready();
        }
    }

    /// Reports the functions to the service manager, but not the runs: those change with every invocation.
    pub(super) fn announce(&mut self) {
        let functions = || self.lifecycle.registry.iter().map(|(_, function)| function);
        let mut line = format!("functions: {}", functions().count());
        match functions().filter(|function| function.findings.error.is_some()).count() {
            0 => {}
            refused => line += &format!(", with errors: {refused} (`fndctl status` shows them)"),
        }
        if self.node.settings.refused {
            line += "; the configuration is refused and the last good one in force (`fndctl status` says why)";
        }
        systemd::status(&line);
    }

    /// Removes what deleted functions have left. To be called when every existing function is known.
    pub(crate) fn all_known(&mut self) {
        if self.supervisor.has_scanned() {
            self.check_alerts();
            self.catch_up();
            self.problems_changed();
        }
        // While a directory cannot be read, a function that is not known may exist in it, so nothing is removed.
        if self.supervisor.is_scanned() {
            self.forget_statuses();
            self.forget_schedules();
            self.watchers.list_functions(&self.inbox);
            self.decide_lifecycle(|lifecycle, _, out| lifecycle.all_known(out));
            self.prune_all();
            self.sweep();
            self.retain();
        }
        // The releases of deleted functions are forgotten now, so nothing is missing for the ends of their runs.
        self.follow_late();
        self.catch_up();
        self.lifecycle.registry.pack();
        self.quotas.books.pack();
    }

    /// Has every function installed again whose interpreter has changed.
    pub(super) fn check_interpreters(&mut self) {
        let changed = self.functions.interpreters.check();
        let paths = changed.iter().map(|changed| changed.path.as_str());
        let counts = self.lifecycle.interpreters_changed(paths);
        if changed.is_empty() {
            return;
        }
        for (changed, functions) in changed.iter().zip(counts) {
            self.report(ReportEvent::InterpreterChanged {
                path: &changed.path,
                real: changed.real.as_deref(),
                functions,
            });
        }
        self.settle();
    }

    /// Sends the retention in force to the ledger and to the output thread.
    pub(crate) fn retain(&self) {
        if self.supervisor.is_scanned() {
            let (history, output) = retention(&self.lifecycle.registry, &self.node.settings.settings);
            self.output.retain(output);
            self.records.ledger.retain(history);
        }
    }
}

/// The result of a request to hold a release.
pub(crate) enum HoldResult {
    /// It is done: a release, and its state.
    Done(Option<Version>, ReleaseState),
    /// The release is being installed and perhaps tried; its state after that.
    Asked(Version, ReleaseState, oneshot::Receiver<InstallResult>),
}

impl Driver {
    /// Changes which release of a function gets calls. The ledger has stored the plan of this change before.
    pub(crate) fn change_release(
        &mut self,
        function: &FunctionName,
        change: &ReleaseChange,
    ) -> Result<HoldResult, NotHeld> {
        self.releases_of(function)?;
        let (caller, receiver) = self.new_caller();
        let change = self.change(function, change);
        let changed = self.decide_lifecycle(|lifecycle, _, out| lifecycle.change(function, change, caller, out));
        let changed = changed.inspect_err(|_| {
            // While the ledger stored the plan, something else has changed the releases. So they are stored as they are, in place
            // of the plan.
            self.lifecycle.releases.store_again(function);
            self.store_releases();
        })?;
        Ok(match changed {
            ChangeResult::Done(version, state) => HoldResult::Done(version, state),
            ChangeResult::Asked(version, state) => HoldResult::Asked(version, state, receiver),
        })
    }

    /// Returns what a change will make of the releases of a function, as JSON.
    pub(crate) fn planned_releases(&self, function: &FunctionName, change: &ReleaseChange) -> Result<String, NotHeld> {
        self.releases_of(function)?;
        self.lifecycle.planned(function, self.change(function, change))
    }

    fn change<'c>(&self, function: &FunctionName, change: &'c ReleaseChange) -> ReleaseRequest<'c> {
        ReleaseRequest {
            change,
            running: self.running(function),
            now_ms: self.clock.now().unix_ms,
            is_spawner_of_0_1: self.workers.welcome.is_of_0_1(),
        }
    }

    /// Makes a place for the answer to a caller who waits for a release or an installation.
    fn new_caller(&mut self) -> (CallerNumber, oneshot::Receiver<InstallResult>) {
        let outcomes = &mut self.callers.outcomes;
        // No event tells that a caller has left, so callers that have left are removed when the next one comes.
        outcomes.forget_left();
        let new = outcomes.expect();
        self.lifecycle.forget_callers(|caller| !outcomes.waits(caller));
        new
    }

    /// Installs a function again, and its dependencies if they are missing; with `clean` in any case. The receiver gets the
    /// outcome when the function is installed or refused. Returns nothing if there is no function of that name.
    pub(crate) fn build_again(
        &mut self,
        function: &FunctionName,
        clean: bool,
    ) -> Option<oneshot::Receiver<InstallResult>> {
        let (caller, receiver) = self.new_caller();
        if clean && self.workers.welcome.is_of_0_1() {
            self.lifecycle.registry.get(function)?;
            let why = "the running fnd-spawner is older than clean builds: `systemctl stop fnd && systemctl start fnd`";
            self.callers.outcomes.answer(caller, Err(why.to_owned()));
        } else {
            let supervisor = &self.supervisor;
            let is_cancelled = |id| supervisor.is_cancelled(id);
            self.lifecycle
                .build_again(function, clean, caller, is_cancelled)
                .then_some(())?;
            self.settle();
        }
        Some(receiver)
    }

    /// Returns the releases of a function that exists.
    pub(crate) fn releases_of(&self, function: &FunctionName) -> Result<&Releases, NotHeld> {
        if self.supervisor.function(function).is_none() {
            return Err(NotHeld::NoFunction);
        }
        self.lifecycle.releases_of(function)
    }

    /// Asks the spawner for the files of a stored release.
    pub(crate) fn read_release(
        &mut self,
        function: &FunctionName,
        name: &str,
    ) -> Result<(Version, oneshot::Receiver<StoredFiles>), NotHeld> {
        let version = self.releases_of(function)?.named(name)?.version;
        if self.workers.welcome.is_of_0_1() {
            return Err(NotHeld::OldSpawner);
        }
        Ok((version, self.workers.read_release(function, version)))
    }

    /// Does what follows when another version serves.
    pub(super) fn version_serves(&mut self, function: &FunctionName, version: Version) {
        self.report(ReportEvent::VersionLoaded(function, version));
        self.decide_lifecycle(|lifecycle, _, out| lifecycle.serves(function, version, out));
        self.ask_for_installs();
        self.follow_serving(function);
        self.follow_late();
    }

    /// Does what follows when a version on trial could not be loaded.
    pub(super) fn trial_failed(&mut self, function: &FunctionName, version: Version, why: &str) {
        self.decide_lifecycle(|lifecycle, _, out| lifecycle.trial_failed(function, version, why, out));
        self.ask_for_installs();
    }

    /// Does what follows when a function no longer exists.
    pub(super) fn function_gone(&mut self, function: &FunctionName) {
        self.report(ReportEvent::FunctionRemoved(function));
        self.follow_serving(function);
        self.follow_late();
    }

    /// Sets triggers, quotas and the socket of a function to the version that serves.
    fn follow_serving(&mut self, function: &FunctionName) {
        self.follow_triggers(function);
        self.requota(function);
        self.listen_for(function);
    }

    /// Returns when the next canary is promoted.
    pub(super) fn next_promotion(&self) -> Option<Duration> {
        let now = self.clock.now();
        // A promotion is due by the wall clock: its time is stored, and counts for the next fnd, too.
        let is_known = |function: &FunctionName| self.supervisor.version_and_error(function).is_some();
        let at_ms = self.lifecycle.releases.next_promotion_ms(is_known)?;
        Some(now.mono + Duration::from_millis(at_ms.saturating_sub(now.unix_ms)))
    }

    /// Promotes the canaries whose time is over.
    pub(super) fn promote_due(&mut self) {
        let now_ms = self.clock.now().unix_ms;
        let supervisor = &self.supervisor;
        let is_known = |function: &FunctionName| supervisor.version_and_error(function).is_some();
        let due = self.lifecycle.releases.promotions_due(now_ms, is_known);
        for function in due {
            self.decide_lifecycle(|lifecycle, _, out| lifecycle.promote_due(&function, now_ms, out));
        }
    }
}
