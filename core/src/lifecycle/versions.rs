//! Tracks which installed versions of each function are on the disk, and which of them may be deleted.
//!
//! The directories belong to the spawner; fnd may not read them, so it remembers the versions that were reported to it.
//! fnd deletes no version of a function while one is being installed, and installs none while one is being deleted:
//! otherwise content that was changed back in the meantime could be found installed and then be deleted.
//!
//! The spawner keeps a version that a launcher still uses, and its answer does not say so. So fnd repeats the request on the next
//! occasions, and forgets the version only after that.

use fnd_wire::ids::{FunctionName, Version};
use std::collections::{BTreeMap, HashMap};

/// Most versions that a request to the spawner can list as kept: so many fit into a frame.
const NAMED_MAX: usize = 1000;

/// How many requests are made for a version before it is forgotten. A launcher ends with its last run, and each end of
/// a run is an occasion: five occasions are enough even for a slow launcher.
const ASKS: u8 = 5;

/// The installed versions of each function, oldest first.
#[derive(Debug, Default)]
pub struct Versions {
    installed: BTreeMap<FunctionName, Vec<Version>>,
    /// Functions whose versions are being deleted. The value says whether somebody wanted to delete more versions meanwhile.
    pruning: HashMap<FunctionName, bool>,
    /// Number of deletion requests for versions that may still be there.
    asked: HashMap<FunctionName, HashMap<Version, u8>>,
}

