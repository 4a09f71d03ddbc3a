//! The description of the API, as a client reads it. A change shows in the diff of `snapshots/openapi.json`;
//! `UPDATE_SNAPSHOTS=1` writes that file anew.

use crate::fake::{ENDED, Running};
use crate::http::{ask, get};
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn the_document_is_as_before() {
    let answer = get(&Running::start().socket, "/v1/openapi.json");
    // The fields of an object are sorted: their order has no meaning.
    let found = format!("{:#}\n", answer.json());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control/snapshots/openapi.json");
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
            .replace("{id}", ENDED)
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
