//! `-H`: several machines, with a program in the place of ssh. It takes the command line of ssh and runs the words in a shell, as
//! the server of ssh does.

use crate::server::{ENDED, FAILED, Running};
use crate::{fndctl, outcome};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

/// `vm3` refuses connections, `vm4` has no fndctl, `vm5` only greets, and `vm6` greets first. Each of the others has the same fnd.
const SSH: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do shift; done
host=$2
shift 2
printf '%s\n' "$*" >>"$ASKED/$host"
case $host in
    vm3) echo "ssh: connect to host vm3 port 22: Connection refused" >&2; exit 255 ;;
    vm4) echo "sh: fndctl: command not found" >&2; exit 127 ;;
    vm5) echo Welcome; exit 0 ;;
    vm6) echo Welcome ;;
esac
export FND_SOCKET="$REMOTE"
exec sh -c "$*"
"#;

/// Runs fndctl, where `FND_SOCKET` names no fnd.
fn ask(server: &Running, directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let programs = directory.join("programs");
    if !programs.exists() {
        fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_fndctl"), programs.join("fndctl")).unwrap();
        fs::write(programs.join("ssh"), SSH).unwrap();
        fs::set_permissions(programs.join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = fndctl(Path::new("/nonexistent"));
    let path = format!("{}:/usr/bin:/bin", programs.display());
    command
        .env("PATH", path)
        .env("ASKED", directory)
        .env("REMOTE", &server.socket);
    outcome(&command.args(arguments).output().unwrap())
}

/// Returns a text without its columns.
fn narrow(text: &str) -> Vec<String> {
    let lines = text.lines();
    lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn one_table_has_the_answers_of_all_machines() {
    let (server, directory) = (Running::start(), tempfile::tempdir().unwrap());
    let place = directory.path();
    let (code, out, errors) = ask(&server, place, &["-H", "vm1,vm3,ada@vm2", "history", "-n", "2"]);
    assert_eq!(code, 4, "{errors}");
    assert_eq!(
        narrow(&out)[..6],
        [
            "HOST ID FUNCTION STATE REASON ACCEPTED DURATION",
            "vm1 89abcdef hello succeeded ok 5d ago 113ms",
            "vm1 0000fa11 fails failed exit-3 5d ago 113ms",
            "vm1 0000face stuck running - 5d ago 5d",
            "vm3 no answer - - - - -",
            "ada@vm2 89abcdef hello succeeded ok 5d ago 113ms",
        ],
        "{out}"
    );
    assert_eq!(
        errors,
        "error: vm3: does not answer: ssh: connect to host vm3 port 22: Connection refused\n"
    );
    assert_eq!(
        fs::read_to_string(place.join("vm3")).unwrap(),
        "fndctl -o json history --limit=2\n"
    );

    assert!(
        out.contains("\nada@vm2: there are older ones: `-n` lists more"),
        "{out}"
    );

    let (code, out, errors) = ask(&server, place, &["--hosts=vm1", "-H", "vm2", "dead-letters"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert_eq!(
        narrow(&out)[1..],
        [
            "vm1 0000fa11 fails exit-3 5d ago 1 {\"to\": \"ada\"}",
            "vm2 0000fa11 fails exit-3 5d ago 1 {\"to\": \"ada\"}",
        ]
    );
    let (_, out, _) = ask(&server, place, &["-H", "vm1,vm2", "status"]);
    for line in [
        "vm2 fails python 3.11 ready exit-3 5d ago 1234 12 12ms 1.2s 9M",
        "vm1: invalid: unknown runtime `pyhton`",
        "vm2: dead letters: 1 (fndctl dead-letters)",
    ] {
        let is_there = narrow(&out).iter().any(|shown| shown == line);
        assert!(is_there, "{line}: {out}");
    }
    let (_, out, _) = ask(&server, place, &["-H", "vm1", "status", "hello"]);
    assert_eq!(narrow(&out).len(), 2, "{out}");
    let (_, out, _) = ask(&server, place, &["-H", "vm1,vm2", "report"]);
    assert!(
        out.contains("1 of 3 runs failed, 1 function does not work, 1 dead letter"),
        "{out}"
    );
    assert!(out.contains("\nvm2: fails exit-3, 1 time: no such host\n"), "{out}");
    let (code, out, _) = ask(&server, place, &["-H", "vm1,vm2", "overview"]);
    assert!(code == 0 && out.starts_with("HOST"), "{out}");
}

#[test]
fn programs_get_names_and_one_document() {
    let (server, directory) = (Running::start(), tempfile::tempdir().unwrap());
    let place = directory.path();
    let (_, out, _) = ask(&server, place, &["-H", "vm1", "history", "-n", "2", "-o", "name"]);
    assert_eq!(
        out.lines().take(2).collect::<Vec<_>>(),
        [format!("vm1 {ENDED}"), format!("vm1 {FAILED}")]
    );
    let expression = ".hosts[] | [.host, (.functions | length), .host_error] | @csv";
    let hosts = "vm1,vm3,vm4,vm5,vm6";
    let (code, out, _) = ask(&server, place, &["-H", hosts, "status", "--jq", expression]);
    assert_eq!(code, 4);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "\"vm1\",16,");
    assert_eq!(
        lines[1],
        "\"vm3\",0,\"does not answer: ssh: connect to host vm3 port 22: Connection refused\""
    );
    assert!(lines[2].contains("has no fndctl that its shell finds"), "{out}");
    assert!(lines[3].contains("failed to read fnd's answer"), "{out}");
    assert_eq!(lines[4], "\"vm6\",16,");
    let (code, _, _) = ask(&server, place, &["-H", "vm1", "status", "-o", "yaml"]);
    assert_eq!(code, 0);
}

#[test]
fn what_was_typed_arrives_as_it_was() {
    let (server, directory) = (Running::start(), tempfile::tempdir().unwrap());
    let place = directory.path();
    let (code, _, errors) = ask(
        &server,
        place,
        &["-H", "vm1", "history", "--text", "it's; $(touch x) *"],
    );
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(server.was_asked("text=it%27s%3B%20%24%28touch%20x%29%20%2A"));
    let (code, _, errors) = ask(&server, place, &["-H", "vm1", "status", "nobody"]);
    assert_eq!(code, 3, "{errors}");
    assert!(
        errors.starts_with("error: vm1: ") && errors.contains("`nobody`"),
        "{errors}"
    );
}

#[test]
fn other_verbs_and_odd_hosts_are_refused() {
    let (server, directory) = (Running::start(), tempfile::tempdir().unwrap());
    for (arguments, words) in [
        (&["-H", "vm1", "enable", "hello"][..], "`dead-letters list`"),
        (
            &["-H", "vm1", "dead-letters", "redrive", "--all"],
            "`ssh HOST fndctl ...`",
        ),
        (&["-H", "vm1", "status", "--watch"], "without `--watch`"),
        (&["-H", "vm1", "report", "--mail"], "without `--mail`"),
        (&["-H", "vm1", "status", "--filed"], "--filed"),
        (
            &["-H", "vm1", "--socket", "/x", "status"],
            "`--socket` is a path of this machine",
        ),
        (
            &["--hosts=-oProxyCommand=x", "status"],
            "expected a host as ssh knows it",
        ),
        (&["-H", "vm1,", "status"], "expected a host as ssh knows it"),
        (&["status", "-H", "vm1"], "`fndctl -H vm1,vm2 status`"),
    ] {
        let (code, out, errors) = ask(&server, directory.path(), arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {errors}");
        assert!(errors.contains(words), "{arguments:?}: {errors}");
    }
    assert!(!directory.path().join("vm1").exists());
}
