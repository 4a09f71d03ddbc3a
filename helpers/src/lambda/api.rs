//! The Runtime API of Lambda (2018-06-01) and the least of its Extensions API (2020-01-01): which request asks for which thing,
//! and the answers. Nothing is decided about calls here.
//!
//! Statuses, types and texts of refusals are those of AWS's emulator: clients end at any other status than the expected one.

use super::calls::Invocation;
use super::trace;
use fnd_core::records::protocol::{FailureKind, ProtocolFailure};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

pub(super) type Reply = Response<Full<Bytes>>;

/// Of a request: the number of the call that the answer is for, and how a call failed.
pub(super) const INVOCATION_ID: &str = "lambda-runtime-invocation-id";
pub(super) const ERROR_TYPE: &str = "lambda-runtime-function-error-type";
/// Only as a trailer of a streamed response: the error, in base64.
pub(super) const ERROR_BODY: &str = "lambda-runtime-function-error-body";
/// `streaming`: the response may be sent on before it has ended.
const RESPONSE_MODE: &str = "lambda-runtime-function-response-mode";
pub(super) const EXTENSION_ERROR_TYPE: &str = "lambda-extension-function-error-type";
pub(super) const EXTENSION_NAME: &str = "lambda-extension-name";
pub(super) const EXTENSION_ID: &str = "lambda-extension-identifier";

pub(super) const CONTENT_TYPE: &str = "content-type";

const JSON: &str = "application/json";
/// The client of Go calls the bytes of a handler so, whatever they are.
const BYTES: &str = "application/octet-stream";
/// An answer to a request that is made as a stream.
const PRELUDE: &str = "application/vnd.awslambda.http-integration-response";
/// `curl --data` states it unasked, so it says nothing about a response.
const FORM: &str = "application/x-www-form-urlencoded";
/// Longest media type of a result in bytes: it is part of a frame's head.
const TYPE_MAX: usize = 1024;
/// Most bytes of an error's message, of which fnd keeps less, and of its stack. An Error fits in a message to fnd with them, however
/// small `limits.result` is.
const MESSAGE_MAX: usize = 8 << 10;
const STACK_MAX: usize = 32 << 10;
/// The deadline of a call without one, in milliseconds from now. Clients need a number; some set timers to it, and a timer of node
/// goes off at once if it is longer than 24 days.
const NO_DEADLINE_MS: u64 = 24 * 60 * 60 * 1000;

/// The thing that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route<'p> {
    Next,
    Response(&'p str),
    Error(&'p str),
    InitError,
    RestoreNext,
    RestoreError,
    Register,
    EventNext,
    ExtensionError,
    Logs,
    Telemetry,
    WrongMethod,
    Unknown,
}

/// Returns what a request asks for.
pub(super) fn route<'p>(method: &str, path: &'p str) -> Route<'p> {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let (expected, route) = match parts[..] {
        ["2018-06-01", "runtime", "invocation", "next"] => ("GET", Route::Next),
        ["2018-06-01", "runtime", "invocation", id, "response"] => ("POST", Route::Response(id)),
        ["2018-06-01", "runtime", "invocation", id, "error"] => ("POST", Route::Error(id)),
        ["2018-06-01", "runtime", "init", "error"] => ("POST", Route::InitError),
        ["2018-06-01", "runtime", "restore", "next"] => ("GET", Route::RestoreNext),
        ["2018-06-01", "runtime", "restore", "error"] => ("POST", Route::RestoreError),
        ["2020-01-01", "extension", "register"] => ("POST", Route::Register),
        ["2020-01-01", "extension", "event", "next"] => ("GET", Route::EventNext),
        ["2020-01-01", "extension", "init" | "exit", "error"] => ("POST", Route::ExtensionError),
        ["2020-08-15", "logs"] => ("PUT", Route::Logs),
        ["2022-07-01", "telemetry"] => ("PUT", Route::Telemetry),
        _ => return Route::Unknown,
    };
    if method == expected { route } else { Route::WrongMethod }
}

/// Returns the text of a header; nothing if it is missing or no text.
pub(super) fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

pub(super) fn reply(status: StatusCode, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    set(&mut reply, CONTENT_TYPE, JSON);
    reply
}

pub(super) fn json_reply(status: StatusCode, body: &Value) -> Reply {
    reply(status, body.to_string().into())
}

/// Sets a header. A value that cannot be one is left out: none of these values has control characters.
pub(super) fn set(reply: &mut Reply, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        reply.headers_mut().insert(name, value);
    }
}

