//! Makes changes of the functions from the answers of the spawner and the events of the catalog.

use super::Functions;
use super::authors::author;
use super::catalog::{CatalogEvent, marked};
use super::registry::{ServingVersion, diagnostic};
use super::syntax::NodeFacts;
use fnd_core::access::Author;
use fnd_core::lifecycle::SourceFiles;
use fnd_core::lifecycle::release::{AfterInstall, Copied};
use fnd_core::supervisor::{self, Rules};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::function::listing::unclaimed as no_function;
use fnd_manifest::judge::{SettingsDocument, Verdict};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{Install, Installed, NeedsBuild, Refused, Request, SettingsRead};
use fnd_wire::ids::{FunctionName, Version};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// The spawner's answer about a function's files.
#[derive(Debug)]
pub(crate) enum Judged {
    /// They are installed, with the tree of their dependencies.
    Installed(Box<Installed>, Option<Version>),
    /// Their dependencies are to be installed first.
    NeedsBuild(Box<NeedsBuild>),
    /// They cannot be used.
    Refused(Box<Refused>),
}

impl Judged {
    /// Returns the function that it is about.
    pub(crate) fn function(&self) -> &FunctionName {
        match self {
            Self::Installed(installed, _) => &installed.function,
            Self::NeedsBuild(needs) => &needs.function,
            Self::Refused(refused) => &refused.function,
        }
    }
}

/// A change of the functions.
#[derive(Debug)]
pub(crate) enum CatalogChange {
    /// A version is installed and can serve, or get a share of the calls in percent; without an id for the run that it may
    /// start.
    Installed(Box<supervisor::InstalledVersion>, Option<u32>),
    /// The newest content of a function cannot serve.
    Refused {
        function: FunctionName,
        error: String,
        /// Whether that is to be reported: a retry that is refused again is not.
        report: bool,
        /// Whether an earlier version goes on.
        serving: bool,
    },
    /// A file is installed and may not serve now; another release is installed in its place.
    Waits { function: FunctionName, version: Version },
    /// A function is gone.
    Removed(FunctionName),
    /// The directories were scanned.
    Rescanned,
    /// Two files claim the same function.
    Clash { function: FunctionName, error: String },
    /// Problems of names and directories were found, or are over; with what could not be read.
    Found(Vec<Diagnostic>),
    /// The spawner's answer about the files of a function was dropped, because the files have changed since.
    Dropped(FunctionName),
    /// The catalog has checked files again whose answer was kept.
    Confirmed(u32, Judged),
}

impl Functions {
    /// Keeps the spawner's answer until the files were checked again: the spawner reads them a moment after the
    /// catalog's scan, and somebody may have begun to write in between. The catalog's thread checks, since a directory
    /// on a network may be slow.
    pub(crate) fn judged(&mut self, request: u32, judged: Judged) -> Option<CatalogChange> {
        let candidate = self.installer.candidate(request)?;
        if candidate.copy().is_some() {
            return Some(CatalogChange::Confirmed(request, judged)); // a copy never changes
        }
        self.catalog.confirm(request, candidate.clone());
        self.judged.insert(request, judged);
        None
    }

    /// Handles the result of that check. If the files have changed, the answer is dropped: the catalog hands the files
    /// on again when they are complete.
    fn confirmed(&mut self, request: u32, same: bool) -> Option<CatalogChange> {
        // Absent: checked twice, which cannot happen, and does no harm.
        let judged = self.judged.remove(&request)?;
        if same {
            return Some(CatalogChange::Confirmed(request, judged));
        }
        // The retries end as well: they would bring the files as they were.
        let function = self.installer.answered(request)?.function;
        self.installer.is_final(&function);
        // The answer may have been about a syntax check. The changed files get a check of their own.
        self.installer.checks.forget(&function);
        Some(CatalogChange::Dropped(function))
    }

