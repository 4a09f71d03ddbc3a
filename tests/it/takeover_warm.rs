//! Workers of handlers: a planned restart hands them over with their calls; after a crash they are replaced.

use super::takeover::start;
use fnd_core::api::InvocationList;
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use nix::sys::signal::Signal;

/// Waits for `GATE/go` if the payload says so; answers with its process id.
const HANDLER: &str = r#"
import os, time

def handler(event, context):
    if event["data"] == {"wait": True}:
        print("before", flush=True)
        while not os.path.exists("GATE/go"):
            time.sleep(0.02)
        print("after")
    return {"pid": os.getpid()}
"#;

/// The same in deno, whose worker connects to fnd.
const IN_DENO: &str = r#"// /// fnd
// permissions = ["read=GATE"]
// ///
const there = () => Deno.stat("GATE/go").then(() => true, (error) => {
  if (error instanceof Deno.errors.NotFound) return false;
  throw error;
});

export default async (event) => {
  if (event.data?.wait) {
    console.log("before");
    while (!await there()) await new Promise((then) => setTimeout(then, 20));
    console.log("after");
  }
  return { pid: Deno.pid };
};
"#;

#[test]
fn a_warm_worker_and_its_call_go_on_over_a_restart() {
    require!(root, cgroup);
    goes_on("warm.py", HANDLER);
}

#[test]
fn a_warm_worker_that_has_connected_and_its_call_go_on_over_restarts() {
    require!(root, cgroup, deno);
    goes_on("warm.js", IN_DENO);
}

fn goes_on(file: &str, code: &str) {
    let (mut fnd, gate) = start(&[(file, code)]);
    let pid = fnd.run("warm", "null").0.json::<serde_json::Value>()["pid"].clone();
    let id = fnd.queue("warm", "{\"wait\": true}");
    let _ = fnd.wait_invocation(id, "to run", |view| view.state == RunState::Running);
    let printed = || fnd.logs(id).into_iter().map(|line| line.text).collect::<Vec<_>>();
    wait_until("its first words", PATIENCE, || (printed() == ["before"]).then_some(()));
    for _ in 0..2 {
        fnd.replace(Signal::SIGTERM);
        assert_eq!(fnd.invocation(id).state, RunState::Running, "{}", fnd.log());
    }
    std::fs::write(gate.join("go"), "").unwrap();
    let view = fnd.wait_end(id);
    assert_eq!(
        (view.state, view.attempts),
        (RunState::Succeeded, 1),
        "{view:?} {}",
        fnd.log()
    );
    assert_eq!(fnd.result(id).json::<serde_json::Value>()["pid"], pid);
    let texts: Vec<_> = fnd.logs(id).into_iter().map(|line| line.text).collect();
    assert_eq!(texts, ["before", "after"]);
    let (answer, view) = fnd.run("warm", "null");
    assert_eq!(
        answer.json::<serde_json::Value>()["pid"],
        pid,
        "the same worker serves on"
    );
    assert!(!view.attempt_records[0].cold);
    fnd.finish();
}

#[test]
fn every_warm_worker_is_handed_over_each_time() {
    require!(root, cgroup);
    let names: Vec<String> = (0..8).map(|n| format!("warm{n}")).collect();
    let files: Vec<(String, &str)> = names.iter().map(|name| (format!("{name}.py"), HANDLER)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(file, code)| (file.as_str(), *code)).collect();
    let (mut fnd, _gate) = start(&files);
    let pids = |fnd: &Fnd| {
        let pid = |name: &String| fnd.run(name, "null").0.json::<serde_json::Value>()["pid"].clone();
        names.iter().map(pid).collect::<Vec<_>>()
    };
    let before = pids(&fnd);
    for _ in 0..3 {
        fnd.replace(Signal::SIGTERM);
        assert_eq!(pids(&fnd), before, "{}", fnd.log());
    }
    fnd.finish();
}

