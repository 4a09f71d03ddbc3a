//! The functions that wait for their builds, and the ends of these builds. [`Builds`] decides which tree is built next; this book
//! knows the files that are installed or refused after a build.

use super::SourceFiles;
use super::builds::{BuildFailure, BuildOrder, Builds, Lane, Waiter};
use crate::instant;
use crate::records::InvocationRecord;
use crate::records::outcome::{Reason, RunState};
use fnd_manifest::judge::Verdict;
use fnd_wire::form::Bytes;
use fnd_wire::frame::Installed;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::plan::is_builder;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How many of the last lines of a failed installation are shown with the function.
const LINES: usize = 5;

/// The functions that wait for a build of their dependencies or their code.
#[derive(Debug, Default)]
pub struct WaitingBuilds {
    /// The trees that are built, and the lanes in which they are.
    pub(super) lanes: Builds,
    waiting: BTreeMap<Waiter, WaitingBuild>,
    /// The last tree of a function's file that could not be built, and why.
    pub(super) failed: HashMap<FunctionName, (Version, String)>,
    /// The newest build of each function.
    last: HashMap<FunctionName, InvocationId>,
    /// The builds that made trees, since fnd started.
    made: HashMap<Version, InvocationId>,
    /// The versions of `fnd-build` that build the wanted trees.
    versions: HashMap<Version, Installed>,
}

/// A file, or the copy of a release, that waits for a build.
#[derive(Debug)]
pub struct WaitingBuild {
    /// The file or the copy.
    pub file: SourceFiles,
    /// The judge's document about it.
    pub document: Bytes,
    /// Since when it waits, Unix milliseconds.
    pub since_ms: u64,
    /// The work of the build.
    pub task: BuildTask,
    /// The tree that is built.
    pub tree: Version,
    /// Whether a person has asked for this build, although there may be a tree.
    pub is_clean: bool,
}

/// The work of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildTask {
    /// It fetches the code.
    Fetch,
    /// It installs the dependencies.
    Install,
    /// It compiles the code.
    Compile,
}

impl BuildTask {
    /// Returns the work of the build that a document of the judge asks for.
    #[must_use]
    pub fn of(document: &Bytes) -> Self {
        match serde_json::from_slice::<Verdict>(&document.0) {
            Ok(verdict) if verdict.to_fetch().is_some() => Self::Fetch,
            Ok(verdict) if verdict.compiled => Self::Compile,
            _ => Self::Install,
        }
    }
}

/// The end of an invocation of `fnd-build`.
#[derive(Debug)]
pub struct BuildEnd {
    /// The invocation of `fnd-build` that has ended.
    pub id: InvocationId,
    /// Success, or why it has failed.
    pub outcome: Result<(), BuildFailure>,
    /// Its last line of output.
    pub last: String,
}

impl BuildEnd {
    /// Returns the end of an invocation that was refused.
    #[must_use]
    pub fn not_started(id: InvocationId, why: &str) -> Self {
        Self {
            id,
            outcome: Err(BuildFailure::NotStarted(why.to_owned())),
            last: String::new(),
        }
    }

    /// Returns the end of an invocation, if it is one of `fnd-build`; `output` is the last lines that it printed.
    #[must_use]
    pub fn of(record: &InvocationRecord, output: &str) -> Option<Self> {
        if !is_builder(record.function.as_str()) || !record.state.is_final() {
            return None;
        }
        let lines: Vec<_> = output.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
        let reason = record.reason.map(|reason| reason.to_string()).unwrap_or_default();
        // The first line of this text is the reason, so the message must not have more lines than one.
        let why = format!("({reason}): {}\n{}", record.message.replace('\n', " "), last.join("\n"));
        Some(Self {
            id: record.id,
            outcome: if record.state == RunState::Succeeded {
                Ok(())
            } else {
                Err(failure(record.reason, why))
            },
            last: last.last().copied().unwrap_or_default().to_owned(),
        })
    }
}

/// Returns the failure of a build that ended for this reason.
fn failure(reason: Option<Reason>, why: String) -> BuildFailure {
    match reason {
        // Neither the files nor the build are the reason.
        Some(Reason::Spawn | Reason::Interrupted | Reason::Skipped(_)) => BuildFailure::Disturbed(why),
        _ => BuildFailure::Failed(why),
    }
}

impl WaitingBuilds {
    fn file_of(&self, function: &FunctionName) -> Option<&WaitingBuild> {
        let function = function.clone();
        self.waiting.get(&Waiter { function, copy: false })
    }

