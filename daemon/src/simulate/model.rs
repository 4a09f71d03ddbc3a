//! O7: at rest, the content serves that the file, the releases and the answers to people ask for together. The model does not
//! follow the requests and their order, because many things of a simulation happen at the same time.

use super::files::Files;
use super::people::{ActAnswer, AnsweredAct, PersonAct, name};
use super::spawner::contents::{Fate, SourceContent};
use crate::driver::Daemon;
use fnd_core::lifecycle::release::{HoldKind, ReleaseState};
use fnd_wire::ids::{FunctionName, Version};
use std::collections::BTreeMap;

/// The releases of a function, as people see them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shown {
    serving: Option<Version>,
    canary: Option<Version>,
    hold: Option<(HoldKind, Version)>,
}

impl Shown {
    pub(super) fn of(daemon: &Daemon, function: &FunctionName) -> Self {
        let state = daemon.state.borrow();
        let serving = state.supervisor.version_and_error(function);
        let releases = state.lifecycle.releases.get(function);
        let hold = releases.and_then(|releases| releases.hold());
        Self {
            serving: serving.and_then(|(version, _)| version),
            canary: releases
                .and_then(|releases| releases.canary())
                .map(|canary| canary.version),
            hold: hold.map(|hold| (hold.kind, hold.version)),
        }
    }

    /// Returns whether fnd may show this some time after `before`, while no file changed and no person acted. A canary goes on
    /// in this time: it may have had its time, or too many failed runs.
    fn may_follow(self, before: Self) -> bool {
        let is_over = |canary| {
            self.canary.is_none()
                && match self.hold {
                    None => self.serving == Some(canary),
                    Some((kind, held)) => {
                        kind == HoldKind::Rollback && self.serving == before.serving && self.serving == Some(held)
                    }
                }
        };
        self == before || before.canary.is_some_and(is_over)
    }

