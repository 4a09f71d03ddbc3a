//! A server in the place of fnd. `answers.txt` has its answers; each request and each answer has to be one that the description of
//! the API has (`openapi.json`, which the daemon's tests compare with its routes).
//!
//! An answer in `answers.txt` is a paragraph: method and path, with texts that the request has to contain after ` | `; the status, with
//! headers after ` | `; the body. The paragraph whose texts are most counts. If several have the same first line, the first request gets
//! the first of them, and so on.
//!
//! In a body, `N` is the number of the same requests before: `<<began>>` is a time some days ago, `<<began+1>>` is N seconds later,
//! `<<10+3>>` is 10 + 3 * N, `<<body>>` is the body of the request, and `<<hex 1b>>` are bytes.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

/// The id of a run that ended well, with a result.
pub(crate) const ENDED: &str = "01934567-89ab-7def-8123-456789abcdef";
/// The id of a run that failed, without a result.
pub(crate) const FAILED: &str = "01934567-89ab-7def-8123-00000000fa11";
/// The id of a run that failed, with a result.
pub(crate) const FAILED_WITH_RESULT: &str = "01934567-89ab-7def-8123-00000000fa12";
pub(crate) const RUNNING: &str = "01934567-89ab-7def-8123-00000000face";
/// The id of no run.
pub(crate) const UNKNOWN: &str = "01934567-89ab-7def-8123-000000000404";

/// Unix seconds of the time at which the runs began: "5d ago" to a person.
static BEGAN: LazyLock<u64> = LazyLock::new(|| {
    #[expect(clippy::disallowed_methods, reason = "the server plays fnd, which knows the time")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_secs() - (5 * 24 + 1) * 3600
});

/// Returns the time at which the runs began, without the part of a second.
pub(crate) fn began(seconds_later: u64) -> String {
    fnd_core::instant::text((*BEGAN + seconds_later) * 1000)[..19].to_owned()
}

/// Longest wait for a request.
const DEADLINE: Duration = Duration::from_secs(30);

/// Largest body of a request that the server reads before it answers.
const BODY_MAX: usize = 6 << 20;

/// A request to run something.
#[derive(Debug, Default)]
pub(crate) struct RunRequest {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl RunRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

#[derive(Debug, Default)]
struct Seen {
    /// The first lines of all requests.
    lines: Vec<String>,
    /// The newest request to run something.
    run: Option<RunRequest>,
    /// How often each answer was given.
    given: BTreeMap<&'static str, usize>,
}

#[derive(Debug, Default)]
struct Shared {
    seen: Mutex<Seen>,
    changed: Condvar,
    /// Whether the caller has no role.
    is_refusing: bool,
}

/// A server that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) socket: PathBuf,
    shared: Arc<Shared>,
    _directory: tempfile::TempDir,
}

impl Running {
    pub(crate) fn start() -> Self {
        Self::with(Shared::default())
    }

    /// Starts a server at which the caller has no role.
    pub(crate) fn start_without_role() -> Self {
        Self::with(Shared {
            is_refusing: true,
            ..Shared::default()
        })
    }

    fn with(shared: Shared) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("control.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let shared = Arc::new(shared);
        let all = Arc::clone(&shared);
        // The threads end with the process of the test.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let all = Arc::clone(&all);
                std::thread::spawn(move || serve(&stream.unwrap(), &all));
            }
        });
        Self {
            socket,
            shared,
            _directory: directory,
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.shared.seen.lock().unwrap()
    }

    /// Returns the newest request to run something, once.
    pub(crate) fn run_request(&self) -> Option<RunRequest> {
        self.seen().run.take()
    }

    /// Waits until a request has such a first line.
    pub(crate) fn wait_for(&self, part: &str) {
        let is_missing = |seen: &mut Seen| !seen.lines.iter().any(|line| line.contains(part));
        let (guard, waited) = self
            .shared
            .changed
            .wait_timeout_while(self.seen(), DEADLINE, is_missing)
            .unwrap();
        drop(guard);
        assert!(!waited.timed_out(), "no request had `{part}` in its first line");
    }

    /// Says whether a request had such a first line.
    pub(crate) fn was_asked(&self, part: &str) -> bool {
        self.seen().lines.iter().any(|line| line.contains(part))
    }
}