    /// Returns whether the code of a function is being fetched for its file.
    #[must_use]
    pub fn is_fetching(&self, function: &FunctionName) -> bool {
        self.file_of(function)
            .is_some_and(|waiting| waiting.task == BuildTask::Fetch)
    }

    /// Returns the tree that is built from scratch for the file of a function.
    #[must_use]
    pub fn clean_tree(&self, function: &FunctionName) -> Option<Version> {
        let waiting = self.file_of(function).filter(|waiting| waiting.is_clean)?;
        Some(waiting.tree)
    }

    /// Returns whether the file of a function waits for a build.
    #[must_use]
    pub fn is_waiting(&self, function: &FunctionName) -> bool {
        self.file_of(function).is_some()
    }

    /// Returns the build that goes on for the file of a function.
    #[must_use]
    pub fn build_of(&self, function: &FunctionName) -> Option<InvocationId> {
        self.lanes.invocation_of(self.file_of(function)?.tree)
    }

    /// Returns the words of `status` for a function whose file waits for a build.
    #[must_use]
    pub fn words(&self, function: &FunctionName) -> Option<String> {
        let waiting = self.file_of(function)?;
        let since = instant::text(waiting.since_ms);
        let has_begun = self.build_of(function).is_some();
        let step = match (waiting.task, has_begun) {
            (BuildTask::Install, true) => "dependencies are being installed",
            (BuildTask::Install, false) => "dependencies wait for another installation",
            (BuildTask::Fetch, true) => "code is being fetched",
            (BuildTask::Compile, true) => "code is being compiled",
            (BuildTask::Fetch | BuildTask::Compile, false) => "code waits for an installation",
        };
        Some(format!("its {step} since {since}: `fndctl logs {function} --build -f`"))
    }

    /// Returns the newest build of a function, since fnd started.
    #[must_use]
    pub fn last(&self, function: &FunctionName) -> Option<InvocationId> {
        self.last.get(function).copied()
    }

    /// Returns the build that made a tree, since fnd started.
    #[must_use]
    pub fn maker(&self, tree: Version) -> Option<InvocationId> {
        self.made.get(&tree).copied()
    }

    /// Returns why this tree could not be built for the file of a function, if it was the last one that could not.
    #[must_use]
    pub fn failure(&self, function: &FunctionName, tree: Version) -> Option<&str> {
        let (failed, why) = self.failed.get(function)?;
        (*failed == tree).then_some(why)
    }

    /// Registers that a file or a copy waits for its tree; replaces what waited for its function before. `build` is the version
    /// of `fnd-build` that builds the tree, and `lanes` says how many trees are built at once.
    pub fn needs(&mut self, waiting: WaitingBuild, build: Installed, lanes: u32) -> Vec<BuildOrder> {
        let (tree, first) = (waiting.tree, build.function.clone());
        self.versions.insert(tree, build);
        let waiter = Waiter {
            function: waiting.file.function.clone(),
            copy: waiting.file.copy().is_some(),
        };
        self.waiting.insert(waiter.clone(), waiting);
        self.lanes.allow(lanes);
        let orders = self.lanes.needs(waiter, tree, first);
        self.note();
        orders
    }

    /// Stores which invocation builds in a lane; `own` is false if an earlier fnd started it.
    pub fn started(&mut self, lane: &Lane, id: InvocationId, own: bool) {
        self.lanes.started(lane, id, own);
        if own {
            self.note();
        }
    }

    /// Returns the version that builds a tree.
    #[must_use]
    pub fn version(&self, tree: Version) -> Option<&Installed> {
        self.versions.get(&tree)
    }

    /// Handles the end of a build. Returns the functions whose code it has fetched for their files, and the orders.
    pub fn ended(&mut self, end: BuildEnd) -> (Vec<FunctionName>, Vec<BuildOrder>) {
        let mut fetched = Vec::new();
        // `Builds::ended` takes the run from its lane, so the functions and the tree of the run are found before it. The files of
        // a build that an earlier fnd has started are removed, so nothing is fetched or made by it.
        if end.outcome.is_ok()
            && let Some(tree) = self.lanes.built_by(end.id)
        {
            let is_fetched = |(waiter, waiting): &(&Waiter, &WaitingBuild)| {
                waiting.task == BuildTask::Fetch && !waiter.copy && waiting.tree == tree
            };
            let waiting = self.waiting.iter().filter(is_fetched);
            fetched.extend(waiting.map(|(waiter, _)| waiter.function.clone()));
            self.made.insert(tree, end.id);
        }
        (fetched, self.lanes.ended(end.id, end.outcome))
    }

