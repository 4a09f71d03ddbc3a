//! Turns answers of the spawner about files, and events of the catalog, into events of the supervisor and requests to
//! install.

use crate::driver::State;
use crate::functions::catalog::CatalogEvent;
use crate::functions::registry::{Serving, diagnostic};
use crate::functions::rules::rules;
use crate::start::systemd;
use crate::workers::Asked;
use fnd_core::diagnostic::{Diagnostic, Severity};
use fnd_core::judge::{SettingsDocument, Verdict};
use fnd_core::report::ReportEvent;
use fnd_core::supervisor::{self, Event};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Install, Installed, Refused, Request, SettingsRead};
use fnd_wire::ids::FunctionName;
use serde::de::DeserializeOwned;

impl State {
    pub(crate) fn installed(&mut self, request: u32, mut installed: Installed) {
        let document = std::mem::take(&mut installed.document);
        let Some(candidate) = self.functions.installer.answered(request) else {
            return;
        };
        let name = candidate.function.clone();
        self.functions.installer.is_final(&name);
        let verdict = match read_document::<Verdict>(&document) {
            Ok(verdict) => verdict,
            Err(error) => {
                tracing::error!("the verdict on `{name}` cannot be read: {error}");
                return;
            }
        };
        for problem in &installed.warnings {
            tracing::warn!("{name}  {}: {}; {}", problem.file, problem.message, problem.help);
        }
        let serves = self
            .supervisor
            .version_and_error(&name)
            .and_then(|(version, _)| version);
        let Some(serving) = self.functions.registry.installed(candidate, installed, verdict, serves) else {
            return;
        };
        let mut event = installed_event(&name, serving, &self.node.settings.host);
        // A function that runs because its file is there waits until the directories are quiet. The supervisor gets
        // everything else at once.
        if event.rules.run_on_load {
            self.functions.loading.insert(name.clone());
            event.rules.run_on_load = false;
        }
        let version = event.version;
        self.deliver(event);
        self.switched(&name, version);
    }

    /// Hands a version to the supervisor, with an id for the run that it may start.
    fn deliver(&mut self, mut event: supervisor::Installed) {
        event.load_id = self.ids.next(self.clock.now().unix_ms);
        self.step(Event::Installed(Box::new(event)));
    }

    pub(crate) fn refused(&mut self, request: u32, mut refused: Refused) {
        let Some(candidate) = self.functions.installer.answered(request) else {
            return;
        };
        let name = candidate.function.clone();
        let document = refused.document.take();
        let verdict = document.and_then(|document| read_document::<Verdict>(&document).ok());
        // The judge's problems follow from the files. The spawner's problems may disappear without a change of the
        // files.
        let known = if refused.problems.is_empty() {
            self.functions.installer.is_final(&name);
            false
        } else {
            self.functions
                .installer
                .refused(candidate.clone(), self.clock.now().mono)
        };
        let error = self.functions.registry.refused(candidate, refused, verdict);
        let serving = self
            .functions
            .registry
            .get(&name)
            .is_some_and(|function| function.newest.is_some());
        if !known {
            self.report(ReportEvent::ContentRefused {
                function: &name,
                error: &error,
                serving,
            });
        }
        self.prune(&name);
        self.step(Event::Refused { function: name, error });
    }

    /// Handles an event of the catalog.
    pub(crate) fn catalog_event(&mut self, event: CatalogEvent) {
        match event {
            CatalogEvent::Changed(candidates) => {
                self.functions.quiet = false;
                self.functions.installer.want(candidates);
            }
            CatalogEvent::Removed(names) => {
                for name in names {
                    self.remove(&name);
                }
            }
            CatalogEvent::Findings {
                problems,
                clashes,
                unread,
            } => {
                for candidate in clashes {
                    let name = candidate.function.clone();
                    let problem = Diagnostic::error("clash", format!("two files claim the function `{name}`"))
                        .with_help("remove or rename one of them; until then the version that served goes on");
                    let error = self.functions.registry.unusable(candidate, Vec::new(), vec![problem]);
                    self.step(Event::Refused { function: name, error });
                }
                self.functions.name_problems = problems;
                self.set_unread(unread);
                self.problems_changed();
            }
            CatalogEvent::Scanned(number) => {
                self.report(ReportEvent::Rescanned);
                self.functions.installer.scanned(number);
            }
            CatalogEvent::Confirmed(request, same) => self.confirmed(request, same),
            CatalogEvent::Quiet => self.functions.quiet = true,
            CatalogEvent::Blind(problem) => tracing::warn!("{problem}"),
        }
    }

