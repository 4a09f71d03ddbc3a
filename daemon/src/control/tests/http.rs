//! HTTP as bytes, so that nothing between test and server is polite.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// An answer, taken apart.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(super) fn code(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        problem["code"].as_str().unwrap().to_owned()
    }
}

/// Far more than any answer takes.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn connect(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Sends a request on a connection of its own; `head` is without its last empty line.
pub(super) fn ask(socket: &Path, head: &str, body: &[u8]) -> Answer {
    let mut stream = connect(socket);
    let length = if body.is_empty() {
        String::new()
    } else {
        format!("content-length: {}\r\n", body.len())
    };
    let head = head.replacen(" HTTP/1.1", " HTTP/1.1\r\nhost: fnd\r\nconnection: close", 1);
    stream.write_all(format!("{head}\r\n{length}\r\n").as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    take_apart(&bytes)
}

pub(super) fn get(socket: &Path, path: &str) -> Answer {
    ask(socket, &format!("GET {path} HTTP/1.1"), b"")
}

pub(super) fn post(socket: &Path, path: &str, headers: &str, body: &[u8]) -> Answer {
    let headers: String = headers
        .split('|')
        .filter(|header| !header.is_empty())
        .map(|header| format!("\r\n{header}"))
        .collect();
    ask(socket, &format!("POST {path} HTTP/1.1{headers}"), body)
}

pub(super) fn take_apart(bytes: &[u8]) -> Answer {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("{bytes:?}"));
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head[9..12].parse().unwrap();
    let mut answer = Answer {
        status,
        head,
        body: bytes[end + 4..].to_vec(),
    };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = join_chunks(&answer.body);
    }
    answer
}

fn join_chunks(mut bytes: &[u8]) -> Vec<u8> {
    let mut joined = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return joined;
        }
        joined.extend_from_slice(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[end + 4 + length..];
    }
}

/// Waits until something is so.
pub(super) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "a deadline of a test")]
    let now = std::time::Instant::now;
    let start = now();
    while !is_so() {
        assert!(now() - start < LIMIT, "this did not come true: {what}");
        std::thread::yield_now();
    }
}

/// Returns how many invocations run, and how many wait.
pub(super) fn load(socket: &Path) -> (u64, u64) {
    let status = get(socket, "/v1/status?functions=0").json();
    (status["running"].as_u64().unwrap(), status["queued"].as_u64().unwrap())
}

/// Has `stuck` run, which never ends; returns the id of the invocation.
pub(super) fn run_stuck(socket: &Path) -> String {
    let queued = post(socket, "/v1/functions/stuck/invocations", "", b"").json();
    wait_until("it runs", || load(socket).0 == 1);
    queued["id"].as_str().unwrap().to_owned()
}

/// Runs a function to its end; returns the id of the invocation.
pub(super) fn run(socket: &Path, function: &str, body: &[u8]) -> String {
    let queued = post(socket, &format!("/v1/functions/{function}/invocations"), "", body).json();
    let id = queued["id"].as_str().unwrap().to_owned();
    let ended = get(socket, &format!("/v1/invocations/{id}?wait=60s")).json();
    assert!(ended["ended_at"].is_string(), "{ended}");
    id
}
