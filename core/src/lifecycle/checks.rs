//! Keeps the files whose syntax is checked before they serve, and decides which of them are checked now: one run at a time, which
//! checks many files.
//!
//! ```text
//! needs ─▶ Due ─▶ Asked ─▶ Ready ─▶ Over ─┬─ passed, or not checked ─▶ the file may serve
//!                                         └─ wrong ──────────────────▶ the file is refused
//! ```
//! The code that installs a file says whether the file is to be checked ([`Checks::needs`]). It asks the spawner for the version
//! of `fnd-check` that checks the file ([`Checks::is_due`], [`Checks::ready`]), and starts a run when one can begin
//! ([`Checks::next_batch`]). One run checks all ready files that have the same version of `fnd-check`. No such version is for
//! files of two owners, so no run reads files of two owners. If a run ends without a result for a file, that file is checked
//! alone, because another file may be the reason. If a check cannot be made, the file serves, and the reason is kept.

use super::SourceFiles;
use crate::instant;
use fnd_wire::frame::Installed;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Most files that one run checks: they share its ten seconds, and an interpreter may need a tenth of a second for each.
const BATCH: usize = 32;
/// Most bytes of the files that one run checks: the run has all of them in its memory.
const BATCH_BYTES: usize = 4 << 20;
/// Bytes of ready files above which the spawner is asked for no further checks: these bytes lie in the memory of fnd.
const READY_BYTES: usize = 4 * BATCH_BYTES;

/// The files that are being checked, or were.
#[derive(Debug, Default)]
pub struct Checks {
    of: BTreeMap<FunctionName, Check>,
    /// The functions whose checks are ready, in the order in which they are run.
    ready: VecDeque<FunctionName>,
    running: Option<RunningCheck>,
    /// The versions of `fnd-check` that check the ready files.
    versions: HashMap<Version, Installed>,
}

/// The check of one version of a function.
#[derive(Debug)]
struct Check {
    /// The version of the function whose file is checked.
    version: Version,
    since_ms: u64,
    step: CheckStep,
    /// Whether a run with other files ended without a result for it.
    alone: bool,
}

#[derive(Debug)]
enum CheckStep {
    /// fnd has to ask the spawner for the check.
    Due,
    /// fnd has asked the spawner for the check.
    Asked,
    /// The check can run, or runs.
    Ready {
        /// The file, which is installed or refused after its check.
        file: SourceFiles,
        /// The part of a run's input that has this file.
        input: Vec<u8>,
        /// The version of fnd's own function that checks it.
        by: Version,
    },
    Over(CheckResult),
}

/// The run of checks that is about to start, or runs.
#[derive(Debug)]
struct RunningCheck {
    /// The functions, and the versions of them that it checks.
    files: Vec<(FunctionName, Version)>,
    /// Absent until it has started.
    id: Option<InvocationId>,
}