    /// Handles an event of the catalog.
    pub(crate) fn catalog_event(&mut self, event: CatalogEvent) -> Vec<CatalogChange> {
        match event {
            CatalogEvent::Changed(mut candidates) => {
                self.quiet = false;
                // A person has changed these files, so the answer is news, also if a poll is under way.
                candidates
                    .iter()
                    .for_each(|candidate| self.sources.no_poll(&candidate.function));
                // Of two functions with one route, the one that has served before keeps it.
                candidates.sort_by_key(|candidate| !self.versions.is_known(&candidate.function));
                self.installer.enqueue(candidates);
            }
            CatalogEvent::Secrets(names) => {
                self.quiet = false;
                let candidates = self.registry.with_secrets(&names);
                candidates
                    .iter()
                    .for_each(|candidate| self.sources.no_poll(&candidate.function));
                self.installer.enqueue(candidates);
            }
            CatalogEvent::Removed(names) => {
                // A project may be taken apart: its functions are held until all of it is gone.
                self.look_for_projects();
                for name in &names {
                    self.installer.forget(name);
                    // This looks at the versions of the function, so it comes before they are removed.
                    self.subscriptions_changed(name);
                    self.registry.remove(name);
                    self.releases.remove(name);
                    self.sources.remove(name);
                    self.rebuilt.remove(name);
                    self.set_author(name, Author::Root);
                    self.set_routes(name, Author::Root);
                    let free = self.hooks.set(name, []);
                    self.installer.enqueue(free);
                }
                return names.into_iter().map(CatalogChange::Removed).collect();
            }
            CatalogEvent::Findings {
                problems,
                clashes,
                unclaimed,
                unread,
            } => {
                if marked(&problems).ne(marked(&self.name_problems)) {
                    self.look_for_projects();
                }
                self.name_problems = problems;
                let before = std::mem::replace(&mut self.unclaimed, unclaimed);
                // Each scan reports all of these files, but people are told of each one once.
                for path in self.unclaimed.paths.iter().filter(|path| !before.paths.contains(path)) {
                    tracing::warn!("{}", no_function(path).text());
                }
                let clashes = clashes
                    .into_iter()
                    .map(|(candidate, problem)| self.clash(candidate, problem));
                let mut changes: Vec<_> = clashes.collect();
                changes.push(CatalogChange::Found(unread));
                return changes;
            }
            CatalogEvent::Scanned(number) => {
                self.installer.scanned(number);
                return vec![CatalogChange::Rescanned];
            }
            CatalogEvent::Confirmed(request, same) => return self.confirmed(request, same).into_iter().collect(),
            CatalogEvent::Reported(number, reported) => self.saved.reported(number, reported),
            CatalogEvent::Arranged(function) => self.uploads.arranged(&function),
            CatalogEvent::Quiet => self.quiet = true,
            CatalogEvent::Blind(problem) => tracing::warn!("{problem}"),
        }
        Vec::new()
    }

    fn clash(&mut self, candidate: SourceFiles, problem: Diagnostic) -> CatalogChange {
        let function = candidate.function.clone();
        let error = self.registry.unusable(candidate, Vec::new(), vec![problem]);
        // After a start nothing serves yet. Then the copy that served last takes the place of the refused files.
        if self.registry.get(&function).is_some_and(|known| known.newest.is_none()) {
            self.decide_refused(&function);
        }
        CatalogChange::Clash { function, error }
    }

