//! Forms of events that are older than CloudEvents 1.0: headers of Kubeless and Kyma, the body that Kyma's publisher takes,
//! and the headers of CloudEvents 0.1. They become events of version 1.0.
//!
//! In these forms, source and id are optional. The source is `event-namespace`, `event-source` or `source-id`, else
//! `/`. If an event has no id, fnd gives it a new one, so it is never the same event as another.

use super::structured::parsed;
use super::{Attributes, CloudEvent, EventContent, EventRequest, Malformed, binary};
use crate::json::is_json;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Source of an event that names none.
const NO_SOURCE: &str = "/";

/// Names of attributes in CloudEvents 0.1 (in headers after `ce-`), each with its name in 1.0.
const VERSION_0_1: [(&str, &str); 7] = [
    ("eventtype", "type"),
    ("eventtypeversion", "eventtypeversion"),
    ("eventid", "id"),
    ("eventtime", "time"),
    ("source", "source"),
    // The SDK of that time sent this name.
    ("eventsource", "source"),
    ("schemaurl", "dataschema"),
];

/// Headers that tell of version 0.1. Kubeless wanted none of them in particular.
const VERSIONED: [&str; 3] = ["ce-cloudeventsversion", "ce-eventtype", "ce-eventid"];

/// Names of attributes of Kubeless and Kyma (in headers and in the body), each with its name in CloudEvents 1.0.
const EVENT: [(&str, &str); 7] = [
    ("event-type", "type"),
    ("event-type-version", "eventtypeversion"),
    ("event-id", "id"),
    ("event-time", "time"),
    ("event-namespace", "source"),
    ("event-source", "source"),
    ("source-id", "source"),
];

/// Says whether headers are those of CloudEvents 0.1.
pub(super) fn is_version_0_1(request: &EventRequest<'_>) -> bool {
    request.header("ce-specversion").is_none() && VERSIONED.iter().any(|name| request.header(name).is_some())
}

/// Returns the headers of CloudEvents 1.0 for those of version 0.1, which the caller of a function may still send. There are
/// none if the headers are not of version 0.1, and none that the caller sent itself.
#[must_use]
pub fn renewed(headers: &[(String, String)]) -> Vec<(String, String)> {
    let has = |wanted: &str| headers.iter().any(|(name, _)| name == wanted);
    if has("ce-specversion") || !VERSIONED.iter().any(|name| has(name)) {
        return Vec::new();
    }
    let mut renewed: Vec<(String, String)> = Vec::new();
    for (name, value) in headers {
        let Some(old) = name.strip_prefix("ce-") else { continue };
        let new = match old {
            "cloudeventsversion" => "ce-specversion".to_owned(),
            old => format!("ce-{}", new_name(old)),
        };
        if !has(&new) && !renewed.iter().any(|(name, _)| *name == new) {
            renewed.push((new, unquoted(value).to_owned()));
        }
    }
    let is_there = |wanted: &str| has(wanted) || renewed.iter().any(|(name, _)| name == wanted);
    if is_there("ce-type") && !is_there("ce-source") {
        renewed.push(("ce-source".to_owned(), NO_SOURCE.to_owned()));
    }
    renewed
}

/// Returns the name in version 1.0 of an attribute of version 0.1.
fn new_name(old: &str) -> &str {
    let new = VERSION_0_1.iter().find(|(name, _)| *name == old).map(|(_, new)| *new);
    // Extensions begin with `x-`.
    new.unwrap_or_else(|| old.strip_prefix("x-").unwrap_or(old))
}

/// The SDK of that time sent values in quotes.
fn unquoted(value: &str) -> &str {
    value.trim().trim_matches('"')
}

/// Reads an event of CloudEvents 0.1.
///
/// # Errors
/// An attribute is missing or wrong.
pub(super) fn version_0_1(request: &EventRequest<'_>) -> Result<CloudEvent, Malformed> {
    let mut attributes = Attributes::default();
    for (name, value) in request.headers {
        let Some(name) = name.strip_prefix("ce-").filter(|name| *name != "cloudeventsversion") else {
            continue;
        };
        let value = str::from_utf8(value).map_err(|_| Malformed::attribute(name, "is not UTF-8"))?;
        attributes.set(new_name(name), unquoted(value).to_owned())?;
    }
    with_body(attributes, request)
}

/// Reads an event of Kubeless or Kyma. Returns nothing if the request is no such event.
pub(super) fn event(request: &EventRequest<'_>) -> Option<Result<CloudEvent, Malformed>> {
    if request.header("event-type").is_some() {
        return Some(of_headers(request));
    }
    if !request.content_type().is_none_or(is_json) {
        return None;
    }
    let members: BTreeMap<String, &RawValue> = parsed(request.body, "object").ok()?;
    members.contains_key("event-type").then(|| of_body(&members, request))
}

fn of_headers(request: &EventRequest<'_>) -> Result<CloudEvent, Malformed> {
    let mut attributes = Attributes::default();
    for (old, new) in EVENT {
        if let Some(value) = request.header(old).filter(|value| !value.is_empty()) {
            attributes.set(new, value.to_owned())?;
        }
    }
    with_body(attributes, request)
}

fn of_body(members: &BTreeMap<String, &RawValue>, request: &EventRequest<'_>) -> Result<CloudEvent, Malformed> {
    let mut attributes = Attributes::default();
    for (old, new) in EVENT {
        if let Some(value) = members.get(old).filter(|value| value.get() != "null") {
            let value: String =
                serde_json::from_str(value.get()).map_err(|_| Malformed::attribute(old, "is not a text"))?;
            attributes.set(new, value)?;
        }
    }
    attributes.set("datacontenttype", "application/json".to_owned())?;
    let data = match members.get("data") {
        Some(data) => {
            super::structured::check_json(data.get().as_bytes())?;
            EventContent::Part(data.get().as_bytes().to_vec())
        }
        None => EventContent::None,
    };
    let attributes = completed(attributes, request)?;
    Ok(CloudEvent { attributes, data })
}

fn with_body(mut attributes: Attributes, request: &EventRequest<'_>) -> Result<CloudEvent, Malformed> {
    if let Some(content_type) = request.content_type() {
        attributes.set("datacontenttype", content_type.to_owned())?;
    }
    let attributes = completed(attributes, request)?;
    let data = binary::body(&attributes, request.body)?;
    Ok(CloudEvent { attributes, data })
}

fn completed(mut attributes: Attributes, request: &EventRequest<'_>) -> Result<Attributes, Malformed> {
    if attributes.id.is_empty() {
        request.id.clone_into(&mut attributes.id);
    }
    if attributes.source.is_empty() {
        NO_SOURCE.clone_into(&mut attributes.source);
    }
    // These forms state no version of 1.0, so none is missing.
    attributes.complete(true)
}
