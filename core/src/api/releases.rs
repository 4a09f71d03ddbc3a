//! Bodies about releases.

use crate::instant;
use crate::release::{HoldKind, Release, ReleaseState, Releases};
use fnd_manifest::text;
use fnd_wire::ids::{InvocationId, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The releases of a function.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseList {
    /// The releases that are stored, newest first.
    pub versions: Vec<ReleaseView>,
    /// The release that is held; null if the newest release that can be loaded serves.
    pub hold: Option<HoldView>,
}

/// A release.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseView {
    /// The version.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub version: Version,
    /// State of the release.
    pub state: ReleaseState,
    /// When the file brought it last.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// The file, relative to its functions directory.
    pub source: String,
    /// Why it does not serve any more.
    pub why: Option<String>,
    /// Why it could not be loaded.
    pub error: Option<String>,
    /// The run of `fnd-build` that made what it needs: fetched its code, installed its packages or compiled it; null if it
    /// needs nothing.
    #[serde(default, with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub build: Option<InvocationId>,
}

/// The release that is held.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HoldView {
    /// Until when.
    pub kind: HoldKind,
    /// The release.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub version: Version,
    /// Since when.
    #[schemars(extend("format" = "date-time"))]
    pub since: String,
    /// The release of the file, which waits.
    #[serde(with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub waiting: Option<Version>,
}

impl ReleaseList {
    /// Returns the list for callers; `trying` is the version that is on trial.
    #[must_use]
    pub fn of(releases: &Releases, trying: Option<Version>) -> Self {
        let view = |release: &Release| ReleaseView {
            version: release.version,
            state: releases.state(release, trying),
            since: instant::text(release.since_ms),
            source: release.source.clone(),
            why: release.why.clone(),
            error: release.error.clone(),
            build: release.build,
        };
        Self {
            versions: releases.list().iter().rev().map(view).collect(),
            hold: releases.hold().map(|hold| HoldView {
                kind: hold.kind,
                version: hold.version,
                since: instant::text(hold.since_ms),
                waiting: releases.waiting(),
            }),
        }
    }
}

/// The result of a rollback, of pinning or of unpinning.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseChanged {
    /// The release that was asked for; after `unpin` the one that serves now.
    #[serde(with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// Its state: `serving`, or `trying` if its first worker takes long.
    pub state: ReleaseState,
}

/// The files of a release.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseFiles {
    /// The version.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub version: Version,
    /// The files by path; a manifest that lies beside the code is the last one.
    pub files: Vec<ReleaseFile>,
}

/// A file of a release.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseFile {
    /// Its path in the function; the path of a manifest that lies beside the code is absolute.
    pub path: String,
    /// Whether it is executable.
    pub executable: bool,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal digits.
    pub sha256: String,
    /// Its content; null if it is not text, or larger than a mebibyte.
    pub text: Option<String>,
}