    /// Forgets a file or copy that is gone, or was judged anew.
    pub fn forget(&mut self, waiter: &Waiter) {
        if self.waiting.remove(waiter).is_some() {
            self.lanes.forget(waiter);
        }
    }

    /// Forgets a function that is gone.
    pub fn remove(&mut self, function: &FunctionName) {
        self.last.remove(function);
        self.failed.remove(function);
        for copy in [false, true] {
            let function = function.clone();
            self.forget(&Waiter { function, copy });
        }
    }

    /// Returns the versions of `fnd-build` that are still needed, and forgets the others.
    pub fn needed(&mut self) -> Vec<Version> {
        let trees = self.lanes.trees();
        self.versions.retain(|tree, _| trees.contains(tree));
        trees
    }

    /// Stores for each waiting function the build that runs for it.
    fn note(&mut self) {
        for (waiter, waiting) in &self.waiting {
            if let Some(id) = self.lanes.invocation_of(waiting.tree) {
                self.last.insert(waiter.function.clone(), id);
            }
        }
    }

    /// Removes and returns the files and copies that wait no more.
    pub fn take(&mut self, waiters: &BTreeSet<Waiter>) -> Vec<WaitingBuild> {
        let waiting = waiters.iter().filter_map(|waiter| self.waiting.remove(waiter));
        waiting.collect()
    }

