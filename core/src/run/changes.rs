//! Reports the changes of a function as actions: whether it is there, which version serves, why newer content does not. Each
//! function is compared with its last report, so that no code path to another version can be forgotten.
//!
//! The actions stand before each [`Action::Status`] of an event, in the order [`Action::Known`] (or [`Action::Gone`] alone),
//! [`Action::Serves`], [`Action::Refused`], [`Action::CanaryServes`], [`Action::TrialFailed`]. Only the last report changes here.

use super::Supervisor;
use super::function::SupervisedFunction;
use crate::interned::digest;
use crate::messages::action::Action;

/// The state of a function that was reported last, as digests: only a change matters, and ten thousand functions have it. The
/// digest of nothing is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastReported {
    serving: u64,
    error: u64,
    /// The version on trial, and why it could not be loaded.
    trial: u64,
}

impl LastReported {
    const NOTHING: Self = Self {
        serving: 0,
        error: 0,
        trial: 0,
    };
}

impl SupervisedFunction {
    /// Forgets the reported failure of its trial, so that the next failure is reported even if it is the same.
    pub(super) fn forget_trial(&mut self) {
        if let Some(before) = &mut self.reported {
            before.trial = 0;
        }
    }

    /// Appends the changes since the last report.
    fn report_changes(&mut self, out: &mut Vec<Action>) {
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
            serving: serving.map_or(0, digest),
            error: self.error.as_deref().map_or(0, digest),
            trial: failed.map_or(0, digest),
        };
        if self.reported.is_none() {
            out.push(Action::Known(name.clone()));
        }
        let before = self.reported.unwrap_or(LastReported::NOTHING);
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

impl Supervisor {
    /// Puts before each change of a status what has changed of the function; `from`: where the actions of this event begin.
    pub(super) fn report_changes(&mut self, from: usize, out: &mut Vec<Action>) {
        let mut at = from;
        while let Some(action) = out.get(at) {
            if let Action::Status(name) = action
                && let Some(key) = self.functions.find(name)
            {
                let mut changes = Vec::new();
                self.functions[key].report_changes(&mut changes);
                let count = changes.len();
                out.splice(at..at, changes);
                at += count;
            }
            at += 1;
        }
    }
}
