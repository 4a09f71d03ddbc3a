//! Which files have their syntax checked before they serve, and which one is checked now: one at a time.
//!
//! ```text
//! want ─▶ Due ─▶ Asked ─▶ Ready ─┬─ passed, or not checked ─▶ it may serve
//!                                └─ wrong ──────────────────▶ it is refused
//! ```
//! Whoever installs a file says whether it is to be checked ([`Checks::want`]), asks the spawner for the version of fnd's own
//! function that checks it ([`Checks::is_due`], [`Checks::ready`]), and runs that one when it is its turn ([`Checks::next_ready`]).
//! A check that cannot be made stops nothing: the file serves, and the reason is kept.

use fnd_wire::ids::{FunctionName, InvocationId, Version};
use std::collections::{BTreeMap, VecDeque};

/// The files that are being checked, or were.
#[derive(Debug, Default)]
pub struct Checks {
    of: BTreeMap<FunctionName, Check>,
    /// The functions whose checks are ready, in the order in which they are run.
    ready: VecDeque<FunctionName>,
    running: Option<Running>,
}

/// The check of a file.
#[derive(Debug)]
struct Check {
    /// The version that it is about.
    version: Version,
    since_ms: u64,
    step: Step,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The spawner is to be asked for it.
    Due,
    /// The spawner was asked.
    Asked,
    /// It is ready to run, or runs: this version of fnd's own function.
    Ready(Version),
    /// It is over.
    Over(CheckResult),
}

/// The check that runs now.
#[derive(Debug)]
struct Running {
    function: FunctionName,
    check: Version,
    /// Absent until it has started.
    id: Option<InvocationId>,
}

/// The end of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// The code is good.
    Passed,
    /// The code is wrong: what the interpreter printed.
    Wrong(String),
    /// Nothing is known, for this reason.
    Unchecked(String),
}

impl Checks {
    /// Has a version of a function checked, in place of another version of it. Returns whether the spawner is to be asked for
    /// that; false if the check is ready or over.
    pub fn want(&mut self, function: &FunctionName, version: Version, now_ms: u64) -> bool {
        let known = self.of.get_mut(function).filter(|check| check.version == version);
        if let Some(check) = known {
            // The spawner that was asked may be gone, or its answer may have been about other files.
            let again = matches!(check.step, Step::Due | Step::Asked);
            if again {
                check.step = Step::Due;
            }
            return again;
        }
        self.forget(function);
        let check = Check {
            version,
            since_ms: now_ms,
            step: Step::Due,
        };
        self.of.insert(function.clone(), check);
        true
    }

    /// Forgets a function that is gone, was refused, or has other files.
    pub fn forget(&mut self, function: &FunctionName) {
        self.of.remove(function);
        self.ready.retain(|ready| ready != function);
    }

    /// Returns whether the spawner is to be asked for the check of a function; once.
    pub fn is_due(&mut self, function: &FunctionName) -> bool {
        match self.of.get_mut(function) {
            Some(check) if check.step == Step::Due => {
                check.step = Step::Asked;
                true
            }
            _ => false,
        }
    }

    /// Returns whether the spawner was asked for the check of a function and has not answered.
    #[must_use]
    pub fn is_asked(&self, function: &FunctionName) -> bool {
        self.of.get(function).is_some_and(|check| check.step == Step::Asked)
    }

    /// Handles the spawner's answer: this version of fnd's own function checks it.
    pub fn ready(&mut self, function: &FunctionName, version: Version) {
        if let Some(check) = self.of.get_mut(function).filter(|check| check.step == Step::Asked) {
            check.step = Step::Ready(version);
            self.ready.push_back(function.clone());
        }
    }

    /// Returns the version of fnd's own function that is to be run now, if none runs. [`started`](Self::started) and
    /// [`ended`](Self::ended) must follow.
    pub fn next_ready(&mut self) -> Option<Version> {
        if self.running.is_some() {
            return None;
        }
        let function = self.ready.pop_front()?;
        let Some(Step::Ready(check)) = self.of.get(&function).map(|check| &check.step) else {
            return None; // it cannot be: such a function is ready
        };
        let check = *check;
        self.running = Some(Running {
            function,
            check,
            id: None,
        });
        Some(check)
    }

    /// Stores which invocation checks.
    pub fn started(&mut self, id: InvocationId) {
        if let Some(running) = &mut self.running {
            running.id = Some(id);
        }
    }

    /// Handles the end of an invocation. Returns the function that it was about, and the result; nothing if it is no check of
    /// this fnd, or if its function has other files by now.
    pub fn ended(&mut self, id: InvocationId, result: CheckResult) -> Option<(FunctionName, CheckResult)> {
        let running = self.running.take_if(|running| running.id == Some(id))?;
        let check = self.of.get_mut(&running.function)?;
        if check.step != Step::Ready(running.check) {
            return None;
        }
        check.step = Step::Over(result.clone());
        Some((running.function, result))
    }

