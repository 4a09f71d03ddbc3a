//! Functions' users have names on the machine: records for nss-systemd(8), which no function can use to become another
//! user.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, root};
use fnd_wire::frame::{Reply, Request};
use fnd_wire::ids::FunctionName;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

const WHO: &str = "#!/bin/sh\necho $USER $LOGNAME\n";

fn named() -> Options {
    Options { userdb: true, ..Options::default() }
}

/// Returns the names in the directory of records.
fn records(harness: &Harness) -> Vec<String> {
    let entries = fs::read_dir(harness.path("userdb")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_functions_user_has_a_name_while_the_function_exists() {
    if !root() {
        return;
    }
    let mut harness = Harness::with(&named());
    let installed = harness.install("ops/backup.sh", WHO, "mode=run");
    // Before the first start, so that people can use the name.
    let uid = installed.uid;
    let expected =
        [format!("{uid}.group"), format!("{uid}.user"), "fnd-ops.backup.group".into(), "fnd-ops.backup.user".into()];
    assert_eq!(records(&harness), expected);
    let dir = harness.path("userdb");
    let by_number = fs::read_to_string(dir.join(format!("{uid}.user"))).unwrap();
    assert_eq!(by_number, fs::read_to_string(dir.join("fnd-ops.backup.user")).unwrap());
    let home = harness.path("state/home/ops.backup");
    for part in [
        format!("\"userName\":\"fnd-ops.backup\",\"realName\":\"function ops/backup\",\"uid\":{uid},\"gid\":{uid},"),
        format!("\"homeDirectory\":\"{}\"", home.display()),
    ] {
        assert!(by_number.contains(&part), "{part}: {by_number}");
    }
    // Every user's programs have to read them.
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&dir), mode(&dir.join("fnd-ops.backup.group"))), (0o755, 0o644));
    assert_eq!(harness.run(&installed, None, &[]).stdout, "fnd-ops.backup fnd-ops.backup\n");

    let number = harness.send(&Request::Remove(FunctionName::new("ops/backup").unwrap()), Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Done);
    assert!(records(&harness).is_empty());
}

#[test]
fn a_removed_function_leaves_no_name_of_any_of_its_users() {
    if !root() {
        return;
    }
    let mut harness = Harness::with(&named());
    let first = harness.install("f.sh", WHO, "mode=run").uid;
    chown(harness.path("functions/f.sh"), Some(4321), None).unwrap();
    let second = harness.install("f.sh", WHO, "mode=run").uid;
    assert_ne!(first, second);
    assert!(records(&harness).contains(&format!("{second}.user")), "{first} {second} {:?}", records(&harness));
    let number = harness.send(&Request::Remove(FunctionName::new("f").unwrap()), Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Done);
    assert_eq!(records(&harness), [""; 0]);
}

#[test]
fn a_spawner_without_the_option_keeps_no_names() {
    if !root() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("hello.sh", WHO, "mode=run");
    assert_eq!(harness.run(&installed, None, &[]).stdout, "hello hello\n");
    assert!(!harness.path("userdb").exists());
}

#[test]
fn a_function_with_a_named_user_has_that_users_name_only() {
    if !root() {
        return;
    }
    let mut harness = Harness::with(&Options { config: "allow_nobody", ..named() });
    let installed = harness.install("g.sh", WHO, "mode=run\nuser=daemon");
    assert_eq!(harness.run(&installed, None, &[]).stdout, "daemon daemon\n");
    assert!(records(&harness).is_empty());
}

#[test]
fn a_record_replaces_no_other() {
    if !root() {
        return;
    }
    let mut harness = Harness::with(&named());
    let dir = harness.path("userdb");
    let foreign = "{\"userName\":\"fnd-hello\",\"uid\":4711}";
    fs::write(dir.join("fnd-hello.user"), foreign).unwrap();
    let link = harness.path("functions/secret");
    symlink(&link, dir.join("fnd-other.user")).unwrap();
    for name in ["hello", "other"] {
        let installed = harness.install(&format!("{name}.sh"), WHO, "mode=run");
        assert_eq!(harness.run(&installed, None, &[]).stdout, format!("{name} {name}\n"), "without a record");
        let number = harness.send(&Request::Remove(FunctionName::new(name).unwrap()), Vec::new());
        harness.answer(number);
    }
    assert_eq!(fs::read_to_string(dir.join("fnd-hello.user")).unwrap(), foreign);
    assert!(!link.exists(), "it was written through the link");
    // A missing record is made again at the next start of a launcher.
    let installed = harness.install("late.sh", WHO, "mode=run");
    for name in
        records(&harness).iter().filter(|name| name.contains("late") || name.starts_with(|c: char| c.is_numeric()))
    {
        fs::remove_file(dir.join(name)).unwrap();
    }
    assert_eq!(harness.run(&installed, None, &[]).stdout, "fnd-late fnd-late\n");
    assert!(records(&harness).contains(&"fnd-late.user".to_owned()));
}

#[test]
fn functions_named_like_users_of_the_machine_become_none_of_them() {
    if !root() {
        return;
    }
    let mut harness = Harness::with(&named());
    let long = "x".repeat(63);
    for name in ["root", "nobody", "daemon", &long] {
        let installed = harness.install(&format!("{name}.sh"), WHO, "mode=run");
        let said = harness.run(&installed, None, &[]).stdout;
        let user = said.split(' ').next().unwrap();
        assert!(user.starts_with("fnd-") && user.len() <= 31, "{said}");
        let record = fs::read_to_string(harness.path(&format!("userdb/{user}.user"))).unwrap();
        assert!(record.contains(&format!("\"uid\":{},", installed.uid)), "{record}");
    }
    assert!(records(&harness).iter().all(|name| name.starts_with("fnd-") || name.starts_with(|c: char| c != '0')));
}

#[test]
fn records_of_an_earlier_spawner_are_removed_and_no_others() {
    if !root() {
        return;
    }
    fn leave(dir: &Path, _: u32) {
        let dir: PathBuf = dir.join("userdb");
        fs::create_dir(&dir).unwrap();
        for name in ["fnd-gone.user", "fnd-gone.group", "alice.user"] {
            fs::write(dir.join(name), "{}").unwrap();
        }
        symlink("fnd-gone.user", dir.join("70000.user")).unwrap();
        symlink("alice.user", dir.join("4000.user")).unwrap();
    }
    let harness = Harness::with(&Options { prepare: Some(leave), ..named() });
    assert_eq!(records(&harness), ["4000.user", "alice.user"]);
}

#[test]
fn a_directory_that_others_can_change_is_refused() {
    if !root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("userdb");
    fs::create_dir(&path).unwrap();
    chown(&path, Some(12_001), None).unwrap();
    let why = fnd_spawner::workers::names::UserNames::open(path.clone()).err().unwrap();
    assert!(why.contains("users other than root can change") && why.contains(path.to_str().unwrap()), "{why}");
}