/// Returns the answer to a good post.
pub(super) fn accepted() -> Reply {
    json_reply(StatusCode::ACCEPTED, &json!({ "status": "OK" }))
}

pub(super) fn refusal(status: StatusCode, kind: &str, message: &str) -> Reply {
    json_reply(status, &json!({ "errorType": kind, "errorMessage": message }))
}

/// Returns the answer to an answer for a call that does not wait for one.
pub(super) fn invalid_id() -> Reply {
    refusal(StatusCode::BAD_REQUEST, "InvalidRequestID", "Invalid request ID")
}

/// Returns the answer to a body that is larger than it may be.
pub(super) fn too_large(most: usize) -> Reply {
    let message = format!("Exceeded maximum allowed payload size ({most} bytes).");
    refusal(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &message)
}

/// Returns the answer to a client with an event: the next call.
pub(super) fn event_reply(invocation: &Invocation, arn: &str, now_ms: u64) -> Reply {
    let mut reply = reply(StatusCode::OK, invocation.event.clone());
    let deadline = deadline_ms(invocation, now_ms).to_string();
    set(&mut reply, "lambda-runtime-aws-request-id", &invocation.id);
    set(&mut reply, INVOCATION_ID, &invocation.call.to_string());
    set(&mut reply, "lambda-runtime-deadline-ms", &deadline);
    set(&mut reply, "lambda-runtime-invoked-function-arn", arn);
    if let Some(trace) = trace::x_ray(&invocation.traceparent) {
        set(&mut reply, "lambda-runtime-trace-id", &trace);
    }
    if let Some(content_type) = &invocation.content_type {
        set(&mut reply, CONTENT_TYPE, content_type);
    }
    reply
}

fn deadline_ms(invocation: &Invocation, now_ms: u64) -> u64 {
    let none = now_ms.saturating_add(NO_DEADLINE_MS);
    invocation.deadline_ms.unwrap_or(none)
}

/// Returns the event of a call for the extensions that asked for it.
pub(super) fn invoke_event(invocation: &Invocation, arn: &str, now_ms: u64) -> Value {
    json!({
        "eventType": "INVOKE",
        "deadlineMs": deadline_ms(invocation, now_ms),
        "requestId": invocation.id,
        "invokedFunctionArn": arn,
        "tracing": { "type": "X-Amzn-Trace-Id", "value": trace::x_ray(&invocation.traceparent).unwrap_or_default() },
    })
}

/// Returns the media type of a result, by the header of the response.
pub(super) fn result_type(header: Option<&str>, is_stream: bool) -> &str {
    let stated = header.filter(|stated| !stated.is_empty() && stated.len() <= TYPE_MAX);
    // The client of Swift states no type for a stream of bytes.
    let unstated = if is_stream { BYTES } else { JSON };
    stated.filter(|stated| *stated != FORM).unwrap_or(unstated)
}

/// Returns the media type of a result that has come whole. That of a stream does not depend on whether it came fast enough for that.
pub(super) fn whole_type<'t>(stated: &'t str, is_stream: bool, body: &[u8]) -> &'t str {
    let is_json = !is_stream && stated == BYTES && serde_json::from_slice::<IgnoredAny>(body).is_ok();
    if is_json { JSON } else { stated }
}

/// Says whether a response may be sent on before it has ended. The client of Go does not state the mode.
pub(super) fn is_stream(headers: &HeaderMap) -> bool {
    let stated = text(headers, CONTENT_TYPE).unwrap_or_default();
    let media = stated.split(';').next().unwrap_or_default();
    text(headers, RESPONSE_MODE) == Some("streaming") || media.trim().eq_ignore_ascii_case(PRELUDE)
}

/// Returns the failure that a client reports: `kind` is the type that its header names, the body is JSON in the form of Lambda.
pub(super) fn failure(kind: Option<&str>, body: &[u8]) -> ProtocolFailure {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    let words = |key: &str| error.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let kind = words("errorType").or(kind.filter(|kind| !kind.is_empty()));
    // A body of another form is the message.
    let plain = || String::from_utf8_lossy(body).trim().to_owned();
    let message = match (words("errorMessage"), &error) {
        (Some(message), _) => message.to_owned(),
        (None, Value::Object(_)) => String::new(),
        (None, Value::String(text)) => text.clone(),
        (None, _) => plain(),
    };
    let message = match (kind, message.is_empty()) {
        (Some(kind), false) => format!("{kind}: {message}"),
        (Some(kind), true) => kind.to_owned(),
        (None, false) => message,
        (None, true) => "the function reported an error without a message".to_owned(),
    };
    // The client of node calls it `trace`.
    let stack = error.get("stackTrace").or_else(|| error.get("trace")).and_then(stack);
    error_of(message, stack)
}

