//! Directories that appear, go, and are replaced.

use crate::fnd::{Watcher, created, deleted, entry, modified};
use fnd_manifest::function::file::FileChange;
use fnd_manifest::function::keys::FileTrigger;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

#[test]
fn a_directory_may_come_later_go_and_come_back() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("far/below/in");
    let on = vec![FileChange::Created, FileChange::Modified, FileChange::Deleted];
    let entries = [FileTrigger {
        on,
        existing: false,
        ..entry(&path)
    }];
    let mut watcher = Watcher::start(&entries);
    watcher.expect_problem("missing");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("a"), "1").unwrap();
    watcher.expect(&[created("a")]);
    watcher.expect_problem("");
    // Moved away, it keeps its files.
    fs::rename(root.path().join("far"), root.path().join("near")).unwrap();
    watcher.expect_problem("missing");
    fs::write(root.path().join("near/below/in/b"), "1").unwrap();
    watcher.expect_only(&[]);
    assert_eq!(watcher.memory.files.len(), 1);
    fs::rename(root.path().join("near"), root.path().join("far")).unwrap();
    watcher.expect_only(&[created("b")]);
    watcher.expect_problem("");
    // Replaced, it has lost them.
    fs::create_dir(root.path().join("new")).unwrap();
    fs::write(root.path().join("new/b"), "22").unwrap();
    fs::rename(&path, root.path().join("old")).unwrap();
    fs::rename(root.path().join("new"), &path).unwrap();
    watcher.expect_only(&[deleted("a"), modified("b")]);
    fs::remove_dir_all(&path).unwrap();
    watcher.expect(&[deleted("b")]);
    watcher.expect_problem("missing");
}

#[test]
fn a_link_on_the_way_may_lead_elsewhere() {
    let root = tempfile::tempdir().unwrap();
    for version in ["one", "two"] {
        fs::create_dir_all(root.path().join(version).join("in")).unwrap();
        fs::write(root.path().join(version).join("in").join(version), "1").unwrap();
    }
    symlink("one", root.path().join("current")).unwrap();
    let mut watcher = Watcher::start(&[entry(&root.path().join("current/in"))]);
    watcher.expect(&[created("one")]);
    symlink("two", root.path().join("next")).unwrap();
    fs::rename(root.path().join("next"), root.path().join("current")).unwrap();
    watcher.expect(&[created("two")]);
    fs::write(root.path().join("two/in/more"), "1").unwrap();
    fs::write(root.path().join("one/in/more"), "1").unwrap();
    watcher.expect_only(&[created("more")]);
}

#[test]
fn directories_below_count_where_the_entry_says_so() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::write(at("a/b/1"), "1").unwrap();
    let on = vec![FileChange::Created, FileChange::Modified, FileChange::Deleted];
    let mut watcher = Watcher::start(&[FileTrigger {
        recursive: true,
        on,
        ..entry(root.path())
    }]);
    watcher.expect(&[created("a/b/1")]);
    fs::create_dir_all(at("c/d/.hidden")).unwrap();
    fs::write(at("c/d/2"), "1").unwrap();
    fs::write(at("c/d/.hidden/2"), "1").unwrap();
    watcher.expect_only(&[created("c/d/2")]);
    // A directory that is moved keeps its files; only their names change.
    fs::rename(at("a"), at("c/moved")).unwrap();
    watcher.expect_only(&[]);
    fs::write(at("c/moved/b/1"), "22").unwrap();
    watcher.expect_only(&[modified("c/moved/b/1")]);
    // Moved out of the directory, they are gone.
    let out = tempfile::tempdir_in(root.path().parent().unwrap()).unwrap();
    fs::rename(at("c/moved"), out.path().join("moved")).unwrap();
    watcher.expect_only(&[deleted("c/moved/b/1")]);
    fs::rename(out.path().join("moved"), at("back")).unwrap();
    watcher.expect_only(&[created("back/b/1")]);
    fs::remove_dir_all(at("c")).unwrap();
    watcher.expect_only(&[deleted("c/d/2")]);
}

/// Files appear in directories that appear at the same time.
#[test]
fn no_file_of_a_growing_tree_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::start(&[FileTrigger {
        recursive: true,
        ..entry(root.path())
    }]);
    watcher.rest(Duration::from_millis(100));
    let mut runs = Vec::new();
    for number in 0..300 {
        let path = format!("{}/{}/{number}", number % 7, number % 49);
        fs::create_dir_all(root.path().join(&path)).unwrap();
        fs::write(root.path().join(&path).join("f"), "1").unwrap();
        runs.push(created(&format!("{path}/f")));
    }
    watcher.expect_only(&runs);
}

#[test]
fn a_look_from_time_to_time_finds_what_nobody_reports() {
    let root = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::start(&[FileTrigger {
        every: Some(Duration::from_millis(100)),
        ..entry(root.path())
    }]);
    fs::write(root.path().join("a"), "1").unwrap();
    watcher.expect_only(&[created("a")]);
}
