//! The worker between a real socket of fnd and a real client on the loopback, without processes of a function.

use super::*;
use fnd_core::records::protocol::worker_side::{ready, stream_end, stream_part, stream_start};
use fnd_core::records::protocol::{InvokeHead, ResultHead, invoke, stop};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// No step of these tests takes longer, unless it waits for ever.
const LONGEST: Duration = Duration::from_secs(20);

/// A worker without processes, and the end of the socket that fnd has.
struct TestWorker {
    fnd: UnixStream,
    port: u16,
    /// Ends with the worker; says whether fnd asked it to stop.
    thread: JoinHandle<bool>,
}

impl TestWorker {
    fn start(concurrency: u32) -> Self {
        let (fnd, theirs) = UnixStream::pair().unwrap();
        fnd.set_read_timeout(Some(LONGEST)).unwrap();
        let (port, ports) = channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            LocalSet::new().block_on(&runtime, async move {
                let facts = FunctionFacts::of(&|_| None, Path::new("/code/bootstrap"), concurrency);
                let worker = OpenWorker::new(theirs, facts).await.unwrap();
                port.send(worker.port).unwrap();
                tokio::select! {
                    biased;
                    () = worker.state.stopped() => {
                        worker.state.flush().await;
                        true
                    }
                    closed = worker::read(worker.reader, &worker.state) => {
                        closed.unwrap();
                        false
                    }
                }
            })
        });
        let port = ports.recv_timeout(LONGEST).unwrap();
        Self { fnd, port, thread }
    }

    /// Starts a worker, and a client that waits for its first call.
    fn with_client() -> (Self, TestClient) {
        let mut worker = Self::start(1);
        let mut client = worker.connect();
        client.get(NEXT);
        worker.expect(&ready(1));
        (worker, client)
    }

    fn invoke(&mut self, call: u64, id: &str, event: &[u8]) {
        let head = InvokeHead {
            invocation: id.into(),
            deadline_ms: Some(7),
            ..InvokeHead::default()
        };
        let message = invoke(call, head, Some(&event.into()), None).unwrap();
        self.fnd.write_all(&message.joined()).unwrap();
    }

    /// Expects these frames from the worker.
    fn expect(&mut self, frames: &[u8]) {
        let mut found = vec![0; frames.len()];
        self.fnd.read_exact(&mut found).unwrap();
        assert_eq!(found.escape_ascii().to_string(), frames.escape_ascii().to_string());
    }

    /// Lets a client begin a streamed response, and expects its begin.
    fn stream(&mut self, client: &mut TestClient, call: u64, id: &str) {
        client.send(&format!(
            "POST {} HTTP/1.1\r\nhost: x\r\nlambda-runtime-function-response-mode: streaming\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n",
            path(id, "response")
        ));
        self.expect(&stream_start(call, "application/octet-stream"));
        self.expect(&stream_part(call, b"abc"));
    }

    fn connect(&self) -> TestClient {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(LONGEST)).unwrap();
        TestClient(stream)
    }

    /// Closes the socket of fnd, as fnd does at its end.
    fn end(self) -> bool {
        drop(self.fnd);
        self.thread.join().unwrap()
    }
}

/// A connection of the function.
struct TestClient(TcpStream);

impl TestClient {
    fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).unwrap();
    }

    fn get(&mut self, path: &str) {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
    }

    fn post(&mut self, path: &str, headers: &str, body: &str) {
        let size = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {size}\r\n{headers}\r\n{body}"
        ));
    }

    /// Returns the head of an answer and its body.
    fn answer(&mut self) -> (String, String) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            head.extend_from_slice(&byte);
        }
        let head = String::from_utf8(head).unwrap();
        let size = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; size.unwrap().parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        (head, String::from_utf8(body).unwrap())
    }

    /// Expects an answer with this status and body. The order of keys in JSON does not count.
    fn expect(&mut self, status: &str, body: &str) -> String {
        let (head, found) = self.answer();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}{found}");
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_else(|_| text.into());
        assert_eq!(json(&found), json(body));
        head
    }
}

const NEXT: &str = "/2018-06-01/runtime/invocation/next";
const OK: &str = r#"{"status":"OK"}"#;
const INVALID: &str = r#"{"errorMessage":"Invalid request ID","errorType":"InvalidRequestID"}"#;

fn path(id: &str, end: &str) -> String {
    format!("/2018-06-01/runtime/invocation/{id}/{end}")
}

fn failed(call: u64, message: &str) -> Vec<u8> {
    worker_side::failure(call, &api::error_of(message.to_owned(), None))
}

fn answered(call: u64, content_type: &str, body: &str) -> Vec<u8> {
    let head = ResultHead {
        content_type: Some(content_type.to_owned()),
        data: Some(body.len() as u64),
        ..ResultHead::default()
    };
    worker_side::result(call, &head, body.to_owned().into())
}

