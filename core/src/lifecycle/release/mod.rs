//! The releases of a function: which of them serves, which one a person holds, and what is installed next.
//!
//! ```text
//!   file ──installed──▶ trying ──loaded──▶ serving ──replaced──▶ retired
//!             │            └──not loaded──▶ failed      ▲           │
//!             └──held──▶ waiting ──hold ends────────────┘◀─rollback─┘
//! ```
//!
//! A *hold* keeps a release serving whatever the file becomes: a rollback until the content of the file changes, a pin
//! until somebody ends it. While a hold is in force, the file is judged as always, and then the held release is installed
//! from its copy. So a held release follows new settings and secrets, and a restart needs no rule of its own.
//!
//! This module installs nothing, and it does not know whether a copy is still complete.
//!
//! A *canary* is a release that gets a share of the calls while another one serves. It is the content of the file: under a pin
//! because a person asks for it, else because its manifest does. It is promoted, which ends the pin, or it ends, and then
//! the file waits: under the pin, else under a rollback.
//!
//! Files:
//! - `canary`: a release that gets a share of the calls
//! - `decide`: what follows from each event
//! - `choose`: finds the release that a person names, and the state of each
//! - `shown`: the list of releases for callers of the API

mod canary;
mod choose;
mod decide;
mod shown;
#[cfg(test)]
mod tests;

pub use crate::api::{HoldKind, ReleaseState};
pub use canary::{Canary, CanaryRules, canary_words};
pub use choose::{NoRelease, NotHeld, short};
pub use decide::{AfterInstall, Copied, JudgedContent, Tried};

use fnd_manifest::text;
use fnd_wire::ids::{InvocationId, Version};
use serde::{Deserialize, Serialize};

/// A version that is on the disk, or could not be loaded. It is small, because each of ten thousand functions has one:
/// parts that most have not are boxed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The version's hash, which is the name of the release.
    #[serde(with = "text::id")]
    pub version: Version,
    /// The hash of its content.
    #[serde(with = "text::id")]
    pub load_key: Version,
    /// When the file brought it last, Unix milliseconds.
    pub since_ms: u64,
    /// The file or directory that brought it last.
    pub source: Box<str>,
    /// Whether it has served.
    pub served: bool,
    /// Why it does not serve any more.
    pub why: Option<Box<str>>,
    /// Why it could not be loaded.
    pub error: Option<Box<str>>,
    /// The invocation that made what it needs: fetched its code, installed its packages or compiled it.
    #[serde(default, with = "text::boxed_id_or_null")]
    pub build: Option<Box<InvocationId>>,
}

/// A release that a person holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Whether a pin or a rollback holds it.
    pub kind: HoldKind,
    /// The release that serves while the hold is in force.
    #[serde(with = "text::id")]
    pub version: Version,
    /// The content of the file at that time; absent if it was not known, for example because the file was refused.
    #[serde(with = "text::id_or_null")]
    pub file: Option<Version>,
    /// Since when, Unix milliseconds.
    pub since_ms: u64,
    /// Whether the release has served since. Until then it can fail its trial, which ends the hold.
    pub established: bool,
    /// The hold that this one replaces, which is in force again if the release fails its trial.
    pub before: Option<Box<Self>>,
    /// The canary that this hold ends, which is one again if the release fails its trial.
    #[serde(default)]
    pub canary: Option<Box<Canary>>,
}

impl Hold {
    /// Says whether it holds this release, which has not served since.
    #[must_use]
    pub fn awaits(&self, version: Version) -> bool {
        self.version == version && !self.established
    }

    /// Notes that its release has served: what it replaces does not come back.
    fn establish(&mut self) {
        (self.established, self.before, self.canary) = (true, None, None);
    }
}

/// The releases of a function. Its stored form has everything that must survive a restart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Releases {
    /// Oldest first, by when the file brought each of them last.
    list: Vec<Release>,
    /// The release that serves, or that served last.
    #[serde(with = "text::id_or_null")]
    serving: Option<Version>,
    hold: Option<Box<Hold>>,
    #[serde(default)]
    canary: Option<Box<Canary>>,
    file: JudgedContent,
    /// Whether `serving` has begun to serve since fnd started.
    #[serde(skip)]
    live: bool,
    /// Whether the release that served last was asked for since fnd started, to serve while another one is on trial.
    #[serde(skip)]
    revived: bool,
    /// That release, until it is installed or refused.
    #[serde(skip)]
    first: Option<Box<Version>>,
    /// Whether the file has changed since the hold began.
    #[serde(skip)]
    is_edited: bool,
}

impl Releases {
    /// Says whether the stored forms are the same: after a restart most functions serve what they served before.
    #[must_use]
    pub fn is_stored_like(&self, other: &Self) -> bool {
        let stored = |releases: &Self| (releases.serving, releases.file);
        stored(self) == stored(other)
            && self.list == other.list
            && self.hold == other.hold
            && self.canary == other.canary
    }

    /// Gives back memory that was set aside for more releases: most functions have one.
    pub fn shrink(&mut self) {
        self.list.shrink_to_fit();
    }

    /// Returns the releases, oldest first.
    #[must_use]
    pub fn list(&self) -> &[Release] {
        &self.list
    }

    /// Returns the hold that is in force.
    #[must_use]
    pub fn hold(&self) -> Option<&Hold> {
        self.hold.as_deref()
    }

    /// Returns the release that serves, or that served last.
    #[must_use]
    pub fn serving(&self) -> Option<Version> {
        self.serving
    }

    /// Returns the version of the file's content that waits for the end of a hold.
    #[must_use]
    pub fn waiting(&self) -> Option<Version> {
        let held = self.hold.as_ref()?.version;
        self.file.version().filter(|version| *version != held)
    }

    /// Returns the versions that must stay on the disk.
    #[must_use]
    pub fn needed(&self) -> Vec<Version> {
        // If the held release fails its trial, the one that was held before comes back, so that one stays, too. The same holds for
        // the canary.
        let held = self
            .hold
            .iter()
            .flat_map(|hold| [Some(&**hold), hold.before.as_deref()]);
        let held = held.flatten().map(|hold| hold.version);
        let canaries = [
            self.canary.as_deref(),
            self.hold.as_ref().and_then(|hold| hold.canary.as_deref()),
        ];
        held.chain(self.serving)
            .chain(self.file.installed().map(|(version, _)| version))
            .chain(canaries.into_iter().flatten().map(|canary| canary.version))
            .collect()
    }

    /// Returns the release with this version; absent: no release of the function has it.
    #[must_use]
    pub fn get(&self, version: Version) -> Option<&Release> {
        self.list.iter().find(|release| release.version == version)
    }

    fn get_mut(&mut self, version: Version) -> Option<&mut Release> {
        self.list.iter_mut().find(|release| release.version == version)
    }
}
