//! A release that gets a share of the calls before it serves: when it begins, is promoted, or is rolled back.

use super::decide::JudgedContent;
use super::{Hold, HoldKind, NoRelease, Releases, short};
use fnd_manifest::text;
use fnd_wire::ids::Version;
use serde::{Deserialize, Serialize};

/// How a release is to be tried with a share of the calls: keys of `[release]`, or what a person asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryRules {
    /// Its share of the calls, 1 to 100.
    pub percent: u32,
    /// How long it gets only its share, in milliseconds; absent: until a person promotes it.
    pub promote_after_ms: Option<u64>,
    /// With more failed attempts it is rolled back.
    pub max_failures: u64,
}

/// A release that gets a share of the calls while another one serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// The release that gets the share.
    #[serde(with = "text::id")]
    pub version: Version,
    /// How it is tried.
    pub rules: CanaryRules,
    /// Whether a person asked for its share: then its manifest does not change it.
    pub by_person: bool,
    /// When it began to get calls, Unix milliseconds; absent: it is being installed or loaded.
    pub since_ms: Option<u64>,
    /// Its attempts that have failed.
    pub failures: u64,
    /// Whether it is to serve now.
    pub promoted: bool,
    /// The hold that its promotion has ended, which is in force again if it cannot serve.
    #[serde(default)]
    pub hold: Option<Box<Hold>>,
}

impl Canary {
    fn new(version: Version, rules: CanaryRules) -> Self {
        Self {
            version,
            rules,
            by_person: false,
            since_ms: None,
            failures: 0,
            promoted: false,
            hold: None,
        }
    }

    /// Returns when it is promoted, Unix milliseconds.
    #[must_use]
    pub fn promote_at_ms(&self) -> Option<u64> {
        let after = self.rules.promote_after_ms.filter(|_| !self.promoted)?;
        Some(self.since_ms?.saturating_add(after))
    }
}

impl Releases {
    /// Returns the release that gets a share of the calls.
    #[must_use]
    pub fn canary(&self) -> Option<&Canary> {
        self.canary.as_deref()
    }

    /// Returns whether a release gets a share of the calls, or is to get one.
    #[must_use]
    pub fn is_canary(&self, version: Version) -> bool {
        self.canary().is_some_and(|canary| canary.version == version)
    }

    /// Returns the canary whose copy is to be installed, unless the supervisor has it: something serves beside it. It may be
    /// promoted: a restart, or the installation of another version, has ended its trial.
    #[must_use]
    pub fn wanted_canary(&self) -> Option<Version> {
        let canary = self.canary.as_ref().filter(|_| self.live)?;
        Some(canary.version)
    }

    /// Returns the release that is to serve, because it was promoted.
    pub(super) fn promoted(&self) -> Option<Version> {
        let canary = self.canary.as_ref().filter(|canary| canary.promoted)?;
        Some(canary.version)
    }

    /// Returns the release that is to serve in place of one whose copy cannot be installed: nothing serves, and a person has promoted
    /// it.
    #[must_use]
    pub fn promoted_instead_of(&self, refused: Version) -> Option<Version> {
        let is_away = !self.live && self.hold.is_none();
        self.promoted().filter(|promoted| is_away && *promoted != refused)
    }

    /// Handles new content of the file: a canary of other content is over.
    pub(super) fn canary_follows(&mut self, (version, content): (Version, Version)) {
        let same = |canary: &Canary| {
            self.get(canary.version)
                .is_some_and(|release| release.load_key == content)
        };
        let stays = self.canary.as_deref().is_some_and(same);
        if !stays && self.take_back_promotion() {
            // A pin holds on. Other content ends a rollback.
            self.hold.take_if(|hold| hold.kind == HoldKind::Rollback);
        }
        self.canary = self.canary.take().filter(|_| stays);
        // Without a pin the manifest of the file decides about the share again.
        if let Some(canary) = self.canary.as_mut().filter(|canary| canary.version != version) {
            (canary.version, canary.by_person) = (version, canary.by_person && self.hold.is_some());
        }
    }

    /// Decides whether the file, which no hold keeps back, becomes a canary; `rules` are those of its manifest. Only a new
    /// content does that has never served: an earlier release, a setting or a secret is wanted now.
    pub(super) fn file_is_canary(
        &mut self,
        (version, content): (Version, Version),
        rules: Option<CanaryRules>,
    ) -> bool {
        let serving = self.serving.filter(|_| self.live && self.promoted().is_none());
        let serving = serving.and_then(|serving| self.get(serving));
        let is_new = serving.is_some_and(|serving| serving.load_key != content)
            && self.get(version).is_none_or(|release| !release.served);
        let Some(rules) = rules.filter(|_| is_new) else {
            return false;
        };
        let canary = self.canary.get_or_insert_with(|| Box::new(Canary::new(version, rules)));
        if !canary.by_person {
            canary.rules = rules;
        }
        true
    }

