//! Turns frames of the spawner and events of the catalog into events of the supervisor and requests to install.

use crate::catalog::CatalogEvent;
use crate::confirming::Judged;
use crate::driver::{Asked, Attached, Message, Starting, State};
use crate::functions::{Serving, diagnostic};
use crate::requests::Server;
use crate::rules::rules;
use crate::systemd;
use crate::takeover::Ends;
use crate::workers::output::Piped;
use crate::workers::spawner::Incoming;
use fnd_core::diagnostic::{Diagnostic, Severity};
use fnd_core::judge::{SettingsDocument, Verdict};
use fnd_core::report::ReportEvent;
use fnd_core::supervisor::{self, Event};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Exited, Install, Installed, Refused, Reply, Request, SettingsRead, Spawned};
use fnd_wire::ids::FunctionName;
use serde::de::DeserializeOwned;
use std::os::fd::OwnedFd;

impl State {
    /// Handles a frame of the spawner.
    pub(crate) fn incoming(&mut self, incoming: Incoming) {
        let Incoming {
            request,
            reply,
            descriptors,
        } = incoming;
        match reply {
            Reply::Installed(installed) => self.judged(request, Judged::Installed(Box::new(installed))),
            Reply::Refused(refused) => self.judged(request, Judged::Refused(Box::new(refused))),
            Reply::Spawned(spawned) | Reply::SpawnedWithChannel(spawned) => {
                self.spawned(request, &spawned, descriptors.into_iter());
            }
            Reply::SpawnFailed(failed) => {
                self.asked.remove(&request);
                self.step(Event::SpawnFailed {
                    worker: failed.worker,
                    message: failed.message,
                });
            }
            Reply::NodeCannotStart(failed) => {
                self.asked.remove(&request);
                self.step(Event::NodeCannotStart {
                    worker: failed.worker,
                    message: failed.message,
                });
            }
            Reply::Exited(exited) => self.exited(exited),
            Reply::Settings(read) => {
                self.asked.remove(&request);
                self.settings_read(read);
            }
            Reply::Failed(message) => self.failed(request, &message),
            Reply::Done => {
                // For other requests `Done` has no further meaning.
                if let Some(Asked::Prune(asked)) = self.asked.remove(&request) {
                    self.pruned(*asked, true);
                }
            }
            Reply::Swept(swept) => self.left_behind = swept.names,
            // These answer only Hello, which was sent once, before the driver began.
            Reply::Welcome(_) | Reply::Sockets(_) | Reply::Held(_) | Reply::HeldWithChannel(_) => {
                tracing::error!("fnd-spawner answered the handshake twice");
            }
        }
    }

