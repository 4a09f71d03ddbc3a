//! A1: one of several calls of a worker is cancelled, or reaches its timeout; the others go on.

use super::{reason, start};
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};

const POOL: &str = "[pool]\nmax = 1\nconcurrency = 6\n[limits]\ngrace = \"30s\"\n";

/// Waits until so many calls of `f` have begun.
fn begun(fnd: &Fnd, count: usize) {
    let begun = fnd.path("begun");
    wait_until("the calls to begin", PATIENCE, || {
        (std::fs::read_dir(&begun).unwrap().count() == count).then_some(())
    });
}

fn code(fnd: &Fnd, body: &str) -> String {
    let (begun, gate) = (fnd.shared_directory("begun"), fnd.shared_directory("gate").join("open"));
    format!(
        "import asyncio, os, time\nBEGUN, GATE = '{}', '{}'\n{body}",
        begun.display(),
        gate.display()
    )
}

#[test]
fn a_cancelled_call_of_an_async_handler_ends_and_the_others_go_on() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    let body = "async def handler(event, context):
    open(f'{BEGUN}/{context[\"invocation\"]}', 'w')
    while not os.path.exists(GATE): await asyncio.sleep(0.01)
    return os.getpid()
";
    fnd.install("f.py", POOL, &code(&fnd, body));
    let ids: Vec<_> = (0..6).map(|_| start(&fnd, "f", "null")).collect();
    begun(&fnd, 6);
    let _ = fnd.ctl(&["cancel", &ids[2].to_string()]).expect_code(0);
    let cancelled = fnd.wait_end(ids[2]);
    assert_eq!(
        (cancelled.state, cancelled.message.as_str()),
        (RunState::Cancelled, "cancelled on request")
    );
    std::fs::write(fnd.path("gate/open"), "").unwrap();
    let others = ids.iter().filter(|id| **id != ids[2]);
    for id in others {
        let view = fnd.wait_end(*id);
        assert_eq!(view.state, RunState::Succeeded, "{}: {}", reason(&view), view.message);
    }
    let pid: serde_json::Value = fnd.invoke("f", "null").json();
    let result = fnd.client().get(&format!("/v1/invocations/{}/result", ids[0]));
    assert_eq!(result.json::<serde_json::Value>(), pid, "the worker goes on");
    fnd.finish();
}

#[test]
fn a_cancelled_call_of_a_blocking_handler_is_dropped_and_the_others_go_on() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    let body = "def handler(event, context):
    open(f'{BEGUN}/{context[\"invocation\"]}', 'w')
    while not os.path.exists(GATE): time.sleep(0.01)
    return os.getpid()
";
    fnd.install("f.py", POOL, &code(&fnd, body));
    let ids: Vec<_> = (0..3).map(|_| start(&fnd, "f", "null")).collect();
    begun(&fnd, 3);
    let _ = fnd.ctl(&["cancel", &ids[1].to_string()]).expect_code(0);
    let cancelled = fnd.wait_end(ids[1]);
    assert_eq!(cancelled.state, RunState::Cancelled);
    assert!(
        cancelled.message.contains("cannot end one of several calls"),
        "{}",
        cancelled.message
    );
    std::fs::write(fnd.path("gate/open"), "").unwrap();
    for id in [ids[0], ids[2]] {
        let view = fnd.wait_end(id);
        assert_eq!(view.state, RunState::Succeeded, "{}: {}", reason(&view), view.message);
    }
    let old = fnd.client().get(&format!("/v1/invocations/{}/result", ids[0]));
    let new: serde_json::Value = fnd.invoke("f", "null").json();
    assert_ne!(old.json::<serde_json::Value>(), new, "the worker was replaced");
    fnd.finish();
}
