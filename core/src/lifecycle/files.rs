//! Files that appear, change or disappear, and the requests to the spawner to install them.

use super::installer::RequestKind;
use super::order::{Order, UploadSeen};
use super::{Lifecycle, SourceFiles};
use crate::access::Author;
use crate::run::Event;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::frame::Request;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

impl Lifecycle {
    /// Handles files that have appeared or changed.
    pub fn files_changed(&mut self, mut files: Vec<SourceFiles>) {
        // Functions that were installed before come first: of two functions with one route, the first one gets it.
        files.sort_by_key(|files| !self.versions.is_known(&files.function));
        for files in &files {
            self.releases.file_changed(&files.function);
        }
        self.people_changed(files);
    }

    /// Handles secrets whose values have changed.
    pub fn secrets_changed(&mut self, names: &BTreeSet<String>) {
        let affected = self.registry.with_secrets(names);
        self.renewed.extend(affected.iter().map(|files| files.function.clone()));
        self.people_changed(affected);
    }

    /// Queues files because a person has changed them or their secrets. The answer is reported as news, also if a poll is under
    /// way.
    fn people_changed(&mut self, files: Vec<SourceFiles>) {
        self.quiet = false;
        for files in &files {
            self.sources.no_poll(&files.function);
        }
        self.installer.enqueue(files);
    }

