//! Requests of a browser as the pages see them, and the answers that pages give. No connection, no header.

use crate::api::Failure;
use hyper::body::Bytes;
use maud::Markup;
use percent_encoding::percent_decode_str;

/// A request for a page: its sender has a session, and a POST comes from a page of this server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The parts of the path between its slashes, decoded. `/` has none.
    pub(crate) segments: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    /// The fields of the form of a POST.
    pub(crate) form: Vec<(String, String)>,
    /// Whether the page was started with `--read-only`. The server then refuses each POST; pages offer no action.
    pub(crate) read_only: bool,
}

/// A method of HTTP that pages know. HEAD is answered as GET without the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Response {
    /// A whole HTML document.
    Page { status: u16, markup: Markup },
    /// 303: the browser reads this address, which begins with one slash.
    Redirect(String),
    /// Bytes that no browser may interpret in another way.
    Raw {
        content_type: &'static str,
        /// The file name under which the browser saves the bytes; without it the browser shows them.
        file_name: Option<String>,
        body: Bytes,
    },
    /// A refusal of fnd, or no answer of fnd. The server makes the page of it.
    Failed(Failure),
}

impl Request {
    /// Returns a request with these parts.
    pub(crate) fn new(method: Method, path: &str, query: &str, form: &[u8]) -> Self {
        Self {
            method,
            segments: segments(path),
            query: pairs(query.as_bytes()),
            form: pairs(form),
            read_only: false,
        }
    }

    /// Returns the first value of a parameter of the query that is not empty.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        first(&self.query, name)
    }

    /// Returns the first value of a field of the form that is not empty.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        first(&self.form, name)
    }

    /// Returns the decoded parts of the path, for a `match`.
    pub(crate) fn parts(&self) -> Vec<&str> {
        self.segments.iter().map(String::as_str).collect()
    }
}

impl From<Failure> for Response {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

fn first<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = pairs.iter().filter(|(key, value)| key == name && !value.is_empty());
    values.next().map(|(_, value)| value.as_str())
}

/// Returns the parts of a path. The path is split before it is decoded, so `ops%2Fbackup` is one part.
fn segments(path: &str) -> Vec<String> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts
        .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
        .collect()
}

/// Returns the names and values of a query or of the body of a form (`application/x-www-form-urlencoded`).
pub(crate) fn pairs(bytes: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(bytes).into_owned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_slash_is_one_part_of_the_path() {
        let request = Request::new(Method::Get, "/functions/ops%2Fbackup/", "q=a+b%26&q=c&state=", b"");
        assert_eq!(request.parts(), ["functions", "ops/backup"]);
        assert_eq!(request.query("q"), Some("a b&"));
        assert_eq!(request.query("state"), None);
        assert!(Request::new(Method::Get, "/", "", b"").segments.is_empty());
    }

    #[test]
    fn a_form_keeps_the_order_of_its_fields() {
        let request = Request::new(Method::Post, "/", "", b"b=1&a=%C3%A9%0D%0A&b=2&c");
        let expected = [("b", "1"), ("a", "é\r\n"), ("b", "2"), ("c", "")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(request.form, expected);
        assert_eq!(request.field("b"), Some("1"));
        assert_eq!(request.field("c"), None);
    }
}