    pub(crate) fn installed(&mut self, request: u32, mut installed: Installed) {
        let document = std::mem::take(&mut installed.document);
        let Some(candidate) = self.installer.answered(request) else {
            return;
        };
        let name = candidate.function.clone();
        self.installer.is_final(&name);
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
        let Some(serving) = self.functions.installed(candidate, installed, verdict, serves) else {
            return;
        };
        let mut event = installed_event(&name, serving, &self.settings.host);
        // A function that runs because its file is there waits until the directories are quiet. The supervisor gets
        // everything else at once.
        if event.rules.run_on_load {
            self.loading.insert(name.clone());
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
        let Some(candidate) = self.installer.answered(request) else {
            return;
        };
        let name = candidate.function.clone();
        let document = refused.document.take();
        let verdict = document.and_then(|document| read_document::<Verdict>(&document).ok());
        // The judge's problems follow from the files. The spawner's problems may disappear without a change of the
        // files.
        let known = if refused.problems.is_empty() {
            self.installer.is_final(&name);
            false
        } else {
            self.installer.refused(candidate.clone(), self.clock.now().mono)
        };
        let error = self.functions.refused(candidate, refused, verdict);
        let serving = self
            .functions
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

    fn failed(&mut self, request: u32, message: &str) {
        tracing::error!("fnd-spawner: {message}");
        if let Some(candidate) = self.installer.answered(request) {
            let function = candidate.function.clone();
            self.installer.refused(candidate.clone(), self.clock.now().mono);
            let refused = Refused {
                function: function.clone(),
                problems: Vec::new(),
                document: None,
            };
            let error = format!("{}: {message}", self.functions.refused(candidate, refused, None));
            self.step(Event::Refused { function, error });
        }
        match self.asked.remove(&request) {
            Some(Asked::Spawn(asked)) => {
                self.step(Event::SpawnFailed {
                    worker: asked.worker,
                    message: message.to_owned(),
                });
            }
            Some(Asked::Prune(asked)) => self.pruned(*asked, false),
            Some(Asked::Reload) | None => {}
        }
    }

    fn spawned(&mut self, request: u32, spawned: &Spawned, mut descriptors: impl Iterator<Item = OwnedFd>) {
        let Ends {
            stdout,
            stderr,
            result,
            kill,
        } = Ends::take(spawned, &mut descriptors);
        // It follows the others, where the worker speaks the worker protocol.
        let channel = descriptors.next();
        let Some(Asked::Spawn(starting)) = self.asked.remove(&request) else {
            return;
        };
        let Starting {
            worker,
            meta,
            rules,
            tmp,
            endpoint,
        } = *starting;
        let user = self.serving(&meta.function).map(|serving| serving.uid);
        let mut member = None;
        if let (Some(stdout), Some(stderr)) = (stdout, stderr) {
            let piped = Piped {
                worker,
                stdout,
                stderr,
                meta,
            };
            if rules.kind.pool().is_some() {
                let server = rules.kind.http().map(|_| Server::new(user, endpoint.clone()));
                member = self.take_on(worker, (channel, server), &rules, (piped, Vec::new()));
            } else {
                self.output.attach(piped);
            }
        }
        let deaf = rules.kind.pool().is_some() && member.is_none();
        let readiness_probe = self.probe_readiness(worker, (user, &rules), endpoint);
        let attached = Attached {
            kill,
            result,
            member,
            readiness_probe,
            tmp,
        };
        self.attached.insert(worker, attached);
        if deaf {
            // The kernel drops descriptors for which there is no room. The worker has no work yet, and its function is
            // not to blame.
            self.kill(worker);
            let message = "there is no connection to a new worker: too many files are open in fnd".to_owned();
            return self.step(Event::NodeCannotStart { worker, message });
        }
        self.step(Event::Spawned(worker));
    }

    /// Handles a worker whose leaf is empty. Its end is complete once its output is.
    pub(crate) fn exited(&mut self, frame: Exited) {
        self.drain_messages(frame.worker);
        if !self.read_out(&frame) {
            self.ended_with_all(frame);
        }
    }

    /// Ends a worker whose last messages and answers were read.
    pub(crate) fn ended_with_all(&mut self, frame: Exited) {
        let attached = self.attached.remove(&frame.worker);
        self.release_tmp(attached.as_ref().and_then(|attached| attached.tmp));
        if let Some(member) = attached.as_ref().and_then(|attached| attached.member.as_ref()) {
            self.cut_off(member);
        }
        let result = attached.and_then(|attached| attached.result);
        let messages = self.messages.clone();
        self.output.finish(frame.worker, result, move |captured| {
            let _ = messages.send(Message::Captured(Box::new((frame, captured)))); // an error: fnd is stopping
        });
    }

    fn settings_read(&mut self, read: SettingsRead) {
        let applied = read.applied;
        match settings_document(read) {
            Ok(document) => {
                if self.settings.apply(document, applied) {
                    self.settings_changed();
                }
                self.problems_changed();
                self.announce();
            }
            Err(error) => tracing::error!("the configuration cannot be read: {error}"),
        }
    }

    /// Passes the configuration on to every part that depends on it.
    pub(crate) fn settings_changed(&mut self) {
        self.supervisor.set_budget(self.settings.budget());
        self.buffers.resize(self.settings.settings.node.buffers);
        self.catalog.set_rules(self.settings.catalog_rules());
        self.status.set_mode(self.settings.settings.status.mode);
        self.retain();
        self.prune_all();
        self.expose_metrics();
        let problems = self.settings.resolve_access();
        // Where fnd was started by hand the default group may not exist, and only the person who started fnd uses the
        // socket.
        if self.spawner_pid.is_none() {
            problems.iter().for_each(|problem| tracing::warn!("{problem}"));
        }
    }

    /// Handles an event of the catalog.
    pub(crate) fn catalog_event(&mut self, event: CatalogEvent) {
        match event {
            CatalogEvent::Changed(candidates) => {
                self.quiet = false;
                self.installer.want(candidates);
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
                        .with_help("remove or rename one of them; until then the old version serves");
                    let error = self.functions.unusable(candidate, Vec::new(), vec![problem]);
                    self.step(Event::Refused { function: name, error });
                }
                self.name_problems = problems;
                self.set_unread(unread);
                self.problems_changed();
            }
            CatalogEvent::Scanned(number) => {
                self.report(ReportEvent::Rescanned);
                self.installer.scanned(number);
            }
            CatalogEvent::Confirmed(request, same) => self.confirmed(request, same),
            CatalogEvent::Quiet => self.quiet = true,
            CatalogEvent::Blind(problem) => tracing::warn!("{problem}"),
        }
    }

    fn remove(&mut self, name: &FunctionName) {
        self.installer.forget(name);
        self.loading.remove(name);
        self.functions.remove(name);
        self.step(Event::Removed(name.clone()));
        self.request(&Request::Remove(name.clone()), Vec::new());
        self.prune(name);
        self.sweep();
    }

    /// Starts the functions that run because their file is there: the directories are quiet and everything is
    /// installed.
    fn load(&mut self) {
        for name in std::mem::take(&mut self.loading) {
            let newest = self.functions.get(&name).and_then(|function| function.newest.as_ref());
            if let Some(serving) = newest {
                let event = installed_event(&name, serving, &self.settings.host);
                self.deliver(event);
            }
        }
    }

    /// Retries refused installations whose reason may be over.
    pub(crate) fn install_due(&mut self) {
        let mono = self.clock.now().mono;
        if self.installer.next_due().is_some_and(|due| due <= mono) {
            self.installer.try_again(mono);
            self.settle();
        }
    }

    /// Asks for installations while there is room, and wakes the callers that wait when all installations are over.
    pub(crate) fn settle(&mut self) {
        while let Some(candidate) = self
            .installer
            .next_request(|function| self.versions.is_pruning(function))
        {
            let request = Request::Install(Install {
                directory: candidate.directory,
                function: candidate.function.clone(),
                source: candidate.source.clone(),
                sidecar: candidate.sidecar.clone(),
                directory_form: candidate.directory_form,
            });
            match self.send(&request, Vec::new()) {
                Some(number) => self.installer.asked(number, candidate),
                None => break,
            }
        }
        if self.quiet && self.installer.is_idle() && !self.loading.is_empty() {
            self.load();
        }
        if self.installer.is_idle() && self.functions.take_changed() {
            self.announce();
            self.retain();
            self.interpreters.follow(&self.functions.interpreters());
        }
        self.decide();
        if self.settling.is_empty() {
            return;
        }
        // Without a function to install, a scan may be over before the configuration is read.
        let reading = self.asked.values().any(|asked| matches!(asked, Asked::Reload));
        let installer = &self.installer;
        let settled = |scan: u64| !reading && installer.is_settled(scan);
        for (_, waiting) in self.settling.extract_if(.., |(scan, _)| settled(*scan)) {
            let _ = waiting.send(()); // an error: the caller has gone
        }
        if self.settling.is_empty() && std::mem::take(&mut self.reloading) {
            systemd::ready();
        }
    }

    /// Reports the functions to the service manager, but not the runs: those change with every invocation.
    fn announce(&mut self) {
        let functions = self.functions.iter().count();
        let refused = self
            .functions
            .iter()
            .filter(|(_, function)| function.error.is_some())
            .count();
        let mut line = format!("functions: {functions}");
        if refused > 0 {
            line += &format!(", with errors: {refused} (`fndctl status` shows them)");
        }
        if self.settings.refused {
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
