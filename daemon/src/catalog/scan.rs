//! Compares the functions directories with what was handed on before: what is new, changed, gone or wrong.
//!
//! A function is gone when its directory could be read and was without it for a while. What could not be looked at stays as
//! it was: [`Presence`] says which directories count, [`in_doubt`] which functions a part that cannot be read could hold.

use super::presence::{Held, Identity, Observed, Presence, in_doubt};
use super::walk::{Found, Rules, Signature, Walked, identity, signature, walk};
use super::written::Written;
use fnd_core::diagnostic::Diagnostic;
use fnd_core::supervisor::Now;
use fnd_wire::ids::FunctionName;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

/// How long a file must be unchanged before it counts as complete when nothing said so (contract, section 2).
const SETTLE: Duration = Duration::from_secs(2);
/// How long a function must be absent before it counts as removed: editors replace files by removing them first.
const ABSENT: Duration = Duration::from_millis(500);

/// A function's files.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// Its name.
    pub function: FunctionName,
    /// Index of the functions directory.
    pub directory: u16,
    /// Code file or directory, relative to it.
    pub source: String,
    /// Sidecar manifest, relative to it.
    pub sidecar: Option<String>,
    /// Whether `source` is a directory with `function.toml`.
    pub directory_form: bool,
}

/// What a scan found out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// New or changed, and complete.
    pub changed: Vec<Candidate>,
    /// Gone.
    pub removed: Vec<FunctionName>,
    /// Functions that two files claim now, all of them; the version already serving keeps serving.
    pub clashes: Vec<Candidate>,
    /// What is wrong now, all of it.
    pub problems: Vec<Diagnostic>,
    /// Files that no rule claims, all of them.
    pub unclaimed: Vec<String>,
    /// What could not be looked at now, all of it: functions that are not found may be there.
    pub unread: Vec<Diagnostic>,
    /// Something is not complete, or absent for too short a time: how soon a scan can decide about it.
    pub unsettled: Option<Duration>,
}

impl Difference {
    fn decide_in(&mut self, left: Duration) {
        self.unsettled = Some(self.unsettled.map_or(left, |sooner| sooner.min(left)));
    }
}

/// What is remembered of a function's files.
struct Known {
    /// Index of the functions directory that it was found in last.
    directory: u16,
    /// As handed on last.
    applied: Option<(Candidate, Signature)>,
    /// Whether that was because of a close or a rename.
    by_close: bool,
    /// As seen last, and since when.
    seen: Signature,
    seen_since: Duration,
    /// Since when nothing was there.
    absent_since: Option<Duration>,
}

/// A functions directory.
struct Root {
    index: u16,
    path: PathBuf,
    presence: Presence,
    /// Its groups that are mounted by themselves.
    groups: BTreeMap<String, Presence>,
    /// Which directory it was at the last scan, and the device of each group.
    seen: Option<Identity>,
    seen_groups: Vec<(String, u64)>,
}

/// Remembers what was handed on and compares.
pub(super) struct Scanner {
    roots: Vec<Root>,
    rules: Rules,
    known: BTreeMap<FunctionName, Known>,
    /// Whether the next scan takes empty directories for what they are.
    accept_empty: bool,
}

impl Scanner {
    /// Returns a scanner that knows no functions yet. `rules` say which files are functions, `held` which directories held
    /// some when fnd ran last.
    #[must_use]
    pub(super) fn new(directories: Vec<PathBuf>, rules: Rules, held: &Held) -> Self {
        let root = |(index, path): (u16, PathBuf)| {
            let shown = path.display().to_string();
            let below = |(at, identity): (&String, &Identity)| {
                let group = at.strip_prefix(&shown)?.strip_prefix('/')?;
                Some((group.to_owned(), Presence::new(Some(*identity))))
            };
            Root {
                index,
                presence: Presence::new(held.get(&shown).copied()),
                groups: held.iter().filter_map(below).collect(),
                seen: None,
                seen_groups: Vec::new(),
                path,
            }
        };
        Self {
            roots: (0..).zip(directories).map(root).collect(),
            rules,
            known: BTreeMap::new(),
            accept_empty: false,
        }
    }

    /// Returns the directories that hold functions.
    pub(super) fn held(&self) -> Held {
        let mut held = Held::new();
        for root in &self.roots {
            let shown = root.path.display().to_string();
            for (group, presence) in &root.groups {
                held.extend(presence.held().map(|identity| (format!("{shown}/{group}"), identity)));
            }
            held.extend(root.presence.held().map(|identity| (shown, identity)));
        }
        held
    }

