//! The value of `[queue] key` in the input of a run.

use super::Payload;
use super::cause::Cause;
use crate::json::is_json;
use crate::places::conditions::{self, RequestValues};
use fnd_manifest::function::route::RequestPlace;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::sync::Arc;

/// Longest value that is kept as it is: it is shown to people, and is in the record by which the next fnd takes over an
/// attempt.
const VALUE_MAX: usize = 200;

impl Payload {
    /// Returns the value at a place, by which runs are put in order; absent if there is none, if it is empty, and if the data
    /// cannot be read. A long value is shortened to its beginning and its hash.
    #[must_use]
    pub fn key(&self, place: &RequestPlace) -> Option<Arc<str>> {
        let request = self.request.as_deref();
        let headers = self.cause.as_deref().map(Cause::headers).unwrap_or_default();
        let header = |name: &str| {
            let sent = request.into_iter().flat_map(|request| &request.headers);
            let named = sent.chain(&headers).filter(|(found, _)| found == name);
            named.map(|(_, value)| value.clone()).collect()
        };
        let body = match &self.data {
            Some(data) if conditions::needs_body(place) => data.bytes().ok()?,
            _ => Cow::Borrowed(&[][..]),
        };
        let stated = self.content_type.as_deref().filter(|stated| !is_json(stated));
        let value = conditions::key(
            &RequestValues {
                header: &header,
                query: request.map_or("", |request| &request.query),
                content_type: stated.unwrap_or("application/json"),
                body: &body,
                ip: request.and_then(|request| request.remote.parse().ok()),
            },
            place,
        )?;
        Some(shortened(value).into())
    }
}

fn shortened(value: String) -> String {
    if value.len() <= VALUE_MAX {
        return value;
    }
    let kept: String = value.chars().take(VALUE_MAX / 4).collect();
    let hash = Sha256::digest(value.as_bytes());
    let hash: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{kept}... (sha256 {hash})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Attributes;
    use crate::records::cause::EventCause;
    use crate::records::protocol::HttpRequest;

    fn key(payload: &Payload, place: &str) -> Option<String> {
        let value = payload.key(&RequestPlace::parse(place).unwrap());
        value.map(|value| value.to_string())
    }

    #[test]
    fn a_value_is_found_whatever_the_trigger() {
        let json = Payload {
            data: Some(br#"{"customer": 7, "to": {"name": "ada"}, "none": null, "empty": ""}"#.into()),
            ..Payload::default()
        };
        assert_eq!(key(&json, "body.customer").as_deref(), Some("7"));
        assert_eq!(key(&json, "body.to.name").as_deref(), Some("ada"));
        for place in [
            "body.none",
            "body.empty",
            "body.to",
            "body.other",
            "header.a",
            "query.a",
            "ip",
        ] {
            assert_eq!(key(&json, place), None, "{place}");
        }
        let form = Payload {
            data: Some(b"customer=8".into()),
            content_type: Some("application/x-www-form-urlencoded".into()),
            request: Some(Arc::new(HttpRequest {
                query: "shop=b".to_owned(),
                remote: "192.0.2.7".to_owned(),
                headers: vec![("x-tenant".to_owned(), "t".to_owned())],
                ..HttpRequest::default()
            })),
            ..Payload::default()
        };
        let found = ["body.customer", "query.shop", "ip", "header.X-Tenant"].map(|place| key(&form, place));
        assert_eq!(found, ["8", "b", "192.0.2.7", "t"].map(|text| Some(text.to_owned())));
        let event = Payload {
            cause: Some(Arc::new(Cause::Event(EventCause {
                attributes: Attributes {
                    subject: Some("orders/7".to_owned()),
                    ..Attributes::default()
                },
                order_key: None,
                depth: 0,
            }))),
            ..Payload::default()
        };
        assert_eq!(key(&event, "header.ce-subject").as_deref(), Some("orders/7"));
        let text = Payload {
            data: Some(b"customer".into()),
            ..Payload::default()
        };
        assert_eq!(key(&text, "body.customer"), None, "it is no JSON");
        assert_eq!(key(&Payload::default(), "body.customer"), None);
    }

    #[test]
    fn long_values_are_shortened_and_stay_different() {
        let of = |end: &str| {
            let data = format!(r#"{{"a": "{}{end}"}}"#, "x".repeat(1000));
            let data = Some(data.into_bytes().into());
            key(
                &Payload {
                    data,
                    ..Payload::default()
                },
                "body.a",
            )
            .unwrap()
        };
        assert!(of("1").len() < VALUE_MAX && of("1") != of("2"));
    }
}
