//! Workers that break are replaced, and only the call in flight fails.

use super::{ask, is_alive, kill_process, pid_in, reason, start};
use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, require, wait_until};

/// Does what the payload names; `wait` waits until the gate opens.
const MISCHIEF: &str = "import os, sys, time
def handler(event, context):
    what = event['data']
    if what == 'wait':
        with open('GATE/waiting', 'w') as file: print(os.getpid(), file=file)
        while not os.path.exists('GATE/go'): time.sleep(0.01)
    if what == 'hang':
        with open('GATE/hanging', 'w') as file: print(os.getpid(), file=file)
        time.sleep(1000)
    if what == 'exit': os._exit(3)
    if what == 'abort': os.abort()
    if what == 'close': os.close(3); time.sleep(1000)
    if what == 'garbage': os.write(3, b'GET / HTTP/1.1\\r\\n\\r\\n' * 100); time.sleep(1000)
    if what == 'large': return 'x' * 5000
    return os.getpid()
";

/// Each of these has functions of its own.
#[test]
fn broken_workers_are_replaced() {
    let fnd = Fnd::start();
    a_worker_that_breaks_is_replaced_and_its_neighbour_goes_on(&fnd);
    a_killed_call_is_tried_again_in_a_new_worker(&fnd);
    an_answer_before_the_end_counts(&fnd);
    a_worker_that_cannot_be_started_leaves_no_files(&fnd);
    sys_exit_ends_the_call_only(&fnd);
    answers_nobody_asked_for_replace_the_worker(&fnd);
    fnd.finish();
}

fn a_worker_that_breaks_is_replaced_and_its_neighbour_goes_on(fnd: &Fnd) {
    require!(cgroup);
    let gate = fnd.shared_directory("gate");
    let code = MISCHIEF.replace("GATE", &gate.display().to_string());
    fnd.install("risky.py", "[limits]\nresult = \"1K\"\n[pool]\nmax = 2\n", &code);
    let neighbour = start(fnd, "risky", "\"wait\"");
    let beside = pid_in(&gate.join("waiting"));
    let cases = [
        ("exit", "exit-3"),
        ("abort", "signal-ABRT"),
        ("close", "bad-answer"),
        ("garbage", "bad-answer"),
        ("large", "result-too-large"),
    ];
    let mut before = ask(fnd, "risky", "\"\"");
    for (what, expected) in cases {
        let (answer, view) = fnd.run("risky", &format!("\"{what}\""));
        assert!(answer.status.is_server_error(), "{what}: {}", answer.status);
        assert_eq!(
            (view.state, reason(&view).as_str()),
            (RunState::Failed, expected),
            "{what}"
        );
        assert!(!view.attempt_records[0].cold, "{what}");
        let next = ask(fnd, "risky", "\"\"");
        assert_ne!(next, before, "{what}");
        before = next;
    }
    let id = start(fnd, "risky", "\"hang\"");
    let hanging = pid_in(&gate.join("hanging"));
    assert_eq!(before, hanging);
    kill_process(hanging);
    let view = fnd.wait_end(id);
    assert_eq!(
        (reason(&view).as_str(), view.attempt_records[0].signal.as_deref()),
        ("signal-KILL", Some("SIGKILL"))
    );
    assert_ne!(ask(fnd, "risky", "\"\""), before);

    std::fs::write(gate.join("go"), "").unwrap();
    let view = fnd.wait_end(neighbour);
    assert_eq!((view.state, view.attempts), (RunState::Succeeded, 1));
    assert_eq!(fnd.result(neighbour).text(), beside.to_string());
    // The invocation fails; the function stays ready.
    assert_eq!(fnd.function("risky").unwrap().state.as_str(), "ready");
}

/// The call in flight of a killed worker is retried in another worker, if `retry.on` allows it.
fn a_killed_call_is_tried_again_in_a_new_worker(fnd: &Fnd) {
    let code = "import os, signal\ndef handler(event, context):\n    if context['attempt'] == 1: os.kill(os.getpid(), signal.SIGKILL)\n    return 'better'\n";
    fnd.install("twice.py", "[retry]\nretries = 1\ninterval = \"1ms\"\n", code);
    let (answer, view) = fnd.run("twice", "");
    assert_eq!(answer.text(), "better");
    let workers: Vec<_> = view.attempt_records.iter().map(|attempt| attempt.worker).collect();
    assert_eq!(workers.len(), 2);
    assert_ne!(workers[0], workers[1]);
}