    /// Handles the answer that files are installed. `serves` gives the version of a function that serves until now.
    pub(crate) fn installed(
        &mut self,
        request: u32,
        mut installed: Installed,
        serves: impl FnOnce(&FunctionName) -> Option<Version>,
        node: NodeFacts<'_>,
    ) -> Option<CatalogChange> {
        let document = std::mem::take(&mut installed.document);
        let mut candidate = self.installer.answered(request)?;
        let name = candidate.function.clone();
        let copy = candidate.copy();
        if copy.is_some() {
            candidate = self.registry.get(&name)?.candidate.clone(); // absent: its file is gone
        } else {
            self.installer.is_final(&name);
        }
        let mut verdict = read_document::<Verdict>(&document)
            .inspect_err(|error| tracing::error!("the verdict on `{name}` cannot be read: {error}"))
            .ok()?;
        for problem in &verdict.diagnostics {
            tracing::warn!("{name}  {}", problem.text());
        }
        for problem in &installed.warnings {
            tracing::warn!("{name}  {}: {}; {}", problem.file, problem.message, problem.help);
        }
        let manifest = verdict.manifest.as_ref();
        let has_earlier = self.registry.get(&name).is_some_and(|known| known.newest.is_some());
        // The owner is looked up at the function's file, also for a copy: the copy itself belongs to root.
        let author = author(&candidate, verdict.trusted, &node);
        let route = manifest.and_then(|manifest| self.routes.conflict(&candidate, author, manifest));
        // A conflict is noted where it is found, so the hooks are compared only if there is no conflict of routes.
        let conflict = || manifest.and_then(|manifest| self.hooks.conflict(&candidate, manifest, has_earlier));
        if let Some(problem) = route.or_else(conflict) {
            return match copy {
                Some(asked) => self.copy_refused(&name, asked, &problem.line()),
                None => Some(self.taken(candidate, verdict.interpreters, problem)),
            };
        }
        if let Some(asked) = copy {
            let version = installed.version;
            let copied = self
                .releases
                .change(&name, |releases| releases.copy_installed(asked, version));
            if self
                .releases
                .get(&name)
                .is_some_and(|releases| releases.is_live(version))
            {
                self.releases.answer(&name, &Ok(version)); // it is not going to begin to serve
            }
            self.copy_done(&name, asked);
            match copied {
                Copied::Serves => {}
                Copied::Canary(percent) => return self.canary(&name, &installed, &verdict, (percent, node)),
                Copied::Unwanted => return None,
            }
        } else {
            let next = self.decide_file(&candidate, (&installed, &verdict), node.now_ms);
            // A version that could not be loaded has its own times of another trial.
            let known = self.registry.get(&name);
            let is_same = known.is_some_and(|known| {
                let newest = known.newest.as_ref().map(|newest| newest.version);
                newest == Some(installed.version) && known.findings.error.is_none()
            });
            // A poll that has brought the same code changes nothing, and there is nothing to tell.
            if next == AfterInstall::Serve && is_same && self.sources.is_poll(&name) {
                return None;
            }
            if let AfterInstall::Hold(_) | AfterInstall::First(_) = next {
                self.registry.waits(candidate, verdict);
                let version = installed.version;
                return Some(CatalogChange::Waits {
                    function: name,
                    version,
                });
            }
            match self.checked_first(candidate, verdict, &installed, node) {
                Ok(same) => (candidate, verdict) = same,
                Err(change) => return change,
            }
            if let AfterInstall::Canary(percent) = next {
                self.registry.waits(candidate, verdict.clone());
                return self.canary(&name, &installed, &verdict, (percent, node));
            }
        }
        // Both the version that goes and the one that comes may have subscriptions, so this is done before and after.
        self.subscriptions_changed(&name);
        match copy {
            Some(_) => self.registry.installed_copy(&name, &installed, verdict, serves(&name)),
            None => drop(self.registry.installed(candidate, &installed, verdict, serves(&name))),
        }
        self.subscriptions_changed(&name);
        self.unsettled = true;
        let function = self.registry.get(&name)?;
        let versions = function.newest.iter().chain(&function.before);
        let manifests = versions.map(|serving| &*serving.manifest);
        let free = self.hooks.set(&name, manifests);
        self.installer.enqueue(free);
        self.set_author(&name, author);
        self.set_routes(&name, author);
        let manifest = Arc::clone(&self.registry.get(&name)?.newest.as_ref()?.manifest);
        let rules = self.registry.rules(&manifest, node.host);
        let serving = self.registry.get(&name)?.newest.as_ref()?;
        Some(CatalogChange::Installed(
            Box::new(for_supervisor(&name, serving, rules)),
            None,
        ))
    }

    /// Returns the change of a function that conflicts with another one.
    fn taken(&mut self, candidate: SourceFiles, interpreters: Vec<String>, problem: Diagnostic) -> CatalogChange {
        let function = candidate.function.clone();
        let error = self.registry.unusable(candidate, interpreters, vec![problem]);
        self.decide_refused(&function);
        self.change_refused(function, error, true)
    }

    /// Returns the change of a function that was refused; `report` says whether people are told.
    pub(super) fn change_refused(&self, function: FunctionName, error: String, report: bool) -> CatalogChange {
        let serving = self.registry.get(&function).is_some_and(|known| known.newest.is_some());
        CatalogChange::Refused {
            function,
            error,
            report,
            serving,
        }
    }

    /// Handles the answer that files cannot be used.
    pub(crate) fn refused(&mut self, request: u32, mut refused: Refused, mono: Duration) -> Option<CatalogChange> {
        let candidate = self.installer.answered(request)?;
        let function = candidate.function.clone();
        let document = refused.document.take();
        let verdict = document.and_then(|document| read_document::<Verdict>(&document).ok());
        if let Some(asked) = candidate.copy() {
            return self.copy_refused(&function, asked, &reason(refused, verdict));
        }
        // The judge's problems follow from the files. The spawner's problems may disappear without a change of the
        // files.
        let known = if refused.problems.is_empty() {
            self.installer.is_final(&function);
            false
        } else {
            self.installer.refused(candidate.clone(), mono)
        };
        let before = self
            .registry
            .get(&function)
            .and_then(|known| known.findings.error.clone());
        let error = self.registry.refused(candidate, refused, verdict);
        self.decide_refused(&function);
        // Code that was fetched again and is refused again is no news.
        let is_same = self.sources.is_poll(&function) && before.as_ref() == Some(&error);
        let is_news = !known && !is_same;
        Some(self.change_refused(function, error, is_news))
    }

