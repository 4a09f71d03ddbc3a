//! Processes whose parent has ended become children of the spawner, and never remain as zombies.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, privileged, until};
use fnd_wire::frame::{ExitStatus, Reply};
use std::fs;

#[test]
fn orphans_are_the_spawners_and_count_against_no_limit_when_they_ended() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    // The fourth field is the parent, since no name here contains a blank.
    let script = "orphan=$(sleep 1000 >/dev/null 2>&1 & echo $!)\ncut -d ' ' -f 4 /proc/$orphan/stat\n\
        for i in $(seq 40); do (true & true) || exit 9; done\n";
    let installed = harness.install("orphans.sh", script, "pids=8");
    let run = harness.run(&installed, None, &[]);
    let spawner = harness.child.id();
    assert_eq!(
        (run.stdout.trim(), run.exited.status),
        (spawner.to_string().as_str(), ExitStatus::Code(0)),
        "{}",
        run.stderr
    );
    let zombies = || {
        let children = fs::read_to_string(format!("/proc/{spawner}/task/{spawner}/children")).unwrap();
        let stat = |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        children.split_whitespace().filter(|pid| stat(pid).contains(") Z ")).count()
    };
    until("every orphan is waited for", || zombies() == 0);
}

#[test]
fn a_start_that_meets_the_limit_of_processes_says_so() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("full.sh", "echo ready; exec sleep 1000\n", "pids=1");
    let (_, number) = harness.order(&installed, None, &[]);
    let (_, descriptors) = harness.spawned(number);
    assert!(rustix::io::read(&descriptors[0], &mut [0; 8]).unwrap() > 0);
    let (_, number) = harness.order(&installed, None, &[]);
    let Reply::SpawnFailed(failed) = harness.answer(number).0 else { panic!("it ran") };
    assert!(failed.message.contains("`limits.pids`"), "{}", failed.message);
}
