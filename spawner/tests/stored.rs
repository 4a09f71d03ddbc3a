//! A stored version is installed again from its own copy, with the trust of its source and never with more.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, Outcome};
use fnd_wire::frame::{Install, Installed, Reply, Request, STORED, StoredFile};
use fnd_wire::ids::{FunctionName, Version};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

fn stored(function: &str, version: &Version) -> Install {
    Install {
        directory: STORED,
        function: FunctionName::new(function).unwrap(),
        source: version.hex(),
        sidecar: None,
        directory_form: false,
    }
}

fn again(harness: &mut Harness, function: &str, installed: &Installed) -> Installed {
    match harness.ask_to_install(stored(function, &installed.version)) {
        Outcome::Installed(installed) => installed,
        Outcome::Refused(problems, _) => panic!("{problems:?}"),
    }
}

fn refused(harness: &mut Harness, function: &str, version: &Version) -> String {
    match harness.ask_to_install(stored(function, version)) {
        Outcome::Refused(problems, _) => problems.iter().map(|p| format!("{}: {}\n", p.file, p.message)).collect(),
        Outcome::Installed(installed) => panic!("{installed:?}"),
    }
}

fn files(harness: &mut Harness, function: &str, version: &Version) -> Vec<StoredFile> {
    let number = harness.send(&Request::Files(stored(function, version)), Vec::new());
    match harness.answer(number).0 {
        Reply::Files(files) => files,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_replaced_version_comes_back_as_it_was() {
    let mut harness = Harness::start();
    // Carriage returns are lost in the copy, so its bytes are not those that were hashed.
    let old = harness.install("f.sh", "echo old\r\necho x\r\r\n", "document=3");
    let new = harness.install("f.sh", "echo new", "document=5");
    assert_ne!(old.version, new.version);
    fs::remove_file(harness.path("functions/f.sh")).unwrap();
    assert!(refused(&mut harness, "f", &old.version).contains("no file is function `f`"));
    harness.write("f.sh", "echo newer");
    let back = again(&mut harness, "f", &old);
    assert_eq!((back.version, back.load_key, back.uid), (old.version, old.load_key, old.uid));
    assert_eq!(back.document.0.len(), 3, "the manifest is that of the copy");
    let found = files(&mut harness, "f", &old.version);
    let shown: Vec<_> = found.iter().map(|file| (file.path.as_str(), file.front.0.as_slice())).collect();
    let manifest = harness.path("functions/f.toml").display().to_string();
    assert_eq!(shown, [("f.sh", b"echo old\necho x\r\n".as_slice()), (&manifest, b"document=3")]);
    // A copy of the copy is the same again.
    assert_eq!(again(&mut harness, "f", &old).version, old.version);
    assert_eq!(files(&mut harness, "f", &old.version), found);
}

/// What the configuration has no more must not take away a function that served.
#[test]
fn the_judge_is_told_that_a_version_is_stored() {
    let mut harness = Harness::start();
    let installed = harness.install("f.sh", "echo", "says_stored");
    assert_eq!(installed.document.0, b"xx");
    assert_eq!(again(&mut harness, "f", &installed).document.0, b"stored");
}

#[test]
fn a_stored_directory_has_its_manifest_and_large_files() {
    let mut harness = Harness::start();
    harness.write("d/function.toml", "entry=main.sh");
    harness.write("d/main.sh", "wc -c <data");
    harness.write("d/data", &"x".repeat(3 << 20));
    let Outcome::Installed(old) = harness.try_install("d", None) else { panic!() };
    harness.write("d/data", "changed");
    let back = again(&mut harness, "d", &old);
    assert_eq!((back.version, back.load_key), (old.version, old.load_key));
    let found = files(&mut harness, "d", &old.version);
    let shown: Vec<_> = found.iter().map(|file| (file.path.as_str(), file.length, file.front.0.len())).collect();
    assert_eq!(shown, [("data", 3 << 20, 1 << 20), ("function.toml", 13, 13), ("main.sh", 11, 11)]);
}

#[test]
fn a_copy_that_is_missing_damaged_or_unknown_is_refused() {
    let mut harness = Harness::start();
    let old = harness.install("f.sh", "echo old", "");
    harness.install("f.sh", "echo new", "");
    assert!(refused(&mut harness, "f", &Version([7; 32])).contains("it was deleted"));
    assert!(refused(&mut harness, "g", &old.version).contains("it was deleted"), "the version of another function");
    let mut odd = stored("f", &old.version);
    odd.source = "../../functions".to_owned();
    let Outcome::Refused(problems, _) = harness.ask_to_install(odd) else { panic!() };
    assert!(problems[0].message.contains("no such name"), "{problems:?}");
    let copy = harness.path(&format!("state/versions/f/{}/code/f.sh", old.version.hex()));
    fs::write(&copy, "echo ol").unwrap(); // as after a power cut
    assert!(refused(&mut harness, "f", &old.version).contains("damaged"));
    let origin = copy.parent().unwrap().parent().unwrap().join("origin");
    fs::write(&origin, "x").unwrap();
    assert!(refused(&mut harness, "f", &old.version).contains("can't be used"));
    fs::remove_file(origin).unwrap();
    assert!(refused(&mut harness, "f", &old.version).contains("an earlier fnd stored it"));
}

#[test]
fn a_copy_is_trusted_as_its_source_was_and_asks_for_no_user_that_the_file_gave_up() {
    if !common::root() {
        return;
    }
    let mut harness = Harness::with(&Options { config: "allow_nobody", ..Options::default() });
    // The file of another owner may not have a user, and root's copy of it may not either.
    harness.write("f.sh", "echo");
    harness.write("f.toml", "");
    std::os::unix::fs::chown(harness.path("functions/f.sh"), Some(4321), None).unwrap();
    let Outcome::Installed(strangers) = harness.try_install("f.sh", Some("f.toml")) else { panic!() };
    let origin = harness.path(&format!("state/versions/f/{}/origin", strangers.version.hex()));
    let before = fs::read(&origin).unwrap();
    assert_eq!(again(&mut harness, "f", &strangers).version, strangers.version);
    assert_eq!(fs::read(&origin).unwrap(), before);
    // The same files, now root's: another version, since code of root gets nothing that a stranger's code has left.
    std::os::unix::fs::chown(harness.path("functions/f.sh"), Some(0), None).unwrap();
    let Outcome::Installed(roots) = harness.try_install("f.sh", Some("f.toml")) else { panic!() };
    assert_eq!((roots.version == strangers.version, roots.load_key), (false, strangers.load_key));
    assert_eq!(fs::read(&origin).unwrap(), before);
    let kept = again(&mut harness, "f", &roots);
    assert_eq!((kept.version, kept.uid), (roots.version, roots.uid), "a copy has the user that it had");
    assert!(refused(&mut harness, "f", &strangers.version).contains("belongs to somebody else now"));

    // A copy of the stranger's files is no copy of root's.
    harness.write("s.sh", "echo");
    std::os::unix::fs::chown(harness.path("functions/s.sh"), Some(4321), None).unwrap();
    let Outcome::Installed(strangers) = harness.try_install("s.sh", None) else { panic!() };
    fs::remove_file(harness.path("functions/s.sh")).unwrap();
    harness.install("s.sh", "echo mine", "");
    assert!(refused(&mut harness, "s", &strangers.version).contains("belongs to somebody else now"));

    let other = harness.install("u.sh", "echo", "user=daemon");
    assert_eq!(again(&mut harness, "u", &other).version, other.version, "the file still asks for it");
    harness.install("u.sh", "echo", "");
    assert!(refused(&mut harness, "u", &other.version).contains("no longer ask for that user"));
}

#[test]
fn a_copy_gets_back_nothing_that_its_file_gave_up() {
    let mut harness = Harness::start();
    let secrets = harness.path("etc/secrets");
    fs::create_dir(&secrets).unwrap();
    fs::set_permissions(&secrets, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(secrets.join("token"), "value").unwrap();
    fs::set_permissions(secrets.join("token"), fs::Permissions::from_mode(0o400)).unwrap();
    let strict = "profile=strict";
    for (before, key) in [
        ("profile=strict\ngiven=token:token", "secrets"),
        ("profile=strict\nsecrets=token", "secrets"),
        ("profile=standard", "profile"),
        ("profile=off", "profile"),
        ("profile=strict\nread_write=/srv", "read_write"),
    ] {
        let old = harness.install("f.sh", "echo old", before);
        assert_eq!(again(&mut harness, "f", &old).version, old.version, "the file still asks for it");
        let new = harness.install("f.sh", "echo new", strict);
        let why = refused(&mut harness, "f", &old.version);
        assert!(why.contains(&format!("asks for `{key}`")), "{before}: {why}");
        // A manifest that can't be read withdraws nothing, and gives nothing back.
        harness.write("f.toml", "refuse=1");
        assert!(matches!(harness.try_install("f.sh", Some("f.toml")), Outcome::Refused(..)));
        assert!(refused(&mut harness, "f", &old.version).contains(key), "{before}");
        assert_eq!(again(&mut harness, "f", &new).version, new.version);
    }
    // fnd may not choose the form in which files can't be read, to have it count as if they asked for all that they have ever asked for.
    let old = harness.install("g.sh", "echo old", "profile=off");
    let number = harness.send(&Request::Remove(FunctionName::new("g").unwrap()), Vec::new());
    harness.answer(number);
    let odd = Install {
        source: "g".to_owned(),
        sidecar: None,
        directory_form: true,
        directory: 0,
        ..stored("g", &old.version)
    };
    assert!(matches!(harness.ask_to_install(odd), Outcome::Refused(..)));
    assert!(refused(&mut harness, "g", &old.version).contains("no file is function `g`"));
    // Files that can't be judged since the spawner was started are those of the release that served last.
    harness.write("g.toml", "refuse=1");
    assert!(matches!(harness.try_install("g.sh", Some("g.toml")), Outcome::Refused(..)));
    assert_eq!(again(&mut harness, "g", &old).version, old.version);
}

#[test]
fn a_copy_runs() {
    let mut harness = Harness::start();
    let old = harness.install("f.sh", "echo old", "");
    harness.install("f.sh", "echo new", "");
    let back = again(&mut harness, "f", &old);
    assert_eq!(harness.run(&back, None, &[]).stdout, "old\n");
}
