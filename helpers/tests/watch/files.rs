//! Changes of single files, as programs make them.

use crate::fnd::{Watcher, created, deleted, entry, modified, replace};
use fnd_manifest::function::file::FileChange;
use fnd_manifest::function::keys::FileTrigger;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

#[test]
fn each_content_runs_once() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    fs::write(at("before"), "1").unwrap();
    let all = vec![FileChange::Created, FileChange::Modified, FileChange::Deleted];
    let entries = [FileTrigger {
        on: all,
        ..entry(root.path())
    }];
    let mut watcher = Watcher::start(&entries);
    watcher.expect(&[created("before")]);
    fs::write(at("a"), "1").unwrap();
    watcher.expect(&[created("a")]);
    fs::write(at("a"), "22").unwrap();
    watcher.expect(&[modified("a")]);
    replace(&at("a"), "333");
    watcher.expect(&[modified("a")]);
    fs::rename(at("a"), at("b")).unwrap();
    fs::hard_link(at("b"), at("link")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    std::os::unix::fs::symlink("b", at("symlink")).unwrap();
    watcher.expect_only(&[]);
    assert_eq!(watcher.memory.files.len(), 2);
    fs::remove_file(at("link")).unwrap();
    fs::remove_file(at("b")).unwrap();
    watcher.expect(&[deleted("b")]);
    // The same from the beginning, with a watcher that knows it.
    fs::write(at("c"), "1").unwrap();
    watcher.expect_only(&[created("c")]);
    let memory = watcher.kill();
    assert_eq!(memory.files.len(), 2);
    fs::remove_file(at("before")).unwrap();
    fs::rename(at("c"), at("d")).unwrap();
    fs::write(at("new"), "1").unwrap();
    let mut watcher = Watcher::start_with(&entries, memory);
    watcher.expect_only(&[deleted("before"), created("new")]);
    assert!(watcher.memory.files.values().any(|known| known.file.path.0 == b"d"));
    assert!(watcher.close().success());
}

#[test]
fn a_file_that_nobody_closes_runs_when_it_rests() {
    let root = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::start(&[entry(root.path())]);
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(root.path().join("log"))
        .unwrap();
    for _ in 0..20 {
        file.write_all(b"line\n").unwrap();
        watcher.rest(Duration::from_millis(20));
    }
    assert_eq!(watcher.runs, [], "it never rested");
    watcher.expect(&[created("log")]);
    file.write_all(b"line\n").unwrap();
    watcher.expect_only(&[modified("log")]);
    drop(file); // closed, and nothing was written since
    watcher.expect_only(&[]);
}

/// rsync writes a hidden file, sets its time and renames it.
#[test]
fn an_upload_runs_once_under_its_last_name() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let mut watcher = Watcher::start(&[entry(root.path())]);
    for (content, run) in [("1", created("data.csv")), ("22", modified("data.csv"))] {
        let hidden = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(at(".data.csv.x1"))
            .unwrap();
        (&hidden).write_all(content.as_bytes()).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        hidden.set_modified(old).unwrap();
        drop(hidden);
        fs::rename(at(".data.csv.x1"), at("data.csv")).unwrap();
        watcher.expect_only(&[run]);
    }
    // A program that deletes the file before it writes it.
    fs::remove_file(at("data.csv")).unwrap();
    fs::write(at("data.csv"), "333").unwrap();
    watcher.expect_only(&[modified("data.csv")]);
    // And one that keeps the old file under another name.
    fs::rename(at("data.csv"), at("data.csv.bak")).unwrap();
    fs::write(at("data.csv"), "4444").unwrap();
    watcher.expect_only(&[modified("data.csv")]);
}