/// Returns the failure of a call with a message of the shim.
pub(super) fn error_of(message: String, stack: Option<String>) -> ProtocolFailure {
    ProtocolFailure {
        kind: FailureKind::Error,
        message: cut(message, MESSAGE_MAX),
        printed: false,
        stack: stack.map(|stack| cut(stack, STACK_MAX)),
        data: None,
    }
}

fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push_str(" ...");
    }
    text
}

/// Returns a stack trace as lines: a list of texts, or of objects as Go sends them.
fn stack(trace: &Value) -> Option<String> {
    let lines: Vec<String> = match trace {
        Value::String(text) => vec![text.clone()],
        Value::Array(frames) => frames.iter().map(stack_line).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => vec![],
    };
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn stack_line(frame: &Value) -> String {
    let part = |key: &str| frame.get(key).and_then(Value::as_str);
    match (frame, part("label"), part("path")) {
        (Value::String(line), _, _) => line.trim_end().to_owned(),
        (_, Some(label), Some(path)) => {
            let line = frame.get("line").and_then(Value::as_u64).unwrap_or_default();
            format!("{label} ({path}:{line})")
        }
        _ => frame.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fnd_core::records::protocol::HEAD_MAX;
    use http_body_util::BodyExt as _;

    /// More lines than fit.
    const MANY: usize = 10_000;

    #[test]
    fn a_request_asks_for_one_thing() {
        for (request, expected) in [
            ("GET /2018-06-01/runtime/invocation/next", Route::Next),
            ("POST /2018-06-01/runtime/invocation/next", Route::WrongMethod),
            (
                "POST /2018-06-01/runtime/invocation/a-1/response",
                Route::Response("a-1"),
            ),
            ("POST /2018-06-01/runtime/invocation/a-1/error", Route::Error("a-1")),
            ("POST /2018-06-01/runtime/invocation//error", Route::Error("")),
            ("POST /2018-06-01/runtime/init/error", Route::InitError),
            ("GET /2018-06-01/runtime/restore/next", Route::RestoreNext),
            ("POST /2018-06-01/runtime/restore/error", Route::RestoreError),
            ("POST /2020-01-01/extension/register", Route::Register),
            ("GET /2020-01-01/extension/event/next", Route::EventNext),
            ("POST /2020-01-01/extension/init/error", Route::ExtensionError),
            ("POST /2020-01-01/extension/exit/error", Route::ExtensionError),
            ("PUT /2020-08-15/logs", Route::Logs),
            ("PUT /2022-07-01/telemetry", Route::Telemetry),
            ("GET /", Route::Unknown),
            ("OPTIONS *", Route::Unknown),
            ("GET /2018-06-01/runtime/invocation/next/", Route::Unknown),
            ("GET /x/2018-06-01/runtime/invocation/next", Route::Unknown),
        ] {
            let (method, path) = request.split_once(' ').unwrap();
            assert_eq!(route(method, path), expected, "{request}");
        }
    }

    #[test]
    fn a_failure_has_type_message_and_stack() {
        for (kind, body, message, stack) in [
            (None, r#"{"errorType":"E","errorMessage":"no"}"#, "E: no", None),
            (Some("X"), r#"{"errorType":"E","errorMessage":"no"}"#, "E: no", None),
            (Some("X"), r#"{"errorMessage":"no"}"#, "X: no", None),
            (None, r#"{"errorMessage":"no"}"#, "no", None),
            (None, r#"{"errorType":"E","errorMessage":""}"#, "E", None),
            (Some("X"), "", "X", None),
            (None, " it broke\n", "it broke", None),
            (None, r#""it broke""#, "it broke", None),
            (None, "{}", "the function reported an error without a message", None),
            (None, "", "the function reported an error without a message", None),
            (Some("E"), r#"{"stackTrace":["  a\n","  b\n"]}"#, "E", Some("  a\n  b")),
            (Some("E"), r#"{"trace":["E: no","  at f"]}"#, "E", Some("E: no\n  at f")),
            (
                Some("E"),
                r#"{"stackTrace":[{"path":"p.go","line":7,"label":"f"},[1]]}"#,
                "E",
                Some("f (p.go:7)\n[1]"),
            ),
            (Some("E"), r#"{"stackTrace":null}"#, "E", None),
        ] {
            let found = failure(kind, body.as_bytes());
            assert_eq!((&*found.message, found.stack.as_deref()), (message, stack), "{body}");
            assert_eq!(found.kind, FailureKind::Error);
        }
    }

    #[test]
    fn an_error_of_any_size_fits_in_a_message_of_a_small_limit() {
        let lines = vec!["line \"é\""; MANY];
        let body = json!({ "errorType": "é".repeat(MANY), "stackTrace": lines }).to_string();
        let found = failure(None, body.as_bytes());
        let stack = found.stack.as_deref().unwrap();
        assert!(found.message.ends_with("é ...") && found.message.len() <= MESSAGE_MAX + 4);
        assert!(stack.starts_with("line \"é\"\nline") && stack.ends_with(" ..."));
        assert!(serde_json::to_vec(&found).unwrap().len() < HEAD_MAX);
    }

    #[test]
    fn a_result_is_json_unless_the_client_says_otherwise() {
        let long = "x".repeat(TYPE_MAX + 1);
        for (header, expected) in [
            (None, None),
            (Some(""), None),
            (Some(FORM), None),
            (Some(&*long), None),
            (Some("text/plain"), Some("text/plain")),
        ] {
            assert_eq!(result_type(header, false), expected.unwrap_or(JSON));
            assert_eq!(result_type(header, true), expected.unwrap_or(BYTES));
        }
    }

    #[test]
    fn bytes_that_are_json_are_json() {
        for (stated, is_stream, body, expected) in [
            (BYTES, false, "{}", JSON),
            (BYTES, false, "no", BYTES),
            (BYTES, false, "", BYTES),
            (BYTES, true, "{}", BYTES),
            (BYTES, true, "", BYTES),
            (JSON, true, "", JSON),
            (PRELUDE, true, "{}", PRELUDE),
            ("text/plain", false, "{}", "text/plain"),
        ] {
            let found = whole_type(stated, is_stream, body.as_bytes());
            assert_eq!(found, expected, "{stated} {is_stream} {body}");
        }
    }

    #[test]
    fn a_stream_is_known_by_its_mode_or_its_media_type() {
        let parameter = format!("{PRELUDE}; a=b");
        for (name, value, expected) in [
            (RESPONSE_MODE, "streaming", true),
            (RESPONSE_MODE, "buffered", false),
            (CONTENT_TYPE, PRELUDE, true),
            (CONTENT_TYPE, &*parameter, true),
            (CONTENT_TYPE, JSON, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_str(value).unwrap());
            assert_eq!(is_stream(&headers), expected, "{value}");
        }
        assert!(!is_stream(&HeaderMap::new()));
    }

    #[test]
    fn an_event_has_the_headers_that_clients_need() {
        let mut invocation = Invocation {
            call: 3,
            id: "i".to_owned(),
            traceparent: "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01".to_owned(),
            deadline_ms: Some(1_790_000_000_000),
            content_type: None,
            event: Bytes::from_static(b"{}"),
        };
        let reply = event_reply(&invocation, "arn:x", 5);
        let header = |reply: &Reply, name: &str| text(reply.headers(), name).map(str::to_owned);
        for (name, expected) in [
            ("lambda-runtime-aws-request-id", "i"),
            ("lambda-runtime-invocation-id", "3"),
            ("lambda-runtime-deadline-ms", "1790000000000"),
            ("lambda-runtime-invoked-function-arn", "arn:x"),
            (
                "lambda-runtime-trace-id",
                "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1",
            ),
            ("content-type", JSON),
        ] {
            assert_eq!(header(&reply, name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(
            invoke_event(&invocation, "arn:x", 5)["deadlineMs"],
            1_790_000_000_000_u64
        );
        invocation.deadline_ms = None;
        invocation.traceparent = String::new();
        invocation.content_type = Some("text/csv".to_owned());
        let reply = event_reply(&invocation, "arn:x", 5);
        assert_eq!(header(&reply, "lambda-runtime-trace-id"), None);
        assert_eq!(
            header(&reply, "lambda-runtime-deadline-ms").as_deref(),
            Some("86400005")
        );
        assert_eq!(header(&reply, "content-type").as_deref(), Some("text/csv"));
        assert_eq!(invoke_event(&invocation, "arn:x", 5)["tracing"]["value"], "");
    }

    #[tokio::test]
    async fn refusals_are_those_of_lambda() {
        let reply = invalid_id();
        assert_eq!(reply.status(), StatusCode::BAD_REQUEST);
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            body,
            json!({ "errorType": "InvalidRequestID", "errorMessage": "Invalid request ID" })
        );
        assert_eq!(too_large(1).status(), StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(accepted().status(), StatusCode::ACCEPTED);
    }
}