    /// Says whether a directory or a group is another one than at the last scan: something was mounted over it, for example.
    pub(super) fn is_exchanged(&self) -> bool {
        self.roots.iter().any(|root| {
            let device = |group: &String| identity(&root.path.join(group)).ok().map(|identity| identity.device);
            let mut groups = root.seen_groups.iter();
            root.seen != identity(&root.path).ok() || groups.any(|(group, seen)| device(group) != Some(*seen))
        })
    }

    /// Replaces what says which files are functions.
    pub(super) fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Forgets what was handed on, so that the next scan hands on everything again.
    pub(super) fn forget(&mut self) {
        for known in self.known.values_mut() {
            known.applied = None;
        }
    }

    /// The next scan takes empty directories for what they are.
    pub(super) fn accept_empty(&mut self) {
        self.accept_empty = true;
    }

    /// Says whether what was handed on still lies there as it did then: somebody has read it meanwhile. Otherwise it counts as
    /// not handed on.
    pub(super) fn confirm(&mut self, candidate: &Candidate, written: &Written) -> bool {
        let Some(known) = self.known.get_mut(&candidate.function) else {
            return false; // it is gone
        };
        let Some((applied, before)) = &known.applied else {
            return true; // it is handed on once more anyway
        };
        if applied != candidate {
            return false; // what is newer is on its way
        }
        let root = self.roots.get(usize::from(candidate.directory));
        let same = root.is_some_and(|root| {
            let again = known.by_close && written.is_writing(&root.path, candidate);
            !again && signature(&root.path, candidate).is_ok_and(|now| now == *before)
        });
        if !same {
            known.applied = None;
        }
        same
    }

    /// Compares. `written` says which files were closed or renamed. The wall clock is what files carry; what was seen is
    /// timed by the other one.
    pub(super) fn scan(&mut self, written: &Written, now: Now) -> Difference {
        let mut difference = Difference::default();
        let mut found: BTreeMap<FunctionName, Found> = BTreeMap::new();
        let mut doubts = Vec::new();
        let accept = std::mem::take(&mut self.accept_empty);
        for root in &mut self.roots {
            let mut walked = walk(root.index, &root.path, &self.rules);
            root.look(&mut walked, &self.known, accept, now.mono);
            // What came back may not be complete: it gets the time that a function gets to be absent.
            if let Some(left) = root
                .presence
                .back()
                .and_then(|back| left(ABSENT, now.mono.saturating_sub(back)))
            {
                difference.decide_in(left);
            }
            difference.problems.extend(walked.problems);
            difference.unclaimed.extend(walked.unclaimed);
            difference.clashes.extend(walked.clashes);
            difference.unread.extend(walked.unread);
            doubts.push(walked.doubts);
            for one in walked.found {
                // A directory named first wins (`/etc` over uploads).
                found.entry(one.candidate.function.clone()).or_insert(one);
            }
        }
        for clash in &difference.clashes {
            found.remove(&clash.function);
            if let Some(known) = self.known.get_mut(&clash.function) {
                // Not gone. Whichever file is left when the clash is over is handed on again, and ends its error.
                known.absent_since = None;
                known.applied = None;
            }
        }
        let clashes: HashSet<_> = difference.clashes.iter().map(|clash| clash.function.clone()).collect();
        let known = &self.known;
        found.retain(|name, found| {
            let directory = known.get(name).map(|known| known.directory);
            !in_doubt(&doubts, directory, Some(&found.candidate), name)
        });
        for (name, known) in &mut self.known {
            let there = found.contains_key(name) || clashes.contains(name);
            if there || in_doubt(&doubts, Some(known.directory), None, name) {
                known.absent_since = None;
                continue;
            }
            let since = *known.absent_since.get_or_insert(now.mono);
            match left(ABSENT, now.mono.saturating_sub(since)) {
                Some(left) => difference.decide_in(left),
                None => difference.removed.push(name.clone()),
            }
        }
        for name in &difference.removed {
            self.known.remove(name);
        }
        if !difference.removed.is_empty() {
            self.roots.iter_mut().for_each(|root| root.expect(&self.known));
        }
        for found in found.into_values() {
            self.compare(found, written, now, &mut difference);
        }
        difference
    }

