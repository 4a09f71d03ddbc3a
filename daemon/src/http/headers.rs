//! Headers that pass between a caller and a function: which headers of the caller the function gets, and which headers
//! it may set.

use super::query::short;
use super::response::{Refusal, refuse};
use fnd_core::api::problem::Code;
use fnd_core::records::Response;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue, UPGRADE};

/// Most bytes of headers, names and values, that a function gets.
const GIVEN_MAX: usize = 16 << 10;

/// Headers that belong to one connection, not to the request or the answer (RFC 9110, section 7.6.1); `Proxy-*` too.
const HOP_BY_HOP: [&str; 6] = [
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Other headers that fnd sets itself.
const OWN: [&str; 3] = ["content-length", "date", "server"];

fn is_of_the_connection(name: &str) -> bool {
    HOP_BY_HOP.contains(&name) || name.starts_with("proxy-")
}

/// Returns the headers that a function gets, names in lower case: without those of the connection, those for fnd, and
/// `withheld` ones, which are the caller's credentials for fnd.
///
/// # Errors
/// [`Code::HeadersTooLarge`].
pub(crate) fn given(headers: &HeaderMap, withheld: &[&str]) -> Result<Vec<(String, String)>, Refusal> {
    let named = named(headers);
    let mut given = Vec::with_capacity(headers.len());
    let mut size = 0;
    for (name, value) in headers {
        let name = name.as_str();
        // A program gets `Fnd-Invocation` from fnd itself, so a caller must not be able to send one.
        let is_withheld = is_of_the_connection(name) || name.starts_with("fnd-") || withheld.contains(&name);
        if is_withheld || named.iter().any(|other| other == name) {
            continue;
        }
        let value = text(value);
        size += name.len() + value.len();
        if size > GIVEN_MAX {
            let detail = format!("the headers are larger than {GIVEN_MAX} bytes, the most that a function gets");
            return Err(refuse(Code::HeadersTooLarge, detail));
        }
        given.push((name.to_owned(), value));
    }
    Ok(given)
}

/// Returns the protocol that a caller asks for instead of HTTP; nothing if it asks for none, or for one that is not
/// passed on. `h2c` is HTTP again, with requests that nobody would check.
pub(crate) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut protocols = headers.get_all(UPGRADE).iter();
    let (protocol, None) = (protocols.next()?, protocols.next()) else {
        return None;
    };
    let is_asked = named(headers).iter().any(|name| name == "upgrade");
    let name = text(protocol).to_lowercase();
    let is_http = ["h2c", "http/", "tls/"].iter().any(|http| name.contains(http));
    (is_asked && !is_http).then(|| protocol.clone())
}