#[test]
fn after_a_crash_a_warm_call_is_interrupted_and_its_worker_replaced() {
    require!(root, cgroup);
    let (mut fnd, _gate) = start(&[("warm.py", HANDLER)]);
    let pid = fnd.run("warm", "null").0.json::<serde_json::Value>()["pid"].clone();
    let id = fnd.queue("warm", "{\"wait\": true}");
    let _ = fnd.wait_invocation(id, "to run", |view| view.state == RunState::Running);
    fnd.replace(Signal::SIGKILL);
    let view = fnd.wait_end(id);
    assert_eq!((view.state, view.attempts), (RunState::Interrupted, 1), "{view:?}");
    let other = fnd.run("warm", "null").0.json::<serde_json::Value>()["pid"].clone();
    assert_ne!(pid, other);
    let old = pid.as_u64().unwrap();
    wait_until("the old worker to be gone", PATIENCE, || {
        (!std::path::Path::new(&format!("/proc/{old}")).exists()).then_some(())
    });
    fnd.finish();
}

/// Prints the id of its invocation.
const SPEAKS: &str = r#"
def handler(event, context):
    if event["data"]:
        print("said by", context["invocation"])
    return "done"
"#;

/// An answered call is in the history, however soon after the answer fnd is killed. Its output is there too, unless the
/// record says that it may be lost.
#[test]
fn a_call_that_was_answered_has_ended_whenever_fnd_is_killed() {
    require!(root, cgroup);
    let (mut fnd, _gate) = start(&[("warm.py", SPEAKS)]);
    let mut answered = Vec::new();
    for n in 0..8 {
        let prints = n % 2 == 0;
        for _ in 0..3 {
            let answer = fnd
                .client()
                .post("/v1/functions/warm/invoke", if prints { "1" } else { "0" });
            assert_eq!(answer.status, 200, "{}", answer.text());
            answered.push((Fnd::id_of(&answer), prints));
        }
        fnd.replace(Signal::SIGKILL);
    }
    for (id, prints) in answered {
        let view = fnd.invocation(id);
        assert_eq!((view.state, view.attempts), (RunState::Succeeded, 1), "{view:?}");
        assert_eq!(view.attempt_records.len(), 1, "{view:?}");
        let texts: Vec<_> = fnd.logs(id).into_iter().map(|line| line.text).collect();
        let lost = view.message.contains("its output may be");
        let expected = if prints {
            vec![format!("said by {id}")]
        } else {
            Vec::new()
        };
        assert!(texts == expected || (prints && lost), "{view:?}: {texts:?}");
    }
    fnd.finish();
}

/// Counts its calls, and waits.
const BEGUN: &str = r#"
import time

def handler(event, context):
    with open("GATE/begun", "a") as file:
        file.write("begun\n")
    time.sleep(60)
"#;

#[test]
fn a_call_that_had_just_begun_is_interrupted_and_not_forgotten() {
    require!(root, cgroup);
    let (mut fnd, gate) = start(&[("warm.py", BEGUN)]);
    for n in 1..=5 {
        let client = fnd.client();
        let caller = std::thread::spawn(move || client.try_call("POST", "/v1/functions/warm/invoke", &[], b""));
        wait_until("the handler to be called", PATIENCE, || {
            let begun = std::fs::read_to_string(gate.join("begun")).unwrap_or_default();
            (begun.lines().count() == n).then_some(())
        });
        fnd.replace(Signal::SIGKILL);
        assert!(caller.join().unwrap().is_err(), "{}", fnd.log());
        let page = fnd.client().get("/v1/invocations?function=warm");
        let views = page.json::<InvocationList>().invocations;
        assert_eq!(views.len(), n, "{}", fnd.log());
        for view in views {
            assert_eq!((view.state, view.attempts), (RunState::Interrupted, 1), "{view:?}");
        }
    }
    fnd.finish();
}
