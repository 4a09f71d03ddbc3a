use super::*;
use crate::data::Data;
use bytes::Bytes;
use proptest::prelude::*;

pub(super) fn frame(kind: u8, flags: u8, call: u64, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap();
    let mut out = length.to_le_bytes().to_vec();
    out.extend_from_slice(&[kind, flags, 0, 0]);
    out.extend_from_slice(&call.to_le_bytes());
    out.extend_from_slice(content);
    out
}

fn result(head: &str, body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(head.len()).unwrap().to_le_bytes();
    [&size[..], head.as_bytes(), body].concat()
}

/// Decodes bytes to the end or to the first error.
fn read(bytes: &[u8]) -> (Vec<WorkerMessage>, Option<ProtocolError>) {
    let mut decoder = Decoder::new(100, 4);
    decoder.push(bytes);
    let mut all = Vec::new();
    loop {
        match decoder.next() {
            Ok(Some(message)) => all.push(message),
            Ok(None) => return (all, None),
            Err(error) => return (all, Some(error)),
        }
    }
}

#[test]
fn a_worker_says_that_it_is_ready() {
    let (messages, error) = read(&frame(
        1,
        0,
        0,
        br#"{"protocol":1,"concurrency":8,"cancel":true,"new":true}"#,
    ));
    let ready = ReadyMessage {
        cancel: true,
        protocol: 1,
        concurrency: 8,
        port: None,
        variables: false,
    };
    assert_eq!((messages, error), (vec![WorkerMessage::Ready(ready)], None));
}

