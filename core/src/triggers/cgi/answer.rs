//! Reads what a CGI script has printed (RFC 3875, section 6): headers up to an empty line, then the body, byte for byte.
//!
//! A local `Location` is not followed, as some servers do: it becomes a redirect like any other.

use crate::records::Response;

/// Most bytes of the headers, with the empty line after them.
const HEAD_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 100;
/// Headers between two programs on a connection, and those that fnd writes itself: they are left out.
const DROPPED: [&str; 10] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Why the output is no answer.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadAnswer {
    /// The script printed nothing, not even the headers.
    #[error("a CGI script has to print headers, but it printed nothing")]
    Empty,
    /// The output begins like a complete HTTP response.
    #[error("it printed a status line of HTTP (an `nph-` script does that): print `Status: 404 Not Found` instead")]
    StatusLine,
    /// There is no empty line.
    #[error("no empty line ends the headers that it printed, within {} KiB", HEAD_MAX >> 10)]
    NoEnd,
    /// There are too many headers.
    #[error("it printed more than {HEADERS_MAX} headers")]
    TooMany,
    /// A line is no header.
    #[error("line {0} of its output is not a header such as `Content-Type: text/html`")]
    Line(usize),
    /// A header of CGI was printed twice.
    #[error("it printed the header `{0}` twice")]
    Twice(&'static str),
    /// The status is no number that an answer can have.
    #[error("it printed `Status: {0}`: expected a number from 200 to 599")]
    Status(String),
    /// The location is neither a path nor a URI.
    #[error(
        "it printed a `Location` that is neither a path such as `/new` nor a URI such as `https://example.com/new`"
    )]
    Location,
    /// The form of the body is not stated.
    #[error("it printed none of the headers `Content-Type`, `Location` and `Status`")]
    NoField,
    /// A body without a type.
    #[error("it printed a body but no header `Content-Type`")]
    NoType,
}

/// Returns the answer that a script has printed, and where its body begins.
///
/// # Errors
/// The output is no answer.
pub fn read(output: &[u8]) -> Result<(Response, usize), BadAnswer> {
    if output.is_empty() {
        return Err(BadAnswer::Empty);
    }
    let mut answer = Response::default();
    let (mut location, mut count, mut at) = (None, 0, 0);
    for number in 1.. {
        let rest = output.get(at..).unwrap_or_default();
        let within = rest.get(..HEAD_MAX.saturating_sub(at)).unwrap_or(rest);
        let end = within.iter().position(|byte| *byte == b'\n');
        // A line that is no header tells more than a missing end.
        let line = within.get(..end.unwrap_or(within.len())).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if end.is_some() && line.is_empty() {
            at += end.unwrap_or(0) + 1;
            break;
        }
        if number == 1 && line.starts_with(b"HTTP/") {
            return Err(BadAnswer::StatusLine);
        }
        let (name, value) = match (header(line), end) {
            (Some(header), Some(_)) => header,
            (None, _) if !line.is_empty() && rest.len() == within.len() => return Err(BadAnswer::Line(number)),
            (_, None) => return Err(BadAnswer::NoEnd),
            (None, Some(_)) => return Err(BadAnswer::Line(number)),
        };
        at += end.unwrap_or(0) + 1;
        count += 1;
        if count > HEADERS_MAX {
            return Err(BadAnswer::TooMany);
        }
        match name.as_str() {
            "status" => once("Status", &mut answer.status, status_number(&value)?)?,
            "content-type" => once("Content-Type", &mut answer.content_type, value)?,
            "location" => once("Location", &mut location, value)?,
            // Headers `Fnd-...` are statements of fnd about the run, so a script cannot set them.
            dropped if DROPPED.contains(&dropped) || dropped.starts_with("fnd-") => {}
            _ => answer.headers.push((name, value)),
        }
    }
    let has_body = at < output.len();
    if let Some(location) = location {
        if !is_location(&location) {
            return Err(BadAnswer::Location);
        }
        // RFC 3875, section 6.2.3: a redirect without a status is `302 Found`.
        answer.status = answer.status.or(Some(302));
        answer.headers.push(("location".to_owned(), location));
    // RFC 3875, section 6.3.1: a body needs a type. fnd does not guess one, since browsers act on it.
    } else if answer.content_type.is_none() && has_body {
        return Err(BadAnswer::NoType);
    } else if answer.content_type.is_none() && answer.status.is_none() {
        return Err(BadAnswer::NoField);
    }
    Ok((answer, at))
}

