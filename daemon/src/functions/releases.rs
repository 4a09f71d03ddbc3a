//! The releases of all functions: hands the answers of the spawner to their machines ([`fnd_core::release`]), and queues
//! the copies that these want installed.

use super::Functions;
use super::catalog::Candidate;
use super::install::Change;
use fnd_core::release::{HoldKind, Next, Releases};
use fnd_manifest::function::{Manifest, Mode};
use fnd_manifest::judge::Verdict;
use fnd_wire::frame::{Installed, STORED};
use fnd_wire::ids::{FunctionName, Version};
use std::collections::{BTreeSet, HashMap};
use tokio::sync::oneshot;

/// What became of a release that somebody asked for.
pub(crate) type Outcome = Result<Version, String>;

/// The releases of all functions.
#[derive(Debug, Default)]
pub(crate) struct FunctionReleases {
    of: HashMap<FunctionName, Releases>,
    /// Functions whose releases have changed since they were stored.
    changed: BTreeSet<FunctionName>,
    /// Callers that wait until the release that they asked for serves.
    waiting: HashMap<FunctionName, Vec<oneshot::Sender<Outcome>>>,
}

impl FunctionReleases {
    /// Returns the releases that the ledger knows.
    pub(crate) fn new(stored: Vec<(FunctionName, Releases)>) -> Self {
        Self {
            of: stored.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Returns the releases of a function; nothing if it never had one.
    pub(crate) fn get(&self, function: &FunctionName) -> Option<&Releases> {
        self.of.get(function)
    }

    /// Changes the releases of a function.
    pub(crate) fn change<T>(&mut self, function: &FunctionName, change: impl FnOnce(&mut Releases) -> T) -> T {
        let releases = self.of.entry(function.clone()).or_default();
        let before = releases.clone();
        let result = change(releases);
        if *releases != before {
            self.changed.insert(function.clone());
        }
        result
    }

    /// Forgets a function that is gone.
    pub(crate) fn remove(&mut self, function: &FunctionName) {
        if self.of.remove(function).is_some() {
            self.changed.insert(function.clone());
        }
        self.answer(function, &Err("the function was deleted".to_owned()));
    }

    /// Forgets the functions that are not known.
    pub(crate) fn keep_known(&mut self, is_known: impl Fn(&FunctionName) -> bool) {
        let gone: Vec<_> = self.of.keys().filter(|name| !is_known(name)).cloned().collect();
        gone.iter().for_each(|name| self.remove(name));
    }

    /// Returns the functions whose releases have changed since the last call, each with its releases as JSON.
    pub(crate) fn take_changed(&mut self) -> Vec<(FunctionName, Option<String>)> {
        let of = |name: FunctionName| {
            let releases = self.of.get(&name);
            // Texts and numbers only, so that this cannot fail.
            let json = releases.and_then(|releases| serde_json::to_string(releases).ok());
            (name, json)
        };
        std::mem::take(&mut self.changed).into_iter().map(of).collect()
    }

    /// Returns what becomes of the release that a caller asks for.
    pub(crate) fn wait(&mut self, function: &FunctionName) -> oneshot::Receiver<Outcome> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.entry(function.clone()).or_default().push(sender);
        receiver
    }

    /// Answers the callers that wait for a release of a function.
    pub(crate) fn answer(&mut self, function: &FunctionName, outcome: &Outcome) {
        for waiting in self.waiting.remove(function).into_iter().flatten() {
            let _ = waiting.send(outcome.clone()); // an error: the caller has gone
        }
    }
}

impl Functions {
    /// Decides whether a file that was installed may serve; queues the copy that serves in its place.
    pub(super) fn decide_file(
        &mut self,
        candidate: &Candidate,
        (installed, verdict): (&Installed, &Verdict),
        now_ms: u64,
    ) -> Next {
        let is_tried =
            |manifest: &Manifest| matches!(manifest.mode, Mode::Handler | Mode::Http) && manifest.release.check;
        let tried = verdict.checkable || verdict.manifest.as_ref().is_some_and(is_tried);
        let version = (installed.version, installed.load_key);
        let source = self.sources.name(&candidate.function, &candidate.source);
        let next = self.releases.change(&candidate.function, |releases| {
            releases.file_installed(now_ms, version, (&source, tried))
        });
        match next {
            Next::Serve => {}
            Next::Hold(copy) | Next::First(copy) => self.want_copy(&candidate.function, copy),
        }
        next
    }

    /// Queues the copy that serves in place of a file that was refused.
    pub(super) fn decide_refused(&mut self, function: &FunctionName) {
        if let Some(copy) = self.releases.change(function, Releases::file_refused) {
            self.want_copy(function, copy);
        }
    }

    /// Queues a copy. If the file is to be installed as well, nothing is queued: its answer asks for the copy again.
    pub(crate) fn want_copy(&mut self, function: &FunctionName, version: Version) {
        self.installer.want_again(Candidate {
            function: function.clone(),
            directory: STORED,
            source: version.hex(),
            sidecar: None,
            directory_form: false,
        });
    }

    /// Handles the end of an installation from a copy: perhaps the file follows.
    pub(super) fn copy_done(&mut self, function: &FunctionName, asked: Version) {
        if self.releases.change(function, |releases| releases.copy_done(asked)) {
            self.want_file(function);
        }
    }

    /// Queues a function's file.
    pub(crate) fn want_file(&mut self, function: &FunctionName) {
        let known = self.registry.get(function);
        self.installer
            .want(known.map(|known| known.candidate.clone()).into_iter().collect());
    }

    /// Handles a copy that cannot be installed.
    pub(super) fn copy_refused(&mut self, function: &FunctionName, asked: Version, why: &str) -> Option<Change> {
        let ended = self.releases.change(function, |releases| releases.copy_refused(asked));
        self.releases.answer(function, &Err(why.to_owned()));
        self.copy_done(function, asked);
        if ended {
            // Its file may have been judged under the hold that is over now.
            if self.releases.get(function).is_some_and(Releases::wants_file) {
                self.want_file(function);
            }
            return None;
        }
        let name = fnd_core::release::short(asked);
        let error = format!("release {name}, which is to serve, cannot be installed: {why}");
        let error = self.registry.copy_refused(function, error)?;
        Some(self.change_refused(function.clone(), error, true))
    }
}

/// Returns the words of `status` for a function with a held release.
pub(crate) fn held_words(function: &FunctionName, releases: &Releases) -> Option<String> {
    let hold = releases.hold()?;
    let name = fnd_core::release::short(hold.version);
    Some(match hold.kind {
        HoldKind::Rollback => format!("rolled back to release {name}, until its file changes"),
        HoldKind::Pin => match releases.waiting() {
            Some(waiting) => {
                let waiting = fnd_core::release::short(waiting);
                format!(
                    "pinned to release {name}, and release {waiting} waits: `fndctl unpin {function}` lets it serve"
                )
            }
            None => format!("pinned to release {name}, until `fndctl unpin {function}`"),
        },
    })
}
