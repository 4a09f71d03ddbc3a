//! Compares the functions directories with the functions reported before: which are new, changed, gone or wrong.
//!
//! A function is gone if its directory could be read and did not contain the function for a while. A part that could
//! not be read stays as it was: [`Presence`] says which directories count, [`in_doubt`] which functions could be in a
//! part that cannot be read.

use super::presence::{DirectoryIdentity, Doubts, KnownDirectories, Observed, Presence, in_doubt};
use super::walk::{CandidateState, Findings, Signature, UNREADABLE, WalkRules, Walked, identity, signature, walk};
use super::written::WrittenFiles;
use fnd_core::interned::{digest, packed};
use fnd_core::lifecycle::SourceFiles;
use fnd_core::run::Now;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::warning::Warning;
use fnd_wire::ids::FunctionName;
use fnd_wire::naming::is_foreign;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a file must be unchanged before it counts as complete if no event said so.
const SETTLE: Duration = Duration::from_secs(2);
/// How long a function must be absent before it counts as removed: editors replace a file by removing it first.
const ABSENT: Duration = Duration::from_millis(500);

/// The result of a scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Functions that are new or changed, and whose files are complete.
    pub changed: Vec<SourceFiles>,
    /// Functions that are gone.
    pub removed: Vec<FunctionName>,
    pub findings: Findings,
    /// The names of secrets that lie encrypted beside functions, and have changed.
    pub secrets: BTreeSet<String>,
    /// All functions whose files are not complete, and so are not in `changed`.
    pub incomplete: Vec<Diagnostic>,
    /// How soon a scan can decide about a function that is not complete or has not been absent for long enough.
    pub unsettled: Option<Duration>,
}

impl Difference {
    fn decide_in(&mut self, left: Duration) {
        self.unsettled = Some(self.unsettled.map_or(left, |sooner| sooner.min(left)));
    }
}

/// A file of another system that cannot be read has the functions that it had before: they are installed again, which
/// says what is wrong with the file, and their last good versions serve. `remembered` counts where no function of the file
/// is known yet.
fn keep_functions_of_broken_files(
    walked: &mut Walked,
    directory: u16,
    known: &BTreeMap<FunctionName, KnownFunction>,
    remembered: &[Remembered],
) {
    for file in &walked.broken {
        let Some(alone) = walked.found.iter().position(|found| found.candidate.source == *file) else {
            continue;
        };
        let is_its = |known: &KnownFunction| known.directory == directory && known.foreign.as_deref() == Some(file);
        let its = known.iter().filter(|(_, known)| is_its(known));
        let mut before: Vec<FunctionName> = its.map(|(name, _)| name.clone()).collect();
        if before.is_empty() {
            let found = walked.found.iter().map(|found| &found.candidate);
            let others: HashSet<_> = found
                .filter(|other| other.source != *file)
                .map(|other| &other.function)
                .collect();
            let its = remembered
                .iter()
                .filter(|one| one.file == *file && !others.contains(&one.function));
            before.extend(its.map(|one| one.function.clone()));
        }
        if before.is_empty() {
            continue;
        }
        let CandidateState { candidate, signature } = walked.found.swap_remove(alone);
        walked.found.extend(before.into_iter().map(|function| CandidateState {
            candidate: SourceFiles {
                function,
                ..candidate.clone()
            },
            signature,
        }));
    }
}

/// A function that a file of another system had when fnd last ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    pub function: FunctionName,
    /// The file, relative to the functions directory.
    pub file: String,
}

/// The known state of a function's files.
#[derive(Default)]
struct KnownFunction {
    /// Index of the functions directory that it was found in last.
    directory: u16,
    /// The state that was reported last: a digest of the candidate, and the state of its files.
    applied: Option<(u64, Signature)>,
    /// The file of another system that has it; absent for functions of all other files.
    foreign: Option<Box<str>>,
    /// Whether events decide if that report is confirmed: the files were not seen unchanged for long enough.
    by_event: bool,
    /// The state seen last, and since when; absent after a clash only.
    seen: Option<Signature>,
    seen_since: Duration,
    /// Whether that state waits to be reported until the files are complete.
    is_incomplete: bool,
    /// Since when no file of the function exists.
    absent_since: Option<Duration>,
}

