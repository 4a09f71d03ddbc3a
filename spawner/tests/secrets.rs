//! fnd gets the secrets that routes in root's files name, and no others.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, Outcome, root, text};
use fnd_wire::frame::{CERTIFICATE, KEY, Reply, Request, SecretAsked};
use fnd_wire::ids::FunctionName;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

const CODE: &str = "#!/bin/sh\necho\n";

/// Writes a secret, or another file that only its owner may read.
fn put(path: &Path, value: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(path);
    fs::write(path, value).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o400)).unwrap();
}

fn ask(harness: &mut Harness, function: Option<&str>, name: &str) -> Result<String, String> {
    let function = function.map(|function| FunctionName::new(function).unwrap());
    let number = harness.send(&Request::Secret(SecretAsked { function, name: name.to_owned() }), Vec::new());
    match harness.answer(number) {
        (Reply::Secret, mut descriptors) => {
            use std::io::Seek as _;
            let mut file = fs::File::from(descriptors.pop_front().unwrap());
            file.rewind().unwrap();
            Ok(text(file.into()))
        }
        (Reply::SecretRefused(problem), _) => Err(problem.message),
        (other, _) => panic!("{other:?}"),
    }
}

#[test]
fn fnd_gets_what_the_routes_of_an_installed_function_name() {
    let mut harness = Harness::start();
    let dir = harness.path("etc/secrets");
    put(&dir.join("hook"), "value");
    put(&dir.join("other"), "other");
    assert!(ask(&mut harness, Some("hello"), "hook").unwrap_err().contains("no route of `hello`"));
    harness.install("hello.sh", CODE, "secrets=hook");
    assert_eq!(ask(&mut harness, Some("hello"), "hook").unwrap(), "value");
    for (function, name) in [
        (Some("hello"), "other"),
        (Some("other"), "hook"),
        (Some("hello"), "../fnd.toml"),
        (None, "hook"),
        (None, CERTIFICATE),
        (None, KEY),
    ] {
        assert!(ask(&mut harness, function, name).is_err(), "{function:?} {name}");
    }
    // The value is read anew each time.
    put(&dir.join("hook"), "rotated");
    assert_eq!(ask(&mut harness, Some("hello"), "hook").unwrap(), "rotated");

    // A version whose files name it no more, and a function that was removed, have it no more.
    harness.install("hello.sh", CODE, "secrets=other");
    assert!(ask(&mut harness, Some("hello"), "hook").is_err());
    assert_eq!(ask(&mut harness, Some("hello"), "other").unwrap(), "other");
    let number = harness.send(&Request::Remove(FunctionName::new("hello").unwrap()), Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Done);
    assert!(ask(&mut harness, Some("hello"), "other").is_err());
    harness.stop();
}

#[test]
fn a_function_without_its_secret_is_refused_and_the_last_version_keeps_its_own() {
    let mut harness = Harness::start();
    let dir = harness.path("etc/secrets");
    put(&dir.join("hook"), "value");
    harness.install("hello.sh", CODE, "secrets=hook");
    harness.write("hello.toml", "secrets=hook,none");
    let refusal = harness.refusal("hello.sh", Some("hello.toml"));
    let expected = format!("{}: there is no such secret (run `fndctl secret new none`", dir.join("none").display());
    assert!(refusal.contains(&expected), "{refusal}");
    assert_eq!(ask(&mut harness, Some("hello"), "hook").unwrap(), "value");
    assert!(ask(&mut harness, Some("hello"), "none").is_err());
    fs::set_permissions(dir.join("hook"), fs::Permissions::from_mode(0o444)).unwrap();
    assert!(ask(&mut harness, Some("hello"), "hook").unwrap_err().contains("other users"));
    harness.stop();
}

/// The judge of this test names the secret although the files are not root's: it is not believed.
#[test]
fn files_that_are_not_roots_get_no_secret_whatever_the_judge_says() {
    if !root() {
        return;
    }
    let mut harness = Harness::start();
    put(&harness.path("etc/secrets/hook"), "value");
    let code = harness.write("hello.sh", CODE);
    let manifest = harness.write("hello.toml", "secrets=hook");
    for file in [&code, &manifest] {
        chown(file, Some(1), None).unwrap();
        let refusal = harness.refusal("hello.sh", Some("hello.toml"));
        assert!(refusal.contains("root does not own all of its files"), "{refusal}");
        assert!(ask(&mut harness, Some("hello"), "hook").is_err());
        chown(file, Some(0), None).unwrap();
    }
    let outcome = harness.try_install("hello.sh", Some("hello.toml"));
    assert!(matches!(outcome, Outcome::Installed(_)));
    assert_eq!(ask(&mut harness, Some("hello"), "hook").unwrap(), "value");
    harness.stop();
}

#[test]
fn fnd_gets_the_tls_files_of_roots_configuration_only() {
    if !root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    put(&certificate, "certificate");
    put(&key, "key");
    let config = format!("tls={} {}\n", certificate.display(), key.display()).leak();
    let mut harness = Harness::with(&Options { config, ..Options::default() });
    assert_eq!(ask(&mut harness, None, CERTIFICATE).unwrap(), "certificate");
    assert_eq!(ask(&mut harness, None, KEY).unwrap(), "key");
    assert!(ask(&mut harness, None, "hook").is_err());
    // A configuration that another user can write names no files.
    chown(harness.path("etc/fnd.toml"), Some(1), None).unwrap();
    let number = harness.send(&Request::Reload, Vec::new());
    assert!(matches!(harness.answer(number).0, Reply::Settings(read) if read.applied));
    assert!(ask(&mut harness, None, KEY).is_err());
    harness.stop();
}
