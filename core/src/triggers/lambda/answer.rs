//! Reads a result as the answer to a request: an object with `statusCode`, any other JSON, or the prelude of a streamed
//! answer. A result that states another form by itself stays as it is.
//!
//! A streamed result can come whole, and can be asked for again after it has come: so its beginning alone is an answer only where
//! the whole result would be the same one.

use crate::json::is_json;
use crate::records::protocol::HEAD_MAX;
use crate::records::{Response, RunResult};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The media type of a streamed answer that begins with its status and headers.
const PRELUDE: &str = "application/vnd.awslambda.http-integration-response";
/// The bytes between the prelude and the body.
const SEPARATOR: [u8; 8] = [0; 8];
/// Most bytes of a prelude, with the bytes after it.
const PRELUDE_MAX: usize = 64 << 10;
const JSON: &str = "application/json";
const BYTES: &str = "application/octet-stream";
/// The media types that clients state by themselves, JSON or not: that of bytes, that of text, and that of `curl -d`.
const BY_CHANCE: [&str; 3] = [BYTES, "text/plain", "application/x-www-form-urlencoded"];
/// Most characters of a wrong value in a message.
const SHOWN: usize = 40;

/// Status, headers and body of an answer. Its headers are valid, but some of them may be fnd's to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// Status, headers and media type.
    pub response: Response,
    /// The bytes of the body.
    pub body: Bytes,
}

/// Why a result is no answer.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadAnswer {
    /// The result is called JSON and is none.
    #[error(
        "it is not JSON ({0}): a text is a JSON string, in quotes, or has another content type, such as `text/plain`"
    )]
    NotJson(String),
    /// The status is no number that an answer can have.
    #[error("`statusCode` is {0}: expected a number from 200 to 599")]
    Status(String),
    /// A key of the answer has a value of another type.
    #[error("`{key}` is not {expected}")]
    Kind {
        /// The key.
        key: &'static str,
        /// The type that it must have.
        expected: &'static str,
    },
    /// A header, or its value, cannot be sent.
    #[error("the header `{0}` has a name or a value that HTTP does not allow")]
    Header(String),
    /// The headers are more than those of any other function may be.
    #[error("its headers and cookies have more than {} KiB", HEAD_MAX >> 10)]
    TooLarge,
    /// A cookie cannot be sent.
    #[error("a cookie has a character that HTTP does not allow")]
    Cookie,
    /// The body is called Base64 and is none.
    #[error("`isBase64Encoded` is true, but `body` is not Base64 ({0})")]
    Base64(String),
    /// A streamed answer has no end of its prelude.
    #[error("no 8 zero bytes end its prelude, within {} KiB", PRELUDE_MAX >> 10)]
    NoPrelude,
    /// The prelude is not the JSON object that it has to be.
    #[error("its prelude is not a JSON object with `statusCode`, `headers` and `cookies` ({0})")]
    Prelude(String),
}

/// The keys of an answer. Their values are read only where the answer has a status: any other JSON may have the same keys.
#[derive(Debug, Deserialize)]
struct StatedAnswer<'a> {
    #[serde(borrow, rename = "statusCode")]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    headers: Option<&'a RawValue>,
    #[serde(borrow, rename = "multiValueHeaders")]
    lists: Option<&'a RawValue>,
    #[serde(borrow)]
    cookies: Option<&'a RawValue>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    #[serde(borrow, rename = "isBase64Encoded")]
    is_base64: Option<&'a RawValue>,
}

/// Returns the answer that a result stands for; nothing if the result itself is the answer.
///
/// # Errors
/// The result is no answer.
pub fn read(result: &RunResult) -> Result<Option<HttpAnswer>, BadAnswer> {
    if result.response.as_deref().is_some_and(is_chosen) {
        return Ok(None);
    }
    let media = essence(result.media_type());
    if media == PRELUDE {
        let (response, at) = prelude(&result.data)?.ok_or(BadAnswer::NoPrelude)?;
        let body = result.data.slice(at..);
        return Ok(Some(HttpAnswer { response, body }));
    }
    let is_stated = |stated: &StatedAnswer<'_>| stated.status.is_some() && may_be_stated(&media);
    if let Some(stated) = object(&result.data).filter(is_stated) {
        return answer(&stated).map(Some);
    }
    if is_json(&media) {
        return plain(&result.data).map(Some);
    }
    Ok(None)
}

