//! Carries out people's requests about releases (going back, pinning, reading stored files), and the consequences of a
//! release that serves or cannot be loaded.

use super::Driver;
use crate::workers::requests::StoredFiles;
use fnd_core::lifecycle::release::{NotHeld, ReleaseState, Releases};
use fnd_core::lifecycle::{AwaitedRelease, CallerNumber, ChangeResult, InstallResult, ReleaseChange, ReleaseRequest};
use fnd_core::report::ReportEvent;
use fnd_wire::ids::{FunctionName, Version};
use std::time::Duration;
use tokio::sync::oneshot;

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
        let new = self.callers.outcomes.expect();
        let outcomes = &self.callers.outcomes;
        self.lifecycle.forget_callers(|caller| outcomes.has_left(caller));
        new
    }

    /// Waits for the outcome of a file that was just uploaded.
    pub(crate) fn await_upload(&mut self, function: &FunctionName) -> oneshot::Receiver<InstallResult> {
        let (caller, receiver) = self.new_caller();
        let releases = &mut self.lifecycle.releases;
        releases.wait(function, AwaitedRelease::Uploaded, caller);
        receiver
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
            self.lifecycle.build_again(function, clean, caller).then_some(())?;
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
        let version = self
            .releases_of(function)?
            .named(name)
            .map_err(NotHeld::NoRelease)?
            .version;
        if self.workers.welcome.is_of_0_1() {
            return Err(NotHeld::OldSpawner);
        }
        Ok((version, self.workers.read_release(function, version)))
    }

    /// Does what follows when another version serves.
    pub(super) fn version_serves(&mut self, function: &FunctionName, version: Version) {
        self.report(ReportEvent::VersionLoaded(function, version));
        self.decide_lifecycle(|lifecycle, _, out| lifecycle.serves(function, version, out));
        self.wake_savers(); // its trial is over
        self.ask_for_installs();
        self.follow_serving(function);
    }

    /// Does what follows when a version of a function gets a share of the calls.
    pub(super) fn canary_serves(&mut self, function: &FunctionName, version: Version) {
        self.wake_savers();
        self.decide_lifecycle(|lifecycle, node, out| {
            lifecycle.canary_serves(function, version, node.now.unix_ms, out);
        });
    }

    /// Handles a failed attempt of a canary.
    pub(super) fn canary_failed(&mut self, function: &FunctionName) {
        self.decide_lifecycle(|lifecycle, node, out| lifecycle.canary_failed(function, node.now.unix_ms, out));
    }

    /// Does what follows when a version on trial could not be loaded.
    pub(super) fn trial_failed(&mut self, function: &FunctionName, version: Version, why: &str) {
        self.wake_savers();
        self.decide_lifecycle(|lifecycle, _, out| lifecycle.trial_failed(function, version, why, out));
        self.ask_for_installs();
    }

    /// Does what follows when a function no longer exists.
    pub(super) fn function_gone(&mut self, function: &FunctionName) {
        self.report(ReportEvent::FunctionRemoved(function));
        self.wake_savers();
        self.follow_serving(function);
    }

    /// Sets schedules, watchers, quotas and the socket of a function to the version that serves.
    fn follow_serving(&mut self, function: &FunctionName) {
        self.reschedule(function);
        self.rewatch(function);
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
        let due = self
            .lifecycle
            .releases
            .promotions_due(now_ms, |function| supervisor.version_and_error(function).is_some());
        for function in due {
            self.decide_lifecycle(|lifecycle, _, out| lifecycle.promote_due(&function, now_ms, out));
        }
    }
}
