//! The structured and the batched form: events as JSON (JSON Event Format for CloudEvents 1.0.2).

use super::{Attributes, BATCH_MAX, CloudEvent, EventContent, Malformed};
use crate::json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Returns the event of a body in structured mode, one JSON object.
///
/// # Errors
/// The body is no JSON object, or an attribute is missing or wrong.
pub(super) fn event(body: &[u8]) -> Result<CloudEvent, Malformed> {
    of(&parsed(body, "object")?)
}

/// Returns the events of a body in batched mode, in its order; a batch may be empty.
///
/// # Errors
/// The body is no array, has too many items, or an item is no event.
pub(super) fn batch(body: &[u8]) -> Result<Vec<CloudEvent>, Malformed> {
    let items: Vec<&RawValue> = parsed(body, "array of events")?;
    if items.len() > BATCH_MAX {
        return Err(Malformed::TooMany(items.len()));
    }
    let events = items.iter().enumerate().map(|(index, item)| {
        event(item.get().as_bytes()).map_err(|problem| Malformed::InBatch {
            number: index + 1,
            problem: Box::new(problem),
        })
    });
    events.collect()
}

/// Parses a JSON text. The text of each member is kept unchanged.
pub(super) fn parsed<'a, T: serde::Deserialize<'a>>(body: &'a [u8], expected: &'static str) -> Result<T, Malformed> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let read = T::deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    read.map_err(|error| Malformed::Json {
        expected,
        error: error.to_string(),
    })
}

/// Checks that data is JSON if its media type says so.
pub(super) fn check_json(data: &[u8]) -> Result<(), Malformed> {
    let mut deserializer = serde_json::Deserializer::from_slice(data);
    let read = IgnoredAny::deserialize(&mut deserializer).and_then(|_| deserializer.end());
    if let Err(error) = read {
        return Err(Malformed::attribute("data", format!("is not JSON: {error}")));
    }
    if json::is_too_deep(data) {
        let problem = format!("is JSON nested deeper than {} levels", json::DEPTH_MAX);
        return Err(Malformed::attribute("data", problem));
    }
    Ok(())
}

fn of(members: &BTreeMap<String, &RawValue>) -> Result<CloudEvent, Malformed> {
    let mut attributes = Attributes::default();
    let (mut data, mut base64) = (None, None);
    for (name, value) in members {
        let text = value.get();
        // A member that is null counts as absent.
        match name.as_str() {
            _ if text == "null" => {}
            "data" => data = Some(text),
            "data_base64" => base64 = Some(text),
            name => attributes.set(name, attribute(name, text)?)?,
        }
    }
    let versioned = members.get("specversion").is_some_and(|value| value.get() != "null");
    let attributes = attributes.complete(versioned)?;
    let data = match (data, base64) {
        (None, None) => EventContent::None,
        (Some(_), Some(_)) => return Err(Malformed::attribute("data_base64", "is there beside `data`")),
        (Some(text), None) => EventContent::Part(content(&attributes, text)?),
        (None, Some(text)) => EventContent::Part(decoded(&attributes, text)?),
    };
    Ok(CloudEvent { attributes, data })
}

/// Returns the value of an attribute in its text form (CloudEvents, section 3.1).
fn attribute(name: &str, text: &str) -> Result<String, Malformed> {
    match text.as_bytes().first() {
        Some(b'"') => serde_json::from_str(text).map_err(|error| Malformed::attribute(name, error.to_string())),
        Some(b't' | b'f') => Ok(text.to_owned()),
        // The type Integer of the specification has 32 bits; an attribute cannot be a fraction.
        Some(b'0'..=b'9' | b'-') if text.parse::<i32>().is_ok() => Ok(text.to_owned()),
        Some(b'0'..=b'9' | b'-') => Err(Malformed::attribute(
            name,
            "is a number that is not a whole number of 32 bits",
        )),
        _ => Err(Malformed::attribute(
            name,
            "is an array or an object: attributes are texts, numbers and true or false",
        )),
    }
}

/// Returns the bytes of `data`.
fn content(attributes: &Attributes, text: &str) -> Result<Vec<u8>, Malformed> {
    if !attributes.has_json() && text.starts_with('"') {
        // The media type is not JSON: the data is the text inside the quotes, since the quotes belong to the event's
        // JSON.
        let text: Result<String, _> = serde_json::from_str(text);
        return text
            .map(String::into_bytes)
            .map_err(|error| Malformed::attribute("data", error.to_string()));
    }
    if json::is_too_deep(text.as_bytes()) {
        let problem = format!("is JSON nested deeper than {} levels", json::DEPTH_MAX);
        return Err(Malformed::attribute("data", problem));
    }
    Ok(text.as_bytes().to_vec())
}

/// Returns the bytes of `data_base64`.
fn decoded(attributes: &Attributes, text: &str) -> Result<Vec<u8>, Malformed> {
    let wrong = |problem: String| Malformed::attribute("data_base64", problem);
    let text: String = serde_json::from_str(text).map_err(|_| wrong("is not a text".to_owned()))?;
    let data = STANDARD
        .decode(&text)
        .map_err(|error| wrong(format!("is not Base64: {error}")))?;
    if attributes.datacontenttype.is_some() && attributes.has_json() {
        check_json(&data).map_err(|_| wrong("is not JSON, which `datacontenttype` calls it".to_owned()))?;
    }
    Ok(data)
}
