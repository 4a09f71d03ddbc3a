//! The node has run out of a resource, or a program that fnd needs does not answer: no work is lost, and fnd reports
//! it.

use super::takeover::start;
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::Signal;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::fs;

const QUICK: &str = "# /// fnd
# on_load = false
# ///
echo done
";

fn descriptors(fnd: &Fnd, most: u64) {
    descriptors_of(fnd.spawner_pid(), most);
}

fn descriptors_of(pid: u32, most: u64) {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(4096),
    };
    prlimit(Some(pid), Resource::Nofile, limit).unwrap();
}

fn metric(fnd: &Fnd, line: &str) -> bool {
    fnd.client().get("/metrics").text().lines().any(|found| found == line)
}

#[test]
fn all_that_was_accepted_runs_after_a_shortage_of_descriptors() {
    require!(root, cgroup);
    let (fnd, _) = start(&[("quick.sh", QUICK)]);
    let _ = fnd.wait_ready("quick");
    descriptors(&fnd, 24);
    let ids: Vec<_> = (0..100).map(|_| fnd.queue("quick", "")).collect();
    let _ = fnd.wait_problem("node cannot start: ");
    assert_eq!(fnd.client().get("/healthz").status, 503);
    assert!(
        metric(&fnd, "fnd_problems{code=\"node-cannot-start\"} 1.0")
            || metric(&fnd, "fnd_problems{code=\"node-cannot-start\"} 1")
    );
    assert_eq!(fnd.function("quick").unwrap().state.as_str(), "ready");
    descriptors(&fnd, 4096);
    for id in ids {
        let view = fnd.wait_end(id);
        assert_eq!((view.state, view.attempts), (RunState::Succeeded, 1), "{view:?}");
        assert_eq!(fnd.logs(id).len(), 1, "its output is there");
    }
    wait_until("the problem to be over", PATIENCE, || {
        (fnd.client().get("/healthz").status == 200).then_some(())
    });
    assert!(fnd.status().problems.is_empty(), "{:?}", fnd.status().problems);
    let status = fnd.function("quick").unwrap();
    assert_eq!((status.runs, status.failures), (100, 0));
    fnd.finish();
}

/// The kernel drops the descriptors of a new worker if fnd has no room for them. The worker is killed, which does not
/// count as a failure of the function.
#[test]
fn a_worker_that_fnd_has_no_descriptors_for_fails_no_call() {
    require!(root, cgroup);
    let handler =
        "import os, time\ndef handler(event, context):\n    while not os.path.exists(\"GATE/go\"): time.sleep(0.05)\n";
    let (fnd, gate) = start(&[("warm.py", handler)]);
    let _ = fnd.wait_ready("warm");
    // Files that fnd opens with its first call stay open.
    fs::write(gate.join("go"), "").unwrap();
    assert_eq!(fnd.invoke("warm", "{}").status, 200);
    fs::remove_file(gate.join("go")).unwrap();
    let first = fnd.queue("warm", "{}");
    wait_until("the first worker to be busy", PATIENCE, || {
        (fnd.function("warm").unwrap().running == 1).then_some(())
    });
    // Room for a caller, but not for the pipes and the socket of a worker.
    descriptors_of(fnd.pid(), open_at_rest(fnd.pid()) + 2);
    let id = fnd.queue("warm", "{}");
    // The journal is read, since the shortage might refuse a caller.
    wait_until("it to be told", PATIENCE, || {
        let message = "node cannot start: there is no connection to a new worker";
        fnd.log().contains(message).then_some(())
    });
    descriptors_of(fnd.pid(), 4096);
    fs::write(gate.join("go"), "").unwrap();
    for id in [first, id] {
        let view = fnd.wait_end(id);
        assert_eq!((view.state, view.attempts), (RunState::Succeeded, 1), "{view:?}");
    }
    let status = fnd.function("warm").unwrap();
    assert_eq!((status.runs, status.failures), (3, 0));
    fnd.finish();
}

/// Returns how many descriptors a process has while it does nothing: the smallest number of many looks.
fn open_at_rest(pid: u32) -> u64 {
    let looks = (0..50).map(|_| {
        fnd_tests::wait::pause();
        fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64
    });
    looks.min().unwrap()
}

/// An invocation that waits for resources has not begun, so a kill of fnd does not make it `interrupted`.
#[test]
fn a_kill_during_a_shortage_loses_nothing() {
    require!(root, cgroup);
    let (mut fnd, _) = start(&[("quick.sh", QUICK)]);
    let _ = fnd.wait_ready("quick");
    descriptors(&fnd, 24);
    let ids: Vec<_> = (0..20).map(|_| fnd.queue("quick", "")).collect();
    let _ = fnd.wait_problem("node cannot start: ");
    // All starts were tried and failed.
    wait_until("nothing to run", PATIENCE, || {
        (fnd.function("quick").unwrap().running == 0).then_some(())
    });
    assert!(fnd.kill());
    descriptors(&fnd, 4096);
    fnd.launch();
    for id in ids {
        let view = fnd.wait_end(id);
        assert_eq!((view.state, view.attempts), (RunState::Succeeded, 1), "{view:?}");
    }
    fnd.finish();
}