    /// Hands on what was found of a function, if that is new and complete.
    fn compare(&mut self, found: Found, written: &Written, now: Now, difference: &mut Difference) {
        let Found { candidate, signature } = found;
        let root = self.roots.get(usize::from(candidate.directory));
        let root = root.map(|root| root.path.as_path());
        let known = self.known.entry(candidate.function.clone()).or_insert(Known {
            directory: candidate.directory,
            applied: None,
            by_close: false,
            seen: signature,
            seen_since: now.mono,
            absent_since: None,
        });
        known.directory = candidate.directory;
        if known.seen != signature {
            known.seen = signature;
            known.seen_since = now.mono;
        }
        if known
            .applied
            .as_ref()
            .is_some_and(|(c, s)| *c == candidate && *s == signature)
        {
            return;
        }
        // Files that were there long before fnd looked are complete; others after a while without change.
        let closed = root.is_some_and(|root| written.is_complete(root, &candidate));
        let old = Duration::from_millis(now.unix_ms.saturating_sub(signature.newest_ms));
        let unchanged = now.mono.saturating_sub(known.seen_since);
        match left(SETTLE, old.max(unchanged)) {
            Some(left) if !closed => difference.decide_in(left),
            left => {
                known.by_close = left.is_some();
                known.applied = Some((candidate.clone(), signature));
                difference.changed.push(candidate);
            }
        }
    }
}

impl Root {
    /// Takes in a look: where the directory or a group does not count, `walked` doubts all of it.
    fn look(&mut self, walked: &mut Walked, known: &BTreeMap<FunctionName, Known>, accept: bool, mono: Duration) {
        let ours = || known.iter().filter(|(_, known)| known.directory == self.index);
        self.seen = match walked.looked {
            Observed::Read { identity, .. } => Some(identity),
            Observed::Missing | Observed::Unreadable(_) => None,
        };
        let devices = walked.groups.iter();
        self.seen_groups = devices
            .map(|(group, identity, _)| (group.clone(), identity.device))
            .collect();
        if let Some(why) = self
            .presence
            .observed(&walked.looked, ours().next().is_some(), accept, mono)
        {
            *walked = Walked::nothing();
            walked.doubts.everything = true;
            walked.unread.push(why.in_file(&self.path.display().to_string()));
            return;
        }
        let Some(root) = self.seen else { return };
        for (group, identity, empty) in &walked.groups {
            let is_mount = identity.device != root.device;
            if !self.groups.contains_key(group) && (*empty || !is_mount) {
                continue;
            }
            let presence = self.groups.entry(group.clone()).or_default();
            let looked = Observed::Read {
                identity: of_mount(*identity),
                empty: *empty,
            };
            let knows = ours().any(|(name, _)| is_in(group, name));
            if let Some(why) = presence.observed(&looked, knows, accept, mono) {
                walked.doubts.groups.insert(group.clone());
                walked
                    .unread
                    .push(why.in_file(&self.path.join(group).display().to_string()));
            }
        }
        // Removed, or nothing is expected in it any more.
        let there = |group: &String| {
            walked.doubts.groups.contains(group) || walked.groups.iter().any(|(other, ..)| other == group)
        };
        self.groups
            .retain(|group, presence| presence.held().is_some() && there(group));
    }
}

impl Root {
    /// Looks where functions are expected, after some were removed.
    fn expect(&mut self, known: &BTreeMap<FunctionName, Known>) {
        let ours = || known.iter().filter(|(_, known)| known.directory == self.index);
        if ours().next().is_none() {
            self.presence.expect_nothing();
        }
        for (group, presence) in &mut self.groups {
            if !ours().any(|(name, _)| is_in(group, name)) {
                presence.expect_nothing();
            }
        }
        self.groups.retain(|_, presence| presence.held().is_some());
    }
}

fn is_in(group: &str, name: &FunctionName) -> bool {
    name.as_str()
        .strip_prefix(group)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Returns what tells a mounted group from the directory it is mounted on. One that was made anew on the same device is as
/// good as the one before.
fn of_mount(identity: Identity) -> Identity {
    Identity { inode: 0, ..identity }
}

/// Returns what is left of a time; nothing when it is over.
fn left(time: Duration, passed: Duration) -> Option<Duration> {
    time.checked_sub(passed).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests;
