//! The payload of `invoke`: standard input without `-d`, and text that begins like JSON.

use crate::server::Running;
use crate::{fndctl, outcome, run};
use std::fs::File;
use std::process::Stdio;

/// Returns the payload that reached the function, with its media type, if standard input is this.
fn sent(server: &Running, input: Stdio, arguments: &[&str]) -> Option<(String, String)> {
    let mut command = fndctl(&server.socket);
    let output = command.args(["invoke", "hello"]).args(arguments).stdin(input).output();
    let (code, _, errors) = outcome(&output.unwrap());
    assert_eq!((code, errors.as_str()), (0, ""), "{arguments:?}");
    let sent = server.run_request().unwrap();
    let media = sent.header("content-type").map(str::to_owned);
    (!sent.body.is_empty()).then(|| (String::from_utf8(sent.body.clone()).unwrap(), media.unwrap()))
}

#[test]
fn standard_input_is_the_payload_unless_it_is_empty() {
    let server = Running::start();
    let text = "text/plain; charset=utf-8";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "{\"a\": 1}").unwrap();
    let opened = || Stdio::from(File::open(file.path()).unwrap());
    let json = Some(("{\"a\": 1}".to_owned(), "application/json".to_owned()));
    assert_eq!(sent(&server, opened(), &[]), json);
    assert_eq!(sent(&server, opened(), &["-d", ""]), None);
    assert_eq!(sent(&server, Stdio::null(), &[]), None);
    let zeros = File::open("/dev/zero").unwrap();
    assert_eq!(sent(&server, zeros.into(), &[]), None);
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, b"piped").unwrap();
    drop(writer);
    assert_eq!(
        sent(&server, reader.into(), &[]),
        Some(("piped".to_owned(), text.to_owned()))
    );
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    assert_eq!(sent(&server, reader.into(), &[]), None);
}

#[test]
fn a_pipe_that_stays_open_and_silent_runs_nothing() {
    let server = Running::start();
    let (reader, _writer) = std::io::pipe().unwrap();
    let output = fndctl(&server.socket).args(["invoke", "hello"]).stdin(reader).output();
    let (code, _, errors) = outcome(&output.unwrap());
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("-d ''") && errors.contains("</dev/null"), "{errors}");
    assert!(!server.was_asked("/invoke"));
}

#[test]
fn text_that_begins_like_json_is_refused_with_its_place() {
    let server = Running::start();
    let (code, _, errors) = run(&server, &["invoke", "hello", "-d", "{\"a\": 1"]);
    assert_eq!(code, 2, "{errors}");
    assert!(
        errors.contains("line 1 column 7") && errors.contains("--text"),
        "{errors}"
    );
    for arguments in [&["--text"][..], &["-H", "content-type: application/x-ndjson"]] {
        let arguments = [&["invoke", "hello", "-d", "{\"a\": 1"], arguments].concat();
        assert_eq!(run(&server, &arguments).0, 0);
    }
}
