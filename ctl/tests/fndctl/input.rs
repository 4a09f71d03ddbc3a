//! `--set` and `--ask` of `invoke`, and the fields that `show` lists. The function `greet` has an input schema.

use crate::server::Running;
use crate::{fndctl, outcome, run};
use std::process::Stdio;

/// Returns the payload that reached the function, and its media type.
fn sent(arguments: &[&str]) -> (String, String) {
    let server = Running::start();
    let (code, _, errors) = run(&server, &[&["invoke", "greet"], arguments].concat());
    assert_eq!(code, 0, "{errors}");
    let sent = server.run_request().unwrap();
    let media = sent.header("content-type").unwrap().to_owned();
    (String::from_utf8(sent.body).unwrap(), media)
}

#[test]
fn fields_make_the_payload() {
    let json = "application/json".to_owned();
    for (arguments, payload) in [
        (&["--set", "name=Ada"][..], r#"{"name":"Ada"}"#),
        (&["--set", "name=3", "--set", "n=3"], r#"{"n":3,"name":"3"}"#),
        (&["--set", "name=a=b", "--set", "n:=3"], r#"{"n":3,"name":"a=b"}"#),
        (
            &["--set", "name=Ada", "--set", "to.city=Ulm"],
            r#"{"name":"Ada","to":{"city":"Ulm"}}"#,
        ),
        (&["-d", r#"{"name":"Ada"}"#], r#"{"name":"Ada"}"#),
    ] {
        assert_eq!(sent(arguments), (payload.to_owned(), json.clone()), "{arguments:?}");
    }
}

#[test]
fn a_payload_that_does_not_match_is_not_sent() {
    let server = Running::start();
    for (arguments, expected) in [
        (&["--set", "name=Ada", "--set", "n=x"][..], "`n`: `x` is not an integer"),
        (
            &["--set", "nmae=Ada"],
            "`nmae` is no field of the input; its fields: `name`, `n`, `to.city`, `tone`",
        ),
        (&["--set", "n=3"], "\"name\" is a required property"),
        (&["--set", "name="], "`/name`: "),
        (
            &["--set", "name=Ada", "--set", "n:=\"x\""],
            "`/n`: the value is not of type \"integer\"",
        ),
        (&["--set", "name"], "expected NAME=TEXT or NAME:=JSON"),
        (&["--set", "name=Ada", "-d", "{}"], "cannot be used with"),
        (&["--ask", "-d", "{}"], "cannot be used with"),
    ] {
        let (code, _, errors) = run(&server, &[&["invoke", "greet"], arguments].concat());
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains(expected), "{errors}");
    }
    assert!(!server.was_asked("/invoke"));
}

#[test]
fn what_the_server_refuses_is_named_with_its_place() {
    let server = Running::start();
    let arguments = [
        "invoke",
        "greet",
        "-H",
        "x-test: refused",
        "-d",
        "{\"name\": \"Ada\", \"n\": \"x\"}",
    ];
    let (code, _, errors) = run(&server, &arguments);
    assert_eq!(code, 2, "{errors}");
    assert!(
        errors.contains("`/n`: the value is not of type \"integer\""),
        "{errors}"
    );
    assert!(errors.contains("fndctl show greet"), "{errors}");
}

#[test]
fn nobody_is_asked_without_a_terminal_or_without_fields() {
    let server = Running::start();
    for (function, expected) in [("greet", "no terminal"), ("hello", "`hello` has no fields")] {
        let mut command = fndctl(&server.socket);
        let output = command
            .args(["invoke", function, "--ask"])
            .stdin(Stdio::null())
            .output();
        let (code, _, errors) = outcome(&output.unwrap());
        assert_eq!(code, 2, "{errors}");
        assert!(errors.contains(expected) && !server.was_asked("/invoke"), "{errors}");
    }
}

#[test]
fn show_lists_the_fields() {
    let server = Running::start();
    let (code, shown, _) = run(&server, &["show", "greet"]);
    assert_eq!(code, 0);
    for line in ["name     string   yes", "n        integer  no", "tone     string   no"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(
        shown.contains("Whom to greet") && shown.contains("one of warm, formal"),
        "{shown}"
    );
    let (_, hello, _) = run(&server, &["show", "hello"]);
    assert!(!hello.contains("FIELD"), "{hello}");
}
