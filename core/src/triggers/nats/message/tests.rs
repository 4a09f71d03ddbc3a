//! The content of a message, form by form.

use super::*;
use fnd_manifest::function::route::{Condition, RequestPlace};

const MAX: u64 = 100;

fn place() -> StreamPlace {
    StreamPlace {
        stream: "ORDERS".into(),
        created_ns: 1,
        sequence: 7,
    }
}

/// Calls `look` with a message with these headers.
fn message<T>(headers: &[(&str, &str)], payload: &[u8], look: impl FnOnce(&NatsMessage<'_>) -> T) -> T {
    let owned: Vec<_> = headers
        .iter()
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect();
    let place = place();
    let message = NatsMessage {
        place: &place,
        headers: &owned,
        payload,
    };
    look(&message)
}

/// The same with what is read of it.
fn with<T>(headers: &[(&str, &str)], payload: &[u8], look: impl FnOnce(&NatsMessage<'_>, &ReadMessage) -> T) -> T {
    message(headers, payload, |message| look(message, &read(message, MAX).unwrap()))
}

fn refused(headers: &[(&str, &str)], payload: &[u8]) -> BadMessage {
    message(headers, payload, |message| read(message, MAX).unwrap_err())
}

#[test]
fn data_without_a_media_type_is_json_or_text_or_bytes() {
    for (payload, expected) in [
        (&b"{\"a\": 1}"[..], Some("application/json")),
        (b"{\"a\": 1", Some("text/plain; charset=utf-8")),
        (b"\xff", Some("application/octet-stream")),
        (b"", None),
    ] {
        let found = with(&[], payload, |message, read| {
            assert_eq!(read.identity(message), MessageIdentity::Place(message.place));
            assert_eq!(read.data(message), payload);
            read.content_type.clone()
        });
        assert_eq!(found.as_deref(), expected, "{payload:?}");
    }
    let stated = with(&[("Content-Type", "text/csv")], b"1", |_, read| {
        read.content_type.clone()
    });
    assert_eq!(stated.as_deref(), Some("text/csv"));
}

#[test]
fn the_id_of_the_sender_counts_within_its_stream() {
    with(&[("Nats-Msg-Id", "a1")], b"1", |message, read| {
        let expected = MessageIdentity::MessageId {
            stream: "ORDERS",
            id: "a1",
        };
        assert_eq!(read.identity(message), expected);
    });
}

#[test]
fn an_event_in_headers_has_its_media_type_as_an_attribute() {
    let headers = [
        ("ce-specversion", "1.0"),
        ("ce-id", "7"),
        ("CE-Source", "/shop%2Fa"),
        ("ce-type", "order.created"),
        ("ce-datacontenttype", "text/plain"),
        ("Content-Type", "application/octet-stream"),
        ("Nats-Msg-Id", "other"),
    ];
    with(&headers, b"x", |message, read| {
        assert_eq!(read.content_type.as_deref(), Some("text/plain"));
        assert_eq!(read.data(message), b"x");
        let Some(event) = &read.event else { panic!("an event") };
        assert_eq!((event.id.as_str(), event.kind.as_str()), ("7", "order.created"));
        assert_eq!(
            (event.get("source"), event.get("specversion")),
            (Some("/shop/a"), Some("1.0"))
        );
        let expected = MessageIdentity::Event {
            source: "/shop/a",
            id: "7",
        };
        assert_eq!(read.identity(message), expected);
    });
}

#[test]
fn an_event_as_json_has_its_data_inside() {
    let payload = br#"{"specversion":"1.0","id":"7","source":"s","type":"t","data":{"n":1}}"#;
    let headers = [("content-type", "application/cloudevents+json; charset=utf-8")];
    with(&headers, payload, |message, read| {
        assert_eq!(read.data(message), br#"{"n":1}"#);
        assert_eq!(read.content_type.as_deref(), Some("application/json"));
    });
}

#[test]
fn what_is_no_event_although_it_says_so_is_refused_with_the_reason() {
    let words = |bad: BadMessage| bad.to_string();
    assert_eq!(
        words(refused(&[("ce-id", "7")], b"")),
        "the attribute `specversion` is missing"
    );
    let batch = [("Content-Type", "application/cloudevents-batch+json")];
    assert_eq!(refused(&batch, b"[]"), BadMessage::Batch);
    assert_eq!(refused(&[(UNREADABLE, "1")], b"{}"), BadMessage::Unreadable);
    assert!(words(refused(&[("Content-Type", "application/cloudevents+avro")], b"")).contains("avro"));
    let large = refused(&[], &[b'1'; 101]);
    assert_eq!(words(large), "the message has 101 bytes, more than 100 (limits.body)");
    let long = "a".repeat(HEADERS_MAX);
    let long = words(refused(&[("Kind", &long)], b""));
    let expected = "the headers of the message have 65540 bytes, more than 65536";
    assert!(long.starts_with(expected), "{long}");
    let broken = [
        ("ce-specversion", "1.0"),
        ("ce-id", "a%0Ab"),
        ("ce-source", "s"),
        ("ce-type", "t"),
    ];
    assert_eq!(
        words(refused(&broken, b"")),
        "the attribute `id` has a control character"
    );
}

#[test]
fn conditions_look_at_headers_attributes_and_data() {
    let holds = |place: &str, value: &str, headers: &[(&str, &str)], payload: &[u8]| {
        let test = Test::new(&Condition {
            place: RequestPlace::parse(place).unwrap(),
            is: vec![value.to_owned()],
            not: Vec::new(),
            matches: None,
        });
        with(headers, payload, |message, read| read.holds(message, &[test]))
    };
    assert!(holds("header.x-kind", "a", &[("X-Kind", "a")], b""));
    assert!(!holds("header.x-kind", "b", &[("X-Kind", "a")], b""));
    assert!(holds("body.total", "7", &[], br#"{"total": 7}"#));
    let event = br#"{"specversion":"1.0","id":"7","source":"s","type":"t","data":{"n":1}}"#;
    let headers = [("content-type", "application/cloudevents+json")];
    assert!(holds("header.ce-type", "t", &headers, event));
    assert!(holds("body.n", "1", &headers, event));
}