/// Returns status and headers of a streamed answer, and where its body begins, as soon as what has come of it decides them.
///
/// # Errors
/// Its prelude is none.
pub fn begun(stated: &Response, bytes: &[u8]) -> Result<Option<(Response, usize)>, BadAnswer> {
    // All bytes together decide the media type.
    let Some(media) = stated.content_type.as_deref().map(essence) else {
        return Ok(None);
    };
    if !is_chosen(stated) {
        if media == PRELUDE {
            return prelude(bytes);
        }
        let first = bytes.trim_ascii_start().first();
        let is_other = first.is_some_and(|first| *first != b'{') && !is_json(&media);
        if may_be_stated(&media) && !is_other {
            return Ok(None);
        }
    }
    Ok(Some((stated.clone(), 0)))
}

/// Says whether a function has chosen status or headers as all functions of fnd do.
fn is_chosen(response: &Response) -> bool {
    response.status.is_some() || !response.headers.is_empty()
}

/// Says whether an object of this media type can be an answer. Any other type was stated on purpose.
fn may_be_stated(media: &str) -> bool {
    is_json(media) || BY_CHANCE.contains(&media)
}

fn essence(media_type: &str) -> String {
    let (media, _) = media_type.split_once(';').unwrap_or((media_type, ""));
    media.trim().to_ascii_lowercase()
}

/// Returns the keys of an answer, if the bytes are a JSON object.
fn object(bytes: &[u8]) -> Option<StatedAnswer<'_>> {
    // serde reads the values of a list as those of the keys, in order, so a list is left out here.
    let is_object = bytes.trim_ascii_start().starts_with(b"{");
    is_object.then(|| serde_json::from_slice(bytes).ok()).flatten()
}

fn answer(stated: &StatedAnswer<'_>) -> Result<HttpAnswer, BadAnswer> {
    let mut response = head(stated)?;
    response.content_type.get_or_insert_with(|| JSON.to_owned());
    let text: String = value(stated.body, "body", "a string; other values have to be made JSON text")?;
    let is_base64: bool = value(stated.is_base64, "isBase64Encoded", "true or false")?;
    let body: Bytes = match is_base64 {
        true => {
            let decoded = BASE64_STANDARD.decode(text);
            decoded.map_err(|error| BadAnswer::Base64(error.to_string()))?.into()
        }
        false => text.into(),
    };
    Ok(HttpAnswer { response, body })
}

/// Returns the answer for JSON without a status: the JSON itself, or the text of a string.
fn plain(data: &Bytes) -> Result<HttpAnswer, BadAnswer> {
    let not_json = |error: serde_json::Error| BadAnswer::NotJson(error.to_string());
    let body = match data.trim_ascii_start().first() {
        // A `bootstrap` that answers nothing.
        None => Bytes::new(),
        Some(b'"') => serde_json::from_slice::<String>(data).map_err(not_json)?.into(),
        Some(_) => {
            serde_json::from_slice::<IgnoredAny>(data).map_err(not_json)?;
            data.clone()
        }
    };
    let response = Response {
        content_type: Some(JSON.to_owned()),
        ..Response::default()
    };
    Ok(HttpAnswer { response, body })
}

/// Returns status and headers of a prelude, and where the body begins; nothing if the prelude is not complete.
fn prelude(bytes: &[u8]) -> Result<Option<(Response, usize)>, BadAnswer> {
    // JSON has no byte 0, so the first one begins the separator.
    let within = bytes.get(..PRELUDE_MAX).unwrap_or(bytes);
    let Some(at) = within.iter().position(|byte| *byte == 0) else {
        return if bytes.len() < PRELUDE_MAX {
            Ok(None)
        } else {
            Err(BadAnswer::NoPrelude)
        };
    };
    let (json, rest) = bytes.split_at(at);
    let begin = rest.get(..SEPARATOR.len()).unwrap_or(rest);
    if begin.iter().any(|byte| *byte != 0) {
        return Err(BadAnswer::NoPrelude);
    }
    if begin.len() < SEPARATOR.len() {
        return Ok(None);
    }
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(BadAnswer::Prelude("it is no object".to_owned()));
    }
    let stated: StatedAnswer<'_> =
        serde_json::from_slice(json).map_err(|error| BadAnswer::Prelude(error.to_string()))?;
    let mut response = head(&stated)?;
    response.content_type.get_or_insert_with(|| BYTES.to_owned());
    Ok(Some((response, at + SEPARATOR.len())))
}

