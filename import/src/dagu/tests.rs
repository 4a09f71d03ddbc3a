//! DAGs as functions.

use super::*;
use crate::tests::testing::{check_refused, only, table};

fn made(text: &str) -> Imported {
    dag(&tree::parse("nightly.yaml", text.as_bytes()).unwrap(), "nightly.yaml")
}

const NIGHTLY: &str = "schedule: \"0 1 * * *\"\nenv:\n  - DAY: mon\ntimeoutSec: 60\nsteps:\n\
    \x20 - name: send\n    command: echo sent\n    depends: [dump]\n\
    \x20 - name: dump\n    script: |\n      echo one\n      echo $DAY >/srv/out/day\n    retryPolicy:\n      limit: 3\n      intervalSec: 5\n";

#[test]
fn a_chain_is_functions_that_call_the_next_one() {
    let imported = made(NIGHTLY);
    let [dump, send] = imported.functions.as_slice() else {
        panic!("{:?}", imported.report);
    };
    assert_eq!(
        (dump.name.as_str(), send.name.as_str()),
        ("nightly-dump", "nightly-send")
    );
    let (first, second) = (table(dump), table(send));
    assert_eq!(first["schedule"][0]["cron"].as_str(), Some("0 1 * * *"));
    assert_eq!(first["hooks"]["on_success"][0].as_str(), Some("nightly-send"));
    assert_eq!(first["retry"]["retries"].as_integer(), Some(3));
    assert_eq!(first["sandbox"]["read_write"][0].as_str(), Some("/srv/out"));
    assert_eq!(
        (second["on_load"].as_bool(), second["env"]["DAY"].as_str()),
        (Some(false), Some("mon"))
    );
    assert!(!second.contains_key("schedule") && !second.contains_key("hooks"));
    assert_eq!(
        dump.files[0].bytes,
        b"#!/usr/bin/env bash\nset -e\necho one\necho $DAY >/srv/out/day\n"
    );
}

#[test]
fn what_is_no_chain_is_refused() {
    let step = |name: &str, depends: &str| format!("  - name: {name}\n    command: x\n    depends: [{depends}]\n");
    let steps = |steps: &[(&str, &str)]| {
        format!(
            "steps:\n{}",
            steps.iter().map(|(name, on)| step(name, on)).collect::<String>()
        )
    };
    for (text, why) in [
        (steps(&[("a", ""), ("b", ""), ("c", "a")]), "at once"),
        (steps(&[("a", ""), ("b", "a"), ("c", "a")]), "at once"),
        ("steps:\n  - name: a\n    run: other\n".to_owned(), "another DAG"),
        ("steps:\n  - name: a\n    command: {a: b}\n".to_owned(), "it is a map"),
        (
            "type: odd\nsteps:\n  - name: a\n    command: x\n".to_owned(),
            "neither `chain`",
        ),
        (
            "container: {image: x}\nsteps:\n  - name: a\n    command: x\n".to_owned(),
            "on this machine",
        ),
        (
            "steps:\n  - name: a\n    command: x\n    retryPolicy: {limit: 1, exitCode: [3]}\n".to_owned(),
            "not_on_exit",
        ),
        (
            "steps:\n  - name: a\n    command: x\n    continueOn: {exitCode: [3]}\n".to_owned(),
            "`failure` only",
        ),
        ("steps:\n  - [echo a, echo b]\n  - echo c\n".to_owned(), "at once"),
        (steps(&[("a", ""), ("b", "a"), ("c", "a, b")]), "several"),
        (steps(&[("a", "b"), ("b", "a")]), "no step is the first"),
        (steps(&[("a", "z")]), "no step `z`"),
        ("steps: []\n".to_owned(), "no steps"),
        ("- a\n".to_owned(), "expected a map"),
        ("workingDir: ~/x\nsteps:\n  - echo a\n".to_owned(), "an absolute path"),
        (
            "steps:\n  - command: a\n    dir: ${HOME}/x\n".to_owned(),
            "an absolute path",
        ),
        ("steps:\n  - command: [a, [b]]\n".to_owned(), "a list of texts"),
        ("steps:\n  - command: [a, b]\n".to_owned(), "one after the other"),
        ("steps:\n  - command: echo ${first.stdout}\n".to_owned(), "fills in"),
        (
            "steps:\n  - command: cat ${DAG_RUN_LOG_FILE}\n".to_owned(),
            "fnd keeps the output itself",
        ),
        ("shell: fish\nsteps:\n  - echo a\n".to_owned(), "the other shell"),
        (
            "defaults: {retry_policy: {limit: 1}}\nsteps:\n  - echo a\n".to_owned(),
            "in the steps themselves",
        ),
        (
            "schedule: CRON_TZ=Mars/One 0 1 * * *\nsteps:\n  - echo a\n".to_owned(),
            "no time zone",
        ),
        ("x: 1\n".to_owned(), "no steps"),
        (String::new(), "expected one DAG"),
        (
            "params: x\nsteps:\n  - name: a\n    command: x\n".to_owned(),
            "no parameters",
        ),
        (
            "steps:\n  - name: a\n    executor: docker\n    command: x\n".to_owned(),
            "no such thing",
        ),
        ("steps:\n  - name: a\n".to_owned(), "no command"),
    ] {
        let imported = made(&text);
        assert!(imported.functions.is_empty(), "{text}");
        check_refused(&imported.report, why, &text);
    }
}

