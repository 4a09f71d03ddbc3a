//! Apps as services.

use crate::testing::{check_refused, only, row, table};
use crate::{Imported, tree};
use fnd_manifest::foreign::FieldVerdict;
use std::path::Path;

fn made(text: &str, env: Option<&str>) -> Imported {
    let documents = tree::parse("ecosystem.json", text.as_bytes()).unwrap();
    super::super::apps(&documents, "ecosystem.json", Path::new("/srv/app"), env, false)
}

#[test]
fn an_app_is_a_service_where_it_is() {
    let imported = made(
        r#"{"apps": [{"name": "api", "script": "./server.js", "args": "--port 80 'a b'", "node_args": ["--trace-warnings"], "instances": 2,
        "exec_mode": "cluster", "max_memory_restart": "200M", "env": {"A": "1", "PORT": 3000}, "env_production": {"A": "2"},
        "restart_delay": 4000, "kill_timeout": 1600, "watch": true, "out_file": "x.log", "max_restarts": 10, "odd": 1}]}"#,
        Some("production"),
    );
    let function = only(&imported);
    let manifest = table(function);
    assert_eq!(manifest["mode"].as_str(), Some("service"));
    assert_eq!(manifest["service"]["replicas"].as_integer(), Some(2));
    assert_eq!(manifest["limits"]["memory"].as_str(), Some("400M"));
    assert_eq!(manifest["limits"]["grace"].as_str(), Some("1600ms"));
    assert_eq!(manifest["retry"]["interval"].as_str(), Some("4s"));
    assert_eq!(
        (manifest["env"]["A"].as_str(), manifest["env"]["PORT"].as_str()),
        (Some("2"), Some("3000"))
    );
    assert_eq!(manifest["sandbox"]["read_only"][0].as_str(), Some("/srv/app"));
    let code = str::from_utf8(&function.files[0].bytes).unwrap();
    assert_eq!(
        code,
        "#!/usr/bin/env bash\ncd /srv/app || exit\nexec node --trace-warnings ./server.js --port 80 'a b'\n"
    );
    let verdict = |name: &str| row(&imported.report, name).verdict;
    assert_eq!(
        (verdict("watch"), verdict("odd"), verdict("exec_mode")),
        (FieldVerdict::NotHere, FieldVerdict::Unknown, FieldVerdict::Differs)
    );
}

#[test]
fn negative_instances_are_all_cpus_but_that_many() {
    let cpus = std::thread::available_parallelism().map_or(1, |count| i64::try_from(count.get()).unwrap());
    for (instances, expected) in [("\"max\"", cpus), ("0", cpus), ("-1", (cpus - 1).max(1)), ("-9999", 1)] {
        let imported = made(
            &format!(r#"[{{"name": "api", "script": "./server.js", "instances": {instances}}}]"#),
            None,
        );
        let replicas = table(only(&imported))["service"]["replicas"].as_integer();
        assert_eq!(replicas, Some(expected), "{instances}");
    }
}

#[test]
fn an_app_that_is_not_restarted_is_a_script_with_a_schedule() {
    let imported = made(
        r#"[{"script": "jobs/report.py", "autorestart": false, "cron_restart": "0 3 * * *"}]"#,
        None,
    );
    let manifest = table(&imported.functions[0]);
    assert_eq!(imported.functions[0].name, "report");
    assert_eq!(manifest["schedule"][0]["cron"].as_str(), Some("0 3 * * *"));
    assert!(!manifest.contains_key("mode"));
}

#[test]
fn a_program_needs_no_interpreter() {
    for (app, line) in [
        (r#"{"script": "npm", "args": "start"}"#, "exec npm start"),
        (r#"{"script": "bin/x", "interpreter": "none"}"#, "exec ./bin/x"),
        (
            r#"{"script": "x.js", "interpreter": "/opt/node"}"#,
            "exec /opt/node x.js",
        ),
    ] {
        let imported = made(app, None);
        let code = str::from_utf8(&imported.functions[0].files[0].bytes)
            .unwrap()
            .to_owned();
        assert!(code.ends_with(&format!("{line}\n")), "{code}");
    }
}

#[test]
fn what_is_no_app_is_refused() {
    for (text, why) in [
        ("[]", "there is no app"),
        ("", "there is no app"),
        (r#"{"apps": [1]}"#, "expected an app"),
        (r#"{"apps": {"name": "x"}}"#, "expected an app"),
        (r#"{"script": "a.js", "instances": "many"}"#, "number of processes"),
        (r#"{"script": "a.js", "max_memory_restart": "lots"}"#, "no size"),
        (r#"{"script": "a.js", "env": {"a b": 1}}"#, "no name"),
        (r#"{"script": "a.js", "args": "'a"}"#, "quote"),
        (r#"{"script": "a.js", "cwd": ["a"]}"#, "it is a list"),
        (r#"{"script": "a.js", "autorestart": "maybe"}"#, "`true` or `false`"),
        (r#"{"script": {}}"#, "it is a map"),
        (r#"{"script": "a.js", "autorestart": false, "cron_restart": "x"}"#, ""),
    ] {
        let imported = made(text, None);
        assert!(imported.functions.is_empty(), "{text}");
        check_refused(&imported.report, why, text);
    }
}
