//! A machine that has run out of a resource, an fnd that does nothing, and the data that is kept for the next fnd.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;
use common::{Harness, Options, privileged, text, until};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{
    AdoptionRecord, ExitStatus, Hello, PROTOCOL_0_1, PROTOCOL_MAX, PROTOCOL_MIN, Reply, Request, Spawn,
};
use fnd_wire::ids::{InvocationId, WorkerId};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::fs;
use std::path::PathBuf;

fn descriptors(harness: &Harness) -> u64 {
    fs::read_dir(format!("/proc/{}/fd", harness.child.id())).unwrap().count() as u64
}

fn allow(harness: &Harness, current: u64) {
    let pid = Pid::from_raw(harness.child.id().cast_signed()).unwrap();
    let limit = Rlimit { current: Some(current), maximum: Some(4096) };
    prlimit(Some(pid), Resource::Nofile, limit).unwrap();
}

/// Waits for a file, so that the test decides when it ends.
const WAITS: &str = "echo begun; cat; while [ ! -e \"$HOME/go\" ]; do sleep 0.02; done\n";

#[test]
fn a_start_without_descriptors_is_the_nodes_fault_and_is_whole_or_not_at_all() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("hello.sh", WAITS, "pids=4096\n");
    let home = harness.path("state/home/hello");
    // With room for one more descriptor each time, so that each start fails at another step.
    let (mut started, mut refused) = (Vec::new(), 0);
    for room in 0..60 {
        allow(&harness, descriptors(&harness) + room);
        let (worker, number) = harness.order(&installed, Some(b"payload\n"), &[]);
        match harness.answer(number) {
            (Reply::NodeCannotStart(failed), _) => {
                assert_eq!(failed.worker.0, worker);
                refused += 1;
            }
            (Reply::Spawned(spawned), descriptors) => {
                assert!(spawned.stdout && spawned.stderr && spawned.result && spawned.kill, "room for {room}");
                started.push((worker, descriptors));
            }
            (other, _) => panic!("room for {room}: {other:?}"),
        }
    }
    assert!(refused > 5 && started.len() > 5, "{refused} {}", started.len());
    allow(&harness, 4096);
    fs::write(home.join("go"), "").unwrap();
    for (worker, mut descriptors) in started {
        assert_eq!(text(descriptors.pop_front().unwrap()), "begun\npayload\n");
        assert_eq!(harness.exited(worker).status, ExitStatus::Code(0));
    }
    let run = harness.run(&installed, None, &[]);
    assert_eq!((run.exited.status, run.stdout.as_str()), (ExitStatus::Code(0), "begun\n"));
    // Failed starts leave nothing.
    let count = |harness: &Harness| fs::read_dir(harness.path("state/tmp/hello")).map_or(0, Iterator::count);
    assert!(count(&harness) > 0);
    until("no descriptor of a start is left", || descriptors(&harness) < 30);
    until("no cgroup of a start is left", || leaves(&harness).is_empty());
}

/// A cgroup with a limit on processes, like that of a machine or a container.
struct Processes(PathBuf);

impl Processes {
    /// Moves the spawner into it; none if cgroup version 1 has no such controller.
    fn of(harness: &Harness) -> Option<Self> {
        let group = PathBuf::from(format!("/sys/fs/cgroup/pids/fnd-test-{}", harness.child.id()));
        fs::create_dir(&group).ok()?;
        let group = Self(group);
        fs::write(group.0.join("cgroup.procs"), harness.child.id().to_string()).unwrap();
        Some(group)
    }

    fn allow(&self, most: &str) {
        fs::write(self.0.join("pids.max"), most).unwrap();
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        // Processes of a failed test may be in it.
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write("/sys/fs/cgroup/pids/cgroup.procs", pid);
        }
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_start_without_processes_is_the_nodes_fault() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("hello.sh", "echo hello\n", "");
    let Some(processes) = Processes::of(&harness) else {
        println!("skipped: no controller of processes in cgroup version 1");
        return;
    };
    processes.allow("1");
    let (worker, number) = harness.order(&installed, None, &[]);
    match harness.answer(number).0 {
        Reply::NodeCannotStart(failed) => assert_eq!(failed.worker.0, worker),
        other => panic!("{other:?}"),
    }
    processes.allow("max");
    let run = harness.run(&installed, None, &[]);
    assert_eq!((run.exited.status, run.stdout.as_str()), (ExitStatus::Code(0), "hello\n"));
}

#[test]
fn a_function_at_its_own_limit_of_processes_is_no_shortage() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("hello.sh", WAITS, "pids=3\n");
    let mut workers = Vec::new();
    let failed = loop {
        let (worker, number) = harness.order(&installed, None, &[]);
        match harness.answer(number) {
            (Reply::Spawned(_), descriptors) => workers.push((worker, descriptors)),
            (Reply::SpawnFailed(failed), _) => break failed,
            (other, _) => panic!("{other:?}"),
        }
        assert!(workers.len() < 10, "the limit holds nobody back");
    };
    assert!(failed.message.contains("temporarily unavailable"), "{}", failed.message);
    fs::write(harness.path("state/home/hello/go"), "").unwrap();
    for (worker, _) in &workers {
        harness.exited(*worker);
    }
}

