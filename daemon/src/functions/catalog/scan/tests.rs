use super::*;
use fnd_manifest::function::forms::Claims;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

mod absence;

struct World {
    dir: tempfile::TempDir,
    scanner: Scanner,
    start_ms: u64,
}

impl World {
    fn new() -> Self {
        Self::with_uploads_in("elsewhere")
    }

    /// Returns a world in which the directory of uploads has this name; the scanner reads `f`.
    fn with_uploads_in(uploads: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let claims = Claims::of(&[".sh".to_owned(), ".py".to_owned()]);
        let rules = WalkRules {
            claims,
            default_runtime: false,
            uploads: dir.path().join(uploads),
        };
        fs::create_dir(dir.path().join("f")).unwrap();
        // Tests scan as another user, who must be able to enter the directory.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let scanner = Scanner::new(vec![dir.path().join("f")], rules, &KnownDirectories::new());
        Self {
            dir,
            scanner,
            start_ms: crate::clock::unix_ms(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("f").join(name)
    }

    /// Writes a file as if that took no time since the start: how old it is then depends on the scan alone.
    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::File::create(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let start = std::time::UNIX_EPOCH + Duration::from_millis(self.start_ms);
        file.set_modified(start).unwrap();
    }

    /// Scans as if `later_ms` had passed since the start.
    fn scan(&mut self, later_ms: u64) -> Difference {
        let now = self.now(later_ms);
        self.scanner.scan(&WrittenFiles::default(), now)
    }

    fn now(&self, later_ms: u64) -> Now {
        Now {
            mono: Duration::from_millis(later_ms),
            unix_ms: self.start_ms + later_ms,
        }
    }
}

fn names(candidates: &[SourceFiles]) -> Vec<&str> {
    candidates.iter().map(|c| c.function.as_str()).collect()
}

#[test]
fn a_fresh_file_waits_until_it_is_unchanged_for_two_seconds() {
    let mut world = World::new();
    world.write("a.sh", "echo");
    let first = world.scan(0);
    assert!(first.changed.is_empty() && first.unsettled.is_some());
    let path = world.path("a.sh").display().to_string();
    let [incomplete] = &first.incomplete[..] else {
        panic!("{:?}", first.incomplete)
    };
    assert_eq!(incomplete.file, Some(path));
    let later = world.scan(2_100);
    assert_eq!(names(&later.changed), ["a"]);
    assert_eq!(world.scan(2_200), Difference::default());
}

#[test]
fn files_that_no_rule_claims_are_listed() {
    let mut world = World::new();
    for name in ["a.sh", "x.rb", "README.md", "ops/data.txt"] {
        world.write(name, "x");
    }
    let found = world.scan(0).findings.unclaimed;
    let expected = ["README.md", "x.rb", "ops/data.txt"].map(|name| world.path(name).display().to_string());
    assert_eq!((found.paths, found.more), (expected.to_vec(), 0));
    for number in 0..120 {
        world.write(&format!("{number}.txt"), "x");
    }
    let found = world.scan(1).findings.unclaimed;
    assert_eq!((found.paths.len(), found.count()), (100, 123));
}

/// Otherwise who may upload one function could make, block or change those of others.
#[test]
fn an_uploaded_file_makes_only_the_function_that_it_is_named_for() {
    let function =
        |name: &str| format!("apiVersion: kubeless.io/v1beta1\nkind: Function\nmetadata: {{name: {name}}}\n");
    let set = format!("{}---\n{}", function("mine"), function("theirs"));
    let mut world = World::new();
    world.write("web/mine.yaml", &set);
    assert_eq!(names(&world.scan(3_000).changed), ["web/mine", "web/theirs"]);
    let mut world = World::with_uploads_in("f");
    world.write("web/mine.yaml", &set);
    world.write("web/other.yaml", &function("theirs"));
    assert_eq!(names(&world.scan(3_000).changed), ["web/mine"]);
    // The files beside an upload are of other uploads: it does not depend on them.
    world.write("web/other.yaml", "changed");
    assert_eq!(names(&world.scan(6_000).changed), [""; 0]);
}

#[test]
fn a_closed_file_counts_at_once() {
    let mut world = World::new();
    world.write("ops/a.sh", "echo");
    let mut written = WrittenFiles::default();
    written.closed(world.path("ops/a.sh"));
    let now = world.now(0);
    assert_eq!(names(&world.scanner.scan(&written, now).changed), ["ops/a"]);
}

/// A second writer goes on after the first one's close: the file is not complete yet.
#[test]
fn a_close_counts_only_for_what_was_written_before_it() {
    let mut world = World::new();
    world.write("a.sh", "half");
    let mut written = WrittenFiles::default();
    written.closed(world.path("a.sh"));
    written.written(world.path("a.sh"));
    let now = world.now(0);
    assert_eq!(world.scanner.scan(&written, now).changed, []);
    written.closed(world.path("a.sh"));
    let now = world.now(100);
    assert_eq!(names(&world.scanner.scan(&written, now).changed), ["a"]);
}

/// The same, but the second writer comes after the scan: the bytes read meanwhile are not used.
#[test]
fn what_changed_since_it_was_handed_on_is_not_confirmed() {
    let mut world = World::new();
    for name in ["a.sh", "ops/b.sh", "c/function.toml", "c/main.py"] {
        world.write(name, "x");
    }
    world.write("a.toml", "x");
    let handed_on = world.scan(2_100).changed;
    assert_eq!(names(&handed_on), ["a", "c", "ops/b"]);
    let written = WrittenFiles::default();
    let confirm = |world: &mut World| {
        let each = handed_on
            .iter()
            .map(|candidate| world.scanner.confirm(candidate, &written));
        each.collect::<Vec<_>>()
    };
    assert_eq!(confirm(&mut world), [true, true, true]);
    world.write("a.toml", "changed");
    world.write("c/main.py", "changed");
    assert_eq!(confirm(&mut world), [false, false, true]);
    fs::remove_file(world.path("ops/b.sh")).unwrap();
    assert!(!confirm(&mut world)[2]);
    world.write("ops/b.sh", "x");
    assert_eq!(
        names(&world.scan(5_000).changed),
        ["a", "c", "ops/b"],
        "all of it once more"
    );
}

/// Returns a directory with `a` and `b`, which were closed right before the first scan, and what the scan handed on.
fn two_closed() -> (World, WrittenFiles, Vec<SourceFiles>) {
    let mut world = World::new();
    let mut written = WrittenFiles::default();
    for name in ["a.sh", "b.sh"] {
        world.write(name, "half");
        written.closed(world.path(name));
    }
    let now = world.now(0);
    let handed_on = world.scanner.scan(&written, now).changed;
    (world, written, handed_on)
}

/// The signature is that of the half file: only the event of the write says that the file is not complete.
#[test]
fn what_is_being_written_is_not_confirmed() {
    let (mut world, mut written, handed_on) = two_closed();
    assert!(handed_on.iter().all(|one| world.scanner.needs_events(one)));
    written.written(world.path("a.sh"));
    let confirmed: Vec<_> = handed_on
        .iter()
        .map(|one| world.scanner.confirm(one, &written))
        .collect();
    assert_eq!(confirmed, [false, true]);
    assert!(!world.scanner.needs_events(&handed_on[1]), "a confirmed file is done");
    // A file that has been unchanged for long enough counts, even if a process has it open.
    let now = world.now(2_100);
    let handed_on = world.scanner.scan(&written, now).changed;
    assert!(!world.scanner.needs_events(&handed_on[0]));
    assert!(world.scanner.confirm(&handed_on[0], &written));
}

/// The clock is ahead of the file's time stamp: it was set, or the files are on a server with a clock of its own.
#[test]
fn a_file_that_is_being_written_is_not_complete_by_its_age() {
    let mut world = World::new();
    world.scan(0);
    world.write("a.sh", "half");
    let mut written = WrittenFiles::default();
    let ahead = |world: &World, mono| {
        let now = world.now(mono);
        Now {
            unix_ms: now.unix_ms + 86_400_000,
            ..now
        }
    };
    // The event of the write comes after the scan.
    let now = ahead(&world, 1);
    let handed_on = world.scanner.scan(&written, now).changed;
    assert!(world.scanner.needs_events(&handed_on[0]));
    written.written(world.path("a.sh"));
    assert!(!world.scanner.confirm(&handed_on[0], &written));
    // It comes before the next one.
    let now = ahead(&world, 2);
    assert_eq!(world.scanner.scan(&written, now).changed, []);
    let now = ahead(&world, 2_100);
    assert_eq!(
        names(&world.scanner.scan(&written, now).changed),
        ["a"],
        "unchanged for long enough"
    );
}

/// The lost events may have been those of a second writer.
#[test]
fn a_lost_event_confirms_nothing() {
    let (mut world, written, handed_on) = two_closed();
    assert!(world.scanner.confirm(&handed_on[1], &written));
    world.scanner.lost();
    assert!(!world.scanner.confirm(&handed_on[0], &written));
    assert_eq!(names(&world.scan(2_100).changed), ["a"], "what was confirmed stays");
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
    assert_eq!(difference.findings.problems, []);
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
    let [(candidate, problem)] = &difference.findings.clashes[..] else {
        panic!("{:?}", difference.findings.clashes)
    };
    let line = problem.line();
    assert!(line.contains("a.sh") && line.contains("a.py"), "{line}");
    assert_eq!(candidate.function.as_str(), "a");
    fs::remove_file(world.path("a.sh")).unwrap();
    assert_eq!(names(&world.scan(6_300).changed), ["a"]);
}

#[test]
fn a_clash_of_new_files_is_removed_with_them() {
    let mut world = World::new();
    world.write("a.sh", "echo");
    world.write("a.py", "print()");
    assert_eq!(world.scan(2_100).findings.clashes.len(), 1);
    fs::remove_file(world.path("a.sh")).unwrap();
    fs::remove_file(world.path("a.py")).unwrap();
    world.scan(2_200);
    assert_eq!(world.scan(2_800).removed.len(), 1);
}

#[test]
fn what_is_gone_for_a_moment_is_not_removed() {
    let mut world = World::new();
    world.write("a.sh", "echo");
    world.scan(2_100);
    fs::remove_file(world.path("a.sh")).unwrap();
    let difference = world.scan(2_200);
    assert!(difference.removed.is_empty() && difference.unsettled.is_some());
    assert_eq!(world.scan(2_800).removed.len(), 1);
}

/// Their number is up to whoever writes there, and each problem is kept in memory.
#[test]
fn of_many_bad_names_some_are_named_and_the_rest_is_counted() {
    let mut world = World::new();
    for number in 0..60 {
        world.write(&format!("Bad {number}.sh"), "echo");
        world.write(&format!("group/Bad {number}.sh"), "echo");
    }
    world.write("good.sh", "echo");
    let difference = world.scan(2_100);
    assert_eq!(names(&difference.changed), ["good"]);
    assert_eq!(difference.findings.problems.len(), 101);
    let line = difference.findings.problems[100].line();
    assert!(line.contains("20 more problems"), "{line}");
}

#[test]
fn a_bad_name_is_a_problem_that_names_the_file() {
    let mut world = World::new();
    world.write("Bad Name.sh", "echo");
    let difference = world.scan(2_100);
    assert!(
        difference.findings.problems[0].line().contains("Bad Name.sh"),
        "{:?}",
        difference.findings.problems
    );
}

/// The look that decides comes when it can decide: no sooner, and no later than the file is old enough.
#[test]
fn what_is_not_complete_says_when_to_scan_again() {
    let mut world = World::new();
    world.write("a.sh", "echo");
    assert_eq!(world.scan(0).unsettled, Some(Duration::from_secs(2)));
    assert_eq!(world.scan(1_500).unsettled, Some(Duration::from_millis(500)));
    assert_eq!(names(&world.scan(2_000).changed), ["a"]);
    fs::remove_file(world.path("a.sh")).unwrap();
    assert_eq!(world.scan(2_100).unsettled, Some(Duration::from_millis(500)));
    assert_eq!(world.scan(2_600).removed.len(), 1);
}

/// A file dated in the future is complete when it has not changed for long enough, wherever the wall clock goes meanwhile.
#[test]
fn the_wall_clock_may_jump() {
    let mut world = World::new();
    world.write("a.sh", "echo");
    world.start_ms -= 3_600_000;
    assert_eq!(world.scan(0).unsettled, Some(Duration::from_secs(2)));
    world.start_ms -= 3_600_000;
    assert_eq!(world.scan(1_000).unsettled, Some(Duration::from_secs(1)));
    assert_eq!(names(&world.scan(2_000).changed), ["a"]);
}

#[test]
fn an_encrypted_secret_is_no_function_and_its_changes_are_reported() {
    let mut world = World::new();
    world.write("a.sh", "echo");
    world.write("db.age", "one");
    world.write("ops/b.sh", "echo");
    world.write("ops/token.age", "one");
    let first = world.scan(2_100);
    assert_eq!(names(&first.changed), ["a", "ops/b"]);
    // The functions get their values when they are installed.
    assert!(
        first.secrets.is_empty() && first.findings.unclaimed.count() == 0 && first.findings.problems.is_empty(),
        "{first:?}"
    );
    world.write("db.age", "another");
    world.write("new.age", "one");
    fs::remove_file(world.path("ops/token.age")).unwrap();
    let second = world.scan(2_200);
    assert!(second.changed.is_empty());
    assert_eq!(Vec::from_iter(&second.secrets), ["db", "new", "token"]);
    assert_eq!(world.scan(2_300), Difference::default());
}

#[test]
fn an_encrypted_secret_waits_while_it_is_written_and_is_not_gone_with_its_directory() {
    let mut world = World::new();
    world.write("a.sh", "echo");
    world.write("db.age", "one");
    let _ = world.scan(2_100);
    world.write("db.age", "half of it");
    let mut written = WrittenFiles::default();
    written.written(world.path("db.age"));
    let now = world.now(2_200);
    let during = world.scanner.scan(&written, now);
    assert!(during.secrets.is_empty() && during.unsettled.is_some());
    written.closed(world.path("db.age"));
    let now = world.now(2_300);
    assert_eq!(Vec::from_iter(&world.scanner.scan(&written, now).secrets), ["db"]);
    fs::rename(world.path(""), world.dir.path().join("away")).unwrap();
    assert!(world.scan(2_400).secrets.is_empty());
    fs::rename(world.dir.path().join("away"), world.path("")).unwrap();
    assert!(world.scan(2_500).secrets.is_empty());
}

/// A file of another system that is broken while fnd starts has the functions that it had, unless another file has them now.
#[test]
fn a_file_that_is_broken_at_the_start_has_the_functions_it_had() {
    let mut world = World::new();
    let remembered = [
        ("a", "two.yaml"),
        ("b", "two.yaml"),
        ("c", "two.yaml"),
        ("ops/d", "ops/d.yml"),
        ("x/e", "x/gone.yaml"),
    ];
    let remembered = remembered.map(|(function, file)| Remembered {
        function: FunctionName::new(function).unwrap(),
        file: file.to_owned(),
    });
    let broken = "apiVersion: kubeless.io/v1beta1\nkind: [\n";
    world.write("two.yaml", broken);
    world.write("ops/d.yml", broken);
    world.write("new.yaml", broken);
    world.write("c.sh", "echo");
    world.scanner = world.scanner.remembering(remembered.to_vec());
    // It is too young to be complete.
    assert_eq!(names(&world.scan(0).changed), [""; 0]);
    let first = world.scan(2_100);
    assert_eq!(names(&first.changed), ["a", "b", "c", "new", "ops/d"], "{first:?}");
    let sources: Vec<&str> = first
        .changed
        .iter()
        .map(|candidate| candidate.source.as_str())
        .collect();
    assert_eq!(sources, ["two.yaml", "two.yaml", "c.sh", "new.yaml", "ops/d.yml"]);
    assert!(
        first.findings.problems.is_empty() && first.findings.clashes.is_empty(),
        "{first:?}"
    );
    // Only the first scan asks: a file that comes later brings back nothing.
    world.write("x/gone.yaml", broken);
    assert_eq!(names(&world.scan(2_200).changed), ["x/gone"]);
    // Everything is reported again, with the same functions.
    world.scanner.forget();
    assert_eq!(
        names(&world.scan(2_300).changed),
        ["a", "b", "c", "new", "ops/d", "x/gone"]
    );
}
