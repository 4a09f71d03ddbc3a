//! Builds from scratch that a person asks for. The tree from before stays until the new one is there, so a file that is installed
//! in between gets the tree from before, and goes on waiting for the new one.

use super::Lifecycle;
use super::function::Function;
use super::order::Order;
use fnd_wire::ids::{FunctionName, Version};
use std::collections::{BTreeMap, BTreeSet};

/// The functions whose dependencies are to be built from scratch.
#[derive(Debug, Default)]
pub(super) struct CleanBuilds {
    /// The functions whose next installation asks the spawner for it, until the spawner has answered.
    wanted: BTreeSet<FunctionName>,
    /// The requests for it that the spawner has not answered.
    asked: BTreeSet<u32>,
    /// The trees from before, by the trees that are built in their place.
    before: BTreeMap<Version, Version>,
}

impl CleanBuilds {
    /// Has the dependencies of a function built from scratch by its next installation.
    pub(super) fn want(&mut self, function: FunctionName) {
        self.wanted.insert(function);
    }

    /// Returns whether the spawner is still to be asked, or has not answered.
    pub(super) fn is_wanted(&self, function: &FunctionName) -> bool {
        self.wanted.contains(function)
    }

    /// Forgets a function that is gone.
    pub(super) fn remove(&mut self, function: &FunctionName) {
        self.wanted.remove(function);
    }

    /// Stores the number of a request.
    pub(super) fn asked(&mut self, request: u32) {
        self.asked.insert(request);
    }

    /// Returns whether a request asked for a build from scratch. If its answer does not count, the next installation asks again.
    pub(super) fn was_asked(&mut self, request: u32) -> bool {
        self.asked.remove(&request)
    }

    /// Handles the answer to a request about a function. Returns whether it asked for a build from scratch.
    pub(super) fn answered(&mut self, request: u32, function: &FunctionName) -> bool {
        let was_asked = self.was_asked(request);
        if was_asked {
            self.wanted.remove(function);
        }
        was_asked
    }
}

impl Lifecycle {
    /// Returns whether a function whose file is installed with this tree goes on waiting for its build from scratch. If its list
    /// has changed meanwhile, fnd asks for a build of the new list.
    pub(super) fn awaits_clean_build(&mut self, request: u32, function: &FunctionName, tree: Option<Version>) -> bool {
        let (Some(awaited), Some(tree)) = (self.builds.clean_tree(function), tree) else {
            return false;
        };
        // The awaited tree may be there a moment before fnd learns that. The end of its build is still to come.
        let before = self.registry.get(function).and_then(tree_of);
        if tree == awaited || before == Some(tree) {
            return true;
        }
        self.clean_builds.want(function.clone());
        let files = self.installer.candidate(request).cloned();
        files.into_iter().for_each(|files| self.installer.requeue(files));
        false
    }

    /// Notes which tree a build from scratch replaces. At its end the function may have another one, or the new one.
    pub(super) fn is_built_anew(&mut self, function: &FunctionName, tree: Version) {
        if let Some(before) = self.registry.get(function).and_then(tree_of) {
            self.clean_builds.before.insert(tree, before);
        }
    }

    /// Queues the functions with the list of a tree that was built from scratch: they share a tree, so they would get the new one
    /// at any later time, such as the next start. By then the function that asked for the tree may wait for another one.
    pub(super) fn enqueue_list(&mut self, tree: Version, out: &mut Vec<Order>) {
        let Some(before) = self.clean_builds.before.remove(&tree) else {
            return;
        };
        let functions = self.registry.iter().filter(|(_, known)| tree_of(known) == Some(before));
        let files = functions.map(|(_, known)| known.candidate.clone()).collect();
        self.installer.requeue_all(files);
        out.push(Order::Settle);
    }
}

/// Returns the tree of the newest version of a function that was installed.
fn tree_of(function: &Function) -> Option<Version> {
    function.newest.as_ref()?.tree.as_deref().copied()
}