    /// Handles a check that cannot be prepared.
    pub fn cannot(&mut self, function: &FunctionName, why: &str) {
        if let Some(check) = self.of.get_mut(function) {
            check.step = Step::Over(CheckResult::Unchecked(why.to_owned()));
        }
    }

    /// Returns the result for a version of a function; absent until its check is over.
    #[must_use]
    pub fn result(&self, function: &FunctionName, version: Version) -> Option<&CheckResult> {
        let check = self.of.get(function).filter(|check| check.version == version)?;
        match &check.step {
            Step::Over(result) => Some(result),
            Step::Due | Step::Asked | Step::Ready(_) => None,
        }
    }

    /// Returns the version of a function that waits for its check, and since when.
    #[must_use]
    pub fn waiting(&self, function: &FunctionName) -> Option<(Version, u64)> {
        let check = self.of.get(function)?;
        (!matches!(check.step, Step::Over(_))).then_some((check.version, check.since_ms))
    }

    /// Returns whether no function waits for its check.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.of.values().all(|check| matches!(check.step, Step::Over(_)))
    }

    /// Returns the versions of fnd's own function that are needed yet.
    #[must_use]
    pub fn needed(&self) -> Vec<Version> {
        let ready = self.of.values().filter_map(|check| match check.step {
            Step::Ready(version) => Some(version),
            Step::Due | Step::Asked | Step::Over(_) => None,
        });
        ready.chain(self.running.iter().map(|running| running.check)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: Version = Version([1; 32]);
    const V2: Version = Version([2; 32]);
    const C1: Version = Version([11; 32]);
    const C2: Version = Version([12; 32]);
    const ID: InvocationId = InvocationId(7);

    fn name(text: &str) -> FunctionName {
        FunctionName::new(text).unwrap()
    }

    /// Returns checks with one that runs, of version `V1` of `a`.
    fn running() -> (Checks, FunctionName) {
        let (mut checks, a) = (Checks::default(), name("a"));
        checks.want(&a, V1, 5);
        assert!(checks.is_due(&a) && checks.is_asked(&a) && !checks.is_due(&a), "once");
        checks.ready(&a, C1);
        assert_eq!(checks.next_ready(), Some(C1));
        checks.started(ID);
        (checks, a)
    }

    #[test]
    fn a_check_that_is_over_is_not_made_again() {
        for result in [
            CheckResult::Passed,
            CheckResult::Wrong("a.sh: line 3".to_owned()),
            CheckResult::Unchecked("timeout".to_owned()),
        ] {
            let (mut checks, a) = running();
            assert!(!checks.want(&a, V1, 6), "it is under way");
            assert_eq!((checks.waiting(&a), checks.is_idle()), (Some((V1, 5)), false));
            assert_eq!(checks.ended(ID, result.clone()), Some((a.clone(), result.clone())));
            assert_eq!((checks.result(&a, V1), checks.result(&a, V2)), (Some(&result), None));
            assert!(checks.is_idle() && checks.needed().is_empty());
            assert!(!checks.want(&a, V1, 7) && !checks.is_due(&a));
            checks.forget(&a);
            assert!(checks.want(&a, V1, 7), "a person asks for it");
        }
    }

    #[test]
    fn an_answer_that_does_not_come_is_asked_for_again() {
        let (mut checks, a) = (Checks::default(), name("a"));
        assert!(checks.want(&a, V1, 5) && checks.is_due(&a));
        assert!(checks.want(&a, V1, 6) && checks.is_due(&a), "by a new spawner");
        checks.cannot(&a, "no interpreter");
        let why = CheckResult::Unchecked("no interpreter".to_owned());
        assert_eq!(checks.result(&a, V1), Some(&why));
    }

    #[test]
    fn a_file_that_changes_meanwhile_gets_a_check_of_its_own_and_one_runs_at_a_time() {
        let (mut checks, a) = running();
        checks.want(&a, V2, 6);
        assert!(checks.is_due(&a));
        checks.ready(&a, C2);
        assert_eq!(checks.next_ready(), None, "one at a time");
        assert_eq!(checks.needed(), [C2, C1]);
        assert_eq!(
            checks.ended(InvocationId(9), CheckResult::Passed),
            None,
            "of an earlier fnd"
        );
        assert_eq!(checks.ended(ID, CheckResult::Passed), None, "of other files");
        assert_eq!((checks.result(&a, V1), checks.result(&a, V2)), (None, None));
        assert_eq!(checks.next_ready(), Some(C2));
        checks.started(InvocationId(8));
        checks.forget(&a);
        assert_eq!(checks.ended(InvocationId(8), CheckResult::Passed), None, "it is gone");
        assert_eq!(checks.next_ready(), None);
    }
}
