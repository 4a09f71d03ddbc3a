//! Functions that are called after the final record of an invocation.

use fnd_core::api::HookEnd;
use fnd_core::records::outcome::{RunState, Trigger};
use fnd_tests::wait::{PATIENCE, pause_briefly};
use fnd_tests::{Fnd, Setup, wait_until};
use fnd_wire::ids::InvocationId;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Prints its payload, which is its result then.
const ECHO: &str = "# /// fnd\n# on_load = false\n# [queue]\n# max = 1000\n# ///\ncat\n";

/// Returns a manifest in comments with these lines.
fn with(lines: &str, code: &str) -> String {
    let lines: String = lines.lines().map(|line| format!("# {line}\n")).collect();
    format!("# /// fnd\n# on_load = false\n{lines}# ///\n{code}")
}

fn put(fnd: &Fnd, file: &str, code: &str) {
    let (name, _) = file.rsplit_once('.').unwrap();
    let before = fnd.function(name).and_then(|function| function.version);
    fnd.drop_file(file, code);
    wait_until(&format!("`{name}` to serve"), PATIENCE, || {
        let function = fnd.function(name)?;
        (function.version.is_some() && function.version != before).then_some(())
    });
}

/// Returns the payloads of all calls of a function, by the invocation that they follow.
fn calls(fnd: &Fnd, name: &str) -> BTreeMap<String, Vec<Value>> {
    let mut calls: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for view in fnd.history(name) {
        assert_eq!(view.trigger, Trigger::Hook);
        if view.state == RunState::Succeeded {
            let payload: Value = fnd.result(view.id).json();
            let followed = payload["record"]["id"].as_str().unwrap().to_owned();
            calls.entry(followed).or_default().push(payload);
        }
    }
    calls
}

/// Waits for the one call that follows an invocation, and returns its payload.
fn wait_call(fnd: &Fnd, name: &str, after: InvocationId) -> Value {
    let called = wait_until(&format!("`{name}` to be called after {after}"), PATIENCE, || {
        calls(fnd, name).remove(&after.to_string())
    });
    assert_eq!(called.len(), 1, "{called:?}");
    called.into_iter().next().unwrap()
}

/// The count of calls comes first.
#[test]
fn calls_after_an_end() {
    let fnd = Fnd::start();
    each_end_calls_its_functions_with_the_record(&fnd);
    a_handler_has_hooks_too_and_its_output_is_passed_on(&fnd);
    a_call_that_fails_is_shown_where_the_hook_says_so(&fnd);
    a_disabled_function_is_not_called_and_that_is_recorded(&fnd);
    a_chain_ends_after_eight_calls(&fnd);
    the_version_that_closes_a_cycle_is_refused(&fnd);
    fnd.finish();
}

fn each_end_calls_its_functions_with_the_record(fnd: &Fnd) {
    for name in ["good.sh", "bad.sh", "always.sh"] {
        put(fnd, name, ECHO);
    }
    let hooks = "[hooks]\non_success = [\"good\"]\non_failure = [\"bad\"]\non_completion = [\"always\"]";
    put(
        fnd,
        "job.sh",
        &with(
            hooks,
            "echo one\necho two >&2\nprintf '{\"n\": 7}' >$FND_RESULT\nexit ${DATA//[^0-9]/}\n",
        ),
    );
    let succeeded = fnd.queue("job", "{\"exit\": 0}");
    let called = wait_call(fnd, "good", succeeded);
    assert_eq!(called["record"]["state"], "succeeded");
    assert_eq!(called["record"]["function"], "job");
    assert_eq!(called["result"], json!({"n": 7}));
    assert_eq!(called["payload"], json!({"exit": 0}));
    let mut lines: Vec<_> = called["output"].as_str().unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["one", "two"]);
    assert_eq!(wait_call(fnd, "always", succeeded)["record"]["state"], "succeeded");

    let failed = fnd.queue("job", "{\"exit\": 3}");
    let called = wait_call(fnd, "bad", failed);
    assert_eq!(
        (&called["record"]["reason"], &called["record"]["message"]),
        (&json!("exit-3"), &json!("two"))
    );
    let _ = wait_call(fnd, "always", failed);
    assert_eq!((calls(fnd, "good").len(), calls(fnd, "bad").len()), (1, 1));
    let view = fnd.wait_run("bad");
    let cause = serde_json::to_value(view.cause).unwrap();
    assert_eq!(
        cause["hook"],
        json!({"invocation": failed.to_string(), "function": "job", "depth": 1})
    );
    assert!(
        fnd.client()
            .get("/metrics")
            .text()
            .contains("fnd_hooks_total{outcome=\"succeeded\"} 4")
    );
}

