//! Workers of handlers: descriptor 3, the process that gets its other end, and the shim.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, Outcome, privileged, root, until};
use fnd_wire::form::Bytes;
use fnd_wire::frame::{AdoptionRecord, Containment, ExitStatus, Hello, PROTOCOL_MIN, Reply, Request, RetainedWorker};
use fnd_wire::ids::WorkerId;
use std::collections::VecDeque;
use std::fs::{self, File, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Prints its descriptors (4 is the directory that `ls` reads), then answers each line.
const ECHO: &str = "ls /proc/self/fd | tr '\\n' ' ' >&3; readlink /proc/self/fd/3 >&3\n\
    while read -r line <&3; do echo \"got $line\" >&3; done; echo no more\n";

/// Sends a line over a channel, if there is one, and returns the next line of the worker.
fn talk(channel: &OwnedFd, line: &str) -> String {
    let mut stream = File::from(channel.try_clone().unwrap());
    stream.write_all(line.as_bytes()).unwrap();
    let mut answer = String::new();
    // The worker sends one line for each line that it gets.
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

/// Says hello as the next fnd, and returns the report about a worker that has a channel.
fn next_fnd(harness: &mut Harness, worker: u64) -> (RetainedWorker, VecDeque<OwnedFd>) {
    harness.send(&Request::Hello(Hello { min: PROTOCOL_MIN, max: PROTOCOL_MIN }), Vec::new());
    let with = |_, reply: &Reply| matches!(reply, Reply::HeldWithChannel(held) if held.spawned.worker.0 == worker);
    let (Reply::HeldWithChannel(held), ends) = harness.wait(with) else { unreachable!() };
    (held, ends)
}

fn exchanges_over_descriptor_3(harness: &mut Harness) {
    let cgroup = harness.welcome.containment == Containment::Cgroup;
    let installed = harness.install("echo.sh", ECHO, "handler=1");
    let (worker, number) = harness.order(&installed, None, &[]);
    let (Reply::SpawnedWithChannel(spawned), mut ends) = harness.answer(number) else { panic!("no channel") };
    assert_eq!((spawned.kill, ends.len()), (cgroup, 4 + usize::from(cgroup)));
    let channel = ends.pop_back().unwrap();
    let first = talk(&channel, "");
    assert!(first.starts_with("0 1 2 3 4 socket:["), "{first}");
    assert_eq!(talk(&channel, "one\n"), "got one\n");
    // The next fnd gets the same channel.
    drop(channel);
    let (held, mut ends) = next_fnd(harness, worker);
    assert_eq!((held.spawned.pid, held.spawned.kill, ends.len()), (spawned.pid, cgroup, 4 + usize::from(cgroup)));
    let channel = ends.pop_back().unwrap();
    assert_eq!(talk(&channel, "two\n"), "got two\n");
    // All copies of the other end are closed, so the worker sees the end of the channel.
    rustix::net::shutdown(&channel, rustix::net::Shutdown::Write).unwrap();
    assert_eq!(harness.exited(worker).status, ExitStatus::Code(0));
    assert_eq!(common::text(ends.pop_front().unwrap()), "no more\n");
    let script = harness.install("plain.sh", "ls /proc/self/fd | tr '\\n' ' '", "");
    assert_eq!(harness.run(&script, None, &[]).stdout, "0 1 2 3 ", "`ls` opens 3");
}

#[test]
fn a_handler_has_its_channel_at_descriptor_3() {
    if privileged() {
        exchanges_over_descriptor_3(&mut Harness::start());
    }
}

#[test]
fn a_handler_without_cgroups_has_its_channel_at_descriptor_3() {
    if root() {
        let mut harness = Harness::with(&Options { uid: Some(12_347), best_effort: true, ..Options::default() });
        assert_ne!(harness.welcome.containment, Containment::Cgroup);
        exchanges_over_descriptor_3(&mut harness);
    }
}

/// Prints its descriptors, connects, and answers each line.
const CONNECTS: &str = "/usr/bin/python3 -c '\nimport os, socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
    f = s.makefile(\"rw\", buffering=1)\nf.write(\" \".join(os.listdir(\"/proc/self/fd\")) + \"\\n\")\n\
    for line in f: f.write(\"got \" + line)\nprint(\"no more\")' \"$1\"\n";

fn connects(harness: &mut Harness) {
    let installed = harness.install("echo.sh", CONNECTS, "handler=1\nconnects=1");
    let other = harness.install("other.sh", "true", "");
    let (worker, number) = harness.order(&installed, None, &[]);
    let (Reply::SpawnedWithChannel(_), mut ends) = harness.answer(number) else { panic!("no channel") };
    let listener = UnixListener::from(ends.pop_back().unwrap());
    let (socket, _) = listener.accept().unwrap();
    let channel = OwnedFd::from(socket);
    // 3 is the connection, 4 the directory that is read.
    assert_eq!(talk(&channel, ""), "0 1 2 3 4\n");
    assert_eq!(talk(&channel, "one\n"), "got one\n");
    // Only the function and fnd's group reach it.
    let path = harness.path("run/http").join(worker.to_string()).join("http.sock");
    let can = |user: u32| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "test -w \"$0\"", path.to_str().unwrap()]).uid(user).gid(user).status().unwrap().success()
    };
    assert!(!root() || can(installed.uid) && (installed.uid == other.uid || !can(other.uid)));
    // The next fnd gets the connection, and not the socket that listens.
    let record = AdoptionRecord { worker: WorkerId(worker), record: Bytes(b"left".to_vec()) };
    harness.send(&Request::AdoptionRecord(record), vec![channel]);
    drop(listener);
    let (held, mut ends) = next_fnd(harness, worker);
    assert_eq!(held.record.0, b"left");
    let channel = ends.pop_back().unwrap();
    assert_eq!(talk(&channel, "two\n"), "got two\n");
    rustix::net::shutdown(&channel, rustix::net::Shutdown::Write).unwrap();
    assert_eq!(harness.exited(worker).status, ExitStatus::Code(0));
    assert_eq!(common::text(ends.pop_front().unwrap()), "no more\n");
    until("its socket is removed", || !path.parent().unwrap().exists());
}

