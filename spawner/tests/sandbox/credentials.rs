//! Secrets and service bindings: the function gets them, nobody else does, and a new value makes a new version.

use crate::common::{Harness, Options, Outcome, privileged, root, text};
use crate::{PROFILES, bash, can, start, with};
use fnd_wire::frame::{Hello, Installed, PROTOCOL_MAX, PROTOCOL_MIN, Reply, Request};
use fnd_wire::mask::Masks;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};

const SECRET: &str = "correct horse battery\n";

/// Writes a file that only its owner may read, below the directory of the configuration.
fn put(harness: &Harness, path: &str, value: &str) {
    let path = harness.path("etc").join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&path);
    fs::write(&path, value).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
}

/// Makes a secret and a service binding.
fn furnish(harness: &Harness) {
    put(harness, "secrets/db-password", SECRET);
    put(harness, "bindings/orders-db/type", "postgresql");
    put(harness, "bindings/orders-db/password", "tr0ub4dor&3");
}

/// Prints everything below the two directories, with modes and owners, and the variable.
const LOOK: &str = r#"
cd $CREDENTIALS_DIRECTORY && find . -type f | sort | while read f; do echo "$f $(stat -c '%a %u' $f) $(cat $f)"; done
cd $SERVICE_BINDING_ROOT && find . -type f | sort | while read f; do echo "$f $(stat -c '%a' $f) $(cat $f)"; done
echo "variable <$PASSWORD>"
echo x 2>/dev/null >> $CREDENTIALS_DIRECTORY/new && echo written
echo x 2>/dev/null >> $CREDENTIALS_DIRECTORY/DB && echo written
echo "uid $(id -u)"
"#;

const LINES: &str = "given=DB:db-password\nvariables=PASSWORD:db-password\nbindings=orders-db";

fn looked(uid: &str) -> String {
    let value = SECRET.trim();
    format!(
        "./DB 400 {uid} {value}\n./PASSWORD 400 {uid} {value}\n./orders-db/password 400 tr0ub4dor&3\n./orders-db/type 400 \
         postgresql\nvariable <{value}>\nuid {uid}\n"
    )
}

#[test]
fn a_function_has_its_secrets_and_nobody_else_has() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    furnish(&harness);
    for profile in PROFILES {
        let name = format!("a-{profile}");
        let found = bash(&mut harness, &name, &format!("profile={profile}\n{LINES}"), LOOK);
        let uid = found.lines().last().unwrap_or_default().trim_start_matches("uid ");
        assert_eq!(found, looked(uid), "{profile}");
        // The machine sees the empty places, and another function not even those.
        if can(&harness, "mounts") {
            for place in ["creds", "bindings"] {
                let dir = harness.path("run").join(place).join(&name);
                assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "{profile}");
            }
        }
        let other = format!("profile={profile}\nvariables=OTHER:db-password");
        let script =
            format!("cat {}/../{name}/DB; ls $CREDENTIALS_DIRECTORY; env | grep -c horse", "$CREDENTIALS_DIRECTORY");
        let found = bash(&mut harness, &format!("b-{profile}"), &other, &script);
        assert!(found.contains("No such file") || found.contains("Permission denied"), "{found}");
        assert!(found.contains("OTHER\n1\n") && !found.contains("correct"), "{found}");
    }
    // No mount of it is left on the machine.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(harness.path("run").to_str().unwrap()), "{mounts}");
    harness.stop();
}

/// Installs a function of an ordinary user, who has secrets and service bindings.
fn installed_for(harness: &mut Harness, uid: u32) -> Installed {
    furnish(harness);
    for path in ["secrets", "secrets/db-password", "bindings", "bindings/orders-db"] {
        chown(harness.path("etc").join(path), Some(uid), None).unwrap();
    }
    for path in ["type", "password"] {
        chown(harness.path("etc/bindings/orders-db").join(path), Some(uid), None).unwrap();
    }
    for name in ["a.sh", "a.toml"] {
        harness.write(name, if name == "a.sh" { LOOK } else { LINES });
        chown(harness.path("functions").join(name), Some(uid), None).unwrap();
    }
    let Outcome::Installed(installed) = harness.try_install("a.sh", Some("a.toml")) else { panic!("refused") };
    installed
}

#[test]
fn an_ordinary_users_secrets_are_mounted_too() {
    if !root() {
        return;
    }
    let mut harness = with(&Options { uid: Some(12_354), best_effort: true, ..Options::default() });
    if !can(&harness, "mounts") {
        return;
    }
    let installed = installed_for(&mut harness, 12_354);
    assert_eq!(harness.run(&installed, None, &[]).stdout, looked("12354"));
    assert_eq!(fs::read_dir(harness.path("run/creds/a")).unwrap().count(), 0, "nobody else sees them");
    harness.stop();
}

