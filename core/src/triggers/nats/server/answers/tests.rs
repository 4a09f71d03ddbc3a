use super::*;

/// An answer of nats-server, with fields that fnd does not read.
const STREAM: &str = r#"{"type":"io.nats.jetstream.api.v1.stream_info_response","total":0,"offset":0,"limit":0,
    "config":{"name":"ORDERS","subjects":["orders.>"],"retention":"workqueue","max_consumers":-1,"max_age":60000000000,
    "storage":"file","num_replicas":1},"created":"2026-11-21T08:00:00.123456789Z","state":{"messages":0}}"#;
const CONSUMER: &str = r#"{"stream_name":"ORDERS","name":"fnd-f","created":"2026-11-21T08:00:01Z","config":{"durable_name":"fnd-f",
    "deliver_policy":"all","ack_policy":"explicit","ack_wait":30000000000,"max_deliver":-1,"filter_subject":"orders.>",
    "replay_policy":"instant"},"delivered":{"consumer_seq":3,"stream_seq":3},"num_ack_pending":2,"num_redelivered":1,
    "num_waiting":1,"num_pending":5}"#;

#[test]
fn streams_and_consumers_are_read() {
    let stream: StreamInfo = read(STREAM.as_bytes()).unwrap();
    assert_eq!(stream.created_ns, 1_795_248_000_123_456_789);
    assert_eq!(
        (stream.config.subjects, stream.config.max_age),
        (vec!["orders.>".to_owned()], 60_000_000_000)
    );
    let consumer: ConsumerInfo = read(CONSUMER.as_bytes()).unwrap();
    assert_eq!((consumer.num_pending, consumer.num_redelivered), (5, 1));
    assert_eq!(
        (consumer.config.ack_wait, consumer.config.max_deliver),
        (30_000_000_000, -1)
    );
    assert_eq!((consumer.config.deliver_subject, consumer.paused), (None, false));
    let delivered = ConsumerPosition {
        consumer_seq: 3,
        stream_seq: 3,
    };
    assert_eq!(
        (consumer.delivered, consumer.ack_floor),
        (delivered, ConsumerPosition::default())
    );
}

#[test]
fn a_pause_has_an_end_where_the_server_says_how_long_it_lasts() {
    let consumer = |keys: &str| {
        let text = CONSUMER.replacen('{', &format!("{{{keys}"), 1);
        read::<ConsumerInfo>(text.as_bytes()).unwrap()
    };
    let paused = consumer(r#""paused":true,"pause_remaining":59800000000,"#);
    assert_eq!(paused.paused_until_ms(10_300), Some(70_000));
    assert_eq!(consumer(r#""paused":true,"#).paused_until_ms(10_300), None);
    assert_eq!(consumer("").paused_until_ms(10_300), None);
}

#[test]
fn an_error_is_told_by_its_number() {
    let text = r#"{"type":"x","error":{"code":404,"err_code":10014,"description":"consumer not found"}}"#;
    let bad = read::<ConsumerInfo>(text.as_bytes()).unwrap_err();
    assert!(bad.is(&[error::STREAM_NOT_FOUND, error::CONSUMER_NOT_FOUND]) && !bad.is(&[error::NO_MESSAGE_FOUND]));
    assert_eq!(bad.to_string(), "consumer not found (10014)");
    for text in ["", "[]", "{}"] {
        assert!(
            matches!(read::<PubAck>(text.as_bytes()), Err(BadAnswer::Unreadable(_))),
            "{text}"
        );
    }
}

#[test]
fn a_key_has_a_value_a_revision_and_headers() {
    // `NATS/1.0`, `Nats-Expected-Last-Subject-Sequence: 7`
    let headers = BASE64_STANDARD.encode("NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 7\r\n\r\n");
    let text = format!(
        r#"{{"message":{{"subject":"$KV.b.k","seq":9,"hdrs":"{headers}","data":"eyJhIjoxfQ==",
            "time":"2026-11-21T08:00:00.123456789Z"}}}}"#
    );
    let StoredAnswer { message } = read(text.as_bytes()).unwrap();
    assert_eq!((message.seq, message.data.as_slice()), (9, br#"{"a":1}"#.as_slice()));
    assert_eq!(message.stored_ns, 1_795_248_000_123_456_789);
    assert_eq!(message.header("nats-expected-last-subject-sequence"), Some("7"));
    assert!(!message.is_deletion() && message.header("KV-Operation").is_none());
    assert_eq!((message.subject.as_str(), message.headers().count()), ("$KV.b.k", 1));
    for (operation, expected) in [("DEL", true), ("PURGE", true), ("PUT", false)] {
        let headers = BASE64_STANDARD.encode(format!("NATS/1.0\r\nKV-Operation: {operation}\r\n\r\n"));
        let text = format!(r#"{{"message":{{"subject":"$KV.b.k","seq":9,"hdrs":"{headers}"}}}}"#);
        let StoredAnswer { message } = read(text.as_bytes()).unwrap();
        assert_eq!(message.is_deletion(), expected, "{operation}");
    }
    let bad = r#"{"message":{"seq":9,"data":"*"}}"#;
    assert!(matches!(
        read::<StoredAnswer>(bad.as_bytes()),
        Err(BadAnswer::Unreadable(_))
    ));
}

#[test]
fn a_publication_is_confirmed_with_its_place() {
    let ack: PubAck = read(br#"{"stream":"ORDERS","seq":4,"duplicate":true}"#).unwrap();
    assert_eq!((ack.stream.as_str(), ack.sequence, ack.duplicate), ("ORDERS", 4, true));
    let refused =
        br#"{"stream":"KV_b","seq":0,"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"}}"#;
    assert!(read::<PubAck>(refused).unwrap_err().is(&[error::WRONG_LAST_SEQUENCE]));
}