    /// Handles the answer that an installation failed for a reason outside of the files.
    pub(crate) fn failed(&mut self, request: u32, message: &str, mono: Duration) -> Option<CatalogChange> {
        let candidate = self.installer.answered(request)?;
        if let Some(asked) = candidate.copy() {
            return self.copy_refused(&candidate.function, asked, message);
        }
        self.installer.refused(candidate.clone(), mono);
        let function = candidate.function.clone();
        // The reason is kept with the function: its status, `show` and its alerts say it as long as it lasts.
        let problem = Diagnostic::error("file", format!("it could not be installed: {message}"));
        let error = self.registry.unusable(candidate, Vec::new(), vec![problem]);
        Some(CatalogChange::Refused {
            function,
            error,
            report: false,
            serving: false,
        })
    }

    /// Returns the next installation to ask for, while there is room.
    pub(crate) fn next_install(&mut self) -> Option<(Request, SourceFiles)> {
        // While old versions of a function are deleted, none is installed: the list of versions to keep does not name it, so
        // it would be deleted as well.
        let candidate = self
            .installer
            .next_request(|function| self.versions.is_pruning(function))?;
        let install = Install {
            directory: candidate.directory,
            function: candidate.function.clone(),
            source: candidate.source.clone(),
            sidecar: candidate.sidecar.clone(),
            directory_form: candidate.directory_form,
        };
        // Only a file is fetched, checked or built anew. A copy keeps its tree, so that a rollback brings back its packages.
        let fetches = candidate.copy().is_none() && self.sources.sent(&candidate.function);
        let is_file = candidate.copy().is_none();
        let checked = is_file && self.installer.checks.is_due(&candidate.function);
        let builds_anew = is_file && self.rebuilt.remove(&candidate.function);
        let request = match (builds_anew, fetches, checked) {
            (true, _, _) => Request::Rebuild(install),
            (false, true, _) => Request::Fetch(install),
            (false, false, true) => Request::Check(install),
            (false, false, false) => Request::Install(install),
        };
        Some((request, candidate))
    }

    /// Returns whether the directories are quiet and everything is installed, once after each change.
    pub(crate) fn has_settled(&mut self) -> bool {
        let settled = self.unsettled && self.quiet && self.installer.is_idle();
        self.unsettled &= !settled;
        settled
    }

    /// Wakes the callers whose scan is over and installed; with `reading` the configuration is not read yet. Returns
    /// whether a reload is over with that.
    pub(crate) fn wake_settled(&mut self, reading: bool) -> bool {
        let installer = &self.installer;
        let settled = |scan: u64| !reading && installer.is_settled(scan);
        let waited = !self.settling.is_empty();
        for (_, waiting) in self.settling.extract_if(.., |(scan, _)| settled(*scan)) {
            let _ = waiting.send(()); // an error: the caller has gone
        }
        waited && self.settling.is_empty() && std::mem::take(&mut self.reloading)
    }

    /// Returns how many functions there are, and how many of them have errors, in words.
    pub(crate) fn announcement(&self) -> String {
        let functions = self.registry.iter().count();
        let refused = self
            .registry
            .iter()
            .filter(|(_, function)| function.findings.error.is_some());
        let mut line = format!("functions: {functions}");
        match refused.count() {
            0 => {}
            refused => line += &format!(", with errors: {refused} (`fndctl status` shows them)"),
        }
        line
    }
}

/// Returns a version as the supervisor takes it, without an id for the run that it may start.
pub(super) fn for_supervisor(
    name: &FunctionName,
    serving: &ServingVersion,
    rules: Arc<Rules>,
) -> supervisor::InstalledVersion {
    supervisor::InstalledVersion {
        function: name.clone(),
        id: serving.id,
        version: serving.version,
        load_key: serving.load_key,
        load_id: fnd_wire::ids::InvocationId(0),
        rules,
    }
}

/// Returns why a copy was refused, in one line.
fn reason(refused: Refused, verdict: Option<Verdict>) -> String {
    let own = refused.problems.into_iter().next().map(|problem| problem.message);
    let judged = || {
        verdict?
            .diagnostics
            .iter()
            .find(|found| found.is_error())
            .map(Diagnostic::line)
    };
    own.or_else(judged)
        .unwrap_or_else(|| "it was refused without a reason".to_owned())
}

/// Returns the judge's document of the configuration, with the spawner's problems of the files themselves.
pub(crate) fn settings_document(read: SettingsRead) -> Result<SettingsDocument, serde_json::Error> {
    let mut document = if read.document.0.is_empty() {
        SettingsDocument::default()
    } else {
        read_document(&read.document)?
    };
    let problems = read.problems.into_iter();
    document.diagnostics.extend(problems.map(diagnostic));
    Ok(document)
}

/// Reads a document of the judge.
pub(crate) fn read_document<T: DeserializeOwned>(document: &Bytes) -> Result<T, serde_json::Error> {
    serde_json::from_slice(&document.0)
}
