//! Compares the functions directories with what was handed on before: what is new, changed, gone or wrong.

use super::walk::{Found, Rules, Signature, walk};
use fnd_core::diagnostic::Diagnostic;
use fnd_core::ids::FunctionName;
use fnd_core::supervisor::Now;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
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
    /// As handed on last.
    applied: Option<(Candidate, Signature)>,
    /// As seen last, and since when.
    seen: Signature,
    seen_since: Duration,
    /// Since when nothing was there.
    absent_since: Option<Duration>,
}

/// Remembers what was handed on and compares.
pub(super) struct Scanner {
    directories: Vec<PathBuf>,
    rules: Rules,
    known: BTreeMap<FunctionName, Known>,
}

impl Scanner {
    /// Returns a scanner that knows nothing yet. `rules` say which files are functions.
    #[must_use]
    pub(super) fn new(directories: Vec<PathBuf>, rules: Rules) -> Self {
        Self {
            directories,
            rules,
            known: BTreeMap::new(),
        }
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

    /// Compares. `complete` holds paths for which a close or a rename was seen. The wall clock is what files carry; what
    /// was seen is timed by the other one.
    pub(super) fn scan(&mut self, complete: &HashSet<PathBuf>, now: Now) -> Difference {
        let mut difference = Difference::default();
        let mut found: BTreeMap<FunctionName, Found> = BTreeMap::new();
        for (index, root) in (0..).zip(&self.directories) {
            let walked = walk(index, root, &self.rules);
            difference.problems.extend(walked.problems);
            difference.unclaimed.extend(walked.unclaimed);
            difference.clashes.extend(walked.clashes);
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
        for (name, known) in &mut self.known {
            if found.contains_key(name) || clashes.contains(name) {
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
        for found in found.into_values() {
            self.compare(found, complete, now, &mut difference);
        }
        difference
    }

    /// Hands on what was found of a function, if that is new and complete.
    fn compare(&mut self, found: Found, complete: &HashSet<PathBuf>, now: Now, difference: &mut Difference) {
        let Found { candidate, signature } = found;
        let root = self
            .directories
            .get(usize::from(candidate.directory))
            .map(PathBuf::as_path);
        let known = self.known.entry(candidate.function.clone()).or_insert(Known {
            applied: None,
            seen: signature,
            seen_since: now.mono,
            absent_since: None,
        });
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
        let old = Duration::from_millis(now.unix_ms.saturating_sub(signature.newest_ms));
        let unchanged = now.mono.saturating_sub(known.seen_since);
        match left(SETTLE, old.max(unchanged)) {
            Some(left) if !root.is_some_and(|root| is_told(root, &candidate, complete)) => difference.decide_in(left),
            _ => {
                known.applied = Some((candidate.clone(), signature));
                difference.changed.push(candidate);
            }
        }
    }
}

/// Returns what is left of a time; nothing when it is over.
fn left(time: Duration, passed: Duration) -> Option<Duration> {
    time.checked_sub(passed).filter(|left| !left.is_zero())
}

/// Says whether a close or a rename of one of the candidate's files was seen.
fn is_told(root: &Path, candidate: &Candidate, complete: &HashSet<PathBuf>) -> bool {
    let path = root.join(&candidate.source);
    let sidecar = candidate.sidecar.as_ref().map(|sidecar| root.join(sidecar));
    complete.contains(&path)
        || sidecar.is_some_and(|sidecar| complete.contains(&sidecar))
        || (candidate.directory_form && complete.iter().any(|done| done.starts_with(&path)))
}

#[cfg(test)]
mod tests;