    /// Queues every function that an interpreter of `changed` can run. Returns for each interpreter how many functions it can
    /// run.
    pub fn interpreters_changed<'p>(&mut self, changed: impl Iterator<Item = &'p str>) -> Vec<usize> {
        self.registry.forget_interpreters();
        let mut again = BTreeMap::new();
        let mut counts = Vec::new();
        for path in changed {
            let runs = |interpreters: &[String]| interpreters.iter().any(|one| one == path);
            let all = self.registry.iter();
            let users = all.filter(|(_, function)| runs(&function.interpreters));
            let users = users.map(|(name, function)| (name.clone(), function.candidate.clone()));
            let users: Vec<_> = users.collect();
            counts.push(users.len());
            again.extend(users);
        }
        self.renewed.extend(again.keys().cloned());
        self.installer.enqueue(again.into_values().collect());
        counts
    }

    /// Handles functions whose files are gone.
    pub fn removed(&mut self, names: &[FunctionName], out: &mut Vec<Order>) {
        for name in names {
            self.installer.forget(name);
            // This looks at the versions of the function, so it comes before they are removed.
            self.subscriptions_changed(name);
            self.registry.remove(name);
            self.releases.remove(name, out);
            self.sources.remove(name);
            self.clean_builds.remove(name);
            self.renewed.remove(name);
            self.set_author(name, Author::Root);
            self.set_routes(name, Author::Root, out);
            self.set_hooks(name, None, out);
        }
        for name in names {
            self.builds.remove(name);
            self.installer.checks.forget(name);
            self.answer_builds(name, &Err("it was removed".to_owned()), out);
            out.push(Order::UploadSeen(name.clone(), UploadSeen::Removed));
            out.push(Order::Remove(name.clone()));
        }
    }

    /// Handles two files that claim the same function.
    pub fn clash(&mut self, files: SourceFiles, problem: Diagnostic, out: &mut Vec<Order>) {
        let function = files.function.clone();
        let error = self.registry.unusable(files, &[], vec![problem]);
        // After a start nothing serves yet. Then the copy that served last takes the place of the refused files.
        if self.registry.get(&function).is_some_and(|known| known.newest.is_none()) {
            self.decide_refused(&function);
        }
        self.answer_builds(&function, &Err(error.clone()), out);
        out.push(Order::UploadSeen(function.clone(), UploadSeen::Refused));
        out.push(Order::Supervise(Event::Refused { function, error }));
    }

    /// Forgets the releases of functions that are not known, because they were deleted. To be called once every existing function
    /// is known.
    pub fn all_known(&mut self, out: &mut Vec<Order>) {
        let registry = &self.registry;
        self.releases.keep_known(|name| registry.get(name).is_some(), out);
    }

    /// Notes that nothing has changed in the directories for a moment.
    pub fn quiet(&mut self) {
        self.quiet = true;
    }

    /// Has [`has_settled`](Self::has_settled) report the next quiet moment, as after an installation.
    pub fn not_quiet(&mut self) {
        (self.quiet, self.unsettled) = (false, true);
    }

    /// Returns whether the directories are quiet and everything is installed, once after each change.
    pub fn has_settled(&mut self) -> bool {
        let settled = self.unsettled && self.quiet && self.installer.is_idle();
        self.unsettled &= !settled;
        settled
    }

    /// Returns the next installation to ask for, while there is room. [`asked`](Self::asked) or
    /// [`Installer::not_asked`](super::installer::Installer::not_asked) must follow. The spawner of fnd 0.1 gets no request to
    /// fetch, because it ends the connection at a request that it does not know.
    pub fn next_request(&mut self, is_spawner_of_0_1: bool) -> Option<(Request, SourceFiles)> {
        // While old versions of a function are being deleted, no new one is installed: the list of versions to keep does not name
        // the new one, so the spawner would delete it as well.
        let versions = &self.versions;
        let files = self.installer.next_request(|function| versions.is_pruning(function))?;
        let install = files.install();
        // Only a file is fetched, checked or built anew. A copy keeps its tree, so that a rollback brings back its packages.
        let is_file = files.copy().is_none();
        let fetches = is_file && self.sources.sent(&files.function) && !is_spawner_of_0_1;
        let checked = is_file && self.installer.checks.is_due(&files.function);
        let builds_anew = is_file && self.clean_builds.contains(&files.function);
        let request = match (builds_anew, fetches, checked) {
            (true, _, _) => Request::Rebuild(install),
            (false, true, _) => Request::Fetch(install),
            (false, false, true) => Request::Check(install),
            (false, false, false) => Request::Install(install),
        };
        Some((request, files))
    }

    /// Stores the number of the request that asks the spawner for an installation of files.
    pub fn asked(&mut self, number: u32, request: &Request, files: SourceFiles) {
        let kind = match request {
            Request::Check(_) => RequestKind::Check,
            Request::Rebuild(_) => RequestKind::CleanBuild,
            _ => RequestKind::Install,
        };
        self.installer.asked(number, files, kind);
    }

    /// Returns when [`install_due`](Self::install_due) has something to do.
    #[must_use]
    pub fn next_due(&self) -> Option<Duration> {
        let due = [self.installer.next_due(), self.sources.next_due()];
        due.into_iter().flatten().min()
    }

    /// Queues refused files that can perhaps be installed now, and functions whose code is to be fetched again. Returns whether
    /// there were any.
    pub fn install_due(&mut self, mono: Duration) -> bool {
        let is_due = self.installer.next_due().is_some_and(|due| due <= mono);
        if is_due {
            self.installer.try_again(mono);
        }
        let builds = &self.builds;
        let polls = self.sources.due(mono, |function| builds.is_waiting(function));
        polls.iter().for_each(|function| self.enqueue_file(function));
        is_due || !polls.is_empty()
    }

    /// Queues a function's file.
    pub(super) fn enqueue_file(&mut self, function: &FunctionName) {
        let known = self.registry.get(function);
        let files = known.map(|known| known.candidate.clone());
        self.installer.enqueue(files.into_iter().collect());
    }

    /// Queues a copy, if one is wanted. If the file is queued already, nothing is added: the answer about the file asks for the copy
    /// again.
    pub(super) fn enqueue_copy(&mut self, function: &FunctionName, version: Option<Version>) {
        if let Some(version) = version {
            self.installer.requeue(SourceFiles::of_copy(function.clone(), version));
        }
    }

    /// Remembers the author of the versions of a function.
    pub(super) fn set_author(&mut self, function: &FunctionName, author: Author) {
        if author == Author::Root || self.registry.get(function).is_none() {
            self.authors.remove(function);
        } else {
            self.authors.insert(function.clone(), author);
        }
    }
}