fn a_handler_has_hooks_too_and_its_output_is_passed_on(fnd: &Fnd) {
    put(fnd, "told.sh", ECHO);
    let code = "import sys\ndef handler(event, context):\n    print('printed')\n    raise ValueError('no')\n";
    put(fnd, "api.py", &with("[hooks]\non_failure = [\"told\"]", code));
    let answer = fnd.invoke("api", "{}");
    assert_eq!(answer.status, 500);
    let called = wait_call(fnd, "told", Fnd::id_of(&answer));
    assert!(called["output"].as_str().unwrap().contains("printed"), "{called}");
}

/// The end comes before the functions are known again, and the call waits until they are.
#[test]
fn a_run_that_ended_while_fnd_was_away_passes_its_output_on() {
    let mut fnd = Fnd::prepare(&Setup::default().detached());
    let gate = fnd.shared_directory("gate");
    fnd.drop_file("told.sh", ECHO);
    let code =
        "echo before\nuntil [[ -e GATE/go ]]; do sleep 0.02; done\necho after; touch \"$STATE_DIRECTORY/done\"\n";
    let code = code.replace("GATE", &gate.display().to_string());
    fnd.drop_file("job.sh", &with("[hooks]\non_success = [\"told\"]", &code));
    fnd.launch();
    fnd.wait_ready("job");
    fnd.wait_ready("told");
    let id = fnd.queue("job", "");
    let _ = fnd.wait_invocation(id, "to run", |view| view.state == RunState::Running);
    wait_until("its first line", PATIENCE, || (!fnd.logs(id).is_empty()).then_some(()));
    fnd.leave(Signal::SIGKILL);
    std::fs::write(gate.join("go"), "").unwrap();
    let done = fnd.path("state/home/job/done");
    wait_until("its end", PATIENCE, || done.exists().then_some(()));
    fnd.launch();
    let called = wait_call(&fnd, "told", id);
    assert_eq!(called["output"], "before\nafter", "{called}");
    fnd.finish();
}

fn a_call_that_fails_is_shown_where_the_hook_says_so(fnd: &Fnd) {
    put(fnd, "fails.sh", &with("", "exit 1\n"));
    put(fnd, "quiet.sh", &with("[hooks]\non_success = [\"fails\"]", "true\n"));
    let item = "[hooks]\non_success = [{ call = \"fails\", on_failure = \"fail\" }]";
    put(fnd, "loud.sh", &with(item, "true\n"));
    let missing = "[hooks]\non_success = [{ call = \"nobody\", on_failure = \"fail\" }]";
    put(fnd, "lost.sh", &with(missing, "true\n"));
    let quiet = fnd.queue("quiet", "");
    for name in ["loud", "lost"] {
        let id = fnd.queue(name, "");
        let view = fnd.wait_invocation(id, "to be marked", |view| view.hook == Some(HookEnd::Failed));
        assert_eq!(view.state, RunState::Succeeded);
        assert_eq!(fnd.history(name)[0].hook, Some(HookEnd::Failed));
    }
    wait_until("both calls to fail", PATIENCE, || {
        let failed = fnd
            .history("fails")
            .iter()
            .filter(|view| view.state == RunState::Failed)
            .count();
        (failed == 2).then_some(())
    });
    assert_eq!(fnd.invocation(quiet).hook, None);
    // The call of a function that does not exist is in the history under its name.
    let skipped = &fnd.history("nobody")[0];
    assert_eq!(
        (skipped.state, skipped.reason.unwrap().to_string().as_str()),
        (RunState::Skipped, "skipped-unknown")
    );
    let shown = fnd.ctl(&["show", "lost"]);
    assert!(shown.out().contains("there is no such function"), "{shown}");
}

fn a_disabled_function_is_not_called_and_that_is_recorded(fnd: &Fnd) {
    put(fnd, "silent.sh", ECHO);
    put(fnd, "caller.sh", &with("[hooks]\non_success = [\"silent\"]", "true\n"));
    let _ = fnd.ctl(&["disable", "silent"]).expect_code(0);
    let _ = fnd.wait_end(fnd.queue("caller", ""));
    let skipped = wait_until("the call to be recorded", PATIENCE, || {
        fnd.history("silent").into_iter().next()
    });
    assert_eq!(skipped.reason.unwrap().to_string(), "skipped-disabled");
    assert_eq!(skipped.trigger, Trigger::Hook);
}

