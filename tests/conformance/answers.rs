//! Payloads and answers, which are the same for every runtime.

use crate::runtimes::{self, Runtime};
use crate::worker::{Answer, Call, Worker};
use fnd_core::records::protocol::{FailureKind, HttpRequest, Level};
use serde_json::{Value, json};

/// Runs `judge` with a worker of a function, for each runtime that has it.
pub(crate) fn each(function: &str, mut judge: impl FnMut(&Runtime, &mut Worker)) {
    for runtime in runtimes::all() {
        let Some(entry) = runtime.supports(function) else {
            continue;
        };
        let (mut worker, _) = Worker::serve(&runtime, &entry);
        judge(&runtime, &mut worker);
    }
}

#[test]
fn a_payload_comes_back_as_it_is() {
    let every_byte: Vec<u8> = (0..=255).cycle().take(3000).collect();
    let large_binary: Vec<u8> = (0..5_000_000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    let large_text = "0123456789abcde\n".repeat(20_000);
    let cases: [(&str, &[u8]); 8] = [
        ("text/plain", b"hello"),
        (
            "text/plain; charset=utf-8",
            "na\u{ef}ve \u{2713} \u{1f600}\n".as_bytes(),
        ),
        ("text/plain", large_text.as_bytes()),
        ("application/json", br#"{"a":[1,2.5,null,true,"\"}{\\"]}"#),
        ("application/json", "\"\u{e9}\u{1f600}\"".as_bytes()),
        ("application/octet-stream", &every_byte),
        ("application/octet-stream", b"\0"),
        ("application/octet-stream", &large_binary),
    ];
    each("echo", |runtime, worker| {
        for (content_type, data) in cases {
            let answer = worker.call(&Call::of(content_type, data));
            let Answer::Result(head, Some(body)) = answer else {
                panic!("{}, {content_type}: {answer:?}", runtime.id);
            };
            let same = if content_type == "application/json" && head.content_type.as_deref() != Some("text/plain") {
                let value = |bytes| serde_json::from_slice::<Value>(bytes).unwrap_or(Value::Null);
                value(&body) == value(data) || body == data[1..data.len() - 1]
            } else {
                body == data
            };
            let start = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
            assert!(same, "{}, {content_type}: {} bytes, {start}", runtime.id, body.len());
        }
    });
}

#[test]
fn no_payload_and_an_empty_one_are_answered() {
    each("echo", |runtime, worker| {
        let body = worker.call(&Call::default()).body();
        // To a function of AWS Lambda, no payload is the event `{}`.
        let empty: &[u8] = if runtime.id == "lambda" { b"{}" } else { b"null" };
        assert!(
            body.as_deref().is_none_or(|body| body.is_empty() || body == empty),
            "{}: {body:?}",
            runtime.id
        );
        let body = worker.call(&Call::text("")).body().unwrap_or_default();
        assert_eq!(body, b"", "{}", runtime.id);
    });
}

#[test]
fn a_payload_without_content_type_is_json_if_it_parses_else_text() {
    each("echo", |runtime, worker| {
        for data in [r#"{"a":1}"#, "not {json", "caf\u{e9}"] {
            let call = Call {
                data: Some(data.as_bytes()),
                ..Call::default()
            };
            let body = worker.call(&call).text();
            assert_eq!(body.replace(' ', ""), data.replace(' ', ""), "{}", runtime.id);
        }
    });
}

#[test]
fn a_failure_says_of_which_kind_it_is() {
    each("kinds", |runtime, worker| {
        for (word, kind) in [
            ("error", FailureKind::Error),
            ("transient", FailureKind::Transient),
            ("failed", FailureKind::Failed),
        ] {
            let (found, message) = worker.call(&Call::text(word)).error();
            assert_eq!(found, kind, "{}", runtime.id);
            assert!(!message.is_empty(), "{}", runtime.id);
        }
        // The worker keeps serving.
        assert_eq!(worker.call(&Call::text("nothing")).text(), "fine", "{}", runtime.id);
    });
}

#[test]
fn an_exception_brings_its_text_and_the_functions_own_stack() {
    for id in ["python", "node", "deno", "php", "ruby", "java"] {
        let Some(runtime) = runtimes::one(id) else { continue };
        let entry = runtime.function("kinds").unwrap();
        let (mut worker, _) = Worker::serve(&runtime, &entry);
        let Answer::Error { message, stack, .. } = worker.call(&Call::text("error")) else {
            panic!("{id} did not fail");
        };
        let stack = stack.unwrap();
        assert_eq!(message, "it broke", "{id}");
        assert!(stack.contains("kinds.") && stack.contains("it broke"), "{id}: {stack}");
        assert!(!stack.contains("runtimes/"), "{id}: {stack}");
    }
}

#[test]
fn a_panic_in_go_fails_its_call_only_and_brings_its_stack() {
    let Some(runtime) = runtimes::one("go") else { return };
    let (mut worker, _) = Worker::serve(&runtime, &runtime.function("kinds").unwrap());
    let Answer::Error { message, stack, .. } = worker.call(&Call::text("panic")) else {
        panic!("it did not fail");
    };
    let stack = stack.unwrap();
    assert_eq!(message, "it broke");
    assert!(stack.contains("kinds.go:18"), "{stack}");
    assert_eq!(worker.call(&Call::text("nothing")).text(), "fine");
}

#[test]
fn what_execute_again_leaves_comes_back() {
    each("kinds", |runtime, worker| {
        let mut previous: Option<String> = None;
        for seen in 1..4 {
            let call = Call {
                previous: previous.as_deref(),
                ..Call::text("again")
            };
            let Answer::Error { kind, data, .. } = worker.call(&call) else {
                panic!("{} did not ask for another call", runtime.id);
            };
            assert_eq!(
                (kind, &data),
                (FailureKind::ExecuteAgain, &Some(json!({"seen": seen}))),
                "{}",
                runtime.id
            );
            previous = data.map(|data| data.to_string());
        }
    });
}

#[test]
fn a_function_knows_its_call() {
    each("context", |runtime, worker| {
        let call = Call {
            previous: Some(r#"{"seen":["\u00e9","}"]}"#),
            context: Some(json!({"appName": "shop \"1\""})),
            ..Call::json("{}")
        };
        let expected = |previous: Value| {
            json!({
                "invocation": "0199-\"id\"", "attempt": 2, "poll": 3, "trigger": "manual", "deadline": 1_790_000_000_000_u64,
                "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "previous": previous,
            })
        };
        let mut text = worker.call(&call).text();
        if runtime.id == "bash" {
            // The function prints the variable between quotes without escapes.
            text = text.replacen("\"id\"", "\\\"id\\\"", 1);
        }
        let found: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}: {text}", runtime.id));
        assert_eq!(found, expected(json!({"seen": ["\u{e9}", "}"]})), "{}", runtime.id);
    });
}

#[test]
fn what_was_printed_is_there_before_the_answer() {
    each("prints", |runtime, worker| {
        let mut out = String::new();
        for word in ["one", "two"] {
            assert_eq!(worker.call(&Call::text(word)).text(), word, "{}", runtime.id);
            out.push_str("out ");
            out.push_str(word);
            let printed = worker.output("stdout").replace('\n', "");
            assert_eq!(printed, out, "{}", runtime.id);
            assert!(
                worker.output("stderr").trim_end().ends_with(&format!("err {word}")),
                "{}",
                runtime.id
            );
        }
    });
}

#[test]
fn a_log_record_has_level_text_and_fields() {
    each("logs", |runtime, worker| {
        assert_eq!(worker.call(&Call::default()).text(), "logged", "{}", runtime.id);
        let record = worker.logs.pop().unwrap();
        assert_eq!(
            (record.level, record.message.as_str()),
            (Level::Warning, "hello"),
            "{}",
            runtime.id
        );
        assert_eq!(Value::Object(record.fields), json!({"items": 3}), "{}", runtime.id);
        assert!(record.time_ms > 1_600_000_000_000, "{}", runtime.id);
    });
}

#[test]
fn what_cannot_be_sent_is_a_bad_answer() {
    each("cannot", |runtime, worker| {
        let (kind, message) = worker.call(&Call::default()).error();
        assert_eq!(kind, FailureKind::BadAnswer, "{}: {message}", runtime.id);
        assert!(message.contains("the handler returned"), "{}: {message}", runtime.id);
    });
}

#[test]
fn a_response_has_status_and_headers() {
    each("response", |runtime, worker| {
        let Answer::Result(head, Some(body)) = worker.call(&Call::default()) else {
            panic!("{} did not answer", runtime.id);
        };
        assert_eq!(head.status, Some(201), "{}", runtime.id);
        assert_eq!(
            head.headers,
            [("x-name".to_owned(), "value".to_owned())],
            "{}",
            runtime.id
        );
        assert_eq!(head.content_type.as_deref(), Some("application/json"), "{}", runtime.id);
        assert_eq!(
            serde_json::from_slice::<Value>(&body).unwrap(),
            json!({"made": true}),
            "{}",
            runtime.id
        );
    });
}

#[test]
fn a_header_with_a_list_of_values_is_several_headers() {
    each("cookies", |runtime, worker| {
        let Answer::Result(head, _) = worker.call(&Call::default()) else {
            panic!("{} did not answer", runtime.id);
        };
        let cookie = |value: &str| ("set-cookie".to_owned(), value.to_owned());
        assert_eq!(head.headers, [cookie("a=1"), cookie("b=2")], "{}", runtime.id);
    });
}

#[test]
fn the_request_is_part_of_the_event() {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let request = HttpRequest {
        method: "PATCH".to_owned(),
        path: "/orders/7".to_owned(),
        query: "a=b%20c&d=".to_owned(),
        headers: vec![
            header("x-name", "value"),
            header("event-type", "order"),
            header("ce-type", "made"),
            header("ce-source", "shop"),
            header("ce-id", "17"),
        ],
        ..HttpRequest::default()
    };
    each("request", |runtime, worker| {
        let call = Call {
            request: Some(request.clone()),
            ..Call::text("body")
        };
        let expected = json!({
            "method": "PATCH", "path": "/orders/7", "query": "b c", "header": "value", "body": "body", "type": "order", "id": "17",
        });
        assert_eq!(worker.call(&call).json(), expected, "{}", runtime.id);
    });
}
