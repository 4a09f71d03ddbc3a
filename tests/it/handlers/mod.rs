//! Handlers: a function's code is loaded once and answers many calls, in real interpreters.
//!
//! Files:
//! - `answers`: what is returned reaches the caller
//! - `cancel`: one of several calls of a worker is cancelled
//! - `broken`: workers that break
//! - `edit`: new versions while calls come
//! - `foreign`: functions of other systems
//! - `interpreter`: a replaced interpreter
//! - `load`: code that cannot be loaded
//! - `pool`: how many workers, and how long
//! - `restart`: fnd ends while a handler works
//! - `timeout`: calls that take too long
//! - `upstream`: what functions of other systems use of fnd
//! - `warm`: many calls of one worker

mod answers;
mod broken;
mod cancel;
mod edit;
mod foreign;
mod interpreter;
mod load;
mod pool;
mod restart;
mod timeout;
mod upstream;
mod warm;

use fnd_core::api::InvocationView;
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, wait_until};
use fnd_wire::ids::InvocationId;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;

/// Calls a function that must succeed and returns what it said.
#[track_caller]
fn ask(fnd: &Fnd, name: &str, json: &str) -> Value {
    let answer = fnd.invoke(name, json);
    assert_eq!(answer.status, 200, "{name}: {}", answer.text());
    answer.json()
}

/// Queues a call and returns when its worker has it.
#[track_caller]
fn start(fnd: &Fnd, name: &str, json: &str) -> InvocationId {
    let id = fnd.queue(name, json);
    let _ = fnd.wait_invocation(id, "to run", |view| view.state == RunState::Running);
    id
}

fn reason(view: &InvocationView) -> String {
    view.reason.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn lines(fnd: &Fnd, id: InvocationId) -> Vec<String> {
    fnd.logs(id).into_iter().map(|line| line.text).collect()
}

/// Returns the process id that a call wrote to a file.
#[track_caller]
fn pid_in(path: &Path) -> i64 {
    wait_until("a process id", PATIENCE, || {
        std::fs::read_to_string(path).ok()?.strip_suffix('\n')?.parse().ok()
    })
}

fn is_alive(pid: i64) -> bool {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), None).is_ok()
}

fn kill_process(pid: i64) {
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
}
