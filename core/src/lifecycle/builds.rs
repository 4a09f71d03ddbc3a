//! Decides which trees of dependencies are built now: at most one in each lane.
//!
//! ```text
//! wanted ─▶ Clear ─▶ Build ─┬─ succeeded ─▶ Seal ─┬─ there is a tree ──▶ Install
//!                           │                     └─ there is none ─┐
//!                           └─ failed ──────────────────────────────┴──▶ Refuse
//! ```
//! A lane is a place where builds leave their files: a home with a user of its own. The functions of root, those of each other
//! owner, and each uploaded function have lanes of their own, so the cache that builds keep is shared only among functions of one
//! trust. The home is emptied before each build, because an install script of another build could have left a tree in it. So a
//! tree is made only of a build that this fnd has started and seen succeed, and no build can reach the files of a build that runs
//! at the same time. If a build of an earlier fnd still runs, fnd waits for its end, and then removes its files. It does so
//! also if that end comes while the lane is being emptied: the spawner makes no tree in a home that was emptied while a process
//! could still write to it.
//!
//! This module remembers no failure: a tree is built again if a file changes, at a reload, or if a person asks.

use fnd_wire::frame::NOT_ALONE;
use fnd_wire::ids::{FunctionName, InvocationId, Version};
use fnd_wire::plan::BUILD;
use std::collections::{BTreeMap, BTreeSet};

/// The largest value of `[build] jobs`.
const LANES_MAX: usize = 64;

/// The file of a function that waits for a tree, or the copy of a release that is to serve in place of the file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter {
    /// The function whose file or copy waits.
    pub function: FunctionName,
    /// Whether a copy waits, and not the file.
    pub copy: bool,
}

/// A lane. Its name is that of the function of fnd's own that builds in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The function of the first lane for the same trust.
    pub first: FunctionName,
    /// The number of the lane among those for the same trust, from 1 on.
    pub number: u32,
}

impl Lane {
    /// Returns the lanes for functions of root.
    ///
    /// # Panics
    /// Never: `fnd-build` is a name.
    pub fn of_root() -> impl Iterator<Item = Self> {
        let first = FunctionName::new(BUILD).expect("a name");
        Self::of_trust(first).take(LANES_MAX)
    }

    /// Returns the lanes for the same trust; `first` is the function of the first one.
    fn of_trust(first: FunctionName) -> impl Iterator<Item = Self> {
        (1..).map(move |number| Self {
            first: first.clone(),
            number,
        })
    }

    /// Returns the function that builds in this lane.
    ///
    /// # Panics
    /// Never: a number makes a name of a name.
    #[must_use]
    pub fn builder(&self) -> FunctionName {
        match self.number {
            1 => self.first.clone(),
            number => FunctionName::new(&format!("{}-{number}", self.first)).expect("a name"),
        }
    }
}

/// Why a tree is not there although it was wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildFailure {
    /// Its build could not be started, for a reason outside of the files: fnd drains, for example. No event tells when that is
    /// over.
    #[error("(not started): {0}")]
    NotStarted(String),
    /// Its build was accepted, and something besides the files kept a tree from being made: a process could not be started, or
    /// another one may have left files in the home. No event tells when that is over.
    #[error("{0}")]
    Disturbed(String),
    /// Its build has failed, or the files that the build has left make no tree. The first line is the reason, and the last lines
    /// of output follow.
    #[error("{0}")]
    Failed(String),
}

impl BuildFailure {
    /// Returns the failure of a build of whose files the spawner has made no tree.
    fn of_seal(why: String) -> Self {
        if why == NOT_ALONE {
            Self::Disturbed(why)
        } else {
            Self::Failed(why)
        }
    }
}

