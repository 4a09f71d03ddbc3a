//! Everything that can hold up the spawner, and every queue, has a bound; other work continues meanwhile.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, privileged, until};
use fnd_wire::frame::{ExitStatus, Install, Reply, Request, decode};
use fnd_wire::ids::FunctionName;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;

/// Returns the children of the spawner with matching names. The judge is executed by a descriptor; its name is the
/// number.
fn children(harness: &Harness, wanted: impl Fn(&str) -> bool) -> Vec<Pid> {
    let parent = harness.child.id();
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    let has_name = |pid: &&str| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| wanted(comm.trim()));
    let numbers = children.split_whitespace().filter(has_name).map(|pid| pid.parse().unwrap());
    numbers.map(|pid| Pid::from_raw(pid).unwrap()).collect()
}

fn launchers(harness: &Harness) -> Vec<Pid> {
    children(harness, |name| name == "fnd-launcher")
}

#[test]
fn a_launcher_that_is_silent_is_given_up_and_others_go_on() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let held = harness.install("held.sh", "echo held", "");
    assert_eq!(harness.run(&held, None, &[]).stdout, "held\n");
    let launcher = launchers(&harness);
    assert_eq!(launcher.len(), 1);
    kill_process(launcher[0], Signal::STOP).unwrap();
    let (_, first) = harness.order(&held, None, &[]);
    let (_, second) = harness.order(&held, None, &[]);
    // Meanwhile other functions are installed and run.
    let other = harness.install("other.sh", "echo other", "");
    assert_eq!(harness.run(&other, None, &[]).stdout, "other\n");
    assert!(launchers(&harness).contains(&launcher[0]), "it is given up too early");
    for number in [first, second] {
        // The node is the reason at first, so that the claim of durable work goes back.
        let Reply::NodeCannotStart(failed) = harness.answer(number).0 else { panic!("it ran") };
        assert!(failed.message.contains("launcher did nothing"), "{}", failed.message);
    }
    assert!(!launchers(&harness).contains(&launcher[0]));
    // The next start gets a new launcher.
    let run = harness.run(&held, None, &[]);
    assert_eq!((run.exited.status, run.stdout.as_str()), (ExitStatus::Code(0), "held\n"));
}

#[test]
fn more_files_to_read_than_there_is_room_for_are_refused() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    harness.install("held.sh", ":", "");
    let judge = children(&harness, |name| !name.starts_with("fnd-"));
    assert_eq!(judge.len(), 1);
    kill_process(judge[0], Signal::STOP).unwrap();
    let install = Install {
        directory: 0,
        function: FunctionName::new("held").unwrap(),
        source: "held.sh".to_owned(),
        sidecar: Some("held.toml".to_owned()),
        directory_form: false,
    };
    // The judge is silent, so nearly all requests wait. After 10 s it would be killed, and the first request answered.
    let mut sent = 0;
    let refused = loop {
        for _ in 0..64 {
            harness.send(&Request::Install(install.clone()), Vec::new());
            sent += 1;
        }
        assert!(sent < 400_000, "nothing bounds what waits");
        let refused = waiting_replies(&mut harness).into_iter().find_map(|reply| match reply {
            Reply::Refused(refused) if refused.problems[0].message.contains("too many") => Some(refused),
            _ => None,
        });
        if let Some(refused) = refused {
            break refused;
        }
    };
    assert!(sent > 40_000, "refused after {sent}");
    let problem = &refused.problems[0];
    assert_eq!((refused.function.as_str(), refused.problems.len()), ("held", 1));
    assert_eq!(
        (problem.message.as_str(), problem.help.as_str()),
        ("too many files wait to be read", "reload fnd later")
    );
    let number = harness.send(&Request::Reload, Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Failed("too many files wait to be read".to_owned()));
    // The spawner continues with other work.
    harness.is_served();
    for pid in judge {
        let _ = kill_process(pid, Signal::CONT); // the launcher may have been killed meanwhile
    }
    until("those that wait are read", || {
        waiting_replies(&mut harness).iter().any(|reply| matches!(reply, Reply::Installed(_)))
    });
}

/// Returns the replies that have come.
fn waiting_replies(harness: &mut Harness) -> Vec<Reply> {
    let socket = harness.socket.as_mut().unwrap();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut replies = Vec::new();
    while poll(&mut [PollFd::new(&*socket, PollFlags::IN)], Some(&now)).unwrap() > 0 {
        let frame = socket.receive().expect("the spawner goes on").unwrap();
        replies.push(decode(&frame.bytes).unwrap().1);
    }
    replies
}
