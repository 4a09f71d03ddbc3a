//! Carries out people's requests about releases (going back, pinning, reading stored files), and the consequences of a
//! release that serves or cannot be loaded.

use super::Driver;
use super::canary::asked_canary;
use crate::functions::releases::{AwaitedRelease, Outcome};
use crate::ledger::LedgerCommand;
use crate::workers::PendingRequest;
use fnd_core::lifecycle::release::{HoldKind, NoRelease, NotHeld, ReleaseState, Releases};
use fnd_core::report::ReportEvent;
use fnd_wire::frame::{Install, Refused, Request, STORED, StoredFile};
use fnd_wire::ids::{FunctionName, Version};
use tokio::sync::oneshot;

/// A change of which release gets calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReleaseChange {
    /// Holds a release, by the beginning of its hash; without it, a rollback goes to the release before, and a pin holds the
    /// one that serves.
    Hold(HoldKind, Option<String>),
    EndHold,
    /// Gives the release that waits this share of the calls in percent, or changes the share of the canary.
    Canary(u32),
    /// Lets the canary serve.
    Promote,
    /// Takes the calls from the canary.
    StopCanary,
}

/// The files of a stored release, or why they cannot be read.
pub(crate) type StoredFiles = Result<Vec<StoredFile>, String>;

/// The result of a request to hold a release.
pub(crate) enum HoldResult {
    /// It is done: a release, and its state.
    Done(Option<Version>, ReleaseState),
    /// The release is being installed and perhaps tried; its state after that.
    Asked(Version, ReleaseState, oneshot::Receiver<Outcome>),
}

impl Driver {
    /// Holds a release. `name` is the beginning of its hash; without a name, a rollback goes to the release before, and a
    /// pin holds the one that serves.
    pub(crate) fn hold_release(
        &mut self,
        function: &FunctionName,
        kind: HoldKind,
        name: Option<&str>,
    ) -> Result<HoldResult, NotHeld> {
        let releases = self.releases_of(function)?;
        let version = held_version(releases, kind, name)?;
        let is_live = releases.is_live(version);
        let has_canary = releases.canary().is_some();
        if self.workers.welcome.is_of_0_1() {
            return Err(NotHeld::OldSpawner);
        }
        let is_tried = self.is_tried(function);
        let now_ms = self.clock.now().unix_ms;
        let functions = &mut self.functions;
        // Somebody who waits for another release is answered: this one is asked for in its place.
        let replaced = Err("another release was asked for meanwhile".to_owned());
        functions.releases.answer(function, &replaced);
        functions.releases.change(function, |releases| {
            releases.hold_release(now_ms, kind, (version, is_tried));
        });
        self.store_releases();
        if has_canary {
            self.follow_canary(function);
        }
        if is_live && !is_tried {
            return Ok(HoldResult::Done(Some(version), ReleaseState::Serving));
        }
        // If it serves, its installation ends the trial of the other version, which could replace it until then.
        let waiting = self.functions.releases.wait(function, AwaitedRelease::Held);
        self.functions.enqueue_release(function, version);
        self.settle();
        Ok(HoldResult::Asked(version, ReleaseState::Serving, waiting))
    }

    /// Returns whether a version of a function is on trial.
    fn is_tried(&self, function: &FunctionName) -> bool {
        let view = self.supervisor.function(function);
        view.is_some_and(|view| view.trial.is_some())
    }

    /// Returns what a change will make of the releases of a function, as JSON.
    pub(crate) fn planned_releases(&self, function: &FunctionName, change: &ReleaseChange) -> Result<String, NotHeld> {
        let mut releases = self.releases_of(function)?.clone();
        let begins = !matches!(
            change,
            ReleaseChange::EndHold | ReleaseChange::Promote | ReleaseChange::StopCanary
        );
        if begins && self.workers.welcome.is_of_0_1() {
            return Err(NotHeld::OldSpawner);
        }
        let now_ms = self.clock.now().unix_ms;
        let changed = match change {
            ReleaseChange::Hold(kind, name) => {
                let version = held_version(&releases, *kind, name.as_deref())?;
                releases.hold_release(now_ms, *kind, (version, self.is_tried(function)));
                Ok(version)
            }
            ReleaseChange::EndHold if releases.end_hold() => return Ok(json(&releases)),
            ReleaseChange::EndHold => return Err(NotHeld::NothingHeld),
            ReleaseChange::Canary(percent) => releases.try_canary(asked_canary(*percent)),
            ReleaseChange::Promote => releases.promote(),
            ReleaseChange::StopCanary => releases.end_canary(now_ms, None),
        };
        changed.map(|_| json(&releases)).map_err(NotHeld::NoRelease)
    }

    /// Ends the hold of a function; then its file is installed, unless it serves.
    pub(crate) fn end_hold(&mut self, function: &FunctionName) -> Result<(), NotHeld> {
        self.releases_of(function)?;
        if !self.functions.releases.change(function, Releases::end_hold) {
            return Err(NotHeld::NothingHeld);
        }
        self.store_releases();
        let releases = self.functions.releases.get(function);
        let serving = releases.and_then(Releases::serving);
        let view = self.supervisor.function(function);
        let is_tried = view.is_some_and(|view| view.trial.is_some_and(|trial| !trial.canary));
        if releases.is_some_and(Releases::wants_file) {
            self.functions.enqueue_file(function);
            self.settle();
        } else if let Some(serving) = serving.filter(|_| is_tried) {
            // Nothing holds the release on trial any more. Installing the release that serves ends the trial.
            self.functions.enqueue_release(function, serving);
            self.settle();
        }
        self.status_changed(function);
        Ok(())
    }

