//! The answer of each route, as a snapshot: status, type and body.

use crate::fake::{BEGAN, ENDED, FAILED, RUNNING, Running, UNKNOWN};
use crate::http::{ask, get};
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

/// The headers of an answer that a snapshot contains.
const HEADERS: [&str; 7] = [
    "allow",
    "etag",
    "fnd-invocation",
    "fnd-state",
    "fnd-status",
    "location",
    "retry-after",
];

/// Returns a request with what is answered.
fn asked(socket: &Path, line: &str, body: &str) -> String {
    let answer = ask(socket, &format!("{line} HTTP/1.1"), body.as_bytes());
    let content_type = answer.header("content-type").unwrap_or("no body");
    let shown = match content_type {
        // Its fields in the order of the alphabet.
        "application/json" | "application/problem+json" => format!("{:#}", answer.json()),
        _ => String::from_utf8_lossy(&answer.body).trim_end().to_owned(),
    };
    let header = |name: &&str| Some(format!("{name}: {}\n", answer.header(name)?));
    let headers: String = HEADERS.iter().filter_map(header).collect();
    let line = format!("{line} {body}");
    let text = format!(
        "{}\n{} {content_type}\n{headers}{shown}\n\n",
        line.trim_end(),
        answer.status
    );
    text.replace(&fnd_core::instant::text(*BEGAN)[..19], "0000-00-00T00:00:00")
}

/// Says whether a request is one for a path of the description, where `{}` stands for a part.
fn is_for(line: &str, method: &str, path: &str) -> bool {
    let (asked_method, asked_path) = line.split_once(' ').unwrap();
    let asked_path = asked_path.split('?').next().unwrap();
    let parts = || asked_path.split('/').zip(path.split('/'));
    asked_method.eq_ignore_ascii_case(method)
        && asked_path.split('/').count() == path.split('/').count()
        && parts().all(|(asked, part)| asked == part || part.starts_with('{'))
}

