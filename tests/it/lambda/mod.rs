//! Functions of AWS Lambda's custom runtimes, unmodified: the loop of AWS's tutorial in bash, the clients of AWS for Python and
//! Rust, and a client in Go.
//!
//! Files:
//! - `clients`: clients of several languages
//! - `imported`: a template of SAM, as functions
//! - `lives`: starts, failures, timeouts, many calls, restarts of fnd, extensions
//! - `requests`: requests to routes, schedules, CloudEvents

mod clients;
mod imported;
mod lives;
mod requests;

use fnd_core::api::InvocationView;
use fnd_tests::client::Client;
use fnd_tests::{Fnd, Setup};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Starts an fnd with a listener on a Unix socket; returns a caller of the listener, too.
fn start() -> (Fnd, Client) {
    let mut fnd = Fnd::prepare(&Setup::default());
    let socket = fnd.path("run/http.sock");
    let configuration = fnd.path("fnd.toml");
    let before = fs::read_to_string(&configuration).unwrap();
    let text = format!("{before}\n[http]\nlisten = \"unix:{}\"\n", socket.display());
    fs::write(&configuration, text).unwrap();
    fnd.launch();
    let caller = Client::new(&socket);
    (fnd, caller)
}

/// Returns the loop of AWS's tutorial for a runtime in bash: `body` sets `answer`, or answers itself and goes on.
fn bash(body: &str) -> Vec<u8> {
    let text = format!(
        "#!/bin/bash\napi=http://$AWS_LAMBDA_RUNTIME_API/2018-06-01/runtime\nwhile true; do\n  headers=$(mktemp)\n\
         \x20 event=$(curl -sS -LD \"$headers\" \"$api/invocation/next\") || exit 1\n\
         \x20 id=$(grep -Fi Lambda-Runtime-Aws-Request-Id \"$headers\" | tr -d '[:space:]' | cut -d: -f2)\n\
         {body}\n  curl -sS \"$api/invocation/$id/response\" -d \"$answer\" >/dev/null || exit 1\ndone\n"
    );
    text.into_bytes()
}

/// Returns a directory outside of the functions, in which the files of a function are gathered.
fn stage(fnd: &Fnd, name: &str) -> PathBuf {
    let stage = fnd.path(&format!("stage-{name}"));
    fs::create_dir_all(&stage).unwrap();
    stage
}

/// Installs a function of the files in its stage, a `bootstrap` and more keys of its manifest, at once; waits until it serves.
#[track_caller]
fn install(fnd: &Fnd, name: &str, manifest: &str, bootstrap: &[u8]) {
    let stage = stage(fnd, name);
    fs::write(stage.join("function.toml"), format!("runtime = \"lambda\"\n{manifest}")).unwrap();
    executable(&stage.join("bootstrap"), bootstrap);
    fs::rename(stage, fnd.function_path(name)).unwrap();
    assert_eq!(fnd.wait_ready(name).error, None, "{name}");
}

/// Calls a function that must succeed, and returns its answer.
#[track_caller]
fn ask(fnd: &Fnd, name: &str, json: &str) -> Value {
    let answer = fnd.invoke(name, json);
    assert_eq!(answer.status, 200, "{name}: {}\n{}", answer.text(), fnd.log());
    answer.json()
}

fn reason(view: &InvocationView) -> String {
    view.reason.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Makes an executable file outside of the functions.
fn executable(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Packs the files of a directory, with their modes.
fn zip(directory: &Path, target: &Path, names: &[&str]) {
    let status = Command::new("/usr/bin/python3")
        .args(["-I", "-m", "zipfile", "-c"])
        .arg(target)
        .args(names)
        .current_dir(directory)
        .status();
    assert!(status.unwrap().success());
}
