//! Secrets over the loss of a machine: a backup with secrets brings back functions that work, also with encrypted secrets; one
//! without them says what is missing.

use super::secrets::{files_with, secret};
use fnd_tests::ctl::Run;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// Values that no file contains by chance.
const ENCRYPTED: &str = "canary-7a3c5e10-encrypted";
const PLAIN: &str = "canary-c2d9114f-plain";
const BOUND: &str = "canary-50be77a8-bound";

const TELL: &str = r#"# /// fnd
# on_load = false
# secrets = { KEY = "api-key", DB = "db" }
# bindings = ["orders"]
# ///
cd "$CREDENTIALS_DIRECTORY"
echo "$(cat KEY) $(cat DB) $(cat "$SERVICE_BINDING_ROOT/orders/password")"
"#;

fn at(path: &Path) -> String {
    path.display().to_string()
}

/// Returns an fnd whose function has a secret of each kind.
fn with_secrets() -> Fnd {
    let fnd = Fnd::start();
    let _ = secret(&fnd, &["keygen"], "").expect_code(0);
    let to = at(&fnd.path("functions"));
    let _ = secret(&fnd, &["encrypt", "api-key", "--to", &to], ENCRYPTED).expect_code(0);
    let _ = secret(&fnd, &["set", "db"], PLAIN).expect_code(0);
    let config = at(&fnd.path("fnd.toml"));
    let binding = ["binding", "--config", &config, "new", "orders", "type=x", "password=-"];
    let _ = fnd.ctl_with(&binding, BOUND.as_bytes()).expect_code(0);
    fnd.drop_file("tell.sh", TELL);
    fnd.wait_ready("tell");
    assert_eq!(told(&fnd), format!("{ENCRYPTED} {PLAIN} {BOUND}"));
    fnd
}

fn told(fnd: &Fnd) -> String {
    fnd.invoke("tell", "").text().trim().to_owned()
}

/// Loses everything but the archives; where fnd was installed again there is an empty directory of secrets.
fn lose(fnd: &mut Fnd) {
    fnd.stop();
    for place in ["functions", "state", "secrets", "bindings", "conf.d"] {
        let _ = fs::remove_dir_all(fnd.path(place)); // there may be no `conf.d`
    }
    for place in ["age.key", "fnd.toml"] {
        fs::remove_file(fnd.path(place)).unwrap();
    }
    for (place, mode) in [("functions", 0o755), ("secrets", 0o700)] {
        fs::create_dir(fnd.path(place)).unwrap();
        fs::set_permissions(fnd.path(place), fs::Permissions::from_mode(mode)).unwrap();
    }
}

fn restore(fnd: &Fnd, archive: &Path) -> Run {
    let [config, functions, state] = ["fnd.toml", "functions", "state"].map(|name| at(&fnd.path(name)));
    fnd.ctl(&[
        "restore",
        &at(archive),
        "--config",
        &config,
        "--functions",
        &functions,
        "--state",
        &state,
    ])
}

#[test]
fn a_backup_with_secrets_brings_back_a_function_with_an_encrypted_one() {
    require!(root, cgroup);
    let mut fnd = with_secrets();
    let archive = fnd.path("fnd.tar");
    let _ = fnd.ctl(&["backup", "--secrets", &at(&archive)]).expect_code(0);
    assert_eq!(fs::metadata(&archive).unwrap().mode() & 0o777, 0o600);
    let _ = fnd.ctl(&["backup", "--verify", &at(&archive)]).expect_code(0);
    lose(&mut fnd);
    let _ = restore(&fnd, &archive).expect_code(0);
    for (place, mode) in [("age.key", 0o400), ("secrets/db", 0o400), ("secrets", 0o700)] {
        let about = fs::metadata(fnd.path(place)).unwrap();
        assert_eq!((about.mode() & 0o7777, about.uid()), (mode, 0), "{place}");
    }
    fnd.launch();
    fnd.wait_ready("tell");
    assert_eq!(told(&fnd), format!("{ENCRYPTED} {PLAIN} {BOUND}"));
    // The key encrypts, and the new value is used.
    let to = at(&fnd.path("functions"));
    let again = ["encrypt", "api-key", "--to", &to, "--force"];
    let _ = secret(&fnd, &again, "another value").expect_code(0);
    wait_until("the new value", PATIENCE, || {
        told(&fnd).starts_with("another value ").then_some(())
    });
    for value in [ENCRYPTED, PLAIN, BOUND] {
        assert_eq!(files_with(&fnd.path("state"), value), Vec::<String>::new());
    }
    // What is there by now is not overwritten.
    fnd.stop();
    for place in ["functions", "state"] {
        fs::remove_dir_all(fnd.path(place)).unwrap();
        fs::create_dir(fnd.path(place)).unwrap();
    }
    fs::write(fnd.path("secrets/db"), "set here").unwrap();
    fs::remove_file(fnd.path("age.key")).unwrap();
    let refused = restore(&fnd, &archive).expect_code(2);
    assert!(refused.stderr.contains("secrets/db` exists already"), "{refused}");
    assert_eq!(fs::read_to_string(fnd.path("secrets/db")).unwrap(), "set here");
    assert!(!fnd.path("age.key").exists(), "nothing was written");
    fnd.launch();
    fnd.finish();
}

#[test]
fn a_backup_without_secrets_has_none_and_the_function_says_what_is_missing() {
    require!(root, cgroup);
    let mut fnd = with_secrets();
    let archive = fnd.path("fnd.tar");
    let _ = fnd.ctl(&["backup", &at(&archive)]).expect_code(0);
    let private = fs::read_to_string(fnd.path("age.key")).unwrap();
    let private = private
        .lines()
        .find(|line| line.starts_with("AGE-SECRET-KEY-1"))
        .unwrap();
    let bytes = fs::read(&archive).unwrap();
    for value in [ENCRYPTED, PLAIN, BOUND, private] {
        let found = bytes.windows(value.len()).any(|window| window == value.as_bytes());
        assert!(!found, "{value}");
    }
    lose(&mut fnd);
    let _ = restore(&fnd, &archive).expect_code(0);
    fnd.launch();
    let error = fnd.wait_error("tell").error.unwrap_or_default();
    assert!(error.contains("secrets/db: there is no such secret"), "{error}");
    let _ = secret(&fnd, &["set", "db"], PLAIN).expect_code(0);
    wait_until("what is missing next", PATIENCE, || {
        let error = fnd.function("tell")?.error?;
        error.contains("age.key: there is no key").then_some(())
    });
    fnd.finish();
}

/// fnd does not guess where a key belongs on the machine to which the archive goes.
#[test]
fn a_backup_says_that_a_key_at_another_place_is_not_in_it() {
    require!(root, cgroup);
    let elsewhere = tempfile::tempdir().unwrap();
    let key = elsewhere.path().join("keys.txt");
    let fnd = Fnd::start_with(&Setup::default().config(&format!("[secrets]\nage_key = {:?}\n", at(&key))));
    let _ = secret(&fnd, &["keygen"], "").expect_code(0);
    let taken = fnd
        .ctl(&["backup", "--secrets", &at(&fnd.path("fnd.tar"))])
        .expect_code(0);
    assert!(
        taken
            .stderr
            .contains(&format!("`{}` is the key of encrypted secrets", at(&key))),
        "{taken}"
    );
    let without = fnd.ctl(&["backup", &at(&fnd.path("other.tar"))]).expect_code(0);
    assert!(!without.stderr.contains("keys.txt"), "{without}");
    fnd.finish();
}
