//! The releases of all functions: hands the answers of the spawner to their machines ([`fnd_core::lifecycle::release`]), and queues
//! the copies that these want installed.

use super::Functions;
use super::install::{CatalogChange, for_supervisor};
use super::syntax::NodeFacts;
use fnd_core::lifecycle::SourceFiles;
use fnd_core::lifecycle::release::{AfterInstall, Canary, CanaryRules, HoldKind, Releases, Tried, canary_words};
use fnd_manifest::function::{Listen, Manifest, Mode};
use fnd_manifest::judge::Verdict;
use fnd_wire::frame::Installed;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::{BTreeSet, HashMap};
use tokio::sync::oneshot;

/// The end of a request for a release: the version that serves, or the reason why it does not.
pub(crate) type Outcome = Result<Version, String>;

/// The event that a caller waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AwaitedRelease {
    /// The release that is held serves.
    Held,
    /// The canary gets its share of the calls.
    Canary,
    /// The canary serves.
    Promoted,
    /// The outcome of a file that was just uploaded, whatever it is.
    Uploaded,
}

impl AwaitedRelease {
    /// Returns whether this release can still come.
    fn is_wanted(self, releases: &Releases) -> bool {
        match self {
            Self::Held => releases.hold().is_some(),
            Self::Canary => releases.canary().is_some(),
            Self::Promoted => releases.canary().is_some_and(|canary| canary.promoted),
            Self::Uploaded => true,
        }
    }
}

/// The releases of all functions.
#[derive(Debug, Default)]
pub(crate) struct FunctionReleases {
    of: HashMap<FunctionName, Box<Releases>>,
    /// Functions whose releases have changed since they were stored.
    changed: BTreeSet<FunctionName>,
    /// When canaries are promoted, Unix milliseconds.
    promotions: HashMap<FunctionName, u64>,
    /// Callers that wait until the release that they asked for serves.
    waiting: HashMap<FunctionName, Vec<(AwaitedRelease, oneshot::Sender<Outcome>)>>,
}

impl FunctionReleases {
    /// Returns the releases that the ledger knows.
    pub(crate) fn new(stored: Vec<(FunctionName, Releases)>) -> Self {
        let boxed = |(function, mut releases): (FunctionName, Releases)| {
            releases.shrink();
            (function, Box::new(releases))
        };
        let promoted = |(function, releases): &(FunctionName, Releases)| {
            Some((function.clone(), releases.canary()?.promote_at_ms()?))
        };
        Self {
            promotions: stored.iter().filter_map(promoted).collect(),
            of: stored.into_iter().map(boxed).collect(),
            ..Self::default()
        }
    }

    /// Returns the releases of a function; nothing if it never had one.
    pub(crate) fn get(&self, function: &FunctionName) -> Option<&Releases> {
        self.of.get(function).map(|releases| &**releases)
    }

    /// Changes the releases of a function.
    pub(crate) fn change<T>(&mut self, function: &FunctionName, change: impl FnOnce(&mut Releases) -> T) -> T {
        let releases = self.of.entry(function.clone()).or_default();
        let before = releases.clone();
        let result = change(releases);
        // A change of parts that are not stored needs no write.
        if !releases.is_stored_like(&before) {
            self.changed.insert(function.clone());
            match releases.canary().and_then(Canary::promote_at_ms) {
                Some(at_ms) => drop(self.promotions.insert(function.clone(), at_ms)),
                None => drop(self.promotions.remove(function)),
            }
        }
        result
    }

