//! Functions whose code comes from a repository or from a web server (`[source]`), with real `git` and `curl`.
//!
//! Files:
//! - `broken`: web servers that fail
//! - `changes`: repositories whose changes are awkward, or refused
//! - `lone_manifest`: `NAME.toml` without code beside it
//! - `push`: the server of a repository tells of a push
//! - `ssh`: a repository behind a real ssh server
//! - `web`: files, archives and repositories of web servers

mod broken;
mod changes;
mod lone_manifest;
mod push;
mod ssh;
mod web;

use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// A repository with one branch, whose functions lie in `functions`.
struct Repository {
    directory: tempfile::TempDir,
}

impl Repository {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Functions have users of their own.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let repository = Self { directory };
        repository.git(&["init", "-q", "-b", "main"]);
        repository
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
            .args(arguments)
            .current_dir(self.directory.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Makes a commit, and returns its hash.
    fn commit(&self) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "change"]);
        self.git(&["rev-parse", "HEAD"])
    }

    fn path(&self) -> &str {
        self.directory.path().to_str().unwrap()
    }
}

fn says(what: &str) -> String {
    format!("def handler(event, context):\n    return '{what}'\n")
}

fn answers(fnd: &Fnd, function: &str, expected: &str) {
    wait_until(expected, PATIENCE, || {
        fnd.invoke(function, "").text().contains(expected).then_some(())
    });
}

/// Waits until the newest content of a function cannot serve; returns why.
fn error_with(fnd: &Fnd, function: &str, part: &str) -> String {
    wait_until(part, PATIENCE, || {
        fnd.function(function)?.error.filter(|error| error.contains(part))
    })
}

/// The count of installations comes first; then each of these removes its function.
#[test]
fn code_of_repositories() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    packages_that_cannot_be_installed_are_one_problem_until_another_commit_comes(&fnd);
    a_repository_that_is_away_is_one_problem_until_it_is_back(&fnd);
    a_function_comes_from_a_repository_and_follows_its_branch(&fnd);
    a_manifest_with_a_source_says_its_mistakes_where_they_are(&fnd);
    fnd.finish();
}

fn a_function_comes_from_a_repository_and_follows_its_branch(fnd: &Fnd) {
    let repository = Repository::new();
    repository.write("functions/shop/main.py", &says("one"));
    repository.write("functions/other/main.py", "not this one(\n");
    let first = repository.commit();
    let manifest = |more: &str| {
        let path = repository.path();
        format!("[source]\ngit = \"{path}\"\nref = \"main\"\ndir = \"functions/shop\"\n{more}")
    };
    fnd.drop_file("shop/function.toml", &manifest(""));
    answers(fnd, "shop", "one");
    let releases = fnd.ctl(&["releases", "shop", "-o", "json"]).out();
    assert!(releases.contains(&format!("commit {first}")), "{releases}");

    // A new commit serves when a person asks for it.
    repository.write("functions/shop/main.py", &says("two"));
    repository.commit();
    let _ = fnd.ctl(&["build", "shop"]).expect_code(0);
    answers(fnd, "shop", "two");
    // The same commit again is no new release.
    let _ = fnd.ctl(&["build", "shop"]).expect_code(0);
    let count = |fnd: &Fnd| fnd.ctl(&["releases", "shop", "-q"]).out().lines().count();
    assert_eq!(count(fnd), 2);
    // A rollback needs no repository, and holds.
    let _ = fnd.ctl(&["rollback", "shop"]).expect_code(0);
    answers(fnd, "shop", "one");

    // And by itself, with `every`; that is an edit, which ends the rollback.
    fnd.drop_file("shop/function.toml", &manifest("every = \"1s\"\n"));
    answers(fnd, "shop", "two");
    repository.write("functions/shop/main.py", &says("three"));
    repository.commit();
    answers(fnd, "shop", "three");
    fnd.remove("shop/function.toml");
    fnd.wait_gone("shop");
}

#[test]
fn what_cannot_be_fetched_says_why_and_the_version_before_serves_also_after_a_restart() {
    require!(root, cgroup);
    let repository = Repository::new();
    repository.write("main.py", &says("good"));
    repository.commit();
    let mut fnd = Fnd::start();
    let drop = |fnd: &Fnd, more: &str| {
        let path = repository.path();
        fnd.drop_file("shop/function.toml", &format!("[source]\ngit = \"{path}\"\n{more}"));
    };
    drop(&fnd, "");
    answers(&fnd, "shop", "good");
    for (more, why) in [
        ("ref = \"gone\"\n", "no branch, tag or commit `gone`"),
        ("dir = \"gone\"\n", "has no directory `gone`"),
        ("dir = \"main.py\"\n", "`main.py` is no directory"),
    ] {
        drop(&fnd, more);
        let error = error_with(&fnd, "shop", why);
        assert!(error.contains("fetching its code from /"), "{error}");
        assert_eq!(fnd.invoke("shop", "").text(), "good");
    }
    // Content that no function may have.
    std::os::unix::fs::symlink("/etc/passwd", Path::new(repository.path()).join("link")).unwrap();
    repository.commit();
    drop(&fnd, "");
    let _ = fnd.ctl(&["build", "shop"]);
    let error = error_with(&fnd, "shop", "link");
    assert!(!error.contains("root:"), "{error}");
    fs::remove_file(Path::new(repository.path()).join("link")).unwrap();
    repository.write("main.py", "def handler(\n");
    repository.commit();
    let _ = fnd.ctl(&["build", "shop"]);
    let _ = error_with(&fnd, "shop", "main.py");
    // The repository is gone.
    fs::rename(
        repository.directory.path().join(".git"),
        repository.directory.path().join("git"),
    )
    .unwrap();
    let _ = fnd.ctl(&["build", "shop"]);
    let _ = error_with(&fnd, "shop", "fetching its code");
    assert_eq!(fnd.invoke("shop", "").text(), "good");
    let show = fnd.ctl(&["show", "shop"]).out();
    assert!(show.contains("fndctl logs shop --build"), "{show}");
    // After a restart, what was fetched last is tried again.
    fnd.stop();
    fnd.launch();
    let _ = error_with(&fnd, "shop", "main.py");
    answers(&fnd, "shop", "good");
    fnd.remove("shop/function.toml");
    fnd.finish();
}

