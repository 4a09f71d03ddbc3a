//! Compares the functions directories with what was handed on before: what is new, changed, gone or wrong.

use super::walk::{Found, Rules, Signature, walk};
use fnd_core::diagnostic::Diagnostic;
use fnd_core::ids::FunctionName;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// How long a file must be unchanged before it counts as complete when nothing said so (contract, section 2).
const SETTLE_MS: u64 = 2_000;
/// How long a function must be absent before it counts as removed: editors replace files by removing them first.
const ABSENT_MS: u64 = 500;

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
    /// Whether to scan again soon: something is not complete, or absent for too short a time.
    pub unsettled: bool,
}

/// What is remembered of a function's files.
struct Known {
    /// As handed on last.
    applied: Option<(Candidate, Signature)>,
    /// As seen last, and since when.
    seen: Signature,
    seen_since_ms: u64,
    /// Since when nothing was there.
    absent_since_ms: Option<u64>,
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

    /// Compares. `complete` holds paths for which a close or a rename was seen; `now_ms` is the wall clock, because that is
    /// what files carry.
    pub(super) fn scan(&mut self, complete: &HashSet<PathBuf>, now_ms: u64) -> Difference {
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
                known.absent_since_ms = None;
                known.applied = None;
            }
        }
        let clashes: HashSet<_> = difference.clashes.iter().map(|clash| clash.function.clone()).collect();
        for (name, known) in &mut self.known {
            if found.contains_key(name) || clashes.contains(name) {
                known.absent_since_ms = None;
                continue;
            }
            let since = *known.absent_since_ms.get_or_insert(now_ms);
            // `abs_diff`: a clock that was set back must not keep it for ever.
            if now_ms.abs_diff(since) >= ABSENT_MS {
                difference.removed.push(name.clone());
            } else {
                difference.unsettled = true;
            }
        }
        for name in &difference.removed {
            self.known.remove(name);
        }
        for found in found.into_values() {
            self.compare(found, complete, now_ms, &mut difference);
        }
        difference
    }

    /// Hands on what was found of a function, if that is new and complete.
    fn compare(&mut self, found: Found, complete: &HashSet<PathBuf>, now_ms: u64, difference: &mut Difference) {
        let Found { candidate, signature } = found;
        let root = self
            .directories
            .get(usize::from(candidate.directory))
            .map(PathBuf::as_path);
        let known = self.known.entry(candidate.function.clone()).or_insert(Known {
            applied: None,
            seen: signature,
            seen_since_ms: now_ms,
            absent_since_ms: None,
        });
        if known.seen != signature {
            known.seen = signature;
            known.seen_since_ms = now_ms;
        }
        if known
            .applied
            .as_ref()
            .is_some_and(|(c, s)| *c == candidate && *s == signature)
        {
            return;
        }
        // Files that were there long before fnd looked are complete; others after a while without change.
        let old = now_ms.saturating_sub(signature.newest_ms) >= SETTLE_MS;
        let unchanged = now_ms.abs_diff(known.seen_since_ms) >= SETTLE_MS;
        if old || unchanged || root.is_some_and(|root| is_told(root, &candidate, complete)) {
            known.applied = Some((candidate.clone(), signature));
            difference.changed.push(candidate);
        } else {
            difference.unsettled = true;
        }
    }
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
mod tests {
    use super::*;
    use fnd_core::manifest::forms::Claims;
    use fnd_core::runtime::RuntimeSummary;
    use std::fs;

    struct World {
        dir: tempfile::TempDir,
        scanner: Scanner,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let runtime = |suffix: &str| RuntimeSummary {
                id: "r".into(),
                description: String::new(),
                suffixes: vec![suffix.into()],
                aliases: Vec::new(),
                versions: Vec::new(),
                enabled: true,
            };
            let claims = Claims::of(&[runtime(".sh"), runtime(".py")]);
            let rules = Rules {
                claims,
                default_runtime: false,
            };
            let scanner = Scanner::new(vec![dir.path().to_owned()], rules);
            Self { dir, scanner }
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Scans as if `later_ms` had passed since now.
        fn scan(&mut self, later_ms: u64) -> Difference {
            self.scanner.scan(&HashSet::new(), crate::clock::unix_ms() + later_ms)
        }
    }