    /// Forgets a function that is gone.
    pub(crate) fn remove(&mut self, function: &FunctionName) {
        self.promotions.remove(function);
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

    /// Returns when the next canary of the known functions is promoted, Unix milliseconds. Canaries of other functions wait:
    /// after a start, fnd knows a function once its file is installed.
    pub(crate) fn next_promotion_ms(&self, is_known: impl Fn(&FunctionName) -> bool) -> Option<u64> {
        let known = self.promotions.iter().filter(|(function, _)| is_known(function));
        known.map(|(_, at_ms)| *at_ms).min()
    }

    /// Returns the known functions whose canary is to be promoted now.
    pub(crate) fn promotions_due(&self, now_ms: u64, is_known: impl Fn(&FunctionName) -> bool) -> Vec<FunctionName> {
        let due = self.promotions.iter().filter(|(_, at_ms)| **at_ms <= now_ms);
        let known = due.filter(|(function, _)| is_known(function));
        known.map(|(function, _)| function.clone()).collect()
    }

    /// Returns what becomes of the release that a caller asks for.
    pub(crate) fn wait(&mut self, function: &FunctionName, awaited: AwaitedRelease) -> oneshot::Receiver<Outcome> {
        let (sender, receiver) = oneshot::channel();
        let waiting = self.waiting.entry(function.clone()).or_default();
        waiting.retain(|(_, other)| !other.is_closed()); // their callers have gone
        waiting.push((awaited, sender));
        receiver
    }

    /// Answers the callers that wait for a release of a function.
    pub(crate) fn answer(&mut self, function: &FunctionName, outcome: &Outcome) {
        for (_, waiting) in self.waiting.remove(function).into_iter().flatten() {
            let _ = waiting.send(outcome.clone()); // an error: the caller has gone
        }
    }

    /// Answers the callers whose release can no longer come, because somebody has chosen another release or the file has changed.
    pub(crate) fn answer_unwanted(&mut self) {
        for (function, waiting) in &mut self.waiting {
            let releases = self.of.get(function);
            let is_wanted = |awaited: AwaitedRelease| releases.is_some_and(|releases| awaited.is_wanted(releases));
            for (_, caller) in waiting.extract_if(.., |(awaited, _)| !is_wanted(*awaited)) {
                let why = "the function's file has changed, or somebody has chosen another release, before it served";
                let _ = caller.send(Err(why.to_owned())); // an error: the caller has gone
            }
        }
        self.waiting.retain(|_, waiting| !waiting.is_empty());
    }
}

impl Functions {
    /// Decides whether a file that was installed may serve; queues the copy that serves in its place.
    pub(super) fn decide_file(
        &mut self,
        candidate: &SourceFiles,
        (installed, verdict): (&Installed, &Verdict),
        now_ms: u64,
    ) -> AfterInstall {
        let tried = self.tried(&candidate.function, verdict);
        // This is asked before the change, which may begin the first canary.
        let had_canary = self
            .releases
            .get(&candidate.function)
            .is_some_and(|known| known.canary().is_some());
        let version = (installed.version, installed.load_key);
        let source = self.sources.name(&candidate.function, &candidate.source);
        let next = self.releases.change(&candidate.function, |releases| {
            releases.file_installed(now_ms, version, (&source, tried))
        });
        match next {
            AfterInstall::Serve => {}
            // The release that serves may have to follow a new secret or interpreter, too.
            AfterInstall::Canary(_) if had_canary => {
                let serving = self.releases.get(&candidate.function).and_then(Releases::serving);
                if let Some(serving) = serving {
                    self.enqueue_release(&candidate.function, serving);
                }
            }
            AfterInstall::Canary(_) => {}
            // After a start nothing serves yet: the copy that served last comes first, so that the file gets a trial and not
            // the callers.
            AfterInstall::Hold(copy) | AfterInstall::First(copy) => self.enqueue_release(&candidate.function, copy),
        }
        next
    }

    fn tried(&self, function: &FunctionName, verdict: &Verdict) -> Tried {
        let Some(manifest) = &verdict.manifest else {
            return Tried::default();
        };
        let can_share = self
            .serving_manifest(function)
            .is_none_or(|serving| share_calls(serving, manifest));
        let is_loaded = matches!(manifest.mode, Mode::Handler | Mode::Http) && manifest.release.check;
        let percent = manifest.release.percent().filter(|_| can_share);
        Tried {
            before: verdict.checkable || is_loaded,
            canary: percent.map(|percent| canary_rules(manifest, percent)),
        }
    }

    fn serving_manifest(&self, function: &FunctionName) -> Option<&Manifest> {
        let serving = self.releases.get(function).and_then(Releases::serving);
        Some(&*self.registry.get(function)?.serving(serving)?.manifest)
    }

