//! Repositories whose changes are awkward: a rewritten history, content that no function may have. The version before serves
//! until another one can.

use super::{Repository, answers, error_with, says};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

/// Makes a repository with a first commit, and a function of this name with its code.
fn serve(fnd: &Fnd, name: &str) -> Repository {
    let repository = Repository::new();
    repository.write("main.py", &says("good"));
    repository.commit();
    let path = repository.path();
    fnd.drop_file(
        &format!("{name}/function.toml"),
        &format!("[source]\ngit = \"{path}\"\n"),
    );
    answers(fnd, name, "good");
    repository
}

/// Has the newest commit fetched, which is refused with words that name an entry; the version before serves.
fn refused(fnd: &Fnd, name: &str, parts: [&str; 2]) -> String {
    let _ = fnd.ctl(&["build", name]);
    let error = error_with(fnd, name, parts[0]);
    assert!(error.contains(parts[1]), "{error}");
    assert_eq!(fnd.invoke(name, "").text(), "good");
    error
}

/// Each of these has a function and a repository of its own.
#[test]
fn awkward_changes_of_repositories() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    a_file_that_is_too_large_is_refused_by_name_and_leaves_nothing(&fnd);
    a_rewritten_history_serves_its_new_commit_and_a_rollback_the_commit_that_is_gone(&fnd);
    a_link_in_a_repository_is_refused_wherever_it_leads(&fnd);
    two_names_that_differ_only_by_case_are_refused_as_in_an_archive(&fnd);
    a_submodule_is_refused_by_name_unless_it_is_in_another_directory(&fnd);
    fnd.finish();
}

fn a_rewritten_history_serves_its_new_commit_and_a_rollback_the_commit_that_is_gone(fnd: &Fnd) {
    let repository = serve(fnd, "rewritten");
    let first = repository.git(&["rev-parse", "HEAD"]);
    // As after `git push --force`: no commit that was fetched before is an ancestor, and the old one is deleted.
    repository.write("main.py", &says("rewritten"));
    repository.git(&["add", "-A"]);
    repository.git(&["commit", "-q", "--amend", "-m", "another history"]);
    repository.git(&["reflog", "expire", "--expire=now", "--all"]);
    repository.git(&["gc", "-q", "--prune=now"]);
    let _ = fnd.ctl(&["build", "rewritten"]).expect_code(0);
    answers(fnd, "rewritten", "rewritten");
    let _ = fnd.ctl(&["rollback", "rewritten"]).expect_code(0);
    answers(fnd, "rewritten", "good");
    let releases = fnd.ctl(&["releases", "rewritten", "-o", "json"]).out();
    assert!(releases.contains(&format!("commit {first}")), "{releases}");
    // A manifest that names the commit itself says that it is gone.
    let path = repository.path();
    let manifest = format!("[source]\ngit = \"{path}\"\nref = \"{first}\"\n");
    fnd.drop_file("rewritten/function.toml", &manifest);
    let _ = error_with(fnd, "rewritten", &first);
    assert_eq!(fnd.invoke("rewritten", "").text(), "good");
}

fn a_link_in_a_repository_is_refused_wherever_it_leads(fnd: &Fnd) {
    let repository = serve(fnd, "linked");
    for target in ["main.py", "../../../../etc/passwd", "/etc/passwd"] {
        let link = Path::new(repository.path()).join("other.py");
        let _ = fs::remove_file(&link);
        symlink(target, link).unwrap();
        let commit = repository.commit();
        let error = refused(fnd, "linked", ["symbolic link", "/other.py`"]);
        assert!(!error.contains("root:"), "{error}");
        assert!(error.contains(&commit[..12]), "{error}");
        assert!(!error.contains("archive") && !error.contains("/deps/"), "{error}");
    }
}

fn two_names_that_differ_only_by_case_are_refused_as_in_an_archive(fnd: &Fnd) {
    let repository = serve(fnd, "cased");
    repository.write("lib/Words.py", "TEXT = 1\n");
    repository.write("lib/words.py", "TEXT = 2\n");
    repository.commit();
    let error = refused(fnd, "cased", ["only by upper and lower case", "/lib/words.py`"]);
    assert!(!error.contains("archive"), "its author knows none: {error}");
}

fn a_submodule_is_refused_by_name_unless_it_is_in_another_directory(fnd: &Fnd) {
    let other = Repository::new();
    other.write("words.py", "TEXT = 1\n");
    other.commit();
    let repository = serve(fnd, "nested");
    repository.write("functions/shop/main.py", &says("beside"));
    let local = [
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        other.path(),
    ];
    repository.git(&[&local[..], &["vendor/words"]].concat());
    repository.commit();
    let _ = refused(fnd, "nested", ["submodule", "`vendor/words`"]);
    // Only the directory of the function counts.
    let path = repository.path();
    let manifest = format!("[source]\ngit = \"{path}\"\ndir = \"functions/shop\"\n");
    fnd.drop_file("nested/function.toml", &manifest);
    answers(fnd, "nested", "beside");
}

fn a_file_that_is_too_large_is_refused_by_name_and_leaves_nothing(fnd: &Fnd) {
    let repository = serve(fnd, "large");
    let trees = || fs::read_dir(fnd.path("state/deps")).unwrap().count();
    let before = trees();
    repository.write("data/huge.bin", "");
    let huge = Path::new(repository.path()).join("data/huge.bin");
    // All of it is a hole, so that the test writes little.
    File::options()
        .write(true)
        .open(&huge)
        .unwrap()
        .set_len(513 << 20)
        .unwrap();
    repository.commit();
    let error = refused(fnd, "large", ["512 MiB", "`data/huge.bin` with 513 MiB"]);
    assert!(error.contains("fetching its code"), "{error}");
    assert_eq!(trees(), before);
    wait_until("an empty home of builds", PATIENCE, || {
        let home = fs::read_dir(fnd.path("state/home/fnd-build"));
        home.map_or(true, |mut home| home.next().is_none()).then_some(())
    });
    fs::remove_file(huge).unwrap();
    repository.write("main.py", &says("smaller"));
    repository.commit();
    let _ = fnd.ctl(&["build", "large"]).expect_code(0);
    answers(fnd, "large", "smaller");
}
