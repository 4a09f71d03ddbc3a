//! Files of Keptn, Kubeless, Kyma and Rafay are functions. The rows of `tests/conformance/foreign` say what becomes of each:
//! their first lines, as comments, have the verdicts on fields, keys of the manifest, and what the functions answer.
//!
//! ```text
//! # refused FIELD WORDS       the field is refused with these words
//! # problem FIELD             fnd itself refuses what the field becomes
//! # row FIELD VERDICT         the verdict on a field
//! # key FUNCTION KEY = VALUE  a key of the manifest that is made
//! # call FUNCTION [DATA]: ANSWER
//! # load FUNCTION: OUTPUT     it runs once, and prints this
//! ```

use fnd_tests::ctl::fndctl;
use fnd_tests::programs::repository;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A file of the suite.
struct Case {
    name: String,
    path: PathBuf,
    lines: Vec<String>,
}

impl Case {
    /// Returns the lines that begin with a word, without it.
    fn of(&self, word: &str) -> Vec<&str> {
        let begin = format!("# {word} ");
        self.lines.iter().filter_map(|line| line.strip_prefix(&begin)).collect()
    }
}

fn cases() -> Vec<Case> {
    let entries = fs::read_dir(repository().join("tests/conformance/foreign")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let case = |path: PathBuf| Case {
        name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
        lines: fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect(),
        path,
    };
    let cases: Vec<Case> = paths.into_iter().map(case).collect();
    assert!(cases.len() >= 28, "{} cases", cases.len());
    cases
}

/// Finds a value in TOML: `limits.timeout`.
fn find<'a>(table: &'a toml::Table, path: &str) -> Option<&'a toml::Value> {
    match path.split_once('.') {
        None => table.get(path),
        Some((first, rest)) => find(table.get(first)?.as_table()?, rest),
    }
}

#[test]
fn every_field_has_its_verdict() {
    for case in cases() {
        let out = tempfile::tempdir().unwrap();
        let path = case.path.to_str().unwrap();
        let run = fndctl(
            &["import", path, "--out", out.path().to_str().unwrap(), "-o", "json"],
            b"",
            &[],
        );
        let (refused, problems) = (case.of("refused"), case.of("problem"));
        assert_eq!(
            run.code,
            if refused.is_empty() && problems.is_empty() {
                0
            } else {
                8
            },
            "{}: {}",
            case.name,
            run.stderr
        );
        let document: Value = serde_json::from_slice(&run.stdout).unwrap();
        let rows = document["rows"].as_array().unwrap();
        let has = |field: &str, verdict: &str, words: &str| {
            rows.iter().any(|row| {
                row["field"] == field
                    && row["verdict"] == verdict
                    && row["note"].as_str().unwrap_or_default().contains(words)
            })
        };
        for line in refused {
            let (field, words) = line.split_once(' ').unwrap();
            assert!(has(field, "refused", words), "{}: {line}\n{rows:#?}", case.name);
        }
        for field in problems {
            let found = document["problems"].as_array().unwrap();
            let begin = format!("`{}`: ", field.trim());
            let is_its =
                |problem: &Value| problem["message"].as_str().unwrap().starts_with(&begin) && problem["file"] == path;
            assert!(found.iter().any(is_its), "{}: {field}\n{found:#?}", case.name);
        }
        for line in case.of("row") {
            let (field, verdict) = line.split_once(' ').unwrap();
            assert!(has(field, verdict, ""), "{}: {line}\n{rows:#?}", case.name);
        }
        for line in case.of("key") {
            let (function, rest) = line.split_once(' ').unwrap();
            let (key, value) = rest.split_once(" = ").unwrap();
            let text = fs::read_to_string(out.path().join(function).join("function.toml")).unwrap();
            let manifest: toml::Table = text.parse().unwrap();
            let expected: toml::Table = format!("x = {value}").parse().unwrap();
            assert_eq!(find(&manifest, key), expected.get("x"), "{}: {line}\n{text}", case.name);
        }
        // Every row has the place of its field.
        let lines = case.lines.len() as u64;
        let is_placed =
            |row: &Value| (1..=lines).contains(&row["line"].as_u64().unwrap()) && row["column"].as_u64() > Some(0);
        assert!(rows.iter().all(is_placed), "{}: {rows:#?}", case.name);
    }
}

/// Copies a case into a group of its own.
fn drop_case(fnd: &Fnd, case: &Case) {
    let group = fnd.function_path(&case.name);
    fs::create_dir(&group).unwrap();
    fs::copy(&case.path, group.join("it.yaml")).unwrap();
}

