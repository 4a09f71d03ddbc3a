//! Secrets that lie encrypted beside functions: the function has the value, and nothing else has it; what cannot be decrypted
//! refuses the function at its place.

use super::secrets::{child_of, files_with, in_memory, processes_with, secret};
use fnd_tests::{Fnd, Setup, require, wait_until};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// Values that no other process and no file contains by chance.
const CANARY: &str = "canary-91f0a2c6-never-to-be-seen";
const ROTATED: &str = "rotated-4e0b77d1-never-to-be-seen";
/// A recipient of another key: that of the tests of the crate age.
const OTHER: &str = "age1t7rxyev2z3rw82stdlrrepyc39nvn86l5078zqkf5uasdy86jp6svpy7pa";

const TELL: &str = r#"# /// fnd
# on_load = false
# secrets = { DB = "db", TOKEN = { secret = "db", as = "env" } }
# ///
echo "file $(cat $CREDENTIALS_DIRECTORY/DB), variable $TOKEN"
"#;

/// Encrypts a value into a directory below the functions directory.
fn encrypt(fnd: &Fnd, name: &str, to: &str, value: &str, more: &[&str]) {
    let to = fnd.function_path(to).display().to_string();
    let all = [&["encrypt", name, "--to", &to, "--force"], more].concat();
    let _ = secret(fnd, &all, value).expect_code(0);
}

/// Returns what the function answers.
fn told(fnd: &Fnd, function: &str) -> String {
    fnd.invoke(function, "null").text()
}

fn both(value: &str) -> String {
    format!("file {value}, variable {value}")
}

/// The search for the value comes first.
#[test]
fn secrets_beside_functions_of_two_groups() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    a_function_gets_the_secret_that_lies_beside_it_and_nothing_keeps_it(&fnd);
    a_changed_file_beside_the_function_rotates_its_value(&fnd);
    fnd.finish();
}

