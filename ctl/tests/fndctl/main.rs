//! The real `fndctl` against a server that plays fnd.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod hosts;
mod input;
mod interpreters;
mod mcp;
mod mistakes;
mod nats;
mod payload;
mod runs;
mod server;
mod shown;
mod suggestions;
mod terminal;
mod wait;
mod wheels;

use server::{ENDED, FAILED, FAILED_WITH_RESULT, RUNNING, Running, UNKNOWN};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn fndctl(socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fndctl"));
    command.env_clear().env("FND_SOCKET", socket).stdin(Stdio::null());
    command
}

fn run(server: &Running, arguments: &[&str]) -> (i32, String, String) {
    outcome(
        &fndctl(&server.socket)
            .env("COLUMNS", "80")
            .args(arguments)
            .output()
            .unwrap(),
    )
}

fn outcome(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn exit_codes_are_as_documented() {
    let server = Running::start();
    let mut shown = String::new();
    for (arguments, expected) in [
        (&["status"][..], 0),
        (&["invoke", "hello", "-d", "{\"name\": \"Ada\"}"], 0),
        (&["invoke", "fails"], 1),
        (&["invoke", "oom"], 1),
        (&["invoke", "cancelled"], 1),
        (&["invoke", "bad-answer"], 1),
        (&["invoke", "disabled"], 1),
        (&["result", FAILED], 1),
        (&["result", FAILED_WITH_RESULT], 1),
        (&["frobnicate"], 2),
        (&["invoke", "hello", "--timeout", "soon"], 2),
        (&["invoke", "hello", "--timeout", "10m"], 2),
        (&["invoke", "hello", "-d", "@/nonexistent"], 2),
        (&["invoke", "Hello"], 2),
        (&["result", "17"], 2),
        (&["history", "--state", "odd"], 2),
        (&["invoke", "nobody"], 3),
        (&["show", "nobody"], 3),
        (&["logs", "nobody"], 3),
        (&["cancel", UNKNOWN], 3),
        (&["invoke", "slow"], 6),
        (&["result", RUNNING], 6),
        (&["drain", "--wait", "10ms"], 6),
        (&["invoke", "full"], 7),
        (&["invoke", "invalid"], 8),
        (&["reload"], 8),
    ] {
        let (code, _, errors) = run(&server, arguments);
        assert_eq!(code, expected, "{arguments:?}: {errors}");
        assert_eq!(
            errors.is_empty(),
            expected == 0 || arguments == ["reload"],
            "{arguments:?}: {errors}"
        );
        if expected != 0 {
            shown += &shown::session(&server, arguments);
        }
    }
    shown::snapshot!(shown);
}

#[test]
fn a_missing_socket_asks_whether_fnd_is_running() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("control.sock");
    let (code, _, errors) = outcome(&fndctl(&missing).arg("status").output().unwrap());
    assert_eq!(code, 4);
    assert!(
        errors.contains("is fnd running?") && errors.contains("systemctl status fnd"),
        "{errors}"
    );
    drop(std::os::unix::net::UnixListener::bind(&missing).unwrap());
    let (code, _, errors) = outcome(&fndctl(&missing).arg("list").output().unwrap());
    assert_eq!(code, 4);
    assert!(
        errors.contains("no process listens") && errors.contains("make run"),
        "{errors}"
    );
    let output = Command::new(env!("CARGO_BIN_EXE_fndctl"))
        .env_clear()
        .args(["--user", "status"])
        .output()
        .unwrap();
    let (code, _, errors) = outcome(&output);
    assert_eq!(code, 2);
    assert!(errors.contains("XDG_RUNTIME_DIR"), "{errors}");
}

#[test]
fn an_empty_socket_of_the_environment_is_named() {
    let (code, _, errors) = outcome(&fndctl(Path::new("")).arg("status").output().unwrap());
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("the variable `FND_SOCKET` is empty"), "{errors}");
}

#[test]
fn a_caller_without_a_role_gets_the_name_of_the_group() {
    let server = Running::start_without_role();
    let is_root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    let as_nobody = |binary: &Path| {
        let mut command = Command::new(binary);
        command.env_clear().env("FND_SOCKET", &server.socket).arg("status");
        if is_root {
            command.uid(65_534).gid(65_534);
        }
        outcome(&command.output().unwrap())
    };
    // A copy that everybody may execute: other users may have no access to the target directory.
    let place = tempfile::Builder::new()
        .permissions(std::fs::Permissions::from_mode(0o755))
        .tempdir()
        .unwrap();
    let binary = place.path().join("fndctl");
    std::fs::copy(env!("CARGO_BIN_EXE_fndctl"), &binary).unwrap();
    if is_root {
        let (code, _, errors) = as_nobody(&binary);
        assert_eq!(code, 5, "{errors}");
        let ways = ["add yourself to group fnd", "`SocketMode=0666`"];
        assert!(ways.iter().all(|way| errors.contains(way)), "{errors}");
    }
    let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    open(server.socket.parent().unwrap(), 0o755);
    open(&server.socket, 0o666);
    let (code, _, errors) = as_nobody(&binary);
    assert_eq!(code, 5, "{errors}");
    assert!(errors.contains("no group of yours has a role"), "{errors}");
}