fn head(stated: &StatedAnswer<'_>) -> Result<Response, BadAnswer> {
    let mut response = Response {
        status: stated.status.map(status).transpose()?,
        ..Response::default()
    };
    let lists: BTreeMap<String, Vec<String>> =
        value(stated.lists, "multiValueHeaders", "an object with lists of strings")?;
    let lower = |(name, values): (String, _)| (name.to_ascii_lowercase(), values);
    let lists: BTreeMap<String, Vec<String>> = lists.into_iter().map(lower).collect();
    let headers: Map<String, Value> = value(stated.headers, "headers", "an object")?;
    for (name, value) in headers {
        let name = name.to_ascii_lowercase();
        let text = match value {
            // Its list has the value, too.
            _ if lists.contains_key(&name) => continue,
            Value::Null => continue,
            Value::String(text) => text,
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => return Err(BadAnswer::Header(short(&name))),
        };
        set(&mut response, name, text)?;
    }
    for (name, values) in lists {
        for text in values {
            set(&mut response, name.clone(), text)?;
        }
    }
    let cookies: Vec<String> = value(stated.cookies, "cookies", "a list of strings")?;
    for cookie in cookies {
        if !is_value(&cookie) {
            return Err(BadAnswer::Cookie);
        }
        response.headers.push(("set-cookie".to_owned(), cookie));
    }
    let named = response.headers.iter().map(|(name, value)| name.len() + value.len());
    let stated = response.content_type.iter().map(String::len);
    if named.chain(stated).sum::<usize>() > HEAD_MAX {
        return Err(BadAnswer::TooLarge);
    }
    Ok(response)
}

/// Sets a header whose name is in lower case.
fn set(response: &mut Response, name: String, text: String) -> Result<(), BadAnswer> {
    if !is_name(&name) || !is_value(&text) {
        return Err(BadAnswer::Header(short(&name)));
    }
    if name == "content-type" {
        response.content_type = Some(text);
    } else {
        response.headers.push((name, text));
    }
    Ok(())
}

/// Returns a status, which may be a number or its text.
fn status(stated: &RawValue) -> Result<u16, BadAnswer> {
    let number = stated.get().trim_matches('"').parse::<u16>().ok();
    let number = number.filter(|number| (200..600).contains(number));
    number.ok_or_else(|| BadAnswer::Status(short(stated.get())))
}

/// Returns the value of a key; without it, the default one.
fn value<T: DeserializeOwned + Default>(
    stated: Option<&RawValue>,
    key: &'static str,
    expected: &'static str,
) -> Result<T, BadAnswer> {
    let read = stated.map(|stated| serde_json::from_str(stated.get()));
    let read = read.transpose().map_err(|_| BadAnswer::Kind { key, expected })?;
    Ok(read.unwrap_or_default())
}

/// Says whether a text can be the name of a header (RFC 9110, section 5.1).
fn is_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

/// Says whether a text can be the value of a header. The end of a line would begin another header.
fn is_value(value: &str) -> bool {
    value.chars().all(|char| char == '\t' || !char.is_control())
}