    /// Returns the releases of a function that exists.
    pub(crate) fn releases_of(&self, function: &FunctionName) -> Result<&Releases, NotHeld> {
        if self.supervisor.function(function).is_none() {
            return Err(NotHeld::NoFunction);
        }
        let none = NotHeld::NoRelease(NoRelease::None);
        self.functions.releases.get(function).ok_or(none)
    }

    /// Asks the spawner for the files of a stored release.
    pub(crate) fn read_release(
        &mut self,
        function: &FunctionName,
        name: &str,
    ) -> Result<(Version, oneshot::Receiver<StoredFiles>), NotHeld> {
        let version = self
            .releases_of(function)?
            .named(name)
            .map_err(NotHeld::NoRelease)?
            .version;
        if self.workers.welcome.is_of_0_1() {
            return Err(NotHeld::OldSpawner);
        }
        let (sender, receiver) = oneshot::channel();
        let request = Request::Files(Install {
            directory: STORED,
            function: function.clone(),
            source: version.hex(),
            sidecar: None,
            directory_form: false,
        });
        // Without a spawner the sender is dropped, which tells the receiver.
        if let Some(number) = self.workers.send(&request, Vec::new()) {
            self.workers.asked.insert(number, PendingRequest::Files(sender));
        }
        Ok((version, receiver))
    }

    /// Handles the spawner's answer to that, if `request` was one.
    pub(super) fn release_read(&mut self, request: u32, read: StoredFiles) -> bool {
        if !matches!(self.workers.asked.get(&request), Some(PendingRequest::Files(_))) {
            return false;
        }
        if let Some(PendingRequest::Files(sender)) = self.workers.asked.remove(&request) {
            let _ = sender.send(read); // an error: the caller has gone
        }
        true
    }

    /// Handles the refusal of such a request, if `request` was one.
    pub(super) fn release_unread(&mut self, request: u32, refused: &Refused) -> bool {
        let why = refused.problems.first().map(|problem| problem.message.clone());
        self.release_read(request, Err(why.unwrap_or_default()))
    }

    /// Follows that another version serves.
    pub(super) fn version_serves(&mut self, function: &FunctionName, version: Version) {
        self.functions.serves_another(function);
        self.functions.calls_of_serving(function, version);
        self.reporter.report(ReportEvent::VersionLoaded(function, version));
        let releases = &mut self.functions.releases;
        let canary = releases.get(function).and_then(Releases::canary);
        let is_promoted = canary.is_some_and(|canary| canary.version == version);
        releases.change(function, |releases| releases.serves(version));
        let held = releases.get(function).and_then(Releases::hold);
        if is_promoted || held.is_some_and(|hold| hold.version == version) {
            releases.answer(function, &Ok(version));
        }
        self.store_releases();
        self.wake_savers(); // its trial is over
        self.ask_for_installs();
        self.follow_serving(function);
    }

    /// Follows that a function is no longer there.
    pub(super) fn function_gone(&mut self, function: &FunctionName) {
        self.reporter.report(ReportEvent::FunctionRemoved(function));
        self.wake_savers();
        self.follow_serving(function);
    }

    /// Has schedules, watchers, quotas and the socket of a function follow the version that serves.
    fn follow_serving(&mut self, function: &FunctionName) {
        self.reschedule(function);
        self.rewatch(function);
        self.requota(function);
        self.listen_for(function);
    }

    /// Follows that a version on trial could not be loaded.
    pub(super) fn trial_failed(&mut self, function: &FunctionName, version: Version, why: &str) {
        self.wake_savers();
        let releases = &mut self.functions.releases;
        let Some(known) = releases.get(function).filter(|known| known.get(version).is_some()) else {
            return;
        };
        let is_asked = known
            .hold()
            .is_some_and(|hold| hold.version == version && !hold.established);
        let is_canary = known.canary().is_some_and(|canary| canary.version == version);
        let copy = releases.change(function, |releases| releases.failed(version, why));
        // A person may have asked again for a release that fails as before: this caller waits for an answer, too.
        if is_asked || is_canary {
            releases.answer(function, &Err(why.to_owned()));
        }
        // Its installation ends the trial.
        if let Some(copy) = copy {
            self.functions.enqueue_release(function, copy);
            self.ask_for_installs();
        }
        self.store_releases();
    }

    /// Stores the releases that have changed, and answers the callers whose release can no longer come.
    pub(super) fn store_releases(&mut self) {
        self.functions.releases.answer_unwanted();
        for (function, releases) in self.functions.releases.take_changed() {
            self.records.store(LedgerCommand::StoreReleases { function, releases });
        }
    }
}

/// Returns the release that a person holds. `name` is the beginning of its hash.
fn held_version(releases: &Releases, kind: HoldKind, name: Option<&str>) -> Result<Version, NotHeld> {
    let chosen = match (name, kind) {
        (Some(name), _) => releases.named(name),
        (None, HoldKind::Rollback) => releases.one_before(),
        (None, HoldKind::Pin) => releases.current(),
    };
    let version = chosen.map_err(NotHeld::NoRelease)?.version;
    // A newer release may be on trial, or be tried again and again.
    if releases.is_live(version) && kind == HoldKind::Rollback && !releases.wants_file() {
        return Err(NotHeld::Serves(fnd_core::lifecycle::release::short(version)));
    }
    Ok(version)
}

/// Returns releases as the ledger stores them: texts and numbers only, so that this cannot fail.
fn json(releases: &Releases) -> String {
    serde_json::to_string(releases).unwrap_or_default()
}
