//! Functions that are called when another one turns bad, and when it is well again.

use fnd_core::records::outcome::{RunState, Trigger};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;

/// Prints its payload, which is its result then.
const ECHO: &str = "# /// fnd\n# on_load = false\n# ///\ncat\n";

/// Fails as long as a file exists.
const JOB: &str = "echo printed\nif [[ -e GATE/bad ]]; then echo broken >&2; exit 1; fi\n";

/// Returns what was told about a function, oldest first.
fn told(fnd: &Fnd, about: Option<&str>) -> Vec<Value> {
    let mut calls = fnd.history("page");
    calls.reverse();
    assert!(calls.iter().all(|view| view.trigger == Trigger::Alert));
    let ended = calls.iter().filter(|view| view.state == RunState::Succeeded);
    let payloads = ended.map(|view| fnd.result(view.id).json::<Value>());
    payloads
        .filter(|payload| payload["function"].as_str() == about)
        .collect()
}

fn words(calls: &[Value]) -> Vec<String> {
    calls
        .iter()
        .map(|call| call["alert"].as_str().unwrap().to_owned())
        .collect()
}

/// Waits until so many calls were made about a function, and returns their words.
#[track_caller]
fn wait_told(fnd: &Fnd, about: &str, count: usize) -> Vec<String> {
    wait_until(&format!("{count} calls about `{about}`"), PATIENCE, || {
        Some(words(&told(fnd, Some(about)))).filter(|words| words.len() >= count)
    })
}

/// Waits until the status file of a function shows this alert; nothing: none.
#[track_caller]
fn wait_shown(fnd: &Fnd, function: &str, alert: Option<&str>) {
    wait_until("the status file to show the alert", PATIENCE, || {
        let shown = fnd.status_file(function)?["alert"]["alert"].clone();
        (shown.as_str() == alert).then_some(())
    });
}

fn manifest(gate: &std::path::Path, lines: &str) -> String {
    let lines: String = lines.lines().map(|line| format!("# {line}\n")).collect();
    let code = JOB.replace("GATE", &gate.display().to_string());
    format!("# /// fnd\n# on_load = false\n{lines}# ///\n{code}")
}

#[test]
fn one_call_when_it_turns_bad_and_one_when_it_is_well_again_over_restarts() {
    let mut fnd = Fnd::prepare(&Setup::default().detached());
    let gate = fnd.shared_directory("gate");
    let bad = gate.join("bad");
    fnd.drop_file("page.sh", ECHO);
    fnd.drop_file("job.sh", &manifest(&gate, "[alert]\ncall = \"page\"\nafter = 2"));
    fnd.launch();
    fnd.wait_ready("job");
    std::fs::write(&bad, "").unwrap();
    let first = fnd.wait_end(fnd.queue("job", ""));
    assert_eq!(first.state, RunState::Failed);
    fnd.replace(Signal::SIGKILL);
    fnd.wait_ready("job");
    let second = fnd.wait_end(fnd.queue("job", ""));
    assert_eq!(wait_told(&fnd, "job", 1), ["failed"]);
    wait_shown(&fnd, "job", Some("failed"));
    let call = &told(&fnd, Some("job"))[0];
    assert_eq!(call["invocation"], second.id.to_string());
    assert_eq!(call["output"], "printed\nbroken");
    assert_eq!(call["message"], "2 invocations in a row failed; the last one: broken");
    assert!(call["help"].as_str().unwrap().contains("fndctl logs"), "{call}");
    // Nobody is told again: not of a further failure, and not after a restart.
    fnd.replace(Signal::SIGKILL);
    fnd.wait_ready("job");
    wait_shown(&fnd, "job", Some("failed"));
    let _ = fnd.wait_end(fnd.queue("job", ""));
    std::fs::remove_file(&bad).unwrap();
    let _ = fnd.wait_end(fnd.queue("job", ""));
    assert_eq!(wait_told(&fnd, "job", 2), ["failed", "recovered"]);
    wait_shown(&fnd, "job", None);
    let _ = fnd.wait_end(fnd.queue("job", ""));
    fnd.replace(Signal::SIGTERM);
    fnd.wait_ready("job");
    assert_eq!(words(&told(&fnd, Some("job"))), ["failed", "recovered"]);
    let shown = fnd.ctl(&["show", "job"]).expect_code(0);
    assert!(shown.out().contains("page"), "{shown}");
    fnd.finish();
}