    /// Returns whether fnd may show this at rest, while the file has this content.
    fn fits(self, file: Option<SourceContent>) -> bool {
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

/// The last answer to a person about the releases of a function. It holds until the next act that may change the function.
#[derive(Debug, Clone, Copy)]
enum ReleasePromise {
    Held(HoldKind, SourceContent),
    NotHeld,
    Serves(SourceContent),
}

/// The promise about each function that still holds.
#[derive(Debug, Default)]
pub(super) struct Promises {
    promises: BTreeMap<FunctionName, ReleasePromise>,
    /// The acts that have no answer yet, with their function.
    open: BTreeMap<usize, FunctionName>,
}

impl Promises {
    /// Ends the promise about the function that an act may change.
    pub(super) fn begin(&mut self, number: usize, act: &PersonAct) {
        let Some(function) = act.changes().map(name) else {
            return;
        };
        self.promises.remove(&function);
        if !matches!(act, PersonAct::Save(..) | PersonAct::Remove(_)) {
            self.open.insert(number, function);
        }
    }

    /// Takes the promise of an answer. `is_settled` says whether no file is being installed, built or checked: otherwise the
    /// result of that may end the promise.
    pub(super) fn told(&mut self, told: &AnsweredAct, is_settled: impl FnOnce() -> bool) {
        let Some(function) = self.open.remove(&told.number) else {
            return;
        };
        let is_alone = !self.open.values().any(|open| *open == function);
        if let Some(promise) = promise(told).filter(|_| is_alone && is_settled()) {
            self.promises.insert(function, promise);
        }
    }

    /// Forgets the acts without an answer, because fnd was killed. Each of them was done, or not at all.
    pub(super) fn cut(&mut self) {
        self.open.clear();
    }

    /// Compares the releases that fnd shows with the files and with the promises, once everything has ended.
    pub(super) fn check(&self, shown: &BTreeMap<FunctionName, Shown>, files: &Files) -> Result<(), String> {
        for (function, shown) in shown {
            let file = files.get(function);
            if !shown.fits(file) {
                return Err(format!(
                    "O7: `{function}` has {file:?} in its file, and shows {shown:?}"
                ));
            }
            let Some(promise) = self.promises.get(function) else {
                continue;
            };
            let hold = shown.hold.map(|(kind, version)| (kind, SourceContent::of(version)));
            let is_kept = match *promise {
                ReleasePromise::Held(kind, content) => hold == Some((kind, content)),
                // A canary that fails is rolled back.
                ReleasePromise::NotHeld => hold.is_none_or(|(kind, _)| kind == HoldKind::Rollback),
                ReleasePromise::Serves(content) => shown.serving.map(SourceContent::of) == Some(content),
            };
            if !is_kept {
                return Err(format!(
                    "O7: a person was told {promise:?} of `{function}`, which shows {shown:?}"
                ));
            }
        }
        Ok(())
    }
}

fn promise(told: &AnsweredAct) -> Option<ReleasePromise> {
    let ActAnswer::Release(Ok(changed)) = &told.heard else {
        return None;
    };
    let content = changed.version.map(SourceContent::of);
    match told.act {
        // The trial of the version takes long, and may fail later.
        _ if changed.state == ReleaseState::Trying => None,
        PersonAct::Rollback(..) => Some(ReleasePromise::Held(HoldKind::Rollback, content?)),
        PersonAct::Pin(..) => Some(ReleasePromise::Held(HoldKind::Pin, content?)),
        PersonAct::Unpin(_) => Some(ReleasePromise::NotHeld),
        PersonAct::Promote(_) => Some(ReleasePromise::Serves(content?)),
        _ => None,
    }
}

/// Returns whether no file is being installed, built or checked.
pub(super) fn is_settled(daemon: &Daemon, files: &Files) -> bool {
    let state = daemon.state.borrow();
    let (lifecycle, installer) = (&state.lifecycle, &state.lifecycle.installer);
    let is_built = files.names().any(|function| lifecycle.builds.is_waiting(function));
    files.is_at_rest() && installer.is_idle() && installer.checks.is_idle() && !is_built
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
    fn at_rest_the_file_serves_and_the_last_answer_holds() {
        let (function, content) = (name(1), SourceContent(0));
        let (mut files, mut promises) = (Files::default(), Promises::default());
        files.save(function.clone(), content);
        let check = |promises: &Promises, shown: Shown| {
            let verdict = promises.check(&BTreeMap::from([(function.clone(), shown)]), &files);
            verdict.map_or_else(
                |broken| broken.split(':').next().unwrap_or_default().to_owned(),
                |()| "fine".to_owned(),
            )
        };
        let serves = Shown {
            serving: Some(content.version(0)),
            ..Shown::default()
        };
        assert_eq!(check(&promises, serves), "fine");
        assert_eq!(check(&promises, Shown::default()), "O7");
        let promise = ReleasePromise::Held(HoldKind::Pin, content);
        promises.promises.insert(function.clone(), promise);
        assert_eq!(check(&promises, serves), "O7");
        let held = Shown {
            hold: Some((HoldKind::Pin, content.version(0))),
            ..serves
        };
        assert_eq!(check(&promises, held), "fine");
    }

    #[test]
    fn a_restart_changes_nothing_but_canaries_that_end() {
        let (first, second) = (SourceContent(0).version(0), SourceContent(1).version(0));
        let before = Shown {
            serving: Some(first),
            canary: Some(second),
            hold: None,
        };
        let serves = |version| Shown {
            serving: Some(version),
            ..Shown::default()
        };
        let held = |kind, version| Shown {
            hold: Some((kind, version)),
            ..serves(version)
        };
        for fine in [before, serves(second), held(HoldKind::Rollback, first)] {
            assert!(fine.may_follow(before), "{fine:?}");
        }
        for wrong in [
            serves(first),
            held(HoldKind::Pin, first),
            held(HoldKind::Rollback, second),
        ] {
            assert!(!wrong.may_follow(before), "{wrong:?}");
        }
        assert!(!serves(second).may_follow(serves(first)));
    }
}