#[test]
fn a_spawner_that_does_nothing_is_reported_and_nobody_waits_for_it() {
    require!(root, cgroup);
    let (fnd, _) = start(&[("quick.sh", QUICK)]);
    assert_eq!(fnd.invoke("quick", "").status, 200);
    fnd.signal_spawner(Signal::SIGSTOP);
    // This call waits until fnd knows that the spawner does not answer.
    let waited = fnd.client().post("/v1/functions/quick/invoke", "");
    assert_eq!(
        (waited.status.as_u16(), waited.header("retry-after")),
        (503, Some("1")),
        "{}",
        waited.text()
    );
    assert!(
        waited.text().contains("fnd-spawner does not answer"),
        "{}",
        waited.text()
    );
    assert_eq!(fnd.client().post("/v1/functions/quick/invoke", "").status, 503);
    assert_eq!(fnd.client().get("/healthz").status, 503);
    assert!(metric(&fnd, "fnd_spawner_up 0.0") || metric(&fnd, "fnd_spawner_up 0"));
    let _ = fnd.wait_problem("fnd-spawner does not answer");
    let queued = fnd.queue("quick", "");
    fnd.signal_spawner(Signal::SIGCONT);
    assert_eq!(fnd.wait_end(queued).state, RunState::Succeeded);
    assert_eq!(fnd.invoke("quick", "").status, 200);
    assert_eq!(fnd.client().get("/healthz").status, 200);
    assert!(fnd.status().problems.is_empty(), "{:?}", fnd.status().problems);
    fnd.finish();
}

const DEAF: &str = "# /// fnd
# on_load = false
# limits = { timeout = \"1s\", grace = \"200ms\" }
# ///
trap '' TERM
echo $$ >GATE/pid
while :; do sleep 0.05; done
";

#[test]
fn a_timeout_is_kept_while_fnd_does_nothing() {
    require!(root, cgroup);
    let (fnd, gate) = start(&[("deaf.sh", DEAF)]);
    let id = fnd.queue("deaf", "");
    let pid = wait_until("it to begin", PATIENCE, || {
        let text = fs::read_to_string(gate.join("pid")).ok()?;
        text.trim().parse::<u32>().ok()
    });
    fnd.signal(Signal::SIGSTOP);
    wait_until("it to be gone", PATIENCE, || {
        (!fs::exists(format!("/proc/{pid}")).unwrap()).then_some(())
    });
    fnd.signal(Signal::SIGCONT);
    let view = fnd.wait_end(id);
    assert_eq!(fnd_tests::ask::word(&view.reason), "timeout", "{view:?}");
    fnd.finish();
}

const CROWD: &str = r#"
import asyncio, os

async def handler(event, context):
    while not os.path.exists("GATE/go"):
        await asyncio.sleep(0.2)
    return event["data"]
"#;

/// A planned restart hands over any number of calls in flight.
#[test]
fn a_worker_with_many_calls_goes_on_over_a_restart() {
    require!(root, cgroup);
    const CALLS: usize = 800;
    let setup = Setup::default().detached();
    let mut fnd = Fnd::prepare(&setup);
    let gate = fnd.shared_directory("gate");
    fnd.drop_file("crowd.py", &CROWD.replace("GATE", &gate.display().to_string()));
    fnd.drop_file(
        "crowd.toml",
        "[pool]\nmax = 1\nconcurrency = 1000\n[queue]\nmax = 1000\n",
    );
    fnd.launch();
    let _ = fnd.wait_ready("crowd");
    let ids: Vec<_> = (0..CALLS).map(|call| fnd.queue("crowd", &call.to_string())).collect();
    wait_until("all of them to run", PATIENCE * 2, || {
        (fnd.function("crowd").unwrap().running as usize == CALLS).then_some(())
    });
    fnd.replace(Signal::SIGTERM);
    fs::write(gate.join("go"), "").unwrap();
    let ends: Vec<_> = ids.iter().map(|id| fnd.wait_end(*id)).collect();
    let well = ends
        .iter()
        .filter(|view| view.state == RunState::Succeeded && view.attempts == 1);
    assert_eq!(well.count(), CALLS, "{}", fnd.log());
    fnd.finish();
}

/// The spawner of a killed fnd, its child, needs a moment to end the processes that it started.
#[test]
fn fnd_starts_at_once_after_it_was_killed() {
    require!(root, cgroup);
    let mut fnd = Fnd::start();
    fnd.drop_file(
        "deaf.sh",
        &DEAF.replace("GATE", "/dev/shm/nowhere").replace("\"1s\"", "\"1m\""),
    );
    let _ = fnd.wait_ready("deaf");
    for _ in 0..10 {
        let id = fnd.queue("deaf", "");
        let _ = fnd.wait_invocation(id, "to run", |view| view.state == RunState::Running);
        assert!(fnd.kill());
        fnd.launch();
    }
    fnd.stop_now();
}
