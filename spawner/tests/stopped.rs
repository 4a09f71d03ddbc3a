//! Starts that are held up between the clone and the execution of the program: they end, and do not hold up anything
//! else.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, Outcome, privileged, processes_of, until};
use fnd_wire::frame::{ExitStatus, Hello, Installed, PROTOCOL_MAX, PROTOCOL_MIN, Reply, Request};
use fnd_wire::ids::WorkerId;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

fn program(harness: &mut Harness, name: &str, from: &Path) -> Installed {
    harness.write(name, "");
    harness.write(&format!("{name}.toml"), "exec=1");
    let path = harness.path("functions").join(name);
    fs::copy(from, &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    match harness.try_install(name, Some(&format!("{name}.toml"))) {
        Outcome::Installed(installed) => installed,
        Outcome::Refused(problems, _) => panic!("{problems:?}"),
    }
}

/// Holds up every start of a program: opening it waits for the end of a lease, 45 s at most.
#[expect(unsafe_code, reason = "leases have no wrapper")]
fn hold_up(harness: &Harness, installed: &Installed, name: &str) -> File {
    let path = harness.path(&format!("state/versions/{name}/{}/code/{name}", installed.version.hex()));
    let file = File::options().write(true).open(path).unwrap();
    // SAFETY: numbers. SIGURG is ignored by default.
    let result = unsafe {
        libc::fcntl(file.as_raw_fd(), 10 /* F_SETSIG */, libc::SIGURG)
            | libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    file
}

/// Orders a start that is held up, and stops the child (SIGSTOP), as another process of the same user can.
fn stuck(harness: &mut Harness, installed: &Installed) -> (u64, u32) {
    let (worker, number) = harness.order(installed, None, &[]);
    let processes = leaf(harness, installed, worker).join("cgroup.procs");
    let mut pid = None;
    until("the start has begun", || {
        pid = fs::read_to_string(&processes).ok().and_then(|text| text.trim().parse().ok());
        pid.is_some()
    });
    kill(Pid::from_raw(pid.unwrap()), Signal::SIGSTOP).unwrap();
    (worker, number)
}

/// Stops a spawner that listens, and waits for its end.
fn stop(harness: &mut Harness) {
    kill(Pid::from_raw(harness.child.id().cast_signed()), Signal::SIGTERM).unwrap();
    until("the spawner ended", || harness.child.try_wait().unwrap().is_some());
    assert!(harness.child.wait().unwrap().success());
}

fn group(harness: &Harness, installed: &Installed) -> PathBuf {
    let base = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(|tree| format!("{tree}/fnd-{}", harness.child.id()));
    let base = base.into_iter().find(|base| Path::new(base).exists()).unwrap();
    Path::new(&base).join("f").join(installed.function.file_form())
}

fn leaf(harness: &Harness, installed: &Installed, worker: u64) -> PathBuf {
    group(harness, installed).join(format!("w{worker}"))
}

#[test]
fn a_start_that_is_held_up_can_be_killed_and_terminated() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = program(&mut harness, "held", Path::new("/bin/true"));
    let lease = hold_up(&harness, &installed, "held");
    for request in [Request::Kill, Request::Term] {
        let (worker, number) = stuck(&mut harness, &installed);
        harness.send(&request(WorkerId(worker)), Vec::new());
        harness.spawned(number);
        assert_eq!(harness.exited(worker).status, ExitStatus::Signal(9));
        let leaf = leaf(&harness, &installed, worker);
        until("its cgroup is gone", || !leaf.exists());
    }
    drop(lease);
    assert_eq!(harness.run(&installed, None, &[]).exited.status, ExitStatus::Code(0), "the launcher is free again");
}

#[test]
fn a_start_that_is_held_up_fails_in_time_and_others_of_the_function_follow() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = program(&mut harness, "held", Path::new("/bin/true"));
    let lease = hold_up(&harness, &installed, "held");
    let (worker, number) = stuck(&mut harness, &installed);
    let (behind, second) = harness.order(&installed, None, &[]);
    let Reply::SpawnFailed(failed) = harness.answer(number).0 else { panic!("it ran") };
    assert!(failed.message.contains("within 4 s"), "{}", failed.message);
    drop(lease);
    assert_eq!(harness.finish(behind, second).exited.status, ExitStatus::Code(0));
    let leaf = leaf(&harness, &installed, worker);
    until("its cgroup is gone", || !leaf.exists());
}

#[test]
fn the_next_handshake_succeeds_though_a_start_is_held_up() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::with(&Options { listen: true, ..Options::default() });
    let installed = program(&mut harness, "held", Path::new("/bin/true"));
    let _lease = hold_up(&harness, &installed, "held");
    let (worker, _) = stuck(&mut harness, &installed);
    harness.reconnect();
    let number = harness.send(&Request::Hello(Hello { min: PROTOCOL_MIN, max: PROTOCOL_MAX }), Vec::new());
    assert!(matches!(harness.answer(number).0, Reply::Welcome(_)));
    // All reports of the handshake come before this answer.
    let number = harness.send(&Request::Reload, Vec::new());
    let answer =
        |harness: &mut Harness| harness.wait(|found, reply| found == number || matches!(reply, Reply::Held(_))).0;
    assert!(matches!(answer(&mut harness), Reply::Settings(_)), "the start failed");
    let leaf = leaf(&harness, &installed, worker);
    until("nothing of it is left", || !leaf.exists());
    stop(&mut harness);
}

