//! The list of releases for callers of the API.

use super::{Release, Releases};
use crate::api::{CanaryView, HoldView, ReleaseList, ReleaseView};
use crate::instant;
use fnd_wire::ids::Version;

impl Releases {
    /// Returns the list for callers; `trying` is the version that is on trial, `attempts` is how many attempts of the canary
    /// have ended.
    #[must_use]
    pub fn shown(&self, trying: Option<Version>, attempts: u64) -> ReleaseList {
        let view = |release: &Release| ReleaseView {
            version: release.version,
            state: self.state(release, trying),
            since: instant::text(release.since_ms),
            source: release.source.to_string(),
            why: release.why.as_deref().map(str::to_owned),
            error: release.error.as_deref().map(str::to_owned),
            build: release.build.as_deref().copied(),
        };
        ReleaseList {
            versions: self.list().iter().rev().map(view).collect(),
            hold: self.hold().map(|hold| HoldView {
                kind: hold.kind,
                version: hold.version,
                since: instant::text(hold.since_ms),
                waiting: self.waiting(),
            }),
            canary: self.canary().map(|canary| CanaryView {
                version: canary.version,
                percent: canary.rules.percent,
                since: canary.since_ms.map(instant::text),
                attempts,
                failures: canary.failures,
                max_failures: canary.rules.max_failures,
                promote_at: canary.promote_at_ms().map(instant::text),
            }),
        }
    }
}
