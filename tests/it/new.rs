//! `fndctl new` and `fndctl schema`: what they write is accepted and runs; what exists is never overwritten.

use fnd_tests::ctl::fndctl;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Run, require, wait_until};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

fn new(directory: &Path, arguments: &[&str]) -> Run {
    let directory = directory.display().to_string();
    fndctl(&[&["new", "--dir", &directory], arguments].concat(), b"", &[])
}

/// Runtime, kind, files.
const TEMPLATES: &[(&str, &str, &str)] = &[
    ("bash", "handler", ".sh"),
    ("bash", "script", ".sh"),
    ("bash", "service", ".sh"),
    ("python", "handler", ".py"),
    ("python", "script", ".py"),
    ("python", "http", ".py"),
    ("python", "service", ".py"),
    ("deno", "handler", ".ts"),
    ("deno", "script", ".ts"),
    ("deno", "http", ".ts"),
    ("deno", "service", ".ts"),
    ("node", "handler", ".cjs"),
    ("node", "script", ".cjs"),
    ("node", "http", ".cjs"),
    ("node", "service", ".cjs"),
    ("ruby", "handler", ".rb"),
    ("ruby", "script", ".rb"),
    ("ruby", "http", ".rb"),
    ("ruby", "service", ".rb"),
    ("php", "handler", ".php"),
    ("php", "script", ".php"),
    ("php", "http", ".php"),
    ("php", "service", ".php"),
    ("perl", "script", ".pl"),
    ("perl", "http", ".pl"),
    ("perl", "service", ".pl"),
    ("lua", "script", ".lua"),
    ("lua", "service", ".lua"),
    ("java", "handler", ".java"),
    ("java", "script", ".java"),
    ("java", "http", ".java"),
    ("java", "service", ".java"),
    ("go", "handler", ".go"),
    ("go", "script", ".go"),
    ("go", "http", ".go"),
    ("go", "service", ".go"),
    ("exec", "script", ""),
    ("exec", "service", ""),
];

/// Every template is written into the directory of a real fnd, without a warning, and does what it says.
#[test]
fn every_template_runs() {
    require!(deno, go, java, lua, php, ruby);
    let fnd = Fnd::start();
    let functions = fnd.path("functions");
    for (runtime, kind, suffix) in TEMPLATES {
        let name = format!("{runtime}-{kind}");
        let run = new(&functions, &[&name, "--runtime", runtime, "--kind", kind]).expect_code(0);
        assert!(
            run.out()
                .contains(&format!("fndctl run {}{suffix}", functions.join(&name).display())),
            "{run}"
        );
        let manifest = fs::read_to_string(functions.join(format!("{name}.toml"))).unwrap();
        assert!(manifest.starts_with("#:schema file:///usr/share/fnd/schema/manifest.json\n"));
    }
    for (runtime, kind, _) in TEMPLATES {
        let name = format!("{runtime}-{kind}");
        if *kind == "service" {
            wait_until(&format!("{name} to print"), PATIENCE, || {
                fnd.ctl(&["logs", &name]).out().contains("started").then_some(())
            });
            continue;
        }
        fnd.wait_ready(&name);
        let invoke = |payload: &str| fnd.ctl(&["invoke", &name, "-d", payload]).expect_code(0).json();
        match *kind {
            "handler" if *runtime == "bash" => assert_eq!(invoke("{\"name\": \"Ada\"}")["attempt"], 1),
            "handler" => assert_eq!(invoke("{\"name\": \"Ada\"}")["hello"], "Ada", "{name}"),
            "script" => {
                assert_eq!(
                    invoke("{\"text\": \"one\\ntwo three\"}")["words"]
                        .as_u64()
                        .map(|n| n > 1),
                    Some(true)
                );
                // Its manifest has a payload.
                let _ = fnd.ctl(&["invoke", &name]).expect_code(0);
            }
            _ => assert_eq!(invoke("12345")["bytes"], 5, "{name}"),
        }
    }
    let status = fnd.ctl(&["status", "-o", "json"]).expect_code(0).json();
    for function in status["functions"].as_array().unwrap() {
        assert_eq!(function["warnings"].as_array().map_or(0, Vec::len), 0, "{function}");
        assert_eq!(function["error"], serde_json::Value::Null, "{function}");
    }
    fnd.finish();
}

#[test]
fn the_next_commands_are_named_and_a_program_can_read_them() {
    let place = tempfile::tempdir().unwrap();
    let run = new(place.path(), &["hello", "--runtime", "python"]).expect_code(0);
    let file = place.path().join("hello.py").display().to_string();
    let shown = run.out();
    assert!(
        shown.contains(&format!("fndctl run {file} -d '{{\"name\": \"Ada\"}}'")),
        "{run}"
    );
    assert!(
        shown.contains("sudo cp ") && shown.contains(" /etc/fnd/functions/\n"),
        "{run}"
    );
    assert!(
        shown.ends_with("  fndctl invoke hello -d '{\"name\": \"Ada\"}'\n"),
        "{run}"
    );
    let document = new(place.path(), &["web/shop", "-r", "node", "-k", "http", "-o", "json"])
        .expect_code(0)
        .json();
    assert_eq!(
        (&document["function"], &document["kind"]),
        (&"web/shop".into(), &"http".into())
    );
    assert!(place.path().join("web/shop.cjs").exists() && place.path().join("web/shop.toml").exists());
    let names = new(place.path(), &["tool", "--runtime", "exec", "-o", "name"])
        .expect_code(0)
        .out();
    assert_eq!(names.lines().count(), 2, "{names}");
    let mode = fs::metadata(place.path().join("tool")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn nothing_is_overwritten_and_wrong_words_say_the_rule() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::write(at("code.py"), "mine").unwrap();
    fs::write(at("manifest.toml"), "mine").unwrap();
    fs::create_dir(at("directory")).unwrap();
    symlink("/nonexistent", at("link.sh")).unwrap();
    for (name, message) in [
        ("code", "code.py` exists"),
        ("manifest", "manifest.toml` exists"),
        ("directory", "directory` exists"),
        ("link", "link.sh` exists"),
        ("Hello", "a-z"),
        ("a/b/c", "name"),
        ("../x", "name"),
    ] {
        let run = new(place.path(), &[name, "--runtime", "bash"]).expect_code(2);
        assert!(run.stderr.contains(message), "{name}: {run}");
    }
    assert_eq!(fs::read_to_string(at("code.py")).unwrap(), "mine");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 4);
    let run = new(place.path(), &["x", "--runtime", "bash", "--kind", "http"]).expect_code(2);
    assert!(run.stderr.contains("kinds of bash: handler, script, service"), "{run}");
    let run = new(place.path(), &["x", "--runtime", "cobol"]).expect_code(2);
    assert!(
        run.stderr
            .contains("bash, python, deno, node, ruby, php, perl, lua, java, go, exec"),
        "{run}"
    );
    let run = new(&at("missing"), &["x", "--runtime", "bash"]).expect_code(2);
    assert!(run.stderr.contains("mkdir -p"), "{run}");
}

#[test]
fn schemas_are_json_and_yaml() {
    for file in ["manifest", "config"] {
        let schema = fndctl(&["schema", file], b"", &[]).expect_code(0).json();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        let yaml = fndctl(&["schema", file, "-o", "yaml"], b"", &[]).expect_code(0).out();
        assert!(yaml.contains("additionalProperties: false"), "{yaml}");
    }
    let run = fndctl(&["schema", "functions"], b"", &[]).expect_code(2);
    assert!(run.stderr.contains("manifest, config"), "{run}");
}
