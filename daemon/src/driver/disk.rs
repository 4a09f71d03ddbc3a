//! Has the spawner delete what is not needed any more: installed versions, trees of dependencies, and the files that deleted
//! functions have left. The lifecycle decides which versions stay.

use super::Driver;
use fnd_core::lifecycle::builds::Lane;
use fnd_core::lifecycle::checker;
use fnd_wire::frame::{Request, Sweep};
use fnd_wire::ids::{FunctionName, Version};

impl Driver {
    /// Has the spawner delete the surplus versions of a function.
    pub(crate) fn prune(&mut self, function: &FunctionName) {
        let in_use = self.supervisor.versions_in_use(function);
        let Some(stay) = self.lifecycle.prune(function, in_use, self.keep_versions(function)) else {
            return;
        };
        if self.workers.prune(function, stay) {
            self.lifecycle.versions.asked(function);
        }
    }

    /// Has the surplus versions of every function deleted: at a start, and when fewer versions are to be kept.
    pub(crate) fn prune_all(&mut self) {
        let functions: Vec<_> = self.lifecycle.versions.functions().cloned().collect();
        for function in functions {
            self.prune(&function);
        }
    }

    /// Handles the spawner's answer to a request to delete versions.
    pub(crate) fn pruned(&mut self, (function, stay): (FunctionName, Vec<Version>), worked: bool) {
        self.decide_lifecycle(|lifecycle, _, out| lifecycle.pruned(&function, &stay, worked, out));
    }

    /// Has the spawner remove the directories of invocations that are over, and report which deleted functions left files.
    pub(crate) fn sweep(&mut self) {
        // Before the first scan is over, fnd does not know all functions.
        if !self.supervisor.is_scanned() {
            return;
        }
        let functions = self.lifecycle.registry.iter().map(|(name, _)| name.clone());
        let functions = functions
            .chain(Lane::of_root().map(|lane| lane.builder()))
            .chain([checker()])
            .collect();
        let invocations = self.supervisor.live_invocations().collect();
        self.workers
            .request(&Request::Sweep(Sweep { functions, invocations }), Vec::new());
        self.prune_trees();
        self.sweep_builds();
    }

    /// Has the spawner delete the trees that no version has.
    fn prune_trees(&mut self) {
        if !self.workers.welcome.is_of_0_1() {
            self.trees.changed();
            let keep = self.node.settings.settings.build.keep.as_secs();
            self.workers.request(&Request::PruneTrees(keep), Vec::new());
        }
    }

    /// Returns the deleted functions that left files and have not come back since, with their names as people write
    /// them.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let written = self.workers.left_behind.iter().map(|name| name.replacen('.', "/", 1));
        let is_there =
            |name: &String| FunctionName::new(name).is_ok_and(|name| self.lifecycle.registry.get(&name).is_some());
        written.filter(|name| !is_there(name)).collect()
    }

    fn keep_versions(&self, function: &FunctionName) -> usize {
        // Its file is gone, so no version is needed again.
        if self.supervisor.is_scanned() && self.lifecycle.registry.get(function).is_none() {
            return 0;
        }
        usize::try_from(self.node.settings.settings.keep_versions).unwrap_or(usize::MAX)
    }
}