#[test]
fn a_handler_connects_where_its_command_has_the_socket() {
    if privileged() {
        connects(&mut Harness::start());
    }
}

#[test]
fn a_handler_without_cgroups_connects_where_its_command_has_the_socket() {
    if root() {
        connects(&mut Harness::with(&Options { uid: Some(12_348), best_effort: true, ..Options::default() }));
    }
}

#[test]
fn the_end_of_a_worker_is_the_end_of_its_channel() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let installed = harness.install("short.sh", "echo last words >&3", "handler=1");
    let (worker, number) = harness.order(&installed, None, &[]);
    let (Reply::SpawnedWithChannel(_), mut ends) = harness.answer(number) else { panic!("no channel") };
    assert_eq!(harness.exited(worker).status, ExitStatus::Code(0));
    assert_eq!(common::text(ends.pop_back().unwrap()), "last words\n");
}

#[test]
fn the_shim_is_what_the_interpreter_runs() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let shim = harness.path("shim.sh");
    fs::write(&shim, "echo \"$0 serves $1\" >&3").unwrap();
    let installed = harness.install("f.sh", "echo never", &format!("handler=1\nshim={}", shim.display()));
    let (worker, number) = harness.order(&installed, None, &[]);
    let (Reply::SpawnedWithChannel(_), mut ends) = harness.answer(number) else { panic!("no channel") };
    let code = harness.path(&format!("state/versions/f/{}/code/f.sh", installed.version.hex()));
    let expected = format!("{} serves {}\n", shim.display(), code.display());
    assert_eq!(common::text(ends.pop_back().unwrap()), expected);
    harness.exited(worker);
}

#[test]
fn a_shim_functions_cannot_read_is_refused_with_the_fix() {
    if !root() {
        return;
    }
    let mut harness = Harness::start();
    let dir = harness.path("runtime");
    fs::create_dir(&dir).unwrap();
    let shim = dir.join("shim.sh");
    fs::write(&shim, ":").unwrap();
    harness.write("f.sh", ":");
    let (shown_dir, shown) = (dir.display().to_string(), shim.display().to_string());
    let mut refusal = |shim: &str, modes: (u32, u32)| {
        for (path, mode) in [(dir.as_path(), modes.0), (Path::new(shim), modes.1)] {
            if path.is_absolute() && path.exists() {
                fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            }
        }
        harness.write("f.toml", &format!("handler=1\nshim={shim}"));
        match harness.try_install("f.sh", Some("f.toml")) {
            Outcome::Installed(_) => String::new(),
            Outcome::Refused(problems, _) => {
                problems.iter().map(|p| format!("{}: {} ({})", p.file, p.message, p.help)).collect()
            }
        }
    };
    assert_eq!(refusal(&shown, (0o711, 0o644)), "");
    let closed = |path: &str, bit: &str| {
        format!(
            "{shown}: the shim of runtime `bash` can't be read by functions: they have no access to `{path}` \
             (run `chmod o+{bit} {path}`, or move the runtime to another directory)"
        )
    };
    assert_eq!(refusal(&shown, (0o711, 0o640)), closed(&shown, "r"));
    assert_eq!(refusal(&shown, (0o750, 0o644)), closed(&shown_dir, "x"));
    let unsafe_one = refusal(&shown, (0o711, 0o666));
    assert!(unsafe_one.contains("is not safe: users other than root can write"), "{unsafe_one}");
    assert!(refusal("/nowhere/shim.sh", (0o711, 0o644)).contains("does not exist (reinstall the runtime)"));
    assert!(refusal("shim.sh", (0o711, 0o644)).contains("is not an absolute path"));
}
