//! Functions in a directory that cannot be read are not removed: by example, and against a naive model.

use super::*;
use nix::unistd::{Uid, setfsuid};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

/// Looks with the rights of somebody who may not do everything: this thread's only.
fn as_nobody<T>(action: impl FnOnce() -> T) -> T {
    let before = setfsuid(Uid::from_raw(65_534));
    let result = action();
    setfsuid(before);
    result
}

/// An ordinary user looks as the owner, who gets the rights of others then, and may write.
fn set_mode(path: &Path, mode: u32) {
    let is_root = rustix::process::geteuid().is_root();
    let mode = if is_root { mode } else { (mode & 0o007 | 0o002) << 6 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

impl World {
    /// One with these functions, handed on.
    fn with(names: &[&str]) -> Self {
        let mut world = Self::new();
        names.iter().for_each(|name| world.write(name, "x"));
        assert_eq!(world.scan(2_100).changed.len(), names.len());
        world
    }

    /// Looks several times over a long time. Nothing may be removed or handed on; returns what could not be looked at.
    #[track_caller]
    fn nothing_happens(&mut self, from_ms: u64) -> Vec<Diagnostic> {
        let mut unread = Vec::new();
        for later in [0, 100, 600, 5_000] {
            let difference = as_nobody(|| self.scan(from_ms + later));
            assert_eq!((&difference.removed, &difference.changed), (&vec![], &vec![]));
            unread = difference.findings.unread;
        }
        assert!(!unread.is_empty(), "it is told");
        unread
    }

    #[track_caller]
    fn removed(&mut self, from_ms: u64) -> Vec<String> {
        let first = as_nobody(|| self.scan(from_ms));
        assert_eq!((&first.removed, &first.findings.unread), (&vec![], &vec![]));
        assert_eq!(self.scan(from_ms + 499).removed, []);
        let removed = as_nobody(|| self.scan(from_ms + 500)).removed;
        removed.iter().map(|name| name.as_str().to_owned()).collect()
    }
}

#[test]
fn a_directory_that_is_missing_keeps_its_functions() {
    let mut world = World::with(&["a.sh", "g/b.sh"]);
    fs::rename(world.path(""), world.dir.path().join("elsewhere")).unwrap();
    let unread = world.nothing_happens(3_000);
    assert_eq!(unread[0].code, crate::functions::catalog::AWAY);
    fs::rename(world.dir.path().join("elsewhere"), world.path("")).unwrap();
    // It gets the time that a function gets to be absent.
    assert!(world.scan(10_000).unsettled.is_some());
    assert_eq!(world.scan(10_600), Difference::default());
    fs::remove_file(world.path("a.sh")).unwrap();
    assert_eq!(world.removed(11_000), ["a"]);
}

#[test]
fn a_directory_that_cannot_be_read_keeps_its_functions() {
    let mut world = World::with(&["a.sh"]);
    // By mode; entered but not listed; listed but not entered.
    for (at, mode) in [(3_000, 0o000), (10_000, 0o711), (20_000, 0o744)] {
        set_mode(&world.path(""), mode);
        world.nothing_happens(at);
    }
    set_mode(&world.path(""), 0o755);
    // Neither a directory nor absent.
    fs::rename(world.path(""), world.dir.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("f", world.path("").parent().unwrap().join("f")).unwrap();
    world.nothing_happens(30_000);
}

#[test]
fn an_empty_directory_in_its_place_keeps_its_functions_until_it_holds_some_or_is_accepted() {
    for accept in [false, true] {
        let mut world = World::with(&["a.sh", "b.sh"]);
        fs::rename(world.path(""), world.dir.path().join("elsewhere")).unwrap();
        fs::create_dir(world.path("")).unwrap();
        // People leave such files in a mount point.
        fs::write(world.path("README.md"), "nothing is mounted here").unwrap();
        world.nothing_happens(3_000);
        if accept {
            world.scanner.accept_empty();
            assert_eq!(world.removed(10_000), ["a", "b"]);
        } else {
            world.write("b.sh", "y");
            assert_eq!(world.removed(10_000), ["a"]);
        }
    }
}

#[test]
fn every_file_of_the_same_directory_may_be_removed() {
    let mut world = World::with(&["a.sh", "b.sh"]);
    for name in ["a.sh", "b.sh"] {
        fs::remove_file(world.path(name)).unwrap();
    }
    assert_eq!(world.removed(3_000), ["a", "b"]);
    // Now nothing is expected in it, nor in another one in its place.
    fs::rename(world.path(""), world.dir.path().join("elsewhere")).unwrap();
    fs::create_dir(world.path("")).unwrap();
    assert_eq!(world.scan(5_000), Difference::default());
}

#[test]
fn a_group_that_cannot_be_read_keeps_its_functions() {
    let mut world = World::with(&["a.sh", "g/b.sh"]);
    fs::remove_file(world.path("a.sh")).unwrap();
    for mode in [0o000, 0o711, 0o744] {
        set_mode(&world.path("g"), mode);
        let mut removed = Vec::new();
        for later in [3_000, 3_600] {
            let difference = as_nobody(|| world.scan(later));
            assert_eq!(difference.findings.unread.len(), 1, "{:?}", difference.findings.unread);
            removed.extend(difference.removed);
        }
        assert!(removed.iter().all(|name| name.as_str() == "a"), "{removed:?}");
    }
    set_mode(&world.path("g"), 0o755);
    fs::remove_dir_all(world.path("g")).unwrap();
    assert_eq!(world.removed(10_000), ["g/b"]);
}

/// A manifest that cannot be looked at: without it the code would be another function.
#[test]
fn a_function_is_not_taken_for_one_without_its_manifest() {
    let mut world = World::with(&["a.sh", "c.sh", "hidden/keep.sh"]);
    world.write("a.toml", "on_load = false");
    assert_eq!(names(&world.scan(5_000).changed), ["a"]);
    fs::rename(world.path("a.toml"), world.path("hidden/a.toml")).unwrap();
    std::os::unix::fs::symlink("hidden/a.toml", world.path("a.toml")).unwrap();
    set_mode(&world.path("hidden"), 0o700);
    let unread = world.nothing_happens(10_000);
    assert!(unread[0].line().contains("a.toml"), "{unread:?}");
    set_mode(&world.path("hidden"), 0o755);
}

#[test]
fn what_no_function_could_be_of_is_not_missed() {
    let mut world = World::with(&["a.sh"]);
    fs::create_dir(world.path("lost+found")).unwrap();
    set_mode(&world.path("lost+found"), 0o700);
    assert_eq!(as_nobody(|| world.scan(3_000)).findings.unread, []);
}

/// At the start the directory that held functions is remembered from the time before.
#[test]
fn an_empty_directory_that_is_not_mounted_yet_is_known_at_the_start() {
    let world = World::with(&["a.sh"]);
    let held = world.scanner.held();
    assert_eq!(held.len(), 1);
    let again = |world: &World| {
        let rules = world.scanner.rules.clone();
        Scanner::new(vec![world.dir.path().join("f")], rules, &held)
            .scan(&WrittenFiles::default(), world.now(0))
            .findings
            .unread
            .len()
    };
    assert_eq!(again(&world), 0);
    fs::remove_file(world.path("a.sh")).unwrap();
    assert_eq!(again(&world), 0, "the same directory");
    fs::rename(world.path(""), world.dir.path().join("elsewhere")).unwrap();
    assert_eq!(again(&world), 1, "missing");
    fs::create_dir(world.path("")).unwrap();
    assert_eq!(again(&world), 1, "another one");
}

/// A directory that is named later does not take over a function of one that is away.
#[test]
fn a_later_directory_does_not_stand_in_for_one_that_is_away() {
    let mut world = World::with(&["a.sh"]);
    let later = world.dir.path().join("later");
    fs::create_dir(&later).unwrap();
    let rules = world.scanner.rules.clone();
    world.scanner = Scanner::new(vec![world.path(""), later.clone()], rules, &KnownDirectories::new());
    assert_eq!(world.scan(2_100).changed.len(), 1);
    for name in ["a.sh", "b.sh"] {
        fs::write(later.join(name), "x").unwrap();
    }
    fs::rename(world.path(""), world.dir.path().join("elsewhere")).unwrap();
    world.start_ms += 10_000;
    let difference = world.scan(10_000);
    assert_eq!((names(&difference.changed), difference.removed.len()), (vec!["b"], 0));
}

/// A step of a test of the model.
#[derive(Debug, Clone)]
enum Step {
    /// Puts one of the directories in place, or none.
    Place(Option<usize>),
    /// Puts a link to itself in its place.
    Loop,
    Write(usize),
    Remove(usize),
    /// Forbids the scanning user to enter the directory, or the group in it.
    Deny(bool),
    DenyGroup(bool),
    /// Time passes, and a scan follows.
    Scan {
        after_ms: u64,
        accept: bool,
    },
}

const FILES: [&str; 4] = ["a.sh", "b.sh", "g/a.sh", "g/b.sh"];
const STORES: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => proptest::option::weighted(0.8, 0..STORES).prop_map(Step::Place),
        1 => Just(Step::Loop),
        3 => (0..FILES.len()).prop_map(Step::Write),
        2 => (0..FILES.len()).prop_map(Step::Remove),
        1 => any::<bool>().prop_map(Step::Deny),
        1 => any::<bool>().prop_map(Step::DenyGroup),
        8 => (0..700_u64, proptest::bool::weighted(0.05)).prop_map(|(after_ms, accept)| Step::Scan { after_ms, accept }),
    ]
}

/// One of the directories, as the model knows it.
#[derive(Debug, Clone, Default)]
struct Store {
    files: BTreeSet<usize>,
    has_group: bool,
    denied: bool,
    group_denied: bool,
}

/// The view of one scan: its time, the files it could see, and whether the directory and the group counted.
struct Seen {
    at_ms: u64,
    files: BTreeSet<usize>,
    counts: bool,
    group_counts: bool,
}

impl Seen {
    fn is_without(&self, file: usize) -> bool {
        let counts = self.counts && (self.group_counts || !FILES[file].starts_with("g/"));
        counts && !self.files.contains(&file)
    }
}

/// The rule in its plainest words, from everything that was ever seen.
#[derive(Default)]
struct Model {
    seen: Vec<Seen>,
    known: BTreeSet<usize>,
    /// The directory that held functions last.
    held: Option<usize>,
}

impl Model {
    /// Returns what a scan removes.
    fn scan(&mut self, at_ms: u64, store: Option<(usize, &Store)>, accept: bool) -> BTreeSet<usize> {
        let mut seen = Seen {
            at_ms,
            files: BTreeSet::new(),
            counts: false,
            group_counts: true,
        };
        if let Some((number, store)) = store.filter(|(_, store)| !store.denied) {
            let hidden = store.has_group && store.group_denied;
            seen.group_counts = !hidden;
            let shown = store
                .files
                .iter()
                .filter(|file| !hidden || !FILES[**file].starts_with("g/"));
            seen.files = shown.copied().collect();
            let holds = hidden || !seen.files.is_empty();
            seen.counts = holds || accept || self.held.is_none_or(|held| held == number);
            if seen.counts && (holds || !self.known.is_empty()) {
                self.held = Some(number);
            } else if seen.counts {
                self.held = None;
            }
        }
        if seen.counts {
            self.known.extend(&seen.files);
        }
        self.seen.push(seen);
        let is_gone = |file: &usize| {
            let mut without = self.seen.iter().rev().take_while(|seen| seen.is_without(*file));
            without.any(|seen| at_ms - seen.at_ms >= 500)
        };
        let removed: BTreeSet<usize> = self.known.iter().copied().filter(is_gone).collect();
        self.known.retain(|file| !removed.contains(file));
        let last = self.seen.last().expect("this look");
        if last.counts && last.files.is_empty() && last.group_counts && self.known.is_empty() {
            self.held = None;
        }
        removed
    }
}

/// The real directories that the model's are.
struct Stage {
    world: World,
    at: Option<usize>,
}

impl Stage {
    fn store(&self, number: usize) -> PathBuf {
        self.world.dir.path().join(format!("store{number}"))
    }

    fn place(&mut self, next: Option<usize>, stores: &[Store; STORES]) {
        let here = self.world.dir.path().join("f");
        match self.at.take() {
            Some(before) => fs::rename(&here, self.store(before)).unwrap(),
            None => drop(fs::remove_file(&here)), // a link, or nothing
        }
        if let Some(next) = next {
            fs::rename(self.store(next), &here).unwrap();
            self.allow(Some(&stores[next]));
        }
        self.at = next;
    }

    /// Lets the test change what is there.
    fn open(&self, store: &Store) {
        set_mode(&self.world.path(""), 0o755);
        if store.has_group {
            set_mode(&self.world.path("g"), 0o755);
        }
    }

    /// Sets the modes that the model says.
    fn allow(&self, store: Option<&Store>) {
        let Some(store) = store else { return };
        set_mode(&self.world.path(""), 0o755);
        if store.has_group {
            set_mode(&self.world.path("g"), if store.group_denied { 0o000 } else { 0o755 });
        }
        if store.denied {
            set_mode(&self.world.path(""), 0o000);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A function is removed only after 500 ms of a readable directory without its file.
    #[test]
    fn a_function_is_removed_only_when_its_directory_was_readable_and_without_it(
        steps in proptest::collection::vec(step(), 1..60)
    ) {
        let mut stage = Stage { world: World::new(), at: None };
        fs::remove_dir(stage.world.path("")).unwrap();
        for number in 0..STORES {
            fs::create_dir(stage.store(number)).unwrap();
        }
        let mut stores: [Store; STORES] = Default::default();
        let mut model = Model::default();
        let mut handed_on = BTreeSet::new();
        let mut at_ms = 10_000;
        stage.place(Some(0), &stores);
        for step in steps {
            let at = stage.at;
            match step {
                Step::Place(next) => stage.place(next, &stores),
                Step::Loop => {
                    stage.place(None, &stores);
                    std::os::unix::fs::symlink("f", stage.world.dir.path().join("f")).unwrap();
                }
                Step::Write(file) => if let Some(at) = at {
                    stage.open(&stores[at]);
                    stage.world.write(FILES[file], "x");
                    stores[at].files.insert(file);
                    stores[at].has_group |= FILES[file].starts_with("g/");
                    stage.allow(Some(&stores[at]));
                },
                Step::Remove(file) => if let Some(at) = at.filter(|at| stores[*at].files.remove(&file)) {
                    stage.open(&stores[at]);
                    fs::remove_file(stage.world.path(FILES[file])).unwrap();
                    stage.allow(Some(&stores[at]));
                },
                Step::Deny(denied) => if let Some(at) = at {
                    stores[at].denied = denied;
                    stage.allow(Some(&stores[at]));
                },
                Step::DenyGroup(denied) => if let Some(at) = at {
                    stores[at].group_denied = denied;
                    stage.allow(Some(&stores[at]));
                },
                Step::Scan { after_ms, accept } => {
                    at_ms += after_ms;
                    if accept {
                        stage.world.scanner.accept_empty();
                    }
                    let difference = as_nobody(|| stage.world.scan(at_ms));
                    let expected = model.scan(at_ms, at.map(|at| (at, &stores[at])), accept);
                    let name = |file: &usize| FILES[*file].trim_end_matches(".sh").to_owned();
                    let removed: BTreeSet<String> = difference.removed.iter().map(|name| name.as_str().to_owned()).collect();
                    prop_assert_eq!(&removed, &expected.iter().map(name).collect::<BTreeSet<_>>());
                    handed_on.extend(names(&difference.changed).into_iter().map(str::to_owned));
                    handed_on.retain(|name| !removed.contains(name));
                    prop_assert_eq!(&handed_on, &model.known.iter().map(name).collect::<BTreeSet<_>>());
                }
            }
        }
        // The step that removes the directory can read all of it.
        for number in 0..STORES {
            stage.place(Some(number), &stores);
            stage.open(&stores[number]);
        }
    }
}