/// Answers the requests of a connection.
fn serve(stream: &UnixStream, shared: &Shared) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let mut request = RunRequest {
            head,
            ..RunRequest::default()
        };
        let length = request.header("content-length").map_or(0, |text| text.parse().unwrap());
        let read = |body: &mut Vec<u8>, reader: &mut BufReader<_>| reader.take(length as u64).read_to_end(body).is_ok();
        let is_read = length <= BODY_MAX;
        if is_read && !read(&mut request.body, &mut reader) {
            return;
        }
        let answer = answer(request, shared);
        // A caller that does not read the whole answer has left.
        let mut writer = stream;
        if writer.write_all(&answer).is_err() || !is_read && !read(&mut Vec::new(), &mut reader) {
            return;
        }
    }
}

fn answer(mut request: RunRequest, shared: &Shared) -> Vec<u8> {
    let line = request.head.lines().next().unwrap().to_owned();
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    path.clone_into(&mut request.path);
    let operation = Operation::find(method, path).unwrap_or_else(|| panic!("the API has no {method} {path}"));
    for parameter in query.split('&').filter(|query| !query.is_empty()) {
        let name = parameter.split('=').next().unwrap();
        assert!(
            operation.has_parameter(name),
            "{method} {path} has no parameter `{name}`"
        );
    }
    if shared.is_refusing {
        let body = r#"{"type":"about:blank","title":"Forbidden","status":403,"code":"not-allowed","detail":"no group of yours has a role on this fnd"}"#;
        return response(403, "", body.as_bytes());
    }
    let text = format!("{}{}", request.head, String::from_utf8_lossy(&request.body));
    let mut seen = shared.seen.lock().unwrap();
    seen.lines.push(line.clone());
    shared.changed.notify_all();
    if line.contains("/drain?wait=1h") {
        // This caller waits until another one cancels the drain.
        let before = seen.lines.len();
        let waits = |seen: &mut Seen| {
            !seen.lines[before..]
                .iter()
                .any(|line| line.starts_with("DELETE /v1/drain"))
        };
        seen = shared.changed.wait_while(seen, waits).unwrap();
    }
    let fits =
        |answer: &&KnownAnswer| answer.operation == (method, path) && answer.texts().all(|part| text.contains(part));
    let best = ANSWERS.iter().filter(fits).max_by_key(|answer| answer.texts().count());
    let best = best.unwrap_or_else(|| panic!("answers.txt has no answer to {method} {target}"));
    let number = seen.given.entry(best.line).or_default();
    let all: Vec<_> = ANSWERS.iter().filter(|answer| answer.line == best.line).collect();
    let chosen = all.get(*number).unwrap_or(all.last().unwrap());
    let answer = response(
        chosen.status,
        chosen.headers,
        &chosen.body(*number as u64, &request.body),
    );
    *number += 1;
    if path.ends_with("/invoke") || path.ends_with("/invocations") && method == "POST" {
        seen.run = Some(request);
    }
    answer
}

/// Makes a response of its status, its headers after ` | `, and its body.
fn response(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let media = if status < 400 { "json" } else { "problem+json" };
    let mut head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n", body.len());
    if !headers.contains("content-type: ") {
        head += &format!("content-type: application/{media}\r\n");
    }
    for header in headers.split(" | ").filter(|header| !header.is_empty()) {
        head += &format!("{header}\r\n");
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// A paragraph of `answers.txt`.
struct KnownAnswer {
    line: &'static str,
    /// Method and path.
    operation: (&'static str, &'static str),
    status: u16,
    headers: &'static str,
    text: &'static str,
}

static ANSWERS: LazyLock<Vec<KnownAnswer>> = LazyLock::new(|| {
    let paragraphs = include_str!("answers.txt").trim_end().split("\n\n");
    let read = |paragraph: &'static str| {
        let (line, rest) = paragraph.split_once('\n').unwrap();
        let (status, text) = rest.split_once('\n').unwrap_or((rest, ""));
        let (status, headers) = status.split_once(" | ").unwrap_or((status, ""));
        KnownAnswer {
            line,
            operation: line.split(" | ").next().unwrap().split_once(' ').unwrap(),
            status: status.parse().unwrap(),
            headers,
            text,
        }
    };
    paragraphs.map(read).collect()
});

impl KnownAnswer {
    /// Returns the texts that a request has to contain.
    fn texts(&self) -> impl Iterator<Item = &'static str> {
        self.line.split(" | ").skip(1)
    }

    fn body(&self, number: u64, request: &[u8]) -> Vec<u8> {
        let mut parts = self.text.split("<<");
        let mut body = parts.next().unwrap().as_bytes().to_vec();
        for part in parts {
            let (what, rest) = part.split_once(">>").unwrap();
            match what.split_once(['+', ' ']) {
                None if what == "began" => body.extend(began(0).bytes()),
                None => body.extend(request),
                Some(("began", each)) => body.extend(began(each.parse::<u64>().unwrap() * number).bytes()),
                Some(("hex", bytes)) => {
                    let pairs = bytes
                        .as_bytes()
                        .chunks(2)
                        .map(|pair| std::str::from_utf8(pair).unwrap());
                    body.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()));
                }
                Some((first, each)) => {
                    let sum = first.parse::<u64>().unwrap() + each.parse::<u64>().unwrap() * number;
                    body.extend(sum.to_string().bytes());
                }
            }
            body.extend(rest.bytes());
        }
        if self.headers.contains("ndjson") {
            body.push(b'\n');
        }
        body
    }
}

