//! Runs by the end of their ids and by `--last`, and what a shell completes.

use crate::server::{ENDED, FAILED, RUNNING, Running};
use crate::{fndctl, outcome, run};
use std::path::Path;

#[test]
fn the_end_of_an_id_is_enough() {
    let server = Running::start();
    for (short, whole) in [
        (&["history", "--id", "89abcdef"][..], &["history", "--id", ENDED][..]),
        (&["history", "--last"], &["history", "--id", ENDED]),
        (&["result", "cdef"], &["result", ENDED]),
        (&["result", "--last", "hello"], &["result", ENDED]),
        (&["cancel", "face"], &["cancel", RUNNING]),
        (&["replay", "8123-00000000FA11"], &["replay", FAILED]),
        (&["logs", "--id", "fa11"], &["logs", "--id", FAILED]),
        (&["logs", "--last"], &["logs", "--id", ENDED]),
        (&["logs", "fa11"], &["logs", "--id", FAILED]),
        (&["logs", FAILED], &["logs", "--id", FAILED]),
        (&["history", "fa11"], &["history", "--id", FAILED]),
        (&["show", "fa11"], &["show", FAILED]),
        (&["dead-letters", "show", "fa11"], &["dead-letters", "show", FAILED]),
    ] {
        assert_eq!(run(&server, short), run(&server, whole), "{short:?}");
    }
    assert_eq!(
        run(&server, &["logs", "fails", "--id", "fa11"]),
        run(&server, &["logs", "--id", FAILED])
    );
    let (code, _, errors) = run(&server, &["logs", "hello", "--id", "fa11"]);
    assert!(
        code == 2 && errors.contains("is one of `fails`, not of `hello`"),
        "{errors}"
    );
    for (typed, expected, words) in [
        ("def", 2, "at least 4"),
        ("hello", 2, "is not the id of a run"),
        ("beef", 3, "none of the newest 10000 runs"),
    ] {
        let (code, _, errors) = run(&server, &["result", typed]);
        assert!(code == expected && errors.contains(words), "{code} {errors}");
    }
    let (code, out, _) = run(&server, &["cancel", "face", "-o", "json"]);
    assert_eq!((code, out.trim()), (0, "{\"state\":\"cancelling\"}"));
}

#[test]
fn one_screen_has_the_record_and_the_output_of_a_run() {
    let server = Running::start();
    let (code, out, errors) = run(&server, &["show", FAILED]);
    assert_eq!((code, errors.as_str()), (0, ""));
    for part in [
        "message       no such host",
        "waited 10ms",
        "  | first\n  ! second",
        &format!("fndctl logs {FAILED}"),
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let (code, out, _) = run(&server, &["show", ENDED]);
    assert!(code == 0 && out.contains("result (`fndctl result"), "{out}");
    let (_, json, _) = run(&server, &["show", FAILED, "-o", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["id"], &json["calls"]), (&FAILED.into(), &serde_json::json!([])));
    let (code, _, errors) = run(&server, &["history", "fa11", "--state", "failed"]);
    assert!(code == 2 && errors.contains("is one run"), "{errors}");
}

/// Returns what is completed at the last of these words.
fn completed(socket: &Path, words: &[&str]) -> String {
    let mut command = fndctl(socket);
    command.env("FNDCTL_COMPLETE", "bash").env("_CLAP_IFS", " ");
    command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let (code, out, errors) = outcome(&command.args(["--", "fndctl"]).args(words).output().unwrap());
    assert_eq!((code, errors.as_str()), (0, ""), "{words:?}");
    out
}

#[test]
fn a_shell_completes_functions_runs_and_words() {
    let server = Running::start();
    for (words, expected) in [
        (&["show", "te"][..], "teapot text"),
        (&["invoke", "hel"], "hello"),
        (&["disable", "hello", "ops"], "ops/backup"),
        (&["invoke", "greet", "--set", "na"], "name="),
        (&["result", "8"], "89abcdef"),
        (&["logs", "--id", "0"], "0000fa11 0000face"),
        (&["history", "--state", "in"], "interrupted"),
        (&["history", "--trigger", "re"], "replay redrive"),
        (&["events", "--kind", "gave"], "gave-up"),
        (&["repl"], "replay"),
    ] {
        assert_eq!(completed(&server.socket, words), expected, "{words:?}");
    }
}

#[test]
fn a_daemon_that_does_not_answer_completes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("control.sock");
    assert_eq!(completed(&socket, &["show", "hel"]), "");
    // It accepts no connection and answers nothing.
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(completed(&socket, &["result", "89"]), "");
}
