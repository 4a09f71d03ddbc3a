//! Workers of handlers: descriptor 3, the process that gets its other end, and the shim.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, Outcome, privileged, root};
use fnd_wire::frame::{Containment, ExitStatus, Hello, Reply, Request};
use std::fs::{self, File, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

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
    let fits = |held: &fnd_wire::frame::Held| held.spawned.worker.0 == worker;
    harness.send(&Request::Hello(Hello { min: 1, max: 2 }), Vec::new());
    let with = |_, reply: &Reply| matches!(reply, Reply::HeldWithChannel(held) if fits(held));
    let (Reply::HeldWithChannel(held), mut ends) = harness.wait(with) else { unreachable!() };
    assert_eq!((held.spawned.pid, held.spawned.kill, ends.len()), (spawned.pid, cgroup, 4 + usize::from(cgroup)));
    let channel = ends.pop_back().unwrap();
    assert_eq!(talk(&channel, "two\n"), "got two\n");
    // An older fnd gets the reply that it knows.
    harness.send(&Request::Hello(Hello { min: 1, max: 1 }), Vec::new());
    harness.wait(|_, reply| matches!(reply, Reply::Held(held) if fits(held)));
    harness.send(&Request::Hello(Hello { min: 1, max: 2 }), Vec::new());
    harness.wait(with);
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