/// The description of the API, with the schemas of its bodies.
static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| {
    let mut document: Value = serde_json::from_str(include_str!("../../../daemon/src/control/openapi.json")).unwrap();
    document["components"]["schemas"] = fnd_core::api::components().into();
    document
});

/// An operation of the description, and its path there.
struct Operation {
    path: &'static Value,
    operation: &'static Value,
}

impl Operation {
    fn find(method: &str, path: &str) -> Option<Self> {
        let fits = |pattern: &str| {
            // A key of the state may have several parts.
            let (pattern, is_open) = pattern
                .strip_suffix("/{key}")
                .map_or((pattern, false), |path| (path, true));
            let parts = || path.split('/').zip(pattern.split('/'));
            let (count, expected) = (path.split('/').count(), pattern.split('/').count());
            (count == expected && !is_open || count > expected && is_open)
                && parts().all(|(part, expected)| part == expected || expected.starts_with('{'))
        };
        let mut found = DESCRIPTION["paths"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(pattern, _)| fits(pattern));
        found.find_map(|(_, path)| {
            let operation = path.get(method.to_lowercase())?;
            Some(Self { path, operation })
        })
    }

    fn has_parameter(&self, name: &str) -> bool {
        let all = [self.path, self.operation]
            .into_iter()
            .filter_map(|of| of["parameters"].as_array());
        all.flatten().any(|parameter| parameter["name"] == name)
    }

    /// Returns the schema of an answer's body, by its status and media type; nothing if the description has none.
    fn schema(&self, status: u16, media: &str) -> Option<&'static Value> {
        let responses = &self.operation["responses"];
        let mut response = responses.get(status.to_string()).or_else(|| responses.get("default"))?;
        if let Some(reference) = response["$ref"].as_str() {
            response = DESCRIPTION.pointer(reference.trim_start_matches('#')).unwrap();
        }
        response["content"].get(media)?.get("schema")
    }
}

#[test]
fn every_answer_is_one_that_the_api_describes() {
    for answer in &*ANSWERS {
        let (method, path) = answer.operation;
        let operation = Operation::find(method, path).unwrap_or_else(|| panic!("the API has no {method} {path}"));
        let media = match answer
            .headers
            .split(" | ")
            .find_map(|header| header.strip_prefix("content-type: "))
        {
            Some(media) => media,
            None if answer.status < 400 => "application/json",
            None => "application/problem+json",
        };
        // The description of the API says nothing of the bodies that functions answer.
        if answer.headers.contains("fnd-state") {
            continue;
        }
        let schema = operation.schema(answer.status, media);
        let schema = schema.unwrap_or_else(|| panic!("{}: no schema for {} {media}", answer.line, answer.status));
        let mut whole = schema.clone();
        whole["components"] = DESCRIPTION["components"].clone();
        let validator = jsonschema::draft202012::new(&whole).unwrap();
        let body = String::from_utf8(answer.body(1, b"")).unwrap();
        for value in serde_json::Deserializer::from_str(&body).into_iter::<Value>() {
            if let Err(error) = validator.validate(&value.unwrap()) {
                panic!("{}: {error} at {}", answer.line, error.instance_path());
            }
        }
    }
}
