//! Hands what changes in the functions to the supervisor, the spawner and the reports.

use super::Driver;
use super::checks::checker;
use crate::functions::Functions;
use crate::functions::catalog::CatalogEvent;
use crate::functions::install::{CatalogChange, Judged};
use crate::functions::syntax::NodeFacts;
use crate::systemd;
use crate::uploads::under_way::UploadSeen;
use crate::workers::PendingRequest;
use fnd_core::lifecycle::builds::Waiter;
use fnd_core::report::ReportEvent;
use fnd_core::supervisor::Event;
use fnd_wire::frame::Request;
use fnd_wire::ids::FunctionName;
use fnd_wire::naming::UPLOADS;
use std::path::Path;

impl Driver {
    /// Handles an event of the catalog.
    pub(super) fn catalog_event(&mut self, event: CatalogEvent) {
        for change in self.functions.catalog_event(event) {
            self.changed(change);
        }
    }

    /// Handles the spawner's answer about files or a copy.
    pub(super) fn judged(&mut self, request: u32, judged: Judged) {
        if let Some(change) = self.functions.judged(request, judged) {
            self.changed(change);
        }
    }

    /// Handles a change of the functions.
    pub(super) fn changed(&mut self, change: CatalogChange) {
        self.build_is_over(&change);
        self.check_is_over(&change);
        match &change {
            CatalogChange::Installed(installed, _) => {
                self.functions.uploads.seen(&installed.function, UploadSeen::Installed);
            }
            CatalogChange::Refused { function, .. } | CatalogChange::Clash { function, .. } => {
                self.functions.uploads.seen(function, UploadSeen::Refused);
            }
            // Another release is held. The uploaded files are installed all the same, so the upload is over.
            CatalogChange::Waits { function, .. } => self.functions.uploads.seen(function, UploadSeen::Installed),
            CatalogChange::Removed(function) => self.functions.uploads.seen(function, UploadSeen::Removed),
            CatalogChange::Rescanned
            | CatalogChange::Found(_)
            | CatalogChange::Dropped(_)
            | CatalogChange::Confirmed(..) => {}
        }
        match change {
            CatalogChange::Installed(mut installed, percent) => {
                installed.load_id = self.next_id();
                let (function, version) = (installed.function.clone(), installed.version);
                // Before a run begins; a version that serves later follows `Action::Serves`.
                self.listen_for(&function);
                self.step(match percent {
                    None => Event::Installed(installed),
                    Some(percent) => Event::Canary { installed, percent },
                });
                // The file may be refused, and this is another release.
                let known = self.functions.registry.get(&function);
                if let Some(error) = known.and_then(|known| known.findings.error.clone()) {
                    let function = function.clone();
                    self.step(Event::Refused { function, error });
                }
                self.switched(&function, version);
                self.check_alert(&function);
                self.catch_up();
                self.follow_canary(&function);
                if percent.is_none() {
                    self.enqueue_canary(&function);
                }
            }
            CatalogChange::Refused {
                function,
                error,
                report,
                serving,
            } => {
                if report {
                    self.report(ReportEvent::ContentRefused {
                        function: &function,
                        error: &error,
                        serving,
                    });
                }
                self.prune(&function);
                self.step(Event::Refused {
                    function: function.clone(),
                    error,
                });
                self.check_alert(&function);
                self.catch_up();
            }
            CatalogChange::Waits { function, version } => {
                self.switched(&function, version);
                self.status_changed(&function);
                self.follow_canary(&function);
            }
            CatalogChange::Removed(function) => self.removed(&function),
            // While fnd waited for this answer, it deleted no version of the function.
            CatalogChange::Dropped(function) => self.prune(&function),
            CatalogChange::Rescanned => self.report(ReportEvent::Rescanned),
            CatalogChange::Clash { function, error } => self.step(Event::Refused { function, error }),
            CatalogChange::Found(unread) => {
                self.functions.set_unread(unread, self.supervisor.is_scanned());
                self.problems_changed();
            }
            CatalogChange::Confirmed(request, judged) => {
                let about = judged.function().clone();
                let candidate = self.functions.installer.candidate(request);
                // The file of a function and a stored copy of it may wait for different trees, so each is a waiter of
                // its own.
                let copy = candidate.is_some_and(|candidate| candidate.copy().is_some());
                let is_installed = matches!(judged, Judged::Installed(..));
                // Its code is being fetched: this answer is about the code before, and what is fetched is installed as well.
                if copy || !is_installed || !self.builds.is_fetching(&about) {
                    let function = about.clone();
                    self.builds.forget(&Waiter { function, copy });
                }
                let was_check = self.functions.installer.checks.was_asked(request);
                let is_over = !matches!(judged, Judged::NeedsBuild(_)) && !was_check;
                let change = match judged {
                    Judged::NeedsBuild(needs) if was_check && needs.build.function == checker() => {
                        self.needs_check(request, *needs);
                        None
                    }
                    Judged::Refused(refused) if was_check => {
                        let why = refused.problems.first().map(|problem| problem.message.clone());
                        self.check_refused(request, &why.unwrap_or_default());
                        None
                    }
                    // The file has changed since fnd asked for the check, and a request to check does not ask for the
                    // dependencies of the new content. So the file is installed again without a check.
                    Judged::Installed(..) if was_check => {
                        self.check_refused(request, "there is nothing to check");
                        None
                    }
                    Judged::NeedsBuild(needs) => {
                        if was_check {
                            self.functions.installer.checks.forget(&about); // its code is fetched first
                        }
                        self.needs_build(request, *needs);
                        None
                    }
                    Judged::Installed(installed, tree) => {
                        if !copy {
                            self.builds.is_installed(&about);
                        }
                        let supervisor = &self.supervisor;
                        let serves = |name: &FunctionName| supervisor.version_and_error(name)?.0;
                        let uploads = Path::new(&self.node.places.state).join(UPLOADS);
                        let node = NodeFacts {
                            uploads: &uploads,
                            own_uid: self.node.settings.own_uid,
                            host: &self.node.settings.host,
                            now_ms: self.clock.now().unix_ms,
                            dirs: &self.workers.welcome.functions_dirs,
                            can_check: !self.workers.welcome.is_of_0_1(),
                        };
                        let change = self.functions.installed(request, *installed, serves, node);
                        match &change {
                            Some(CatalogChange::Installed(installed, _)) => {
                                self.functions.registry.has_tree(&about, installed.version, tree);
                            }
                            // New content of the file ends a canary, even if the content is checked first or is wrong.
                            _ if !copy => self.follow_canary(&about),
                            // Versions may have been kept for this copy, which nobody wants any more.
                            _ => self.prune(&about),
                        }
                        change
                    }
                    Judged::Refused(refused) => self.functions.refused(request, *refused, self.clock.now().mono),
                };
                if !copy {
                    let source = self
                        .functions
                        .registry
                        .get(&about)
                        .and_then(|known| known.findings.source.as_ref());
                    let every_s = source.and_then(|source| source.every_s);
                    if is_over {
                        self.functions.sources.no_poll(&about);
                    }
                    self.functions.sources.judged(&about, every_s, self.clock.now().mono);
                }
                if let Some(change) = change {
                    self.changed(change);
                }
                // Every judgement asks for the secrets again: a reload ends a rotation, and it judges every function.
                self.ask_for_secrets(&about);
            }
        }
        self.store_releases();
    }

