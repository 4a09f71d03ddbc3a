//! Reports the changes of a function as actions: whether it is there, which version serves, why newer content does not. Each
//! function is compared with its last report, so that no code path to another version can be forgotten.
//!
//! The actions stand before each [`Action::Status`] of an event, in the order [`Action::Known`] (or [`Action::Gone`] alone),
//! [`Action::Serves`], [`Action::Refused`], [`Action::CanaryServes`], [`Action::TrialFailed`]. Only the last report changes here,
//! and since when the function is bad: each change of its error and of its crash loop has a status.

use super::function::{LastReported, SupervisedFunction};
use crate::interned::digest;
use crate::messages::FunctionState;
use crate::messages::action::Action;
use fnd_wire::ids::Version;
use std::num::NonZeroU64;

/// Returns a part of a version, which is a digest already: each call asks for it.
fn part(version: Version) -> u64 {
    let first = version.0.first_chunk::<8>();
    first.map_or(0, |first| u64::from_le_bytes(*first))
}

impl SupervisedFunction {
    /// Appends the changes since the last report.
    pub(crate) fn report_changes(&mut self, now_ms: u64, out: &mut Vec<Action>) {
        let is_bad = self.is_shown() && (self.error.is_some() || self.state() == FunctionState::CrashLooping);
        let since = self.bad_since_ms.or(NonZeroU64::new(now_ms));
        self.bad_since_ms = since.filter(|_| is_bad);
        let name = &self.name;
        if !self.is_shown() {
            if self.reported.take().is_some() {
                out.push(Action::Gone(name.clone()));
            }
            return;
        }
        let serving = self.serving().map(|serving| serving.version);
        let failed = self.candidate.as_ref().filter(|candidate| candidate.failures > 0);
        let failed = failed.and_then(|candidate| Some((candidate.serving.version, candidate.error.as_deref()?)));
        let now = LastReported {
            serving: serving.map_or(0, part),
            error: self.error.as_deref().map_or(0, digest),
            trial: failed.map_or(0, digest),
        };
        if self.reported.is_none() {
            out.push(Action::Known(name.clone()));
        }
        let before = self.reported.unwrap_or_default();
        if let Some(version) = serving.filter(|_| now.serving != before.serving) {
            out.push(Action::Serves(name.clone(), version));
        }
        if let Some(error) = self.error.as_deref().filter(|_| now.error != before.error) {
            out.push(Action::Refused(name.clone(), error.into()));
        }
        // Each time, since a person may ask once more for the canary that is there, and waits for this answer.
        if let Some(canary) = &self.canary {
            out.push(Action::CanaryServes(name.clone(), canary.serving.version));
        }
        if let Some((version, error)) = failed.filter(|_| now.trial != before.trial) {
            out.push(Action::TrialFailed {
                function: name.clone(),
                version,
                error: error.into(),
            });
        }
        self.reported = Some(now);
    }
}