/// The result of a check.
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
    /// Registers that a version of a function needs a check; replaces the check of another version. Returns whether fnd has to
    /// ask the spawner for the check; false if the check is ready or over.
    pub fn needs(&mut self, function: &FunctionName, version: Version, now_ms: u64) -> bool {
        let known = self.of.get_mut(function).filter(|check| check.version == version);
        if let Some(check) = known {
            // The spawner that was asked may be gone, or its answer may have been about other files.
            let again = matches!(check.step, CheckStep::Due | CheckStep::Asked);
            if again {
                check.step = CheckStep::Due;
            }
            return again;
        }
        self.forget(function);
        let check = Check {
            version,
            since_ms: now_ms,
            step: CheckStep::Due,
            alone: false,
        };
        self.of.insert(function.clone(), check);
        true
    }

    /// Forgets a function that is gone, was refused, or has other files.
    pub fn forget(&mut self, function: &FunctionName) {
        if self.of.remove(function).is_some() {
            self.ready.retain(|ready| ready != function);
        }
    }

    /// Returns whether the request for the check of a function has to wait, because enough files are ready.
    #[must_use]
    pub fn is_held(&self, function: &FunctionName) -> bool {
        let check = self.of.get(function);
        let is_due = check.is_some_and(|check| matches!(check.step, CheckStep::Due));
        is_due && self.ready.iter().map(|ready| self.bytes(ready)).sum::<usize>() > READY_BYTES
    }

    /// Returns whether fnd has to ask the spawner for the check of a function now. After that the check counts as asked for.
    pub fn is_due(&mut self, function: &FunctionName) -> bool {
        match self.of.get_mut(function) {
            Some(check) if matches!(check.step, CheckStep::Due) => {
                check.step = CheckStep::Asked;
                true
            }
            _ => false,
        }
    }

    /// Handles the spawner's answer that a check is prepared: the version `by` of `fnd-check` checks the file. If the file has
    /// changed since, nothing waits for the answer any more.
    pub fn ready(&mut self, (file, input): (SourceFiles, Vec<u8>), by: Installed) {
        let check = self.of.get_mut(&file.function);
        if let Some(check) = check.filter(|check| matches!(check.step, CheckStep::Asked)) {
            self.ready.push_back(file.function.clone());
            let version = by.version;
            self.versions.insert(version, by);
            let by = version;
            check.step = CheckStep::Ready { file, input, by };
        }
    }

    fn bytes(&self, function: &FunctionName) -> usize {
        match self.of.get(function).map(|check| &check.step) {
            Some(CheckStep::Ready { input, .. }) => input.len(),
            _ => 0,
        }
    }

    /// Returns the run that is to be started now, if none runs: the version of fnd's own function that runs, and its input.
    /// [`started`](Self::started) and [`ended`](Self::ended) must follow.
    pub fn next_batch(&mut self) -> Option<(Installed, Vec<u8>)> {
        if self.running.is_some() {
            return None;
        }
        let mut batch: Option<(Version, bool)> = None;
        let (mut files, mut input) = (Vec::new(), Vec::new());
        self.ready.retain(|function| {
            let check = self.of.get(function).map(|check| (check, &check.step));
            let Some((check, CheckStep::Ready { input: part, by, .. })) = check else {
                return false; // an earlier run was about the same files
            };
            let fits = match batch {
                // The first file is taken whatever its size: otherwise a very large one would never be checked.
                None => true,
                Some((first, alone)) => {
                    let has_room = input.len() + part.len() <= BATCH_BYTES && files.len() < BATCH;
                    first == *by && !alone && !check.alone && has_room
                }
            };
            if fits {
                batch.get_or_insert((*by, check.alone));
                input.extend_from_slice(part);
                files.push((function.clone(), check.version));
            }
            !fits
        });
        let (check, _) = batch?;
        let by = self.versions.get(&check)?.clone();
        self.running = Some(RunningCheck { files, id: None });
        Some((by, input))
    }

    /// Stores which invocation checks.
    pub fn started(&mut self, id: InvocationId) {
        if let Some(running) = &mut self.running {
            running.id = Some(id);
        }
    }

    /// Handles the end of an invocation. `results` has the results that it names, `otherwise` is the result of a file that it
    /// does not name. Returns the files whose checks are over: none if this fnd did not start the invocation as a run of checks,
    /// or if the functions have other files by now.
    pub fn ended(
        &mut self,
        id: InvocationId,
        mut results: BTreeMap<FunctionName, CheckResult>,
        otherwise: &CheckResult,
    ) -> Vec<(SourceFiles, CheckResult)> {
        let Some(running) = self.running.take_if(|running| running.id == Some(id)) else {
            return Vec::new();
        };
        let was_alone = running.files.len() == 1;
        let mut over = Vec::new();
        for (function, version) in running.files {
            let Some(check) = self.of.get_mut(&function).filter(|check| check.version == version) else {
                continue;
            };
            // A file that was edited and put back meanwhile has another check, which is on its way.
            let CheckStep::Ready { file, .. } = &check.step else {
                continue;
            };
            let file = file.clone();
            let found = results.remove(&function);
            let Some(result) = found.or_else(|| was_alone.then(|| otherwise.clone())) else {
                // Another file may be why the run ended, so this file gets a run of its own.
                check.alone = true;
                if !self.ready.contains(&function) {
                    self.ready.push_back(function);
                }
                continue;
            };
            check.step = CheckStep::Over(result.clone());
            over.push((file, result));
        }
        over
    }

    /// Handles a check that cannot be prepared.
    pub fn cannot(&mut self, function: &FunctionName, why: &str) {
        if let Some(check) = self.of.get_mut(function) {
            check.step = CheckStep::Over(CheckResult::Unchecked(why.to_owned()));
        }
    }

    /// Returns the result for a version of a function; absent until its check is over.
    #[must_use]
    pub fn result(&self, function: &FunctionName, version: Version) -> Option<&CheckResult> {
        let check = self.of.get(function).filter(|check| check.version == version)?;
        match &check.step {
            CheckStep::Over(result) => Some(result),
            CheckStep::Due | CheckStep::Asked | CheckStep::Ready { .. } => None,
        }
    }

    /// Returns the words of `status` if the file of a function waits for its check, or if the version that serves was not
    /// checked.
    #[must_use]
    pub fn words(&self, function: &FunctionName, serving: Option<Version>) -> Option<String> {
        if let Some((_, since_ms)) = self.waiting(function) {
            let since = instant::text(since_ms);
            return Some(format!("the syntax of its code is being checked since {since}"));
        }
        match self.result(function, serving?)? {
            CheckResult::Unchecked(why) => Some(format!("the syntax of its code could not be checked {why}")),
            CheckResult::Passed | CheckResult::Wrong(_) => None,
        }
    }

    /// Returns the version of a function that waits for its check, and since when.
    #[must_use]
    pub fn waiting(&self, function: &FunctionName) -> Option<(Version, u64)> {
        let check = self.of.get(function)?;
        (!matches!(check.step, CheckStep::Over(_))).then_some((check.version, check.since_ms))
    }

    /// Returns whether no function waits for its check.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.of.values().all(|check| matches!(check.step, CheckStep::Over(_)))
    }

    /// Returns whether neither a run nor a ready file needs a version of `fnd-check`, and forgets these versions then.
    pub fn needs_none(&mut self) -> bool {
        let is_ready = |check: &Check| matches!(check.step, CheckStep::Ready { .. });
        let is_over = self.running.is_none() && !self.of.values().any(is_ready);
        if is_over {
            self.versions.clear();
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_wire::form::Bytes;
    use fnd_wire::ids::FunctionId;

    const V1: Version = Version([1; 32]);
    const V2: Version = Version([2; 32]);
    const C1: Version = Version([11; 32]);
    const C2: Version = Version([12; 32]);
    const ID: InvocationId = InvocationId(7);

    fn name(text: &str) -> FunctionName {
        FunctionName::new(text).unwrap()
    }

    /// Makes the version `V1` of functions ready to be checked by a version of fnd's own function.
    fn add(checks: &mut Checks, functions: &[&str], by: Version) {
        for function in functions.iter().map(|function| name(function)) {
            assert!(checks.needs(&function, V1, 5) && checks.is_due(&function));
            assert!(!checks.is_due(&function), "once");
            ready(checks, function.as_str(), by, 1);
        }
    }

    /// Handles the spawner's answer about a file, whose input has so many bytes.
    fn ready(checks: &mut Checks, function: &str, by: Version, bytes: usize) {
        let file = SourceFiles::of_copy(name(function), V1);
        let installed = Installed {
            function: name("fnd-check"),
            id: FunctionId(1),
            version: by,
            load_key: by,
            interpreter: String::new(),
            uid: 1,
            warnings: Vec::new(),
            document: Bytes(Vec::new()),
        };
        checks.ready((file, vec![b'x'; bytes]), installed);
    }

    /// Starts the next run of checks. Returns the version that runs it, and the names of the functions that it checks.
    fn start(checks: &mut Checks) -> Option<(Version, String)> {
        let (by, _) = checks.next_batch()?;
        checks.started(ID);
        let files = &checks.running.as_ref().unwrap().files;
        let names: Vec<_> = files.iter().map(|(function, _)| function.as_str()).collect();
        Some((by.version, names.join(" ")))
    }

    /// Ends a run that says of some functions that they passed, and of others nothing. Returns the functions that are over.
    fn end(checks: &mut Checks, passed: &[&str]) -> String {
        let results = passed
            .iter()
            .map(|function| (name(function), CheckResult::Passed))
            .collect();
        let over = checks.ended(ID, results, &CheckResult::Unchecked("timeout".to_owned()));
        let word = |(file, result): (SourceFiles, CheckResult)| match result {
            CheckResult::Passed => file.function.as_str().to_owned(),
            CheckResult::Wrong(why) | CheckResult::Unchecked(why) => format!("{}: {why}", file.function),
        };
        over.into_iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_check_that_is_over_is_not_made_again() {
        for result in [
            CheckResult::Passed,
            CheckResult::Wrong("a.sh: line 3".to_owned()),
            CheckResult::Unchecked("timeout".to_owned()),
        ] {
            let (mut checks, a) = (Checks::default(), name("a"));
            add(&mut checks, &["a"], C1);
            assert_eq!(start(&mut checks), Some((C1, "a".to_owned())));
            assert!(!checks.needs(&a, V1, 6), "it is under way");
            assert_eq!((checks.waiting(&a), checks.is_idle()), (Some((V1, 5)), false));
            let results = BTreeMap::from([(a.clone(), result.clone())]);
            let over = checks.ended(ID, results, &CheckResult::Passed);
            assert_eq!(over, [(SourceFiles::of_copy(a.clone(), V1), result.clone())]);
            assert_eq!((checks.result(&a, V1), checks.result(&a, V2)), (Some(&result), None));
            assert!(checks.is_idle() && checks.needs_none());
            assert!(!checks.needs(&a, V1, 7) && !checks.is_due(&a));
            checks.forget(&a);
            assert!(checks.needs(&a, V1, 7), "a person asks for it");
        }
    }

    #[test]
    fn an_answer_that_does_not_come_is_asked_for_again() {
        let (mut checks, a) = (Checks::default(), name("a"));
        assert!(checks.needs(&a, V1, 5) && checks.is_due(&a));
        assert!(checks.needs(&a, V1, 6) && checks.is_due(&a), "by a new spawner");
        checks.cannot(&a, "no interpreter");
        let why = CheckResult::Unchecked("no interpreter".to_owned());
        assert_eq!(checks.result(&a, V1), Some(&why));
    }

    #[test]
    fn one_run_checks_all_ready_files_of_one_owner_and_language() {
        let mut checks = Checks::default();
        add(&mut checks, &["a", "b"], C1);
        add(&mut checks, &["c"], C2);
        add(&mut checks, &["d"], C1);
        assert_eq!(start(&mut checks), Some((C1, "a b d".to_owned())));
        assert_eq!(start(&mut checks), None, "one at a time");
        assert_eq!(end(&mut checks, &["a", "b", "d"]), "a b d");
        assert_eq!(start(&mut checks), Some((C2, "c".to_owned())));
    }

    #[test]
    fn a_run_has_room_for_some_files_and_some_bytes() {
        let mut checks = Checks::default();
        let names: Vec<String> = (0..=BATCH).map(|number| format!("f{number:02}")).collect();
        add(&mut checks, &names.iter().map(String::as_str).collect::<Vec<_>>(), C1);
        assert_eq!(start(&mut checks).unwrap().1.split(' ').count(), BATCH);
        assert_eq!(end(&mut checks, &[]), "");
        let mut checks = Checks::default();
        for function in ["a", "b", "c"].map(name) {
            assert!(checks.needs(&function, V1, 5) && checks.is_due(&function));
            ready(&mut checks, function.as_str(), C1, BATCH_BYTES / 2);
        }
        assert_eq!(start(&mut checks), Some((C1, "a b".to_owned())));
        let next = name("next");
        checks.needs(&next, V1, 5);
        assert!(!checks.is_held(&next));
        for function in ["d", "e"].map(name) {
            assert!(checks.needs(&function, V1, 5) && checks.is_due(&function));
            ready(&mut checks, function.as_str(), C1, READY_BYTES / 2);
        }
        assert!(checks.is_held(&next) && !checks.is_held(&name("d")));
    }

    #[test]
    fn files_without_a_result_are_checked_alone() {
        let mut checks = Checks::default();
        add(&mut checks, &["a", "b", "c"], C1);
        let _ = start(&mut checks);
        assert_eq!(end(&mut checks, &["b"]), "b");
        add(&mut checks, &["d", "e"], C1);
        assert_eq!(start(&mut checks), Some((C1, "a".to_owned())));
        assert_eq!(end(&mut checks, &[]), "a: timeout");
        assert_eq!(start(&mut checks), Some((C1, "c".to_owned())));
        assert_eq!(end(&mut checks, &["c"]), "c");
        assert_eq!(start(&mut checks), Some((C1, "d e".to_owned())));
    }

    #[test]
    fn a_file_that_changes_meanwhile_gets_a_check_of_its_own() {
        let (mut checks, a, b) = (Checks::default(), name("a"), name("b"));
        add(&mut checks, &["a", "b"], C1);
        checks.needs(&b, V2, 6);
        assert_eq!(
            start(&mut checks),
            Some((C1, "a".to_owned())),
            "it was superseded before it began"
        );
        checks.needs(&a, V2, 6);
        assert!(checks.is_due(&a));
        ready(&mut checks, "a", C2, 1);
        assert!(!checks.needs_none());
        let none = checks.ended(InvocationId(9), BTreeMap::new(), &CheckResult::Passed);
        assert_eq!(none, [], "of an earlier fnd");
        assert_eq!(end(&mut checks, &["a"]), "", "of other files");
        assert_eq!((checks.result(&a, V1), checks.result(&a, V2)), (None, None));
        assert_eq!(start(&mut checks), Some((C2, "a".to_owned())));
        checks.forget(&a);
        assert_eq!(end(&mut checks, &["a"]), "", "it is gone");
        assert_eq!(start(&mut checks), None);
    }
}
