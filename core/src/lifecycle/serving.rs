//! Facts of the supervisor about versions: one serves, gets a share of the calls, has failed as a canary, or could not be loaded.

use super::order::{CallerNumber, Order};
use super::people::{ReleaseChange, ReleaseRequest};
use super::refused::path_of;
use super::release::Releases;
use super::{Lifecycle, Running};
use crate::report::FunctionNews;
use crate::run::Event;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::{FunctionName, Version};

/// The caller of a change that fnd makes by itself: nobody waits for the answer. The callers of people have numbers from 1 on.
const NOBODY: CallerNumber = 0;

impl Lifecycle {
    /// Handles a version that begins to serve.
    pub fn serves(&mut self, function: &FunctionName, version: Version, out: &mut Vec<Order>) {
        self.serves_another(function);
        self.set_hooks(function, Some(version), out);
        self.routes_of_serving(function, version);
        let releases = &mut self.releases;
        let is_promoted = releases.get(function).is_some_and(|known| known.is_canary(version));
        releases.change(function, |releases| releases.serves(version));
        let held = releases.get(function).and_then(Releases::hold);
        if is_promoted || held.is_some_and(|hold| hold.version == version) {
            releases.answer(function, &Ok(version), out);
        }
    }

    /// Returns the version of a function that is to serve, or to get a share of the calls, and could not be loaded, with its problem.
    /// `dirs` are the functions directories.
    #[must_use]
    pub fn not_loaded(&self, function: &FunctionName, dirs: &[String]) -> Option<(Version, Diagnostic)> {
        let (known, releases) = (self.registry.get(function)?, self.releases.get(function)?);
        let newest = known.newest.as_ref().map(|newest| newest.version);
        let canary = releases.canary().map(|canary| canary.version);
        let mut tried = newest.into_iter().chain(canary);
        tried.find_map(|version| {
            let release = releases.get(version).filter(|_| !releases.is_live(version))?;
            let mut lines = release.error.as_deref()?.lines();
            let problem = Diagnostic::error("load", lines.next().unwrap_or_default());
            let problem = problem.in_file(&path_of(&known.candidate, dirs));
            let problem = problem.with_help(format!("`fndctl logs {function}` shows what it printed meanwhile"));
            Some((version, lines.fold(problem, Diagnostic::with_note)))
        })
    }

    /// Handles a version on trial that could not be loaded.
    pub fn trial_failed(&mut self, function: &FunctionName, version: Version, why: &str, out: &mut Vec<Order>) {
        let releases = &mut self.releases;
        let Some(known) = releases.get(function).filter(|known| known.get(version).is_some()) else {
            return;
        };
        let is_asked = known.hold().is_some_and(|hold| hold.awaits(version));
        let is_canary = known.is_canary(version);
        let copy = releases.change(function, |releases| releases.failed(version, why));
        // A person may have asked again for a release that fails as before: this caller waits for an answer, too.
        if is_asked || is_canary {
            releases.answer(function, &Err(why.to_owned()), out);
        }
        // The installation of this copy ends the trial.
        self.enqueue_copy(function, copy);
    }

    /// Handles a version that gets a share of the calls.
    pub fn canary_serves(&mut self, function: &FunctionName, version: Version, now_ms: u64, out: &mut Vec<Order>) {
        let releases = &mut self.releases;
        let known = releases.get(function).and_then(Releases::canary);
        // A caller that waits for a promotion is answered when the release serves.
        let Some(known) = known.filter(|known| known.version == version && !known.promoted) else {
            return;
        };
        if known.since_ms.is_none() {
            releases.change(function, |releases| releases.canary_begins(version, now_ms));
            out.push(Order::News(function.clone(), FunctionNews::CanaryBegan(version)));
        }
        releases.answer(function, &Ok(version), out);
    }

    /// Handles a failed attempt of a canary. After too many of them the canary is rolled back.
    pub fn canary_failed(&mut self, function: &FunctionName, now_ms: u64, out: &mut Vec<Order>) {
        let ended = self.releases.change(function, |releases| {
            let why = releases.canary_failed()?;
            let version = releases.end_canary(now_ms, Some(why.clone())).ok()?;
            Some((version, why))
        });
        if let Some((version, why)) = ended {
            self.releases.answer(function, &Err(why.clone()), out);
            out.push(Order::FollowCanary(function.clone()));
            let news = FunctionNews::CanaryRolledBack(version, why);
            out.push(Order::News(function.clone(), news));
        }
    }

    /// Ends the canary that the supervisor has, if the lifecycle has another one or none.
    pub fn follow_canary(&mut self, function: &FunctionName, running: Running, out: &mut Vec<Order>) {
        let on_trial = running.trial.filter(|(_, is_canary)| *is_canary);
        let has = running.canary.or(on_trial.map(|(version, _)| version));
        let known = self.releases.get(function).and_then(Releases::canary);
        if has.is_some() && known.map(|canary| canary.version) != has {
            self.registry.set_canary(function, None);
            out.push(Order::Supervise(Event::CanaryOver(function.clone())));
        }
    }

    /// Has the canary of a function installed if the supervisor does not have it: the release beside the canary was just
    /// installed.
    pub fn enqueue_canary(&mut self, function: &FunctionName, running: Running) {
        let releases = self.releases.get(function);
        let Some(wanted) = releases.and_then(Releases::wanted_canary) else {
            return;
        };
        let on_trial = running.trial.map(|(version, _)| version);
        let has = running.canary == Some(wanted) || on_trial == Some(wanted);
        if !has && self.installer.checks.waiting(function).is_none() {
            self.enqueue_copy(function, Some(wanted));
        }
    }

    /// Promotes a canary whose time is over. No caller waits for that.
    pub fn promote_due(&mut self, function: &FunctionName, now_ms: u64, out: &mut Vec<Order>) {
        let promotion = ReleaseRequest {
            change: &ReleaseChange::Promote,
            running: Running::default(),
            now_ms,
            is_spawner_of_0_1: false,
        };
        let news = match self.change(function, promotion, NOBODY, out) {
            Ok(_) => FunctionNews::CanaryPromoted,
            Err(why) => FunctionNews::CanaryNotPromoted(why.to_string()),
        };
        out.push(Order::News(function.clone(), news));
    }
}
