//! Which trees of dependencies are wanted, and which one is built now: one at a time.
//!
//! ```text
//! wanted ─▶ Clear ─▶ Build ─┬─ succeeded ─▶ Seal ─┬─ there is a tree ──▶ Install
//!                           │                     └─ there is none ─┐
//!                           └─ failed ──────────────────────────────┴──▶ Refuse
//! ```
//! Whatever lies where builds leave their files is removed before a build: an install script of another build could have
//! left it there. So a tree is made only of a build that this fnd has started and seen succeed. A build of an earlier fnd
//! that still runs is waited for, and what it leaves is removed.
//!
//! A failure is not remembered: only a change of a file, a reload or a person asks for the function again.

use fnd_wire::ids::{FunctionName, InvocationId, Version};
use std::collections::{BTreeMap, BTreeSet};

/// What waits for a tree: the file of a function, or the copy of a release that is to serve in its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter {
    /// The function.
    pub function: FunctionName,
    /// Whether it is a copy.
    pub copy: bool,
}

/// An order for the shell around this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Remove what builds have left; [`Builds::sealed`] must follow.
    Clear(Version),
    /// Make a tree of what its build has left; [`Builds::sealed`] must follow.
    Seal(Version),
    /// Build; [`Builds::started`] must follow, then [`Builds::ended`].
    Build(Version),
    /// The tree is there: install them.
    Install(BTreeSet<Waiter>),
    /// The tree cannot be built, for this reason: what serves goes on.
    Refuse(BTreeSet<Waiter>, String),
}

/// The step of the tree that is built now.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// What builds have left is removed.
    Clearing,
    /// A tree is made of a build that has just succeeded.
    Sealing,
    /// It is about to start.
    Starting,
    /// This invocation builds; perhaps one that an earlier fnd has started (`own` is false).
    Building { id: InvocationId, own: bool },
}

/// The trees that are wanted.
#[derive(Debug, Default)]
pub struct Builds {
    wanted: BTreeMap<Version, BTreeSet<Waiter>>,
    /// The wanted trees, in the order in which they are built; the current one is not among them.
    waiting: Vec<Version>,
    current: Option<(Version, Step)>,
}

impl Builds {
    /// Adds what needs a tree, in place of the one that it needed before.
    pub fn want(&mut self, waiter: Waiter, tree: Version) -> Option<Order> {
        self.forget(&waiter);
        self.wanted.entry(tree).or_default().insert(waiter);
        let is_current = self.current.as_ref().is_some_and(|(current, _)| *current == tree);
        if !is_current && !self.waiting.contains(&tree) {
            self.waiting.push(tree);
        }
        self.next()
    }

    /// Removes what is gone, or has changed. A build that has begun goes on.
    pub fn forget(&mut self, waiter: &Waiter) {
        self.wanted.retain(|_, waiters| {
            waiters.remove(waiter);
            !waiters.is_empty()
        });
        self.waiting.retain(|tree| self.wanted.contains_key(tree));
    }

    /// Begins with the next tree, if none is being built.
    fn next(&mut self) -> Option<Order> {
        if self.current.is_some() || self.waiting.is_empty() {
            return None;
        }
        let tree = self.waiting.remove(0);
        self.current = Some((tree, Step::Clearing));
        Some(Order::Clear(tree))
    }

    /// Handles the answer to [`Order::Clear`] or [`Order::Seal`].
    pub fn sealed(&mut self, tree: Version, sealed: Result<(), String>) -> Vec<Order> {
        match &self.current {
            // An answer to a request of an earlier connection.
            Some((current, _)) if *current != tree => Vec::new(),
            Some((_, Step::Clearing)) if !self.wanted.contains_key(&tree) => self.over(Order::Install),
            // The build finds files that could not be removed, and fails.
            Some((_, Step::Clearing)) => {
                self.current = Some((tree, Step::Starting));
                vec![Order::Build(tree)]
            }
            Some((_, Step::Sealing)) => match sealed {
                Ok(()) => self.over(Order::Install),
                Err(why) => self.over(|waiters| Order::Refuse(waiters, why)),
            },
            _ => Vec::new(),
        }
    }

