//! Programs that serve HTTP: requests and answers pass through unchanged, in pieces; a broken answer fails only its
//! call.
//!
//! Files:
//! - `exchange`: requests and answers pass through unchanged, in pieces, and beside each other
//! - `failures`: what fails: an answer, a call that takes too long, a worker that is never ready
//! - `restarts`: new versions, and restarts of fnd while requests are in flight
//! - `trust`: sockets and ports: only fnd reaches a worker, and only the worker gets fnd's requests
//! - `upgrades`: connections that speak another protocol after an upgrade, and answers that never end

mod exchange;
mod failures;
mod restarts;
mod trust;
mod upgrades;

use fnd_core::api::InvocationView;
use fnd_core::records::outcome::RunState;
use fnd_tests::client::Answer;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use nix::sys::signal::Signal;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server that answers by the path of the request; it listens on a Unix socket if it was given one.
const SERVER: &str = r#"import http.server, json, os, socketserver, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def address_string(self): return "fnd"
    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items(): self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD": self.wfile.write(body)
    def body(self):
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        got = b""
        while size := int(self.rfile.readline(), 16):
            got += self.rfile.read(size)
            self.rfile.readline()
            if self.path == "/echo-chunks": self.piece(got); got = b""
        self.rfile.readline()
        return got
    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()
    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/echo-chunks":
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.body()
            self.wfile.write(b"0\r\n\r\n")
            return
        body = self.body()
        print("asked", path, flush=True)
        if path == "/pid": self.answer(200, b"%d" % os.getpid())
        elif path == "/teapot": self.answer(418, b"short", x_own="1", connection="x-hop, close", x_hop="gone", keep_alive="timeout=5", fnd_state="forged", Set_Cookie="a=1")
        elif path == "/broken": self.answer(503, b"not now", content_type="text/plain")
        elif path == "/garbage": self.wfile.write(b"what?\r\n\r\n"); self.close_connection = True
        elif path == "/drop": self.close_connection = True
        elif path == "/cut":
            self.send_response(200)
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b"begun")
            self.close_connection = True
        elif path == "/exit": os._exit(3)
        elif path == "/hang": time.sleep(1000)
        elif path == "/gate":
            while not os.path.exists(os.environ["GATE"]): time.sleep(0.01)
            self.answer(200, b"%d" % os.getpid())
        elif path == "/large": self.answer(200, b"x" * 5000)
        elif path == "/length": self.answer(200, b"%d" % len(body))
        else:
            seen = {"method": self.command, "path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": body.decode()}
            self.answer(200, json.dumps(seen).encode(), content_type="application/json")
    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_HEAD = do_GET
class Tcp(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
class Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer): daemon_threads = True
path = os.environ.get("FND_SOCKET_PATH")
(Unix(path, Handler) if path else Tcp(("127.0.0.1", int(os.environ["PORT"])), Handler)).serve_forever()
"#;

/// Makes a gate for requests of `/gate` to wait at, and returns what the manifest says of it.
fn gated(fnd: &Fnd) -> String {
    let gate = fnd.shared_directory("gate");
    format!("[env]\nGATE = \"{}/open\"\n", gate.display())
}

fn open(fnd: &Fnd) {
    std::fs::write(fnd.path("gate/open"), "").unwrap();
}

fn get(fnd: &Fnd, name: &str, path: &str) -> Answer {
    fnd.client().get(&format!("/v1/functions/{name}/http{path}"))
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

/// Returns the record of an answer's invocation after its end.
fn record(fnd: &Fnd, answer: &Answer) -> InvocationView {
    fnd.wait_end(Fnd::id_of(answer))
}

fn reason(view: &InvocationView) -> String {
    view.reason.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Sends bytes on a connection of its own and returns all that comes back.
fn raw(fnd: &Fnd, request: &[u8]) -> String {
    let mut stream = UnixStream::connect(fnd.socket()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request).unwrap();
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text); // a reset connection has been read to its end, too
    String::from_utf8_lossy(&text).into_owned()
}

fn memory_kib(fnd: &Fnd) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", fnd.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn kill_process(pid: &str) {
    let pid = nix::unistd::Pid::from_raw(pid.parse().unwrap());
    nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
}