    fn remove(&mut self, name: &FunctionName) {
        self.functions.installer.forget(name);
        self.functions.loading.remove(name);
        self.functions.registry.remove(name);
        self.step(Event::Removed(name.clone()));
        self.workers.request(&Request::Remove(name.clone()), Vec::new());
        self.prune(name);
        self.sweep();
    }

    /// Starts the functions that run because their file is there: the directories are quiet and everything is
    /// installed.
    fn load(&mut self) {
        for name in std::mem::take(&mut self.functions.loading) {
            let newest = self
                .functions
                .registry
                .get(&name)
                .and_then(|function| function.newest.as_ref());
            if let Some(serving) = newest {
                let event = installed_event(&name, serving, &self.node.settings.host);
                self.deliver(event);
            }
        }
    }

    /// Retries refused installations whose reason may be over.
    pub(crate) fn install_due(&mut self) {
        let mono = self.clock.now().mono;
        if self.functions.installer.next_due().is_some_and(|due| due <= mono) {
            self.functions.installer.try_again(mono);
            self.settle();
        }
    }

    /// Asks for installations while there is room, and wakes the callers that wait when all installations are over.
    pub(crate) fn settle(&mut self) {
        while let Some(candidate) = self
            .functions
            .installer
            .next_request(|function| self.functions.versions.is_pruning(function))
        {
            let request = Request::Install(Install {
                directory: candidate.directory,
                function: candidate.function.clone(),
                source: candidate.source.clone(),
                sidecar: candidate.sidecar.clone(),
                directory_form: candidate.directory_form,
            });
            match self.workers.send(&request, Vec::new()) {
                Some(number) => self.functions.installer.asked(number, candidate),
                None => break,
            }
        }
        if self.functions.quiet && self.functions.installer.is_idle() && !self.functions.loading.is_empty() {
            self.load();
        }
        if self.functions.installer.is_idle() && self.functions.registry.take_changed() {
            self.announce();
            self.retain();
            self.functions
                .interpreters
                .follow(&self.functions.registry.interpreters());
        }
        self.decide();
        if self.functions.settling.is_empty() {
            return;
        }
        // Without a function to install, a scan may be over before the configuration is read.
        let reading = self.workers.asked.values().any(|asked| matches!(asked, Asked::Reload));
        let installer = &self.functions.installer;
        let settled = |scan: u64| !reading && installer.is_settled(scan);
        for (_, waiting) in self.functions.settling.extract_if(.., |(scan, _)| settled(*scan)) {
            let _ = waiting.send(()); // an error: the caller has gone
        }
        if self.functions.settling.is_empty() && std::mem::take(&mut self.functions.reloading) {
            systemd::ready();
        }
    }

    /// Reports the functions to the service manager, but not the runs: those change with every invocation.
    pub(crate) fn announce(&mut self) {
        let functions = self.functions.registry.iter().count();
        let refused = self
            .functions
            .registry
            .iter()
            .filter(|(_, function)| function.error.is_some())
            .count();
        let mut line = format!("functions: {functions}");
        if refused > 0 {
            line += &format!(", with errors: {refused} (`fndctl status` shows them)");
        }
        if self.node.settings.refused {
            line += "; the configuration is refused and the last good one in force (`fndctl status` says why)";
        }
        systemd::status(&line);
    }
}

fn installed_event(name: &FunctionName, serving: &Serving, host: &str) -> supervisor::Installed {
    supervisor::Installed {
        function: name.clone(),
        id: serving.id,
        version: serving.version,
        load_key: serving.load_key,
        load_id: fnd_wire::ids::InvocationId(0),
        rules: rules(&serving.manifest, host),
    }
}

/// Returns the judge's document of the configuration, with the spawner's problems of the files themselves.
pub(crate) fn settings_document(read: SettingsRead) -> Result<SettingsDocument, serde_json::Error> {
    let mut document = if read.document.0.is_empty() {
        SettingsDocument::default()
    } else {
        read_document(&read.document)?
    };
    let problems = read.problems.into_iter();
    document
        .diagnostics
        .extend(problems.map(|problem| diagnostic(problem, Severity::Error)));
    Ok(document)
}

/// Reads a document of the judge.
pub(crate) fn read_document<T: DeserializeOwned>(document: &Bytes) -> Result<T, serde_json::Error> {
    serde_json::from_slice(&document.0)
}
