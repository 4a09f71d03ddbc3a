//! The input of an invocation, and the answer of a run.

use super::cause::Cause;
use super::protocol::{HttpRequest, ResultHead};
use crate::data::Data;
use crate::json::is_json;
use crate::trace::Trace;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The input of an invocation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload {
    /// The bytes; absent differs from empty.
    pub data: Option<Data>,
    /// Media type, as the caller stated it.
    pub content_type: Option<Arc<str>>,
    /// `KEPTN_CONTEXT`, JSON.
    pub context: Option<Arc<str>>,
    /// The caller's trace; absent if it sent none.
    pub trace: Option<Trace>,
    /// The HTTP request; its body is `data`. A script gets it as variables, and only where it came by a route.
    pub request: Option<Arc<HttpRequest>>,
    /// The reason why a trigger or another function ran it; absent where there is nothing to state beside the payload.
    pub cause: Option<Arc<Cause>>,
}

impl Payload {
    /// Returns whether a script answers with a CGI document.
    #[must_use]
    pub fn is_cgi(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.cgi)
    }
}

/// The function's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunResult {
    /// Whether the bytes are one JSON value; otherwise they are text if they are UTF-8, else binary.
    pub json: bool,
    /// The bytes of the answer; they may be empty.
    pub data: Bytes,
    /// Properties that the function stated besides the bytes; absent where the bytes alone imply them.
    pub response: Option<Arc<Response>>,
    /// The result with the values of secrets [masked](crate::mask); absent where it contains none. It takes the place of
    /// the result in every record.
    pub kept: Option<Arc<Self>>,
}

/// Properties that a handler can state besides the bytes of its answer. Their values are unchecked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Response {
    /// Media type of the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// HTTP status, 200 to 599.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Headers, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
}

impl From<ResultHead> for Response {
    fn from(head: ResultHead) -> Self {
        Self {
            content_type: head.content_type,
            status: head.status,
            headers: head.headers,
        }
    }
}

impl RunResult {
    /// Converts a worker's Result. Returns nothing for one without a body, status and headers.
    #[must_use]
    pub fn of(head: ResultHead, data: Option<Vec<u8>>) -> Option<Self> {
        let response = Response::from(head);
        // A status or headers without a body are an answer, too: `204`, for example.
        if data.is_none() && response.status.is_none() && response.headers.is_empty() {
            return None;
        }
        Some(Self::stated(response, data.unwrap_or_default().into()))
    }

    /// Returns a result with what the function stated about it.
    #[must_use]
    pub fn stated(response: Response, data: Bytes) -> Self {
        // A result without a media type is classified as the output of a script is.
        let json = response.content_type.as_deref().is_none_or(is_json)
            && serde_json::from_slice::<serde::de::IgnoredAny>(&data).is_ok();
        // The stated media type alone proves nothing: hostile or broken code may call any bytes JSON, and records embed
        // a result with `json` in JSON text.
        let mut result = Self {
            json,
            data,
            response: None,
            kept: None,
        };
        // Most handlers return JSON or text and state just that: then nothing needs to be stored for each run.
        let plain = response.status.is_none() && response.headers.is_empty();
        let stated = response.content_type.as_deref();
        if !plain || stated.is_some_and(|stated| stated != result.media_type()) {
            result.response = Some(Arc::new(response));
        }
        result
    }

    /// Returns what is kept of the result.
    #[must_use]
    pub fn to_kept(&self) -> Self {
        self.kept.as_deref().unwrap_or(self).clone()
    }

    /// Returns the media type of the bytes: the function's own, else one derived from the bytes.
    #[must_use]
    pub fn media_type(&self) -> &str {
        match self.response.as_deref() {
            Some(Response {
                content_type: Some(stated),
                ..
            }) => stated,
            _ if self.json => "application/json",
            _ if str::from_utf8(&self.data).is_ok() => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_result(content_type: Option<&str>, data: Option<&[u8]>) -> Option<RunResult> {
        let head = ResultHead {
            content_type: content_type.map(Into::into),
            ..ResultHead::default()
        };
        RunResult::of(head, data.map(Into::into))
    }

    #[test]
    fn a_result_is_json_where_it_says_so_and_is() {
        for (content_type, data, json, media_type, kept) in [
            (Some("application/json"), &b"{}"[..], true, "application/json", false),
            (
                Some("application/cloudevents+json"),
                b"{}",
                true,
                "application/cloudevents+json",
                true,
            ),
            (Some("application/json"), b"{", false, "application/json", true),
            (
                Some("text/plain; charset=utf-8"),
                b"{}",
                false,
                "text/plain; charset=utf-8",
                false,
            ),
            (Some("text/html"), b"<p>", false, "text/html", true),
            (None, b"text", false, "text/plain; charset=utf-8", false),
            (None, b"{}", true, "application/json", false),
            (None, b"\xff", false, "application/octet-stream", false),
        ] {
            let result = run_result(content_type, Some(data)).unwrap();
            let found = (result.json, result.media_type(), result.response.is_some());
            assert_eq!(found, (json, media_type, kept), "{content_type:?} {data:?}");
        }
    }

    #[test]
    fn no_data_is_no_result_but_a_status_alone_is() {
        assert_eq!(run_result(None, None), None);
        let head = ResultHead {
            status: Some(204),
            ..ResultHead::default()
        };
        let result = RunResult::of(head, None).unwrap();
        assert_eq!((result.data.len(), result.response.unwrap().status), (0, Some(204)));
    }
}
