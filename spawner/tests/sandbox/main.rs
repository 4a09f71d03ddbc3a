//! The sandbox: attacks from inside, and ordinary work, in each profile. Each test runs functions that print what they
//! got, and compares that with what the profile promises.
//!
//! Files:
//! - `calls`: system calls that are refused, unknown or ordinary
//! - `capabilities`: functions that have some
//! - `cleaner`: what empties the function's directories, and a function that wants to stop it
//! - `closed`: a machine without mount namespaces
//! - `cost`: measures starts (ignored)
//! - `credentials`: secrets and service bindings of functions
//! - `files`: other places, writing to the system, temporary files
//! - `keys`: `read_only`, `read_write`, `hide`, `devices`, `proc`
//! - `memory`: shared memory that runs leave behind
//! - `network`: connections, local sockets
//! - `ordinary`: a spawner that is not root
//! - `processes`: other processes, orphans, starts that somebody wants to stop
//! - `refusals`: what is refused at the installation, and machines that lack layers
//! - `runs`: what the invocations of a function may hold in `TMPDIR`
//! - `work`: programs that have to work in every profile
#![allow(
    clippy::allow_attributes,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test says no, and what is measured is printed"
)]

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod capabilities;
mod cleaner;
mod closed;
mod cost;
mod credentials;
mod files;
mod keys;
mod memory;
mod network;
mod ordinary;
mod processes;
mod refusals;
mod runs;
mod work;

use common::{Harness, Options};
use std::path::Path;

/// The profiles, from the narrowest on.
const PROFILES: [&str; 3] = ["strict", "standard", "off"];

/// Starts a spawner whose directories lie where those of an installed one do: in no place that a profile replaces.
fn start() -> Harness {
    with(&Options::default())
}

fn with(options: &Options) -> Harness {
    let _ = tempfile::env::override_temp_dir(Path::new("/var/lib"));
    Harness::with(options)
}

/// Returns whether this machine can give a layer; what is not there is not tested.
fn can(harness: &Harness, layer: &str) -> bool {
    harness.welcome.missing.iter().all(|(missing, _)| missing != layer)
}

/// Runs a script of bash with these manifest lines; returns what it printed.
fn bash(harness: &mut Harness, name: &str, manifest: &str, script: &str) -> String {
    let installed = harness.install(&format!("{name}.sh"), script, manifest);
    let run = harness.run(&installed, None, &[]);
    run.stdout + &run.stderr
}

/// The manifest lines of a script of Python.
fn python_lines(manifest: &str) -> String {
    format!("interpreters=/usr/bin/python3\n{manifest}")
}

/// Functions that a script of Python begins with: `call` makes a system call, and `say` any other attempt; both print
/// its name and `ok` or the name of the error.
const SAY: &str = r"
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    ctypes.set_errno(0)
    args = [arg if isinstance(arg, bytes) else ctypes.c_long(arg) for arg in args]
    done = libc.syscall(*args)
    print(name, 'ok' if done >= 0 else errno.errorcode[ctypes.get_errno()], flush=True)
    return done
def say(name, body):
    try:
        found = body()
        print(name, 'ok' if found is None else found, flush=True)
    except OSError as error:
        print(name, errno.errorcode[error.errno], flush=True)
";

/// Runs a script of Python with these manifest lines; returns what it printed.
fn python(harness: &mut Harness, name: &str, manifest: &str, script: &str) -> String {
    let installed = harness.install(&format!("{name}.py"), &format!("{SAY}{script}"), &python_lines(manifest));
    let run = harness.run(&installed, None, &[]);
    run.stdout + &run.stderr
}

/// Returns what a script printed after this name; an empty text if it printed nothing after it.
fn said<'a>(output: &'a str, name: &str) -> &'a str {
    let after = |line: &'a str| line.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with(' '));
    let found = output.lines().find_map(after);
    found.unwrap_or_else(|| panic!("it did not say `{name}`:\n{output}")).trim()
}

/// Checks what a script printed after each name.
fn expect(output: &str, profile: &str, expected: &[(&str, &str)]) {
    let wrong: Vec<_> = expected.iter().filter(|(name, value)| said(output, name) != *value).collect();
    assert!(wrong.is_empty(), "{profile}: expected {wrong:?}, got\n{output}");
}
