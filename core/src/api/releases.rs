//! Bodies about releases.

use fnd_manifest::{text, words};
use fnd_wire::ids::{InvocationId, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    /// The state of a release.
    pub enum ReleaseState {
        /// It serves.
        Serving = "serving",
        /// One worker of it is started; it serves when the worker is ready.
        Trying = "trying",
        /// It gets a share of the calls while another one serves.
        Canary = "canary",
        /// It is the content of the file, and a hold keeps another release serving.
        Waiting = "waiting",
        /// Another release replaced it.
        Retired = "retired",
        /// It could not be loaded.
        Failed = "failed",
    }

    /// Why a release is held.
    pub enum HoldKind {
        /// Until the content of the file changes.
        Rollback = "rollback",
        /// Until `unpin`.
        Pin = "pin",
    }
}

/// The releases of a function.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseList {
    /// The releases that are stored, newest first.
    pub versions: Vec<ReleaseView>,
    /// The release that is held; null if the newest release that can be loaded serves.
    pub hold: Option<HoldView>,
    /// The release that gets a share of the calls; null if there is none.
    #[serde(default)]
    pub canary: Option<CanaryView>,
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

/// The release that gets a share of the calls while another one serves.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CanaryView {
    /// The release.
    #[serde(with = "text::id")]
    #[schemars(with = "String")]
    pub version: Version,
    /// Its share of the calls, 1 to 100.
    pub percent: u32,
    /// Since when it gets calls; null: it is being installed or loaded.
    #[schemars(extend("format" = "date-time"))]
    pub since: Option<String>,
    /// Its attempts that have ended since fnd started.
    pub attempts: u64,
    /// Its attempts that failed.
    pub failures: u64,
    /// With more failures it is rolled back.
    pub max_failures: u64,
    /// When it is promoted; null: when a person does it.
    #[schemars(extend("format" = "date-time"))]
    pub promote_at: Option<String>,
}

/// The result of a change of releases: a rollback, a pin, a canary, or the end of one.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReleaseChanged {
    /// The release that was asked for; after `unpin` the one that serves now, after the end of a canary the canary.
    #[serde(with = "text::id_or_null")]
    #[schemars(with = "Option<String>")]
    pub version: Option<Version>,
    /// Its state: `serving`, `canary`, `trying` if its first worker takes long, or `waiting` after the end of a canary.
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