#[test]
fn a_call_goes_to_the_client_and_its_answer_to_fnd() {
    let (mut worker, mut client) = TestWorker::with_client();
    worker.invoke(1, "a", b"[1]");
    let head = client.expect("200", "[1]");
    for line in [
        "Lambda-Runtime-Aws-Request-Id: a",
        "Lambda-Runtime-Invocation-Id: 1",
        "Lambda-Runtime-Deadline-Ms: 7",
        "Lambda-Runtime-Invoked-Function-Arn: arn:aws:lambda:us-east-1:000000000000:function:function",
        "Content-Type: application/json",
    ] {
        assert!(head.lines().any(|found| found == line), "{line}: {head}");
    }
    client.post(&path("b", "response"), "", "2");
    client.expect("400", INVALID);
    client.post(&path("a", "response"), "", "2");
    client.expect("202", OK);
    worker.expect(&answered(1, "application/json", "2"));
    client.post(&path("a", "response"), "", "2");
    client.expect("400", INVALID);
    // A call that waits for its `next`.
    worker.invoke(2, "b", b"{}");
    client.get(NEXT);
    client.expect("200", "{}");
    client.post(&path("b", "error"), "", r#"{"errorType":"E","errorMessage":"no"}"#);
    client.expect("202", OK);
    worker.expect(&failed(2, "E: no"));
    client.get("/nothing");
    client.expect("404", "404 page not found");
    assert!(!worker.end());
}

/// With two writes, a client would wait 40 ms for the second one.
#[test]
fn an_answer_comes_in_one_write() {
    let (mut worker, mut client) = TestWorker::with_client();
    let whole = |client: &mut TestClient, body: &str| {
        let mut bytes = [0; 4096];
        let size = client.0.read(&mut bytes).unwrap();
        let answer = String::from_utf8_lossy(&bytes[..size]);
        assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
    };
    worker.invoke(1, "a", b"[1]");
    whole(&mut client, "[1]");
    client.post(&path("a", "response"), "", "2");
    whole(&mut client, OK);
    worker.expect(&answered(1, "application/json", "2"));
    worker.end();
}

#[test]
fn several_clients_have_calls_at_once() {
    let mut worker = TestWorker::start(2);
    let mut clients = [worker.connect(), worker.connect()];
    clients.iter_mut().for_each(|client| client.get(NEXT));
    worker.expect(&ready(2));
    worker.invoke(1, "a", b"1");
    worker.invoke(2, "b", b"2");
    let mut answers: Vec<_> = clients.iter_mut().map(|client| client.answer().1).collect();
    answers.sort();
    assert_eq!(answers, ["1", "2"]);
    let [client, _] = &mut clients;
    for (call, id) in [(2, "b"), (1, "a")] {
        client.post(&path(id, "response"), "content-type: text/plain\r\n", id);
        client.expect("202", OK);
        worker.expect(&answered(call, "text/plain", id));
    }
    worker.end();
}

#[test]
fn a_stream_reaches_fnd_before_it_ends() {
    let (mut worker, mut client) = TestWorker::with_client();
    worker.invoke(1, "a", b"1");
    client.answer();
    worker.stream(&mut client, 1, "a");
    client.send("2\r\nde\r\n0\r\n\r\n");
    worker.expect(&stream_part(1, b"de"));
    worker.expect(&stream_end(1));
    client.expect("202", OK);
    // A failure after the begin makes the result void.
    worker.invoke(2, "b", b"1");
    client.get(NEXT);
    client.answer();
    worker.stream(&mut client, 2, "b");
    client.send("0\r\nlambda-runtime-function-error-type: E\r\n\r\n");
    worker.expect(&failed(2, "E"));
    client.expect("202", OK);
    // A client that breaks off fails its call, and no other one.
    worker.invoke(3, "c", b"1");
    client.get(NEXT);
    client.answer();
    client.post(&path("c", "response"), "", "whole");
    client.expect("202", OK);
    worker.expect(&answered(3, "application/json", "whole"));
    worker.invoke(4, "d", b"1");
    client.get(NEXT);
    client.answer();
    worker.stream(&mut client, 4, "d");
    drop(client);
    worker.expect(&failed(4, "the function broke off its response"));
    worker.end();
}

/// It sends chunks and names trailers without a mode, and calls JSON bytes.
#[test]
fn the_client_of_go_is_understood() {
    let (mut worker, mut client) = TestWorker::with_client();
    let prelude = "application/vnd.awslambda.http-integration-response";
    let begin = |id: &str, content_type: &str| {
        let path = path(id, "response");
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\ntrailer: \
             Lambda-Runtime-Function-Error-Type,Lambda-Runtime-Function-Error-Body\r\n\r\n"
        )
    };
    worker.invoke(1, "a", b"1");
    client.answer();
    client.send(&format!(
        "{}3\r\n[1]\r\n0\r\n\r\n",
        begin("a", "application/octet-stream")
    ));
    worker.expect(&answered(1, "application/json", "[1]"));
    client.expect("202", OK);
    worker.invoke(2, "b", b"1");
    client.get(NEXT);
    client.answer();
    client.send(&format!("{}2\r\n{{}}\r\n", begin("b", prelude)));
    worker.expect(&stream_start(2, prelude));
    worker.expect(&stream_part(2, b"{}"));
    client.send("0\r\n\r\n");
    worker.expect(&stream_end(2));
    client.expect("202", OK);
    worker.end();
}