/// An order that the caller of this module carries out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildOrder {
    /// Remove what builds have left in a lane; [`Builds::sealed`] must follow. If a build of an earlier fnd runs there now,
    /// [`Builds::is_shared`] comes before it.
    Clear(Lane),
    /// Make a tree of the files that its build has left in the lane; [`Builds::sealed`] must follow.
    Seal(Lane, Version),
    /// Build; [`Builds::started`] must follow, then [`Builds::ended`]; or [`Builds::clear_again`] or [`Builds::not_started`].
    Build(Lane, Version),
    /// The tree exists: install these files and copies.
    Install(BTreeSet<Waiter>),
    /// The tree cannot be built, for this reason: refuse these files and copies. The version that serves goes on.
    Refuse(BTreeSet<Waiter>, BuildFailure),
}

/// The step of the tree that is built now.
#[derive(Debug, Clone, PartialEq, Eq)]
enum BuildStep {
    /// The remains of builds are removed from the lane.
    Clearing,
    /// A tree is made of a build that has just succeeded.
    Sealing,
    /// The build is about to start.
    Starting,
    /// This invocation builds; `own` is false if an earlier fnd has started it.
    Building { id: InvocationId, own: bool },
}

/// The work of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Current {
    /// The tree that is built; absent: the lane is only emptied.
    tree: Option<Version>,
    step: BuildStep,
    /// Whether a build of an earlier fnd ran in the lane when it was emptied last.
    is_shared: bool,
    /// Whether the tree is built again if this build fails.
    is_repeated: bool,
}

impl Current {
    fn clearing(tree: Option<Version>) -> Self {
        Self {
            tree,
            step: BuildStep::Clearing,
            is_shared: false,
            is_repeated: false,
        }
    }
}

/// The trees that are wanted.
#[derive(Debug, Default)]
pub struct Builds {
    wanted: BTreeMap<Version, BTreeSet<Waiter>>,
    /// The wanted trees that no lane builds yet, in the order in which they are built, each with the first lane of its trust.
    waiting: Vec<(Version, FunctionName)>,
    lanes: BTreeMap<Lane, Current>,
    /// How many lanes may be used at once; one may in any case.
    most: usize,
}

impl Builds {
    /// Sets how many trees are built at once. If it is less than before, the builds that run go on.
    pub fn allow(&mut self, most: u32) {
        self.most = usize::try_from(most).unwrap_or(usize::MAX);
    }

    /// Registers that `waiter` needs `tree`; replaces its earlier request. `first` is the function of the first lane in which
    /// this tree may be built.
    pub fn needs(&mut self, waiter: Waiter, tree: Version, first: FunctionName) -> Vec<BuildOrder> {
        self.forget(&waiter);
        self.wanted.entry(tree).or_default().insert(waiter);
        // Functions with equal lists share a tree, which is built once.
        if !self.waiting.iter().any(|(waiting, _)| *waiting == tree) && !self.is_current(tree) {
            self.waiting.push((tree, first));
        }
        self.next()
    }

    /// Removes a waiter whose file is gone or has changed. A build that has begun goes on.
    pub fn forget(&mut self, waiter: &Waiter) {
        self.wanted.retain(|_, waiters| {
            waiters.remove(waiter);
            !waiters.is_empty()
        });
        self.waiting.retain(|(tree, _)| self.wanted.contains_key(tree));
    }

    /// Empties a lane in which nothing was built yet: an earlier fnd may have left something there. `live` is the build of an
    /// earlier fnd that still runs there.
    pub fn sweep(&mut self, lane: Lane, live: Option<InvocationId>) -> Option<BuildOrder> {
        if self.lanes.contains_key(&lane) {
            return None; // it was emptied before this build
        }
        let mut current = Current::clearing(None);
        if let Some(id) = live {
            current.step = BuildStep::Building { id, own: false };
        }
        self.lanes.insert(lane.clone(), current);
        live.is_none().then_some(BuildOrder::Clear(lane))
    }

    fn is_current(&self, tree: Version) -> bool {
        self.lanes.values().any(|current| current.tree == Some(tree))
    }