#[test]
fn every_route() {
    let server = Running::start();
    let requests = [
        ("GET /healthz".to_owned(), ""),
        ("GET /metrics".to_owned(), ""),
        ("GET /v1/status".to_owned(), ""),
        ("GET /v1/status?functions=0".to_owned(), ""),
        ("GET /v1/functions?label=team=web".to_owned(), ""),
        ("GET /v1/functions/ops%2Fbackup".to_owned(), ""),
        ("POST /v1/functions/hello/invoke".to_owned(), "{\"name\": \"Ada\"}"),
        ("POST /v1/functions/hello/invocations".to_owned(), "x"),
        ("POST /v1/functions/hello/enable".to_owned(), ""),
        ("POST /v1/functions/hello/disable".to_owned(), ""),
        ("GET /v1/functions/hello/versions".to_owned(), ""),
        ("GET /v1/functions/hello/versions/9a/files".to_owned(), ""),
        ("POST /v1/functions/hello/rollback".to_owned(), ""),
        ("POST /v1/functions/full/rollback".to_owned(), ""),
        ("POST /v1/functions/hello/pin?version=0".to_owned(), ""),
        ("POST /v1/functions/hello/pin?version=77".to_owned(), ""),
        ("POST /v1/functions/fails/rollback?version=9a".to_owned(), ""),
        ("POST /v1/functions/hello/pin".to_owned(), ""),
        ("POST /v1/functions/hello/unpin".to_owned(), ""),
        ("POST /v1/functions/hello/canary?percent=10".to_owned(), ""),
        ("POST /v1/functions/hello/canary".to_owned(), ""),
        ("POST /v1/functions/hello/canary?percent=101".to_owned(), ""),
        ("DELETE /v1/functions/hello/canary".to_owned(), ""),
        ("POST /v1/functions/hello/promote".to_owned(), ""),
        ("POST /v1/functions/hello/build".to_owned(), ""),
        ("POST /v1/functions/hello/build?clean=1".to_owned(), ""),
        ("POST /v1/functions/fails/build".to_owned(), ""),
        ("POST /v1/functions/full/unpin".to_owned(), ""),
        ("PUT /v1/functions/new".to_owned(), "x"),
        ("DELETE /v1/functions/hello".to_owned(), ""),
        ("DELETE /v1/functions/ops%2Fbackup".to_owned(), ""),
        (
            "POST /v1/events".to_owned(),
            r#"{"event-type": "order.created", "event-id": "7", "data": {"order": 7}}"#,
        ),
        ("POST /publish".to_owned(), r#"{"event-type": "full", "event-id": "7"}"#),
        ("GET /v1/invocations".to_owned(), ""),
        (format!("GET /v1/invocations/{ENDED}"), ""),
        (format!("GET /v1/invocations/{ENDED}/result"), ""),
        (format!("GET /v1/invocations/{ENDED}/logs"), ""),
        (format!("POST /v1/invocations/{FAILED}/replay"), ""),
        (format!("POST /v1/invocations/{RUNNING}/cancel"), ""),
        ("GET /v1/dead-letters?reason=exit-3".to_owned(), ""),
        (format!("GET /v1/dead-letters/{FAILED}"), ""),
        (format!("POST /v1/dead-letters/{FAILED}/redrive"), ""),
        (format!("DELETE /v1/dead-letters/{FAILED}"), ""),
        ("GET /v1/audit?refused=0".to_owned(), ""),
        ("GET /v1/backup".to_owned(), ""),
        ("GET /v1/stream?follow=0&function=hello".to_owned(), ""),
        ("GET /v1/logs".to_owned(), ""),
        ("GET /v1/runtimes".to_owned(), ""),
        ("GET /v1/log-level".to_owned(), ""),
        ("POST /v1/log-level?level=loud".to_owned(), ""),
        ("GET /v1/routes".to_owned(), ""),
        (
            "POST /v1/routes/test".to_owned(),
            r#"{"method": "POST", "url": "/hooks/x"}"#,
        ),
        ("POST /v1/routes/test".to_owned(), r#"{"method": "POST", "url": "a b"}"#),
        ("POST /v1/routes/test".to_owned(), "{}"),
        ("GET /v1/schedules?next=2&function=bad-answer".to_owned(), ""),
        ("GET /v1/schedules?next=0".to_owned(), ""),
        ("POST /v1/functions/bad-answer/schedules/pause".to_owned(), ""),
        ("POST /v1/functions/hello/schedules/resume".to_owned(), ""),
        ("POST /v1/functions/nobody/schedules/pause".to_owned(), ""),
        ("GET /v1/sizes".to_owned(), ""),
        ("GET /v1/state".to_owned(), ""),
        ("GET /v1/state/shop?prefix=c&limit=1".to_owned(), ""),
        ("GET /v1/state/shop/cart/1".to_owned(), ""),
        ("PUT /v1/state/shop/orders".to_owned(), "{\"open\": 13}"),
        ("GET /v1/state/shop/orders".to_owned(), ""),
        ("DELETE /v1/state/shop/orders".to_owned(), ""),
        ("GET /v1/usage".to_owned(), ""),
        ("DELETE /v1/drain".to_owned(), ""),
        ("GET /v1/config".to_owned(), ""),
        ("POST /v1/reload".to_owned(), ""),
        (
            "POST /v1/validate".to_owned(),
            "{\"name\": \"a.toml\", \"content\": \"runtime = 'pyhton'\"}",
        ),
        ("POST /v1/drain".to_owned(), ""),
    ];
    let document = get(&server.socket, "/v1/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    for (path, methods) in document["paths"].as_object().unwrap() {
        // The description has a file of its own, and no function of the fake one passes requests on.
        let elsewhere = path == "/v1/openapi.json" || path.ends_with("/http/{path}");
        for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            let is_asked = requests.iter().any(|(line, _)| is_for(line, method, path));
            assert!(is_asked || elsewhere, "nothing shows what {method} {path} answers");
        }
    }
    let shown: String = requests
        .iter()
        .map(|(line, body)| asked(&server.socket, line, body))
        .collect();
    snapshot!(shown);
}

#[test]
fn every_refusal() {
    let server = Running::start();
    let runs = [
        "fails",
        "oom",
        "cancelled",
        "bad-answer",
        "slow",
        "full",
        "disabled",
        "invalid",
        "stopping",
        "nobody",
        "No-Name",
    ];
    let mut shown = String::new();
    for function in runs {
        shown += &asked(&server.socket, &format!("POST /v1/functions/{function}/invoke"), "");
    }
    for path in [
        "/",
        "/v1/nothing",
        "/v1/functions/nobody",
        "/v1/state/shop/nothing",
        "/v1/state/.shop",
        "/v1/state/shop/a/../b",
        "/v1/state/shop/",
        "/v1/logs?function=nobody",
        "/v1/schedules?next=x",
        "/v1/functions/hello/invoke",
        "/v1/functions?label=team",
        "/v1/invocations/17",
        &format!("/v1/invocations/{UNKNOWN}"),
        &format!("/v1/invocations/{UNKNOWN}/logs"),
        &format!("/v1/invocations/{UNKNOWN}/result"),
        &format!("/v1/invocations/{RUNNING}/result"),
        &format!("/v1/invocations/{FAILED}/result"),
    ] {
        shown += &asked(&server.socket, &format!("GET {path}"), "");
    }
    snapshot!(shown);
}

#[test]
fn help_of_fnd() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fnd"));
    let output = command.env_clear().env("COLUMNS", "80").arg("--help").output().unwrap();
    snapshot!(String::from_utf8(output.stdout).unwrap());
}
