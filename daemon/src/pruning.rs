//! Keeps the number of installed versions of a function within `keep_versions`, and none of one that was deleted: fnd says
//! what stays, the spawner deletes.

use crate::driver::{Asked, State};
use crate::ledger::Command;
use fnd_core::frame::{Prune, Request};
use fnd_core::ids::{FunctionName, Version};

impl State {
    /// A version serves from now on.
    pub(crate) fn switched(&mut self, function: &FunctionName, version: Version) {
        if let Some(installed) = self.versions.served(function, version) {
            let (function, installed) = (function.clone(), installed.to_vec());
            self.store(Command::StoreVersions { function, installed });
        }
        self.prune(function);
    }

    /// Lets the spawner delete what a function has too much of.
    pub(crate) fn prune(&mut self, function: &FunctionName) {
        if self.installer.is_asked(function) || self.versions.is_pruning(function) {
            return; // the end of that looks again
        }
        let in_use = self.supervisor.versions_in_use(function);
        let Some(stay) = self.versions.to_keep(function, self.keep_versions(function), &in_use) else {
            return;
        };
        let request = Request::Prune(Prune {
            function: function.clone(),
            keep: stay.clone(),
        });
        if let Some(number) = self.send(&request, Vec::new()) {
            self.versions.asked(function);
            self.asked
                .insert(number, Asked::Prune(Box::new((function.clone(), stay))));
        }
    }

    /// Lets it do so for every function that has too much: at start, and when fewer are to be kept.
    pub(crate) fn prune_all(&mut self) {
        let functions: Vec<_> = self.versions.functions().cloned().collect();
        for function in functions {
            self.prune(&function);
        }
    }

    /// The spawner has answered.
    pub(crate) fn pruned(&mut self, (function, stay): (FunctionName, Vec<Version>), worked: bool) {
        if let Some(installed) = self.versions.answered(&function, worked.then_some(&stay)) {
            let installed = installed.to_vec();
            self.store(Command::StoreVersions { function, installed });
        }
    }

    fn keep_versions(&self, function: &FunctionName) -> usize {
        // Its file is gone: nobody asks for any version again.
        if self.supervisor.is_scanned() && self.functions.get(function).is_none() {
            return 0;
        }
        usize::try_from(self.settings.settings.keep_versions).unwrap_or(usize::MAX)
    }
}