    /// Begins with the next trees, as far as lanes are free.
    fn next(&mut self) -> Vec<BuildOrder> {
        let mut orders = Vec::new();
        // The lanes of all trusts count together, because `[build] jobs` bounds what the machine does at once.
        while self.lanes.len() < self.most.max(1) && !self.waiting.is_empty() {
            let (tree, first) = self.waiting.remove(0);
            let mut lanes = Lane::of_trust(first);
            let free = lanes.find(|lane| !self.lanes.contains_key(lane));
            let Some(lane) = free else { break };
            self.lanes.insert(lane.clone(), Current::clearing(Some(tree)));
            orders.push(BuildOrder::Clear(lane));
        }
        orders
    }

    /// Handles the answer to [`BuildOrder::Clear`] or [`BuildOrder::Seal`].
    pub fn sealed(&mut self, lane: &Lane, sealed: Result<(), String>) -> Vec<BuildOrder> {
        let Some(current) = self.lanes.get_mut(lane) else {
            return Vec::new();
        };
        match (&current.step, current.tree) {
            // The result of clearing does not matter here: if files could not be removed, the build finds them, and fails.
            (BuildStep::Clearing, Some(tree)) if self.wanted.contains_key(&tree) => {
                current.step = BuildStep::Starting;
                vec![BuildOrder::Build(lane.clone(), tree)]
            }
            // Nobody waits for a tree of this lane any more, so `over` only frees the lane.
            (BuildStep::Clearing, _) => self.over(lane, BuildOrder::Install),
            (BuildStep::Sealing, _) => match sealed {
                Ok(()) => self.over(lane, BuildOrder::Install),
                Err(why) => self.over(lane, |waiters| BuildOrder::Refuse(waiters, BuildFailure::of_seal(why))),
            },
            // In these steps no answer of the spawner is due.
            (BuildStep::Starting | BuildStep::Building { .. }, _) => Vec::new(),
        }
    }

    /// Stores that a build of an earlier fnd runs in a lane that is being emptied. Its end may come before the next build starts,
    /// and what it leaves until then would count as files of that build.
    pub fn is_shared(&mut self, lane: &Lane) {
        if let Some(current) = self.lanes.get_mut(lane) {
            current.is_shared = true;
        }
    }

    /// Empties a lane once more before its build starts, if a build of an earlier fnd ran there the last time. It has ended.
    pub fn clear_again(&mut self, lane: &Lane) -> Option<BuildOrder> {
        let current = self.starting(lane).filter(|current| current.is_shared)?;
        *current = Current::clearing(current.tree);
        Some(BuildOrder::Clear(lane.clone()))
    }

    /// Returns the work of a lane whose build is about to start.
    fn starting(&mut self, lane: &Lane) -> Option<&mut Current> {
        let current = self.lanes.get_mut(lane);
        current.filter(|current| current.step == BuildStep::Starting)
    }

    /// Stores which invocation builds in a lane; `own` is false if an earlier fnd started it.
    pub fn started(&mut self, lane: &Lane, id: InvocationId, own: bool) {
        if let Some(current) = self.starting(lane) {
            current.step = BuildStep::Building { id, own };
        }
    }

    /// Handles a build that cannot be started.
    pub fn not_started(&mut self, lane: &Lane, why: String) -> Vec<BuildOrder> {
        if self.starting(lane).is_none() {
            return Vec::new();
        }
        self.over(lane, |waiters| {
            BuildOrder::Refuse(waiters, BuildFailure::NotStarted(why))
        })
    }

    /// Handles the end of an invocation, if it builds in one of the lanes.
    pub fn ended(&mut self, invocation: InvocationId, outcome: Result<(), BuildFailure>) -> Vec<BuildOrder> {
        let found = self.lanes.iter_mut().find_map(|(lane, current)| match current.step {
            BuildStep::Building { id, own } if id == invocation => Some((lane.clone(), own, current)),
            _ => None,
        });
        let Some((lane, own, current)) = found else {
            return Vec::new();
        };
        match (outcome, current.tree) {
            (Ok(()), Some(tree)) if own => {
                current.step = BuildStep::Sealing;
                vec![BuildOrder::Seal(lane, tree)]
            }
            (Err(why), _) if own && !current.is_repeated => {
                self.over(&lane, |waiters| BuildOrder::Refuse(waiters, why))
            }
            // The tree is built again. A build of an earlier fnd may have been of another tree, so its files are removed.
            _ => {
                *current = Current::clearing(current.tree);
                vec![BuildOrder::Clear(lane)]
            }
        }
    }