    /// Gives the release that waits for the end of a pin a share of the calls, or changes the share of the canary. Returns
    /// the copy to install.
    ///
    /// # Errors
    /// [`NoRelease::NoneWaits`], [`NoRelease::HeldIsTried`].
    pub fn try_canary(&mut self, rules: CanaryRules) -> Result<Version, NoRelease> {
        if let Some(canary) = &mut self.canary {
            (canary.rules.percent, canary.by_person) = (rules.percent, true);
            return Ok(canary.version);
        }
        // A function tries one version at a time, so a canary would end the trial of the held release, and nothing would begin
        // that trial again.
        if let Some(hold) = self.hold().filter(|hold| !hold.established) {
            return Err(NoRelease::HeldIsTried(hold.version));
        }
        let waiting = self.waiting().filter(|_| self.live).ok_or(NoRelease::NoneWaits)?;
        if let Some(release) = self.get_mut(waiting) {
            release.error = None;
        }
        self.canary = Some(Box::new(Canary {
            by_person: true,
            ..Canary::new(waiting, rules)
        }));
        Ok(waiting)
    }

    /// Stores when a canary is promoted and when it is rolled back, as its manifest says; `rules` has the share that it gets.
    pub fn canary_judged(&mut self, version: Version, rules: CanaryRules) {
        if let Some(canary) = self.canary.as_mut().filter(|canary| canary.version == version) {
            canary.rules = rules;
        }
    }

    /// Handles a version that can never serve: it is no canary any more.
    pub fn is_no_canary(&mut self, version: Version) {
        self.canary.take_if(|canary| canary.version == version);
    }

    /// Handles a canary that begins to get calls.
    pub fn canary_begins(&mut self, version: Version, now_ms: u64) {
        if let Some(canary) = self.canary.as_mut().filter(|canary| canary.version == version) {
            // After a restart the canary begins once more, and its time goes on.
            canary.since_ms.get_or_insert(now_ms);
            if let Some(release) = self.get_mut(version) {
                release.error = None;
            }
        }
    }

    /// Counts a failed attempt of the canary. Returns why it is rolled back, if there were too many.
    pub fn canary_failed(&mut self) -> Option<String> {
        let canary = self.canary.as_mut().filter(|canary| !canary.promoted)?;
        canary.failures = canary.failures.saturating_add(1);
        let (failures, most) = (canary.failures, canary.rules.max_failures);
        let runs = if failures == 1 { "run" } else { "runs" };
        (failures > most).then(|| format!("as a canary, {failures} {runs} failed; `max_failures` is {most}"))
    }

    /// Lets the canary serve, and ends a hold. Returns the copy to install for that.
    ///
    /// # Errors
    /// [`NoRelease::NoCanary`].
    pub fn promote(&mut self, now_ms: u64) -> Result<Version, NoRelease> {
        let canary = self.canary.as_mut().ok_or(NoRelease::NoCanary)?;
        // A promotion that is due and fails would be due again at once, for ever.
        if canary.promote_at_ms().is_some_and(|at_ms| at_ms <= now_ms) {
            canary.rules.promote_after_ms = None;
        }
        canary.promoted = true;
        // A promotion that is asked for again has no hold to end.
        canary.hold = self.hold.take().or_else(|| canary.hold.take());
        Ok(canary.version)
    }

    /// Handles a version that cannot serve now. If it is being promoted, it is a canary as before. Returns whether it is.
    pub(super) fn promotion_failed(&mut self, version: Version) -> bool {
        self.is_canary(version) && self.take_back_promotion()
    }

    /// Ends a promotion before its release serves: the hold that the promotion has ended is in force again. Returns whether
    /// there was one.
    pub(super) fn take_back_promotion(&mut self) -> bool {
        let Some(canary) = self.canary.as_mut().filter(|canary| canary.promoted) else {
            return false;
        };
        canary.promoted = false;
        let hold = canary.hold.take();
        self.holds_again(hold);
        true
    }

    /// Takes the calls from the canary. Where no hold is in force it is rolled back: the release that serves goes on until
    /// the file changes. `fault` says why, unless a person asked for it. Returns the canary.
    ///
    /// # Errors
    /// [`NoRelease::NoCanary`].
    pub fn end_canary(&mut self, now_ms: u64, fault: Option<String>) -> Result<Version, NoRelease> {
        self.take_back_promotion();
        let canary = self.canary.take().ok_or(NoRelease::NoCanary)?;
        if let Some(release) = self.get_mut(canary.version) {
            release.error = fault.map(String::into_boxed_str);
        }
        // Without a hold the file would be installed and tried again.
        if let (None, JudgedContent::Good(file, content), Some(serving)) = (&self.hold, self.file, self.serving)
            && file == canary.version
        {
            self.hold = Some(Box::new(Hold {
                kind: HoldKind::Rollback,
                version: serving,
                file: Some(content),
                since_ms: now_ms,
                established: self.live,
                before: None,
                canary: None,
            }));
        }
        Ok(canary.version)
    }
}

/// Returns what `status` says of a canary.
#[must_use]
pub fn canary_words(canary: &Canary) -> String {
    let (name, percent) = (short(canary.version), canary.rules.percent);
    match canary.since_ms {
        None => format!("release {name} gets {percent} % of the calls as soon as it can be loaded"),
        Some(_) => format!("release {name} gets {percent} % of the calls as a canary"),
    }
}
