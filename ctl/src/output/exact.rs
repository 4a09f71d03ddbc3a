//! A JSON document as a value that no number spoils: results of functions have numbers that 64 bits cannot hold.

use crate::exit::CommandFailure;
use serde::de::{Error as _, IgnoredAny};
use serde_json::value::RawValue;
use serde_json::{Number, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Most arrays and objects in each other, as in `serde_json`: deeper ones could exhaust the stack, and a function may send them.
const DEPTH_MAX: u32 = 128;

/// Returns the value of a document. A number that 64 bits cannot hold is a text.
///
/// # Errors
/// The document is not JSON, or has more than [`DEPTH_MAX`] levels.
pub(super) fn value(json: &[u8]) -> serde_json::Result<Value> {
    of(serde_json::from_slice(json)?, DEPTH_MAX)
}

/// Returns the result of a function as JSON: as it is, or as a text. Nothing is `null`.
///
/// # Errors
/// It is no text, so JSON cannot have it.
pub(super) fn as_json(bytes: &[u8]) -> Result<Cow<'_, [u8]>, CommandFailure> {
    // Before JSON is read: the reader does not look at the bytes of texts.
    let text = std::str::from_utf8(bytes);
    let text = text
        .map_err(|_| CommandFailure::usage("the result is no text, so JSON cannot have it").help("leave `-o` out"))?;
    let trimmed = text.trim_ascii();
    if trimmed.is_empty() {
        return Ok(Cow::Borrowed(b"null".as_slice()));
    }
    if serde_json::from_str::<IgnoredAny>(trimmed).is_ok() {
        return Ok(Cow::Borrowed(trimmed.as_bytes()));
    }
    Ok(Cow::Owned(serde_json::to_vec(text).unwrap_or_default())) // a text is always JSON
}

fn of(raw: &RawValue, depth: u32) -> serde_json::Result<Value> {
    let text = raw.get();
    let inner = || {
        depth
            .checked_sub(1)
            .ok_or_else(|| serde_json::Error::custom("more than 128 levels"))
    };
    match text.as_bytes().first() {
        Some(b'{') => {
            let inner = inner()?;
            let members = serde_json::from_str::<BTreeMap<String, &RawValue>>(text)?;
            members
                .into_iter()
                .map(|(name, value)| Ok((name, of(value, inner)?)))
                .collect()
        }
        Some(b'[') => {
            let inner = inner()?;
            let items = serde_json::from_str::<Vec<&RawValue>>(text)?;
            items.into_iter().map(|item| of(item, inner)).collect()
        }
        Some(b'-' | b'0'..=b'9') => Ok(number(text).map_or_else(|| Value::from(text), Value::Number)),
        _ => serde_json::from_str(text),
    }
}

fn number(text: &str) -> Option<Number> {
    // serde_json reads a whole number beyond 64 bits as a float, which would change its digits. It reads `-0` as a
    // float, too, and that one is exact.
    let number: Number = serde_json::from_str(text).ok()?;
    let is_whole = !text.contains(['.', 'e', 'E']);
    (!is_whole || !number.is_f64() || text == "-0").then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_json_or_a_text_of_json() {
        let results: [(&[u8], Option<&str>); 7] = [
            (b" {\"a\": 1e400}\n", Some("{\"a\": 1e400}")),
            (b"", Some("null")),
            (b"\n", Some("null")),
            (b"two words\n", Some("\"two words\\n\"")),
            (b"{\"a\": 1} 2", Some("\"{\\\"a\\\": 1} 2\"")),
            (b"\xff", None),
            (b"{\"a\": \"\xff\"}", None),
        ];
        for (result, expected) in results {
            let json = as_json(result)
                .ok()
                .map(|json| String::from_utf8(json.into_owned()).unwrap());
            assert_eq!(json.as_deref(), expected, "{result:?}");
        }
    }

    #[test]
    fn a_number_is_the_same_or_a_text() {
        for (json, expected) in [
            ("1e400", "\"1e400\""),
            ("[1, -2.50, true, null, \"x\"]", "[1,-2.5,true,null,\"x\"]"),
            (
                "{\"b\": {\"c\": -1e999}, \"a\": []}",
                "{\"a\":[],\"b\":{\"c\":\"-1e999\"}}",
            ),
            ("18446744073709551615", "18446744073709551615"),
            ("18446744073709551616", "\"18446744073709551616\""),
            ("-0", "-0.0"),
        ] {
            assert_eq!(value(json.as_bytes()).unwrap().to_string(), expected, "{json}");
        }
        assert!(value(b"{").is_err() && value(b"1 2").is_err());
        let nested = |levels: usize| value(("[".repeat(levels) + &"]".repeat(levels)).as_bytes());
        assert!(nested(128).is_ok() && nested(129).is_err() && nested(1 << 20).is_err());
    }
}
