//! Limits and killing; no process and no cgroup ever remains.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, Outcome, privileged, processes_of, until};
use fnd_wire::form::Wire as _;
use fnd_wire::frame::{Containment, ExitStatus, Hello, PROTOCOL_MAX, Reply, Request, StoredExit, TermCause};
use fnd_wire::ids::{FunctionName, WorkerId};
use std::path::{Path, PathBuf};

/// A tree that leaves its session, forks twice and ignores SIGTERM.
const ESCAPEE: &str = "trap '' TERM\nsetsid bash -c 'trap \"\" TERM; (sleep 1000 & sleep 1000) & sleep 1000' &\n\
    nohup sleep 1000 &\necho ready\nwait; sleep 1000\n";

/// Reads the first line of a worker's output, so that the worker is known to have reached that point.
fn ready(descriptors: &std::collections::VecDeque<std::os::fd::OwnedFd>) {
    let mut byte = [0];
    assert_eq!(rustix::io::read(&descriptors[0], &mut byte).unwrap(), 1);
}

/// Returns whether a process is in a group or below it, also one that is still ending. A removed group has none.
fn is_populated(group: &Path) -> bool {
    let says = |file, text| std::fs::read_to_string(group.join(file)).is_ok_and(|found| found.contains(text));
    let mut below = std::fs::read_dir(group).into_iter().flatten().flatten();
    says("cgroup.events", "populated 1")
        || says("cgroup.procs", "\n")
        || below.any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && is_populated(&entry.path()))
}

#[test]
fn a_tree_that_ignores_sigterm_is_killed_whole() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("escapee.sh", ESCAPEE, "");
    let (worker, number) = harness.order(&installed, None, &[]);
    let (spawned, descriptors) = harness.spawned(number);
    assert!(spawned.kill && descriptors.len() == 4);
    ready(&descriptors);
    let home = harness.path("state/home/escapee");
    // All other processes of the tree are ancestors of these. Both checks are repeated, since a process in execve(2)
    // shows no environment.
    let stands = || processes_of(&home).iter().filter(|process| process.ends_with(" sleep")).count() == 4;
    until("the tree stands", stands);
    let number = harness.send(&Request::Term(WorkerId(worker)), Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Done);
    until("the tree ignores SIGTERM", stands);
    // As fnd kills: by the descriptor that it got.
    rustix::io::write(&descriptors[3], b"1").unwrap();
    let exited = harness.exited(worker);
    assert_eq!(exited.status, ExitStatus::Signal(9));
    assert_eq!(processes_of(&home), Vec::<String>::new());
    // Then by the frame, twice, and for a worker that has ended.
    let (worker, number) = harness.order(&installed, None, &[]);
    let (_, descriptors) = harness.spawned(number);
    ready(&descriptors);
    harness.send(&Request::Kill(WorkerId(worker)), Vec::new());
    harness.send(&Request::Kill(WorkerId(worker)), Vec::new());
    assert_eq!(harness.exited(worker).status, ExitStatus::Signal(9));
    let number = harness.send(&Request::Kill(WorkerId(worker)), Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Done);
}

#[test]
fn sigterm_reaches_every_process() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    // The outer trap is set before the inner process prints `x`.
    let script = "trap 'wait; echo outer; exit 7' TERM\n\
        setsid bash -c 'trap \"echo inner; exit\" TERM; echo x; while :; do sleep 0.01; done' &\n\
        while :; do sleep 0.01; done\n";
    let installed = harness.install("polite.sh", script, "");
    let (worker, number) = harness.order(&installed, None, &[]);
    let (_, mut descriptors) = harness.spawned(number);
    ready(&descriptors);
    harness.send(&Request::Term(WorkerId(worker)), Vec::new());
    let exited = harness.exited(worker);
    let out = common::text(descriptors.pop_front().unwrap());
    assert!(out.contains("inner") && out.contains("outer"), "{out}");
    assert_eq!(exited.status, ExitStatus::Code(7));
}

/// As at a stop of fnd during the replacement of a service: many programs take a second stop signal as the order to end at once.
#[test]
fn a_worker_gets_its_stop_signal_once() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let script = "trap 'echo stop; touch $HOME/asked' TERM; echo x; until [ -e $HOME/go ]; do sleep 0.01; done\n:\n";
    let installed = harness.install("once.sh", script, "");
    let (worker, number) = harness.order(&installed, None, &[]);
    let (_, mut descriptors) = harness.spawned(number);
    ready(&descriptors);
    let home = harness.path("state/home/once");
    for _ in 0..2 {
        let number = harness.send(&Request::Term(WorkerId(worker)), Vec::new());
        assert_eq!(harness.answer(number).0, Reply::Done);
        until("the signal is there", || home.join("asked").exists());
    }
    std::fs::write(home.join("go"), "").unwrap();
    assert_eq!(harness.exited(worker).status, ExitStatus::Code(0));
    assert_eq!(common::text(descriptors.pop_front().unwrap()).trim(), "stop");
}

