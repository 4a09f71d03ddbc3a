//! A call that takes too long: the worker ends with everything it started, whatever it is doing.

use super::reason;
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, now, require, wait_until};
use std::time::Duration;

const LIMITS: &str = "[limits]\ntimeout = \"700ms\"\ngrace = \"1500ms\"\n";

/// Makes a call and checks that it ends at its timeout, that no process of it remains, and that the next call is
/// served.
#[track_caller]
fn ends_in_time(fnd: &Fnd, name: &str, json: &str) {
    let before = asked_in_time(fnd, name);
    let start = now();
    let answer = fnd.invoke(name, json);
    let took = start.elapsed();
    assert_eq!(answer.status, 408, "{name} {json}: {}", answer.text());
    assert!(took >= Duration::from_millis(690), "{name} {json}: {took:?}");
    let view = fnd.wait_end(Fnd::id_of(&answer));
    assert_eq!((view.state, reason(&view).as_str()), (RunState::Failed, "timeout"));
    assert!(
        view.message.contains("700ms") && view.message.contains("timeout"),
        "{}",
        view.message
    );
    let pid = format!("process {before} ");
    let processes = fnd.mark().processes();
    let left = |process: &String| process.starts_with(&pid) || process.contains("sleep 1000");
    assert!(!processes.iter().any(left), "{name} {json}: {processes:#?}");
    assert_ne!(asked_in_time(fnd, name), before, "{name} {json}");
}

/// Asks for the worker's process id; repeats the call if a stall of the machine made it exceed the timeout.
#[track_caller]
fn asked_in_time(fnd: &Fnd, name: &str) -> serde_json::Value {
    wait_until("an answer in time", PATIENCE, || {
        let answer = fnd.invoke(name, "");
        assert!([200, 408].contains(&answer.status.as_u16()), "{}", answer.text());
        (answer.status == 200).then(|| answer.json())
    })
}

/// Each of these has functions of its own.
#[test]
fn calls_that_take_too_long() {
    require!(root, cgroup);
    let fnd = Fnd::start();
    python_in_c_code_and_deaf_to_sigterm(&fnd);
    javascript_that_blocks_or_never_resolves(&fnd);
    fnd.finish();
}

fn python_in_c_code_and_deaf_to_sigterm(fnd: &Fnd) {
    let code = "import os, re, signal, subprocess, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def handler(event, context):
    what = event['data']
    if what == 'sum': sum(range(10 ** 12))
    if what == 're': re.match('(a+)+b', 'a' * 60)
    if what == 'deaf':
        subprocess.Popen(['sleep', '1000'], start_new_session=True)
        time.sleep(1000)
    if what == 'late':
        time.sleep(1.7)
    return os.getpid()
";
    fnd.install("slow.py", LIMITS, code);
    for what in ["sum", "re", "deaf", "late"] {
        ends_in_time(fnd, "slow", &format!("\"{what}\""));
    }
}

fn javascript_that_blocks_or_never_resolves(fnd: &Fnd) {
    let code = |export: &str, pid: &str| {
        format!(
            "{export} async (event) => {{
  if (event.data === 'block') while (true);
  if (event.data === 'never') await new Promise(() => {{}});
  return {pid};
}};\n"
        )
    };
    fnd.install("node.cjs", LIMITS, &code("module.exports =", "process.pid"));
    ends_in_time(fnd, "node", "\"block\"");
    ends_in_time(fnd, "node", "\"never\"");
    require!(deno);
    fnd.install("deno.ts", LIMITS, &code("export default", "Deno.pid"));
    ends_in_time(fnd, "deno", "\"block\"");
    ends_in_time(fnd, "deno", "\"never\"");
}