    /// Has a tree built again after its build that goes on now, if that was cancelled: a request that comes after the cancellation
    /// must not fail with the build.
    pub fn repeat_cancelled(&mut self, tree: Version, is_cancelled: impl Fn(InvocationId) -> bool) {
        let current = self.lanes.values_mut().find(|current| current.tree == Some(tree));
        if let Some(current) = current
            && let BuildStep::Building { id, .. } = current.step
        {
            current.is_repeated = is_cancelled(id);
        }
    }

    /// Ends the work of a lane, and begins with the next tree.
    fn over(&mut self, lane: &Lane, end: impl FnOnce(BTreeSet<Waiter>) -> BuildOrder) -> Vec<BuildOrder> {
        let tree = self.lanes.remove(lane).and_then(|current| current.tree);
        // Absent: nobody wants the tree any more.
        let waiters = tree.and_then(|tree| self.wanted.remove(&tree));
        waiters.map(end).into_iter().chain(self.next()).collect()
    }

    /// Returns the tree that an invocation builds; absent if an earlier fnd started it.
    #[must_use]
    pub fn built_by(&self, invocation: InvocationId) -> Option<Version> {
        let builds =
            |current: &&Current| matches!(current.step, BuildStep::Building { id, own: true } if id == invocation);
        self.lanes.values().find(builds)?.tree
    }

    /// Returns the tree that is made of what its build has left in a lane.
    #[must_use]
    pub fn sealing(&self, lane: &Lane) -> Option<Version> {
        let current = self.lanes.get(lane)?;
        current.tree.filter(|_| current.step == BuildStep::Sealing)
    }

    /// Returns the invocation that builds a tree, if the build has begun.
    #[must_use]
    pub fn invocation_of(&self, tree: Version) -> Option<InvocationId> {
        self.lanes.values().find_map(|current| match current.step {
            BuildStep::Building { id, .. } if current.tree == Some(tree) => Some(id),
            _ => None,
        })
    }

