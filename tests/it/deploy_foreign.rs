//! `fndctl deploy FILE.yaml`: functions of other systems, uploaded as `fndctl import` makes them.

use fnd_tests::Fnd;
use std::fs;

/// A `Function` of Kubeless in Python, which answers with a text.
fn function(name: &str, answer: &str) -> String {
    format!(
        "apiVersion: kubeless.io/v1beta1\nkind: Function\nmetadata: {{name: {name}}}\nspec:\n  runtime: python\n  \
         handler: {name}.run\n  timeout: \"7\"\n  service: {{type: NodePort}}\n  function: |\n    def run(event, context):\n      return '{answer}'\n"
    )
}

#[test]
fn yaml_files_are_deployed_as_the_functions_that_they_describe() {
    let fnd = Fnd::start();
    let work = fnd.shared_directory("work");
    let at = |name: &str| work.join(name).display().to_string();
    let write = |name: &str, text: &str| fs::write(work.join(name), text).unwrap();
    // One function, with a field that has no effect.
    write("one.yaml", &function("one", "first"));
    let run = fnd.ctl(&["deploy", &at("one.yaml")]).expect_code(0);
    assert!(run.out().contains("one: created, python, handler"), "{run:?}");
    let place = format!("{}:8:", at("one.yaml"));
    for text in [place.as_str(), "spec.service", "not-here"] {
        assert!(run.stderr.contains(text), "{text}: {run:?}");
    }
    assert!(!run.stderr.contains("spec.handler"), "{run:?}");
    assert_eq!(fnd.invoke("one", "").text().trim_end(), "first");
    let detail = fnd.ctl(&["show", "one", "-o", "json"]).expect_code(0).json();
    assert_eq!(detail["manifest"]["handler"], "one.run", "{detail}");
    assert_eq!(detail["manifest"]["limits"]["timeout"], "7s", "{detail}");
    assert_eq!(detail["uploaded"], true, "{detail}");
    // Another name, and options that win.
    let run = fnd
        .ctl(&[
            "deploy",
            &at("one.yaml"),
            "--name",
            "ops/other",
            "--set",
            "limits.timeout=9s",
        ])
        .expect_code(0);
    assert!(run.stderr.contains("wins over `limits.timeout`"), "{run:?}");
    assert_eq!(fnd.invoke("ops/other", "").text().trim_end(), "first");
    // Several functions of several files, as a document.
    write(
        "two.yml",
        &format!("{}---\n{}", function("two", "second"), function("three", "third")),
    );
    write("one.yaml", &function("one", "changed"));
    let files = [at("one.yaml"), at("two.yml")];
    let run = fnd.ctl(&["deploy", &files[0], &files[1], "-o", "json"]).expect_code(0);
    let names: Vec<_> = run.json()["functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["function"].clone())
        .collect();
    assert_eq!(names, ["one", "two", "three"].map(serde_json::Value::from), "{run:?}");
    assert!(
        run.json()["rows"]
            .as_array()
            .unwrap()
            .iter()
            .any(|row| row["verdict"] == "works")
    );
    for (name, answer) in [("one", "changed"), ("two", "second"), ("three", "third")] {
        assert_eq!(fnd.invoke(name, "").text().trim_end(), answer);
    }
    fnd.finish();
}

#[test]
fn yaml_files_that_cannot_be_deployed_change_nothing() {
    let fnd = Fnd::start();
    let work = fnd.shared_directory("work");
    let at = |name: &str| work.join(name).display().to_string();
    let write = |name: &str, text: &str| fs::write(work.join(name), text).unwrap();
    write("one.yaml", &function("one", "first"));
    write(
        "two.yaml",
        &format!("{}---\n{}", function("two", "2"), function("three", "3")),
    );
    write("wrong.yaml", &function("wrong", "x").replace("wrong.run", "wrong"));
    write("broken.yaml", "kind: [\n");
    write("other.yaml", "a: 1\n");
    write("config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n");
    write("code.sh", "echo\n");
    // fnd refuses the second one.
    let env = "  deployment: {spec: {template: {spec: {containers: [{env: [{name: FND_X, value: y}]}]}}}}\n";
    write(
        "judged.yaml",
        &format!("{}---\n{}{env}", function("fine", "x"), function("judged", "x")),
    );
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {password: open sesame}\n";
    let env = "  deployment: {spec: {template: {spec: {containers: [{env: [{name: P, valueFrom: {secretKeyRef: {name: db, key: password}}}]}]}}}}\n";
    write("secret.yaml", &format!("{}{env}{secret}", function("secret", "x")));
    write("values.yaml", secret);
    for (code, arguments, says) in [
        (
            2,
            &["two.yaml", "--name", "x"][..],
            "`--name` is for one function, and the files have 2",
        ),
        (
            2,
            &["two.yaml", "--if-version", "sha256:1234"],
            "`--if-version` is for one function",
        ),
        (2, &["one.yaml", "--runtime", "bash"], "`--runtime` contradicts"),
        (2, &["one.yaml", "--handler", "a.b"], "`--handler` contradicts"),
        (2, &["one.yaml", "code.sh"], "only these are deployed together"),
        (2, &["other.yaml"], "there is no function of Keptn"),
        (2, &["config.yaml"], "there is no function of Keptn"),
        (2, &["values.yaml"], "there is no function in the files"),
        (2, &["nowhere.yaml"], "failed to read"),
        (8, &["broken.yaml"], "broken.yaml:"),
        (8, &["one.yaml", "wrong.yaml"], "incorrect handler format"),
        (8, &["one.yaml", "wrong.yaml"], "nothing was uploaded"),
        (8, &["one.yaml", "wrong.yaml", "-q"], "incorrect handler format"),
        (8, &["judged.yaml"], "judged.yaml:"),
        (8, &["secret.yaml"], "fndctl secret set db.password"),
        (8, &["secret.yaml"], "fndctl import FILE... --out DIR"),
    ] {
        let mut line = vec!["deploy".to_owned()];
        let path = |text: &&str| {
            if text.contains(".yaml") || *text == "code.sh" {
                at(text)
            } else {
                (*text).to_owned()
            }
        };
        line.extend(arguments.iter().map(path));
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let run = fnd.ctl(&line).expect_code(code);
        assert!(run.stderr.contains(says), "{arguments:?}: {says}: {run:?}");
        assert!(!run.stderr.contains("open sesame"), "{run:?}");
    }
    // A trial says what would be.
    let run = fnd.ctl(&["deploy", &at("two.yaml"), "--dry-run"]).expect_code(0);
    assert!(run.out().contains("two: valid; nothing was changed"), "{run:?}");
    let run = fnd
        .ctl(&["deploy", &at("two.yaml"), "--dry-run", "-o", "json"])
        .expect_code(0);
    assert_eq!(run.json()["functions"][0]["valid"], true, "{run:?}");
    let left = fs::read_dir(fnd.path("state/functions"));
    let left = left.map_or(0, |entries| {
        entries
            .filter(|entry| entry.as_ref().unwrap().file_name() != ".staging")
            .count()
    });
    assert_eq!(left, 0);
    fnd.finish();
}
