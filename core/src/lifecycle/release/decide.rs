//! The consequences of each event: which copy is installed, and whether the content of the file may serve.

use super::{CanaryRules, Hold, HoldKind, Release, Releases, short};
use fnd_manifest::text;
use fnd_wire::ids::{InvocationId, Version};
use serde::{Deserialize, Serialize};

/// The content of the function's file, as it was judged last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgedContent {
    /// It was never judged.
    #[default]
    Unknown,
    /// The judge or the spawner refused it, so no version of it is installed.
    Refused,
    /// The check of its syntax has found an error. It is installed as this version, and has this hash of its content.
    Wrong(#[serde(with = "text::id")] Version, #[serde(with = "text::id")] Version),
    /// It is installed as this version, and has this hash of its content.
    Good(#[serde(with = "text::id")] Version, #[serde(with = "text::id")] Version),
}

impl JudgedContent {
    pub(super) fn version(self) -> Option<Version> {
        match self {
            Self::Good(version, _) => Some(version),
            Self::Unknown | Self::Refused | Self::Wrong(..) => None,
        }
    }

    /// Returns its installed version, even if that can never serve, and its content.
    pub(super) fn installed(self) -> Option<(Version, Version)> {
        match self {
            Self::Good(version, content) | Self::Wrong(version, content) => Some((version, content)),
            Self::Unknown | Self::Refused => None,
        }
    }
}

/// The consequence of the installation of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterInstall {
    /// It may serve, and gets all calls.
    Serve,
    /// It gets its share of the calls: another release serves.
    Canary,
    /// It waits, and this copy is installed: a hold is in force, or the copy serves while the file is on trial. In that case the file
    /// is installed again after the copy.
    Waits(Version),
}

/// The consequence of the installation of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copied {
    /// It may serve, and gets all calls.
    Serves,
    /// It gets its share of the calls.
    Canary,
    /// Nobody wants it any more.
    Unwanted,
}

/// How the file is tried.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tried {
    /// Whether it is loaded or checked before it replaces another release.
    pub before: bool,
    /// Whether it gets a share of the calls first.
    pub canary: Option<CanaryRules>,
}