/// An answer that is in the socket when the worker ends counts, and the next call gets another worker.
fn an_answer_before_the_end_counts(fnd: &Fnd) {
    require!(cgroup);
    let protocol = include_str!("../../conformance/functions/exec/worker.py");
    let program = "#!/usr/bin/python3 -B
import os, worker
send = worker.send
def last(kind, call, content):
    send(kind, call, content)
    if kind == 4: os._exit(3)
worker.send = last
worker.serve(lambda data, previous, head, log: str(os.getpid()).encode())
";
    fnd.drop_bytes("brief/worker.py", protocol.as_bytes(), 0o644);
    fnd.drop_executable("brief/serve", program.as_bytes());
    fnd.drop_file(
        "brief/function.toml",
        "runtime = \"exec\"\nentry = \"serve\"\nmode = \"handler\"\n",
    );
    fnd.wait_ready("brief");
    let mut pids = Vec::new();
    for _ in 0..20 {
        let pid = ask(fnd, "brief", "").as_i64().unwrap();
        assert!(!pids.contains(&pid), "{pids:?}");
        pids.push(pid);
        wait_until("its worker to be gone", PATIENCE, || (!is_alive(pid)).then_some(()));
    }
}

fn a_worker_that_cannot_be_started_leaves_no_files(fnd: &Fnd) {
    fnd.drop_executable("ruined/serve", b"\x7fELF and nothing more");
    fnd.drop_file(
        "ruined/function.toml",
        "runtime = \"exec\"\nentry = \"serve\"\nmode = \"handler\"\n",
    );
    fnd.wait_ready("ruined");
    for _ in 0..3 {
        let (_, view) = fnd.run("ruined", "1");
        assert_eq!(reason(&view), "spawn");
    }
    wait_until("its temporary files to be removed", PATIENCE, || {
        let left = std::fs::read_dir(fnd.path("state/tmp/ruined")).into_iter().flatten();
        let left = left.flatten().filter(|entry| entry.file_name() != "spare");
        (left.count() == 0).then_some(())
    });
}

/// `sys.exit` ends the call, not the worker.
fn sys_exit_ends_the_call_only(fnd: &Fnd) {
    let code = "import os, sys\ndef handler(event, context):\n    if event['data'] is not None: sys.exit(event['data'])\n    return os.getpid()\n";
    fnd.install("exits.py", "", code);
    let before = ask(fnd, "exits", "");
    for (code, expected) in [("0", "ok"), ("65", "failed"), ("4", "error"), ("\"words\"", "error")] {
        let (_, view) = fnd.run("exits", code);
        assert_eq!(reason(&view), expected, "sys.exit({code})");
    }
    assert_eq!(ask(fnd, "exits", ""), before);
}

/// A program that implements the protocol itself, and sends answers without a call.
fn answers_nobody_asked_for_replace_the_worker(fnd: &Fnd) {
    require!(cgroup);
    let protocol = include_str!("../../conformance/functions/exec/worker.py");
    let program = "#!/usr/bin/python3 -B
import json, os, time, worker
def handler(data, previous, head, log):
    what = json.loads(data) if data else ''
    if what == 'twice':
        answer = b'{\"data\":5}'
        for _ in range(2): worker.send(4, CALL[0], len(answer).to_bytes(4, 'little') + answer + b'first')
        time.sleep(1000)
    if what == 'unknown':
        worker.send(5, 999999, b'{\"kind\":\"error\",\"message\":\"who\"}')
        time.sleep(1000)
    return str(os.getpid()).encode()
CALL, receive = [0], worker.HEADER.unpack
class Header:
    def unpack(self, raw):
        fields = receive(raw)
        CALL[0] = fields[4]
        return fields
    pack = staticmethod(worker.HEADER.pack)
worker.HEADER = Header()
worker.serve(handler)
";
    fnd.drop_bytes("double/worker.py", protocol.as_bytes(), 0o644);
    fnd.drop_executable("double/serve", program.as_bytes());
    fnd.drop_file(
        "double/function.toml",
        "runtime = \"exec\"\nentry = \"serve\"\nmode = \"handler\"\n",
    );
    fnd.wait_ready("double");
    let first = ask(fnd, "double", "");
    let (answer, view) = fnd.run("double", "\"twice\"");
    assert_eq!((answer.text().as_str(), view.state), ("first", RunState::Succeeded));
    wait_until("the worker that answered twice to be gone", PATIENCE, || {
        (!is_alive(first.as_i64().unwrap())).then_some(())
    });
    let second = ask(fnd, "double", "");
    assert_ne!(second, first);
    let (answer, view) = fnd.run("double", "\"unknown\"");
    assert_eq!((answer.status.as_u16(), reason(&view).as_str()), (502, "bad-answer"));
    assert_ne!(ask(fnd, "double", ""), second);
}