    fn names(candidates: &[Candidate]) -> Vec<&str> {
        candidates.iter().map(|c| c.function.as_str()).collect()
    }

    #[test]
    fn a_fresh_file_waits_until_it_is_unchanged_for_two_seconds() {
        let mut world = World::new();
        world.write("a.sh", "echo");
        let first = world.scan(0);
        assert!(first.changed.is_empty() && first.unsettled);
        let later = world.scan(2_100);
        assert_eq!(names(&later.changed), ["a"]);
        assert_eq!(world.scan(2_200), Difference::default());
    }

    #[test]
    fn a_closed_file_counts_at_once() {
        let mut world = World::new();
        world.write("ops/a.sh", "echo");
        let complete = HashSet::from([world.dir.path().join("ops/a.sh")]);
        let now = crate::clock::unix_ms();
        assert_eq!(names(&world.scanner.scan(&complete, now).changed), ["ops/a"]);
    }

    #[test]
    fn every_form_is_found_and_the_rest_is_not() {
        let mut world = World::new();
        for name in [
            "one.sh",
            "one.toml",
            "group/two.py",
            "three/function.toml",
            "three/main.py",
            "README.md",
        ] {
            world.write(name, "x");
        }
        for name in [
            ".hidden.sh",
            "a.sh~",
            "b.sh.swp",
            "c.sh.tmp",
            "4913",
            "#d.sh#",
            "__pycache__/e.py",
        ] {
            world.write(name, "x");
        }
        let difference = world.scan(2_100);
        assert_eq!(names(&difference.changed), ["group/two", "one", "three"]);
        assert_eq!(difference.changed[1].sidecar.as_deref(), Some("one.toml"));
        assert!(difference.changed[2].directory_form);
        assert_eq!(difference.unclaimed.len(), 1, "{:?}", difference.unclaimed);
    }

    #[test]
    fn a_changed_sidecar_changes_the_function() {
        let mut world = World::new();
        world.write("a.sh", "echo");
        assert_eq!(world.scan(2_100).changed.len(), 1);
        world.write("a.toml", "enabled = false");
        assert_eq!(names(&world.scan(2_200).changed), ["a"]);
    }

    #[test]
    fn a_clash_names_both_and_hands_on_neither() {
        let mut world = World::new();
        world.write("a.sh", "echo");
        assert_eq!(world.scan(2_100).changed.len(), 1);
        world.write("a.py", "print()");
        let difference = world.scan(4_200);
        assert!(difference.changed.is_empty() && difference.removed.is_empty());
        let line = difference.problems[0].line();
        assert!(line.contains("a.sh") && line.contains("a.py"), "{line}");
        assert_eq!(names(&difference.clashes), ["a"]);
        fs::remove_file(world.dir.path().join("a.sh")).unwrap();
        assert_eq!(names(&world.scan(6_300).changed), ["a"]);
    }

    #[test]
    fn what_is_gone_for_a_moment_is_not_removed() {
        let mut world = World::new();
        world.write("a.sh", "echo");
        world.scan(2_100);
        fs::remove_file(world.dir.path().join("a.sh")).unwrap();
        let difference = world.scan(2_200);
        assert!(difference.removed.is_empty() && difference.unsettled);
        assert_eq!(world.scan(2_800).removed.len(), 1);
    }

    #[test]
    fn a_bad_name_is_a_problem_that_names_the_file() {
        let mut world = World::new();
        world.write("Bad Name.sh", "echo");
        let difference = world.scan(2_100);
        assert!(
            difference.problems[0].line().contains("Bad Name.sh"),
            "{:?}",
            difference.problems
        );
    }
}