    /// Notes which invocation builds; `own` is false if an earlier fnd started it.
    pub fn started(&mut self, id: InvocationId, own: bool) {
        if let Some((_, step @ Step::Starting)) = &mut self.current {
            *step = Step::Building { id, own };
        }
    }

    /// Handles the end of an invocation.
    pub fn ended(&mut self, id: InvocationId, outcome: Result<(), String>) -> Vec<Order> {
        let Some((tree, Step::Building { id: building, own })) = self.current.clone() else {
            return Vec::new();
        };
        if building != id {
            return Vec::new();
        }
        match (outcome, own) {
            (Ok(()), true) => {
                self.current = Some((tree, Step::Sealing));
                vec![Order::Seal(tree)]
            }
            (Err(why), true) => self.over(|waiters| Order::Refuse(waiters, why)),
            (_, false) => {
                self.current = Some((tree, Step::Clearing));
                vec![Order::Clear(tree)]
            }
        }
    }

    /// Ends the current tree, and begins with the next one.
    fn over(&mut self, end: impl FnOnce(BTreeSet<Waiter>) -> Order) -> Vec<Order> {
        let tree = self.current.take().map(|(tree, _)| tree);
        // Absent: nobody wants it any more.
        let waiters = tree.and_then(|tree| self.wanted.remove(&tree));
        waiters.map(end).into_iter().chain(self.next()).collect()
    }

    /// Returns the tree that it waits for.
    #[must_use]
    pub fn of(&self, waiter: &Waiter) -> Option<Version> {
        let mut wanted = self.wanted.iter();
        wanted
            .find(|(_, waiters)| waiters.contains(waiter))
            .map(|(tree, _)| *tree)
    }

    /// Returns the invocation that builds the tree for it, if it has begun.
    #[must_use]
    pub fn invocation_for(&self, waiter: &Waiter) -> Option<InvocationId> {
        match &self.current {
            Some((tree, Step::Building { id, .. })) if self.of(waiter) == Some(*tree) => Some(*id),
            _ => None,
        }
    }

