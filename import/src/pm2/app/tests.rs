//! Apps as services.

use super::Pm2Machine;
use crate::tests::testing::{check_refused, only, row, table};
use crate::users::ImportedUsers;
use crate::{Imported, tree};
use fnd_manifest::foreign::FieldVerdict;
use std::path::Path;

fn made(text: &str, env: Option<&str>) -> Imported {
    let documents = tree::parse("ecosystem.json", text.as_bytes()).unwrap();
    let machine = Pm2Machine {
        base: Path::new("/srv/app"),
        env,
        users: ImportedUsers::Named,
        is_text: |path| match path.to_str().unwrap() {
            "/srv/app/bin/www" | "/srv/app/server" => Some(true),
            "/srv/app/tool" => Some(false),
            _ => None,
        },
    };
    super::super::apps(&documents, "ecosystem.json", machine)
}

#[test]
fn an_app_is_a_service_where_it_is() {
    let imported = made(
        r#"{"apps": [{"name": "api", "script": "./server.js", "args": "--port 80 'a b'", "node_args": ["--trace-warnings"], "instances": 2,
        "exec_mode": "cluster", "max_memory_restart": "200M", "env_production": {"A": "2"}, "env": {"A": "1", "SIZE": 3000},
        "restart_delay": 4000, "kill_timeout": 1600, "watch": true, "out_file": "x.log", "max_restarts": 10, "odd": 1}]}"#,
        Some("production"),
    );
    let function = only(&imported);
    let manifest = table(function);
    assert_eq!(manifest["mode"].as_str(), Some("service"));
    assert_eq!(manifest["service"]["replicas"].as_integer(), Some(2));
    assert_eq!(manifest["limits"]["memory"].as_str(), Some("400M"));
    assert_eq!(manifest["limits"]["grace"].as_str(), Some("1600ms"));
    assert_eq!(manifest["service"]["stop_signal"].as_str(), Some("INT"));
    assert_eq!(manifest["retry"]["interval"].as_str(), Some("4s"));
    assert_eq!(
        (manifest["env"]["A"].as_str(), manifest["env"]["SIZE"].as_str()),
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

/// In fnd its second process would find the port taken.
#[test]
fn an_app_with_a_port_is_one_process() {
    for port in [
        r#""port": 3000"#,
        r#""env": {"PORT": 3000}"#,
        r#""env_production": {"PORT": 1}"#,
    ] {
        let app = format!(r#"{{"script": "a.js", "instances": "2", "max_memory_restart": "200M", {port}}}"#);
        let imported = made(&app, None);
        let instances = row(&imported.report, "instances");
        assert!(instances.note.as_ref().unwrap().starts_with("one process"), "{port}");
        let manifest = table(only(&imported));
        assert!(manifest["service"].get("replicas").is_none(), "{port}");
        assert_eq!(manifest["limits"]["memory"].as_str(), Some("200M"), "{port}");
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
        // A text without a suffix is one of node, wherever it lies.
        (r#"{"script": "bin/www"}"#, "exec node bin/www"),
        (r#"{"script": "server", "args": "x"}"#, "exec node server x"),
        (r#"{"script": "tool"}"#, "exec ./tool"),
        (r#"{"exec": "x.ts", "nodeArgs": "-r y"}"#, "exec bun -r y x.ts"),
        // Blanks make it a command line, and pm2 passes no other arguments.
        (
            r#"{"script": "npm run start", "args": "start"}"#,
            "exec bash -c 'npm run start'",
        ),
        (r#"{"cmd": "x.py", "interpreterArgs": ["-O"]}"#, "exec python3 -O x.py"),
    ] {
        let imported = made(app, None);
        let code = str::from_utf8(&imported.functions[0].files[0].bytes)
            .unwrap()
            .to_owned();
        assert!(code.ends_with(&format!("{line}\n")), "{code}");
    }
}

/// The keys of pm2's schema, and what they become; an app without them differs, too.
#[test]
fn every_key_of_the_schema_has_a_verdict() {
    use FieldVerdict::{Differs, NotHere, Refused, Unknown, Works};
    for (key, verdict) in [
        (r#""autostart": false"#, Differs),
        (r#""autostart": true"#, Works),
        (r#""err_file": "x""#, NotHere),
        (r#""errorFile": "x""#, NotHere),
        (r#""out": "x""#, NotHere),
        (r#""combine_logs": true"#, NotHere),
        (r#""stop_exit_codes": [0]"#, Differs),
        (r#""watch": false"#, Works),
        (r#""watch": true"#, NotHere),
        (r#""wait_ready": false"#, Works),
        (r#""filter_env": true"#, Works),
        (r#""port": 3000"#, Works),
        (r#""exec_mode": "fork""#, Works),
        (r#""exec_mode": "both""#, Refused),
        (r#""user": "ada""#, Differs),
        (r#""uid": "root""#, Refused),
        (r#""windowsHide": true"#, Works),
        (r#""source_map_support": true"#, NotHere),
        (r#""cron": "0""#, Works),
        (r#""odd": 1"#, Unknown),
    ] {
        let imported = made(&format!(r#"{{"script": "a.js", {key}}}"#), None);
        let name = key.split('"').nth(1).unwrap();
        assert_eq!(row(&imported.report, name).verdict, verdict, "{key}");
    }
    let imported = made(r#"{"script": "a.js", "port": 3000, "env": {"A": null}}"#, None);
    for key in ["filter_env", "autorestart", "cwd"] {
        assert_eq!(row(&imported.report, key).verdict, Differs, "{key}");
    }
    let script = made(r#"{"script": "a.js", "autorestart": false}"#, None);
    assert_eq!(row(&script.report, "shutdown_with_message").verdict, Differs);
    assert!(!table(only(&script)).contains_key("service"));
    let by_message = made(r#"{"script": "a.js", "shutdown_with_message": true}"#, None);
    assert!(!table(only(&by_message)).contains_key("service"));
    let manifest = table(only(&imported));
    assert_eq!(
        (manifest["env"]["PORT"].as_str(), manifest["env"]["A"].as_str()),
        (Some("3000"), Some("null"))
    );
    assert_eq!(manifest["limits"]["grace"].as_str(), Some("1600ms"));
    let disabled = made(r#"{"script": "a.js", "autostart": false}"#, None);
    assert_eq!(table(only(&disabled))["enabled"].as_bool(), Some(false));
    let beside = made(r#"{"apps": [{"script": "a.js"}], "deploy": {}, "odd": 1}"#, None);
    assert_eq!(row(&beside.report, "odd").verdict, Unknown);
    assert_eq!(row(&beside.report, "deploy").verdict, NotHere);
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
        (r#"{"script": "serve", "env": {"PM2_SERVE_PATH": "."}}"#, "web server"),
        (r#"{"script": "a.js", "autorestart": false, "cron_restart": "x"}"#, ""),
    ] {
        let imported = made(text, None);
        assert!(imported.functions.is_empty(), "{text}");
        check_refused(&imported.report, why, text);
    }
}

/// pm2 waits 100 ms, then 1.5 times as long each time, and at most 15 s.
#[test]
fn a_growing_pause_replaces_the_fixed_one() {
    let app = r#"{"script": "a.js", "exp_backoff_restart_delay": 100, "restart_delay": 4000, "treekill": false}"#;
    let imported = made(app, None);
    let manifest = table(only(&imported));
    let retry = &manifest["retry"];
    let text = |key: &str| retry[key].as_str().map(str::to_owned);
    assert_eq!(text("interval").as_deref(), Some("100ms"));
    assert_eq!(text("max_interval").as_deref(), Some("15s"));
    assert_eq!(text("jitter").as_deref(), Some("none"));
    assert_eq!((retry["factor"].as_float(), retry.get("backoff")), (Some(1.5), None));
    for key in ["restart_delay", "treekill"] {
        assert_eq!(row(&imported.report, key).verdict, FieldVerdict::Differs, "{key}");
    }
}