fn short(text: &str) -> String {
    text.chars().take(SHOWN).flat_map(char::escape_default).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns what a result of a media type states.
    fn of(content_type: &str) -> Response {
        Response {
            content_type: Some(content_type.to_owned()),
            ..Response::default()
        }
    }

    fn result(content_type: &str, data: &[u8]) -> RunResult {
        RunResult::stated(of(content_type), Bytes::copy_from_slice(data))
    }

    /// Returns status, media type, headers and body of an answer as text, or why there is none.
    fn shown(content_type: &str, data: &[u8]) -> String {
        match read(&result(content_type, data)) {
            Ok(None) => "as it is".to_owned(),
            Ok(Some(HttpAnswer { response, body })) => {
                let headers: Vec<String> = response.headers.iter().map(|(n, v)| format!("{n}: {v}; ")).collect();
                let status = response.status.unwrap_or(200);
                let media = response.content_type.unwrap_or_default();
                format!(
                    "{status} {media} {}{}",
                    headers.concat(),
                    String::from_utf8_lossy(&body)
                )
            }
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn answers_are_what_lambda_documents() {
        for (data, expected) in [
            // The examples of "Response payload format".
            (r#"{"message": "hi"}"#, r#"200 application/json {"message": "hi"}"#),
            (
                r#"{"statusCode": 201, "headers": {"Content-Type": "application/json", "My-Custom-Header": "Custom Value"},
                    "body": "{ \"message\": \"Hello, world!\" }",
                    "cookies": ["Cookie_1=Value1; Expires=21 Oct 2021 07:48 GMT", "Cookie_2=Value2; Max-Age=78000"],
                    "isBase64Encoded": false}"#,
                r#"201 application/json my-custom-header: Custom Value; set-cookie: Cookie_1=Value1; Expires=21 Oct 2021 07:48 GMT; set-cookie: Cookie_2=Value2; Max-Age=78000; { "message": "Hello, world!" }"#,
            ),
            (r#" "Hello from Lambda!""#, "200 application/json Hello from Lambda!"),
            ("null", "200 application/json null"),
            ("[1, 2]", "200 application/json [1, 2]"),
            ("", "200 application/json "),
            (r#"{"statusCode": 204}"#, "204 application/json "),
            (r#"{"statusCode": "404", "body": "no"}"#, "404 application/json no"),
            (
                r#"{"statusCode": 200, "body": "aGk=", "isBase64Encoded": true, "headers": {"content-type": "text/html"}}"#,
                "200 text/html hi",
            ),
            (
                r#"{"statusCode": 200, "headers": {"a": 7, "b": true, "c": 1.5, "d": null}, "cookies": null, "body": null}"#,
                "200 application/json a: 7; b: true; c: 1.5; ",
            ),
            // The client of Swift sends headers with several values so.
            (
                r#"{"statusCode": 200, "headers": {"a": "1", "b": "2"}, "multiValueHeaders": {"A": ["1", "3"], "Set-Cookie": ["c=1"]}}"#,
                "200 application/json b: 2; a: 1; a: 3; set-cookie: c=1; ",
            ),
            // Without a status the keys mean nothing.
            (
                r#"{"statusCode": null, "body": 7}"#,
                r#"200 application/json {"statusCode": null, "body": 7}"#,
            ),
            (r#"{"body": [7]}"#, r#"200 application/json {"body": [7]}"#),
        ] {
            assert_eq!(shown(JSON, data.as_bytes()), expected, "{data}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused_with_the_reason() {
        for (data, expected) in [
            ("{", "it is not JSON"),
            ("Echoing", "it is not JSON"),
            (r#"{"statusCode": 1000}"#, "`statusCode` is 1000: expected"),
            (r#"{"statusCode": 101}"#, "`statusCode` is 101: expected"),
            (r#"{"statusCode": -1}"#, "`statusCode` is -1: expected"),
            (r#"{"statusCode": 200.5}"#, "`statusCode` is 200.5: expected"),
            (r#"{"statusCode": [200]}"#, "`statusCode` is [200]: expected"),
            (r#"{"statusCode": 200, "headers": []}"#, "`headers` is not an object"),
            (r#"{"statusCode": 200, "headers": {"a": ["b"]}}"#, "the header `a` has"),
            (
                r#"{"statusCode": 200, "headers": {"a": "b\r\nc: d"}}"#,
                "the header `a` has",
            ),
            (
                r#"{"statusCode": 200, "headers": {"a b": "c"}}"#,
                "the header `a b` has",
            ),
            (
                r#"{"statusCode": 200, "headers": {"a\nb": "c"}}"#,
                "the header `a\\nb` has",
            ),
            (r#"{"statusCode": 200, "cookies": "a=1"}"#, "`cookies` is not a list"),
            (
                r#"{"statusCode": 200, "multiValueHeaders": {"a": "b"}}"#,
                "`multiValueHeaders` is not an object",
            ),
            (r#"{"statusCode": 200, "cookies": ["a=1\nb"]}"#, "a cookie has"),
            (r#"{"statusCode": 200, "body": {"a": 1}}"#, "`body` is not a string"),
            (
                r#"{"statusCode": 200, "isBase64Encoded": "true"}"#,
                "`isBase64Encoded` is not",
            ),
            (
                r#"{"statusCode": 200, "body": "a b", "isBase64Encoded": true}"#,
                "`isBase64Encoded` is true, but",
            ),
        ] {
            let found = shown(JSON, data.as_bytes());
            assert!(found.starts_with(expected), "{data}: {found}");
        }
    }

    #[test]
    fn headers_and_cookies_are_bounded() {
        let header = |size: usize| format!(r#"{{"statusCode": 204, "headers": {{"a": "{}"}}}}"#, "x".repeat(size));
        let names: Vec<String> = (0..40_000).map(|name| format!(r#""{name}": """#)).collect();
        let names = format!(r#"{{"statusCode": 204, "headers": {{{}}}}}"#, names.join(", "));
        let cookie = "c".repeat(HEAD_MAX);
        for (data, fits) in [
            (header(HEAD_MAX - 1), true),
            (header(HEAD_MAX), false),
            (format!(r#"{{"statusCode": 204, "cookies": ["{cookie}"]}}"#), false),
            // More names than the headers of an answer can hold.
            (names, false),
        ] {
            let found = read(&result(JSON, data.as_bytes()));
            assert_eq!(found.is_ok(), fits);
            assert!(fits || found == Err(BadAnswer::TooLarge), "{found:?}");
        }
    }

    #[test]
    fn the_media_type_of_the_result_says_how_it_is_read() {
        for (content_type, data, expected) in [
            ("text/html", "<p>", "as it is"),
            (BYTES, "{", "as it is"),
            (BYTES, r#"{"statusCode": 404}"#, "404 application/json "),
            (BYTES, r#"{"a": 1}"#, "as it is"),
            (
                "application/x-www-form-urlencoded",
                r#"{"statusCode": 404}"#,
                "404 application/json ",
            ),
            ("application/x-ndjson", r#"{"statusCode": 404}"#, "as it is"),
            ("Application/JSON; charset=utf-8", r#""ok""#, "200 application/json ok"),
            (
                PRELUDE,
                "{\"statusCode\": 202}\0\0\0\0\0\0\0\0body",
                "202 application/octet-stream body",
            ),
            (
                PRELUDE,
                "{\"headers\": {\"Content-Type\": \"text/plain\"}, \"cookies\": [\"a=1\"]}\0\0\0\0\0\0\0\0\0b",
                "200 text/plain set-cookie: a=1; \0b",
            ),
            (PRELUDE, "{}", "no 8 zero bytes end its prelude, within 64 KiB"),
            (PRELUDE, "{}\0\0\0\0x", "no 8 zero bytes end its prelude, within 64 KiB"),
            (
                PRELUDE,
                "[]\0\0\0\0\0\0\0\0",
                "its prelude is not a JSON object with `statusCode`, `headers` and `cookies` (it is no object)",
            ),
        ] {
            assert_eq!(
                shown(content_type, data.as_bytes()),
                expected,
                "{content_type} {data:?}"
            );
        }
        let mut own = result(JSON, br#"{"statusCode": 404}"#);
        own.response = Some(std::sync::Arc::new(Response {
            status: Some(201),
            ..Response::default()
        }));
        assert_eq!(read(&own), Ok(None));
    }

    #[test]
    fn a_stream_begins_as_soon_as_its_prelude_is_there() {
        let whole = b"{\"statusCode\": 201}\0\0\0\0\0\0\0\0body";
        let body = whole.len() - 4;
        for end in 0..=whole.len() {
            let found = begun(&of(PRELUDE), &whole[..end]).unwrap();
            let found = found.map(|(response, at)| (response.status, at));
            assert_eq!(found, (end >= body).then_some((Some(201), body)), "{end}");
        }
        assert_eq!(begun(&of(PRELUDE), &[b' '; PRELUDE_MAX]), Err(BadAnswer::NoPrelude));
    }

    #[test]
    fn a_stream_is_the_same_answer_as_its_whole_result() {
        for (content_type, first, is_begun) in [
            ("text/event-stream", "", true),
            ("application/x-ndjson", "{", true),
            ("text/plain", "", false),
            ("text/plain; charset=utf-8", " a", true),
            (BYTES, " {", false),
            (BYTES, "\u{0}", true),
            (JSON, "[", false),
            ("application/problem+json", "{", false),
        ] {
            let begun = begun(&of(content_type), first.as_bytes()).unwrap();
            let expected = is_begun.then(|| (of(content_type), 0));
            assert_eq!(begun, expected, "{content_type} {first}");
        }
        assert_eq!(begun(&Response::default(), b"a"), Ok(None));
        for content_type in [JSON, PRELUDE, BYTES] {
            let chosen = Response {
                status: Some(404),
                ..of(content_type)
            };
            assert_eq!(begun(&chosen, b"{"), Ok(Some((chosen.clone(), 0))));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_refused(
            text in r#"[ {}\[\]",:a-z0-9\\]{0,40}"#,
            noise in prop::collection::vec(any::<u8>(), 0..40),
            status in "\"?[0-9]{1,4}\"?",
            value in any::<String>(),
        ) {
            let value = serde_json::to_string(&value).unwrap();
            let stated = format!(r#"{{"statusCode":{status},"headers":{{"a":{value}}},"cookies":[{value}],"body":{value}}}"#);
            for bytes in [text.into_bytes(), noise, stated.into_bytes()] {
                for content_type in [JSON, PRELUDE, BYTES] {
                    let Ok(Some(answer)) = read(&result(content_type, &bytes)) else { continue };
                    prop_assert!(answer.response.status.is_none_or(|status| (200..600).contains(&status)));
                    for (name, value) in &answer.response.headers {
                        prop_assert!(is_name(name) && !value.contains(['\r', '\n', '\0']));
                    }
                }
            }
        }
    }
}
