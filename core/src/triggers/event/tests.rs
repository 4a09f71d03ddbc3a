//! Events in every form: the examples of the specifications, refusals with the name of the attribute, and a round trip.

use super::*;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn ask(headers: &[(&str, &str)], body: &[u8]) -> Result<Events, Malformed> {
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    read(&EventRequest {
        headers: &headers,
        body,
        id: "made-up",
    })
}

fn one(headers: &[(&str, &str)], body: &str) -> CloudEvent {
    match ask(headers, body.as_bytes()) {
        Ok(Events::One(event)) => *event,
        other => panic!("{other:?}"),
    }
}

fn json(body: &str) -> Result<Events, Malformed> {
    ask(
        &[("content-type", "application/cloudevents+json; charset=utf-8")],
        body.as_bytes(),
    )
}

fn part(event: &CloudEvent) -> &str {
    match &event.data {
        EventContent::Part(data) => str::from_utf8(data).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The example of section 3.1.4 of the HTTP Protocol Binding.
#[test]
fn the_binary_example_is_read() {
    let event = one(
        &[
            ("content-type", "application/json; charset=utf-8"),
            ("ce-specversion", "1.0"),
            ("ce-type", "com.example.someevent"),
            ("ce-time", "2018-04-05T03:56:24Z"),
            ("ce-id", "1234-1234-1234"),
            ("ce-source", "/mycontext/subcontext"),
            ("ce-comexampleextension1", "value"),
            ("host", "example.com"),
        ],
        "{\"a\": 1}",
    );
    let attributes = &event.attributes;
    assert_eq!(event.data, EventContent::Body);
    assert_eq!(
        (attributes.kind.as_str(), attributes.id.as_str()),
        ("com.example.someevent", "1234-1234-1234")
    );
    assert_eq!(attributes.get("source"), Some("/mycontext/subcontext"));
    assert_eq!(attributes.get("time"), Some("2018-04-05T03:56:24Z"));
    assert_eq!(attributes.get("comexampleextension1"), Some("value"));
    assert_eq!(
        attributes.datacontenttype.as_deref(),
        Some("application/json; charset=utf-8")
    );
    assert_eq!(attributes.all().count(), 7);
}

/// The example of section 3.2.3 of the HTTP Protocol Binding, and those of section 3.2 of the JSON Event Format.
#[test]
fn spaces_around_a_media_type_are_no_part_of_it() {
    let body = r#"{"specversion": "1.0", "type": "t", "source": "/s", "id": "1", "datacontenttype": " text/plain ", "data": "x"}"#;
    let Ok(Events::One(event)) = json(body) else {
        panic!("{body}")
    };
    assert_eq!(event.attributes.datacontenttype.as_deref(), Some("text/plain"));
}

#[test]
fn the_structured_examples_are_read() {
    let body = r#"{"specversion" : "1.0", "type" : "com.example.someevent", "source" : "/mycontext", "subject": null,
        "id" : "C234-1234-1234", "time" : "2018-04-05T17:31:00Z", "comexampleextension1" : "value",
        "comexampleothervalue" : 5, "datacontenttype" : "text/xml", "data" : "<much wow=\"xml\"/>"}"#;
    let Ok(Events::One(event)) = json(body) else { panic!() };
    assert_eq!(part(&event), "<much wow=\"xml\"/>");
    assert_eq!(event.attributes.extensions["comexampleothervalue"], "5");
    assert_eq!(event.attributes.subject, None);
    let of = |rest: &str| {
        let body = format!(r#"{{"specversion": "1.0", "type": "t", "source": "s", "id": "1", {rest}}}"#);
        match json(&body) {
            Ok(Events::One(event)) => *event,
            other => panic!("{other:?}"),
        }
    };
    // Numbers stay as they are written.
    let data = r#"{"appinfoA" : 12345678901234567890.10, "b": [true]}"#;
    let event = of(&format!(r#""datacontenttype": "application/json", "data": {data}"#));
    assert_eq!(part(&event), data);
    assert_eq!(
        part(&of(r#""data": "text""#)),
        "\"text\"",
        "without a media type the data is JSON"
    );
    assert_eq!(
        part(&of(r#""datacontenttype": "application/vnd.x+json", "data": "text""#)),
        "\"text\""
    );
    assert_eq!(part(&of(r#""datacontenttype": "text/plain", "data": "a\nb""#)), "a\nb");
    assert_eq!(
        part(&of(r#""datacontenttype": "text/plain", "data": {"a": 1}"#)),
        "{\"a\": 1}"
    );
    assert_eq!(
        part(&of(r#""datacontenttype": "image/png", "data_base64": "aGk=""#)),
        "hi"
    );
    assert_eq!(of(r#""data": null"#).data, EventContent::None);
    assert_eq!(of(r#""flag": true, "n": -7"#).attributes.extensions["flag"], "true");
}

/// The examples of section 4.2 of the JSON Event Format.
#[test]
fn a_batch_is_read_whole_or_not_at_all() {
    let batch = |body: &str| {
        ask(
            &[("content-type", "application/cloudevents-batch+json")],
            body.as_bytes(),
        )
    };
    let event = |id: &str| format!(r#"{{"specversion": "1.0", "type": "t", "source": "s", "id": "{id}"}}"#);
    let Ok(Events::Batch(events)) = batch(&format!("[{}, {}]", event("B1"), event("B2"))) else {
        panic!()
    };
    let ids: Vec<_> = events.iter().map(|event| event.attributes.id.as_str()).collect();
    assert_eq!(ids, ["B1", "B2"]);
    assert_eq!(batch("[]"), Ok(Events::Batch(Vec::new())));
    let wrong = batch(&format!("[{}, {}]", event("B1"), event(""))).unwrap_err();
    assert_eq!(wrong.to_string(), "event 2 of the batch: the attribute `id` is empty");
    assert!(matches!(batch("{}"), Err(Malformed::Json { .. })));
    let many = format!("[{}1]", "1,".repeat(BATCH_MAX));
    assert_eq!(batch(&many), Err(Malformed::TooMany(BATCH_MAX + 1)));
}

#[test]
fn values_of_headers_are_decoded_once() {
    let event = one(
        &[
            ("ce-specversion", "1.0"),
            ("ce-id", "\"a \\\"quoted\\\" id\""),
            ("ce-source", "s"),
            // Section 3.1.3.2: the characters U+20AC, a space, U+1F600.
            ("ce-type", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
            ("ce-subject", "%2541"),
            ("ce-other", "100% sure"),
        ],
        "",
    );
    let attributes = &event.attributes;
    assert_eq!(attributes.id, "a \"quoted\" id");
    assert_eq!(attributes.kind, "Euro \u{20ac} \u{1f600}");
    assert_eq!(attributes.subject.as_deref(), Some("%41"));
    assert_eq!(attributes.extensions["other"], "100% sure");
    assert_eq!((event.data, attributes.has_json()), (EventContent::None, true));
}

#[test]
fn a_malformed_event_names_its_attribute() {
    const GOOD: [(&str, &str); 4] = [
        ("ce-specversion", "1.0"),
        ("ce-id", "1"),
        ("ce-source", "s"),
        ("ce-type", "t"),
    ];
    for missing in GOOD {
        let headers: Vec<_> = GOOD.into_iter().filter(|header| *header != missing).collect();
        let name = missing.0.trim_start_matches("ce-");
        let wrong = ask(&headers, b"").unwrap_err().to_string();
        assert_eq!(wrong, format!("the attribute `{name}` is missing"));
    }
    for (name, value, expected) in [
        (
            "ce-specversion",
            "0.3",
            "`specversion` is `0.3`: only the version 1.0 is read",
        ),
        ("ce-id", "", "`id` is empty"),
        ("ce-source", "a b", "`source` is not a URI reference"),
        ("ce-time", "yesterday", "`time` is not a time such as"),
        ("ce-time", "2018-04-05", "`time` is not a time such as"),
        ("ce-subject", "", "`subject` is empty"),
        ("ce-subject", "a%00", "`subject` has a control character"),
        ("ce-subject", "%ff", "`subject` is not UTF-8"),
        ("ce-subject", "\"open", "`subject` begins with a quote"),
        ("ce-dataschema", "order", "`dataschema` is not a URI"),
        ("ce-my_extension", "x", "`my_extension` has a name"),
        (
            "ce-datacontenttype",
            "text/plain",
            "`datacontenttype` is the header `Content-Type`",
        ),
        ("ce-data", "x", "`data` is the data"),
        ("ce-long", &"x".repeat(ATTRIBUTES_MAX), "`long` is too long"),
        ("content-type", "json", "`datacontenttype` is not a media type"),
    ] {
        let mut headers: Vec<_> = GOOD.into_iter().filter(|(other, _)| *other != name).collect();
        headers.push((name, value));
        let wrong = ask(&headers, b"x").unwrap_err().to_string();
        assert!(wrong.contains(expected), "{name}: {wrong}");
    }
    let twice = ask(&[GOOD[0], GOOD[1], GOOD[1]], b"").unwrap_err();
    assert_eq!(twice.to_string(), "the attribute `id` is there twice");
    let data = ask(&[&GOOD[..], &[("content-type", "application/json")]].concat(), b"{").unwrap_err();
    assert!(
        data.to_string().starts_with("the attribute `data` is not JSON: "),
        "{data}"
    );
    for (rest, expected) in [
        (r#""id": 7"#, ""),
        (r#""id": {}"#, "`id` is an array or an object"),
        (r#""n": 1.5"#, "`n` is a number"),
        (r#""Name": "x""#, "`Name` has a name"),
        (
            r#""data": 1, "data_base64": "aGk=""#,
            "`data_base64` is there beside `data`",
        ),
        (r#""data_base64": "?""#, "`data_base64` is not Base64"),
        (
            r#""datacontenttype": "application/json", "data_base64": "aGk=""#,
            "`data_base64` is not JSON",
        ),
    ] {
        let body = format!(r#"{{"specversion": "1.0", "type": "t", "source": "s", "id": "1", {rest}}}"#);
        let read = json(&body);
        match expected {
            "" => assert!(read.is_ok(), "{read:?}"),
            _ => assert!(read.clone().unwrap_err().to_string().contains(expected), "{read:?}"),
        }
    }
    let deep = format!("{}{}", "[".repeat(501), "]".repeat(501));
    let body = format!(r#"{{"specversion": "1.0", "type": "t", "source": "s", "id": "1", "data": {deep}}}"#);
    assert!(json(&body).unwrap_err().to_string().contains("nested deeper than 500"));
}

#[test]
fn what_is_no_event_says_what_would_be_one() {
    let plain = [("content-type", "application/json")];
    for body in ["", "{}", "[1]", "{\"specversion\": \"1.0\"}"] {
        assert_eq!(ask(&plain, body.as_bytes()), Err(Malformed::NoEvent));
    }
    let avro = ask(&[("content-type", "application/cloudevents+avro")], b"x").unwrap_err();
    assert!(
        avro.to_string()
            .starts_with("`application/cloudevents+avro` is not read here")
    );
    assert!(
        json("[]")
            .unwrap_err()
            .to_string()
            .starts_with("the body is no JSON object")
    );
    assert!(json("{} x").is_err() && json("").is_err());
}

#[test]
fn old_forms_become_events() {
    let kyma = r#"{"event-type": "order.created", "event-type-version": "v1", "event-time": "2020-09-28T14:47:16.491Z",
        "event-id": "A1", "data": {"id": 7.10}}"#;
    let event = one(&[("content-type", "application/json")], kyma);
    let attributes = &event.attributes;
    assert_eq!(
        (attributes.kind.as_str(), attributes.version()),
        ("order.created", Some("v1"))
    );
    assert_eq!((attributes.id.as_str(), attributes.source.as_str()), ("A1", "/"));
    assert_eq!(part(&event), "{\"id\": 7.10}");
    let kubeless = [
        ("event-type", "order.created"),
        ("event-namespace", "cli.kubeless.io"),
        ("event-time", "2020-09-28T14:47:16Z"),
        ("content-type", "text/plain"),
    ];
    let event = one(&kubeless, "hi");
    assert_eq!(
        (event.attributes.source.as_str(), event.attributes.id.as_str()),
        ("cli.kubeless.io", "made-up")
    );
    assert_eq!(event.data, EventContent::Body);
    let incubator = [
        ("ce-cloudeventsversion", "0.1"),
        ("ce-eventtype", "t"),
        ("ce-eventid", "1"),
        ("ce-source", "s"),
        ("ce-eventtypeversion", "v2"),
        ("ce-x-mine", "y"),
    ];
    let attributes = one(&incubator, "").attributes;
    assert_eq!((attributes.version(), attributes.get("mine")), (Some("v2"), Some("y")));
    let without_version = [("ce-eventtype", "t"), ("ce-eventsource", "\"s\"")];
    let attributes = one(&without_version, "").attributes;
    assert_eq!((attributes.kind.as_str(), attributes.source.as_str()), ("t", "s"));
    let wrong = ask(&[("content-type", "application/json")], br#"{"event-type": 7}"#).unwrap_err();
    assert_eq!(wrong.to_string(), "the attribute `event-type` is not a text");
}

#[test]
fn headers_of_version_0_1_are_renewed_for_a_function() {
    let check = |headers: &[(&str, &str)], expected: &[(&str, &str)]| {
        let owned = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let pairs = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            pairs.collect()
        };
        assert_eq!(renewed(&owned(headers)), owned(expected), "{headers:?}");
    };
    check(
        &[
            ("ce-cloudeventsversion", "0.1"),
            ("ce-eventtype", "\"t\""),
            ("ce-eventtypeversion", "v2"),
            ("ce-eventid", "1"),
            ("ce-eventtime", "2020-09-28T14:47:16Z"),
            ("ce-eventsource", "s"),
            ("ce-schemaurl", "u"),
            ("ce-x-mine", "y"),
            ("x-other", "z"),
        ],
        &[
            ("ce-specversion", "0.1"),
            ("ce-type", "t"),
            ("ce-id", "1"),
            ("ce-time", "2020-09-28T14:47:16Z"),
            ("ce-source", "s"),
            ("ce-dataschema", "u"),
            ("ce-mine", "y"),
        ],
    );
    // An attribute that the caller names itself stays; a type needs a source.
    check(&[("ce-eventtype", "t"), ("ce-type", "u")], &[("ce-source", "/")]);
    check(&[("ce-eventid", "1")], &[("ce-id", "1")]);
    check(&[("ce-type", "t"), ("ce-id", "1")], &[]);
    check(&[("ce-specversion", "1.0"), ("ce-eventid", "an extension")], &[]);
}

prop_compose! {
    fn any_attributes()(
        id in "[ -~\u{e4}]{1,8}", source in "[a-z/:]{1,8}", kind in "[a-z.]{1,8}",
        subject in prop::option::of("[ -~\u{20ac}]{1,8}"), extensions in prop::collection::btree_map("x[a-z0-9]{1,5}", "[ -~\u{1f600}]{0,8}", 0..4),
    ) -> Attributes {
        // Blanks around a header's value do not belong to it, unless they are encoded.
        Attributes { id, source, kind, subject, extensions, datacontenttype: Some("application/json".to_owned()), ..Attributes::default() }
    }
}

proptest! {
    #[test]
    fn an_event_is_the_same_in_both_forms(attributes in any_attributes(), number in any::<i64>()) {
        let data = format!("{{\"n\": {number}}}");
        let headers: Vec<_> = attributes
            .all()
            .filter(|(name, _)| *name != "datacontenttype")
            .map(|(name, value)| (format!("ce-{name}"), utf8_percent_encode(value, NON_ALPHANUMERIC).to_string()))
            .chain([("content-type".to_owned(), "application/json".to_owned())])
            .collect();
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let binary = one(&headers, &data);
        prop_assert_eq!(&binary.attributes, &attributes);
        let members: BTreeMap<_, _> = attributes.all().map(|(name, value)| (name, serde_json::Value::from(value))).collect();
        let members = serde_json::to_string(&members).unwrap();
        let body = format!("{}, \"data\": {data}}}", members.trim_end_matches('}'));
        let Ok(Events::One(structured)) = json(&body) else { panic!("{body}") };
        prop_assert_eq!(part(&structured), data);
        prop_assert_eq!(structured.attributes, attributes);
    }

    #[test]
    fn any_bytes_are_read(name in "ce-[a-z]{1,4}|content-type|event-type", value in any::<Vec<u8>>(), body in any::<Vec<u8>>()) {
        for content_type in ["", "application/json", "application/cloudevents+json", "application/cloudevents-batch+json"] {
            let headers = [("content-type", content_type.as_bytes()), (name.as_str(), value.as_slice())];
            let _ = read(&EventRequest { headers: &headers, body: &body, id: "i" });
        }
    }
}
