//! The worker of a function made for AWS Lambda as a process: how it ends, and what it says to fnd before.
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "a panic is how a test says no"
)]

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Waits as long as a test runs.
const FOR_EVER: &str = "exec sleep 1000";

/// Files of a function below its directory, with their scripts.
type Files<'a> = &'a [(&'a str, &'a str)];

fn write(code: &Path, files: Files<'_>) {
    fs::create_dir(code.join("extensions")).unwrap();
    for (name, script) in files {
        let path = code.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Runs a worker; returns how it ended, and its messages as text. `closes`: fnd closes its end at once.
fn run(files: Files<'_>, closes: bool) -> (ExitStatus, String) {
    let code = tempfile::tempdir().unwrap();
    write(code.path(), files);
    let (mut fnd, theirs) = UnixStream::pair().unwrap();
    fnd.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // The shell moves the socket to the descriptor of a worker.
    let mut worker = Command::new("/bin/sh")
        .args(["-c", "exec \"$0\" --lambda \"$1\" 1 3<&0 0</dev/null"])
        .arg(env!("CARGO_BIN_EXE_fnd-helper"))
        .arg(code.path().join("bootstrap"))
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
        .spawn()
        .unwrap();
    let mut messages = Vec::new();
    if closes {
        drop(fnd);
    } else {
        fnd.read_to_end(&mut messages).unwrap();
    }
    let status = worker.wait().unwrap();
    (status, String::from_utf8_lossy(&messages).into_owned())
}

#[test]
fn a_worker_ends_as_its_bootstrap_ends() {
    for (files, code, signal, message) in [
        (&[("bootstrap", "exit 3")][..], Some(3), None, "(exit code 3)"),
        (&[("bootstrap", "exit 0")], Some(1), None, "(exit code 0)"),
        (&[("bootstrap", "kill -9 $$")], None, Some(9), "(signal 9)"),
        (&[("bootstrap", "kill -15 $$")], None, Some(15), "(signal 15)"),
        (
            &[("bootstrap", "test ! -e /proc/self/fd/3 && exit 4")],
            Some(4),
            None,
            "(exit code 4)",
        ),
        (
            &[("bootstrap", "test $_HANDLER = bootstrap && exit 4")],
            Some(4),
            None,
            "(exit code 4)",
        ),
        (
            &[("bootstrap", FOR_EVER), ("extensions/x", "exit 7")],
            Some(1),
            None,
            "the extension `x` ended (exit code 7)",
        ),
        (&[], Some(1), None, "`bootstrap` cannot be started"),
    ] {
        let (status, found) = run(files, false);
        assert!(found.contains(message), "{files:?}: {found:?}");
        assert_eq!((status.code(), status.signal()), (code, signal), "{files:?}");
    }
}

#[test]
fn a_worker_ends_with_fnd() {
    let (status, _) = run(&[("bootstrap", FOR_EVER)], true);
    assert_eq!(status.code(), Some(0));
}
