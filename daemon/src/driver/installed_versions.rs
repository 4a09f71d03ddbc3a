//! Keeps at most `keep_versions` installed versions of each function, and none of a deleted one. fnd decides which
//! versions stay, the spawner deletes the others.

use super::Driver;
use super::builds::builders;
use super::checks::checker;
use crate::ledger::LedgerCommand;
use crate::workers::PendingRequest;
use fnd_core::lifecycle::release::Releases;
use fnd_wire::frame::{Prune, Request, Sweep};
use fnd_wire::ids::{FunctionName, Version};

impl Driver {
    /// Stores that a version serves from now on, and has the surplus versions deleted.
    pub(crate) fn switched(&mut self, function: &FunctionName, version: Version) {
        if let Some(installed) = self.functions.versions.served(function, version) {
            let (function, installed) = (function.clone(), installed.to_vec());
            self.records.store(LedgerCommand::StoreVersions { function, installed });
        }
        self.prune(function);
    }

    /// Lets the spawner delete the surplus versions of a function.
    pub(crate) fn prune(&mut self, function: &FunctionName) {
        // The installation that is under way may make a version that this request would not name, and so would delete.
        if self.functions.installer.is_asked(function) || self.functions.versions.put_off(function) {
            return; // its end prunes again
        }
        // An old version that still runs, and one that a rollback may need, stay in addition to the newest ones.
        let mut in_use = self.supervisor.versions_in_use(function);
        let releases = self.functions.releases.get(function);
        in_use.extend(releases.map(Releases::needed).unwrap_or_default());
        let keep = self.keep_versions(function);
        let stay = self.functions.versions.to_keep(function, keep, &in_use);
        // The spawner may have versions of a deleted function that fnd does not know, because fnd drops an answer about files
        // that have changed since.
        let Some(mut stay) = stay.or((keep == 0).then(Vec::new)) else {
            return;
        };
        // A version whose code is wrong has never served, so `to_keep` does not know it.
        in_use.retain(|version| !stay.contains(version));
        stay.append(&mut in_use);
        let request = Request::Prune(Prune {
            function: function.clone(),
            keep: stay.clone(),
        });
        if let Some(number) = self.workers.send(&request, Vec::new()) {
            self.functions.versions.asked(function);
            self.workers
                .asked
                .insert(number, PendingRequest::Prune(Box::new((function.clone(), stay))));
        }
    }

    /// Prunes every function: at start, and when fewer versions are to be kept.
    pub(crate) fn prune_all(&mut self) {
        let functions: Vec<_> = self.functions.versions.functions().cloned().collect();
        for function in functions {
            self.prune(&function);
        }
    }

    /// Handles the spawner's answer.
    pub(crate) fn pruned(&mut self, (function, stay): (FunctionName, Vec<Version>), worked: bool) {
        // During the request, the last worker of another version may have ended: that version can be deleted now.
        let again = self.functions.versions.is_over(&function);
        if let Some(installed) = self.functions.versions.answered(&function, worked.then_some(&stay)) {
            let installed = installed.to_vec();
            if self.functions.releases.get(&function).is_some() {
                let releases = &mut self.functions.releases;
                releases.change(&function, |releases| releases.keep_only(&installed));
                self.store_releases();
            }
            let function = function.clone();
            self.records.store(LedgerCommand::StoreVersions { function, installed });
        }
        if again {
            self.prune(&function);
        }
    }

    /// Lets the spawner remove the directories of invocations that are over, and report which deleted functions left
    /// files.
    pub(crate) fn sweep(&mut self) {
        // Before the first scan is over, fnd does not know all functions.
        if !self.supervisor.is_scanned() {
            return;
        }
        let functions = self.functions.registry.iter().map(|(name, _)| name.clone());
        let functions = functions.chain(builders()).chain([checker()]).collect();
        let invocations = self.supervisor.live_invocations().collect();
        self.workers
            .request(&Request::Sweep(Sweep { functions, invocations }), Vec::new());
        self.prune_trees();
        self.sweep_builds();
    }

    /// Returns the deleted functions that left files and have not come back since, with their names as people write
    /// them.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        let written = self.workers.left_behind.iter().map(|name| name.replacen('.', "/", 1));
        let is_there =
            |name: &String| FunctionName::new(name).is_ok_and(|name| self.functions.registry.get(&name).is_some());
        written.filter(|name| !is_there(name)).collect()
    }

    fn keep_versions(&self, function: &FunctionName) -> usize {
        // Its file is gone, so no version is needed again.
        if self.supervisor.is_scanned() && self.functions.registry.get(function).is_none() {
            return 0;
        }
        usize::try_from(self.node.settings.settings.keep_versions).unwrap_or(usize::MAX)
    }
}