fn a_function_gets_the_secret_that_lies_beside_it_and_nothing_keeps_it(fnd: &Fnd) {
    let made = secret(fnd, &["keygen"], "").expect_code(0);
    assert!(made.out().starts_with("age1"), "{made}");
    let key = fnd.path("age.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o400);
    // A second call changes nothing.
    let again = secret(fnd, &["keygen"], "").expect_code(0);
    assert_eq!(again.out().lines().next(), made.out().lines().next());

    fs::create_dir(fnd.function_path("ops")).unwrap();
    encrypt(fnd, "db", "ops", CANARY, &[]);
    fnd.drop_file("ops/tell.sh", TELL);
    let _ = fnd.wait_ready("ops/tell");
    assert!(told(fnd, "ops/tell").contains(&both(CANARY)));
    let listed = secret(fnd, &["list"], "").expect_code(0);
    assert!(
        listed.out().contains("encrypted") && listed.out().contains("ops/tell"),
        "{listed}"
    );
    let logs = fnd.ctl(&["logs", "ops/tell"]).expect_code(0);
    assert!(logs.out().contains("file ***, variable ***"), "{logs}");

    assert_eq!(
        in_memory(child_of(fnd.pid()), CANARY),
        0,
        "the spawner has it in its memory"
    );
    let text = fs::read_to_string(&key).unwrap();
    let private = text.lines().find(|line| line.starts_with("AGE-SECRET-KEY-1")).unwrap();
    assert_eq!(
        in_memory(child_of(fnd.pid()), private),
        0,
        "the spawner has the key in its memory"
    );
    assert_eq!(in_memory(fnd.pid(), private), 0, "fnd has the key in its memory");
    for canary in [CANARY, private] {
        wait_until("its processes and its spools are gone", PATIENCE, || {
            let left = [processes_with(canary), files_with(&fnd.path("run"), canary)].concat();
            left.is_empty().then_some(())
        });
        assert!(!fnd.log().contains(canary));
        for directory in ["state", "run", "log", "functions"] {
            assert_eq!(files_with(&fnd.path(directory), canary), Vec::<String>::new());
        }
    }
    // No file of this kind is a function or a mistake.
    let status = fnd.ctl(&["status"]);
    assert!(!status.to_string().contains("db.age"), "{status}");
}

/// A changed file is a new value, without a reload; a file in `secrets/` comes first.
fn a_changed_file_beside_the_function_rotates_its_value(fnd: &Fnd) {
    let _ = secret(fnd, &["keygen"], "").expect_code(0);
    encrypt(fnd, "db", "", CANARY, &[]);
    fs::create_dir(fnd.function_path("team")).unwrap();
    // From the functions directory itself, for a function in a group, too.
    fnd.drop_file("team/tell.sh", TELL);
    let _ = fnd.wait_ready("team/tell");
    assert!(told(fnd, "team/tell").contains(&both(CANARY)));
    let is = |value: &str| {
        wait_until("the new value", PATIENCE, || {
            told(fnd, "team/tell").contains(&both(value)).then_some(())
        });
    };
    encrypt(fnd, "db", "", ROTATED, &[]);
    is(ROTATED);
    // The nearest file counts.
    encrypt(fnd, "db", "team", "the nearest one", &[]);
    is("the nearest one");
    // Damaged: the value stays, and the message names file and reason.
    fs::write(
        fnd.function_path("team/db.age"),
        "age-encryption.org/v1\n-> X25519 damaged\n",
    )
    .unwrap();
    let problem = fnd.wait_error("team/tell");
    let error = problem.error.unwrap_or_default();
    assert!(error.contains("team/db.age: it is damaged"), "{error}");
    assert!(told(fnd, "team/tell").contains(&both("the nearest one")));
    // A file in `secrets/` comes first.
    let _ = secret(fnd, &["set", "db"], "from a plain file").expect_code(0);
    is("from a plain file");
}

#[test]
fn what_can_not_be_decrypted_refuses_the_function_at_its_place() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    let refused = |expected: &[&str]| {
        let status = wait_until(&format!("{expected:?}"), PATIENCE, || {
            let error = fnd.function("tell").and_then(|status| status.error).unwrap_or_default();
            expected.iter().all(|part| error.contains(part)).then_some(error)
        });
        assert!(!status.contains(CANARY), "{status}");
    };
    encrypt(&fnd, "db", "", CANARY, &["--recipient", OTHER]);
    fnd.drop_file("tell.sh", TELL);
    refused(&["age.key: there is no key", "age-keygen -o"]);
    let reload = || drop(fnd.ctl(&["reload"]));
    let _ = secret(&fnd, &["keygen"], "").expect_code(0);
    reload();
    refused(&["db.age: none of the keys in", "age.key` can decrypt it"]);
    encrypt(&fnd, "db", "", CANARY, &[]);
    let _ = fnd.wait_ready("tell");
    assert!(told(&fnd, "tell").contains(CANARY));

    let key = fnd.path("age.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o444)).unwrap();
    reload();
    refused(&["age.key: other users can read or change it", "chmod 0400"]);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
    fs::write(fnd.function_path("db.age"), "correct horse\n").unwrap();
    refused(&["db.age: it is not a file of age"]);
    fs::write(fnd.function_path("db.age"), vec![b'x'; 300 << 10]).unwrap();
    refused(&["db.age: it is too large"]);
    fs::write(fnd.function_path("db.age"), "").unwrap();
    refused(&["db.age: it is empty"]);
    fs::write(&key, "not a key\n").unwrap();
    encrypt(&fnd, "db", "", CANARY, &["--recipient", OTHER]);
    refused(&["is not a file of keys"]);
    // All the time the last good version kept its value.
    assert!(told(&fnd, "tell").contains(&both(CANARY)));
    fs::remove_file(fnd.function_path("db.age")).unwrap();
    refused(&["secrets/db: there is no such secret"]);
    fnd.finish();
}

/// A key at another place, and files of a user who is not root.
#[test]
fn the_configuration_names_the_key_and_files_of_others_get_nothing() {
    require!(root, cgroup);
    let elsewhere = tempfile::tempdir().unwrap();
    let key = elsewhere.path().join("keys.txt");
    let fnd =
        Fnd::start_with(&Setup::default().config(&format!("[secrets]\nage_key = {:?}\n", key.display().to_string())));
    let _ = secret(&fnd, &["keygen"], "").expect_code(0);
    assert!(key.exists() && !fnd.path("age.key").exists());
    encrypt(&fnd, "db", "", CANARY, &[]);
    fnd.drop_file("tell.sh", TELL);
    let _ = fnd.wait_ready("tell");
    assert!(told(&fnd, "tell").contains(&both(CANARY)));
    fnd.drop_file("other.sh", TELL);
    chown(fnd.function_path("other.sh"), Some(65534), None).unwrap();
    let _ = fnd.ctl(&["reload"]);
    let error = fnd.wait_error("other").error.unwrap_or_default();
    assert!(error.contains("belong to root"), "{error}");
    fnd.finish();
}

/// Without root there is no other user for the child that decrypts; everything else is the same.
#[test]
fn a_user_without_root_has_secrets_beside_functions_too() {
    require!(root, cgroup);
    let setup = Setup {
        arguments: vec!["--user".to_owned(), "--best-effort-limits".to_owned()],
        ..Setup::default()
    };
    let mut fnd = Fnd::prepare(&setup);
    let user = fnd.users().0;
    for name in ["", "functions", "state", "run", "log", "fnd.toml", "conf.d"] {
        let _ = chown(fnd.path(name), Some(user), Some(user)); // there may be no `conf.d`
    }
    let (uid, gid) = (format!("--reuid={user}"), format!("--regid={user}"));
    fnd.start_behind(["setpriv".to_owned(), uid, gid, "--clear-groups".to_owned()].into());
    let _ = secret(&fnd, &["keygen"], "").expect_code(0);
    encrypt(&fnd, "db", "", CANARY, &[]);
    chown(fnd.path("age.key"), Some(user), Some(user)).unwrap();
    fnd.drop_file("tell.sh", TELL);
    fnd.launch();
    let _ = fnd.wait_ready("tell");
    assert!(told(&fnd, "tell").contains(&both(CANARY)));
    assert_eq!(files_with(&fnd.path("state"), CANARY), Vec::<String>::new());
    fnd.finish();
}