#[test]
fn json_is_the_body_of_the_api_and_yaml_says_the_same() {
    let server = Running::start();
    for arguments in [
        &["status"][..],
        &["list"],
        &["show", "hello"],
        &["history"],
        &["runtimes"],
        &["sizes"],
        &["config"],
        &["logs"],
    ] {
        let (_, json, _) = run(&server, &[arguments, &["-o", "json"]].concat());
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(value.is_object(), "{json}");
        let (_, yaml, _) = run(&server, &[arguments, &["-o", "yaml"]].concat());
        let same: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(same, value, "{arguments:?}");
    }
}

#[test]
fn payloads_in_every_form_reach_the_function() {
    let server = Running::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"\xff\x00raw").unwrap();
    let at = format!("@{}", file.path().display());
    for (data, bytes, content_type) in [
        ("{\"name\": \"Ada\"}", &b"{\"name\": \"Ada\"}"[..], "application/json"),
        ("plain text", b"plain text", "text/plain; charset=utf-8"),
        ("-1", b"-1", "application/json"),
        (&at, b"\xff\x00raw", "application/octet-stream"),
        ("-", b"from stdin", "text/plain; charset=utf-8"),
    ] {
        let mut command = fndctl(&server.socket);
        command.args([
            "invoke",
            "hello",
            "-H",
            "Idempotency-Key: k1",
            "--timeout",
            "5s",
            "-d",
            data,
        ]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(if data == "-" { b"from stdin" } else { b"" })
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.as_slice()),
            (Some(0), bytes),
            "the result is printed as it is"
        );
        let sent = server.run_request().unwrap();
        assert_eq!(sent.body, bytes);
        assert_eq!(sent.header("content-type"), Some(content_type));
        assert_eq!(sent.header("idempotency-key"), Some("k1"));
        assert_eq!(sent.header("fnd-timeout"), Some("5s"));
    }
}

#[test]
fn queued_work_prints_its_id_and_followed_work_its_output() {
    let server = Running::start();
    for arguments in [&["--async"][..], &["--in", "5m"], &["--at", "2030-01-01T00:00:00Z"]] {
        let (code, id, _) = run(&server, &[&["invoke", "hello"][..], arguments].concat());
        assert_eq!((code, id.trim()), (0, ENDED));
        let sent = server.run_request().unwrap();
        assert!(sent.path.ends_with("/invocations"), "{sent:?}");
        assert_eq!(sent.header("fnd-at").is_some(), arguments.len() == 2);
    }
    let (code, result, output) = run(&server, &["invoke", "hello", "--follow"]);
    assert_eq!((code, result.as_str()), (0, "{\"hello\": \"Ada\"}"));
    assert!(output.starts_with("first\nsecond"), "{output}");
}

#[test]
fn validate_needs_no_daemon_and_names_line_and_column() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    let validate = |name: &str| {
        let nowhere = directory.path().join("no.sock");
        let mut command = fndctl(&nowhere);
        outcome(
            &command
                .arg("validate")
                .arg(directory.path().join(name))
                .output()
                .unwrap(),
        )
    };
    write("hello.py", "print('hello')\n");
    write("bad.py", "print('bad')\n");
    write("bad.toml", "[retry]\nretires = 3\n");
    let (code, text, _) = validate("hello.py");
    assert_eq!((code, text.as_str()), (0, "1 function judged: 0 errors, 0 warnings\n"));
    for path in ["bad.py", "bad.toml", ""] {
        let (code, text, _) = validate(path);
        assert_eq!(code, 8, "{text}");
        assert!(text.contains("bad.toml:2:1") && text.contains("retries"), "{text}");
    }
    assert!(validate("").1.ends_with("2 functions judged: 1 error, 0 warnings\n"));
    assert_eq!(validate("missing.py").0, 2);
    write("hello.sh", "echo hello\n");
    let (code, text, _) = validate("");
    assert_eq!(code, 8);
    assert!(
        text.contains("hello.py") && text.contains("several files have the name of function `hello`"),
        "{text}"
    );
    write("fnd.toml", "keep_version = 3\n");
    let (code, text, _) = validate("fnd.toml");
    assert_eq!(code, 8);
    assert!(text.contains("keep_versions"), "{text}");
}