/// Plans of services, and the signal that such a service gets first. A number that is no stop signal is the work of a hostile
/// judge.
const STOPS: [(&str, &str); 7] =
    [("2", "INT"), ("10", "USR1"), ("1", "HUP"), ("9", "TERM"), ("19", "TERM"), ("34", "TERM"), ("x", "TERM")];

/// Asks services to end, which then say by which signal.
fn services_get_their_signals(harness: &mut Harness) {
    let script = "for name in INT USR1 HUP TERM; do trap \"echo $name; exit 7\" $name; done; echo x\n\
        while :; do sleep 0.01; done\n";
    for (number, name) in STOPS {
        let installed = harness.install("served.sh", script, &format!("stop_signal={number}"));
        let (worker, order) = harness.order(&installed, None, &[]);
        let (_, mut descriptors) = harness.spawned(order);
        ready(&descriptors);
        harness.send(&Request::Term(WorkerId(worker)), Vec::new());
        let exited = harness.exited(worker);
        let out = common::text(descriptors.pop_front().unwrap());
        assert_eq!((out.trim(), exited.status), (name, ExitStatus::Code(7)), "{number}");
    }
}

#[test]
fn a_service_is_asked_to_end_by_the_signal_of_its_plan() {
    if privileged() {
        services_get_their_signals(&mut Harness::start());
    }
}

#[test]
fn without_cgroups_an_init_passes_the_signal_of_the_plan_on() {
    if !common::root() {
        return;
    }
    for (uid, no_namespaces) in [(12_361, false), (12_362, true)] {
        let options = Options { uid: Some(uid), no_namespaces, best_effort: true, ..Options::default() };
        let mut harness = Harness::with(&options);
        assert_ne!(harness.welcome.containment, Containment::Cgroup);
        services_get_their_signals(&mut harness);
    }
}

#[test]
fn what_is_left_in_the_background_ends_with_the_run() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed =
        harness.install("left.sh", "sleep 1000 >/dev/null 2>&1 &\nsetsid sleep 1000 >/dev/null 2>&1 &\nexit 0\n", "");
    let run = harness.run(&installed, None, &[]);
    assert_eq!((run.exited.status, run.exited.stragglers), (ExitStatus::Code(0), true));
    assert_eq!(processes_of(&harness.path("state/home/left")), Vec::<String>::new());
}

#[test]
fn a_fork_bomb_meets_its_limit() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let script = "for i in $(seq 50); do sleep 1000 >/dev/null 2>&1 & done; sleep 1000\n";
    let installed = harness.install("bomb.sh", script, "pids=10");
    let (worker, number) = harness.order(&installed, None, &[]);
    let (_, mut descriptors) = harness.spawned(number);
    let errors = descriptors.remove(1).unwrap();
    let mut text = [0; 64];
    assert!(rustix::io::read(&errors, &mut text).unwrap() > 0, "bash says that it can't fork");
    assert!(processes_of(&harness.path("state/home/bomb")).len() <= 11); // the launcher's environment does not name the directory
    harness.send(&Request::Kill(WorkerId(worker)), Vec::new());
    assert!(harness.exited(worker).pids_refused > 0);
}

#[test]
fn out_of_memory_is_counted_and_takes_the_whole_tree() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    // The process that uses the memory is a child; if only it were killed, the script would continue.
    let script = "/usr/bin/python3 -c 'x = bytearray(200 << 20)'; sleep 1000\n";
    let installed = harness.install("hog.sh", script, "memory=67108864");
    let run = harness.run(&installed, None, &[]);
    assert_eq!(run.exited.status, ExitStatus::Signal(9));
    assert!(run.exited.oom_kills > 0 && !run.exited.oom_shared, "{:?}", run.exited);
    // The counter covers this run only, not earlier ones.
    let fine = harness.install("hog.sh", ":\n", "memory=67108864");
    assert_eq!(harness.run(&fine, None, &[]).exited.oom_kills, 0);
}

#[test]
fn a_cpu_quota_throttles() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done\n";
    let installed = harness.install("spin.sh", script, "cpu=100");
    let run = harness.run(&installed, None, &[]);
    assert!(run.exited.throttled_us > 0 && run.exited.cpu_us > 10_000, "{:?}", run.exited);
}

