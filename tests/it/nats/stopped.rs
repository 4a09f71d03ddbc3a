//! fnd is stopped, its spawner and its functions are not: an attempt ends by the spawner before another node could begin one, with
//! everything that it has started.

use super::journal::now_ns;
use super::several::{FENCED, node, server};
use super::{CONSUMER, ENTRY, STREAM, lines, serve, wait_runs};
use fnd_core::records::outcome::{Reason, RunState};
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};
use nix::sys::signal::Signal;
use std::path::Path;

/// A process that leaves the session of its function, ignores SIGTERM, and writes again and again that it is there.
const BEATS: &str =
    r#"setsid bash -c 'trap "" TERM; while :; do date +%s%N >>"$STATE_DIRECTORY/beats"; sleep 0.05; done'"#;
/// How long another node waits, by [`FENCED`].
const ACK_WAIT_NS: u64 = 4_000_000_000;

/// Returns when the process was there last.
fn last_beat(fnd: &Fnd) -> Option<u64> {
    // The last line may not be written to its end.
    let all = lines(fnd, "take", "beats");
    all.iter()
        .rev()
        .find_map(|line| line.parse().ok().filter(|_| line.len() == 19))
}

/// Stops fnd during an attempt. Its processes are gone in time, and stay gone; then the attempt has lost its lease, and the message
/// runs again.
fn ends_in_time(install: impl FnOnce(&Fnd, &Path)) {
    let (server, client) = server();
    let fnd = node(&server, "vm1");
    let gate = fnd.shared_directory("gate");
    install(&fnd, &gate);
    client.publish("orders.new", &[], "1");
    wait_until("the attempt to have begun", PATIENCE, || last_beat(&fnd));
    // Its lease is renewed, so it lives longer than one lease.
    let begun = now_ns();
    wait_until("two leases to be over", PATIENCE, || {
        (now_ns() > begun + 2 * ACK_WAIT_NS).then_some(())
    });
    let (before, stopped) = (last_beat(&fnd), now_ns());
    assert!(before > Some(begun + ACK_WAIT_NS), "{before:?}");
    fnd.signal(Signal::SIGSTOP);
    let last = wait_until("its processes to be gone", PATIENCE, || {
        last_beat(&fnd).filter(|last| now_ns() > last + ACK_WAIT_NS)
    });
    assert!(
        last < stopped + ACK_WAIT_NS,
        "{} ms after the stop",
        last.saturating_sub(stopped) / 1_000_000
    );
    std::fs::write(gate.join("go"), "").unwrap();
    fnd.signal(Signal::SIGCONT);
    client.wait_acknowledged(STREAM, CONSUMER);
    let run = fnd.invocation(wait_runs(&fnd, "take", 1).remove(0).id);
    assert_eq!((run.state, run.attempts), (RunState::Succeeded, 2), "{run:#?}");
    assert_eq!(run.attempt_records[0].reason, Reason::LeaseLost, "{run:#?}");
    assert_eq!(last_beat(&fnd), Some(last));
    fnd.finish();
}

#[test]
fn a_script_ends_with_all_that_it_has_started() {
    require!(nats, root, cgroup);
    ends_in_time(|fnd, gate| {
        let gate = gate.join("go");
        let gate = gate.display();
        let code =
            format!("[[ -e {gate} ]] || {BEATS} >/dev/null 2>&1 &\nuntil [[ -e {gate} ]]; do sleep 0.02; done\n");
        serve(fnd, "take", &format!("{ENTRY}{FENCED}"), &code);
    });
}

/// The worker was there before the message, and has no time of its own.
#[test]
fn a_warm_worker_ends_with_all_that_it_has_started() {
    require!(nats, root, cgroup);
    ends_in_time(|fnd, gate| {
        let gate = gate.join("go");
        let code = format!(
            "import os, subprocess, time\n\ndef handler(event, context):\n    \
            if event['data'] is None or os.path.exists('{gate}'):\n        return\n    \
            subprocess.Popen(['bash', '-c', r\"\"\"{BEATS}\"\"\"])\n    \
            while not os.path.exists('{gate}'):\n        time.sleep(0.02)\n",
            gate = gate.display()
        );
        fnd.install("take.py", &format!("{ENTRY}{FENCED}[pool]\nmin = 1\n"), &code);
        // The call of a person has no lease.
        assert_eq!(fnd.run("take", "null").1.state, RunState::Succeeded);
    });
}