    /// Listens for a function if the version that serves, or the one on trial, may do something at its socket.
    pub(super) fn listen_for(&self, function: &FunctionName) {
        let newest = self.functions.registry.get(function);
        let newest = newest.and_then(|known| known.newest.as_deref());
        let mut versions = self.serving(function).into_iter().chain(newest);
        let calls = versions.find(|version| !version.manifest.access.is_empty());
        self.function_sockets.set(function, calls.map(|version| version.id));
    }

    fn removed(&mut self, function: &FunctionName) {
        // Nobody may get a connection on behalf of a function that is being removed.
        self.function_sockets.set(function, None);
        self.step(Event::Removed(function.clone()));
        self.check_alert(function);
        self.catch_up();
        self.workers.request(&Request::Remove(function.clone()), Vec::new());
        self.rewatch(function);
        self.forget_files_of(function.clone());
        self.prune(function);
        self.sweep();
    }

    /// Retries refused installations whose reason may be over.
    pub(super) fn install_due(&mut self) {
        let mono = self.clock.now().mono;
        if self.functions.installer.next_due().is_some_and(|due| due <= mono) {
            self.functions.installer.try_again(mono);
            self.settle();
        }
        let builds = &self.builds;
        for function in self.functions.sources.due(mono, |function| builds.is_waiting(function)) {
            self.functions.enqueue_file(&function);
            self.settle();
        }
    }