#[test]
fn names_are_any_bytes() {
    let root = tempfile::tempdir().unwrap();
    let names: [&[u8]; 5] = [b"a\nb", b"\xff\xfe", b"-rf", b" ", &[b'x'; 255]];
    let mut watcher = Watcher::start(&[FileTrigger {
        recursive: true,
        ..entry(root.path())
    }]);
    watcher.rest(Duration::from_millis(100));
    for directory in [b"".as_slice(), b"b\n\xff"] {
        let directory = root.path().join(OsStr::from_bytes(directory));
        fs::create_dir_all(&directory).unwrap();
        for name in names {
            fs::write(directory.join(OsStr::from_bytes(name)), name).unwrap();
        }
    }
    watcher.until("all run", |watcher| watcher.runs.len() >= 10);
    watcher.expect_only(&std::mem::take(&mut watcher.runs.clone()));
    assert_eq!(watcher.memory.files.len(), 10);
    for name in names {
        assert!(watcher.memory.files.values().any(|known| known.file.path.0 == name));
    }
}

#[test]
fn only_the_first_entry_that_matches_gets_a_file() {
    let root = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::start(&[
        FileTrigger {
            pattern: "*.csv".to_owned(),
            ..entry(root.path())
        },
        FileTrigger {
            pattern: ".*".to_owned(),
            ..entry(root.path())
        },
    ]);
    for name in ["a.csv", ".hidden", "other"] {
        fs::write(root.path().join(name), name).unwrap();
    }
    watcher.expect_only(&[created("a.csv"), created(".hidden")]);
}

#[test]
fn files_from_before_the_function_can_be_left_out() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("before"), "1").unwrap();
    let entries = [FileTrigger {
        existing: false,
        ..entry(root.path())
    }];
    let first_ms = u64::MAX / 2_000_000;
    let memory = crate::fnd::Memory {
        first_ms,
        ..Default::default()
    };
    let mut watcher = Watcher::start_with(&entries, memory);
    watcher.until("it is seen", |watcher| watcher.memory.files.len() == 1);
    fs::write(root.path().join("after"), "1").unwrap();
    watcher.expect_only(&[created("after")]);
    fs::write(root.path().join("before"), "22").unwrap();
    watcher.expect_only(&[modified("before")]);
}

#[test]
fn a_batch_waits_for_files_that_come() {
    let root = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::start(&[FileTrigger {
        batch: 10,
        debounce: Duration::from_millis(300),
        ..entry(root.path())
    }]);
    watcher.rest(Duration::from_millis(100));
    for number in 0..25 {
        fs::write(root.path().join(number.to_string()), "1").unwrap();
    }
    watcher.until("all run", |watcher| watcher.runs.len() == 25);
    assert_eq!(watcher.batches, [10, 10, 5]);
}

#[test]
fn refused_files_are_offered_again_with_their_newest_content() {
    let root = tempfile::tempdir().unwrap();
    let mut watcher = Watcher::start(&[entry(root.path())]);
    watcher.refuse = 3;
    fs::write(root.path().join("a"), "1").unwrap();
    watcher.until("it is refused", |watcher| watcher.refuse < 3);
    fs::write(root.path().join("a"), "22").unwrap();
    watcher.expect_only(&[created("a")]);
    assert_eq!(watcher.memory.files.values().next().unwrap().file.size, 2);
}

/// The idle watcher is never woken, and it ends with its input.
#[test]
fn it_rests_and_ends() {
    let above = tempfile::tempdir().unwrap();
    let root = above.path().join("in");
    fs::create_dir(&root).unwrap();
    let mut watcher = Watcher::start(&[FileTrigger {
        recursive: true,
        ..entry(&root)
    }]);
    fs::write(root.join("a"), "1").unwrap();
    watcher.expect_only(&[created("a")]);
    watcher.rest(Duration::from_millis(1500)); // the number of files that wait is reported a second later
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{}/status", watcher.child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("voluntary_ctxt_switches"))
            .unwrap();
        line.to_owned()
    };
    let before = switches();
    // Files that are read, and changes beside the directory, do not matter.
    fs::read(root.join("a")).unwrap();
    fs::write(tempfile::tempdir().unwrap().path().join("a"), "1").unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(switches(), before);
    assert!(watcher.close().success());
}
