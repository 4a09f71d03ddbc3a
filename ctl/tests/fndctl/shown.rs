//! Texts that people read, as snapshots: the help, the tables, the messages of the verbs.

use crate::server::{ENDED, FAILED, RUNNING, Running};
use crate::{fndctl, outcome, run};
use std::path::Path;

/// Compares a text with the file in `snapshots/` that has the name of the test; CONTRIBUTING.md says how to accept a
/// change.
macro_rules! snapshot {
    ($text:expr) => {
        insta::with_settings!(
            { omit_expression => true, prepend_module_to_snapshot => false },
            { insta::assert_snapshot!($text) }
        )
    };
}
pub(crate) use snapshot;

/// Returns a command with what it printed, and with its exit code unless that is 0.
pub(crate) fn session(server: &Running, arguments: &[&str]) -> String {
    let (code, out, errors) = run(server, arguments);
    let line = |text: &str| {
        if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "\n"
        }
    };
    let ends = if code == 0 {
        String::new()
    } else {
        format!("exit code {code}\n")
    };
    let text = format!(
        "$ fndctl {}\n{out}{}{errors}{}{ends}\n",
        arguments.join(" "),
        line(&out),
        line(&errors)
    );
    // Of the same length, so that tables keep their columns.
    text.replace(&crate::server::began(0), "0000-00-00T00:00:00")
}

#[test]
fn tables() {
    let server = Running::start();
    let mut text = String::new();
    for arguments in [
        &["status"][..],
        &["status", "hello"],
        &["list", "-l", "team=web"],
        &["history", "-n", "3"],
        &["audit", "-n", "2"],
        &["dead-letters"],
        &["events"],
        &["logs", "hello"],
        &["sizes"],
        &["state", "list"],
        &["state", "list", "shop/cart"],
        &["state", "list", "shop", "-o", "name"],
        &["runtimes"],
        &["routes"],
        &["routes", "test", "POST", "/hooks/x"],
        &["routes", "test", "POST", "a b"],
    ] {
        let shown = session(&server, arguments);
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        text += &shown;
    }
    for verb in [
        &["status"][..],
        &["list"],
        &["history", "-n", "3"],
        &["audit", "-n", "2"],
        &["dead-letters"],
        &["runtimes"],
    ] {
        text += &session(&server, &[verb, &["-o", "wide"]].concat());
    }
    snapshot!(text);
    // In a pipe, long words are not shortened.
    let piped = outcome(&fndctl(&server.socket).arg("status").output().unwrap()).1;
    assert!(piped.contains("python 3.11"), "{piped}");
}

#[test]
fn answers() {
    let server = Running::start();
    let mut text = String::new();
    for arguments in [
        &["config"][..],
        &["overview"],
        &["whoami"],
        &["show", "fails"],
        &["show", "hello", "-o", "yaml"],
        &["enable", "hello"],
        &["disable", "hello"],
        &["stop", "hello"],
        &["start", "hello"],
        &["restart", "hello"],
        &["shell", "hello", "-o", "json"],
        &["releases", "hello"],
        &["releases", "nothing"],
        &["rollback", "hello"],
        &["rollback", "full"],
        &["rollback", "fails", "9a"],
        &["pin", "hello", "0"],
        &["pin", "hello"],
        &["unpin", "hello"],
        &["unpin", "full"],
        &["build", "hello"],
        &["build", "hello", "--clean"],
        &["build", "fails"],
        &["diff", "hello"],
        &["diff", "hello", "ab", "9a", "-o", "json"],
        &["history", "--id", ENDED],
        &["dead-letters", "show", FAILED],
        &["cancel", RUNNING],
        &["replay", FAILED],
        &["remove", "hello", "--yes"],
        &["remove", "ops/backup"],
        &["deploy", "/nonexistent.py"],
        &["state", "get", "shop/orders"],
        &["state", "get", "shop/cart/1"],
        &["state", "get", "shop/cart/1", "--jq", "\"\\(.value) \\(.version)\""],
        &["state", "get", "shop/nothing"],
        &["state", "set", "shop/orders", "8", "--if-version", "7"],
        &["state", "set", "shop/orders", "9", "--if-version", "7"],
        &["state", "set", "shop/orders", "paid", "--new"],
        &["state", "set", "full/x", "paid"],
        &["state", "set", "shop", "paid"],
        &["state", "delete", "shop/orders", "--if-version", "7"],
        &["state", "delete", "shop/orders"],
        &["state", "delete", "shop/orders"],
        &["invoke", "teapot"],
        &["invoke", "hello", "--follow"],
        &["dead-letters", "redrive", FAILED],
        &["dead-letters", "drop", FAILED],
        &["explain", "oom"],
        &["explain", "queue-full"],
        &["explain", "retry.jitter"],
    ] {
        text += &session(&server, arguments);
    }
    snapshot!(text);
}