impl Versions {
    /// Returns the versions that the ledger knows.
    #[must_use]
    pub fn new(installed: HashMap<FunctionName, Vec<Version>>) -> Self {
        Self {
            installed: installed.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Stores that a version was installed and is the newest. Returns the installed versions if they have changed.
    pub fn served(&mut self, function: &FunctionName, version: Version) -> Option<&[Version]> {
        let installed = self.installed.entry(function.clone()).or_default();
        if installed.last() == Some(&version) {
            return None;
        }
        installed.retain(|old| *old != version);
        // The version was installed again, so the earlier requests to delete it do not count.
        if let Some(asked) = self.asked.get_mut(function) {
            asked.remove(&version);
        }
        // Most functions have one version, so the list grows by one place only.
        installed.reserve_exact(1);
        installed.push(version);
        Some(installed)
    }

    /// Returns whether a version of a function is installed, by this fnd or an earlier one.
    #[must_use]
    pub fn is_known(&self, function: &FunctionName) -> bool {
        let installed = self.installed.get(function);
        installed.is_some_and(|installed| !installed.is_empty())
    }

    /// Returns the functions that have at least one version, in the order of their names.
    pub fn functions(&self) -> impl Iterator<Item = &FunctionName> {
        let some = self.installed.iter().filter(|(_, installed)| !installed.is_empty());
        some.map(|(function, _)| function)
    }

    /// Returns whether a function may have versions that can be deleted: more than `keep` are installed, or none is to be
    /// kept.
    #[must_use]
    pub fn has_surplus(&self, function: &FunctionName, keep: usize) -> bool {
        let installed = self.installed.get(function);
        keep == 0 || installed.is_some_and(|installed| installed.len() > keep)
    }

    /// Returns the versions to keep if others can be deleted: the newest `keep` and those in use. Returns nothing if no
    /// version can be deleted.
    #[must_use]
    pub fn to_keep(&self, function: &FunctionName, keep: usize, in_use: &[Version]) -> Option<Vec<Version>> {
        let installed = self.installed.get(function)?;
        let old = installed.len().checked_sub(keep).filter(|old| *old > 0)?;
        let (old, newest) = installed.split_at_checked(old)?;
        let used = old.iter().filter(|version| in_use.contains(version));
        let stay: Vec<_> = used.chain(newest).copied().collect();
        (stay.len() < installed.len() && stay.len() <= NAMED_MAX).then_some(stay)
    }

    /// Notes that the spawner was asked to delete versions of a function.
    pub fn asked(&mut self, function: &FunctionName) {
        self.pruning.insert(function.clone(), false);
    }

    /// Handles the end of a request; `kept` are the versions that were to stay, if it succeeded. Returns the installed versions
    /// if they have changed.
    pub fn answered(&mut self, function: &FunctionName, kept: Option<&[Version]>) -> Option<&[Version]> {
        let (kept, installed) = (kept?, self.installed.get_mut(function)?);
        let before = installed.len();
        let before_that = self.asked.remove(function).unwrap_or_default();
        let mut asked: HashMap<_, _> = installed
            .iter()
            .filter(|version| !kept.contains(version))
            .map(|version| (*version, before_that.get(version).map_or(1, |asks| asks + 1)))
            .collect();
        installed.retain(|version| asked.get(version).is_none_or(|asks| *asks < ASKS));
        asked.retain(|_, asks| *asks < ASKS);
        if !asked.is_empty() {
            self.asked.insert(function.clone(), asked);
        }
        (installed.len() < before).then_some(installed)
    }

    /// Returns whether versions of the function are being deleted.
    #[must_use]
    pub fn is_pruning(&self, function: &FunctionName) -> bool {
        self.pruning.contains_key(function)
    }

    /// Returns whether versions of the function are being deleted. If so, the end of that request reports that more versions
    /// may be deleted.
    pub fn put_off(&mut self, function: &FunctionName) -> bool {
        self.pruning.get_mut(function).map(|again| *again = true).is_some()
    }

    /// Records that a request to delete versions is over. Returns whether somebody wanted to delete more versions meanwhile.
    pub fn is_over(&mut self, function: &FunctionName) -> bool {
        self.pruning.remove(function).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_and_what_is_in_use_stay() {
        let f = FunctionName::new("f").unwrap();
        let version = |n: u8| Version([n; 32]);
        let mut versions = Versions::default();
        for n in [1, 2, 3, 1, 4] {
            versions.served(&f, version(n));
        }
        assert_eq!(versions.served(&f, version(4)), None, "it serves already");
        let keep = |keep, in_use: &[Version]| {
            let kept = versions.to_keep(&f, keep, in_use);
            assert!(versions.has_surplus(&f, keep) || kept.is_none());
            kept.map(|kept| kept.iter().map(|version| version.0[0]).collect::<Vec<_>>())
        };
        assert_eq!(keep(5, &[]), None);
        assert_eq!(keep(4, &[]), None);
        // Changed back to: it is newer than what came between.
        assert_eq!(keep(2, &[]), Some(vec![1, 4]));
        assert_eq!(keep(2, &[version(2)]), Some(vec![2, 1, 4]));
        assert_eq!(keep(2, &[version(2), version(3)]), None);
        assert_eq!(keep(0, &[]), Some(vec![]));
        assert_eq!(keep(0, &[version(2)]), Some(vec![2]));
        let gone = FunctionName::new("gone").unwrap();
        assert!(versions.has_surplus(&gone, 0) && !versions.has_surplus(&gone, 1));
        assert!(versions.has_surplus(&f, 3) && !versions.has_surplus(&f, 4));
        assert_eq!(versions.functions().collect::<Vec<_>>(), [&f]);
    }

    #[test]
    fn functions_are_in_the_order_of_their_names() {
        let names = ('a'..='h').map(|letter| FunctionName::new(&letter.to_string()));
        let sorted: Vec<_> = names.collect::<Result<_, _>>().unwrap();
        let stored = sorted
            .iter()
            .rev()
            .map(|function| (function.clone(), vec![Version([1; 32])]));
        let mut versions = Versions::new(stored.collect());
        assert!(versions.functions().eq(&sorted));
        let new = FunctionName::new("aa").unwrap();
        versions.served(&new, Version([2; 32]));
        assert_eq!(versions.functions().nth(1), Some(&new));
    }

    #[test]
    fn what_was_asked_for_is_asked_for_again() {
        let f = FunctionName::new("f").unwrap();
        let [old, changed_back, new] = [1, 2, 3].map(|n| Version([n; 32]));
        let mut versions = Versions::new([(f.clone(), vec![changed_back, old, new])].into());
        let stay = versions.to_keep(&f, 1, &[]).unwrap();
        assert_eq!(stay, [new]);
        versions.asked(&f);
        assert!(versions.is_pruning(&f));
        assert!(!versions.is_over(&f) && !versions.is_pruning(&f), "nothing was put off");
        assert_eq!(versions.answered(&f, Some(&stay)), None);
        versions.served(&f, changed_back);
        let stay = versions.to_keep(&f, 1, &[]).unwrap();
        assert_eq!(stay, [changed_back]);
        assert_eq!(versions.answered(&f, None), None, "it did not work");
        // The old one was asked for once before, the new one was not.
        for _ in 2..ASKS {
            assert_eq!(versions.answered(&f, Some(&stay)), None);
        }
        assert_eq!(versions.answered(&f, Some(&stay)), Some(&[new, changed_back][..]));
        assert_eq!(versions.answered(&f, Some(&stay)), Some(&[changed_back][..]));
        assert_eq!(versions.to_keep(&f, 1, &[]), None);
    }

    #[test]
    fn what_may_be_deleted_meanwhile_is_deleted_after_that() {
        let f = FunctionName::new("f").unwrap();
        let mut versions = Versions::default();
        assert!(!versions.put_off(&f), "nothing is being deleted");
        versions.asked(&f);
        assert!(versions.put_off(&f));
        assert!(versions.is_over(&f) && !versions.is_over(&f), "once");
    }
}
