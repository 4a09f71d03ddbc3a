//! Finds the form of a request and reads its events (HTTP Protocol Binding for CloudEvents 1.0.2).

use super::request::EventRequest;
use super::{CloudEvent, Events, Malformed, binary, essence, is_media_type, legacy, structured};

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