/// Adds the headers with which a program switches to another protocol; [`take_out`] removes them.
pub(crate) fn put_upgrade(protocol: Option<HeaderValue>, headers: &mut HeaderMap) {
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

/// Removes from a program's answer the headers of its connection and those that only fnd may set. `Content-Length` is
/// removed if there is a body, which determines it.
pub(crate) fn take_out(headers: &mut HeaderMap, has_body: bool) {
    let named = named(headers);
    let names: Vec<HeaderName> = headers.keys().cloned().collect();
    for name in names {
        let text = name.as_str();
        let own = text.starts_with("fnd-") || (has_body && name == hyper::header::CONTENT_LENGTH);
        if own || is_of_the_connection(text) || named.iter().any(|other| other == text) {
            headers.remove(name);
        }
    }
}

/// Returns the headers that `Connection` lists as its own.
fn named(headers: &HeaderMap) -> Vec<String> {
    let connection = headers.get_all(hyper::header::CONNECTION).iter();
    let names = connection.flat_map(|value| {
        let value = text(value).to_lowercase();
        value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>()
    });
    names.collect()
}

/// Returns the values of a header, whose name is in lower case, joined by commas like a single one (RFC 9110, section 5.3);
/// nothing if the header is absent.
pub(crate) fn joined(headers: &HeaderMap, name: &str) -> Option<String> {
    // A look-up would parse and hash the name, which takes longer than to compare it with the few names that are there.
    let of_name = headers.iter().filter(|(other, _)| other.as_str() == name);
    let values: Vec<String> = of_name.map(|(_, value)| text(value)).collect();
    (!values.is_empty()).then(|| values.join(","))
}

/// Returns a value as text; a value that is not UTF-8 counts as ISO 8859-1, the former standard (RFC 9110, section
/// 5.5).
fn text(value: &HeaderValue) -> String {
    match str::from_utf8(value.as_bytes()) {
        Ok(text) => text.to_owned(),
        Err(_) => value.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Returns the value of a header. Spaces around it are no part of it, and clients of HTTP/2 reset an answer that has them (RFC 9113,
/// section 8.2.1).
fn sendable(value: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    HeaderValue::from_bytes(value.trim_matches([' ', '\t']).as_bytes())
}

/// Sets the headers that a function chose on its answer. Returns invalid headers, for a warning. Headers that only fnd
/// may set are left out without a warning, because functions that ran behind other servers set them.
pub(crate) fn put(response: &Response, headers: &mut HeaderMap) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, value) in &response.headers {
        let parsed = (HeaderName::try_from(name), sendable(value));
        let (Ok(parsed), Ok(value)) = parsed else {
            wrong.push(short(name));
            continue;
        };
        let name = parsed.as_str();
        if is_of_the_connection(name) || OWN.contains(&name) || name.starts_with("fnd-") {
            continue;
        }
        if parsed == CONTENT_TYPE {
            // The answer already has a content type; the function's replaces it.
            headers.insert(parsed, value);
        } else {
            // A header such as `Set-Cookie` may come several times.
            headers.append(parsed, value);
        }
    }
    if let Some(stated) = &response.content_type {
        match sendable(stated) {
            Ok(value) => drop(headers.insert(CONTENT_TYPE, value)),
            Err(_) => wrong.push("content-type".to_owned()),
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        map
    }

    #[test]
    fn a_function_is_given_what_is_meant_for_it() {
        let headers = map(&[
            ("host", b"localhost"),
            ("cookie", b"a=1"),
            ("x-two", b"1"),
            ("x-two", b"2"),
            ("x-latin", b"caf\xe9"),
            ("x-utf-8", "café".as_bytes()),
            ("authorization", b"Bearer secret"),
            ("proxy-authorization", b"secret"),
            ("fnd-timeout", b"5s"),
            ("connection", b"keep-alive, X-Hop"),
            ("x-hop", b"gone"),
            ("keep-alive", b"timeout=5"),
            ("te", b"trailers"),
            ("transfer-encoding", b"chunked"),
        ]);
        let expected = [
            ("host", "localhost"),
            ("cookie", "a=1"),
            ("x-two", "1"),
            ("x-two", "2"),
            ("x-latin", "café"),
            ("x-utf-8", "café"),
        ];
        let given = given(&headers, &["authorization"]).unwrap();
        let given: Vec<_> = given
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(given, expected);
    }

    #[test]
    fn values_of_a_header_are_joined_in_their_order() {
        let headers = map(&[("b3", b"1"), ("tracestate", b"a=1"), ("b3", b"2")]);
        assert_eq!(joined(&headers, "b3").as_deref(), Some("1,2"));
        assert_eq!(joined(&headers, "tracestate").as_deref(), Some("a=1"));
        assert_eq!(joined(&headers, "traceparent"), None);
    }

    #[test]
    fn what_it_is_given_is_bounded() {
        let fits = vec![b'x'; GIVEN_MAX - 1];
        assert!(given(&map(&[("a", &fits)]), &["authorization"]).is_ok());
        let refused = given(&map(&[("a", &fits), ("b", b"x")]), &["authorization"]).unwrap_err();
        assert_eq!(refused.problem.status, 431);
    }

    #[test]
    fn a_function_sets_what_is_its_to_say() {
        let pairs = [
            ("X-Name", " välue\t"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("content-type", "text/html"),
            ("Content-Length", "7"),
            ("Transfer-Encoding", "chunked"),
            ("date", "now"),
            ("server", "mine"),
            ("fnd-invocation", "forged"),
            ("proxy-authenticate", "Basic"),
            ("bad name", "x"),
            ("bad-value", "a\r\nset-cookie: c=3"),
        ];
        let mut response = Response {
            headers: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..Response::default()
        };
        let mut headers = map(&[("content-type", b"text/plain")]);
        assert_eq!(put(&response, &mut headers), ["bad name", "bad-value"]);
        let expected = map(&[
            ("content-type", b"text/html"),
            ("x-name", "välue".as_bytes()),
            ("set-cookie", b"a=1"),
            ("set-cookie", b"b=2"),
        ]);
        assert_eq!(headers, expected);
        response.content_type = Some("text/csv ".to_owned());
        put(&response, &mut headers);
        assert_eq!(headers[CONTENT_TYPE], "text/csv");
    }
}
