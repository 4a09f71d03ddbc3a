//! What happens to files after their invocation.

use crate::fnd::{Watcher, created, entry, modified};
use fnd_manifest::function::file::FileAction;
use fnd_manifest::function::keys::FileTrigger;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

fn moves(path: &Path) -> FileTrigger {
    FileTrigger {
        then: FileAction::Move("../done".to_owned()),
        failed: FileAction::Move("../failed".to_owned()),
        recursive: true,
        ..entry(path)
    }
}

#[test]
fn files_are_moved_and_nothing_is_overwritten() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("in");
    fs::create_dir_all(path.join("below")).unwrap();
    let mut watcher = Watcher::start(&[moves(&path)]);
    for round in 0..5_usize {
        fs::write(path.join("a"), "1").unwrap();
        fs::write(path.join("below/b"), "1").unwrap();
        watcher.expect(&[created("a"), created("below/b")]);
        watcher.until("both are moved", |watcher| watcher.settled.len() == 2 * round + 2);
        assert!(watcher.memory.files.is_empty());
    }
    for name in ["a", "a.1", "a.2", "a.3", "a.4", "below/b", "below/b.4"] {
        assert!(root.path().join("done").join(name).exists(), "{name}");
    }
    watcher.success = Some(false);
    fs::write(path.join("a"), "1").unwrap();
    watcher.expect(&[created("a")]);
    watcher.until("it is moved", |watcher| watcher.settled.len() == 11);
    assert!(root.path().join("failed/a").exists());
    watcher.expect_only(&[]);
}

#[test]
fn a_file_that_changed_stays() {
    let root = tempfile::tempdir().unwrap();
    let then = FileAction::Delete;
    let mut watcher = Watcher::start(&[FileTrigger {
        then,
        ..entry(root.path())
    }]);
    watcher.success = None;
    fs::write(root.path().join("a"), "1").unwrap();
    watcher.expect(&[created("a")]);
    fs::write(root.path().join("a"), "22").unwrap();
    watcher.end(true);
    watcher.until("it is settled", |watcher| watcher.settled.len() == 1);
    assert!(root.path().join("a").exists());
    watcher.expect(&[modified("a")]);
    watcher.end(true);
    watcher.until("it is settled", |watcher| watcher.settled.len() == 2);
    assert!(!root.path().join("a").exists());
    watcher.expect_only(&[]);
}

#[test]
fn a_content_that_keeps_another_name_does_not_run_again() {
    let root = tempfile::tempdir().unwrap();
    for (then, count) in [(FileAction::Delete, 1), (FileAction::Move("../done".to_owned()), 2)] {
        let path = root.path().join(format!("in-{count}"));
        fs::create_dir(&path).unwrap();
        let mut watcher = Watcher::start(&[FileTrigger { then, ..entry(&path) }]);
        watcher.success = None;
        fs::write(path.join("a"), "1").unwrap();
        watcher.expect(&[created("a")]);
        fs::hard_link(path.join("a"), path.join("b")).unwrap();
        watcher.end(true);
        watcher.until("it is settled", |watcher| watcher.settled.len() == 1);
        watcher.rest(Duration::from_millis(500));
        assert_eq!(watcher.runs, []);
        let names = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.count(), 1);
        assert_eq!(watcher.memory.files.len(), 1);
    }
}

#[test]
fn what_was_to_be_done_is_done_after_a_restart() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("in");
    fs::create_dir(&path).unwrap();
    let entries = [moves(&path)];
    let mut watcher = Watcher::start(&entries);
    watcher.success = None;
    fs::write(path.join("a"), "1").unwrap();
    watcher.expect(&[created("a")]);
    let running = std::mem::take(&mut watcher.running);
    let memory = watcher.kill();
    let mut watcher = Watcher::start_with(&entries, memory);
    watcher.running = running;
    watcher.end(true);
    watcher.until("it is settled", |watcher| watcher.settled.len() == 1);
    assert!(root.path().join("done/a").exists());
    watcher.expect_only(&[]);
}

/// A directory of the same function may be the destination: what is moved there does not run it.
#[test]
fn a_moved_file_does_not_run_the_function_again() {
    let root = tempfile::tempdir().unwrap();
    let (path, done) = (root.path().join("in"), root.path().join("done"));
    fs::create_dir(&path).unwrap();
    fs::create_dir(&done).unwrap();
    let mut watcher = Watcher::start(&[moves(&path), entry(&done)]);
    fs::write(path.join("a"), "1").unwrap();
    watcher.expect_only(&[created("a")]);
    assert!(done.join("a").exists());
    fs::write(done.join("b"), "1").unwrap();
    watcher.expect_only(&[created("b")]);
}

#[test]
fn a_failed_action_says_why() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("in");
    fs::create_dir(&path).unwrap();
    fs::write(root.path().join("done"), "no directory").unwrap();
    let mut watcher = Watcher::start(&[moves(&path)]);
    fs::write(path.join("a"), "1").unwrap();
    watcher.expect(&[created("a")]);
    watcher.expect_problem("failed to move");
    watcher.until("it is settled", |watcher| watcher.settled.len() == 1);
    assert_eq!(watcher.memory.files.len(), 1);
    fs::remove_file(root.path().join("done")).unwrap();
    fs::write(path.join("b"), "1").unwrap();
    watcher.expect_only(&[created("b")]);
    watcher.expect_problem("");
    assert!(path.join("a").exists());
}

/// The owner of the directory may not steer where the function writes.
#[test]
fn a_link_below_the_directory_is_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let (path, other) = (root.path().join("in"), root.path().join("other"));
    fs::create_dir(&path).unwrap();
    fs::create_dir(&other).unwrap();
    symlink(&other, path.join("done")).unwrap();
    fs::create_dir(path.join("kept")).unwrap();
    symlink(&other, path.join("kept/far")).unwrap();
    let mut watcher = Watcher::start(&[FileTrigger {
        then: FileAction::Move("done".to_owned()),
        failed: FileAction::Move(path.join("kept/far/below").to_str().unwrap().to_owned()),
        ..entry(&path)
    }]);
    fs::write(path.join("a"), "1").unwrap();
    watcher.expect(&[created("a")]);
    watcher.expect_problem("in/done` is a link");
    watcher.success = Some(false);
    fs::write(path.join("b"), "1").unwrap();
    watcher.expect(&[created("b")]);
    watcher.expect_problem("in/kept/far` is a link");
    assert!(path.join("a").exists() && path.join("b").exists());
    assert_eq!(fs::read_dir(&other).unwrap().count(), 0);
    // A directory in its place is used, and one that is missing is made.
    fs::remove_file(path.join("done")).unwrap();
    fs::remove_file(path.join("kept/far")).unwrap();
    fs::write(path.join("c"), "1").unwrap();
    watcher.expect(&[created("c")]);
    watcher.until("it is moved", |_| path.join("kept/far/below/c").exists());
    watcher.success = Some(true);
    fs::write(path.join("d"), "1").unwrap();
    watcher.expect_only(&[created("d")]);
    assert!(path.join("done/d").exists());
    assert!(path.join("a").exists() && path.join("b").exists());
}