#[test]
fn a_killed_spawner_leaves_no_process_and_the_next_removes_its_groups() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("orphan.sh", ESCAPEE, "");
    let (_, number) = harness.order(&installed, None, &[]);
    let (_, descriptors) = harness.spawned(number);
    ready(&descriptors);
    let home = harness.path("state/home/orphan");
    assert!(!processes_of(&home).is_empty());
    let name = format!("fnd-{}", harness.child.id());
    let groups = || {
        let hierarchies = std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|entry| entry.path());
        let places = hierarchies.chain(["/sys/fs/cgroup".into()]).map(|hierarchy| hierarchy.join(&name));
        places.filter(|group| group.exists()).collect::<Vec<_>>()
    };
    // Read now: while the spawner runs, no other one removes its groups; after its end, the spawner of another test
    // may.
    assert!(!groups().is_empty());
    harness.child.kill().unwrap();
    harness.child.wait().unwrap();
    until("the launcher killed all of it", || processes_of(&home).is_empty());
    // A group in which a process is still ending can't be removed.
    until("nothing lives in its groups", || !groups().iter().any(|group| is_populated(group)));
    let next = Harness::start();
    let own = next.child.id();
    assert_eq!(groups(), Vec::<PathBuf>::new());
    next.stop();
    assert!(!std::path::Path::new(&format!("/sys/fs/cgroup/unified/fnd-{own}")).exists());
}

#[test]
fn the_end_of_fnd_is_the_end_of_everything() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("orphan.sh", ESCAPEE, "");
    let (_, number) = harness.order(&installed, None, &[]);
    let (_, descriptors) = harness.spawned(number);
    ready(&descriptors);
    let home = harness.path("state/home/orphan");
    let _dir = harness.stop();
    assert_eq!(processes_of(&home), Vec::<String>::new());
}

#[test]
fn a_second_hello_gets_what_runs_and_the_exits_nobody_acknowledged() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("orphan.sh", ESCAPEE, "");
    let (worker, number) = harness.order(&installed, None, &[]);
    let (_, descriptors) = harness.spawned(number);
    ready(&descriptors);
    harness.send(&Request::Hello(Hello { min: 1, max: 9 }), Vec::new());
    let held = |_, reply: &Reply| matches!(reply, Reply::Held(held) if held.spawned.worker.0 == worker);
    let (Reply::Held(first), ends) = harness.wait(held) else { panic!() };
    assert!(first.spawned.pid > 0 && ends.len() == descriptors.len());
    harness.send(&Request::Kill(WorkerId(worker)), Vec::new());
    let fits = |_, reply: &Reply| matches!(reply, Reply::Exited(exited) if exited.worker.0 == worker);
    harness.wait(fits);
    let number = harness.send(&Request::Hello(Hello { min: 1, max: 3 }), Vec::new());
    let (Reply::Welcome(welcome), _) = harness.answer(number) else { panic!() };
    assert_eq!(welcome.next_worker, WorkerId(worker + 1));
    let (Reply::Held(ended), _) = harness.wait(held) else { panic!() };
    assert_eq!(ended.spawned.pid, 0);
    let (Reply::Exited(exited), _) = harness.wait(fits) else { panic!() };
    assert!(exited.late.is_some());
    harness.send(&Request::Acknowledge(WorkerId(worker)), Vec::new());
    let number = harness.send(&Request::Remove(FunctionName::new("orphan").unwrap()), Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Done);
    let number = harness.send(&Request::Hello(Hello { min: PROTOCOL_MAX + 1, max: PROTOCOL_MAX + 2 }), Vec::new());
    assert!(matches!(harness.answer(number).0, Reply::Failed(text) if text.contains("protocol")));
}

