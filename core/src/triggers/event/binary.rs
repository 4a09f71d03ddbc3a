//! The binary form: attributes in headers `ce-NAME`, the data as the body (HTTP Protocol Binding, section 3.1).

use super::{Attributes, CloudEvent, EventContent, EventRequest, Malformed};
use percent_encoding::percent_decode_str;

/// Returns the event of a request in binary mode: attributes in headers, the data in the body.
///
/// # Errors
/// An attribute is missing, occurs twice, or has a wrong value.
pub(super) fn event(request: &EventRequest<'_>) -> Result<CloudEvent, Malformed> {
    let mut attributes = Attributes::default();
    let mut names = Vec::new();
    for (name, value) in request.headers {
        let Some(name) = name.strip_prefix("ce-") else {
            continue;
        };
        // The binding maps this attribute to `Content-Type`. Two headers could state different types.
        if name == "datacontenttype" {
            return Err(Malformed::attribute(name, "is the header `Content-Type` in this form"));
        }
        if names.contains(&name) {
            return Err(Malformed::attribute(name, "is there twice"));
        }
        names.push(name);
        attributes.set(name, decoded(name, value)?)?;
    }
    if let Some(content_type) = request.content_type() {
        attributes.set("datacontenttype", content_type.to_owned())?;
    }
    let attributes = attributes.complete(names.contains(&"specversion"))?;
    let data = body(&attributes, request.body)?;
    Ok(CloudEvent { attributes, data })
}

/// Returns the body as data. Senders often set `Content-Type` even if they send no data.
///
/// # Errors
/// `Content-Type` says JSON, but the data is not JSON.
pub(super) fn body(attributes: &Attributes, body: &[u8]) -> Result<EventContent, Malformed> {
    if body.is_empty() {
        return Ok(EventContent::None);
    }
    if attributes.datacontenttype.is_some() && attributes.has_json() {
        super::structured::check_json(body)?;
    }
    Ok(EventContent::Body)
}

/// Returns the value of a header: without its quotes, and with `%` and two digits decoded, once.
fn decoded(name: &str, value: &[u8]) -> Result<String, Malformed> {
    let wrong = |problem: &'static str| Malformed::attribute(name, problem);
    let text = str::from_utf8(value).map_err(|_| wrong("is not UTF-8"))?.trim();
    let unquoted = match text.strip_prefix('"') {
        Some(rest) => unquoted(rest).ok_or_else(|| wrong("begins with a quote that is not closed"))?,
        None => text.to_owned(),
    };
    let decoded = percent_decode_str(&unquoted).decode_utf8();
    let decoded = decoded.map_err(|_| wrong("is not UTF-8 once its `%` are decoded"))?;
    Ok(decoded.into_owned())
}

/// Returns the text of a quoted string (RFC 9110, section 5.6.4) after its first quote.
fn unquoted(rest: &str) -> Option<String> {
    let inner = rest.strip_suffix('"')?;
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => text.push(characters.next()?),
            // A quote inside of the string must follow a backslash.
            '"' => return None,
            c => text.push(c),
        }
    }
    Some(text)
}