#[test]
fn what_other_systems_run_runs_as_it_is() {
    require!(root, cgroup, deno);
    let fnd = Fnd::start();
    let cases = cases();
    for case in &cases {
        drop_case(&fnd, case);
    }
    for case in &cases {
        for line in case.of("call") {
            let (call, expected) = line.split_once(": ").unwrap();
            let (function, data) = call.split_once(' ').unwrap_or((call, ""));
            let function = format!("{}/{function}", case.name);
            let _ = fnd.wait_ready(&function);
            assert_eq!(fnd.invoke(&function, data).text().trim_end(), expected, "{function}");
        }
        for line in case.of("load") {
            let (function, expected) = line.split_once(": ").unwrap();
            let function = format!("{}/{function}", case.name);
            let run = fnd.wait_run(&function);
            let printed = fnd
                .logs(run.id)
                .into_iter()
                .map(|line| line.text)
                .collect::<Vec<_>>()
                .join("\n");
            assert_eq!(printed.trim_end(), expected, "{function}: {run:?}");
        }
        // A refused one is there with its reason, at the place of the field.
        let mut lines = case.of("refused").into_iter().chain(case.of("problem"));
        let Some(line) = lines.next() else { continue };
        if case.name == "kubeless-bad-trigger" {
            continue; // no function has this trigger
        }
        // The words of fnd's own refusals are those of its manifests.
        let words = line.split_once(' ').map_or("spec.schedule", |(_, words)| words);
        let place = format!("{}/it.yaml:", fnd.function_path(&case.name).display());
        wait_until(&format!("{}: {words}", case.name), PATIENCE, || {
            let mut functions = fnd.status().functions.into_iter();
            let its = |error: &String| error.contains(words) && error.contains(&place);
            functions.find(|function| function.error.as_ref().is_some_and(its))
        });
    }
    // A definition that a task uses does not run by itself.
    assert!(fnd.history("keptn-definition-and-task/greet").is_empty());
    fnd.finish();
}

const FUNCTION: &str = "apiVersion: kubeless.io/v1beta1\nkind: Function\nmetadata: {name: it}\nspec:\n  handler: m.f\n  runtime: python3.7\n  deployment: {spec: {template: {spec: {containers: [{env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: a}}}]}]}}}}\n";

fn config(value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {{a: {value}}}\n")
}

fn write(path: &Path, text: &str) {
    let fresh = path.with_file_name(".fresh");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, path).unwrap();
}

#[test]
fn an_edit_of_the_file_or_of_one_beside_it_serves() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    let code = |text: &str| {
        format!("{FUNCTION}  function: \"import os\\ndef f(event, context): return '{text} ' + os.environ['A']\"\n")
    };
    let (file, beside) = (fnd.function_path("any-name.yaml"), fnd.function_path("config.yml"));
    let answers = |expected: &str| {
        wait_until(expected, PATIENCE, || {
            (fnd.invoke("it", "").text() == expected).then_some(())
        });
    };
    write(&beside, &config("one"));
    write(&file, &code("first"));
    let first = fnd.wait_ready("it").version;
    answers("first one");
    assert_eq!(
        fnd.status().unclaimed_count,
        0,
        "a ConfigMap that is read is no unclaimed file"
    );
    write(&file, &code("second"));
    answers("second one");
    write(&beside, &config("two"));
    answers("second two");

    // What is wrong is said at its place, and the last good version serves.
    write(&file, &code("third").replace("m.f", "m"));
    let problem = wait_until("a refusal", PATIENCE, || fnd.function("it")?.error);
    assert!(problem.contains("any-name.yaml:5:3"), "{problem}");
    assert!(problem.contains("incorrect handler format"), "{problem}");
    answers("second two");
    // A file that is no YAML has the functions that it had.
    write(&file, "apiVersion: kubeless.io/v1beta1\nkind: Function\nspec: [\n");
    wait_until("no YAML", PATIENCE, || {
        let problem = fnd.function("it")?.error?;
        (!problem.contains("handler")).then(|| assert!(problem.contains("any-name.yaml:"), "{problem}"))
    });
    answers("second two");
    assert!(fnd.function("any-name").is_none());
    write(&file, &code("fourth"));
    answers("fourth two");

    // A release before, whose files are not there any more, serves again.
    let back = fnd.ctl(&["rollback", "it", &first.unwrap().to_string()]);
    assert_eq!(back.code, 0, "{}", back.stderr);
    answers("first one");
    assert_eq!(fnd.ctl(&["unpin", "it"]).code, 0);
    answers("fourth two");

    fs::remove_file(&file).unwrap();
    fnd.wait_gone("it");
    fnd.finish();
}

/// fnd remembers which functions a file had: a restart while it is broken takes none of them away.
#[test]
fn a_file_that_is_broken_at_a_restart_keeps_its_functions() {
    require!(root, cgroup);
    let mut fnd = Fnd::start_with(&Setup::default().detached());
    let function = |name: &str| {
        let code = format!("def f(event, context): return 'from {name}'");
        format!(
            "apiVersion: kubeless.io/v1beta1\nkind: Function\nmetadata: {{name: {name}}}\nspec: {{handler: m.f, runtime: python, function: \"{code}\"}}\n"
        )
    };
    let file = fnd.function_path("several.yaml");
    let good = format!("{}---\n{}", function("one"), function("two"));
    write(&file, &good);
    let answer = |fnd: &Fnd| ["one", "two"].map(|name| fnd.invoke(name, "").text());
    for name in ["one", "two"] {
        let _ = fnd.wait_ready(name);
    }
    assert_eq!(answer(&fnd), ["from one", "from two"]);
    fnd.leave(Signal::SIGTERM);
    write(&file, "apiVersion: kubeless.io/v1beta1\nkind: Function\nspec: [\n");
    fnd.launch();
    for name in ["one", "two"] {
        let problem = wait_until("a refusal", PATIENCE, || fnd.function(name)?.error);
        assert!(problem.contains("several.yaml:"), "{problem}");
    }
    assert_eq!(answer(&fnd), ["from one", "from two"]);
    // A reload reads everything again, and the file is still broken.
    let _ = fnd.ctl(&["reload"]).expect_code(0);
    assert_eq!(answer(&fnd), ["from one", "from two"]);
    assert!(fnd.function("several").is_none());
    write(&file, &good);
    for name in ["one", "two"] {
        wait_until("no problem", PATIENCE, || {
            fnd.function(name)?.error.is_none().then_some(())
        });
    }
    fnd.finish();
}