    /// Returns every tree that is wanted or being built.
    #[must_use]
    pub fn trees(&self) -> Vec<Version> {
        let current = self.current.iter().map(|(tree, _)| *tree);
        current.chain(self.waiting.iter().copied()).collect()
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

    const ONE: Version = Version([1; 32]);
    const TWO: Version = Version([2; 32]);
    const ID: InvocationId = InvocationId(7);

    fn none() -> Result<(), String> {
        Err("its build is not complete".to_owned())
    }

    #[test]
    fn functions_with_one_tree_share_one_build() {
        let mut builds = Builds::default();
        assert_eq!(builds.want(name("a"), ONE), Some(Order::Clear(ONE)));
        assert_eq!(builds.sealed(ONE, Ok(())), [Order::Build(ONE)]);
        assert_eq!(builds.want(name("b"), ONE), None);
        builds.started(ID, true);
        assert_eq!(builds.invocation_for(&name("b")), Some(ID));
        assert_eq!(builds.want(name("c"), TWO), None, "one at a time");
        assert_eq!(builds.ended(ID, Ok(())), [Order::Seal(ONE)]);
        assert_eq!(
            builds.sealed(ONE, Ok(())),
            [Order::Install(names(&["a", "b"])), Order::Clear(TWO)]
        );
        assert_eq!(builds.trees(), [TWO]);
    }

    #[test]
    fn a_failed_build_refuses_its_functions_and_the_next_one_begins() {
        let mut builds = Builds::default();
        builds.want(name("a"), ONE);
        builds.want(name("b"), TWO);
        builds.sealed(ONE, none());
        builds.started(ID, true);
        let why = || "exit 65".to_owned();
        assert_eq!(
            builds.ended(ID, Err(why())),
            [Order::Refuse(names(&["a"]), why()), Order::Clear(TWO)]
        );
        assert_eq!(builds.want(name("a"), ONE), None, "it waits for the other one");
        assert_eq!(builds.sealed(TWO, Ok(())), [Order::Build(TWO)]);
    }

    #[test]
    fn a_build_that_leaves_no_tree_is_a_failure() {
        let mut builds = Builds::default();
        builds.want(name("a"), ONE);
        builds.sealed(ONE, none());
        builds.started(ID, true);
        builds.ended(ID, Ok(()));
        let why = "the link `x` leads out of it".to_owned();
        assert_eq!(
            builds.sealed(ONE, Err(why.clone())),
            [Order::Refuse(names(&["a"]), why)]
        );
    }

    #[test]
    fn a_function_that_changes_waits_for_its_new_tree_only() {
        let mut builds = Builds::default();
        builds.want(name("a"), ONE);
        builds.sealed(ONE, none());
        builds.started(ID, true);
        assert_eq!(builds.want(name("a"), TWO), None);
        assert_eq!(builds.of(&name("a")), Some(TWO));
        builds.ended(ID, Ok(()));
        assert_eq!(builds.sealed(ONE, Ok(())), [Order::Clear(TWO)]);
        builds.forget(&name("a"));
        assert_eq!(builds.sealed(TWO, none()), [], "nobody wants it");
        assert_eq!(builds.trees(), []);
    }

    #[test]
    fn a_build_of_an_earlier_fnd_is_waited_for_and_may_be_of_another_tree() {
        let mut builds = Builds::default();
        builds.want(name("a"), ONE);
        builds.sealed(ONE, none());
        builds.started(ID, false);
        assert_eq!(
            builds.ended(ID, Ok(())),
            [Order::Clear(ONE)],
            "it may be of another tree"
        );
        assert_eq!(builds.sealed(ONE, none()), [Order::Build(ONE)]);
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
        builds.want(file.clone(), ONE);
        assert_eq!(builds.want(copy.clone(), TWO), None);
        assert_eq!((builds.of(&file), builds.of(&copy)), (Some(ONE), Some(TWO)));
        builds.forget(&copy);
        assert_eq!((builds.of(&file), builds.of(&copy)), (Some(ONE), None));
    }

    proptest! {
        /// Whatever happens, each function that wants a tree is installed or refused once the builds have ended; and a tree
        /// is made only of what its own build has left.
        #[test]
        fn nobody_waits_for_ever(steps in proptest::collection::vec((0_u8..4, 0_u8..4, any::<bool>()), 1..60)) {
            let mut builds = Builds::default();
            let mut waiting: BTreeMap<Waiter, Version> = BTreeMap::new();
            let mut orders: Vec<Order> = Vec::new();
            let mut next_id = 0;
            // As in fnd: functions are installed or refused at once.
            let take = |orders: &mut Vec<Order>, waiting: &mut BTreeMap<Waiter, Version>, more: Vec<Order>| {
                for order in more {
                    match order {
                        Order::Install(functions) | Order::Refuse(functions, _) => {
                            for function in functions {
                                assert!(waiting.remove(&function).is_some(), "it did not wait");
                            }
                        }
                        other => orders.push(other),
                    }
                }
            };
            let mut left = None;
            let mut turn = |builds: &mut Builds, orders: &mut Vec<Order>, good: bool| match orders.pop() {
                Some(order @ (Order::Clear(tree) | Order::Seal(tree))) => {
                    assert!(matches!(order, Order::Clear(_)) || left == Some(tree), "of another build");
                    left = None;
                    builds.sealed(tree, if good { Ok(()) } else { none() })
                }
                Some(Order::Build(tree)) => {
                    assert_eq!(left, None, "an earlier build's files are there");
                    next_id += 1;
                    left = good.then_some(tree);
                    builds.started(InvocationId(next_id), good);
                    builds.ended(InvocationId(next_id), if next_id % 3 == 0 { none() } else { Ok(()) })
                }
                _ => Vec::new(),
            };
            for (what, which, good) in steps {
                let function = name(&format!("f{which}"));
                match what {
                    0 => {
                        let tree = Version([which / 2 + u8::from(good); 32]);
                        waiting.insert(function.clone(), tree);
                        orders.extend(builds.want(function, tree));
                    }
                    1 => {
                        waiting.remove(&function);
                        builds.forget(&function);
                    }
                    _ => {
                        let more = turn(&mut builds, &mut orders, good);
                        take(&mut orders, &mut waiting, more);
                    }
                }
                prop_assert!(orders.len() <= 1, "one at a time");
            }
            for _ in 0..1000 {
                let more = turn(&mut builds, &mut orders, true);
                take(&mut orders, &mut waiting, more);
            }
            prop_assert!(waiting.is_empty() && builds.trees().is_empty(), "{waiting:?} {builds:?}");
        }
    }
}
