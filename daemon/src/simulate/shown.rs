//! The releases that fnd shows at rest: they fit the file, and a restart changes nothing.

use super::spawner::contents::{Fate, SourceContent};
use crate::driver::Daemon;
use fnd_core::lifecycle::release::HoldKind;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeMap;

/// The releases of a function, as people see them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) serving: Option<Version>,
    pub(super) canary: Option<Version>,
    pub(super) hold: Option<(HoldKind, Version)>,
    /// The newest release, if it has failed. A canary is the newest release as long as it gets calls.
    pub(super) failed: Option<Version>,
}

impl Shown {
    pub(super) fn of(daemon: &Daemon, function: &FunctionName) -> Self {
        let state = daemon.state.borrow();
        let serving = state.supervisor.version_and_error(function);
        let releases = state.lifecycle.releases.get(function);
        let hold = releases.and_then(|releases| releases.hold());
        let newest = releases.and_then(|releases| releases.list().last());
        Self {
            serving: serving.and_then(|(version, _)| version),
            canary: releases
                .and_then(|releases| releases.canary())
                .map(|canary| canary.version),
            hold: hold.map(|hold| (hold.kind, hold.version)),
            failed: newest.and_then(|newest| newest.error.is_some().then_some(newest.version)),
        }
    }

    /// Returns whether fnd may show this some time after `before`, while no file changed and no person acted. A canary goes on
    /// in this time: it may have had its time, or too many failed runs.
    fn may_follow(self, before: Self) -> bool {
        let is_over = |canary| {
            let is_promoted = self.hold.is_none() && self.serving == Some(canary);
            // The file of a canary that fails waits behind the hold that is in force, else behind a rollback; a file that is
            // refused needs none.
            let rollback = before.serving.map(|serving| (HoldKind::Rollback, serving));
            let waits = self.hold == before.hold || before.hold.is_none() && self.hold == rollback;
            let has_failed = self.failed == Some(canary) && self.serving == before.serving && waits;
            self.canary.is_none() && (is_promoted || has_failed)
        };
        // Only `failed` may differ: fnd may try a release that waits, or is on trial, again and get another result.
        let failed = before.failed;
        Self { failed, ..self } == before || before.canary.is_some_and(is_over)
    }

    /// Returns whether fnd may show this at rest, while the file has this content.
    pub(super) fn fits(self, file: Option<SourceContent>) -> bool {
        let serving = self.serving.map(SourceContent::of);
        match (self.hold, self.canary.map(SourceContent::of), file) {
            // A handler that cannot be loaded serves only while no other one does, so another release may serve beside the hold.
            (Some((_, held)), ..) if SourceContent::of(held).fate() == Fate::NotLoaded => true,
            (Some((_, held)), ..) => serving == Some(SourceContent::of(held)),
            (None, Some(canary), Some(file)) => canary == file || !file.is_good(),
            (None, Some(_), None) => false,
            (None, None, Some(file)) => !file.is_good() || serving == Some(file),
            (None, None, None) => serving.is_none(),
        }
    }
}

/// Returns the first function of which fnd shows something else after a restart, while nothing but the restart happened.
pub(super) fn changed_by_restart<'a>(
    before: &'a BTreeMap<FunctionName, Shown>,
    after: &BTreeMap<FunctionName, Shown>,
) -> Option<&'a FunctionName> {
    // Which release serves beside a held one that cannot be loaded depends on the order of earlier answers.
    let is_loaded = |shown: &Shown| {
        shown
            .hold
            .is_none_or(|(_, held)| SourceContent::of(held).fate() != Fate::NotLoaded)
    };
    let is_kept = |function, shown: &Shown| after.get(function).is_some_and(|after| after.may_follow(*shown));
    let changed = before
        .iter()
        .find(|(function, shown)| is_loaded(shown) && !is_kept(*function, shown));
    changed.map(|(function, _)| function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_changes_nothing_but_canaries_that_end() {
        let (first, second) = (SourceContent(0).version(0), SourceContent(1).version(0));
        let before = Shown {
            serving: Some(first),
            canary: Some(second),
            ..Shown::default()
        };
        let pinned = Shown {
            hold: Some((HoldKind::Pin, first)),
            ..before
        };
        let serves = |version| Shown {
            serving: Some(version),
            ..Shown::default()
        };
        let held = |kind, version| Shown {
            hold: Some((kind, version)),
            ..serves(version)
        };
        let failed = |shown: Shown| Shown {
            failed: Some(second),
            ..shown
        };
        for (fine, before) in [
            (before, before),
            (failed(before), before),
            (serves(second), before),
            (failed(held(HoldKind::Rollback, first)), before),
            (failed(serves(first)), before),
            (pinned, pinned),
            (serves(second), pinned),
            (failed(held(HoldKind::Pin, first)), pinned),
        ] {
            assert!(fine.may_follow(before), "{fine:?} after {before:?}");
        }
        for (wrong, before) in [
            (serves(first), before),
            (held(HoldKind::Rollback, first), before),
            (failed(held(HoldKind::Pin, first)), before),
            (failed(held(HoldKind::Rollback, second)), before),
            (held(HoldKind::Pin, first), pinned),
            (failed(held(HoldKind::Rollback, first)), pinned),
            (failed(serves(first)), pinned),
        ] {
            assert!(!wrong.may_follow(before), "{wrong:?} after {before:?}");
        }
        assert!(!serves(second).may_follow(serves(first)));
    }
}
