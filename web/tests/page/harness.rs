//! `fnd-web` as a process, and a server in the place of fnd.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// Headers of a form that comes from a page of the server.
pub(crate) const SAME_SITE: &str = "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n";

/// A server in the place of fnd. Its threads end with the process of the test.
pub(crate) struct Fnd {
    socket: PathBuf,
    requests: Arc<Mutex<Vec<String>>>,
    directory: Arc<TempDir>,
}

impl Fnd {
    pub(crate) fn start() -> Self {
        let fnd = Self::missing();
        let listener = UnixListener::bind(&fnd.socket).unwrap();
        let requests = Arc::clone(&fnd.requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(&stream.unwrap(), &requests);
            }
        });
        fnd
    }

    /// Returns the place of an fnd that does not run.
    pub(crate) fn missing() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            socket: directory.path().join("control.sock"),
            requests: Arc::default(),
            directory: Arc::new(directory),
        }
    }

    /// Returns the first lines of all requests.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

const LINE: &str = r#"{"time":"2026-01-01T00:00:00Z","function":"hello","invocation":"01934567-89ab-7def-8123-456789abcdef","attempt":1,"stream":"stdout","text":"<b>"}"#;
const ACCESS: &str = r#"{"node":"vm1","uid":1000,"role":"viewer","functions":[]}"#;
const RUN: &str = r#"{"id":"01934567-89ab-7def-8123-456789abcdef","function":"hello","trigger":"manual","state":"succeeded","reason":null,"message":"","exhausted":null,"accepted_at":"2026-01-01T00:00:00Z","started_at":null,"ended_at":null,"next_attempt_at":null,"attempts":1,"polls":0}"#;
const NOT_KEPT: &str = r#"{"type":"about:blank","title":"Conflict","status":409,"code":"not-kept","detail":"it was not kept","reason":null}"#;
const REFUSAL: &str = r#"{"type":"about:blank","title":"Forbidden","status":403,"code":"not-allowed","detail":"no group of yours has a role on this fnd"}"#;

fn answer(stream: &UnixStream, requests: &Mutex<Vec<String>>) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream);
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap() == 0 {
            return;
        }
    }
    let line = head.lines().next().unwrap();
    let (status, media, body) = if line.contains("/v1/stream") {
        (200, "text/event-stream", "id: 7\nevent: run\ndata: {}\n\n".to_owned())
    } else if line.contains("/v1/access ") {
        (200, "application/json", ACCESS.to_owned())
    } else if line.contains("456789abcdef ") {
        (200, "application/json", RUN.to_owned())
    } else if line.contains("456789abcdef/payload ") || line.contains("456789abcdef/result ") {
        (409, "application/problem+json", NOT_KEPT.to_owned())
    } else if line.contains("/logs?limit=100000&until=2026-01-01T00%3A00%3A00.001Z ") {
        (200, "application/json", format!("{{\"lines\":[{LINE}]}}"))
    } else if line.contains("/logs?limit=100000 ") {
        let newer = LINE.replace("00:00:00Z", "00:00:01Z");
        let newest = format!("{LINE}{}", format!(",{newer}").repeat(99_999));
        (200, "application/json", format!("{{\"lines\":[{newest}]}}"))
    } else if line.contains("456789abcdef/logs") {
        (200, "application/x-ndjson", format!("{LINE}\n\n"))
    } else {
        (403, "application/problem+json", REFUSAL.to_owned())
    };
    requests.lock().unwrap().push(line.to_owned());
    let length = body.len();
    let answer = format!("HTTP/1.1 {status} x\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n{body}");
    let mut writer = stream;
    writer.write_all(answer.as_bytes()).unwrap();
}

/// A page that runs until this is dropped.
pub(crate) struct Page {
    socket: PathBuf,
    child: Child,
    token: String,
    _directory: TempDir,
    /// The socket of fnd stays until the page has ended, also if a test keeps no `Fnd`.
    _fnd: Arc<TempDir>,
}

impl Page {
    pub(crate) fn start(fnd: &Fnd, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("web.sock");
        let mut child = Command::new(env!("CARGO_BIN_EXE_fnd-web"))
            .arg("--control")
            .arg(&fnd.socket)
            .arg("--socket")
            .arg(&socket)
            .arg("--end-with-input")
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let started: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(started["socket"], socket.to_str().unwrap());
        Self {
            socket,
            child,
            token: started["token"].as_str().unwrap().to_owned(),
            _directory: directory,
            _fnd: Arc::clone(&fnd.directory),
        }
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Returns the cookie of a new session.
    pub(crate) fn session(&self) -> String {
        let welcome = self.login(&self.token, "/");
        welcome.has_status(303);
        let cookie = welcome.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    pub(crate) fn login(&self, token: &str, next: &str) -> Answer {
        let form = format!("token={token}&next={}", next.replace('/', "%2F"));
        self.post("/login", SAME_SITE, "", form.as_bytes())
    }

    pub(crate) fn get(&self, path: &str, cookie: &str) -> Answer {
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n");
        self.send(&head, b"")
    }

    pub(crate) fn post(&self, path: &str, headers: &str, cookie: &str, form: &[u8]) -> Answer {
        let length = form.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\n{headers}\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n"
        );
        self.send(&head, form)
    }

    /// Sends a request on a connection of its own, and returns the whole answer.
    pub(crate) fn send(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses a large body does not read all of it.
        let _ = stream
            .write_all(b"Connection: close\r\n\r\n")
            .and_then(|()| stream.write_all(body));
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer {
            text: String::from_utf8(bytes).unwrap(),
        }
    }

    pub(crate) fn close_input(&mut self) {
        self.child.stdin = None;
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        // `Child::wait` would close the input.
        let input = self.child.stdin.take();
        let status = self.child.wait().unwrap();
        drop(input);
        status
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer with its head.
pub(crate) struct Answer {
    pub(crate) text: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn has_status(&self, status: u16) {
        assert!(
            self.text.starts_with(&format!("HTTP/1.1 {status} ")),
            "not {status}: {}",
            self.text
        );
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.text.lines().take_while(|line| !line.is_empty());
        lines
            .find_map(|line| line.split_once(": ").filter(|(other, _)| *other == name))
            .map(|(_, value)| value)
    }
}
