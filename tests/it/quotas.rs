//! A function whose home or cache is over its quota is not run until there is room.

use fnd_core::api::FunctionStatus;
use fnd_core::records::outcome::{Reason, RunState, Skip, Trigger};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::Signal;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

/// Writes as many bytes as the payload says into its home.
const FILL: &str = "head -c \"$(cat)\" /dev/zero >\"$HOME/file\"\n";
const ONE: &str = "[limits]\nhome = \"1M\"\ncache = \"1M\"";

fn is_full(function: &FunctionStatus) -> bool {
    let warning = function.warning.as_deref().unwrap_or_default();
    warning.starts_with("over its quota, new runs are refused: ")
}

fn wait_full(fnd: &Fnd, name: &str) -> String {
    let full = fnd.wait_function(name, "to be over its quota", is_full);
    full.warning.unwrap()
}

/// Runs a function as soon as it is not refused any more.
#[track_caller]
fn wait_run(fnd: &Fnd, name: &str, json: &str) {
    let answer = wait_until("room for a run", PATIENCE, || {
        let answer = fnd.invoke(name, json);
        (answer.status != 507).then_some(answer)
    });
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn storage(fnd: &Fnd, name: &str) -> serde_json::Value {
    let shown = fnd.ctl(&["show", name, "-o", "json"]).expect_code(0).json();
    shown["storage"].clone()
}

/// Each of these has functions of its own.
#[test]
fn functions_without_room() {
    let fnd = Fnd::start();
    a_full_home_refuses_the_next_run_until_there_is_room(&fnd);
    a_larger_quota_helps_at_once_and_none_measures_nothing(&fnd);
    scheduled_runs_of_a_full_function_are_recorded_as_skipped(&fnd);
    an_event_for_a_full_function_is_a_dead_letter(&fnd);
    a_closed_directory_does_not_evade_the_quota(&fnd);
    a_cache_that_is_emptied_has_room(&fnd);
    calls_of_a_handler_are_refused_too(&fnd);
    fnd.finish();
}

fn a_full_home_refuses_the_next_run_until_there_is_room(fnd: &Fnd) {
    fnd.install_beside("fill.sh", ONE, FILL);
    assert_eq!(fnd.invoke("fill", "100").status, 200);
    // The quota holds between runs: this one succeeds.
    assert_eq!(fnd.invoke("fill", "3145728").status, 200);
    let warning = wait_full(fnd, "fill");
    let home = fnd.path("state/home/fill").canonicalize().unwrap();
    let why = format!(
        "its home has 3 MiB, more than 1 MiB (`limits.home`): remove files from {}",
        home.display()
    );
    assert!(warning.contains(&why), "{warning}");
    let refused = fnd.invoke("fill", "1");
    assert_eq!(refused.status, 507);
    let problem = refused.problem();
    assert_eq!(problem.code, "over-quota");
    assert!(
        problem.detail.starts_with("`fill` is over its quota: ") && problem.detail.contains(&why),
        "{problem:?}"
    );
    assert_eq!(fnd.client().post("/v1/functions/fill/invocations", "1").status, 507);
    let said = fnd.ctl(&["invoke", "fill", "-d", "1"]).expect_code(1);
    assert!(said.stderr.contains("is over its quota"), "{}", said.stderr);
    let status = fnd.ctl(&["status"]).expect_code(0).out();
    assert!(
        status.contains("fill: over its quota, new runs are refused: its home has"),
        "{status}"
    );
    let shown = fnd.ctl(&["show", "fill"]).expect_code(0).out();
    assert!(
        shown.contains("home 3") && shown.contains("M of 1M, cache ") && shown.contains(" of 1M, measured "),
        "{shown}"
    );
    fnd.wait_log("`fill` is over its quota");
    assert_eq!(fnd.history("fill").len(), 2, "a refused caller leaves no record");
    fs::remove_file(home.join("file")).unwrap();
    wait_run(fnd, "fill", "1");
    assert!(!is_full(&fnd.function("fill").unwrap()));
    fnd.wait_log("`fill` is within its quota again");
}

fn a_larger_quota_helps_at_once_and_none_measures_nothing(fnd: &Fnd) {
    fnd.install_beside("grown.sh", ONE, FILL);
    assert_eq!(fnd.invoke("grown", "3145728").status, 200);
    wait_full(fnd, "grown");
    fnd.drop_file("grown.toml", "on_load = false\n[limits]\nhome = \"5M\"");
    let _ = fnd.wait_function("grown", "to have room", |function| !is_full(function));
    assert_eq!(fnd.invoke("grown", "2000000").status, 200);
    assert!(storage(fnd, "grown")["home_bytes"].as_u64() > Some(1_000_000));
    fnd.drop_file(
        "grown.toml",
        "on_load = false\n[limits]\nhome = \"none\"\ncache = \"none\"",
    );
    wait_until("no quota", PATIENCE, || storage(fnd, "grown").is_null().then_some(()));
    assert_eq!(fnd.invoke("grown", "9000000").status, 200);
    assert!(storage(fnd, "grown").is_null());
}

/// Nobody waits for a scheduled run: it is recorded as skipped, and the next one comes by itself when there is room.
fn scheduled_runs_of_a_full_function_are_recorded_as_skipped(fnd: &Fnd) {
    let script = "# /// fnd\n# [limits]\n# home = \"1M\"\n# [[schedule]]\n# every = \"1s\"\n# ///\n\
        [[ -e $HOME/file ]] || head -c 3145728 /dev/zero >\"$HOME/file\"\n";
    fnd.drop_file("tick.sh", script);
    let skipped = wait_until("a skipped run", PATIENCE, || {
        let is_skipped = |reason| reason == Some(Reason::Skipped(Skip::Quota));
        fnd.history("tick").into_iter().find(|run| is_skipped(run.reason))
    });
    assert_eq!((skipped.state, skipped.trigger), (RunState::Skipped, Trigger::Schedule));
    assert!(
        skipped
            .message
            .starts_with("`tick` is over its quota: its home has 3 MiB"),
        "{skipped:?}"
    );
    let explained = fnd.ctl(&["explain", "skipped-quota"]).expect_code(0).out();
    assert!(explained.contains("limits.home"), "{explained}");
    let metrics = fnd.client().get("/metrics").text();
    assert!(metrics.contains("reason=\"skipped-quota\""), "{metrics}");
    let before = fnd.history("tick").len();
    fs::remove_file(fnd.path("state/home/tick/file")).unwrap();
    wait_until("another run", PATIENCE, || {
        let runs = fnd.history("tick");
        let new = runs.len().saturating_sub(before);
        runs.iter()
            .take(new)
            .any(|run| run.state == RunState::Succeeded)
            .then_some(())
    });
    fnd.remove("tick.sh");
    fnd.wait_gone("tick");
}

/// An event is a dead letter of a function that has no room, so it can run later.
fn an_event_for_a_full_function_is_a_dead_letter(fnd: &Fnd) {
    fnd.install_beside(
        "letters.sh",
        &format!("{ONE}\n[[event]]\ntype = \"com.example.fill\""),
        FILL,
    );
    fnd.install_beside("other.sh", "[[event]]\ntype = \"com.example.fill\"", "cat >/dev/null\n");
    assert_eq!(fnd.invoke("letters", "3145728").status, 200);
    wait_full(fnd, "letters");
    let event = "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/t\",\"type\":\"com.example.fill\",\"data\":5}";
    let headers = [("content-type", "application/cloudevents+json")];
    let answer = fnd.client().call("POST", "/v1/events", &headers, event.as_bytes());
    assert_eq!(answer.status, 202, "{}", answer.text());
    assert!(answer.text().contains("over its quota"), "{}", answer.text());
    let letters = fnd.ctl(&["dead-letters", "-o", "json"]).expect_code(0).out();
    assert!(letters.contains("skipped-quota"), "{letters}");
}

/// A function may not read the directory itself: what it hides from fnd counts as full.
fn a_closed_directory_does_not_evade_the_quota(fnd: &Fnd) {
    let code = "mkdir -p \"$HOME/a/hidden\"\nhead -c 3145728 /dev/zero >\"$HOME/a/hidden/file\"\nchmod 000 \"$HOME/a/hidden\"\n";
    fnd.install_beside("hide.sh", ONE, code);
    assert_eq!(fnd.invoke("hide", "").status, 200);
    let warning = wait_full(fnd, "hide");
    assert!(
        warning.contains("the function may not read `a/hidden` itself: `chmod u+rx`"),
        "{warning}"
    );
    assert_eq!(fnd.invoke("hide", "").status, 507);
    let hidden = fnd.path("state/home/hide/a/hidden");
    fs::set_permissions(&hidden, Permissions::from_mode(0o700)).unwrap();
    let is_counted = |function: &FunctionStatus| {
        let warning = function.warning.as_deref().unwrap_or_default();
        warning.contains("its home has 3")
    };
    let _ = fnd.invoke("hide", "");
    let _ = fnd.wait_function("hide", "to be counted", is_counted);
    fs::remove_dir_all(&hidden).unwrap();
    wait_run(fnd, "hide", "");
}

fn a_cache_that_is_emptied_has_room(fnd: &Fnd) {
    let code = "head -c 3145728 /dev/zero >\"$CACHE_DIRECTORY/file\"\n";
    fnd.install_beside("fetch.sh", ONE, code);
    assert_eq!(fnd.invoke("fetch", "").status, 200);
    let warning = wait_full(fnd, "fetch");
    assert!(
        warning.contains("its cache has 3 MiB, more than 1 MiB (`limits.cache`)"),
        "{warning}"
    );
    fs::remove_file(fnd.path("state/cache/fetch/file")).unwrap();
    wait_run(fnd, "fetch", "");
}

/// Each call of a handler ends an attempt of the same worker.
fn calls_of_a_handler_are_refused_too(fnd: &Fnd) {
    let code = "import os\ndef handler(event, context):\n    \
        open(os.environ['HOME'] + '/file', 'wb').write(b'x' * int(event['data']))\n    return 'done'\n";
    fnd.install_beside("warm.py", ONE, code);
    assert_eq!(fnd.invoke("warm", "10").status, 200);
    assert_eq!(fnd.invoke("warm", "3145728").status, 200);
    wait_full(fnd, "warm");
    assert_eq!(fnd.invoke("warm", "10").status, 507);
    fs::remove_file(fnd.path("state/home/warm/file")).unwrap();
    wait_run(fnd, "warm", "10");
}

/// What was measured is measured anew: an earlier fnd's knowledge is not kept, and nobody has to run the function.
#[test]
fn a_full_function_is_refused_after_a_restart_and_a_crash() {
    require!(root, cgroup);
    let fnd = Fnd::prepare(&Setup::default().detached());
    let mut fnd = fnd;
    fnd.launch();
    fnd.install_beside("fill.sh", ONE, FILL);
    assert_eq!(fnd.invoke("fill", "3145728").status, 200);
    wait_full(&fnd, "fill");
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        fnd.replace(signal);
        wait_full(&fnd, "fill");
        assert_eq!(fnd.invoke("fill", "1").status, 507, "{signal}");
    }
    assert_eq!(fnd.history("fill").len(), 1);
    fnd.finish();
}
