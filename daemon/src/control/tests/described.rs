//! The description of the API, as a client reads it. A change shows in the diff of `snapshots/openapi.json`;
//! `UPDATE_SNAPSHOTS=1` writes that file anew.

use super::UNKNOWN;
use super::http::{ask, get, run, run_stuck};
use crate::start::tests::small::Running;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn the_document_is_as_before() {
    let answer = get(&Running::start().socket, "/v1/openapi.json");
    // The fields of an object are sorted: their order has no meaning.
    let found = format!("{:#}\n", answer.json());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control/tests/snapshots/openapi.json");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (expected, found)) in expected.lines().zip(found.lines()).enumerate() {
        assert_eq!(expected, found, "line {}", number + 1);
    }
    assert_eq!(expected.lines().count(), found.lines().count());
}

/// Every route refuses a parameter that it does not know, and lists those that it knows.
#[test]
fn it_has_exactly_the_parameters_that_routes_accept() {
    let server = Running::start();
    let document = get(&server.socket, "/v1/openapi.json").json();
    for (path, operations) in document["paths"].as_object().unwrap() {
        // The parameters of an HTTP function are its own.
        if path == "/healthz" || path.ends_with("/http/{path}") {
            continue;
        }
        let place = path
            .replace("{function}", "hello")
            .replace("{id}", UNKNOWN)
            .replace("{scope}", "shop")
            .replace("{key}", "orders");
        let operations = operations.as_object().unwrap();
        for (method, operation) in operations.iter().filter(|(method, _)| *method != "parameters") {
            let method = method.to_uppercase();
            let answer = ask(&server.socket, &format!("{method} {place}?no-such=1 HTTP/1.1"), b"");
            assert_eq!(answer.status, 400, "{method} {path}: {answer:?}");
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            let known = detail.split_once("; known: ").map(|(_, known)| known.split(", "));
            let known: BTreeSet<_> = known.into_iter().flatten().map(|name| name.trim_matches('`')).collect();
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let described: BTreeSet<_> = parameters
                .filter(|parameter| parameter["in"] == "query")
                .filter_map(|parameter| parameter["name"].as_str())
                .collect();
            assert_eq!(known, described, "{method} {path}: {detail}");
        }
    }
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

/// Checks the status and the body of an answer against the responses of its operation.
fn check(document: &Value, line: &str, operation: &Value, answer: &super::http::Answer) {
    let responses = &operation["responses"];
    let response = responses
        .get(answer.status.to_string())
        .or_else(|| responses.get("default"));
    let mut response = response.unwrap_or_else(|| panic!("{line}: {answer:?}"));
    if let Some(reference) = response["$ref"].as_str() {
        response = document.pointer(reference.trim_start_matches('#')).unwrap();
    }
    let Some(media) = answer.header("content-type").filter(|media| media.contains("json")) else {
        return;
    };
    let schema = response["content"].get(media).and_then(|content| content.get("schema"));
    // The description of the API says nothing of the bodies that functions answer.
    let Some(schema) = schema else {
        assert!(
            answer.header("fnd-state").is_some(),
            "{line}: {media} is not described: {answer:?}"
        );
        return;
    };
    let mut schema = schema.clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for value in serde_json::Deserializer::from_slice(&answer.body).into_iter::<Value>() {
        if let Err(error) = validator.validate(&value.unwrap()) {
            panic!("{line}: {error} at {}: {answer:?}", error.instance_path());
        }
    }
}

#[test]
fn every_route_answers_as_it_says() {
    let server = Running::start();
    let socket = &server.socket;
    let (ended, failed, dropped) = (
        run(socket, "hello", b"1"),
        run(socket, "fails", b"1"),
        run(socket, "fails", b"2"),
    );
    let running = run_stuck(socket);
    let requests = [
        ("GET /healthz", "", 200),
        ("GET /metrics", "", 200),
        ("GET /v1/status", "", 200),
        ("GET /v1/status?functions=0", "", 200),
        ("GET /v1/overview", "", 200),
        ("GET /v1/access", "", 200),
        ("GET /v1/functions?label=team=web", "", 200),
        ("GET /v1/functions", "", 200),
        ("GET /v1/functions?state=ready&q=HE&limit=1&after=a", "", 200),
        ("GET /v1/functions?state=attention", "", 200),
        ("GET /v1/functions?state=odd", "", 400),
        ("GET /v1/functions?limit=0", "", 400),
        ("GET /v1/functions?after=A%20B", "", 400),
        ("GET /v1/functions?watch=1&limit=1", "", 400),
        ("GET /v1/functions/ops%2Fbackup", "", 200),
        ("POST /v1/functions/hello/invoke", "{\"name\": \"Ada\"}", 200),
        ("POST /v1/functions/fails/invoke", "", 500),
        ("POST /v1/functions/invalid/invoke", "", 503),
        ("POST /v1/functions/hello/invocations", "x", 202),
        ("POST /v1/functions/hello/disable", "", 200),
        ("POST /v1/functions/hello/enable", "", 200),
        ("POST /v1/functions/hello/stop", "", 400),
        ("POST /v1/functions/hello/start", "", 400),
        ("POST /v1/functions/hello/restart", "", 200),
        ("POST /v1/functions/invalid/restart", "", 400),
        ("POST /v1/functions/invalid/shell", "", 400),
        ("GET /v1/functions/hello/versions", "", 200),
        ("GET /v1/functions/hello/versions/9a/files", "", 404),
        ("POST /v1/functions/hello/rollback", "", 409),
        ("POST /v1/functions/hello/pin?version=77", "", 404),
        ("POST /v1/functions/hello/pin", "", 200),
        ("POST /v1/functions/hello/unpin", "", 200),
        ("POST /v1/functions/hello/unpin", "", 409),
        ("POST /v1/functions/hello/canary?percent=10", "", 409),
        ("POST /v1/functions/hello/canary", "", 400),
        ("POST /v1/functions/hello/canary?percent=101", "", 400),
        ("DELETE /v1/functions/hello/canary", "", 409),
        ("POST /v1/functions/hello/promote", "", 409),
        ("POST /v1/functions/hello/build?clean=1", "", 200),
        ("PUT /v1/functions/hello", "x", 400),
        ("DELETE /v1/functions/hello", "", 409),
        ("DELETE /v1/functions/nobody", "", 404),
        (
            "POST /v1/events",
            r#"{"event-type": "order", "event-id": "7", "data": {"order": 7}}"#,
            202,
        ),
        ("POST /publish", r#"{"event-type": "nobody", "event-id": "7"}"#, 202),
        ("GET /v1/invocations", "", 200),
        (&format!("GET /v1/invocations/{ended}"), "", 200),
        (&format!("GET /v1/invocations/{ended}/result"), "", 200),
        (&format!("GET /v1/invocations/{failed}/result"), "", 500),
        (&format!("GET /v1/invocations/{ended}/payload"), "", 200),
        (&format!("GET /v1/invocations/{failed}/payload"), "", 200),
        (&format!("GET /v1/invocations/{ended}/logs"), "", 200),
        (&format!("POST /v1/invocations/{failed}/replay"), "", 202),
        (&format!("POST /v1/invocations/{running}/replay"), "", 409),
        (&format!("POST /v1/invocations/{running}/cancel"), "", 200),
        ("GET /v1/dead-letters?reason=failed", "", 200),
        (&format!("GET /v1/dead-letters/{failed}"), "", 200),
        (&format!("POST /v1/dead-letters/{failed}/redrive"), "", 202),
        (&format!("DELETE /v1/dead-letters/{dropped}"), "", 200),
        ("GET /v1/audit?refused=0", "", 200),
        ("GET /v1/audit?verb=invoke", "", 200),
        ("GET /v1/audit?verb=nosuchverb", "", 400),
        ("GET /v1/backup", "", 200),
        ("GET /v1/stream?follow=0&function=hello", "", 200),
        ("GET /v1/logs", "", 200),
        ("GET /v1/runtimes", "", 200),
        ("GET /v1/log-level", "", 200),
        ("POST /v1/log-level?level=loud", "", 400),
        ("GET /v1/routes", "", 200),
        ("POST /v1/routes/test", r#"{"method": "POST", "url": "/hooks/x"}"#, 200),
        ("POST /v1/routes/test", r#"{"method": "POST", "url": "a b"}"#, 400),
        ("POST /v1/routes/test", "{}", 400),
        ("GET /v1/schedules?next=2&function=hello", "", 200),
        ("GET /v1/schedules?next=0", "", 400),
        ("POST /v1/functions/hello/schedules/pause", "", 400),
        ("POST /v1/functions/hello/schedules/resume", "", 400),
        ("POST /v1/functions/nobody/schedules/pause", "", 404),
        // These need servers of NATS; tests with one are in `tests/it/nats`.
        ("GET /v1/nats?function=hello", "", 404),
        ("POST /v1/nats/publish?subject=orders.new&id=7", "x", 404),
        ("POST /v1/nats/publish?subject=orders.*", "x", 400),
        ("POST /v1/functions/hello/nats/release?sequence=7", "", 404),
        ("POST /v1/functions/hello/nats/release?sequence=0", "", 400),
        ("POST /v1/functions/hello/nats/release", "", 400),
        ("GET /v1/sizes", "", 200),
        ("GET /v1/state", "", 200),
        ("PUT /v1/state/shop/orders", "{\"open\": 13}", 200),
        ("GET /v1/state/shop?prefix=o&limit=1", "", 200),
        ("GET /v1/state/shop/orders", "", 200),
        ("DELETE /v1/state/shop/orders", "", 200),
        ("GET /v1/usage", "", 200),
        ("DELETE /v1/drain", "", 200),
        ("GET /v1/config", "", 200),
        ("POST /v1/reload", "", 200),
        (
            "POST /v1/validate",
            "{\"name\": \"a.toml\", \"content\": \"no_such_key = 1\"}",
            200,
        ),
        ("POST /v1/drain?wait=60s", "", 200),
    ];
    let document = get(socket, "/v1/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let methods = methods
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, _)| *key != "parameters");
        operations.extend(methods.map(|(method, operation)| (method, path, operation)));
    }
    for (method, path, _) in &operations {
        // The description has a test of its own, and no function here serves HTTP.
        let elsewhere = *path == "/v1/openapi.json" || path.ends_with("/http/{path}");
        let is_asked = requests.iter().any(|(line, ..)| is_for(line, method, path));
        assert!(is_asked || elsewhere, "nothing shows what {method} {path} answers");
    }
    for (line, body, status) in requests {
        let answer = ask(socket, &format!("{line} HTTP/1.1"), body.as_bytes());
        assert_eq!(answer.status, status, "{line}: {answer:?}");
        let operation = operations.iter().find(|(method, path, _)| is_for(line, method, path));
        check(&document, line, operation.unwrap().2, &answer);
    }
}