/// A functions directory.
struct Root {
    index: u16,
    path: PathBuf,
    presence: Presence,
    /// Its groups that are separate mounts.
    groups: BTreeMap<String, Presence>,
    /// The identity of the directory at the last scan, and the device of each group.
    seen: Option<DirectoryIdentity>,
    seen_groups: Vec<(String, u64)>,
}

/// Remembers the reported functions and compares.
pub(super) struct Scanner {
    roots: Vec<Root>,
    pub(super) rules: WalkRules,
    known: BTreeMap<FunctionName, KnownFunction>,
    /// The functions of foreign files when fnd last ran; empty once all directories were read.
    remembered: Vec<Remembered>,
    /// The states of encrypted secrets, as of the last scan.
    encrypted: BTreeMap<PathBuf, u64>,
    /// Whether the next scan accepts empty directories as empty.
    accept_empty: bool,
    /// Whether the first scan is over.
    scanned: bool,
}

impl Scanner {
    /// Returns a scanner that knows no functions yet. `rules` say which files are functions, `held` which directories
    /// held functions when fnd last ran.
    #[must_use]
    pub(super) fn new(directories: Vec<PathBuf>, rules: WalkRules, held: &KnownDirectories) -> Self {
        let root = |(index, path): (u16, PathBuf)| {
            let shown = path.display().to_string();
            let below = |(at, identity): (&String, &DirectoryIdentity)| {
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
            remembered: Vec::new(),
            encrypted: BTreeMap::new(),
            accept_empty: false,
            scanned: false,
        }
    }

    /// Returns the scanner with the functions that foreign files had when fnd last ran.
    #[must_use]
    pub(super) fn remembering(self, remembered: Vec<Remembered>) -> Self {
        Self { remembered, ..self }
    }

    /// Returns the directories that hold functions.
    pub(super) fn held(&self) -> KnownDirectories {
        let mut held = KnownDirectories::new();
        for root in &self.roots {
            let shown = root.path.display().to_string();
            for (group, presence) in &root.groups {
                held.extend(presence.held.map(|identity| (format!("{shown}/{group}"), identity)));
            }
            held.extend(root.presence.held.map(|identity| (shown, identity)));
        }
        held
    }

    /// Returns whether a directory or a group was replaced since the last scan, for example by a mount over it.
    pub(super) fn is_exchanged(&self) -> bool {
        self.roots.iter().any(|root| {
            // A mount over a group gives it another device. Every other change of a group causes an event.
            let device = |group: &String| identity(&root.path.join(group)).ok().map(|identity| identity.device);
            let mut groups = root.seen_groups.iter();
            root.seen != identity(&root.path).ok() || groups.any(|(group, seen)| device(group) != Some(*seen))
        })
    }

    /// Forgets the reported functions, so that the next scan reports all of them again.
    pub(super) fn forget(&mut self) {
        for known in self.known.values_mut() {
            known.applied = None;
        }
    }

    /// Makes the next scan accept empty directories as empty.
    pub(super) fn accept_empty(&mut self) {
        self.accept_empty = true;
    }

    /// Returns whether the files of a reported function are still as they were then; the spawner has read them in the
    /// meantime. If they are not, the function counts as not reported.
    pub(super) fn confirm(&mut self, candidate: &SourceFiles, written: &WrittenFiles) -> bool {
        let Some(known) = self.known.get_mut(&candidate.function) else {
            return false; // the function is gone
        };
        let Some((applied, before)) = &known.applied else {
            // The function is reported again anyway. Without its event nobody knows that the files were complete.
            return !known.by_event;
        };
        if *applied != digest(candidate) {
            return false; // a newer state was reported
        }
        let root = self.roots.get(usize::from(candidate.directory));
        let same = root.is_some_and(|root| {
            let again = known.by_event && written.is_writing(&root.path, candidate);
            // Files that cannot be read count as changed: nobody knows whether the spawner has read the same.
            !again && signature(&root.path, candidate, &self.rules).is_ok_and(|now| now == *before)
        });
        if same {
            known.by_event = false;
        } else {
            known.applied = None;
        }
        same
    }

    /// Returns whether the last scan found files of a function that are not complete, and so did not report them.
    pub(super) fn is_incomplete(&self, function: &FunctionName) -> bool {
        let known = self.known.get(function);
        known.is_some_and(|known| known.is_incomplete && known.absent_since.is_none())
    }

    /// Returns whether the answer to [`Scanner::confirm`] depends on events.
    pub(super) fn needs_events(&self, candidate: &SourceFiles) -> bool {
        let known = self.known.get(&candidate.function);
        known.is_some_and(|known| known.by_event)
    }

    /// Notes that events were lost: files that are complete only by an event may have been written to since then.
    pub(super) fn lost(&mut self) {
        for known in self.known.values_mut().filter(|known| known.by_event) {
            known.applied = None;
        }
    }

    /// Compares the directories with the reported functions. `written` says which files were closed or renamed. The age
    /// of a file's time stamps is by the wall clock; the time since a state was seen is by the monotonic clock.
    pub(super) fn scan(&mut self, written: &WrittenFiles, now: Now) -> Difference {
        let mut difference = Difference::default();
        let mut found: BTreeMap<FunctionName, CandidateState> = BTreeMap::new();
        let mut doubts = Vec::new();
        let mut encrypted = BTreeMap::new();
        let accept = std::mem::take(&mut self.accept_empty);
        let paths: Vec<String> = self.roots.iter().map(|root| root.path.display().to_string()).collect();
        let root_of = |index: u16| paths.get(usize::from(index)).map_or("", String::as_str);
        for root in &mut self.roots {
            let mut walked = walk(root.index, &root.path, &self.rules);
            root.check(&mut walked, &self.known, accept, now.mono);
            keep_functions_of_broken_files(&mut walked, root.index, &self.known, &self.remembered);
            // A directory that came back may not be complete yet: it gets the time for which a function may be absent.
            if let Some(left) = root
                .presence
                .back
                .and_then(|back| left(ABSENT, now.mono.saturating_sub(back)))
            {
                difference.decide_in(left);
            }
            difference.findings.extend(walked.findings);
            encrypted.extend(walked.encrypted);
            doubts.push(walked.doubts);
            for one in walked.found {
                match found.entry(one.candidate.function.clone()) {
                    Entry::Vacant(place) => drop(place.insert(one)),
                    // The first directory wins (`/etc` over uploads).
                    Entry::Occupied(first) => {
                        let shown = |one: &SourceFiles| format!("{}/{}", root_of(one.directory), one.source);
                        let (first, second) = (shown(&first.get().candidate), shown(&one.candidate));
                        let problem = shadowed(&one.candidate.function, &first, &second);
                        difference.findings.problems.push(problem);
                    }
                }
            }
        }
        let doubted = doubts.iter().any(|doubts: &Doubts| !doubts.is_empty());
        if !doubted {
            // Every file was read or found broken: from now on the known functions count.
            self.remembered = Vec::new();
        }
        self.compare_secrets(encrypted, written, doubted, &mut difference);
        let clashes = &difference.findings.clashes;
        for (clash, _) in clashes {
            found.remove(&clash.function);
            // The function is not gone. When the clash is over, the remaining file is reported again, and this ends the
            // error. It is known even if no file of it was ever reported: it is removed when all of them are gone.
            let new = || KnownFunction {
                directory: clash.directory,
                ..KnownFunction::default()
            };
            let known = self.known.entry(clash.function.clone()).or_insert_with(new);
            known.absent_since = None;
            known.applied = None;
            known.is_incomplete = false;
        }
        let clashes: HashSet<_> = clashes.iter().map(|(clash, _)| clash.function.clone()).collect();
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
        let before = self.known.len();
        for found in found.into_values() {
            self.compare(found, written, now, &mut difference);
        }
        // Functions that are found in the order of their names leave the nodes of the map half empty.
        if self.known.len() > before.saturating_mul(2) {
            self.known = packed(std::mem::take(&mut self.known));
        }
        self.scanned = true;
        difference
    }

    /// Reports the encrypted secrets that are new, changed or gone since the last scan. One that is being written waits for its
    /// end; of one that no event reports, a part may be read, which is refused, and the next scan reports the rest. While a
    /// part of the directories can't be read (`doubted`), none is gone.
    fn compare_secrets(
        &mut self,
        found: BTreeMap<PathBuf, u64>,
        written: &WrittenFiles,
        doubted: bool,
        difference: &mut Difference,
    ) {
        let before = std::mem::take(&mut self.encrypted);
        for (path, state) in before.iter().filter(|(path, _)| !found.contains_key(*path)) {
            if doubted {
                self.encrypted.insert(path.clone(), *state);
            } else {
                difference.secrets.extend(secret(path));
            }
        }
        for (path, state) in found {
            let known = before.get(&path);
            if known != Some(&state) && written.writing.contains(&path) {
                difference.decide_in(SETTLE);
                self.encrypted.extend(known.map(|known| (path, *known)));
                continue;
            }
            if known != Some(&state) && self.scanned {
                difference.secrets.extend(secret(&path));
            }
            self.encrypted.insert(path, state);
        }
    }

    /// Reports a function if its state is new and complete.
    fn compare(&mut self, found: CandidateState, written: &WrittenFiles, now: Now, difference: &mut Difference) {
        let CandidateState { candidate, signature } = found;
        // The scan has found the candidate below one of the roots.
        let root = self.roots.get(usize::from(candidate.directory));
        let root = root.map_or(Path::new(""), |root| root.path.as_path());
        let known = self.known.entry(candidate.function.clone()).or_default();
        known.directory = candidate.directory;
        let foreign = Some(&*candidate.source).filter(|source| is_foreign(source));
        if known.foreign.as_deref() != foreign {
            known.foreign = foreign.map(Box::from);
        }
        if known.seen != Some(signature) {
            known.seen = Some(signature);
            known.seen_since = now.mono;
        }
        let state = (digest(&candidate), signature);
        known.is_incomplete = false;
        if known.applied == Some(state) {
            return;
        }
        // Files whose last change is long before the scan are complete; others are complete after a while without
        // change.
        let closed = written.is_complete(root, &candidate);
        let old = Duration::from_millis(now.unix_ms.saturating_sub(signature.newest_ms));
        let unchanged = now.mono.saturating_sub(known.seen_since);
        // The age says nothing about a file that is being written to: the clock may have been set, and a file server has
        // a clock of its own.
        let is_writing = written.is_writing(root, &candidate);
        let age = if is_writing { Duration::ZERO } else { old };
        match left(SETTLE, age.max(unchanged)) {
            Some(left) if !closed => {
                known.is_incomplete = true;
                difference.incomplete.push(incomplete(&root.join(&candidate.source)));
                difference.decide_in(left);
            }
            left => {
                // For the same reason events count until the file was unchanged for long enough. Files that are old at
                // the first scan do without: there may be ten thousand of them.
                known.by_event = left.is_some() || (self.scanned && unchanged < SETTLE);
                known.applied = Some(state);
                difference.changed.push(candidate);
            }
        }
    }
}

impl Root {
    /// Takes the result of reading: if the directory or a group does not count, `walked` doubts all of it.
    fn check(
        &mut self,
        walked: &mut Walked,
        known: &BTreeMap<FunctionName, KnownFunction>,
        accept: bool,
        mono: Duration,
    ) {
        let ours = || known.iter().filter(|(_, known)| known.directory == self.index);
        self.seen = match walked.observed {
            Observed::Read { identity, .. } => Some(identity),
            Observed::Missing | Observed::Unreadable(_) => None,
        };
        let devices = walked.groups.iter();
        self.seen_groups = devices
            .map(|(group, identity, _)| (group.clone(), identity.device))
            .collect();
        if let Some(why) = self
            .presence
            .observed(&walked.observed, ours().next().is_some(), accept, mono)
        {
            *walked = Walked::default();
            walked.doubts.everything = true;
            let why = why.in_file(&self.path.display().to_string());
            walked.findings.unread.push(why);
            return;
        }
        let Some(root) = self.seen else { return };
        for (group, identity, empty) in &walked.groups {
            let is_mount = identity.device != root.device;
            // A group that is no mount is a part of its directory: when it is empty, its functions were deleted. Only a
            // mount can be away.
            if !self.groups.contains_key(group) && (*empty || !is_mount) {
                continue;
            }
            let presence = self.groups.entry(group.clone()).or_default();
            let observed = Observed::Read {
                // The device tells a mounted group from the directory below the mount. A group that was created anew on
                // the same device counts as the same.
                identity: DirectoryIdentity { inode: 0, ..*identity },
                empty: *empty,
            };
            let knows = ours().any(|(name, _)| is_in(group, name));
            if let Some(why) = presence.observed(&observed, knows, accept, mono) {
                walked.doubts.groups.insert(group.clone());
                let why = why.in_file(&self.path.join(group).display().to_string());
                walked.findings.unread.push(why);
            }
        }
        // The group was removed, or no function is expected in it any more.
        let there = |group: &String| {
            walked.doubts.groups.contains(group) || walked.groups.iter().any(|(other, ..)| other == group)
        };
        self.groups
            .retain(|group, presence| presence.held.is_some() && there(group));
    }

