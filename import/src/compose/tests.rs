//! Compose files as services.

use super::*;
use crate::tests::testing::{check_refused, only, row, table};
use fnd_manifest::foreign::FieldVerdict;

fn made(text: &str) -> Imported {
    let documents = tree::parse("compose.yaml", text.as_bytes()).unwrap();
    services(&documents, "compose.yaml", Path::new("/srv/shop"), ImportedUsers::Named)
}

#[test]
fn a_service_with_a_command_is_a_service() {
    let imported = made(
        "services:\n  Web:\n    command: [python3, -m, http.server, \"8000\"]\n    environment:\n      A: 1\n      B: \"$$x\"\n    restart: always\n\
         \x20   deploy:\n      replicas: 2\n      resources:\n        limits: {cpus: \"0.5\", memory: 512m}\n    stop_grace_period: 1m30s\n    ports: [\"80:8000\"]\n\
         \x20   depends_on: [db]\n  db:\n    image: postgres:17\n",
    );
    let function = only(&imported);
    let manifest = table(function);
    assert_eq!(
        (function.name.as_str(), manifest["mode"].as_str()),
        ("web", Some("service"))
    );
    assert_eq!(
        (manifest["env"]["A"].as_str(), manifest["env"]["B"].as_str()),
        (Some("1"), Some("$x"))
    );
    assert_eq!(
        (
            manifest["limits"]["memory"].as_str(),
            manifest["limits"]["cpu"].as_str()
        ),
        (Some("512M"), Some("500m"))
    );
    assert_eq!(
        (
            manifest["limits"]["grace"].as_str(),
            manifest["service"]["replicas"].as_integer()
        ),
        (Some("90s"), Some(2))
    );
    assert_eq!(
        function.files[0].bytes,
        b"#!/usr/bin/env bash\ncd /srv/shop || exit\nexec python3 -m http.server 8000\n"
    );
    let row = |name: &str| row(&imported.report, name);
    assert_eq!(row("Web.ports").verdict, FieldVerdict::NotHere);
    assert_eq!(
        (row("db.image").verdict, row("db.image").line),
        (FieldVerdict::Refused, 16)
    );
}

/// The keys of compose's schema, misspelt ones, and services without a key.
#[test]
fn every_key_has_a_verdict() {
    use FieldVerdict::{Differs, NotHere, Refused, Unknown, Works};
    for (key, verdict) in [
        ("stop_signal: SIGINT", Works),
        ("stop_signal: SIGTERM", Works),
        ("profiles: [debug]", Differs),
        ("sysctls: {a: 1}", NotHere),
        ("healthcheck: {test: x}", NotHere),
        ("user: \"1000:1000\"", Differs),
        ("user: root", Refused),
        ("commandd: x", Unknown),
        ("x-odd: 1", Works),
    ] {
        let imported = made(&format!(
            "services:\n  a:\n    command: b\n    restart: always\n    {key}\n"
        ));
        let name = format!("a.{}", key.split(':').next().unwrap());
        assert_eq!(row(&imported.report, &name).verdict, verdict, "{key}");
    }
    let imported = made("services: {a: {command: b, profiles: [x]}}\n");
    let manifest = table(only(&imported));
    assert_eq!(manifest["limits"]["grace"].as_str(), Some("10s"));
    assert_eq!(manifest["enabled"].as_bool(), Some(false));
    // compose leaves a service without `restart` that has ended, and gives it a network of its own.
    for key in ["a.restart", "a.network_mode"] {
        assert_eq!(row(&imported.report, key).verdict, Differs, "{key}");
    }
}

#[test]
fn what_cannot_run_is_refused() {
    for (text, why) in [
        ("", "there is no service"),
        ("services: {}\n", "there is no service"),
        ("services: {a: {build: .}}\n", "no images"),
        ("services: {a: {restart: always}}\n", "neither `command`"),
        ("services: {a: {command: \"x ${Y}\"}}\n", "write its value"),
        (
            "services: {a: {command: x, working_dir: \"${Y}\"}}\n",
            "write its value",
        ),
        ("services: {a: {command: \"'x\"}}\n", "quote"),
        ("services: {a: {command: x, environment: [A]}}\n", "a name and a value"),
        ("services: {a: {command: x, env_file: .env}}\n", "copy the file"),
        ("services: {a: {command: x, scale: 0}}\n", "from 1 to 1000"),
        ("services: {a: {command: x, mem_limit: lots}}\n", "no value"),
        ("services: {a: {command: x, restart: [a]}}\n", "it is a list"),
        ("services: {a: {command: x, restart: sometimes}}\n", "none of `no`"),
        ("services: {a: {command: {b: c}}}\n", "or one text"),
        ("services: {a: {command: [b, [c]]}}\n", "a list of texts"),
        ("services: {a: {command: b, environment: 7}}\n", "or a list of"),
        ("services: [a]\n", "expected a map"),
        ("services: {a: b}\n", "expected a map"),
        ("- a\n", "expected a map"),
    ] {
        let imported = made(text);
        assert!(imported.functions.is_empty(), "{text}");
        check_refused(&imported.report, why, text);
    }
}
