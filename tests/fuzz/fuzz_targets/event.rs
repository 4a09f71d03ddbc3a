//! Any bytes as a request with CloudEvents in each of its forms: an event that is read keeps the rules for its attributes,
//! and its attributes mean the same when they are sent again as headers.
#![no_main]

use fnd_core::triggers::event::{ATTRIBUTES_MAX, CloudEvent, EventRequest, Events, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for form in [
        "application/cloudevents+json",
        "application/cloudevents-batch+json",
        "application/json",
    ] {
        check(&[("content-type", form.as_bytes())], bytes);
    }
    // The lines of the first part are headers.
    let end = bytes.windows(2).position(|two| two == b"\n\n").unwrap_or(bytes.len());
    let (head, body) = bytes.split_at(end);
    let lines: Vec<_> = head
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let name = String::from_utf8(line[..colon].to_ascii_lowercase()).ok()?;
            Some((name, &line[colon + 1..]))
        })
        .collect();
    let headers: Vec<_> = lines.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    check(&headers, body);
});

fn check(headers: &[(&str, &[u8])], body: &[u8]) {
    match read(&EventRequest {
        headers,
        body,
        id: "id",
    }) {
        Ok(Events::One(event)) => whole(&event),
        Ok(Events::Batch(events)) => events.iter().for_each(whole),
        Err(problem) => assert!(!problem.to_string().is_empty()),
    }
}

fn whole(event: &CloudEvent) {
    let attributes = &event.attributes;
    assert!(
        ![&attributes.id, &attributes.source, &attributes.kind]
            .iter()
            .any(|text| text.is_empty())
    );
    let mut size = 0;
    for (name, value) in attributes.all() {
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
            "{name}"
        );
        assert!(!value.chars().any(char::is_control));
        size += name.len() + value.len();
    }
    assert!(size <= ATTRIBUTES_MAX);
    let headers: Vec<_> = attributes
        .all()
        .map(|(name, value)| {
            let name = if name == "datacontenttype" {
                "content-type".to_owned()
            } else {
                format!("ce-{name}")
            };
            let encode = |b: u8| format!("%{b:02X}");
            let value = if name == "content-type" {
                value.to_owned()
            } else {
                value.bytes().map(encode).collect()
            };
            (name, value)
        })
        .collect();
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    match read(&EventRequest {
        headers: &headers,
        body: b"",
        id: "id",
    }) {
        Ok(Events::One(again)) => assert_eq!(again.attributes, *attributes),
        other => panic!("{other:?}"),
    }
}