#[test]
fn a_success_that_does_not_come_is_missed_once_over_a_restart() {
    let mut fnd = Fnd::prepare(&Setup::default().detached());
    let gate = fnd.shared_directory("gate");
    fnd.drop_file("page.sh", ECHO);
    fnd.drop_file(
        "job.sh",
        &manifest(&gate, "[alert]\ncall = \"page\"\nexpect_success_every = \"2s\""),
    );
    fnd.launch();
    fnd.wait_ready("job");
    assert_eq!(wait_told(&fnd, "job", 1), ["missed"]);
    fnd.replace(Signal::SIGKILL);
    fnd.wait_ready("job");
    let _ = fnd.wait_end(fnd.queue("job", ""));
    assert_eq!(wait_told(&fnd, "job", 2), ["missed", "recovered"]);
    // The time counts while fnd does not run, too.
    fnd.leave(Signal::SIGKILL);
    (0..2000).for_each(|_| fnd_tests::wait::pause_briefly());
    fnd.launch();
    assert_eq!(wait_told(&fnd, "job", 3), ["missed", "recovered", "missed"]);
    fnd.finish();
}

#[test]
fn content_that_cannot_serve_is_told_by_the_alert_of_the_node() {
    let setup = Setup::default()
        .config("[alert]\ncall = \"page\"\n")
        .file("page.sh", ECHO);
    let fnd = Fnd::start_with(&setup);
    fnd.install("job.sh", "on_load = false\n", "true\n");
    fnd.drop_file("job.sh", "# /// fnd\n# on_laod = false\n# ///\ntrue\n");
    assert_eq!(wait_told(&fnd, "job", 1), ["invalid"]);
    assert!(
        told(&fnd, Some("job"))[0]["message"]
            .as_str()
            .unwrap()
            .contains("on_laod")
    );
    fnd.drop_file("job.sh", "# /// fnd\n# on_load = false\n# ///\ntrue # corrected\n");
    assert_eq!(wait_told(&fnd, "job", 2), ["invalid", "recovered"]);
    // Nobody is told of the function that is called.
    fnd.drop_file("page.sh", "# /// fnd\n# on_laod = false\n# ///\ncat\n");
    wait_until("`page` to be refused", PATIENCE, || fnd.function("page").unwrap().error);
    assert_eq!(told(&fnd, Some("page")), Vec::<Value>::new());
    let metrics = fnd.client().get("/metrics").text();
    assert!(metrics.contains("fnd_alerts_total{alert=\"invalid\"} 1"), "{metrics}");
    fnd.finish();
}

#[test]
fn a_full_queue_is_told_once() {
    let setup = Setup::default()
        .config("[alert]\ncall = \"page\"\n")
        .file("page.sh", ECHO);
    let fnd = Fnd::start_with(&setup);
    let gate = fnd.shared_directory("gate");
    let code = format!("until [[ -e {}/go ]]; do sleep 0.02; done\n", gate.display());
    fnd.install("slow.sh", "on_load = false\n[pool]\nmax = 1\n[queue]\nmax = 1\n", &code);
    let _ = (fnd.queue("slow", ""), fnd.queue("slow", ""));
    for _ in 0..3 {
        assert_eq!(fnd.client().post("/v1/functions/slow/invocations", "").status, 429);
    }
    assert_eq!(wait_told(&fnd, "slow", 1), ["queue-full"]);
    std::fs::write(gate.join("go"), "").unwrap();
    let _ = fnd.wait_run("slow");
    assert_eq!(fnd.history("page").len(), 1);
    fnd.finish();
}

/// At a start `page` may not be known yet when `job` is refused; and a restart tells nobody again.
#[test]
fn what_is_invalid_at_a_start_is_told_once() {
    let setup = Setup::default()
        .config("[alert]\ncall = \"page\"\n")
        .file("job.sh", "# /// fnd\n# on_laod = false\n# ///\ntrue\n")
        .file("page.sh", ECHO)
        .detached();
    let mut fnd = Fnd::start_with(&setup);
    assert_eq!(wait_told(&fnd, "job", 1), ["invalid"]);
    assert!(fnd.history("page").iter().all(|view| view.state != RunState::Skipped));
    let status = fnd.ctl(&["status"]);
    assert!(status.out().contains("job: alert `invalid`"), "{status}");
    fnd.replace(Signal::SIGKILL);
    fnd.wait_ready("page");
    fnd.drop_file("job.sh", "# /// fnd\n# on_load = false\n# ///\ntrue\n");
    assert_eq!(wait_told(&fnd, "job", 2), ["invalid", "recovered"]);
    assert_eq!(fnd.history("page").len(), 2);
    fnd.finish();
}