fn a_chain_ends_after_eight_calls(fnd: &Fnd) {
    for n in 0..10 {
        let hooks = format!("[hooks]\non_success = [\"f{}\"]", n + 1);
        put(fnd, &format!("f{n}.sh"), &with(&hooks, "true\n"));
    }
    let _ = fnd.wait_end(fnd.queue("f0", ""));
    let skipped = fnd.wait_run("f9");
    assert_eq!(
        (skipped.state, skipped.reason.unwrap().to_string().as_str()),
        (RunState::Skipped, "skipped-depth")
    );
    assert_eq!(fnd.history("f8").len(), 1);
    assert_eq!(fnd.history("f10").len(), 0);
}

fn the_version_that_closes_a_cycle_is_refused(fnd: &Fnd) {
    put(fnd, "a.sh", &with("[hooks]\non_success = [\"b\"]", "echo a\n"));
    put(fnd, "b.sh", &with("", "echo b\n"));
    fnd.drop_file("b.sh", &with("[hooks]\non_success = [\"a\"]", "echo b2\n"));
    let error = wait_until("the new version to be refused", PATIENCE, || {
        fnd.function("b").unwrap().error.clone()
    });
    assert!(error.contains("b -> a -> b"), "{error}");
    assert_eq!(fnd.run("b", "").0.text().trim(), "b", "the version before serves");
    // When the cycle is broken elsewhere, the version is taken by itself.
    put(fnd, "a.sh", &with("", "echo a2\n"));
    wait_until("the new version to serve", PATIENCE, || {
        fnd.function("b").unwrap().error.is_none().then_some(())
    });
    assert_eq!(fnd.run("b", "").0.text().trim(), "b2");
}

#[test]
fn at_a_first_start_the_hooks_of_a_cycle_are_off() {
    let setup = Setup::default()
        .file("a.sh", &with("[hooks]\non_success = [\"b\"]", "echo a\n"))
        .file("b.sh", &with("[hooks]\non_success = [\"a\"]", "echo b\n"))
        .file("c.sh", &with("[hooks]\non_success = [\"told\"]", "echo c\n"))
        .file("told.sh", ECHO);
    let fnd = Fnd::start_with(&setup);
    for name in ["a", "b"] {
        let shown = fnd.ctl(&["show", name]);
        assert!(
            shown.out().contains(&format!("the hooks of `{name}` are off")) && shown.out().contains("-> a"),
            "{shown}"
        );
        assert_eq!(fnd.run(name, "").1.state, RunState::Succeeded);
    }
    let id = fnd.queue("c", "");
    let _ = wait_call(&fnd, "told", id);
    assert_eq!((fnd.history("a").len(), fnd.history("b").len()), (1, 1));
    fnd.finish();
}

/// Calls and ends are one: fnd is killed around the end of each invocation, and every one is followed by one call.
#[test]
fn a_kill_loses_no_call_and_doubles_none() {
    let mut fnd = Fnd::prepare(&Setup::default().detached());
    fnd.drop_file("told.sh", ECHO);
    let hooks = "[pool]\nmax = 4\n[queue]\nmax = 1000\n[hooks]\non_completion = [\"told\"]";
    fnd.drop_file("job.sh", &with(hooks, "sleep 0.0$((RANDOM % 6))\n"));
    let code =
        "import time, random\ndef handler(event, context):\n    time.sleep(random.random() / 20)\n    return 1\n";
    fnd.drop_file("api.py", &with(hooks, code));
    fnd.launch();
    let mut ids = Vec::new();
    for round in 0..12_u64 {
        for name in ["job", "api"] {
            fnd.wait_ready(name);
            ids.extend((0..3).map(|_| fnd.queue(name, "")));
        }
        // Not to wait for something: the kill comes at another moment each time.
        (0..round * 17 % 120).for_each(|_| pause_briefly());
        fnd.replace(Signal::SIGKILL);
    }
    for id in &ids {
        let _ = fnd.wait_end(*id);
    }
    let called = wait_until("every invocation to be followed", PATIENCE, || {
        let all = fnd.client().get("/v1/invocations?function=told&limit=1000");
        let all = all.json::<fnd_core::api::InvocationList>().invocations;
        all.iter()
            .all(|view| view.state.is_final())
            .then_some(all)
            .filter(|all| all.len() >= ids.len())
    });
    let mut followed: BTreeMap<String, u32> = BTreeMap::new();
    for view in &called {
        let cause = serde_json::to_value(fnd.invocation(view.id).cause).unwrap();
        *followed
            .entry(cause["hook"]["invocation"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    let expected: BTreeMap<String, u32> = ids.iter().map(|id| (id.to_string(), 1)).collect();
    assert_eq!(followed, expected);
    fnd.finish();
}
