//! fnd and its spawner are killed together just after a caller was answered, before the end is in the history.

use fnd_core::records::outcome::RunState;
use fnd_tests::tamper::{Fate, Tampering};
use fnd_tests::{Fnd, Setup, require};
use fnd_wire::ids::InvocationId;
use nix::sys::signal::Signal;

/// Makes writes of the history fail, waits until a caller is answered, kills both processes and starts them again.
/// Returns the view of the invocation.
fn answered_and_killed(
    file: (&str, &str),
    ask: impl FnOnce(&Fnd) -> Option<InvocationId>,
) -> (Fnd, fnd_core::api::InvocationView) {
    let mut fnd = Fnd::prepare(&Setup::default().detached());
    fnd.drop_file(file.0, file.1);
    fnd.launch();
    fnd.wait_ready("answers");
    // Records that the disk refuses stay in memory, as every record does until it is written.
    let tampering = Tampering {
        calls: "pwrite64".to_owned(),
        paths: vec![fnd.path("state/state/ledger.db-wal")],
        fate: Fate::Error("EIO"),
        from: 1,
    };
    let fault = tampering.attach(&fnd);
    let id = ask(&fnd);
    // fnd is stopped (SIGSTOP) first, so that neither process sees the other one end.
    fnd.signal(Signal::SIGSTOP);
    fnd.signal_spawner(Signal::SIGKILL);
    fnd.kill();
    fnd.kill_spawner();
    drop(fault);
    fnd.launch();
    let view = fnd.wait_end(id.expect("an answer names its invocation"));
    (fnd, view)
}

/// Returns the invocation that a caller was answered for with 200.
fn answered(answer: &fnd_tests::Answer) -> Option<InvocationId> {
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    answer.header("fnd-invocation").and_then(InvocationId::parse)
}

#[test]
fn a_script_whose_caller_was_answered_is_not_interrupted_where_the_spawner_died_as_well() {
    require!(root, cgroup, strace);
    let script = "# /// fnd\n# on_load = false\n# ///\necho said\n";
    let (fnd, view) = answered_and_killed(("answers.sh", script), |fnd| answered(&fnd.invoke("answers", "{}")));
    assert_eq!(
        (view.state, view.attempts),
        (RunState::Succeeded, 1),
        "{view:?}\n{}",
        fnd.log()
    );
    let lines: Vec<String> = fnd.logs(view.id).into_iter().map(|line| line.text).collect();
    assert_eq!(lines, ["said"]);
    fnd.finish();
}

#[test]
fn a_script_that_left_a_result_says_that_it_is_lost() {
    require!(root, cgroup, strace);
    let script = "# /// fnd\n# on_load = false\n# ///\necho '{}' >\"$FND_RESULT\"\n";
    let (fnd, view) = answered_and_killed(("answers.sh", script), |fnd| answered(&fnd.invoke("answers", "{}")));
    assert_eq!(view.state, RunState::Succeeded, "{view:?}\n{}", fnd.log());
    assert_eq!(
        view.message,
        "its result is lost: fnd was killed before that was on disk"
    );
    fnd.finish();
}

/// Serves a piece of known length, pieces of unknown length, and nothing at all.
const SERVER: &str = r#"#!/usr/bin/python3
# /// fnd
# runtime = "python"
# [http_server]
# ///
import os
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/empty":
            self.send_response(204)
            self.end_headers()
        elif self.path == "/pieces":
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"2\r\nhi\r\n0\r\n\r\n")
        else:
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"hi")

HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"#;

#[test]
fn a_request_whose_caller_has_the_whole_answer_is_not_interrupted() {
    require!(root, cgroup, strace);
    for (path, status, body) in [("empty", 204, ""), ("pieces", 200, "hi"), ("piece", 200, "hi")] {
        let ask = |fnd: &Fnd| {
            let answer = fnd.client().get(&format!("/v1/functions/answers/http/{path}"));
            assert_eq!((answer.status.as_u16(), answer.text().as_str()), (status, body));
            answer.header("fnd-invocation").and_then(InvocationId::parse)
        };
        let (fnd, view) = answered_and_killed(("answers.py", SERVER), ask);
        assert_eq!(view.state, RunState::Succeeded, "{path}: {view:?}\n{}", fnd.log());
        fnd.finish();
    }
}
