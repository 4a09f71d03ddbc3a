//! Builds from scratch that a person asks for. The tree from before stays until the new one is there, so a file that is installed
//! in between gets the tree from before, and goes on waiting for the new one.

use super::function::Function;
use super::order::Order;
use super::{Lifecycle, SourceFiles};
use fnd_wire::ids::{FunctionName, Version};

impl Lifecycle {
    /// Returns whether a function whose file is installed with this tree goes on waiting for its build from scratch. If its list
    /// has changed meanwhile, fnd asks for a build of the new list.
    pub(super) fn awaits_clean_build(&mut self, files: &SourceFiles, tree: Option<Version>) -> bool {
        let function = &files.function;
        let (Some(awaited), Some(tree)) = (self.builds.clean_tree(function), tree) else {
            return false;
        };
        // The awaited tree may be there a moment before fnd learns that. The end of its build is still to come.
        let before = self.registry.get(function).and_then(tree_of);
        if tree == awaited || before == Some(tree) {
            return true;
        }
        self.clean_builds.insert(function.clone());
        self.installer.requeue(files.clone());
        false
    }

    /// Notes which tree a build from scratch replaces. At its end the function may have another one, or the new one.
    pub(super) fn is_built_from_scratch(&mut self, function: &FunctionName, tree: Version) {
        // While a release is held, its tree is not that of the file, for which the new tree is built.
        let is_held = self.releases.get(function).is_some_and(|known| known.hold().is_some());
        let before = self.registry.get(function).and_then(tree_of).filter(|_| !is_held);
        self.trees_from_scratch.insert(tree, before);
    }

    /// Queues the functions with the list of a tree that was built from scratch: they share a tree, so they would get the new one
    /// at any later time, such as the next start. By then the function that asked for the tree may wait for another one.
    pub(super) fn enqueue_list(&mut self, tree: Version, out: &mut Vec<Order>) {
        let Some(before) = self.trees_from_scratch.remove(&tree) else {
            return;
        };
        let builds = &self.builds;
        // If it is not known which tree they have, all that have one are installed again; those with other lists keep theirs. A
        // failed build, or one that goes on, would begin anew by that.
        let is_due = |name: &FunctionName| !builds.failed.contains_key(name) && !builds.is_waiting(name);
        let functions = self
            .registry
            .iter()
            .filter(|(name, known)| match (before, tree_of(known)) {
                (_, None) => false,
                (None, Some(_)) => is_due(name),
                (Some(before), Some(tree)) => before == tree,
            });
        let files = functions.map(|(_, known)| known.candidate.clone()).collect();
        self.installer.requeue_all(files);
        out.push(Order::Settle);
    }
}

/// Returns the tree of the newest version of a function that was installed.
fn tree_of(function: &Function) -> Option<Version> {
    function.newest.as_ref()?.tree.as_deref().copied()
}
