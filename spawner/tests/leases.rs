//! Leases: fnd moves the end of a worker as long as it may run. Where fnd does nothing any more, as one that is stopped
//! (SIGSTOP), the worker ends by itself, with everything that it has forked. The test is fnd, and says nothing.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, privileged, processes_of, root, until};
use fnd_spawner::clock::now;
use fnd_wire::frame::{ExitStatus, Lease, Reply, Request};
use fnd_wire::ids::WorkerId;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A tree that leaves its session, forks twice and ignores SIGTERM.
const TREE: &str = "trap '' TERM\nsetsid bash -c 'trap \"\" TERM; (sleep 1000 & sleep 1000) & sleep 1000' &\n\
    echo ready\nwait; sleep 1000\n";
/// Longer than the extra time in which a connected fnd may end a worker itself.
const LONG: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(200);

/// Has a worker end so long from now, or never. Returns that instant.
fn lease(harness: &mut Harness, worker: u64, rest: Option<Duration>) -> Duration {
    let until_ms = rest.map(|rest| u64::try_from((now() + rest).as_millis()).unwrap());
    let number = harness.send(&Request::Lease(Lease { worker: WorkerId(worker), until_ms }), Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Done);
    Duration::from_millis(until_ms.unwrap_or(u64::MAX))
}

fn wait(time: Duration) {
    let end = now() + time;
    until("time has passed", || now() >= end);
}

fn output(descriptors: &mut VecDeque<OwnedFd>) -> BufReader<File> {
    BufReader::new(File::from(descriptors.pop_front().unwrap()))
}

fn line(from: &mut BufReader<File>) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line
}

fn a_tree_ends_with_its_lease(harness: &mut Harness) {
    let installed = harness.install("tree.sh", TREE, "grace=300\n");
    let (worker, number) = harness.order(&installed, None, &[]);
    let mut descriptors = harness.spawned(number).1;
    assert_eq!(line(&mut output(&mut descriptors)), "ready\n");
    let home = harness.path("state/home/tree");
    let stands = || processes_of(&home).iter().filter(|process| process.ends_with(" sleep")).count() == 3;
    until("the tree stands", stands);
    let begun = now();
    until("its lease was renewed for long", || {
        lease(harness, worker, Some(SHORT));
        now() > begun + LONG
    });
    assert!(stands(), "{:?}", processes_of(&home));
    lease(harness, worker, None);
    wait(LONG);
    assert!(stands(), "{:?}", processes_of(&home));
    let end = lease(harness, worker, Some(SHORT));
    let exited = harness.exited(worker);
    assert!(now() >= end + Duration::from_millis(300), "it has its grace");
    assert_eq!(exited.status, ExitStatus::Signal(9));
    assert!(exited.late.is_some(), "that its time was up is said");
    assert_eq!(processes_of(&home), Vec::<String>::new());
    // Of one that is gone, and of one that never was.
    lease(harness, worker, Some(SHORT));
    lease(harness, 1 << 40, Some(SHORT));
    let other = harness.install("other.sh", "exit 3\n", "");
    assert_eq!(harness.run(&other, None, &[]).exited.status, ExitStatus::Code(3));
}

#[test]
fn a_tree_ends_whole_when_its_lease_is_not_renewed() {
    if privileged() {
        a_tree_ends_with_its_lease(&mut Harness::start());
    }
}

#[test]
fn a_tree_without_cgroups_ends_whole_when_its_lease_is_not_renewed() {
    if root() {
        a_tree_ends_with_its_lease(&mut Harness::with(&Options {
            uid: Some(12_349),
            best_effort: true,
            ..Options::default()
        }));
    }
}

#[test]
fn a_handlers_worker_has_a_lease_while_it_has_a_call() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let code = "sleep 1000 & while read -r line <&3; do echo \"got $line\" >&3; done\n";
    let installed = harness.install("warm.sh", code, "handler=1");
    let (worker, number) = harness.order(&installed, None, &[]);
    let (Reply::SpawnedWithChannel(_), mut ends) = harness.answer(number) else { panic!("no channel") };
    let channel = ends.pop_back().unwrap();
    let mut answers = BufReader::new(File::from(channel.try_clone().unwrap()));
    let mut call = |word: &str| {
        File::from(channel.try_clone().unwrap()).write_all(format!("{word}\n").as_bytes()).unwrap();
        assert_eq!(line(&mut answers), format!("got {word}\n"));
    };
    lease(&mut harness, worker, Some(SHORT));
    call("one");
    lease(&mut harness, worker, None);
    wait(LONG);
    call("two");
    lease(&mut harness, worker, Some(SHORT));
    let exited = harness.exited(worker);
    assert_eq!(exited.status, ExitStatus::Signal(15));
    assert!(exited.late.is_some());
    assert_eq!(processes_of(&harness.path("state/home/warm")), Vec::<String>::new());
}

#[test]
fn a_lease_that_is_renewed_too_late_keeps_nothing_alive() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let code = "trap 'echo term' TERM\necho ready\nwhile :; do sleep 0.05; done\n";
    let installed = harness.install("late.sh", code, "grace=2000\n");
    let (worker, number) = harness.order(&installed, None, &[]);
    // Bash writes to standard error when its child ends, so that end stays open.
    let mut descriptors = harness.spawned(number).1;
    let mut printed = output(&mut descriptors);
    assert_eq!(line(&mut printed), "ready\n");
    // Also an instant that is over when the spawner hears of it.
    lease(&mut harness, worker, Some(Duration::ZERO));
    assert_eq!(line(&mut printed), "term\n");
    lease(&mut harness, worker, Some(Duration::from_secs(1000)));
    lease(&mut harness, worker, None);
    assert_eq!(harness.exited(worker).status, ExitStatus::Signal(9));
}
