//! Each way in which an answer can travel, and each way in which it can end: what the caller sees, the reason in the record,
//! and the metric agree.

use fnd_core::records::outcome::RunState;
use fnd_tests::wait::PATIENCE;
use fnd_tests::{Fnd, Setup, require, wait_until};
use fnd_wire::ids::InvocationId;
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

/// Ends as its payload says; $1 is a file for the result.
const SCRIPT: &str = r#"out=$1; end=$(cat)
printf begun >"$out"
case $end in
large) head -c 2000 /dev/zero | tr '\0' x >"$out" ;;
killed) kill -KILL $$ ;;
hang) sleep 1000 ;;
esac
"#;

const HANDLER: &str = "import os, time
def handler(event, context):
    end = event['data']
    if end == 'killed': os.kill(os.getpid(), 9)
    if end == 'hang': time.sleep(1000)
    return 'x' * 2000 if end == 'large' else 'begun'
";

/// Answers `/WAY/END`: its answer shows its end by its length, by the last chunk, or by closing the connection.
const SERVER: &str = r#"import http.server, os, socketserver, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def address_string(self): return "fnd"
    def piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if self.way == "chunked" else data)
    def do_GET(self):
        _, self.way, end = self.path.split("/")
        self.send_response(101 if self.way == "websocket" else 200)
        for name, value in {"length": [("content-length", "2005" if end == "large" else "10")], "chunked": [("transfer-encoding", "chunked")],
            "closing": [], "events": [("content-type", "text/event-stream")],
            "websocket": [("connection", "upgrade"), ("upgrade", "echo")]}[self.way]: self.send_header(name, value)
        self.end_headers()
        self.piece(b"begun")
        if end == "killed": os.kill(os.getpid(), 9)
        if end == "hang": time.sleep(1000)
        self.piece(b"x" * 2000 if end == "large" else b"ended")
        if self.way == "chunked": self.piece(b"")
        self.close_connection = True
