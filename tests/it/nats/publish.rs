//! What functions say back: dead letters, results and replies.

use super::{CONSUMER, ENTRY, STREAM, serve, start, wait_runs};
use async_nats::HeaderMap;
use fnd_tests::require;
use fnd_tests::wait::PATIENCE;
use serde_json::Value;

fn header<'a>(message: &'a async_nats::Message, name: &'static str) -> Option<&'a str> {
    Some(message.headers.as_ref()?.get(name)?.as_str())
}

#[test]
fn a_dead_letter_is_published_as_it_came_with_its_reason() {
    require!(nats);
    let (_server, client, fnd) = start();
    client.make_stream("DEAD", &["dlq.>"], "limits");
    serve(
        &fnd,
        "take",
        &format!("{ENTRY}dead_letters = \"dlq.orders\"\n"),
        "echo broken >&2; exit 3\n",
    );
    let letter = client.first_after("dlq.orders", || {
        // Headers that servers obey, and those of fnd itself, go no further.
        let headers = [
            ("X-Kind", "a"),
            ("Nats-Expected-Stream", STREAM),
            ("Fnd-Reason", "ok"),
            ("fnd-function", "mine"),
        ];
        client.publish("orders.new", &headers, r#"{"total": 7}"#);
    });
    let run = wait_runs(&fnd, "take", 1).remove(0);
    let id = run.id.to_string();
    assert_eq!(&letter.payload[..], br#"{"total": 7}"#);
    for (name, expected) in [
        ("X-Kind", "a"),
        ("Fnd-Function", "take"),
        ("Fnd-Invocation", id.as_str()),
        ("Fnd-Reason", "exit-3"),
        ("Nats-Msg-Id", id.as_str()),
    ] {
        assert_eq!(header(&letter, name), Some(expected), "{name}");
    }
    assert!(header(&letter, "Fnd-Message").is_some());
    assert!(header(&letter, "fnd-function").is_none() && header(&letter, "Nats-Expected-Stream").is_none());
    assert_eq!(client.messages("DEAD"), 1);
    fnd.finish();
}

#[test]
fn a_result_is_published_once() {
    require!(nats);
    let (_server, client, fnd) = start();
    client.make_stream("DONE", &["done.>"], "limits");
    let code = "def handler(event, context):\n    return {'twice': event['data'] * 2}\n";
    fnd.install("take.py", &format!("{ENTRY}result = \"done.orders\"\n"), code);
    let result = client.first_after("done.orders", || {
        client.publish("orders.new", &[], "21");
    });
    let value: Value = serde_json::from_slice(&result.payload).unwrap();
    assert_eq!(value["twice"], 42);
    let run = wait_runs(&fnd, "take", 1).remove(0);
    assert_eq!(header(&result, "Nats-Msg-Id"), Some(run.id.to_string().as_str()));
    // The message is acknowledged after its result is published.
    client.wait_acknowledged(STREAM, CONSUMER);
    assert_eq!((client.messages("DONE"), client.messages(STREAM)), (1, 0));
    fnd.finish();
}

#[test]
fn a_function_answers_requests() {
    require!(nats);
    let (_server, client, fnd) = start();
    let entry = "[[nats]]\nsubject = \"double\"\nreply = true\n";
    let code = "def handler(event, context):\n    return event['data'] * 2\n";
    fnd.install("double.py", entry, code);
    // Its subscription is on its way when the function serves.
    let answer = fnd_tests::wait_until("an answer", PATIENCE, || {
        client.try_request("double", HeaderMap::new(), "21".into()).ok()
    });
    assert_eq!(&answer.payload[..], b"42");
    let failed = client.request("double", HeaderMap::new(), "{}".into());
    assert_eq!(header(&failed, "Nats-Service-Error-Code"), Some("500"));
    assert!(header(&failed, "Nats-Service-Error").is_some());
    let problem: Value = serde_json::from_slice(&failed.payload).unwrap();
    assert!(problem["code"].is_string(), "{problem}");
    fnd.finish();
}