#[test]
fn a_request_of_an_earlier_fnd_has_no_route() {
    let old = r#"{"method":"POST","path":"/","query":"","headers":[["host","a"]]}"#;
    let request: HttpRequest = serde_json::from_str(old).unwrap();
    assert_eq!((request.route.as_str(), request.cgi), ("", false));
    assert_eq!(serde_json::to_string(&request).unwrap(), old);
    let by_route = HttpRequest {
        route: "/{a}".to_owned(),
        params: vec![("a".to_owned(), "b".to_owned())],
        ..request
    };
    let text = serde_json::to_string(&by_route).unwrap();
    assert!(text.ends_with(r#""headers":[["host","a"]]}"#), "{text}");
    assert_eq!(serde_json::from_str::<HttpRequest>(&text).unwrap(), by_route);
}

#[test]
fn an_answer_has_a_head_and_a_body_of_any_bytes() {
    let bytes = frame(4, 0, 7, &result(r#"{"data":3,"status":201}"#, b"\0\xff\n"));
    let WorkerMessage::Result { call, head, data } = &read(&bytes).0[0] else {
        panic!("{:?}", read(&bytes));
    };
    assert_eq!(
        (*call, head.status, data.as_deref()),
        (7, Some(201), Some(&b"\0\xff\n"[..]))
    );
    let nothing = frame(4, 0, 7, &result("{}", b""));
    assert!(matches!(
        &read(&nothing).0[..],
        [WorkerMessage::Result { data: None, .. }]
    ));
}

#[test]
fn messages_of_several_calls_come_in_pieces_between_each_other() {
    let (one, two) = (result(r#"{"data":4}"#, b"1111"), result(r#"{"data":4}"#, b"2222"));
    let bytes = [
        frame(4, 1, 1, &one[..5]),
        frame(4, 1, 2, &two[..9]),
        frame(3, 1, 1, &one[5..7]),
        frame(3, 0, 2, &two[9..]),
        frame(3, 0, 1, &one[7..]),
    ];
    let (messages, error) = read(&bytes.concat());
    let bodies: Vec<_> = messages
        .iter()
        .map(|message| match message {
            WorkerMessage::Result { call, data, .. } => (*call, data.clone().unwrap()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        (bodies, error),
        (vec![(2, b"2222".to_vec()), (1, b"1111".to_vec())], None)
    );
}

#[test]
fn what_is_no_message_is_refused() {
    let refused = |bytes: &[u8]| read(bytes).1.unwrap_or_else(|| panic!("{bytes:?} was taken"));
    let mut long = frame(1, 0, 0, b"");
    long[3] = 1;
    assert_eq!(refused(&long), ProtocolError::Frame("too long"));
    assert_eq!(refused(&frame(1, 4, 0, b"{}")), ProtocolError::Frame("unknown flags"));
    assert_eq!(refused(&frame(2, 0, 1, b"")), ProtocolError::Type(2));
    assert_eq!(refused(&frame(99, 0, 1, b"")), ProtocolError::Type(99));
    assert!(matches!(refused(&frame(3, 0, 1, b"")), ProtocolError::Frame(_)));
    assert!(matches!(refused(&frame(1, 0, 0, b"{")), ProtocolError::Message(_)));
    assert!(matches!(
        refused(&frame(1, 0, 1, br#"{"protocol":1,"concurrency":1}"#)),
        ProtocolError::Message(_)
    ));
    assert!(matches!(
        refused(&frame(4, 0, 1, b"\xff\xff\xff\xff{}")),
        ProtocolError::Message(_)
    ));
    assert!(matches!(
        refused(&frame(4, 0, 1, &result(r#"{"data":9}"#, b"x"))),
        ProtocolError::Message(_)
    ));
    assert!(matches!(
        refused(&frame(4, 0, 1, &result(r#"{"status":101}"#, b""))),
        ProtocolError::Message(_)
    ));
    let twice = [frame(4, 1, 1, b"x"), frame(4, 0, 1, b"x")].concat();
    assert!(matches!(refused(&twice), ProtocolError::Frame(_)));
}

#[test]
fn what_is_missing_ends_a_header_or_a_frame() {
    let bytes = [frame(4, 1, 1, b"abc"), frame(99, 2, 0, b"")].concat();
    let mut decoder = Decoder::new(100, 4);
    let mut missing = Vec::new();
    for byte in &bytes {
        missing.push(decoder.missing());
        decoder.push(&[*byte]);
        assert_eq!(decoder.next(), Ok(None));
    }
    let expected: Vec<_> = (1..=HEADER)
        .rev()
        .chain((1..=3).rev())
        .chain((1..=HEADER).rev())
        .collect();
    assert_eq!(missing, expected);
}

#[test]
fn an_unknown_type_that_is_optional_is_skipped() {
    let bytes = [
        frame(99, 2, 5, b"whatever"),
        frame(6, 0, 5, br#"{"time_ms":1,"level":"info","message":"m"}"#),
    ];
    assert!(matches!(
        &read(&bytes.concat()).0[..],
        [WorkerMessage::Log { call: 5, .. }]
    ));
}

#[test]
fn an_answer_is_not_larger_than_a_result_may_be() {
    let large = result(r#"{"data":101}"#, &[b'x'; 101]);
    assert_eq!(
        read(&frame(4, 0, 3, &large)).1,
        Some(ProtocolError::TooLarge { call: 3, limit: 100 })
    );
    let piece = vec![b'x'; FRAME_MAX];
    let bytes = [frame(4, 1, 3, &piece), frame(3, 1, 3, &piece)].concat();
    assert_eq!(read(&bytes).1, Some(ProtocolError::TooLarge { call: 3, limit: 100 }));
}

#[test]
fn the_rest_of_a_large_result_has_its_place() {
    let content = result(r#"{"data":60}"#, &[7; 60]);
    let (first, rest) = content.split_at(20);
    let mut decoder = Decoder::new(100, 4);
    assert!(decoder.space().is_none());
    decoder.push(&frame(4, 1, 1, first));
    assert_eq!(decoder.next(), Ok(None));
    assert!(decoder.space().is_none(), "no frame has begun");
    let frame = frame(3, 0, 1, rest);
    decoder.push(&frame[..HEADER + 1]);
    assert_eq!(decoder.next(), Ok(None));
    assert_eq!(decoder.missing(), rest.len() - 1);
    let space = decoder.space().unwrap();
    assert_eq!(space.len(), rest.len() - 1);
    space[..10].fill(7);
    decoder.filled(10);
    assert_eq!(decoder.next(), Ok(None));
    assert!(!decoder.is_between());
    decoder.push(&frame[HEADER + 11..]);
    let Ok(Some(WorkerMessage::Result { call: 1, data, .. })) = decoder.next() else {
        panic!("the result is whole");
    };
    assert_eq!(data, Some(vec![7; 60]));
    assert!(decoder.is_between());
}

#[test]
fn a_result_in_several_frames_has_the_length_that_it_states() {
    let refused = |data: u64, size: usize| {
        let content = result(&format!("{{\"data\":{data}}}"), &vec![7; size]);
        let (first, rest) = content.split_at(40);
        read(&[frame(4, 1, 1, first), frame(3, 0, 1, rest)].concat()).1
    };
    assert_eq!(refused(60, 60), None);
    for (data, size) in [(60, 59), (60, 61), (2, 60)] {
        assert!(
            matches!(refused(data, size), Some(ProtocolError::Message(_))),
            "{data} {size}"
        );
    }
    let limit = 100;
    assert_eq!(refused(101, 101), Some(ProtocolError::TooLarge { call: 1, limit }));
    assert_eq!(refused(u64::MAX, 60), Some(ProtocolError::TooLarge { call: 1, limit }));
}

#[test]
fn a_stream_comes_in_parts_and_then_whole() {
    let head = ResultHead {
        content_type: Some("text/plain".to_owned()),
        stream: true,
        status: Some(404),
        headers: vec![("x-name".to_owned(), "value".to_owned())],
        ..ResultHead::default()
    };
    let stated = r#"{"content_type":"text/plain","status":404,"headers":[["x-name","value"]],"stream":true}"#;
    let begin = |call: u64, data: &[u8]| frame(4, 1, call, &result(stated, data));
    let part = |call, data: &[u8], head: Option<&ResultHead>| WorkerMessage::Part {
        call,
        head: head.cloned(),
        data: data.to_vec(),
    };
    let (first, later) = (
        |call, data| part(call, data, Some(&head)),
        |call, data| part(call, data, None),
    );
    let whole = |call, data: &[u8]| WorkerMessage::Result {
        call,
        head: ResultHead {
            data: Some(data.len() as u64),
            ..head.clone()
        },
        data: Some(data.to_vec()),
    };
    let bytes = [
        begin(1, b""),
        frame(3, 1, 1, b"ab"),
        begin(2, b"x"),
        frame(3, 0, 1, b"c"),
        frame(3, 1, 2, b""),
        frame(3, 0, 2, b""),
        frame(4, 0, 3, &result(stated, b"y")),
    ];
    let expected = vec![
        first(1, &b""[..]),
        later(1, &b"ab"[..]),
        first(2, b"x"),
        whole(1, b"abc"),
        later(2, b""),
        whole(2, b"x"),
        whole(3, b"y"),
    ];
    assert_eq!(read(&bytes.concat()), (expected, None));
}

#[test]
fn a_stream_ends_with_an_error_or_within_the_limit() {
    let begin = frame(4, 1, 1, &result(r#"{"stream":true}"#, b"a"));
    let after = |more: Vec<u8>| read(&[begin.clone(), more].concat());
    let (messages, error) = after(frame(5, 0, 1, br#"{"kind":"error","message":"m"}"#));
    assert!(
        matches!(&messages[1..], [WorkerMessage::Error { call: 1, .. }]),
        "{messages:?}"
    );
    assert_eq!(error, None);
    let limit = 100;
    assert_eq!(after(frame(3, 1, 1, &[7; 99])).1, None);
    assert_eq!(
        after(frame(3, 1, 1, &[7; 100])).1,
        Some(ProtocolError::TooLarge { call: 1, limit })
    );
    let log = frame(6, 0, 1, br#"{"time_ms":1,"level":"info","message":"m"}"#);
    assert!(matches!(after(log).1, Some(ProtocolError::Frame(_))));
    let stated = frame(4, 1, 1, &result(r#"{"stream":true,"data":1}"#, b"a"));
    assert!(matches!(read(&stated).1, Some(ProtocolError::Message(_))));
}

#[test]
fn messages_begun_are_not_more_than_calls() {
    let bytes: Vec<u8> = (1..20).flat_map(|call| frame(4, 1, call, b"x")).collect();
    assert_eq!(read(&bytes).1, Some(ProtocolError::TooMany));
}

#[test]
fn a_large_payload_goes_in_several_frames() {
    let head = InvokeHead {
        invocation: "i".into(),
        attempt: 1,
        trigger: "manual".into(),
        traceparent: "t".into(),
        ..InvokeHead::default()
    };
    let data = vec![7; 2 * FRAME_MAX];
    let sent = Data::from(data.clone());
    let message = invoke(9, head, Some(&sent), Some(&Bytes::from_static(b"[1]"))).unwrap();
    let OutgoingMessage::Pieces(pieces) = &message else {
        panic!("it is copied");
    };
    let views = pieces
        .iter()
        .filter(|piece| sent.view().unwrap().as_ptr_range().contains(&piece.as_ptr()));
    assert_eq!(views.map(Bytes::len).sum::<usize>(), data.len(), "no byte is copied");
    let bytes = message.joined();
    let mut rest = &bytes[..];
    let mut content = Vec::new();
    let mut kinds = Vec::new();
    while !rest.is_empty() {
        let length = usize::try_from(u32::from_le_bytes(rest[..4].try_into().unwrap())).unwrap();
        assert!(length <= FRAME_MAX);
        kinds.push((rest[4], rest[5]));
        assert_eq!(rest[8..16], 9_u64.to_le_bytes());
        content.extend_from_slice(&rest[HEADER..HEADER + length]);
        rest = &rest[HEADER + length..];
    }
    assert_eq!(kinds, [(2, 1), (3, 1), (3, 0)]);
    let size = usize::try_from(u32::from_le_bytes(content[..4].try_into().unwrap())).unwrap();
    let head: InvokeHead<'_> = serde_json::from_slice(&content[4..4 + size]).unwrap();
    assert_eq!((head.data, head.previous), (Some(data.len() as u64), Some(3)));
    assert_eq!(content[4 + size..], [&data[..], b"[1]"].concat());
}

#[test]
fn a_stop_is_one_empty_frame() {
    assert_eq!(stop().joined(), frame(7, 0, 0, b""));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_however_they_are_cut(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        frames in proptest::collection::vec((0..9u8, 0..4u8, 0..3u64, proptest::collection::vec(any::<u8>(), 0..40)), 0..9),
        cut in 1..50_usize,
    ) {
        let mut all: Vec<u8> = frames.iter().flat_map(|(kind, flags, call, content)| frame(*kind, *flags, *call, content)).collect();
        all.extend(bytes);
        let whole = read(&all);
        let mut decoder = Decoder::new(100, 4);
        let mut messages = Vec::new();
        let mut error = None;
        'all: for piece in all.chunks(cut) {
            decoder.push(piece);
            loop {
                match decoder.next() {
                    Ok(Some(one)) => messages.push(one),
                    Ok(None) => break,
                    Err(why) => { error = Some(why); break 'all; }
                }
            }
        }
        prop_assert_eq!((messages, error), whole);
    }
}