    /// Returns the change for a canary that was installed; ends it where calls cannot be shared.
    pub(super) fn canary(
        &mut self,
        name: &FunctionName,
        installed: &Installed,
        verdict: &Verdict,
        (percent, node): (u32, NodeFacts<'_>),
    ) -> Option<CatalogChange> {
        let canary = self.registry.version(installed, verdict)?;
        let can_share = self
            .serving_manifest(name)
            .is_some_and(|serving| share_calls(serving, &canary.manifest));
        if !can_share {
            let why = "the release that serves has another mode or needs one port, so that calls cannot be shared";
            // An error says that it is no canary any more, which is what is wanted.
            let _ = self
                .releases
                .change(name, |releases| releases.end_canary(node.now_ms, Some(why.to_owned())));
            self.releases.answer(name, &Err(why.to_owned()));
            return None;
        }
        let rules = canary_rules(&canary.manifest, percent);
        let version = canary.version;
        self.releases
            .change(name, |releases| releases.canary_judged(version, rules));
        let rules = self.registry.rules(&canary.manifest, node.host);
        let change = CatalogChange::Installed(Box::new(for_supervisor(name, &canary, rules)), Some(percent));
        self.registry.set_canary(name, Some(canary));
        Some(change)
    }

    /// Queues the copy that serves in place of a file that was refused.
    pub(super) fn decide_refused(&mut self, function: &FunctionName) {
        if let Some(copy) = self.releases.change(function, Releases::file_refused) {
            self.enqueue_release(function, copy);
        }
    }

    /// Queues the copy that serves in place of a file in which the syntax check has found an error.
    pub(super) fn decide_wrong(&mut self, function: &FunctionName, version: (Version, Version)) {
        if let Some(copy) = self
            .releases
            .change(function, |releases| releases.file_is_wrong(version))
        {
            self.enqueue_release(function, copy);
        }
    }

    /// Queues a copy. If the file is to be installed as well, nothing is queued: its answer asks for the copy again.
    pub(crate) fn enqueue_release(&mut self, function: &FunctionName, version: Version) {
        self.installer.requeue(SourceFiles::of_copy(function.clone(), version));
    }

    /// Handles the end of an installation from a copy: perhaps the file follows.
    pub(super) fn copy_done(&mut self, function: &FunctionName, asked: Version) {
        if self.releases.change(function, |releases| releases.copy_done(asked)) {
            self.enqueue_file(function);
        }
    }

    /// Queues a function's file.
    pub(crate) fn enqueue_file(&mut self, function: &FunctionName) {
        let known = self.registry.get(function);
        self.installer
            .enqueue(known.map(|known| known.candidate.clone()).into_iter().collect());
    }

    /// Handles a copy that cannot be installed.
    pub(super) fn copy_refused(&mut self, function: &FunctionName, asked: Version, why: &str) -> Option<CatalogChange> {
        let ended = self.releases.change(function, |releases| releases.copy_refused(asked));
        self.releases.answer(function, &Err(why.to_owned()));
        self.copy_done(function, asked);
        if ended {
            // Its file may have been judged under the hold that is over now.
            if self.releases.get(function).is_some_and(Releases::wants_file) {
                self.enqueue_file(function);
            }
            return None;
        }
        let name = fnd_core::lifecycle::release::short(asked);
        let error = format!("release {name}, which is to serve, cannot be installed: {why}");
        let error = self.registry.copy_refused(function, error)?;
        Some(self.change_refused(function.clone(), error, true))
    }
}

/// Returns how a release is tried with a share of the calls.
fn canary_rules(manifest: &Manifest, percent: u32) -> CanaryRules {
    let after = manifest.release.promote_after;
    CanaryRules {
        percent,
        promote_after_ms: after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
        max_failures: manifest.release.max_failures,
    }
}

/// Says whether calls can be shared between two releases: both take calls in the same mode, and none needs one port.
fn share_calls(old: &Manifest, new: &Manifest) -> bool {
    // Two releases cannot listen on one port at once.
    let has_port = |manifest: &Manifest| {
        let server = manifest.http_server.as_ref();
        server.is_some_and(|server| matches!(server.listen, Listen::Port(_)))
    };
    old.mode == new.mode && old.mode != Mode::Service && new.enabled && !has_port(old) && !has_port(new)
}

/// Returns the words of `status` for a function with a canary or a held release.
pub(crate) fn held_words(function: &FunctionName, releases: &Releases) -> Option<String> {
    if let Some(canary) = releases.canary() {
        return Some(canary_words(canary));
    }
    let hold = releases.hold()?;
    let name = fnd_core::lifecycle::release::short(hold.version);
    Some(match hold.kind {
        HoldKind::Rollback => format!("rolled back to release {name}, until its file changes"),
        HoldKind::Pin => match releases.waiting() {
            Some(waiting) => {
                let waiting = fnd_core::lifecycle::release::short(waiting);
                format!(
                    "pinned to release {name}, and release {waiting} waits: `fndctl unpin {function}` lets it serve"
                )
            }
            None => format!("pinned to release {name}, until `fndctl unpin {function}`"),
        },
    })
}
