//! Functions share no System V memory and no keys, and have a limit on memory together.
#![allow(clippy::allow_attributes, clippy::unwrap_used, reason = "a panic is how a test says no")]

mod common;

use common::{Harness, Options, privileged};
use std::fs;
use std::path::Path;

/// Runs a line of bash as two functions; returns the output of each.
fn both(harness: &mut Harness, script: &str) -> [String; 2] {
    ["one.sh", "two.sh"].map(|name| {
        let installed = harness.install(name, script, "");
        let run = harness.run(&installed, None, &[]);
        assert_eq!(run.stderr, "");
        run.stdout
    })
}

#[test]
fn each_function_has_system_v_memory_of_its_own_that_goes_with_its_launcher() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::start();
    let own = fs::read_link("/proc/self/ns/ipc").unwrap();
    assert!(harness.welcome.missing.iter().all(|(what, _)| what != "ipc"), "{:?}", harness.welcome.missing);
    let [one, two] = both(&mut harness, "readlink /proc/self/ns/ipc\n");
    assert!(one != two && [&one, &two].iter().all(|found| found.trim() != own.to_str().unwrap()), "{one} {two}");
    // Another attempt of the same version sees the memory that the first one left.
    let installed = harness.install("kept.sh", "ipcmk -M 4096 >/dev/null; ipcs -m | grep -c ^0x\n", "");
    assert_eq!([1, 2].map(|_| harness.run(&installed, None, &[]).stdout), ["1\n", "2\n"]);
    let machine = fs::read_to_string("/proc/sysvipc/shm").unwrap();
    assert!(
        !machine.lines().any(|line| line.split_whitespace().nth(7) == Some(&installed.uid.to_string())),
        "{machine}"
    );
}

#[test]
fn each_function_has_a_session_keyring_of_its_own() {
    if !privileged() || !Path::new("/proc/keys").exists() {
        return;
    }
    let mut harness = Harness::start();
    let [one, two] = both(&mut harness, "grep -w _ses /proc/keys | cut -d ' ' -f 1\n");
    assert!(one != two && [&one, &two].iter().all(|found| found.lines().count() == 1), "{one:?} {two:?}");
}

#[test]
fn what_all_functions_use_together_has_a_limit() {
    if !privileged() {
        return;
    }
    let mut harness = Harness::with(&Options { config: "memory=1073741824", ..Options::default() });
    let name = format!("fnd-{}", harness.child.id());
    let files = [
        format!("/sys/fs/cgroup/memory/{name}/memory.limit_in_bytes"),
        format!("/sys/fs/cgroup/unified/{name}/f/memory.max"),
        format!("/sys/fs/cgroup/{name}/f/memory.max"),
    ];
    let limit = || files.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap();
    assert_eq!(limit(), "1073741824\n");
    // A reload changes the limit.
    fs::write(harness.path("etc/fnd.toml"), "memory=536870912").unwrap();
    let number = harness.send(&fnd_wire::frame::Request::Reload, Vec::new());
    harness.answer(number);
    assert_eq!(limit(), "536870912\n");
}