#[test]
fn an_error_may_have_a_large_head_and_large_trailers() {
    let (mut worker, mut client) = TestWorker::with_client();
    worker.invoke(1, "a", b"1");
    client.answer();
    let cause = format!(
        "lambda-runtime-function-xray-error-cause: {}\r\n",
        "x".repeat((1 << 20) - 1)
    );
    client.post(&path("a", "error"), &cause, r#"{"errorType":"E"}"#);
    client.expect("202", OK);
    worker.expect(&failed(1, "E"));
    worker.invoke(2, "b", b"1");
    client.get(NEXT);
    client.answer();
    worker.stream(&mut client, 2, "b");
    let more = "x".repeat(60_000);
    client.send(&format!(
        "0\r\nlambda-runtime-function-error-type: E\r\nmore: {more}\r\n\r\n"
    ));
    worker.expect(&failed(2, "E"));
    client.expect("202", OK);
    worker.end();
}

#[tokio::test]
async fn a_worker_retires_after_its_calls_and_after_their_answers() {
    use tokio::io::AsyncReadExt as _;
    let facts = FunctionFacts::of(&|_| None, Path::new("/code/bootstrap"), 1);
    let (state, queue) = WorkerState::new(facts);
    state.retire();
    tokio::select! {
        biased;
        _ = state.next_call() => panic!("there is no call"),
        () = std::future::ready(()) => {}
    }
    state.add_call(calls::Invocation {
        call: 1,
        id: "a".to_owned(),
        traceparent: String::new(),
        deadline_ms: None,
        content_type: None,
        event: hyper::body::Bytes::new(),
    });
    state.retire();
    state.fail_calls(&api::error_of("no".to_owned(), None));
    state.retire();
    let (mut fnd, own) = tokio::net::UnixStream::pair().unwrap();
    let (_reader, writer) = own.into_split();
    worker::write(writer, queue).await;
    state.flush().await;
    let mut found = Vec::new();
    fnd.read_to_end(&mut found).await.unwrap();
    assert_eq!(found, [ready(1), failed(1, "no")].concat());
}

#[tokio::test]
async fn a_worker_is_ready_once_its_extensions_have_registered() {
    let facts = FunctionFacts::of(&|_| None, Path::new("/code/bootstrap"), 1);
    let (state, _queue) = WorkerState::new(facts);
    state.extensions.borrow_mut().await_all(vec!["x".to_owned()]);
    for expected in [false, true] {
        tokio::select! {
            biased;
            _ = state.next_call() => panic!("there is no call"),
            () = std::future::ready(()) => {}
        }
        assert_eq!(state.is_ready(), expected);
        let _ = state.register("x", b"{}");
    }
}

#[test]
fn a_worker_stops_after_its_calls() {
    let (mut worker, mut client) = TestWorker::with_client();
    worker.invoke(1, "a", b"1");
    client.answer();
    worker.fnd.write_all(&stop().joined()).unwrap();
    client.post(&path("a", "response"), "", "2");
    worker.expect(&answered(1, "application/json", "2"));
    assert!(worker.end());
}

#[test]
fn an_extension_registers_and_gets_events() {
    let mut worker = TestWorker::start(1);
    let (mut client, mut extension) = (worker.connect(), worker.connect());
    let register = "/2020-01-01/extension/register";
    extension.post(register, "lambda-extension-name: x\r\n", r#"{"events":["INVOKE"]}"#);
    let body = r#"{"functionName":"function","functionVersion":"$LATEST","handler":"bootstrap"}"#;
    let head = extension.expect("200", body);
    let id = "00000000-0000-4000-8000-000000000001";
    assert!(head.contains(&format!("Lambda-Extension-Identifier: {id}")), "{head}");
    extension.post("/2020-01-01/extension/init/error", "", "{}");
    let (head, _) = extension.answer();
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    extension.send(&format!(
        "GET /2020-01-01/extension/event/next HTTP/1.1\r\nhost: x\r\nlambda-extension-identifier: {id}\r\n\r\n"
    ));
    client.get(NEXT);
    worker.expect(&ready(1));
    worker.invoke(1, "a", b"1");
    client.answer();
    let (_, event) = extension.answer();
    let event: Value = serde_json::from_str(&event).unwrap();
    assert_eq!(
        (&event["eventType"], &event["requestId"]),
        (&"INVOKE".into(), &"a".into())
    );
    client.send("PUT /2022-07-01/telemetry HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}");
    let refused = r#"{"errorMessage":"Telemetry API is not supported","errorType":"Telemetry.NotSupported"}"#;
    client.expect("202", refused);
    worker.end();
}
