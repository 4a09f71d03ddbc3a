//! The adoption records of warm workers that a planned restart leaves are valid for the next fnd only.

use super::takeover::start;
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{require, wait_until};
use nix::sys::signal::Signal;

/// Waits for `GATE/go`, then answers with its payload and its process id; records each call in a file.
const ECHO: &str = r#"
import os, time

def handler(event, context):
    with open("GATE/called", "a") as file:
        file.write("called\n")
    while not os.path.exists("GATE/go"):
        time.sleep(0.01)
    return [event["data"], os.getpid()]
"#;

/// A worker that was handed over takes a call, and fnd is killed. The next one must not take that worker for idle, as it was
/// handed over: it would take the answer of that call for the answer of the next.
#[test]
fn a_worker_handed_over_once_is_not_trusted_after_a_crash() {
    require!(root, cgroup);
    let (mut fnd, gate) = start(&[("echo.py", ECHO)]);
    let called = |times: usize| {
        wait_until("the handler to be called", PATIENCE, || {
            let text = std::fs::read_to_string(gate.join("called")).unwrap_or_default();
            (text.lines().count() == times).then_some(())
        });
    };
    std::fs::write(gate.join("go"), "").unwrap();
    let (_, pid): (u32, u32) = fnd.run("echo", "0").0.json();
    std::fs::remove_file(gate.join("go")).unwrap();
    fnd.replace(Signal::SIGTERM);
    let first = fnd.queue("echo", "1");
    called(2);
    fnd.replace(Signal::SIGKILL);
    let second = fnd.queue("echo", "2");
    std::fs::write(gate.join("go"), "").unwrap();
    let view = fnd.wait_end(second);
    assert_eq!(view.state, RunState::Succeeded, "{view:?} {}", fnd.log());
    let (answer, other): (u32, u32) = fnd.result(second).json();
    assert_eq!(answer, 2, "{}", fnd.log());
    assert_ne!(pid, other, "{}", fnd.log());
    assert_eq!(fnd.wait_end(first).state, RunState::Interrupted);
    fnd.finish();
}