fn a_repository_that_is_away_is_one_problem_until_it_is_back(fnd: &Fnd) {
    let repository = Repository::new();
    repository.write("main.py", &says("good"));
    repository.commit();
    let path = repository.path();
    fnd.drop_file(
        "absent/function.toml",
        &format!("[source]\ngit = \"{path}\"\nevery = \"1s\"\n"),
    );
    answers(fnd, "absent", "good");
    let (here, away) = (
        repository.directory.path().join(".git"),
        repository.directory.path().join("git"),
    );
    fs::rename(&here, &away).unwrap();
    let _ = error_with(fnd, "absent", "fetching its code");
    let failed = || {
        fnd.history("fnd-build")
            .iter()
            .filter(|build| build.state == RunState::Failed)
            .count()
    };
    let before = failed();
    wait_until("more attempts", PATIENCE, || {
        let shown = fnd.function("absent").unwrap();
        assert!(shown.error.is_some(), "the problem is not over: {shown:?}");
        (failed() >= before + 3).then_some(())
    });
    let reports = fnd.log().matches("absent  was refused").count();
    assert_eq!(reports, 1, "{}", fnd.log());
    // It comes back with a commit more.
    let sources = ["--git-dir", away.to_str().unwrap(), "--work-tree", repository.path()];
    repository.write("main.py", &says("back"));
    for arguments in [&["add", "main.py"][..], &["commit", "-q", "-m", "while away"]] {
        repository.git(&[&sources, arguments].concat());
    }
    fs::rename(&away, &here).unwrap();
    wait_until("the end of the problem", PATIENCE, || {
        fnd.function("absent").unwrap().error.is_none().then_some(())
    });
    answers(fnd, "absent", "back");
    fnd.remove("absent/function.toml");
    fnd.wait_gone("absent");
}

/// A2: only another commit or a person has packages installed again that could not be installed.
fn packages_that_cannot_be_installed_are_one_problem_until_another_commit_comes(fnd: &Fnd) {
    let repository = Repository::new();
    repository.write("main.py", &says("good"));
    repository.commit();
    let path = repository.path();
    fnd.drop_file(
        "packed/function.toml",
        &format!("[source]\ngit = \"{path}\"\nevery = \"1s\"\n"),
    );
    answers(fnd, "packed", "good");
    repository.write("requirements.txt", "./no-such-package\n");
    repository.commit();
    let error = error_with(fnd, "packed", "dependencies failed");
    let builds = |state: RunState| {
        let all = fnd.history("fnd-build");
        all.iter().filter(|build| build.state == state).count()
    };
    let fetched = builds(RunState::Succeeded);
    wait_until("more polls", PATIENCE, || {
        let shown = fnd.function("packed").unwrap().error;
        assert_eq!(shown.as_ref(), Some(&error), "the problem is not over");
        (builds(RunState::Succeeded) >= fetched + 3).then_some(())
    });
    assert_eq!(builds(RunState::Failed), 1, "they are not installed again");
    assert_eq!(fnd.log().matches("packed  was refused").count(), 1, "{}", fnd.log());
    let _ = fnd.ctl(&["build", "packed"]);
    // A poll that is under way then counts as asked for, too.
    let failed = builds(RunState::Failed);
    assert!((2..=3).contains(&failed), "a person asks: {failed}");
    repository.write("main.py", &says("better"));
    repository.git(&["rm", "-q", "requirements.txt"]);
    repository.commit();
    answers(fnd, "packed", "better");
    assert_eq!(fnd.function("packed").unwrap().error, None);
    fnd.remove("packed/function.toml");
    fnd.wait_gone("packed");
}

fn a_manifest_with_a_source_says_its_mistakes_where_they_are(fnd: &Fnd) {
    fnd.drop_file("one/function.toml", "[source]\nurl = \"http://example.com/x.zip\"\n");
    let error = error_with(fnd, "one", "sha256");
    assert!(error.contains("one/function.toml:2:7"), "{error}");
    fnd.drop_file("two/function.toml", "[source]\ngit = \"ext::sh -c id\"\n");
    let _ = error_with(fnd, "two", "no address of a repository");
    fnd.drop_file("three/main.py", "print(1)\n");
    fnd.drop_file("three/function.toml", "[source]\ngit = \"https://example.com/x\"\n");
    let _ = error_with(fnd, "three", "the directory has a file of its own: `main.py`");
    fnd.drop_file("four.py", "print(1)\n");
    fnd.drop_file("four.toml", "[source]\ngit = \"https://example.com/x\"\n");
    let _ = error_with(fnd, "four", "only for a manifest without code beside it");
}