/// Returns name, in lower case, and value of a header; nothing for another line, and for one that continues the line
/// before.
fn header(line: &[u8]) -> Option<(String, String)> {
    let (name, value) = str::from_utf8(line).ok()?.split_once(':')?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let value = value.trim_matches([' ', '\t']);
    let is_value = |char: char| char == '\t' || !char.is_ascii_control();
    // A continuation line begins with a space, which no name has: RFC 3875, section 6.3, forbids such lines.
    let fits = !name.is_empty() && name.bytes().all(is_token) && value.chars().all(is_value);
    fits.then(|| (name.to_ascii_lowercase(), value.to_owned()))
}

fn once<T>(name: &'static str, place: &mut Option<T>, value: T) -> Result<(), BadAnswer> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(BadAnswer::Twice(name)),
    }
}

/// Returns the number of `404 Not Found`.
fn status_number(value: &str) -> Result<u16, BadAnswer> {
    let (digits, _) = value.split_once(' ').unwrap_or((value, ""));
    let number = Some(digits).filter(|digits| digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit()));
    number
        .and_then(|digits| digits.parse().ok())
        .filter(|number| (200..600).contains(number))
        .ok_or_else(|| BadAnswer::Status(value.chars().take(64).collect()))
}

/// Returns whether a text is a path or an absolute URI, without spaces.
fn is_location(text: &str) -> bool {
    let scheme = |(scheme, rest): (&str, &str)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
            && !rest.is_empty()
    };
    let is_plain = text.chars().all(|char| !char.is_whitespace() && !char.is_control());
    is_plain && (text.starts_with('/') || text.split_once(':').is_some_and(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Status, content type, headers, body.
    type Expected<'a> = (Option<u16>, Option<&'a str>, &'a [(&'a str, &'a str)], &'a [u8]);

    fn check(output: &[u8], expected: Expected<'_>) {
        let (answer, at) = read(output).unwrap();
        let headers: Vec<_> = answer
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let found = (
            answer.status,
            answer.content_type.as_deref(),
            &headers[..],
            &output[at..],
        );
        assert_eq!(found, expected, "{}", output.escape_ascii());
    }

    fn check_refused(output: &[u8], expected: &BadAnswer) {
        assert_eq!(read(output).unwrap_err(), *expected, "{}", output.escape_ascii());
    }

    #[test]
    fn headers_end_at_an_empty_line_and_the_body_is_unchanged() {
        let html = Some("text/html");
        check(b"Content-Type: text/html\n\n<p>\r\n", (None, html, &[], b"<p>\r\n"));
        check(
            b"content-type:text/html\r\n\r\n\n\0\xff",
            (None, html, &[], b"\n\0\xff"),
        );
        check(
            b"Content-Type:\t text/html \t\nX-A: b: c\nX-a:\n\n",
            (None, html, &[("x-a", "b: c"), ("x-a", "")], b""),
        );
        check(
            b"Status: 404 Not Found\nContent-Type: text/html\n\nno",
            (Some(404), html, &[], b"no"),
        );
        check(b"Status: 204\n\n", (Some(204), None, &[], b""));
        let utf8 = "Content-Type: text/html\nX-A: \u{e9}\n\n".as_bytes();
        check(utf8, (None, html, &[("x-a", "\u{e9}")], b""));
    }

    #[test]
    fn a_location_is_a_redirect() {
        let to = |path: &'static str| [("location", path)];
        check(b"Location: /new?a=b\n\n", (Some(302), None, &to("/new?a=b"), b""));
        check(
            b"Location: https://example.com/\n\n",
            (Some(302), None, &to("https://example.com/"), b""),
        );
        let kept = b"Status: 308 Permanent Redirect\nLocation: /new\n\n";
        check(kept, (Some(308), None, &to("/new"), b""));
        for location in ["", "new", "/a b", ":x", "1a:b", "https:"] {
            check_refused(format!("Location: {location}\n\n").as_bytes(), &BadAnswer::Location);
        }
    }

    #[test]
    fn headers_of_the_connection_and_of_fnd_are_left_out() {
        let output = b"Content-Type: a/b\nConnection: close\nTransfer-Encoding: chunked\nContent-Length: 99\n\
            Fnd-Invocation: x\nKeep-Alive: 1\nUpgrade: h2c\nX-Kept: y\n\nbody";
        check(output, (None, Some("a/b"), &[("x-kept", "y")], b"body"));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        check_refused(b"", &BadAnswer::Empty);
        check_refused(b"HTTP/1.1 200 OK\nContent-Type: a/b\n\n", &BadAnswer::StatusLine);
        check_refused(b"Hello\n", &BadAnswer::Line(1));
        check_refused(b"Hello", &BadAnswer::Line(1));
        check_refused(b"{\"a\": 1}\n\n", &BadAnswer::Line(1));
        check_refused(b"Content-Type: a/b\n", &BadAnswer::NoEnd);
        check_refused(b"Content-Type: a/b", &BadAnswer::NoEnd);
        check_refused(b"Content-Type: a/b\n continued\n\n", &BadAnswer::Line(2));
        check_refused(b"Content-Type : a/b\n\n", &BadAnswer::Line(1));
        check_refused(b"Content-Type: a/b\nX-A: b\rSet-Cookie: c\n\n", &BadAnswer::Line(2));
        check_refused(b"Content-Type: a/b\nX-A: \0\n\n", &BadAnswer::Line(2));
        check_refused(b"Content-Type: a/b\nX-A: \xff\n\n", &BadAnswer::Line(2));
        check_refused(
            b"Content-Type: a/b\nContent-Type: c/d\n\n",
            &BadAnswer::Twice("Content-Type"),
        );
        check_refused(b"Status: 200\nStatus: 200\n\n", &BadAnswer::Twice("Status"));
        check_refused(b"Location: /a\nLocation: /b\n\n", &BadAnswer::Twice("Location"));
        check_refused(b"\nbody", &BadAnswer::NoType);
        check_refused(b"Status: 200\n\nbody", &BadAnswer::NoType);
        check_refused(b"\n", &BadAnswer::NoField);
        check_refused(b"X-A: b\n\n", &BadAnswer::NoField);
        for status in ["", "OK", "20", "2000", "199", "600", "+20", "200OK"] {
            let output = format!("Status: {status}\n\n");
            check_refused(output.as_bytes(), &BadAnswer::Status(status.to_owned()));
        }
    }

    #[test]
    fn headers_are_bounded() {
        let many = |count: usize| format!("Content-Type: a/b\n{}\n", "X: y\n".repeat(count)).into_bytes();
        assert!(read(&many(HEADERS_MAX - 1)).is_ok());
        check_refused(&many(HEADERS_MAX), &BadAnswer::TooMany);
        let long = |size: usize| format!("Content-Type: a/b\nX: {}\n\n", "y".repeat(size)).into_bytes();
        let around = b"Content-Type: a/b\nX: \n\n".len();
        assert!(read(&long(HEAD_MAX - around)).is_ok());
        check_refused(&long(HEAD_MAX - around + 1), &BadAnswer::NoEnd);
        check_refused(&vec![b'x'; 1 << 20], &BadAnswer::NoEnd);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_refused(
            output in "((Status|Location|Content-Type|X-[a-z]):? ?[ -~é]{0,12}\r?\n){0,4}\r?\n?[ -~\n]{0,9}",
            noise in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            for output in [output.into_bytes(), noise] {
                let Ok((answer, at)) = read(&output) else { continue };
                prop_assert!(output[..at].ends_with(b"\n"));
                prop_assert!(answer.status.is_none_or(|status| (200..600).contains(&status)));
                for (name, value) in &answer.headers {
                    prop_assert!(!name.is_empty() && !value.contains(['\r', '\n', '\0']));
                }
            }
        }
    }
}
