//! `fndctl import dagu`: the steps of a DAG run in their order, with its environment, at its times.

use super::{Ground, rows};
use fnd_core::api::InvocationView;
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::wait_until;

/// Waits until a function has run once, and returns its run.
#[track_caller]
fn wait_run(ground: &Ground, name: &str) -> InvocationView {
    wait_until(&format!("`{name}` to have run"), PATIENCE, || {
        let mut history = ground.fnd.history(name);
        history.retain(|view| view.ended_at.is_some());
        assert!(history.len() < 2, "{history:?}");
        history.pop()
    })
}

/// Runs a chain by its first function, and checks that each one was called by the one before, and what it printed.
#[track_caller]
fn check_chain(ground: &Ground, steps: &[(&str, RunState, &str)]) {
    ground.invoke(steps[0].0, "");
    let mut before = None;
    for (name, state, output) in steps {
        let view = wait_run(ground, name);
        let lines: Vec<_> = ground.fnd.logs(view.id).into_iter().map(|line| line.text).collect();
        let detail: InvocationView = ground.fnd.client().get(&format!("/v1/invocations/{}", view.id)).json();
        let caller = match &detail.cause {
            Some(Cause::Hook(cause)) => Some(cause.invocation),
            _ => None,
        };
        assert_eq!(
            (view.state, caller, lines.join("\n").as_str()),
            (*state, before, *output),
            "{name}"
        );
        before = Some(view.id);
    }
}

/// The list of schedules comes first.
#[test]
fn dags_of_one_directory() {
    let ground = Ground::new();
    the_steps_of_a_dag_run_in_their_order(&ground);
    steps_that_name_no_others_run_in_the_order_of_the_file(&ground);
    ground.fnd.finish();
}

fn the_steps_of_a_dag_run_in_their_order(ground: &Ground) {
    ground.file("extract.sh", "#!/bin/sh\necho \"extract $# $1 $LEVEL $PWD\"\n");
    let file = ground.file(
        "nightly.yaml",
        "description: Nightly report\nschedule:\n  - \"0 2 * * MON-FRI\"\n  - \"30 14 * * 6\"\nenv:\n  - LEVEL: 3\n  - KIND=full\nsteps:\n\
         \x20 - name: load\n    command: echo \"load $LEVEL\" $KIND | tr a-z A-Z\n    depends:\n      - transform\n\
         \x20 - name: extract\n    dir: DIR/\n    command: DIR/extract.sh 'a b'\n\
         \x20 - name: transform\n    command: python3 -u\n    script: |\n      import os, sys\n\
         \x20     print('transform', os.environ['STEP'], os.environ['LEVEL'])\n      sys.exit(1)\n\
         \x20   env:\n      - STEP: two\n    depends: extract\n    continueOn:\n      failure: true\n",
    );
    let document = ground.import(&["dagu", &file], 0);
    assert_eq!(
        document["functions"],
        serde_json::json!(["nightly-extract", "nightly-transform", "nightly-load"]),
        "{document}"
    );
    let extracted = format!("extract 1 a b 3 {}", ground.files.display());
    check_chain(
        ground,
        &[
            ("nightly-extract", RunState::Succeeded, &extracted),
            ("nightly-transform", RunState::Failed, "transform two 3"),
            ("nightly-load", RunState::Succeeded, "LOAD 3 FULL"),
        ],
    );
    let schedules = ground.fnd.ctl(&["schedules", "-o", "json"]).expect_code(0).json();
    let lines: Vec<_> = schedules["schedules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["function"].as_str().unwrap(), one["schedule"].as_str().unwrap()))
        .collect();
    assert_eq!(
        lines,
        [
            ("nightly-extract", "0 2 * * MON-FRI"),
            ("nightly-extract", "30 14 * * 6")
        ]
    );
}

fn steps_that_name_no_others_run_in_the_order_of_the_file(ground: &Ground) {
    let file = ground.file(
        "plain.yaml",
        "steps:\n  - echo one\n  - name: second\n    script: |\n      #!/usr/bin/env python3\n      print('two')\n  - command: echo \"three  3\"\n",
    );
    let document = ground.import(&["dagu", &file], 0);
    assert_eq!(
        document["functions"],
        serde_json::json!(["plain-step-1", "plain-second", "plain-step-3"]),
        "{document}"
    );
    assert_eq!(rows(&document, "steps")[1]["verdict"], "differs", "{document}");
    check_chain(
        ground,
        &[
            ("plain-step-1", RunState::Succeeded, "one"),
            ("plain-second", RunState::Succeeded, "two"),
            ("plain-step-3", RunState::Succeeded, "three  3"),
        ],
    );
}
