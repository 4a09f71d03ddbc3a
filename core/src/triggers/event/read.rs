//! Finds the form of a request and reads its events (HTTP Protocol Binding for CloudEvents 1.0.2).

use super::{CloudEvent, Events, Malformed, binary, essence, is_media_type, legacy, structured};

/// A request that may carry events.
#[derive(Debug, Clone, Copy)]
pub struct EventRequest<'a> {
    /// The headers; names in lower case.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The body; the header `content-type` says its form.
    pub body: &'a [u8],
    /// An id for an event of an old form that has none.
    pub id: &'a str,
}

impl<'a> EventRequest<'a> {
    /// Returns the first value of a header, as text.
    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        let value = self.headers.iter().find(|(found, _)| *found == name)?.1;
        str::from_utf8(value).ok().map(str::trim)
    }

    /// Returns the media type of the body.
    pub(super) fn content_type(&self) -> Option<&'a str> {
        self.header("content-type").filter(|value| !value.is_empty())
    }
}

/// Reads the events of a request.
///
/// # Errors
/// [`Malformed`], which names the attribute.
pub fn read(request: &EventRequest<'_>) -> Result<Events, Malformed> {
    let content_type = request.content_type().unwrap_or_default();
    let one = |event: CloudEvent| Events::One(Box::new(event));
    // The content type distinguishes the forms (section 3 of the binding), so it decides before any header `ce-...`.
    if is_media_type(content_type, "application/cloudevents+json") {
        return structured::event(request.body).map(one);
    }
    if is_media_type(content_type, "application/cloudevents-batch+json") {
        return structured::batch(request.body).map(Events::Batch);
    }
    let essence = essence(content_type);
    // `application/cloudevents` has 23 letters. Other formats than JSON follow it, such as `+avro`.
    let is_format = essence
        .get(..23)
        .is_some_and(|start| start.eq_ignore_ascii_case("application/cloudevents"));
    if is_format {
        return Err(Malformed::Format(essence.chars().take(100).collect()));
    }
    if request.headers.iter().any(|(name, _)| name.starts_with("ce-")) {
        let event = if legacy::is_version_0_1(request) {
            legacy::version_0_1(request)
        } else {
            binary::event(request)
        };
        return event.map(one);
    }
    legacy::event(request).unwrap_or(Err(Malformed::NoEvent)).map(one)
}
