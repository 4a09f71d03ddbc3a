//! Secrets of Kubernetes in YAML files beside functions: a function gets the value, and nothing keeps it.

use super::secrets::{child_of, files_with, in_memory, secret};
use fnd_tests::{Fnd, require, wait_until};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
/// Values that no other process and no file contains by chance.
const CANARY: &str = "canary-5d21e7b0-never-to-be-seen";
const ROTATED: &str = "rotated-c08a14f3-never-to-be-seen";

/// A function of Kubeless and a task of Keptn that name the Secret.
const FUNCTIONS: &str = r#"
apiVersion: kubeless.io/v1beta1
kind: Function
metadata: {name: tell}
spec:
  runtime: python3.11
  handler: tell.handler
  function-content-type: text
  function: |
    import os
    def handler(event, context):
        print("with", os.environ["PASSWORD"])
        return "password " + os.environ["PASSWORD"]
  deployment:
    spec:
      template:
        spec:
          containers:
          - env:
            - name: PASSWORD
              valueFrom: {secretKeyRef: {name: orders, key: password}}
---
apiVersion: lifecycle.keptn.sh/v1
kind: KeptnTaskDefinition
metadata: {name: task}
spec:
  retries: 0
  python:
    inline:
      code: import os; print("data", os.environ["SECURE_DATA"])
    secureParameters: {secret: whole}
"#;

/// Writes a Secret that only root can read. It replaces the file, as editors do.
fn write(fnd: &Fnd, file: &str, name: &str, data: &str) {
    let (path, hidden) = (fnd.function_path(file), fnd.function_path(".secret"));
    fs::write(
        &hidden,
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\n{data}\n"),
    )
    .unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o400)).unwrap();
    fs::rename(hidden, path).unwrap();
}

fn told(fnd: &Fnd) -> String {
    fnd.invoke("tell", "null").text()
}

fn wait_told(fnd: &Fnd, value: &str) {
    wait_until("the new value", PATIENCE, || told(fnd).contains(value).then_some(()));
}

/// The search for the value comes first.
#[test]
fn secrets_in_files_beside_functions() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    a_function_gets_the_value_of_a_secret_beside_it_and_nothing_keeps_it(&fnd);
    an_edited_secret_is_a_new_value(&fnd);
    fnd.finish();
}

fn a_function_gets_the_value_of_a_secret_beside_it_and_nothing_keeps_it(fnd: &Fnd) {
    write(
        fnd,
        "secret.yaml",
        "orders",
        &format!("stringData: {{password: {CANARY}, user: ada}}"),
    );
    // The only value of a Secret needs no key; base64 of `the whole value`.
    write(fnd, "whole.yaml", "whole", "data: {anything: dGhlIHdob2xlIHZhbHVl}");
    fnd.drop_file("functions.yaml", FUNCTIONS);
    let _ = fnd.wait_ready("tell");
    assert!(told(fnd).contains(&format!("password {CANARY}")), "{}", told(fnd));
    let lines = fnd.logs(fnd.wait_run("task").id);
    assert!(lines.iter().any(|line| line.text == "data ***"), "{lines:?}");

    let listed = secret(fnd, &["list"], "").expect_code(0);
    assert!(
        listed.out().contains("in YAML") && listed.out().contains("tell"),
        "{listed}"
    );
    let logs = fnd.ctl(&["logs", "tell"]).expect_code(0);
    assert!(logs.out().contains("with ***"), "{logs}");
    assert_eq!(
        in_memory(child_of(fnd.pid()), CANARY),
        0,
        "the spawner has it in its memory"
    );
    assert!(!fnd.log().contains(CANARY));
    for directory in ["state", "run", "log"] {
        wait_until("spools are gone", PATIENCE, || {
            files_with(&fnd.path(directory), CANARY).is_empty().then_some(())
        });
    }
}

/// An edited Secret is a new value, without a reload. fnd's own places come first.
fn an_edited_secret_is_a_new_value(fnd: &Fnd) {
    write(fnd, "whole.yaml", "whole", "stringData: {a: b}");
    write(
        fnd,
        "secret.yaml",
        "orders",
        &format!("stringData: {{password: {CANARY}}}"),
    );
    fnd.drop_file("functions.yaml", FUNCTIONS);
    wait_told(fnd, CANARY);
    write(
        fnd,
        "secret.yaml",
        "orders",
        &format!("stringData: {{password: {ROTATED}}}"),
    );
    wait_told(fnd, ROTATED);
    let _ = secret(fnd, &["set", "orders.password"], "from a plain file").expect_code(0);
    wait_told(fnd, "from a plain file");
}

#[test]
fn a_secret_that_cannot_be_read_refuses_the_function_at_its_place() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    let refused = |expected: &str| {
        wait_until(expected, PATIENCE, || {
            let error = fnd.function("tell").and_then(|status| status.error).unwrap_or_default();
            error.contains(expected).then_some(())
        });
    };
    fnd.drop_file("functions.yaml", FUNCTIONS);
    refused("secrets/orders.password: there is no such secret");
    write(&fnd, "secret.yaml", "orders", "stringData: {other: value}");
    refused("secrets/orders.password: there is no such secret");
    write(&fnd, "secret.yaml", "orders", "data: {password: '%'}");
    refused("secret.yaml: a Secret in it cannot be read");
    write(&fnd, "secret.yaml", "orders", "stringData: {password: ''}");
    refused("secret.yaml: the value of a Secret in it is empty");
    let large = "x".repeat((64 << 10) + 1);
    write(
        &fnd,
        "secret.yaml",
        "orders",
        &format!("stringData: {{password: {large}}}"),
    );
    refused("secret.yaml: the value of a Secret in it is larger than 64 KiB");
    // The file of another user has no secrets.
    write(
        &fnd,
        "secret.yaml",
        "orders",
        &format!("stringData: {{password: {CANARY}}}"),
    );
    wait_told(&fnd, CANARY);
    chown(fnd.function_path("secret.yaml"), Some(65534), None).unwrap();
    let _ = fnd.ctl(&["reload"]);
    refused("secrets/orders.password: there is no such secret");
    // All the time the last good version kept its value.
    assert!(told(&fnd).contains(CANARY));
    fnd.finish();
}
