//! Directories that cannot be read, and paths that are too long.

use crate::fnd::{Watcher, created, entry};
use fnd_manifest::function::keys::FileTrigger;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

/// The user of the watchers.
const USER: u32 = 65_531;

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[expect(clippy::print_stdout, reason = "a test that is left out says so")]
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("skipped: only root can be other users");
    }
    is_root
}

fn recursive(path: &Path) -> FileTrigger {
    FileTrigger {
        recursive: true,
        ..entry(path)
    }
}

#[test]
fn files_count_as_soon_as_their_directory_can_be_read() {
    if !is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    mode(root.path(), 0o755);
    fs::create_dir(root.path().join("lost+found")).unwrap();
    mode(&root.path().join("lost+found"), 0o700);
    let mut watcher = Watcher::start_as(USER, &[recursive(root.path())]);
    fs::write(root.path().join("first"), "1").unwrap();
    watcher.expect(&[created("first")]);
    assert!(watcher.problems.values().all(Option::is_none), "{:?}", watcher.problems);
    // Neither listed nor passed, and listed only.
    for (name, hidden) in [("closed", 0o700), ("listed", 0o744)] {
        let prepared = tempfile::tempdir_in(root.path().parent().unwrap()).unwrap();
        let (path, sub) = (prepared.path().join(name), root.path().join(name));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("a"), "1").unwrap();
        mode(&path, hidden);
        fs::rename(&path, &sub).unwrap();
        watcher.expect_problem(&format!("{name}` cannot be read (Permission denied"));
        mode(&sub, 0o755);
        watcher.expect(&[created(&format!("{name}/a"))]);
        watcher.expect_problem("");
    }
    watcher.expect_only(&[]);
}

#[test]
fn the_directory_itself_may_be_closed_for_a_time() {
    if !is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    mode(root.path(), 0o755);
    let path = root.path().join("in");
    fs::create_dir(&path).unwrap();
    let mut watcher = Watcher::start_as(USER, &[entry(&path)]);
    fs::write(path.join("a"), "1").unwrap();
    watcher.expect(&[created("a")]);
    mode(&path, 0o700);
    fs::write(path.join("b"), "1").unwrap();
    watcher.expect_problem("in` cannot be read (Permission denied");
    mode(&path, 0o755);
    watcher.expect_only(&[created("b")]);
    watcher.expect_problem("");
}

/// A home directory may often be passed only, so its end is not reported.
#[test]
fn a_directory_above_that_cannot_be_watched_is_looked_at_without_all_files() {
    if !is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    mode(root.path(), 0o755);
    let (home, new) = (root.path().join("home"), root.path().join("new"));
    for (above, file) in [(&home, "a"), (&new, "b")] {
        fs::create_dir_all(above.join("in")).unwrap();
        fs::write(above.join("in").join(file), "1").unwrap();
        mode(above, 0o711);
    }
    let mut watcher = Watcher::start_as(USER, &[entry(&home.join("in"))]);
    watcher.expect_problem("a replaced");
    watcher.expect(&[created("a")]);
    // The kernel does not report this: a look at all files would find it.
    let file = fs::File::open(home.join("in/a")).unwrap();
    // With both times the kernel says only that attributes changed.
    let past = std::time::SystemTime::UNIX_EPOCH;
    file.set_times(fs::FileTimes::new().set_accessed(past).set_modified(past))
        .unwrap();
    watcher.rest(Duration::from_secs(6));
    watcher.expect_only(&[]);
    fs::rename(&home, root.path().join("old")).unwrap();
    fs::rename(&new, &home).unwrap();
    watcher.expect_only(&[created("b")]);
}

/// Makes directories below each other, more than a path can have. Returns the last one.
fn deep(root: &Path, name: &str, count: usize) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, root, flags, Mode::empty()).unwrap();
    for _ in 0..count {
        mkdirat(&at, name, Mode::RWXU).unwrap();
        at = openat(&at, name, flags, Mode::empty()).unwrap();
    }
    at
}

#[test]
fn a_path_that_is_too_long_is_left_out() {
    let root = tempfile::tempdir().unwrap();
    let name = "d".repeat(250);
    let last = deep(root.path(), &name, 16); // 4015 bytes
    let write = |name: &str| {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let file = openat(&last, name, flags, Mode::RWXU).unwrap();
        rustix::io::write(file, b"1").unwrap();
    };
    let (short, long) = ("s".repeat(80), "l".repeat(81)); // 4096 and 4097 bytes
    let path = |file: &str| format!("{}{file}", format!("{name}/").repeat(16));
    write(&long);
    // Found by a scan.
    let mut watcher = Watcher::start(&[recursive(root.path())]);
    watcher.expect_problem("has more than 4096 bytes");
    write(&short);
    watcher.expect(&[created(&path(&short))]);
    unlinkat(&last, long.as_str(), AtFlags::empty()).unwrap();
    watcher.expect_problem("");
    // Reported by the kernel.
    write(&long);
    watcher.expect_problem("has more than 4096 bytes");
    unlinkat(&last, long.as_str(), AtFlags::empty()).unwrap();
    watcher.expect_problem("");
    mkdirat(&last, long.as_str(), Mode::RWXU).unwrap();
    watcher.expect_problem("has more than 4096 bytes");
    watcher.rest(Duration::from_millis(200));
    watcher.expect_only(&[]);
    fs::remove_dir_all(root.path()).unwrap();
    watcher.expect_problem("missing");
}

#[test]
fn a_directory_that_is_deleted_while_programs_have_it_open_is_replaced() {
    let above = tempfile::tempdir().unwrap();
    let root = above.path().join("a/in");
    fs::create_dir_all(&root).unwrap();
    let mut watcher = Watcher::start(&[entry(&root)]);
    // Their descriptors keep the kernel from reporting the end of the directories.
    let held = [
        fs::File::open(root.parent().unwrap()).unwrap(),
        fs::File::open(&root).unwrap(),
    ];
    fs::write(root.join("first"), "1").unwrap();
    watcher.expect(&[created("first")]);
    fs::remove_dir_all(above.path().join("a")).unwrap();
    watcher.expect_problem("missing");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("second"), "2").unwrap();
    watcher.expect(&[created("second")]);
    drop(held);
}
