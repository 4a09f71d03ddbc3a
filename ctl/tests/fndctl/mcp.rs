//! `fndctl mcp` with a client that speaks the protocol by hand. A client library speaks to it in `tests/it/mcp.rs`.

use crate::fndctl;
use crate::server::{ENDED, FAILED, RUNNING, Running};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A client with its server.
struct McpClient {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    requests: u64,
}

impl McpClient {
    fn start(server: &Running, arguments: &[&str]) -> Self {
        let mut command = fndctl(&server.socket);
        command.arg("mcp").args(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut client = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            requests: 0,
        };
        let about = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about });
        let answer = client.ask("initialize", &hello);
        assert_eq!(answer["serverInfo"]["name"], "fnd");
        assert_eq!(answer["capabilities"]["tools"]["listChanged"], true);
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    fn send(&mut self, message: &Value) {
        self.input.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    /// Sends a request, and returns its id.
    fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Returns the next message that has a field with this value.
    fn receive(&mut self, field: &str, value: &Value) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server has ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message[field] == *value {
                return message;
            }
        }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.receive("id", &id.into());
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    fn tools(&mut self) -> Vec<Value> {
        let list = self.ask("tools/list", &json!({}));
        list["tools"].as_array().unwrap().clone()
    }

    /// Closes standard input, and returns whether the server ends well.
    fn end(mut self) -> bool {
        drop(self.input);
        self.child.wait().unwrap().success()
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[test]
fn functions_that_ask_for_it_are_tools() {
    let server = Running::start();
    let mut client = McpClient::start(&server, &[]);
    let tools = client.tools();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["fnd_status", "fnd_history", "fnd_logs", "full", "oom", "slow", "text"]
    );
    assert_eq!(tools[2]["annotations"]["readOnlyHint"], true);
    assert_eq!(tools[3]["inputSchema"], json!({ "type": "object" }));
    assert_eq!(tools[6]["description"], "Greets a person");
    assert_eq!(tools[6]["inputSchema"]["required"], json!(["name"]));
    assert!(client.end());
}

#[test]
fn only_allowed_functions_are_offered_and_shown() {
    let server = Running::start();
    let mut client = McpClient::start(&server, &["--allow", "te*", "--allow", "f?ll"]);
    let names: Vec<Value> = client.tools().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names[3..], [json!("full"), json!("text")]);
    for (tool, arguments) in [
        ("oom", json!({})),
        ("fnd_logs", json!({ "id": ENDED })),
        ("fnd_history", json!({ "function": "hello" })),
    ] {
        assert_eq!(client.call(tool, &arguments)["isError"], true, "{tool}");
    }
    assert_eq!(
        client.call("fnd_history", &json!({}))["structuredContent"]["runs"],
        json!([])
    );
    // The runs that are shown may be on a later page.
    assert!(server.was_asked("&after="));
    // Numbers and problems of all functions tell of those that are not shown.
    let status = client.call("fnd_status", &json!({}));
    assert_eq!(status["structuredContent"]["dead_letters"], 0);
}

#[test]
fn a_call_runs_the_function_and_returns_its_result() {
    let server = Running::start();
    let mut client = McpClient::start(&server, &[]);
    let result = client.call("text", &json!({ "name": "Ada" }));
    assert_eq!(
        (text(&result), &result["structuredContent"]),
        ("{\"hello\": \"Ada\"}", &json!({ "hello": "Ada" }))
    );
    let sent = server.run_request().unwrap();
    assert_eq!(
        (sent.path.as_str(), sent.body.as_slice()),
        ("/v1/functions/text/invocations", &b"{\"name\":\"Ada\"}"[..])
    );
    assert_eq!(sent.header("content-type"), Some("application/json"));
}

#[test]
fn errors_say_what_happened_and_what_to_do() {
    let server = Running::start();
    let mut client = McpClient::start(&server, &[]);
    for (tool, arguments, words) in [
        (
            "oom",
            json!({}),
            &["no such host", "`fnd_logs` with the id", FAILED][..],
        ),
        ("full", json!({}), &["the queue of `full` is full"]),
        (
            "nobody",
            json!({}),
            &["there is no tool `nobody`", "list the tools again"],
        ),
        ("no such name", json!({}), &["there is no tool"]),
        ("fnd_logs", json!({ "id": "1234" }), &["is not the id of a run"]),
        (
            "fnd_logs",
            json!({}),
            &["the arguments of `fnd_logs` are wrong", "`id`"],
        ),
    ] {
        let result = client.call(tool, &arguments);
        assert_eq!(result["isError"], true, "{tool}");
        assert!(
            words.iter().all(|word| text(&result).contains(word)),
            "{tool}: {result}"
        );
    }
    // The client has learnt of the failure: it is no dead letter.
    assert!(server.was_asked(&format!("DELETE /v1/dead-letters/{FAILED}")));
}

#[test]
fn agents_can_read_state_history_and_output() {
    let server = Running::start();
    let mut client = McpClient::start(&server, &[]);
    let status = client.call("fnd_status", &json!({}));
    assert_eq!(status["structuredContent"]["functions"][0]["function"], "fails");
    assert_eq!(
        status["structuredContent"]["functions"][0]["message"],
        "no such host \u{1b}[31mdb1"
    );
    let history = client.call("fnd_history", &json!({ "function": "hello", "limit": 5 }));
    assert_eq!(history["structuredContent"]["runs"][0]["function"], "hello");
    assert!(server.was_asked("/v1/invocations?function=hello&limit=5"));
    let logs = client.call("fnd_logs", &json!({ "id": ENDED }));
    assert!(
        text(&logs).ends_with("stdout first\n2026-11-21T08:00:00.123Z stderr second \u{1b}[31m"),
        "{logs}"
    );
}

#[test]
fn a_run_reports_progress_and_a_cancelled_call_cancels_it() {
    let server = Running::start();
    let mut client = McpClient::start(&server, &[]);
    let params = json!({ "name": "slow", "arguments": {}, "_meta": { "progressToken": "p1" } });
    let id = client.begin("tools/call", &params);
    let progress = client.receive("method", &json!("notifications/progress"));
    assert_eq!(progress["params"]["progressToken"], "p1");
    assert_eq!(progress["params"]["message"], "half of it is done");
    let cancelled = json!({ "requestId": id, "reason": "the person has changed their mind" });
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }));
    server.wait_for(&format!("POST /v1/invocations/{RUNNING}/cancel"));
    assert!(client.end());
}

#[test]
fn without_fnd_the_client_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = fndctl(&directory.path().join("no.sock"));
    let output = command.arg("mcp").output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is fnd running?"));
}