    /// Updates where functions are expected, after some were removed.
    fn expect(&mut self, known: &BTreeMap<FunctionName, KnownFunction>) {
        let ours = || known.iter().filter(|(_, known)| known.directory == self.index);
        if ours().next().is_none() {
            self.presence.expect_nothing();
        }
        for (group, presence) in &mut self.groups {
            if !ours().any(|(name, _)| is_in(group, name)) {
                presence.expect_nothing();
            }
        }
        self.groups.retain(|_, presence| presence.held.is_some());
    }
}

fn is_in(group: &str, name: &FunctionName) -> bool {
    name.as_str()
        .strip_prefix(group)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the warning that a file is not used, since another functions directory has the function.
fn shadowed(function: &FunctionName, first: &str, second: &str) -> Diagnostic {
    let message = format!("it is not used: `{first}` has the name `{function}` too, and its directory comes first");
    let help = format!("remove one of the two; `fndctl remove {function}` removes an uploaded one");
    Diagnostic::warning(Warning::Shadowed, message)
        .in_file(second)
        .with_help(help)
}

/// Returns the problem of files that are being written for long.
fn incomplete(path: &Path) -> Diagnostic {
    let problem = Diagnostic::error(
        UNREADABLE,
        "it is still being written, so its content is not in use yet",
    );
    let help =
        "it is read once nothing has changed it for 2 s: files that a function writes belong into `$STATE_DIRECTORY`";
    problem.in_file(&path.display().to_string()).with_help(help)
}

/// Returns the name of the secret in an encrypted file.
fn secret(path: &Path) -> Option<String> {
    path.file_stem()?.to_str().map(str::to_owned)
}

/// Returns the rest of a time; nothing if the time is over.
fn left(time: Duration, passed: Duration) -> Option<Duration> {
    time.checked_sub(passed).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests;