#[test]
fn without_mounts_they_lie_in_a_directory_until_the_launcher_ends() {
    if !root() {
        return;
    }
    let mut harness =
        with(&Options { uid: Some(12_352), no_namespaces: true, best_effort: true, ..Options::default() });
    assert!(!can(&harness, "mounts"));
    let installed = installed_for(&mut harness, 12_352);
    let run = harness.run(&installed, None, &[]);
    let found = run.stdout.replace("written\n", ""); // the files are its own user's
    assert_eq!(found, looked("12352"));
    let place = harness.path("run/creds/a");
    assert!(fs::read_dir(&place).unwrap().count() > 0);
    crate::common::until("the launcher ends, and its secrets with it", || fs::read_dir(&place).unwrap().count() == 0);
    harness.stop();
}

#[test]
fn what_cannot_be_given_is_refused() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    furnish(&harness);
    put(&harness, "bindings/bare/password", "x");
    put(&harness, "secrets/nul", "a\0b");
    let lengths: String = (6..80).map(|length| "x".repeat(length) + "\n").collect();
    put(&harness, "secrets/lengths", &lengths);
    put(&harness, "secrets/open", "x");
    fs::set_permissions(harness.path("etc/secrets/open"), fs::Permissions::from_mode(0o444)).unwrap();
    harness.install("a.sh", "echo\n", LINES);
    for (lines, expected) in [
        ("given=A:none", "there is no such secret (run `fndctl secret new none`"),
        ("given=A:../fnd.toml", "invalid name"),
        ("given=../A:db-password", "invalid name"),
        ("bindings=none", "there is no such service binding"),
        ("bindings=bare", "no entry `type`"),
        ("bindings=..", "invalid name"),
        ("variables=A:nul", "NUL"),
        ("given=A:lengths", "64 different lengths"),
        ("given=A:open", "other users can read"),
    ] {
        harness.write("a.toml", lines);
        let refusal = harness.refusal("a.sh", Some("a.toml"));
        assert!(refusal.contains(expected) && !refusal.contains("horse"), "{lines}: {refusal}");
    }
    // Files that do not belong to root get nothing, whatever the judge says.
    harness.write("a.toml", LINES);
    let path = harness.path("functions/a.sh");
    chown(&path, Some(12_345), None).unwrap();
    let refusal = harness.refusal("a.sh", Some("a.toml"));
    assert!(refusal.contains("root does not own all of its files"), "{refusal}");
    harness.stop();
}

#[test]
fn a_new_value_is_a_new_version_and_the_old_one_runs_on_with_its_own() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    furnish(&harness);
    let script = "read; cat $CREDENTIALS_DIRECTORY/DB\n";
    let old = harness.install("a.sh", script, LINES);
    let (input, write) = rustix::pipe::pipe().unwrap();
    let (worker, number) = harness.order_pipe(&old, input);
    let (_, mut descriptors) = harness.spawned(number);
    put(&harness, "secrets/db-password", SECRET);
    assert_eq!(harness.install("a.sh", script, LINES).version, old.version, "the same value");
    put(&harness, "secrets/db-password", "another value\n");
    let new = harness.install("a.sh", script, LINES);
    assert_ne!(new.version, old.version);
    assert_eq!(new.load_key, old.load_key, "a script that runs once per content does not run again");
    assert_eq!(harness.run(&new, Some(b"\n"), &[]).stdout, "another value");
    rustix::io::write(&write, b"\n").unwrap();
    drop(write);
    assert_eq!(text(descriptors.pop_front().unwrap()), SECRET.trim());
    harness.exited(worker);
    harness.stop();
}

#[test]
fn a_request_replaces_no_secret() {
    if !privileged() {
        return;
    }
    let mut harness = start();
    furnish(&harness);
    let installed = harness.install("a.sh", "echo \"<$HTTP_TOKEN> $HTTP_OTHER\"\n", "variables=HTTP_TOKEN:db-password");
    let run = harness.run(&installed, None, &[("HTTP_TOKEN", "forged"), ("HTTP_OTHER", "header")]);
    assert_eq!(run.stdout, format!("<{}> header\n", SECRET.trim()));
    harness.stop();
}

/// The fingerprints come before the answer to the start, and in front of the report of a held worker.
#[test]
fn fnd_gets_fingerprints_and_no_values() {
    if !privileged() {
        return;
    }
    let mut harness = with(&Options { listen: true, ..Options::default() });
    furnish(&harness);
    let installed: Installed = harness.install("a.sh", "sleep 60\n", LINES);
    let (worker, number) = harness.order(&installed, None, &[]);
    let masks = |harness: &mut Harness| {
        let (reply, _) = harness.wait(|_, reply| matches!(reply, Reply::Masks(_)));
        let Reply::Masks(masked) = reply else { panic!() };
        assert_eq!(masked.worker.0, worker);
        let point = masked.masks.point;
        // The entry `type` of the binding is no secret.
        let expected = Masks::of(point, [SECRET.as_bytes(), b"tr0ub4dor&3"]).unwrap();
        assert_eq!(masked.masks, expected);
    };
    masks(&mut harness);
    let _ = harness.spawned(number);
    harness.reconnect();
    harness.send(&Request::Hello(Hello { min: PROTOCOL_MIN, max: PROTOCOL_MAX }), Vec::new());
    masks(&mut harness);
}