    /// Returns every tree that is wanted or being built.
    #[must_use]
    pub fn trees(&self) -> Vec<Version> {
        let current = self.lanes.values().filter_map(|current| current.tree);
        current.chain(self.waiting.iter().map(|(tree, _)| *tree)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(text: &str) -> Waiter {
        let function = FunctionName::new(text).unwrap();
        Waiter { function, copy: false }
    }

    fn names(texts: &[&str]) -> BTreeSet<Waiter> {
        texts.iter().map(|text| name(text)).collect()
    }

    fn build() -> FunctionName {
        FunctionName::new("fnd-build").unwrap()
    }

    /// Returns the tree that a file or copy waits for.
    fn of(builds: &Builds, waiter: &Waiter) -> Option<Version> {
        let mut wanted = builds.wanted.iter();
        let found = wanted.find(|(_, waiters)| waiters.contains(waiter));
        found.map(|(tree, _)| *tree)
    }

    fn root(number: u32) -> Lane {
        Lane { first: build(), number }
    }

    const ONE: Version = Version([1; 32]);
    const TWO: Version = Version([2; 32]);
    const ID: InvocationId = InvocationId(7);

    fn none() -> Result<(), String> {
        Err("its build is not complete".to_owned())
    }

    #[test]
    fn functions_with_one_tree_share_one_build() {
        let mut builds = Builds::default();
        assert_eq!(builds.needs(name("a"), ONE, build()), [BuildOrder::Clear(root(1))]);
        assert_eq!(builds.sealed(&root(1), Ok(())), [BuildOrder::Build(root(1), ONE)]);
        assert_eq!(builds.needs(name("b"), ONE, build()), []);
        builds.started(&root(1), ID, true);
        assert_eq!(
            of(&builds, &name("b")).and_then(|tree| builds.invocation_of(tree)),
            Some(ID)
        );
        assert_eq!(builds.needs(name("c"), TWO, build()), [], "one at a time");
        assert_eq!(builds.ended(ID, Ok(())), [BuildOrder::Seal(root(1), ONE)]);
        assert_eq!(
            builds.sealed(&root(1), Ok(())),
            [BuildOrder::Install(names(&["a", "b"])), BuildOrder::Clear(root(1))]
        );
        assert_eq!(builds.trees(), [TWO]);
    }

    #[test]
    fn a_failed_build_refuses_its_functions_and_the_next_one_begins() {
        let mut builds = Builds::default();
        builds.needs(name("a"), ONE, build());
        builds.needs(name("b"), TWO, build());
        builds.sealed(&root(1), none());
        builds.started(&root(1), ID, true);
        let why = || BuildFailure::Failed("exit 65".to_owned());
        assert_eq!(
            builds.ended(ID, Err(why())),
            [BuildOrder::Refuse(names(&["a"]), why()), BuildOrder::Clear(root(1))]
        );
        assert_eq!(builds.needs(name("a"), ONE, build()), [], "it waits for the other one");
        assert_eq!(builds.sealed(&root(1), Ok(())), [BuildOrder::Build(root(1), TWO)]);
    }

    #[test]
    fn a_request_that_comes_after_the_cancellation_of_its_build_does_not_fail_with_it() {
        let why = || BuildFailure::Failed("(cancelled): cancelled on request".to_owned());
        let refused = || [BuildOrder::Refuse(names(&["a"]), why())];
        for is_cancelled in [false, true] {
            let mut builds = Builds::default();
            builds.needs(name("a"), ONE, build());
            builds.sealed(&root(1), none());
            builds.started(&root(1), ID, true);
            builds.repeat_cancelled(ONE, |id| is_cancelled && id == ID);
            assert_eq!(builds.needs(name("a"), ONE, build()), []);
            if is_cancelled {
                assert_eq!(builds.ended(ID, Err(why())), [BuildOrder::Clear(root(1))]);
                assert_eq!(builds.sealed(&root(1), Ok(())), [BuildOrder::Build(root(1), ONE)]);
                builds.started(&root(1), ID, true);
            }
            assert_eq!(builds.ended(ID, Err(why())), refused(), "it is built again once");
        }
    }

    #[test]
    fn a_build_that_leaves_no_tree_is_a_failure() {
        let mut builds = Builds::default();
        builds.needs(name("a"), ONE, build());
        builds.sealed(&root(1), none());
        builds.started(&root(1), ID, true);
        builds.ended(ID, Ok(()));
        let why = "the link `x` leads out of it".to_owned();
        assert_eq!(
            builds.sealed(&root(1), Err(why.clone())),
            [BuildOrder::Refuse(names(&["a"]), BuildFailure::Failed(why))]
        );
    }

    #[test]
    fn a_function_that_changes_waits_for_its_new_tree_only() {
        let mut builds = Builds::default();
        builds.needs(name("a"), ONE, build());
        builds.sealed(&root(1), none());
        builds.started(&root(1), ID, true);
        assert_eq!(builds.needs(name("a"), TWO, build()), []);
        assert_eq!(of(&builds, &name("a")), Some(TWO));
        builds.ended(ID, Ok(()));
        assert_eq!(builds.sealed(&root(1), Ok(())), [BuildOrder::Clear(root(1))]);
        builds.forget(&name("a"));
        assert_eq!(builds.sealed(&root(1), none()), [], "nobody wants it");
        assert_eq!(builds.trees(), []);
    }

    #[test]
    fn a_build_of_an_earlier_fnd_is_waited_for_and_may_be_of_another_tree() {
        let mut builds = Builds::default();
        builds.needs(name("a"), ONE, build());
        builds.sealed(&root(1), none());
        builds.started(&root(1), ID, false);
        assert_eq!(
            builds.ended(ID, Ok(())),
            [BuildOrder::Clear(root(1))],
            "it may be of another tree"
        );
        assert_eq!(builds.sealed(&root(1), none()), [BuildOrder::Build(root(1), ONE)]);
    }

    #[test]
    fn a_lane_is_emptied_again_if_a_build_of_an_earlier_fnd_has_ended_there_meanwhile() {
        let mut builds = Builds::default();
        builds.needs(name("a"), ONE, build());
        builds.is_shared(&root(1));
        assert_eq!(builds.clear_again(&root(1)), None, "it is being emptied");
        assert_eq!(builds.ended(ID, Ok(())), []);
        assert_eq!(builds.sealed(&root(1), Ok(())), [BuildOrder::Build(root(1), ONE)]);
        assert_eq!(builds.clear_again(&root(1)), Some(BuildOrder::Clear(root(1))));
        assert_eq!(builds.sealed(&root(1), Ok(())), [BuildOrder::Build(root(1), ONE)]);
        assert_eq!(builds.clear_again(&root(1)), None, "nothing ran there");
        // One that still runs then is waited for, and the lane is emptied after that anyway.
        let mut builds = Builds::default();
        builds.needs(name("a"), ONE, build());
        builds.is_shared(&root(1));
        builds.sealed(&root(1), Ok(()));
        builds.started(&root(1), ID, false);
        assert_eq!(builds.ended(ID, Ok(())), [BuildOrder::Clear(root(1))]);
        builds.sealed(&root(1), Ok(()));
        assert_eq!(builds.clear_again(&root(1)), None);
    }

    #[test]
    fn a_home_in_which_another_process_may_have_left_files_is_no_failure_of_the_build() {
        let mut builds = Builds::default();
        builds.needs(name("a"), ONE, build());
        builds.sealed(&root(1), none());
        builds.started(&root(1), ID, true);
        builds.ended(ID, Ok(()));
        assert_eq!(
            builds.sealed(&root(1), Err(NOT_ALONE.to_owned())),
            [BuildOrder::Refuse(
                names(&["a"]),
                BuildFailure::Disturbed(NOT_ALONE.to_owned())
            )]
        );
    }

    #[test]
    fn a_file_and_the_copy_that_serves_meanwhile_wait_beside_each_other() {
        let (file, copy) = (
            name("a"),
            Waiter {
                copy: true,
                ..name("a")
            },
        );
        let mut builds = Builds::default();
        builds.needs(file.clone(), ONE, build());
        assert_eq!(builds.needs(copy.clone(), TWO, build()), []);
        assert_eq!((of(&builds, &file), of(&builds, &copy)), (Some(ONE), Some(TWO)));
        builds.forget(&copy);
        assert_eq!((of(&builds, &file), of(&builds, &copy)), (Some(ONE), None));
    }

    #[test]
    fn as_many_trees_are_built_at_once_as_there_are_lanes() {
        let (three, other) = (Version([3; 32]), InvocationId(8));
        let mut builds = Builds::default();
        builds.allow(2);
        assert_eq!(builds.needs(name("a"), ONE, build()), [BuildOrder::Clear(root(1))]);
        assert_eq!(builds.needs(name("b"), TWO, build()), [BuildOrder::Clear(root(2))]);
        assert_eq!(builds.needs(name("c"), three, build()), [], "both lanes are in use");
        assert_eq!(builds.needs(name("d"), TWO, build()), [], "it is built already");
        assert_eq!(builds.sealed(&root(2), Ok(())), [BuildOrder::Build(root(2), TWO)]);
        assert_eq!(builds.sealed(&root(1), Ok(())), [BuildOrder::Build(root(1), ONE)]);
        builds.started(&root(1), ID, true);
        builds.started(&root(2), other, true);
        assert_eq!((builds.built_by(ID), builds.built_by(other)), (Some(ONE), Some(TWO)));
        assert_eq!(
            of(&builds, &name("d")).and_then(|tree| builds.invocation_of(tree)),
            Some(other)
        );
        assert_eq!(builds.ended(other, Ok(())), [BuildOrder::Seal(root(2), TWO)]);
        assert_eq!(
            builds.sealed(&root(2), Ok(())),
            [BuildOrder::Install(names(&["b", "d"])), BuildOrder::Clear(root(2))]
        );
        // Fewer lanes: the build in the second one goes on, and then none begins there.
        builds.allow(1);
        assert_eq!(builds.needs(name("e"), TWO, build()), []);
        assert_eq!(builds.sealed(&root(2), Ok(())), [BuildOrder::Build(root(2), three)]);
        assert_eq!(
            builds.not_started(&root(2), String::new()),
            [BuildOrder::Refuse(
                names(&["c"]),
                BuildFailure::NotStarted(String::new())
            )]
        );
        assert_eq!(
            builds.ended(ID, Err(BuildFailure::Failed(String::new()))),
            [
                BuildOrder::Refuse(names(&["a"]), BuildFailure::Failed(String::new())),
                BuildOrder::Clear(root(1))
            ]
        );
    }

    #[test]
    fn each_trust_has_lanes_of_its_own_and_all_share_the_number_of_builds_at_once() {
        let three = Version([3; 32]);
        let others = FunctionName::new("fnd-build-u1000").unwrap();
        let other = |number| Lane {
            first: others.clone(),
            number,
        };
        let mut builds = Builds::default();
        builds.allow(2);
        assert_eq!(builds.needs(name("a"), ONE, build()), [BuildOrder::Clear(root(1))]);
        assert_eq!(
            builds.needs(name("b"), TWO, others.clone()),
            [BuildOrder::Clear(other(1))]
        );
        assert_eq!(builds.needs(name("c"), three, others.clone()), [], "two at once");
        assert_eq!(builds.sealed(&root(1), Ok(())), [BuildOrder::Build(root(1), ONE)]);
        let why = || "exit 65".to_owned();
        assert_eq!(
            builds.not_started(&root(1), why()),
            [
                BuildOrder::Refuse(names(&["a"]), BuildFailure::NotStarted(why())),
                BuildOrder::Clear(other(2))
            ]
        );
        assert_eq!(builds.sealed(&other(2), Ok(())), [BuildOrder::Build(other(2), three)]);
        let builders = [root(1), root(3), other(1), other(2)].map(|lane| lane.builder().to_string());
        assert_eq!(
            builders,
            ["fnd-build", "fnd-build-3", "fnd-build-u1000", "fnd-build-u1000-2"]
        );
    }

    #[test]
    fn what_an_earlier_fnd_has_left_is_removed_even_if_nothing_is_to_be_built() {
        let mut builds = Builds::default();
        assert_eq!(builds.sweep(root(1), None), Some(BuildOrder::Clear(root(1))));
        assert_eq!(builds.needs(name("a"), ONE, build()), [], "files are being removed");
        assert_eq!(builds.sealed(&root(1), Ok(())), [BuildOrder::Clear(root(1))]);
        assert_eq!(builds.sweep(root(1), None), None, "a build begins there");
        // A build that still runs, in a lane that is no longer used.
        assert_eq!(builds.sweep(root(2), Some(ID)), None);
        assert_eq!(builds.built_by(ID), None);
        assert_eq!(builds.ended(ID, Ok(())), [BuildOrder::Clear(root(2))]);
        assert_eq!(builds.sealed(&root(2), Ok(())), []);
        assert_eq!(builds.trees(), [ONE]);
    }

    proptest! {
        /// In any order of events, each function that wants a tree is installed or refused once the builds have ended; and a tree
        /// is made only of what its own build has left in its lane.
        #[test]
        fn nobody_waits_for_ever(
            most in 1_u32..4,
            steps in proptest::collection::vec((0_u8..5, 0_u8..6, any::<bool>()), 1..80),
        ) {
            let mut builds = Builds::default();
            builds.allow(most);
            let mut waiting: BTreeMap<Waiter, Version> = BTreeMap::new();
            let mut orders: Vec<BuildOrder> = Vec::new();
            let mut next_id = 0;
            // As in fnd: functions are installed or refused at once.
            let take = |orders: &mut Vec<BuildOrder>, waiting: &mut BTreeMap<Waiter, Version>, more: Vec<BuildOrder>| {
                for order in more {
                    match order {
                        BuildOrder::Install(functions) | BuildOrder::Refuse(functions, _) => {
                            for function in functions {
                                assert!(waiting.remove(&function).is_some(), "it did not wait");
                            }
                        }
                        other => orders.push(other),
                    }
                }
            };
            let mut left: BTreeMap<Lane, Version> = BTreeMap::new();
            let mut turn = |builds: &mut Builds, orders: &mut Vec<BuildOrder>, which: usize, good: bool| {
                if orders.is_empty() {
                    return Vec::new();
                }
                match orders.remove(which % orders.len()) {
                    BuildOrder::Clear(lane) => {
                        next_id += 1;
                        if next_id % 7 == 0 {
                            // A build of an earlier fnd still runs there.
                            builds.is_shared(&lane);
                        }
                        left.remove(&lane);
                        builds.sealed(&lane, if good { Ok(()) } else { none() })
                    }
                    BuildOrder::Seal(lane, tree) => {
                        assert_eq!(left.remove(&lane), Some(tree), "of another build");
                        builds.sealed(&lane, if good { Ok(()) } else { none() })
                    }
                    BuildOrder::Build(lane, tree) => {
                        if let Some(order) = builds.clear_again(&lane) {
                            return vec![order];
                        }
                        assert_eq!(left.get(&lane), None, "an earlier build's files are there");
                        next_id += 1;
                        if next_id % 5 == 0 {
                            return builds.not_started(&lane, String::new());
                        }
                        if good {
                            left.insert(lane.clone(), tree);
                        }
                        builds.started(&lane, InvocationId(next_id), good);
                        assert_eq!(builds.built_by(InvocationId(next_id)), good.then_some(tree));
                        let failed = || Err(BuildFailure::Failed(String::new()));
                        builds.ended(InvocationId(next_id), if next_id % 3 == 0 { failed() } else { Ok(()) })
                    }
                    BuildOrder::Install(_) | BuildOrder::Refuse(..) => Vec::new(),
                }
            };
            for (what, which, good) in steps {
                let function = name(&format!("f{which}"));
                match what {
                    0 => {
                        let tree = Version([which / 2 + u8::from(good); 32]);
                        waiting.insert(function.clone(), tree);
                        orders.extend(builds.needs(function, tree, build()));
                    }
                    1 => {
                        waiting.remove(&function);
                        builds.forget(&function);
                    }
                    2 if good => orders.extend(builds.sweep(root(u32::from(which) + 1), None)),
                    _ => {
                        let more = turn(&mut builds, &mut orders, usize::from(which), good);
                        take(&mut orders, &mut waiting, more);
                    }
                }
                let building = orders.iter().filter(|order| matches!(order, BuildOrder::Build(..) | BuildOrder::Seal(..)));
                prop_assert!(building.count() <= usize::try_from(most).unwrap(), "more than there are lanes");
                let mut trees = builds.trees();
                trees.sort_unstable();
                trees.dedup();
                prop_assert_eq!(trees.len(), builds.trees().len(), "a tree is built twice");
            }
            for which in 0..1000 {
                let more = turn(&mut builds, &mut orders, which, true);
                take(&mut orders, &mut waiting, more);
            }
            prop_assert!(waiting.is_empty() && builds.trees().is_empty(), "{waiting:?} {builds:?}");
        }
    }
}