impl Releases {
    /// Handles a file that was installed; `tried` says how it is tried before it replaces another release.
    pub fn file_installed(
        &mut self,
        now_ms: u64,
        version: (Version, Version),
        (source, tried): (&str, Tried),
    ) -> AfterInstall {
        let (version, content) = version;
        // While the content is not known, because it is being built or was refused for a reason outside of it, only a change of the
        // file says that it is another one.
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.file.is_none() && !self.is_edited) {
            hold.file = Some(content);
        }
        let is_edit = |hold: &Hold| hold.kind == HoldKind::Rollback && hold.file != Some(content);
        // A rollback holds until the content of the file changes. A pin holds on.
        if self.hold().is_some_and(is_edit) {
            self.hold = None;
        }
        if self.file.version() != Some(version) {
            self.add(now_ms, (version, content), source);
            self.file = JudgedContent::Good(version, content);
        }
        self.canary_follows((version, content));
        let next = self.hold.as_ref().map_or(version, |hold| hold.version);
        let established = self.hold.as_ref().is_some_and(|hold| hold.established);
        let proven = self
            .get(next)
            .is_some_and(|release| release.served && release.error.is_none());
        // After a start nothing has served yet. The release that served last is installed first, so that the file gets
        // a trial and not the callers.
        if (tried.before || tried.canary.is_some())
            && !established
            && (!proven || self.hold.is_some())
            && let Some(before) = self.revive(next)
        {
            return AfterInstall::Waits(before);
        }
        if next != version {
            return AfterInstall::Waits(next);
        }
        // Under a hold only a person gives the file a share of the calls.
        let rules = tried.canary.filter(|_| self.hold.is_none());
        if self.file_is_canary((version, content), rules) {
            AfterInstall::Canary
        } else {
            AfterInstall::Serve
        }
    }

    fn add(&mut self, now_ms: u64, (version, load_key): (Version, Version), source: &str) {
        let known = self.list.iter().position(|release| release.version == version);
        let known = known.map(|index| self.list.remove(index));
        // One after the other, because most functions never have more than one.
        self.list.reserve_exact(1);
        self.list.push(Release {
            version,
            load_key,
            since_ms: now_ms,
            source: source.into(),
            served: known.as_ref().is_some_and(|known| known.served),
            why: None,
            error: None,
            build: known.and_then(|known| known.build),
        });
    }

    /// Notes the invocation that made what a release needs.
    pub fn built(&mut self, version: Version, build: InvocationId) {
        if let Some(release) = self.get_mut(version) {
            release.build = Some(Box::new(build));
        }
    }

    /// Returns the copy of the release that served last, if nothing has served since fnd started: it serves while `next` is
    /// on trial. It is tried once; if it cannot be installed, `next` serves untried.
    fn revive(&mut self, next: Version) -> Option<Version> {
        let before = self.to_revive().filter(|before| *before != next && !self.revived)?;
        (self.revived, self.first) = (true, Some(Box::new(before)));
        Some(before)
    }

    fn to_revive(&self) -> Option<Version> {
        self.serving
            .filter(|serving| !self.live && self.get(*serving).is_some())
    }

    /// Handles a file that was refused. Returns the copy to install.
    pub fn file_refused(&mut self) -> Option<Version> {
        self.file = JudgedContent::Refused;
        self.copy_in_place_of_file()
    }

    /// Handles a file in which the syntax check has found an error. Returns the copy to install.
    pub fn file_is_wrong(&mut self, (version, content): (Version, Version)) -> Option<Version> {
        self.file = JudgedContent::Wrong(version, content);
        self.first = None;
        self.copy_in_place_of_file()
    }

    fn copy_in_place_of_file(&mut self) -> Option<Version> {
        match self.hold() {
            Some(hold) if !hold.established => {
                let held = hold.version;
                // The held release has not served yet and may fail, so the release that served last comes before it.
                self.revive(held).or(Some(held))
            }
            Some(hold) => Some(hold.version),
            // The copy of a promotion is dropped if the file waits to be judged when it is asked for.
            None => self.to_revive().or_else(|| self.promoted()),
        }
    }

    /// Handles a copy that was installed; `version` differs from `asked` if its interpreter or a secret has changed.
    /// Returns what it is for: it is held, or nothing else serves, or it is the canary.
    pub fn copy_installed(&mut self, asked: Version, version: Version) -> Copied {
        if version != asked
            && self.get(version).is_none()
            && let Some(index) = self.list.iter().position(|release| release.version == asked)
            && let Some(release) = self.list.get(index)
        {
            let new = Release {
                version,
                served: false,
                why: None,
                error: None,
                ..release.clone()
            };
            // The list is ordered by when the file brought each content, so the version comes after the one with its
            // content.
            self.list.insert(index + 1, new);
        }
        let is_live = self.is_live(version);
        let canary = self.canary.as_mut().filter(|canary| canary.version == asked);
        if let Some(canary) = canary {
            canary.version = version;
            // While nothing serves, no calls can be shared. The canary is installed again beside the release that then
            // serves.
            if !canary.promoted && self.live {
                return Copied::Canary;
            }
        }
        let promoted = self.promoted() == Some(version);
        let serves = match &mut self.hold {
            Some(hold) if hold.version == asked => {
                hold.version = version;
                if is_live {
                    // It is not going to begin to serve.
                    hold.establish();
                }
                true
            }
            // Beside the held release, only a copy that is to serve during a trial is wanted.
            Some(_) => self.first.as_deref() == Some(&asked),
            None => promoted || self.serving == Some(asked),
        };
        if serves { Copied::Serves } else { Copied::Unwanted }
    }

    /// Returns whether this copy would serve if it was installed.
    #[must_use]
    pub fn wants_copy(&self, asked: Version) -> bool {
        match &self.hold {
            Some(hold) => hold.version == asked || self.first.as_deref() == Some(&asked),
            None => self.serving == Some(asked),
        }
    }

    /// Handles the end of what [`copy_installed`](Self::copy_installed) or [`copy_refused`](Self::copy_refused) led to.
    /// Returns whether the file is to be installed again, behind the copy.
    pub fn copy_done(&mut self, asked: Version) -> bool {
        if self.first.take_if(|first| **first == asked).is_some() {
            return self.hold.is_some() || self.wants_file();
        }
        // The installation of the release that serves ends the trial of the file. Answers may come in another order than the
        // requests, so the file may be wanted again by now. Beside a canary the file is not on trial by itself.
        self.canary.is_none() && self.is_live(asked) && self.wants_file()
    }

    /// Returns whether content of the file may not serve before its syntax is checked: another release serves now, and this
    /// content has not. Where nothing serves, there is nothing to protect, and the calls would find no function.
    #[must_use]
    pub fn is_checked_first(&self, content: Version) -> bool {
        let has_served = |release: &Release| release.served && release.load_key == content;
        self.live && !self.list.iter().any(has_served)
    }

    /// Returns whether the file is to be installed, because no hold is in force and something else serves.
    #[must_use]
    pub fn wants_file(&self) -> bool {
        let is_other = |file| !self.is_live(file);
        self.hold.is_none() && self.file.version().is_some_and(is_other)
    }

    /// Holds a release from now on. It is to be installed from its copy, unless it serves already. `is_tried` says whether another
    /// release is on trial, which may serve before the copy is installed.
    pub fn hold_release(&mut self, now_ms: u64, kind: HoldKind, (version, is_tried): (Version, bool)) {
        self.take_back_promotion();
        // A hold whose release has not served may fail its own trial, so it does not come back. The hold and the
        // canary that it replaced do.
        let (before, canary) = match self.hold.take() {
            Some(hold) if !hold.established => (hold.before, hold.canary),
            before => (before, None),
        };
        let mut hold = Hold {
            kind,
            version,
            file: self.file.installed().map(|(_, content)| content),
            since_ms: now_ms,
            established: false,
            before,
            canary: self.canary.take().or(canary),
        };
        // A release that serves has no trial that it could fail.
        if self.is_live(version) && !is_tried {
            hold.establish();
        }
        self.hold = Some(Box::new(hold));
        self.is_edited = false;
        if let Some(release) = self.get_mut(version) {
            release.error = None;
        }
    }

    /// Handles a file that has changed, before it is judged.
    pub fn file_changed(&mut self) {
        self.is_edited = true;
    }

    /// Ends the hold. Returns whether there was one.
    pub fn end_hold(&mut self) -> bool {
        self.hold.take().is_some()
    }

    /// Handles a version that began to serve.
    pub fn serves(&mut self, version: Version) {
        let before = self.serving.replace(version).filter(|before| *before != version);
        self.live = true;
        self.canary.take_if(|canary| canary.version == version);
        let why = before.map(|before| self.reason(before, version));
        for release in &mut self.list {
            if release.version == version {
                (release.served, release.why, release.error) = (true, None, None);
            } else if Some(release.version) == before {
                release.why = why.as_deref().map(Box::from);
            }
        }
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.version == version) {
            hold.establish();
        }
    }

    /// Returns why a release was replaced by another one.
    fn reason(&self, before: Version, version: Version) -> String {
        let name = short(version);
        let content = |version| self.get(version).map(|release| release.load_key);
        match &self.hold {
            _ if content(before) == content(version) => {
                format!("replaced by {name}: its interpreter, a secret, the settings or its packages changed")
            }
            Some(hold) if hold.version == version && hold.kind == HoldKind::Rollback => {
                format!("rolled back to {name}")
            }
            Some(hold) if hold.version == version => format!("{name} was pinned"),
            _ => format!("replaced by {name}"),
        }
    }

    /// Handles a version that could not be loaded. If a person has just asked for it, its hold or its promotion ends; then the
    /// copy that is returned is to be installed, which ends the trial.
    pub fn failed(&mut self, version: Version, why: &str) -> Option<Version> {
        if let Some(release) = self.get_mut(version) {
            release.error = Some(why.into());
        }
        if self.promotion_failed(version) {
            return self.serving;
        }
        if !self.gives_way(version) {
            return None;
        }
        // The file may have changed during the hold, or a canary may have come back. Then the file is installed after the copy.
        self.first = self.serving.filter(|_| self.wants_file()).map(Box::new);
        self.serving
    }

    /// Handles a copy that was refused. If a person has just asked for it, its hold ends. Returns whether it did. A canary
    /// that was to be promoted goes on as a canary.
    pub fn copy_refused(&mut self, asked: Version) -> bool {
        if self.promotion_failed(asked) {
            return false;
        }
        self.is_no_canary(asked);
        self.gives_way(asked)
    }

    /// Ends the hold of a release that has not served and cannot serve: what the hold replaced is in force again. Returns whether
    /// there was such a hold.
    fn gives_way(&mut self, version: Version) -> bool {
        let Some(hold) = self.hold.take_if(|hold| hold.awaits(version)) else {
            return false;
        };
        self.holds_again(hold.before);
        self.canary = hold.canary;
        // The file may have been edited during the hold, and a canary is the content of the file.
        if let JudgedContent::Good(version, content) = self.file {
            self.canary_follows((version, content));
        }
        true
    }

    /// Puts an earlier hold in force again. Its release serves, and may have become another version meanwhile: by a new secret or
    /// interpreter.
    pub(super) fn holds_again(&mut self, hold: Option<Box<Hold>>) {
        self.hold = hold;
        if let (Some(hold), Some(serving)) = (&mut self.hold, self.serving) {
            hold.version = serving;
        }
    }

    /// Forgets the releases that are no longer on the disk.
    pub fn keep_only(&mut self, installed: &[Version]) {
        self.list.retain(|release| installed.contains(&release.version));
    }
}
