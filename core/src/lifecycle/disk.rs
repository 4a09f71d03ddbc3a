//! Decides which installed versions stay on the disk: at most `keep_versions` of each function and those still needed, and none
//! of a deleted one. The spawner deletes the others.

use super::Lifecycle;
use super::order::Order;
use super::release::Releases;
use fnd_wire::ids::{FunctionName, Version};
use fnd_wire::plan::is_own;

impl Lifecycle {
    /// Stores that a version is installed and is the newest, and has the surplus versions deleted.
    pub(super) fn is_on_disk(&mut self, function: &FunctionName, version: Version, out: &mut Vec<Order>) {
        if let Some(installed) = self.versions.served(function, version) {
            out.push(Order::StoreVersions(function.clone(), installed.to_vec()));
        }
        out.push(Order::Prune(function.clone()));
    }

    /// Returns the versions of a function that stay on the disk: the newest `keep`, those `in_use`, and those that a rollback may
    /// need. Returns nothing if the spawner is not to be asked now; otherwise
    /// [`Versions::asked`](super::versions::Versions::asked) must follow.
    pub fn prune(&mut self, function: &FunctionName, mut in_use: Vec<Version>, keep: usize) -> Option<Vec<Version>> {
        // The next run of a function of fnd's own may need a version of which fnd learns in a moment. `prune_builds` and
        // `prune_checks` know the runs that are to come.
        if is_own(function.as_str()) {
            return None;
        }
        // An installation that is under way may make a version that this request does not list, and the spawner would delete it.
        // The end of the installation prunes again.
        if self.installer.is_asked(function) || self.versions.put_off(function) {
            return None;
        }
        // If fnd were killed now, the next fnd would find earlier releases in the ledger, which may need another version: a pin of
        // a function that was deleted and is there again.
        if !self.releases.is_stored(function) {
            self.to_prune.insert(function.clone());
            return None;
        }
        // An old version that still runs, and one that a rollback may need, stay in addition to the newest ones.
        let releases = self.releases.get(function);
        in_use.extend(releases.map(Releases::needed).unwrap_or_default());
        let stay = self.versions.to_keep(function, keep, &in_use);
        // The spawner may have versions of a deleted function that fnd does not know, because fnd drops an answer about files
        // that have changed since.
        let mut stay = stay.or((keep == 0).then(Vec::new))?;
        // A version whose code is wrong is not in the list of installed versions, so `to_keep` does not know it.
        in_use.retain(|version| !stay.contains(version));
        stay.append(&mut in_use);
        Some(stay)
    }

    /// Handles the end of a write of the releases of a function: the ledger has stored them, or given them up.
    pub fn releases_stored(&mut self, function: &FunctionName, out: &mut Vec<Order>) {
        self.releases.stored(function);
        if self.releases.is_stored(function) && self.to_prune.remove(function) {
            out.push(Order::Prune(function.clone()));
        }
    }

    /// Handles the spawner's answer to a request to delete versions. `worked` says whether it has deleted all versions but those
    /// in `stay`.
    pub fn pruned(&mut self, function: &FunctionName, stay: &[Version], worked: bool, out: &mut Vec<Order>) {
        // During the request, the last worker of another version may have ended: that version can be deleted now.
        let again = self.versions.is_over(function);
        if let Some(installed) = self.versions.answered(function, worked.then_some(stay)) {
            let installed = installed.to_vec();
            if self.releases.get(function).is_some() {
                self.releases
                    .change(function, |releases| releases.keep_only(&installed));
            }
            out.push(Order::StoreVersions(function.clone(), installed));
        }
        if again {
            out.push(Order::Prune(function.clone()));
        }
    }
}