    /// Asks for installations while there is room.
    pub(super) fn ask_for_installs(&mut self) {
        while let Some((request, candidate)) = self.functions.next_install() {
            let request = match request {
                // The spawner of fnd 0.1 fetches nothing, and ends the connection at a request that it does not know.
                Request::Fetch(install) if self.workers.welcome.is_of_0_1() => Request::Install(install),
                request => request,
            };
            match self.workers.send(&request, Vec::new()) {
                Some(number) => {
                    // A check is answered by the same frames as an installation, so its number is remembered.
                    if matches!(request, Request::Check(_)) {
                        self.functions.installer.checks.asked(number);
                    }
                    self.functions.installer.asked(number, candidate);
                }
                // Without a connection fnd ends. The next fnd scans the directories anew, so no candidate is lost.
                None => break,
            }
        }
    }

    /// Wakes the callers who wait for files that were just saved, and are installed or refused by now.
    pub(super) fn wake_savers(&mut self) {
        if self.functions.saved.is_empty() {
            return;
        }
        let Functions { saved, installer, .. } = &mut self.functions;
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
        self.wake_savers();
        if self.functions.has_settled() {
            let held = self.functions.find_projects(&self.workers.welcome.functions_dirs);
            self.problems_changed();
            self.step(Event::Quiet(held));
        }
        if self.functions.installer.is_idle() && self.functions.registry.take_changed() {
            self.announce();
            self.functions.installer.shrink();
            // Another interpreter may be behind a path when the next file is installed.
            self.functions.registry.forget_interpreters();
            self.problems_changed();
            // These walk over all functions, so an edit of the code of one does without them.
            if self.functions.registry.take_manifests_changed() {
                self.functions.find_calls();
                self.retain();
                self.forget_secrets();
                let functions = &mut self.functions;
                functions.interpreters.follow(&functions.registry.interpreters());
            }
        }
        if self.functions.has_decided() {
            self.step(Event::Scanned { whole: true });
            self.all_known();
        }
        // Without a function to install, a scan may be over before the configuration is read.
        let reading = || {
            self.workers
                .asked
                .values()
                .any(|asked| matches!(asked, PendingRequest::Reload))
        };
        // A reload is over when the secrets are read, so that it ends a rotation.
        // A start goes on without the checks: the versions before serve.
        let checks = self.functions.reloading && !self.functions.installer.checks.is_idle();
        let reading = reading() || self.secrets.is_asking() || checks;
        if !self.functions.settling.is_empty() && self.functions.wake_settled(reading) {
            // The service manager waits for this line since fnd reported the begin of the reload.
            systemd::ready();
        }
    }

    /// Reports the functions to the service manager, but not the runs: those change with every invocation.
    pub(super) fn announce(&mut self) {
        let mut line = self.functions.announcement();
        if self.node.settings.refused {
            line += "; the configuration is refused and the last good one in force (`fndctl status` says why)";
        }
        systemd::status(&line);
    }

    /// Removes what is left of functions that are gone: every function that exists is known.
    pub(crate) fn all_known(&mut self) {
        if self.supervisor.has_scanned() {
            self.check_alerts();
            self.follow_late();
            self.catch_up();
            self.problems_changed();
        }
        // While a directory cannot be read, a function that is not known may be there. So nothing is removed before.
        if self.supervisor.is_scanned() {
            self.forget_statuses();
            self.forget_schedules();
            self.forget_files();
            let Functions { releases, registry, .. } = &mut self.functions;
            releases.keep_known(|name| registry.get(name).is_some());
            self.store_releases();
            self.prune_all();
            self.sweep();
            self.retain();
        }
        self.functions.registry.pack();
        self.quotas.books.pack();
    }

    /// Asks for a new preparation of every function whose interpreter has changed.
    pub(super) fn check_interpreters(&mut self) {
        let changed = self.functions.check_interpreters();
        if changed.is_empty() {
            return;
        }
        for (changed, functions) in changed {
            self.report(ReportEvent::InterpreterChanged {
                path: &changed.path,
                real: changed.real.as_deref(),
                functions,
            });
        }
        self.settle();
    }

    /// Sends the retention in force to the ledger and the keeper of output.
    pub(crate) fn retain(&self) {
        if self.supervisor.is_scanned() {
            let (history, output) = self.functions.retention(&self.node.settings.settings);
            self.output.retain(output);
            self.records.ledger.retain(history);
        }
    }
}
