//! Canaries: what people do with them, when they are promoted, and what the supervisor has to follow.

use super::Driver;
use super::releases::HoldResult;
use crate::functions::releases::AwaitedRelease;
use fnd_core::lifecycle::release::{CanaryRules, NotHeld, ReleaseState, Releases, short};
use fnd_core::supervisor::Event;
use fnd_wire::ids::{FunctionName, Version};
use std::time::Duration;

impl Driver {
    /// Gives the release that waits behind a pin `percent` of the calls, or changes the share of the canary.
    pub(crate) fn try_canary(&mut self, function: &FunctionName, percent: u32) -> Result<HoldResult, NotHeld> {
        self.releases_of(function)?;
        if self.workers.welcome.is_of_0_1() {
            return Err(NotHeld::OldSpawner);
        }
        let releases = &mut self.functions.releases;
        let version = releases.change(function, |releases| releases.try_canary(asked_canary(percent)));
        let version = version.map_err(NotHeld::NoRelease)?;
        let waiting = self.functions.releases.wait(function, AwaitedRelease::Canary);
        self.store_releases();
        self.functions.enqueue_release(function, version);
        self.settle();
        Ok(HoldResult::Asked(version, ReleaseState::Canary, waiting))
    }

    /// Lets the canary of a function serve.
    pub(crate) fn promote_canary(&mut self, function: &FunctionName) -> Result<HoldResult, NotHeld> {
        self.releases_of(function)?;
        let version = self.functions.releases.change(function, Releases::promote);
        let version = version.map_err(NotHeld::NoRelease)?;
        let waiting = self.functions.releases.wait(function, AwaitedRelease::Promoted);
        self.store_releases();
        // A promotion installs the stored copy like any other release, so that routes, schedules and sockets follow by the
        // one way. The supervisor finds the version among its canaries and keeps the workers.
        self.functions.enqueue_release(function, version);
        self.settle();
        Ok(HoldResult::Asked(version, ReleaseState::Serving, waiting))
    }

    /// Takes the calls from the canary of a function. Returns the canary.
    pub(crate) fn stop_canary(&mut self, function: &FunctionName) -> Result<Version, NotHeld> {
        self.releases_of(function)?;
        self.end_canary(function, None)
    }

    fn end_canary(&mut self, function: &FunctionName, fault: Option<String>) -> Result<Version, NotHeld> {
        let now_ms = self.clock.now().unix_ms;
        let releases = &mut self.functions.releases;
        let outcome = Err(fault.clone().unwrap_or_else(|| "its canary was stopped".to_owned()));
        let version = releases.change(function, |releases| releases.end_canary(now_ms, fault));
        let version = version.map_err(NotHeld::NoRelease)?;
        releases.answer(function, &outcome);
        self.store_releases();
        self.follow_canary(function);
        Ok(version)
    }

    /// Takes a canary from the supervisor that is none any more.
    pub(super) fn follow_canary(&mut self, function: &FunctionName) {
        let Some(view) = self.supervisor.function(function) else {
            return;
        };
        let trial = view.trial.filter(|trial| trial.canary).map(|trial| trial.version);
        let Some(has) = view.canary.map(|canary| canary.version).or(trial) else {
            return;
        };
        let canary = self.functions.releases.get(function).and_then(Releases::canary);
        if canary.is_none_or(|canary| canary.version != has) {
            self.functions.registry.set_canary(function, None);
            self.turn.follow_up.push_back(Event::CanaryOver(function.clone()));
            self.catch_up();
        }
    }

    /// Has the canary of a function installed that the supervisor does not have: the release beside it was just installed.
    pub(super) fn enqueue_canary(&mut self, function: &FunctionName) {
        let releases = self.functions.releases.get(function);
        let Some(wanted) = releases.and_then(Releases::wanted_canary) else {
            return;
        };
        let view = self.supervisor.function(function);
        let has = view.is_some_and(|view| {
            let trial = view.trial.is_some_and(|trial| trial.version == wanted);
            trial || view.canary.is_some_and(|canary| canary.version == wanted)
        });
        let is_checked = self.functions.installer.checks.waiting(function).is_none();
        if !has && is_checked {
            self.functions.enqueue_release(function, wanted);
            self.ask_for_installs();
        }
    }

    /// Follows that a version of a function gets a share of the calls.
    pub(super) fn canary_serves(&mut self, function: &FunctionName, version: Version) {
        self.wake_savers();
        let releases = &mut self.functions.releases;
        let known = releases.get(function).and_then(Releases::canary);
        // A caller that waits for a promotion is answered when the release serves.
        if known.is_none_or(|known| known.version != version || known.promoted) {
            return;
        }
        if known.is_some_and(|known| known.since_ms.is_none()) {
            let now_ms = self.clock.now().unix_ms;
            releases.change(function, |releases| releases.canary_begins(version, now_ms));
            tracing::info!("{function}: release {} gets a share of the calls", short(version));
            self.store_releases();
        }
        self.functions.releases.answer(function, &Ok(version));
    }

    /// Handles a failed attempt of a canary: with too many it is rolled back.
    pub(super) fn canary_failed(&mut self, function: &FunctionName) {
        let releases = &mut self.functions.releases;
        let over = releases.change(function, Releases::canary_failed);
        self.store_releases();
        let Some(why) = over else { return };
        if let Ok(version) = self.end_canary(function, Some(why.clone())) {
            tracing::warn!("{function}: release {} is rolled back: {why}", short(version));
        }
    }

    /// Returns when the next canary is promoted.
    pub(super) fn next_promotion(&self) -> Option<Duration> {
        let now = self.clock.now();
        // A promotion is due by the wall clock: its time is stored, and counts for the next fnd, too.
        let is_known = |function: &FunctionName| self.supervisor.version_and_error(function).is_some();
        let at_ms = self.functions.releases.next_promotion_ms(is_known)?;
        Some(now.mono + Duration::from_millis(at_ms.saturating_sub(now.unix_ms)))
    }

    /// Promotes the canaries whose time is over.
    pub(super) fn promote_due(&mut self) {
        let is_known = |function: &FunctionName| self.supervisor.version_and_error(function).is_some();
        for function in self
            .functions
            .releases
            .promotions_due(self.clock.now().unix_ms, is_known)
        {
            match self.promote_canary(&function) {
                Ok(_) => tracing::info!("{function}: its canary is promoted"),
                Err(why) => tracing::error!("{function}: its canary cannot be promoted: {why}"),
            }
        }
    }
}

/// Returns the rules of a canary that a person begins. Its own manifest says when it is promoted; that is read when its copy
/// is installed.
pub(super) fn asked_canary(percent: u32) -> CanaryRules {
    CanaryRules {
        percent,
        promote_after_ms: None,
        max_failures: 0,
    }
}