    /// Removes and returns the files and copies whose tree cannot be built.
    pub fn take_refused(&mut self, waiters: &BTreeSet<Waiter>, why: &BuildFailure) -> Vec<WaitingBuild> {
        let waiting = self.take(waiters);
        let has_failed = matches!(why, BuildFailure::Failed(_));
        // Fetching is tried again with each poll: the server may be back.
        let is_remembered =
            |one: &&WaitingBuild| has_failed && one.task != BuildTask::Fetch && one.file.copy().is_none();
        for one in waiting.iter().filter(is_remembered) {
            let failed = (one.tree, why.to_string());
            self.failed.insert(one.file.function.clone(), failed);
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::outcome::Skip;
    use fnd_wire::ids::FunctionId;

    const TREE: Version = Version([1; 32]);
    const ID: InvocationId = InvocationId(7);

    fn name(text: &str) -> FunctionName {
        FunctionName::new(text).unwrap()
    }

    fn file(function: &str) -> SourceFiles {
        SourceFiles {
            directory: 0,
            ..SourceFiles::of_copy(name(function), TREE)
        }
    }

    fn waiting(file: SourceFiles, task: BuildTask) -> WaitingBuild {
        WaitingBuild {
            file,
            document: Bytes(Vec::new()),
            since_ms: 0,
            task,
            tree: TREE,
            is_clean: false,
        }
    }

    fn build() -> Installed {
        Installed {
            function: name("fnd-build"),
            id: FunctionId(1),
            version: TREE,
            load_key: TREE,
            interpreter: String::new(),
            uid: 1,
            warnings: Vec::new(),
            document: Bytes(Vec::new()),
        }
    }

    /// Has a build begin for one file or copy, and returns its end.
    fn ended(
        builds: &mut WaitingBuilds,
        waiting: WaitingBuild,
        outcome: Result<(), BuildFailure>,
    ) -> (Vec<FunctionName>, String) {
        let orders = builds.needs(waiting, build(), 1);
        let [BuildOrder::Clear(lane)] = &orders[..] else {
            panic!("{orders:?}")
        };
        let lane = lane.clone();
        let orders = builds.lanes.sealed(&lane, Ok(()));
        assert_eq!(orders, [BuildOrder::Build(lane.clone(), TREE)]);
        builds.started(&lane, ID, true);
        let last = String::new();
        let (fetched, orders) = builds.ended(BuildEnd { id: ID, outcome, last });
        let orders = match &orders[..] {
            [BuildOrder::Seal(..)] => builds.lanes.sealed(&lane, Ok(())),
            _ => orders,
        };
        let words = orders.into_iter().map(|order| match order {
            BuildOrder::Install(waiters) => format!("install {}", builds.take(&waiters)[0].file.function),
            BuildOrder::Refuse(waiters, why) => {
                let waiting = builds.take_refused(&waiters, &why);
                format!("refuse {}: {why}", waiting[0].file.function)
            }
            other => format!("{other:?}"),
        });
        (fetched, words.collect())
    }

    #[test]
    fn what_waits_is_installed_or_refused_when_its_build_ends() {
        let mut builds = WaitingBuilds::default();
        let a = name("a");
        let done = ended(&mut builds, waiting(file("a"), BuildTask::Install), Ok(()));
        assert_eq!(done, (Vec::new(), "install a".to_owned()));
        assert_eq!((builds.last(&a), builds.maker(TREE)), (Some(ID), Some(ID)));
        assert!(!builds.is_waiting(&a) && builds.needed().is_empty() && builds.version(TREE).is_none());
        let why = Err(BuildFailure::Failed("(exit-1): no such package".to_owned()));
        let failed = ended(&mut builds, waiting(file("a"), BuildTask::Install), why);
        assert_eq!(failed.1, "refuse a: (exit-1): no such package");
        assert_eq!(builds.failure(&a, TREE), Some("(exit-1): no such package"));
    }

    #[test]
    fn a_build_that_could_not_be_started_is_not_remembered() {
        let mut builds = WaitingBuilds::default();
        let why = Err(BuildFailure::NotStarted("fnd drains".to_owned()));
        let refused = ended(&mut builds, waiting(file("a"), BuildTask::Install), why);
        assert_eq!(refused.1, "refuse a: (not started): fnd drains");
        assert_eq!(builds.failure(&name("a"), TREE), None);
    }

    #[test]
    fn only_the_end_of_a_build_that_has_run_says_something_about_its_files() {
        let of = |reason| failure(Some(reason), String::new());
        for reason in [Reason::Spawn, Reason::Interrupted, Reason::Skipped(Skip::Deleted)] {
            assert_eq!(of(reason), BuildFailure::Disturbed(String::new()), "{reason}");
        }
        for reason in [Reason::Exit(1), Reason::Failed, Reason::Timeout, Reason::Cancelled] {
            assert_eq!(of(reason), BuildFailure::Failed(String::new()), "{reason}");
        }
    }

    #[test]
    fn code_that_an_earlier_fnd_fetches_is_not_told() {
        let mut builds = WaitingBuilds::default();
        let orders = builds.needs(waiting(file("a"), BuildTask::Fetch), build(), 1);
        let [BuildOrder::Clear(lane)] = &orders[..] else {
            panic!("{orders:?}")
        };
        let lane = lane.clone();
        builds.lanes.sealed(&lane, Ok(()));
        builds.started(&lane, ID, false);
        let (outcome, last) = (Ok(()), String::new());
        let (fetched, orders) = builds.ended(BuildEnd { id: ID, outcome, last });
        assert!(fetched.is_empty() && matches!(&orders[..], [BuildOrder::Clear(_)]));
    }

    #[test]
    fn a_failure_is_remembered_for_the_files_of_people_and_not_for_copies_or_fetches() {
        let a = name("a");
        for (file, task, is_remembered) in [
            (file("a"), BuildTask::Compile, true),
            (file("a"), BuildTask::Fetch, false),
            (SourceFiles::of_copy(a.clone(), TREE), BuildTask::Install, false),
        ] {
            let mut builds = WaitingBuilds::default();
            let why = Err(BuildFailure::Failed("why".to_owned()));
            ended(&mut builds, waiting(file, task), why);
            assert_eq!(builds.failure(&a, TREE).is_some(), is_remembered, "{task:?}");
        }
    }

    #[test]
    fn functions_that_one_build_serves_are_in_the_order_of_their_names() {
        let mut builds = WaitingBuilds::default();
        let sorted = ["a", "b", "c", "d", "e", "f", "g", "h"];
        for function in sorted[1..].iter().rev() {
            builds.needs(waiting(file(function), BuildTask::Fetch), build(), 1);
        }
        // The first request has emptied the lane; the build has not begun.
        let lane = Lane {
            first: name("fnd-build"),
            number: 1,
        };
        assert!(
            builds
                .needs(waiting(file("a"), BuildTask::Fetch), build(), 1)
                .is_empty()
        );
        builds.lanes.sealed(&lane, Ok(()));
        builds.started(&lane, ID, true);
        let (outcome, last) = (Ok(()), String::new());
        let (fetched, _) = builds.ended(BuildEnd { id: ID, outcome, last });
        assert_eq!(fetched, sorted.map(name));
    }

    #[test]
    fn code_that_was_fetched_is_told_and_a_function_that_is_gone_is_forgotten() {
        let (mut builds, a) = (WaitingBuilds::default(), name("a"));
        let fetched = ended(&mut builds, waiting(file("a"), BuildTask::Fetch), Ok(()));
        assert_eq!(fetched.0, std::slice::from_ref(&a));
        builds.needs(waiting(file("a"), BuildTask::Fetch), build(), 1);
        assert!(builds.is_fetching(&a) && builds.words(&a).unwrap().starts_with("its code waits"));
        builds.remove(&a);
        assert_eq!((builds.is_waiting(&a), builds.last(&a)), (false, None));
    }
}