#[test]
fn steps_of_the_type_chain_are_in_their_order() {
    let imported = made("type: chain\nsteps:\n  - name: b\n    command: x\n  - name: a\n    command: y\n");
    let names: Vec<_> = imported.functions.iter().map(|made| made.name.as_str()).collect();
    assert_eq!(names, ["nightly-b", "nightly-a"]);
}

#[test]
fn a_retry_policy_is_that_of_the_function() {
    for (policy, expected) in [
        ("{limit: 3, intervalSec: 5}", [Some("5s"), Some("fixed"), None, None]),
        (
            "{limit: 3, interval_sec: 600}",
            [Some("600s"), Some("fixed"), None, Some("600s")],
        ),
        (
            "{limit: 5, intervalSec: 2, backoff: true, maxIntervalSec: 60}",
            [Some("2s"), None, Some("2.0"), Some("60s")],
        ),
    ] {
        let imported = made(&format!(
            "steps:\n  - name: a\n    command: x\n    retryPolicy: {policy}\n"
        ));
        let retry = table(only(&imported))["retry"].clone();
        let found = ["interval", "backoff", "factor", "max_interval"].map(|key| {
            retry
                .get(key)
                .map(|value| value.to_string().trim_matches('"').to_owned())
        });
        assert_eq!(found.each_ref().map(Option::as_deref), expected, "{policy}");
    }
}

#[test]
fn a_step_runs_as_dagu_runs_it() {
    for (step, lines) in [
        ("run: make all", "make all\n"),
        ("run: make; echo made", "set -e\nmake; echo made\n"),
        (
            "run: [make a, \"cd x; make\"]",
            "set -e\n(\nmake a\n)\n(\ncd x; make\n)\n",
        ),
        (
            "run: echo $DAG_RUN_ID x",
            "export DAG_RUN_ID=$FND_INVOCATION\necho $DAG_RUN_ID x\n",
        ),
        ("run: [make a]\n    shell: sh", "(\nmake a\n) || exit\n"),
        ("run: |\n      make\n      echo made", "set -e\nmake\necho made\n"),
        (
            "script: |\n      make\n      echo made\n    shell: bash",
            "make\necho made\n",
        ),
    ] {
        let imported = made(&format!(
            "schedule: TZ=Europe/Berlin 0 9 * * *\nsteps:\n  - id: a\n    {step}\n"
        ));
        let function = only(&imported);
        let found = String::from_utf8(function.files[0].bytes.clone()).unwrap();
        assert_eq!(found, format!("#!/usr/bin/env bash\n{lines}"), "{step}");
        let schedule = &table(function)["schedule"][0];
        assert_eq!(
            (schedule["cron"].as_str(), schedule["timezone"].as_str()),
            (Some("0 9 * * *"), Some("Europe/Berlin"))
        );
    }
}

#[test]
fn the_names_that_dagu_sets_are_variables_of_the_function() {
    let imported = made("steps:\n  - name: dump\n    command: echo $DAG_NAME ${DAG_RUN_STEP_NAME}\n");
    let env = &table(only(&imported))["env"];
    assert_eq!(env["DAG_NAME"].as_str(), Some("nightly"));
    assert_eq!(env["DAG_RUN_STEP_NAME"].as_str(), Some("dump"));
}

#[test]
fn a_misspelt_key_is_recognised() {
    let imported = made("steps:\n  - name: a\n    command: x y\n    retryPolcy: {limit: 1}\n");
    let notes: Vec<_> = imported
        .report
        .rows
        .iter()
        .filter_map(|row| row.note.as_deref())
        .collect();
    let expected = "dagu has no such key of a step; did you mean `retryPolicy`?";
    assert!(notes.contains(&expected), "{notes:?}");
}

#[test]
fn steps_wait_for_names_and_for_ids() {
    let imported = made(
        "steps:\n  - id: b\n    run: y z\n    depends: [a]\n  - name: First one\n    id: a\n    run: x y\n  - run: z z\n    depends: b\n",
    );
    let names: Vec<_> = imported.functions.iter().map(|made| made.name.as_str()).collect();
    assert_eq!(
        names,
        ["nightly-first-one", "nightly-b", "nightly-step-3"],
        "{:?}",
        imported.report
    );
}