#[test]
fn the_spawner_stops_though_a_start_is_held_up() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::with(&Options { listen: true, ..Options::default() });
    let installed = program(&mut harness, "held", Path::new("/bin/true"));
    let _lease = hold_up(&harness, &installed, "held");
    stuck(&mut harness, &installed);
    stop(&mut harness);
}

#[test]
fn a_killed_spawner_leaves_no_start_that_was_held_up() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = program(&mut harness, "held", Path::new("/bin/true"));
    let _lease = hold_up(&harness, &installed, "held");
    let (worker, _) = stuck(&mut harness, &installed);
    let group = group(&harness, &installed);
    harness.child.kill().unwrap();
    harness.child.wait().unwrap();
    let empty = |dir: PathBuf| fs::read_to_string(dir.join("cgroup.procs")).map_or(true, |text| text.is_empty());
    until("start and launcher are gone", || empty(group.join(format!("w{worker}"))) && empty(group.join("l")));
    // The next spawner removes the groups.
    Harness::start().stop();
}

/// The order waits for the launcher when the spawner is killed; with cgroups, and with an init where there are none.
#[test]
fn a_killed_spawner_leaves_no_start_that_was_ordered() {
    if !privileged() {
        return;
    }
    for uid in [None, Some(12_357)] {
        let mut harness = Harness::with(&Options { uid, best_effort: true, ..Options::default() });
        let installed = harness.install("late.sh", "[ -z \"$DATA\" ] || exec sleep 86399\n", "");
        assert_eq!(harness.run(&installed, None, &[]).exited.status, ExitStatus::Code(0));
        let spawner = harness.child.id();
        let children = fs::read_to_string(format!("/proc/{spawner}/task/{spawner}/children")).unwrap();
        let name = |pid: &i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let mut pids = children.split_whitespace().map(|pid| pid.parse::<i32>().unwrap());
        let launcher = Pid::from_raw(pids.find(|pid| name(pid) == "fnd-launcher\n").unwrap());
        kill(launcher, Signal::SIGSTOP).unwrap();
        harness.order(&installed, None, &[("DATA", "x")]);
        // The answer comes after the order has been sent.
        let number = harness.send(&Request::Ping, Vec::new());
        assert_eq!(harness.answer(number).0, Reply::Done);
        harness.child.kill().unwrap();
        harness.child.wait().unwrap();
        kill(launcher, Signal::SIGCONT).unwrap();
        until("no process is left", || processes_of(harness.dir.path()).is_empty());
    }
    // The next spawner removes the groups.
    Harness::start().stop();
}

#[test]
fn a_function_that_stops_its_own_starts_loses_only_those() {
    if !privileged() {
        return;
    }
    let starts: u32 = std::env::var("FND_STARTS").map_or(20, |count| count.parse().unwrap());
    let mut harness = Harness::with(&Options { listen: true, ..Options::default() });
    let exe = std::env::current_exe().unwrap();
    let stopper = exe.parent().unwrap().parent().unwrap().join("examples/stopper");
    // A copy, since the function may have no access to the build directory.
    let copy = harness.path("stopper");
    fs::copy(stopper, &copy).unwrap();
    let script = format!("[ \"$DATA\" != stop ] || exec {}\n", copy.display());
    let installed = harness.install("attacker.sh", &script, "");
    let (attacker, number) = harness.order(&installed, None, &[("DATA", "stop")]);
    let (_, mut descriptors) = harness.spawned(number);
    let length = rustix::io::read(&descriptors[0], &mut [0; 8]).unwrap();
    assert!(length > 0, "{}", common::text(descriptors.remove(1).unwrap()));
    let mut failed = 0;
    let mut stopped = 0;
    for _ in 0..starts {
        let (worker, number) = harness.order(&installed, None, &[]);
        if matches!(harness.answer(number).0, Reply::SpawnFailed(_)) {
            failed += 1;
            continue;
        }
        // Running attempts may be stopped (SIGSTOP), too: fnd kills them at their deadline.
        harness.send(&Request::Kill(WorkerId(worker)), Vec::new());
        stopped += u32::from(harness.exited(worker).status == ExitStatus::Signal(9));
    }
    println!("{starts} starts: {failed} held up for good, {stopped} killed while stopped or running");
    // The handshake of a new fnd succeeds beside it.
    harness.reconnect();
    let number = harness.send(&Request::Hello(Hello { min: PROTOCOL_MIN, max: PROTOCOL_MAX }), Vec::new());
    assert!(matches!(harness.answer(number).0, Reply::Welcome(_)));
    harness.send(&Request::Kill(WorkerId(attacker)), Vec::new());
    assert_eq!(harness.exited(attacker).status, ExitStatus::Signal(9));
    let group = group(&harness, &installed);
    let leaves = || fs::read_dir(&group).into_iter().flatten().flatten().map(|entry| entry.file_name());
    until("no cgroup of a start is left", || leaves().all(|name| !name.to_string_lossy().starts_with('w')));
    let processes: Vec<String> = processes_of(&harness.path("state/home/attacker"));
    assert_eq!(processes, Vec::<String>::new());
    stop(&mut harness);
}