class Tcp(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
Tcp(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"#;

/// A worker whose results come as streams. Before the second piece it waits for a file, which says that the caller has the first one.
const STREAM: &str = r#"#!/usr/bin/python3 -B
import json, os, struct, time
HEADER = struct.Struct("<IBBHQ")
HEAD = b'{"content_type":"text/plain","stream":true}'
def read(size):
    data = b""
    while len(data) < size:
        piece = os.read(3, size - len(data))
        if not piece: raise SystemExit
        data += piece
    return data
def send(kind, flags, call, content):
    frame = HEADER.pack(len(content), kind, flags, 0, call) + content
    while frame: frame = frame[os.write(3, frame):]
send(1, 0, 0, b'{"protocol":1,"concurrency":1}')
while True:
    length, kind, _, _, call = HEADER.unpack(read(16))
    content = read(length)
    if kind == 7: raise SystemExit
    if kind != 2: continue
    end = json.loads(content[4 + int.from_bytes(content[:4], "little"):])["body"]
    send(4, 1, call, len(HEAD).to_bytes(4, "little") + HEAD + b"begun")
    while not os.path.exists(os.environ["GATE"] + "/" + end): time.sleep(0.01)
    if end == "killed": os.kill(os.getpid(), 9)
    send(3, 0, call, b"x" * 2000 if end == "large" else b"ended")
"#;

const WAYS: [&str; 9] = [
    "stdout",
    "file",
    "handler",
    "cgi",
    "length",
    "chunked",
    "closing",
    "events",
    "websocket",
];

/// An end, and for each group of ways what the caller sees and the reason: scripts and handlers, programs that serve HTTP.
const ENDS: [(&str, &str, &str); 5] = [
    ("whole", "200 whole ok", "200 whole ok"),
    // Bodies that pass through have no limit.
    ("large", "502 whole result-too-large", "200 whole ok"),
    ("killed", "500 whole signal-KILL", "200 cut signal-KILL"),
    ("cancelled", "500 whole cancelled", "200 cut cancelled"),
    ("timeout", "408 whole timeout", "200 cut timeout"),
];

/// Starts an fnd in which each way is a function of this time limit.
fn start(setup: &Setup, timeout: &str) -> Fnd {
    let mut fnd = Fnd::prepare(setup);
    let listen = format!("\n[http]\nlisten = \"unix:{}\"\n", fnd.path("run/http.sock").display());
    let configuration = fnd.path("fnd.toml");
    let before = fs::read_to_string(&configuration).unwrap();
    fs::write(&configuration, before + &listen).unwrap();
    fnd.launch();
    for way in WAYS {
        let limits =
            format!("on_load = false\n[limits]\nresult = \"1K\"\ngrace = \"100ms\"\ntimeout = \"{timeout}\"\n");
        let script = |out: &str| format!("set -- {out}\n{SCRIPT}");
        let (file, more, code) = match way {
            "stdout" => ("sh", String::new(), script("/dev/stdout")),
            "file" => ("sh", String::new(), script("\"$FND_RESULT\"")),
            "cgi" => {
                let route = "[[http]]\npath = \"/cgi\"\nmethods = [\"POST\"]\nauth = \"none\"\nresponse = \"cgi\"\n";
                let head = "printf 'Content-Type: text/plain\\n\\n'\n";
                let code = format!("{head}{}", script("/dev/stdout"));
                ("sh", route.to_owned(), code)
            }
            "handler" => ("py", String::new(), HANDLER.to_owned()),
            _ => ("py", "[http_server]\n".to_owned(), SERVER.to_owned()),
        };
        fnd.install(&format!("{way}.{file}"), &format!("{limits}{more}"), &code);
    }
    fnd
}

/// Adds the way of a stream, which a stop of fnd ends as it ends a request of a program.
fn add_stream(fnd: &Fnd) {
    let gate = fnd.shared_directory("gate");
    fnd.drop_executable("stream/serve", STREAM.as_bytes());
    let manifest = format!(
        "runtime = \"exec\"\nentry = \"serve\"\nmode = \"handler\"\n[env]\nGATE = \"{}\"\n[limits]\nresult = \"1K\"\ngrace = \"100ms\"\n\
         timeout = \"2s\"\n[[http]]\npath = \"/stream\"\nmethods = [\"POST\"]\nauth = \"none\"\npayload = \"lambda\"\n",
        gate.display()
    );
    fnd.drop_file("stream/function.toml", &manifest);
    fnd.wait_ready("stream");
}

fn is_http(way: &str) -> bool {
    !["stdout", "file", "handler", "cgi", "stream"].contains(&way)
}

fn comes_in_pieces(way: &str) -> bool {
    is_http(way) || way == "stream"
}

/// Asks for an end.
fn ask(fnd: &Fnd, way: &str, end: &str) -> UnixStream {
    let socket = if ["cgi", "stream"].contains(&way) {
        fnd.path("run/http.sock")
    } else {
        fnd.socket()
    };
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let post = |path: &str| {
        let length = end.len();
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{end}"
        )
    };
    let request = match way {
        "cgi" | "stream" => post(&format!("/{way}")),
        "websocket" => {
            format!(
                "GET /v1/functions/{way}/http/{way}/{end} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n"
            )
        }
        _ if is_http(way) => {
            format!("GET /v1/functions/{way}/http/{way}/{end} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        }
        _ => post(&format!("/v1/functions/{way}/invoke")),
    };
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Reads the beginning of an answer that comes in pieces.
fn begun(way: &str, stream: &mut UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    while comes_in_pieces(way) && !String::from_utf8_lossy(&bytes).contains("begun") {
        let mut piece = [0; 1024];
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{way}: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&piece[..count]);
    }
    bytes
}

/// Returns the status of an answer, of which this was read, whether it is whole, and the invocation.
fn read(mut bytes: Vec<u8>, mut stream: UnixStream) -> (String, Option<InvocationId>) {
    let _ = stream.read_to_end(&mut bytes); // a reset connection has ended, too
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let header = |name: &str| {
        head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    };
    let is_whole = match header("content-length") {
        Some(length) => body.len() == length.parse::<usize>().unwrap(),
        None if header("upgrade").is_some() => body.ends_with("ended") || body.ends_with("xxx"),
        None => body.ends_with("\r\n0\r\n\r\n"),
    };
    let status = head.split(' ').nth(1).unwrap_or("none");
    let seen = format!("{status} {}", if is_whole { "whole" } else { "cut" });
    (seen, header("fnd-invocation").and_then(InvocationId::parse))
}

/// Waits until a way runs; returns the invocation.
fn running(fnd: &Fnd, way: &str) -> InvocationId {
    wait_until(&format!("{way} to run"), PATIENCE, || {
        let newest = fnd.history(way).into_iter().next()?;
        (newest.state == RunState::Running).then_some(newest.id)
    })
}

fn cancel(fnd: &Fnd, id: InvocationId) {
    fnd.client().post(&format!("/v1/invocations/{id}/cancel"), "");
}

/// Checks all ends of a way. Returns the reasons, as its metric should count them.
fn check(fnd: &Fnd, way: &str) -> BTreeMap<String, u32> {
    let mut reasons = BTreeMap::new();
    let mut count = |reason: &str| {
        let word = reason
            .split('-')
            .next()
            .filter(|_| reason.starts_with("signal"))
            .unwrap_or(reason);
        *reasons.entry(word.to_owned()).or_default() += 1;
    };
    for (end, expected, of_http) in ENDS {
        let expected = if comes_in_pieces(way) { of_http } else { expected };
        let expected = match way {
            // The limit of results holds for a stream, too.
            "stream" if end == "large" => "200 cut result-too-large".to_owned(),
            "websocket" => expected.replace("200", "101"),
            _ => expected.to_owned(),
        };
        let hangs = ["cancelled", "timeout"].contains(&end);
        let mut asked = ask(fnd, way, if hangs { "hang" } else { end });
        let bytes = begun(way, &mut asked);
        if end == "cancelled" {
            cancel(fnd, running(fnd, way));
        }
        if way == "stream" {
            fs::write(fnd.path("gate").join(end), "").unwrap();
        }
        let (seen, id) = read(bytes, asked);
        let view = fnd.wait_end(id.unwrap_or_else(|| panic!("{way} {end}: {seen}")));
        let reason = view.reason.unwrap().to_string();
        assert_eq!(format!("{seen} {reason}"), expected, "{way} {end}: {}", view.message);
        assert_eq!(view.state == RunState::Succeeded, reason == "ok", "{way} {end}");
        count(&reason);
    }
    // The caller leaves: a run that has begun goes on, a request is given up.
    let mut asked = ask(fnd, way, "hang");
    begun(way, &mut asked);
    let id = running(fnd, way);
    drop(asked);
    let reason = fnd.wait_end(id).reason.unwrap().to_string();
    let expected = match way {
        // Either side may close such a connection.
        "websocket" => "ok",
        _ if is_http(way) => "cancelled",
        _ => "timeout",
    };
    assert_eq!(reason, expected, "{way} left");
    count(&reason);
    reasons
}

/// Without cgroups fnd learns of the end of a worker later than of the end of its connection.
#[test]
fn every_end_of_every_answer_has_one_reason_for_caller_record_and_metric() {
    require!(cgroup);
    let fnd = start(&Setup::default(), "2s");
    add_stream(&fnd);
    let reasons = std::thread::scope(|scope| {
        let fnd = &fnd;
        let checks: Vec<_> = WAYS
            .iter()
            .chain(&["stream"])
            .map(|way| (way, scope.spawn(move || check(fnd, way))))
            .collect();
        checks
            .into_iter()
            .map(|(way, check)| (way, check.join().unwrap()))
            .collect::<Vec<_>>()
    });
    let metrics = fnd.client().get("/metrics").text();
    for (way, reasons) in reasons {
        for (reason, count) in reasons {
            let line = format!("fnd_attempts_total{{function=\"{way}\",reason=\"{reason}\"}} {count}");
            assert!(metrics.contains(&line), "{line}: {metrics}");
        }
    }
    fnd.finish();
}

/// Scripts and handlers go on; requests of a program end with fnd's connections.
#[test]
fn a_planned_stop_interrupts_open_answers_and_cancels_none() {
    require!(root, cgroup);
    let mut fnd = start(&Setup::default().detached(), "10m");
    let asked = WAYS.map(|way| {
        let mut asked = ask(&fnd, way, "hang");
        (way, begun(way, &mut asked), asked)
    });
    let ids = WAYS.map(|way| running(&fnd, way));
    fnd.replace(Signal::SIGTERM);
    for ((way, bytes, asked), id) in asked.into_iter().zip(ids) {
        let (seen, _) = read(bytes, asked);
        let expected = match way {
            "websocket" => "101 cut",
            _ if is_http(way) => "200 cut",
            _ => "503 whole",
        };
        assert_eq!(seen, expected, "{way}");
        if !is_http(way) {
            assert_eq!(fnd.invocation(id).state, RunState::Running, "{way}");
            cancel(&fnd, id);
        }
        let expected = if is_http(way) { "interrupted" } else { "cancelled" };
        let view = fnd.wait_end(id);
        assert_eq!(view.reason.unwrap().to_string(), expected, "{way}: {}", view.message);
    }
    fnd.finish();
}