#[test]
fn without_root_a_namespace_holds_the_tree() {
    if !common::root() {
        return;
    }
    let mut harness = Harness::with(&Options { uid: Some(12_345), best_effort: true, ..Options::default() });
    assert_ne!(harness.welcome.containment, Containment::Cgroup);
    assert_eq!(harness.welcome.layout, "none");
    println!("containment {:?}", harness.welcome.containment);
    let installed = harness.install(
        "plain.sh",
        "id -u; cat; echo r >$FND_RESULT; echo e >/dev/stderr; exit 4\n",
        "asked_limits=memory,pids",
    );
    assert!(installed.warnings.len() == 2 && installed.uid == 12_345);
    let run = harness.run(&installed, Some(b"in\n"), &[]);
    assert_eq!(run.exited.status, ExitStatus::Code(4));
    assert_eq!((run.stdout.as_str(), run.result.as_str()), ("12345\nin\n", "r\n"));
    let signal = harness.install("signal.sh", "kill -USR1 $$; sleep 1\n", "");
    assert_eq!(harness.run(&signal, None, &[]).exited.status, ExitStatus::Signal(10));
    let background = harness.install("left.sh", "setsid sleep 1000 >/dev/null 2>&1 &\nexit 0\n", "");
    assert!(harness.run(&background, None, &[]).exited.stragglers);
    assert_eq!(processes_of(&harness.path("state/home/left")), Vec::<String>::new());
    let escapee = harness.install("escapee.sh", ESCAPEE, "");
    let (worker, number) = harness.order(&escapee, None, &[]);
    let (spawned, descriptors) = harness.spawned(number);
    assert!(!spawned.kill);
    ready(&descriptors);
    harness.send(&Request::Term(WorkerId(worker)), Vec::new());
    harness.send(&Request::Kill(WorkerId(worker)), Vec::new());
    harness.exited(worker);
    let home = harness.path("state/home/escapee");
    assert_eq!(processes_of(&home), Vec::<String>::new());
    // Neither does a killed spawner leave anything.
    let (_, number) = harness.order(&escapee, None, &[]);
    let (_, descriptors) = harness.spawned(number);
    ready(&descriptors);
    harness.child.kill().unwrap();
    harness.child.wait().unwrap();
    until("the inits ended", || processes_of(&home).is_empty());
}

#[test]
fn without_best_effort_a_limit_that_was_asked_for_refuses() {
    if !common::root() {
        return;
    }
    let mut harness = Harness::with(&Options { uid: Some(12_346), ..Options::default() });
    harness.write("a.sh", ":");
    harness.write("a.toml", "asked_limits=memory");
    let text = harness.refusal("a.sh", Some("a.toml"));
    assert!(text.contains("`memory` can't be enforced here"), "{text}");
    harness.write("a.toml", "");
    assert!(matches!(harness.try_install("a.sh", Some("a.toml")), Outcome::Installed(_)));
}

#[test]
fn a_stop_terminates_and_then_kills_and_removes_the_groups() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::with(&Options { listen: true, ..Options::default() });
    // The grace of all is the longest one; this one needs some of it.
    let polite = harness.install("polite.sh", "trap 'exit 7' TERM; echo x; while :; do sleep 0.01; done", "grace=5000");
    let deaf = harness.install("deaf.sh", ESCAPEE, "");
    let mut ends = Vec::new();
    for installed in [&polite, &deaf] {
        let (_, number) = harness.order(installed, None, &[]);
        let (_, descriptors) = harness.spawned(number);
        ready(&descriptors);
        ends.push(descriptors);
    }
    // One peer at a time: the second is closed at once.
    let second = common::connect(&harness.path("spawner.sock"));
    assert_eq!(rustix::io::read(&second, &mut [0; 1]).unwrap(), 0);
    let pid = rustix::process::Pid::from_child(&harness.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(harness.child.wait().unwrap().success());
    // fnd, which is connected, is told of no end by a stop; the next one reads it, with the cause.
    let kept = std::fs::read(harness.path("state/spawner/exits")).unwrap();
    let end = |kept: StoredExit| (kept.exited.status, kept.held.termed.map(|(_, cause)| cause));
    let kept: Vec<_> = Vec::<StoredExit>::from_wire(&kept).unwrap().into_iter().map(end).collect();
    let stopped = Some(TermCause::Stopped);
    let expected = [(ExitStatus::Code(7), stopped), (ExitStatus::Signal(9), stopped)];
    assert_eq!(kept, expected, "the second one after the grace");
    assert!(!std::path::Path::new(&format!("/sys/fs/cgroup/unified/fnd-{}", harness.child.id())).exists());
}

#[test]
fn an_fnd_that_ended_with_much_unread_makes_way_for_the_next() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::with(&Options { listen: true, ..Options::default() });
    let pid = rustix::process::Pid::from_child(&harness.child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    for _ in 0..200 {
        harness.send(&Request::Term(WorkerId(99)), Vec::new());
    }
    // The old connection ends and the next one waits, before the spawner sees either.
    harness.reconnect();
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let number = harness.send(&Request::Hello(Hello { min: 1, max: 9 }), Vec::new());
    assert!(matches!(harness.answer(number).0, Reply::Welcome(_)));
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(harness.child.wait().unwrap().success());
}