/// Programs read what verbs say, also of verbs that print a sentence.
#[test]
fn verbs_print_json() {
    let server = Running::start();
    for arguments in [
        &["status"][..],
        &["overview"],
        &["list"],
        &["history", "--id", ENDED],
        &["audit"],
        &["report"],
        &["whoami"],
        &["routes"],
        &["releases", "hello"],
        &["diff", "hello"],
        &["rollback", "hello"],
        &["pin", "hello"],
        &["unpin", "hello"],
        &["build", "hello"],
        &["enable", "hello"],
        &["disable", "hello", "ops/*"],
        &["start", "hello"],
        &["stop", "hello"],
        &["restart", "hello"],
        &["remove", "hello", "--yes"],
        &["cancel", RUNNING],
        &["replay", FAILED],
        &["invoke", "hello"],
        &["dead-letters"],
        &["dead-letters", "show", FAILED],
        &["dead-letters", "redrive", FAILED],
        &["dead-letters", "drop", FAILED],
        &["state", "list", "shop"],
        &["state", "set", "shop/orders", "8", "--if-version", "7"],
        &["state", "delete", "shop/orders"],
        &["explain", "oom"],
        &["explain"],
    ] {
        let (_, out, errors) = run(&server, &[arguments, &["-o", "json"]].concat());
        let read = serde_json::from_str::<serde_json::Value>(&out);
        assert!(read.is_ok(), "{arguments:?}: {out}{errors}");
    }
}

/// Returns the help of a verb and of those below it. Options that every verb has are shown with fndctl's own help only.
fn help(verb: &[&str]) -> String {
    let (_, shown, _) = outcome(
        &fndctl(Path::new(""))
            .env_remove("FND_SOCKET")
            .env("COLUMNS", "80")
            .args(verb)
            .arg("--help")
            .output()
            .unwrap(),
    );
    let mut text = format!("$ fndctl {}\n", [verb, &["--help"]].concat().join(" "));
    let mut below = String::new();
    let (mut common, mut commands) = (false, false);
    for line in shown.lines() {
        let first = line.split_whitespace().next().unwrap_or_default();
        if !line.is_empty() && !line.starts_with(' ') {
            // The verbs of fndctl are in groups, those below a verb in one list.
            let is_group = verb.is_empty() && !["Options:", "Examples:", "Exit codes:"].contains(&line);
            (common, commands) = (false, line == "Commands:" || is_group && line.ends_with(':'));
        } else if first.starts_with('-') && first != "-" {
            let everywhere = [
                "--socket",
                "--user",
                "-o,",
                "--no-headers",
                "--jq",
                "-q,",
                "--progress",
                "--no-pager",
                "-h,",
            ]
            .contains(&first);
            // The socket of this verb is that of the page.
            let is_own = verb == ["web"] && first == "--socket";
            common = everywhere && !is_own && !verb.is_empty();
        } else if commands && line.starts_with("  ") && !line.starts_with("   ") && first != "help" {
            below += &help(&[verb, &[first]].concat());
        }
        if !common {
            text += &format!("{}\n", line.trim_end());
        }
    }
    format!("{text}\n{below}")
}

#[test]
fn report() {
    let server = Running::start();
    let text = session(&server, &["report", "--since", "2026-11-21T08:00:00Z"]);
    let (before, rest) = text.split_once("2026-11-21T08:00:00Z to ").unwrap();
    let (_, after) = rest.split_once('\n').unwrap();
    snapshot!(format!("{before}2026-11-21T08:00:00Z to NOW\n{after}"));
    assert!(server.was_asked("?since=2026-11-21T08%3A00%3A00Z&usage=1&"));
    let (code, mail, _) = run(&server, &["report", "--mail"]);
    assert_eq!(code, 0);
    assert!(
        mail.contains("\nSubject: [fnd] vm1: 1 of 3 runs failed, 1 function does not work, 1 dead letter\n"),
        "{mail}"
    );
    assert!(!mail.contains('\u{1b}') && mail.contains("\n\nvm1: "), "{mail}");
    let (_, json, _) = run(
        &server,
        &["report", "--jq", ".failures[] | [.function, .reason, .count] | @csv"],
    );
    assert_eq!(json, "\"fails\",\"exit-3\",1\n");
    for (typed, words) in [
        (&["report", "--mail", "-o", "json"][..], "no `-o`"),
        (&["report", "--since", "soon"], "is no time"),
    ] {
        let (code, _, errors) = run(&server, typed);
        assert!(code == 2 && errors.contains(words), "{errors}");
    }
}

#[test]
fn help_of_every_verb() {
    snapshot!(help(&[]));
}

/// Of the areas of `doctor` those that say the same on every machine.
#[test]
fn findings_of_doctor() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    std::fs::write(place.join("bad.sh"), "echo\n").unwrap();
    std::fs::write(place.join("bad.toml"), "[limits]\ntimout = \"1s\"\n").unwrap();
    let mut command = fndctl(&place.join("no.sock"));
    let (code, out, errors) = outcome(&command.args(["doctor", "--functions"]).arg(place).output().unwrap());
    assert_eq!((code, errors.as_str()), (1, ""));
    let mut kept = false;
    let of_an_area = |line: &&str| {
        // A fix belongs to the finding above it.
        if !line.starts_with(' ') {
            let area = line.split_whitespace().nth(1);
            kept = area.is_some_and(|area| ["daemon", "functions"].contains(&area));
        }
        kept
    };
    let shown: Vec<&str> = out.lines().filter(of_an_area).collect();
    snapshot!(shown.join("\n").replace(place.to_str().unwrap(), "DIR"));
}
