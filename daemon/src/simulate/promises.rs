//! O7: at rest, the content serves that the file, the releases and the answers to people ask for together. The model does not
//! follow the requests and their order, because many things of a simulation happen at the same time.

use super::files::Files;
use super::people::{ActAnswer, AnsweredAct, PersonAct, name};
use super::shown::Shown;
use super::spawner::contents::SourceContent;
use crate::driver::Daemon;
use fnd_core::lifecycle::release::{HoldKind, ReleaseState};
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, BTreeSet};

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
    /// The functions with a change that may be stored although fnd refuses it: the next fnd finds it in the ledger.
    in_doubt: BTreeSet<FunctionName>,
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

    /// Notes a commit that is done although fnd is told that it has failed. It may have stored the change of each open act.
    pub(super) fn commit_is_unknown(&mut self) {
        self.in_doubt.extend(self.open.values().cloned());
    }

    /// Returns whether the next fnd may show another hold or canary of the function than this fnd does.
    pub(super) fn is_in_doubt(&self, function: &FunctionName) -> bool {
        self.in_doubt.contains(function)
    }

    /// Forgets the acts without an answer, because fnd has ended. Each of them was done, or not at all; the next fnd shows which.
    pub(super) fn cut(&mut self) {
        self.open.clear();
        self.in_doubt.clear();
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
                ReleasePromise::Serves(content) => {
                    let serving = shown.serving.map(SourceContent::of);
                    // A promotion holds nothing: a newer file that was refused serves as soon as it can be used.
                    serving == Some(content) || serving == file && file.is_some_and(SourceContent::is_good)
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::lifecycle::release::NotHeld;

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
    fn a_promoted_release_serves_until_a_newer_file_can_serve() {
        let [file, promoted, refused, not_loaded, other] = [0, 1, 2, 4, 8].map(SourceContent);
        let (function, mut files, mut promises) = (name(1), Files::default(), Promises::default());
        let promise = ReleasePromise::Serves(promoted);
        promises.promises.insert(function.clone(), promise);
        let mut is_kept = |saved: SourceContent, serving: SourceContent| {
            files.save(function.clone(), saved);
            let shown = Shown {
                serving: Some(serving.version(0)),
                ..Shown::default()
            };
            promises
                .check(&BTreeMap::from([(function.clone(), shown)]), &files)
                .is_ok()
        };
        // While the spawner cannot use the file, the promoted release goes on.
        assert!(is_kept(refused, promoted));
        assert!(!is_kept(refused, other));
        // A restart of the spawner lets it use the file.
        assert!(is_kept(file, file));
        assert!(!is_kept(file, other));
        // Code that cannot be loaded replaces nothing.
        assert!(is_kept(not_loaded, promoted));
        assert!(!is_kept(not_loaded, not_loaded));
    }

    #[test]
    fn a_change_that_is_stored_and_refused_is_in_doubt_until_fnd_ends() {
        let (mut promises, act) = (Promises::default(), PersonAct::Unpin(1));
        promises.begin(7, &act);
        assert!(!promises.is_in_doubt(&name(1)));
        promises.commit_is_unknown();
        let heard = ActAnswer::Release(Err(NotHeld::NotStored("the disk has failed".to_owned())));
        let told = AnsweredAct {
            number: 7,
            act,
            id: None,
            heard,
        };
        promises.told(&told, || true);
        assert!(promises.is_in_doubt(&name(1)) && !promises.is_in_doubt(&name(2)));
        promises.cut();
        assert!(!promises.is_in_doubt(&name(1)));
    }
}
