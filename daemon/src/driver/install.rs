//! Hands the events of the catalog and the spawner's answers about files to the lifecycle, asks for installations, and does what
//! follows from the end of a scan or a reload.

use super::Driver;
use crate::functions::catalog::{CatalogEvent, marked};
use crate::functions::retention_policy::retention;
use crate::systemd;
use fnd_core::lifecycle::InstallAnswer;
use fnd_core::report::ReportEvent;
use fnd_core::run::Event;
use fnd_manifest::function::listing::unclaimed as no_function;
use fnd_wire::frame::Request;
use fnd_wire::ids::FunctionName;

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
            CatalogEvent::Findings {
                problems,
                clashes,
                unclaimed,
                unread,
            } => {
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
        self.workers.request(&Request::Remove(function.clone()), Vec::new());
        self.rewatch(function);
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
                // Without a connection fnd ends. The next fnd scans the directories anew, so no file is lost.
                None => break,
            }
        }
    }

    /// Wakes the callers who wait for files that were just saved, and are installed or refused by now.
    pub(super) fn wake_savers(&mut self) {
        if self.functions.saved.is_empty() {
            return;
        }
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
        self.wake_savers();
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
        if self.functions.has_decided(&self.lifecycle.installer) {
            self.step(Event::Scanned { whole: true });
            self.all_known();
        }
        // If there is no function to install, a scan may be over before the configuration is read.
        // A reload is over only when the secrets are read, because with a reload a person ends the rotation of a secret.
        // A reload waits for the checks as well. A start does not: the earlier versions serve.
        let checks = self.functions.reloading && !self.lifecycle.installer.checks.is_idle();
        let reading = self.workers.is_reloading() || self.secrets.is_asking() || checks;
        if !self.functions.settling.is_empty() && self.functions.wake_settled(&self.lifecycle.installer, reading) {
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
            self.follow_late();
            self.catch_up();
            self.problems_changed();
        }
        // While a directory cannot be read, a function that is not known may exist in it, so nothing is removed.
        if self.supervisor.is_scanned() {
            self.forget_statuses();
            self.forget_schedules();
            self.forget_files();
            self.decide_lifecycle(|lifecycle, _, out| lifecycle.all_known(out));
            self.prune_all();
            self.sweep();
            self.retain();
        }
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
