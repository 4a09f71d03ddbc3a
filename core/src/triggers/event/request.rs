//! A request that may carry events, as the forms of events see it.

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