#[test]
fn an_fnd_of_0_1_is_welcomed_and_starts_functions() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::with(&Options { listen: true, ..Options::default() });
    let installed = harness.install("hello.sh", "exit 3\n", "");
    harness.reconnect();
    let number = harness.send(&Request::Hello(Hello { min: 1, max: PROTOCOL_0_1 }), Vec::new());
    let (Reply::Welcome(welcome), _) = harness.answer(number) else { panic!("no welcome") };
    assert!(welcome.is_of_0_1());
    assert!(matches!(harness.answer(number).0, Reply::Sockets(_)));
    assert_eq!(harness.run(&installed, None, &[]).exited.status, ExitStatus::Code(3));
    end(&mut harness);
}

#[test]
fn what_has_used_up_its_time_ends_also_where_fnd_does_nothing() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("hello.sh", "trap '' TERM; while :; do sleep 0.05; done\n", "grace=300\n");
    let spawn = Spawn {
        worker: WorkerId(1),
        function: installed.id,
        version: installed.version,
        invocation: InvocationId(1),
        environment: Vec::new(),
        input: false,
        previous: false,
        lasts_ms: 200,
        record: Bytes::default(),
    };
    harness.send(&Request::Spawn(spawn), Vec::new());
    let exited = harness.exited(1);
    assert_eq!(exited.status, ExitStatus::Signal(9));
    let (ago, lasted) = exited.late.expect("that its time was up is said");
    assert_eq!(ago, 0);
    assert!(lasted >= 500_000, "before its time and grace were over: {lasted}");
}

#[test]
fn an_adoption_record_of_any_length_is_kept_and_a_ping_is_answered() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::with(&Options { listen: true, ..Options::default() });
    let installed = harness.install("hello.sh", WAITS, "");
    let (worker, number) = harness.order(&installed, None, &[]);
    harness.spawned(number);
    let text: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let record = AdoptionRecord { worker: WorkerId(worker), record: Bytes(text.clone()) };
    let number = harness.send(&Request::AdoptionRecord(record), Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Done);
    let number = harness.send(&Request::Ping, Vec::new());
    assert_eq!(harness.answer(number).0, Reply::Done);
    reconnect(&mut harness, PROTOCOL_MAX);
    let (Reply::Held(held), _) = harness.wait(|_, reply| matches!(reply, Reply::Held(_))) else { unreachable!() };
    assert!(held.record.0 == text, "{} bytes of {}", held.record.0.len(), text.len());
    fs::write(harness.path("state/home/hello/go"), "").unwrap();
    harness.exited(worker);
    end(&mut harness);
}

/// Returns the existing cgroups of attempts.
fn leaves(harness: &Harness) -> Vec<String> {
    let trees = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let groups = trees.map(|tree| format!("{tree}/fnd-{}/f/hello", harness.child.id()));
    let entries = groups.iter().flat_map(fs::read_dir).flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('w')).collect()
}

#[test]
fn a_cgroup_is_removed_though_there_were_no_descriptors_when_its_run_ended() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    // The remaining processes must be killed before the cgroup can be removed, which needs a descriptor.
    let script = "sleep 1000 >/dev/null 2>&1 & while [ ! -e \"$HOME/go\" ]; do :; done\n";
    let installed = harness.install("hello.sh", script, "");
    let (worker, number) = harness.order(&installed, None, &[]);
    drop(harness.spawned(number));
    assert_eq!(leaves(&harness), [format!("w{worker}")]);
    // Descriptors that are closed meanwhile cannot be opened again.
    allow(&harness, 3);
    fs::write(harness.path("state/home/hello/go"), "").unwrap();
    let exited = harness.exited(worker);
    assert_eq!((exited.status, exited.stragglers), (ExitStatus::Code(0), true));
    until("its cgroup is gone, with what was in it", || leaves(&harness).is_empty());
    allow(&harness, 4096);
    assert_eq!(harness.run(&installed, None, &[]).exited.status, ExitStatus::Code(0));
}

fn reconnect(harness: &mut Harness, protocol: u16) {
    harness.reconnect();
    let number = harness.send(&Request::Hello(Hello { min: PROTOCOL_MIN, max: protocol }), Vec::new());
    let (Reply::Welcome(welcome), _) = harness.answer(number) else { panic!("no welcome") };
    assert_eq!(welcome.protocol, protocol);
}

/// A spawner that listens does not end with its connection.
fn end(harness: &mut Harness) {
    rustix::process::kill_process(
        Pid::from_raw(harness.child.id().cast_signed()).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
}