/// The verdict is the exit code: also of a script with `pipefail`, whose reader takes the first lines and leaves.
#[test]
fn many_bad_names_are_invalid_whoever_reads_how_much_of_them() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..130 {
        std::fs::write(directory.path().join(format!("Bad Name {number}.sh")), "echo\n").unwrap();
    }
    for format in ["table", "json"] {
        let validate = |stdout: Stdio| {
            let mut command = fndctl(&directory.path().join("no.sock"));
            command.args(["validate", "-o", format]).arg(directory.path());
            command.stdout(stdout).spawn().unwrap().wait_with_output().unwrap()
        };
        let (code, text, _) = outcome(&validate(Stdio::piped()));
        assert_eq!(code, 8, "{text}");
        assert_eq!(text.matches("is not a function name").count(), 130, "{text}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(outcome(&validate(writer.into())).0, 8, "{format}");
    }
}

#[test]
fn verbs_that_need_no_daemon_work_without_one() {
    let directory = tempfile::tempdir().unwrap();
    let nowhere = directory.path().join("no.sock");
    for (arguments, words) in [
        (&["completion", "bash"][..], "-F _clap_complete_fndctl fndctl"),
        (&["completion", "zsh"], "#compdef fndctl"),
        (&["completion", "fish"], "--command fndctl"),
        (&["explain", "oom"], "limits.memory"),
        (&["explain", "retry.jitter"], "equal"),
        (&["version"], "no answer on"),
        (&["invoke", "--help"], "fndctl invoke resize -d @photo.jpg"),
        (&["--help"], "Exit codes:"),
    ] {
        let (code, text, errors) = outcome(&fndctl(&nowhere).args(arguments).output().unwrap());
        assert_eq!(code, 0, "{arguments:?}: {errors}");
        assert!(text.contains(words), "{arguments:?}: {text}");
    }
    let (code, _, errors) = outcome(&fndctl(&nowhere).args(["explain", "bad-luck"]).output().unwrap());
    assert_eq!(code, 3, "{errors}");
}

#[test]
fn a_status_the_function_chose_is_no_failure_and_is_printed() {
    let server = Running::start();
    let (code, out, err) = run(&server, &["invoke", "teapot"]);
    assert_eq!((code, out.as_str()), (0, "<p>none"), "{err}");
    assert_eq!(err, "the function answered with status 418\n");
    let (code, _, err) = run(&server, &["result", ENDED]);
    assert_eq!((code, err.as_str()), (0, "the function answered with status 404\n"));
}

#[test]
fn a_body_that_is_far_too_large_is_refused_with_the_limit() {
    let server = Running::start();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large");
    std::fs::write(&path, vec![b'x'; 50 << 20]).unwrap();
    let data = format!("@{}", path.display());
    let (code, _, errors) = run(&server, &["invoke", "hello", "-d", &data]);
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("6M (limits.body)"), "{errors}");
}

#[test]
fn a_refused_connection_says_why() {
    // A server that refuses at once and closes, before anything was written.
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("control.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let refusing = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let body = r#"{"type":"about:blank","title":"t","status":503,"code":"too-many-connections","detail":"too many connections"}"#;
        let head = format!(
            "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    });
    let (_, _, errors) = outcome(&fndctl(&socket).args(["status"]).output().unwrap());
    refusing.join().unwrap();
    assert!(errors.contains("too many connections"), "{errors}");
}

#[test]
fn raw_output_is_for_verbs_that_print_bytes_of_functions() {
    let server = Running::start();
    let (code, out, _) = run(&server, &["logs", "hello", "-o", "raw"]);
    assert_eq!((code, out.as_str()), (0, "first\nsecond \u{1b}[31m\n"));
    let (code, out, _) = run(&server, &["logs", "hello"]);
    assert!(
        code == 0 && !out.contains('\u{1b}') && out.contains("second \\u{1b}[31m"),
        "{out}"
    );
    let (code, _, errors) = run(&server, &["status", "-o", "raw"]);
    assert!(
        code == 2 && errors.contains("`invoke`, `run`, `result`, `logs`, `cat` and `state get`"),
        "{errors}"
    );
    // A pipe gets the bytes of a result unchanged.
    let output = fndctl(&server.socket).args(["invoke", "binary"]).output().unwrap();
    assert_eq!(output.stdout, b"\xff\x00\xfe");
}
