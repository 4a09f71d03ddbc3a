//! Reads JSON texts and makes them compact without changing a number, and measures their depth.
//!
//! Numbers stay as they are written: a parser that converts them to `f64` changes those above 2^53 and some fractions.

use serde::de::IgnoredAny;
use serde_json::Value;
use std::collections::BTreeMap;

/// Deepest nesting of arrays and objects that fnd accepts. Parsers in the languages of functions fail a little above
/// it, and some of them crash.
pub const DEPTH_MAX: usize = 500;

/// Says whether a text that is JSON is nested deeper than [`DEPTH_MAX`].
#[must_use]
pub fn is_too_deep(json: &[u8]) -> bool {
    // Each level takes two bytes, so a short text cannot be too deep.
    if json.len() <= 2 * DEPTH_MAX {
        return false;
    }
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            // A bracket in a string opens nothing.
            _ if in_string => {}
            b'[' | b'{' => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Returns JSON without blanks and with sorted object keys; if a key occurs twice, its last value stays. Numbers stay
/// as they are written. Returns nothing where the text is not JSON, or too deep.
#[must_use]
pub fn compact(json: &[u8]) -> Option<String> {
    compacted(json, true)
}

/// The same, but the keys stay in their order. If a key occurs twice, both stay.
#[must_use]
pub fn in_order(json: &[u8]) -> Option<String> {
    compacted(json, false)
}

fn compacted(json: &[u8], sorted: bool) -> Option<String> {
    let mut reader = JsonReader::of(json)?;
    let mut compact = String::with_capacity(json.len());
    reader.value(&mut compact, sorted)?;
    Some(compact)
}

/// Calls `visit` for the members of all objects in a value; `visit` may change them. Members inside a member are
/// visited as well, unless `visit` says that it has handled that member.
pub fn visit_members(value: &mut Value, visit: &mut impl FnMut(&str, &mut Value) -> bool) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                if !visit(key, member) {
                    visit_members(member, visit);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit_members(item, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Reads a text that is known to be JSON.
pub(crate) struct JsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> JsonReader<'a> {
    /// Returns the reader of a text. Returns nothing where the text is not JSON, or too deep.
    pub(crate) fn of(json: &'a [u8]) -> Option<Self> {
        let text = str::from_utf8(json).ok()?;
        // serde_json passes over an ignored value without recursion. So hostile nesting is found here, before `value`
        // recurses.
        serde_json::from_str::<IgnoredAny>(text).ok()?;
        (!is_too_deep(json)).then_some(Self { text, at: 0 })
    }

    /// Appends the next value.
    fn value(&mut self, out: &mut String, sorted: bool) -> Option<()> {
        match self.peek()? {
            b'{' => self.object(out, sorted),
            b'[' => {
                let mut before = '[';
                self.items(|reader| {
                    out.push(std::mem::replace(&mut before, ','));
                    reader.value(out, sorted)
                })?;
                out.push_str(if before == '[' { "[]" } else { "]" });
                Some(())
            }
            b'"' => {
                let string = self.string()?;
                write(&string, out)
            }
            _ => {
                out.push_str(self.word()?);
                Some(())
            }
        }
    }

    fn object(&mut self, out: &mut String, sorted: bool) -> Option<()> {
        let mut members = Vec::new();
        self.members(|reader, key| {
            let mut value = String::new();
            reader.value(&mut value, sorted)?;
            members.push((key, value));
            Some(())
        })?;
        out.push('{');
        if sorted {
            // A map keeps the last value of a key that occurs twice.
            members = members.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
        }
        for (number, (key, value)) in members.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            write(key, out)?;
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        Some(())
    }

    /// Reads an array; `read` reads each item.
    pub(crate) fn items(&mut self, mut read: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        while self.peek()? != b']' {
            // The text was checked, so each comma is where it belongs.
            if self.peek()? == b',' {
                self.at += 1;
            }
            read(self)?;
        }
        self.at += 1;
        Some(())
    }

    /// Reads an object; `read` gets each key and reads its value.
    pub(crate) fn members(&mut self, mut read: impl FnMut(&mut Self, String) -> Option<()>) -> Option<()> {
        self.at += 1;
        while self.peek()? != b'}' {
            if self.peek()? == b',' {
                self.at += 1;
                self.peek()?;
            }
            let key = self.string()?;
            self.peek()?;
            self.at += 1; // the colon
            read(self, key)?;
        }
        self.at += 1;
        Some(())
    }

    /// Passes over the next value.
    pub(crate) fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'{' => self.members(|reader, _| reader.skip()),
            b'[' => self.items(Self::skip),
            b'"' => self.string().map(drop),
            _ => self.word().map(drop),
        }
    }

    /// Returns the number, `true`, `false` or `null` that begins here, as it is written.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..)?;
        let end = rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end)
    }

    /// Returns the string that begins here, unescaped.
    pub(crate) fn string(&mut self) -> Option<String> {
        let rest = self.text.get(self.at..)?;
        let mut escaped = false;
        let end = rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        let literal = rest.get(..end + 2)?;
        self.at += literal.len();
        serde_json::from_str(literal).ok()
    }

    /// Returns the next byte that is not a blank.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let blanks = rest.iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
        self.at += blanks;
        rest.get(blanks).copied()
    }
}

fn write(string: &str, out: &mut String) -> Option<()> {
    out.push_str(&serde_json::to_string(string).ok()?);
    Some(())
}

/// Says whether a media type is JSON: `application/json` or `.../...+json`.
#[must_use]
pub fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_stay_in_order() {
        let json = r#" { "b" : 1.50 , "a" : { "d" : [ ] , "c" : 2 }, "b" : 3 } "#;
        let expected = r#"{"b":1.50,"a":{"d":[],"c":2},"b":3}"#;
        assert_eq!(in_order(json.as_bytes()).as_deref(), Some(expected));
        assert_eq!(in_order(b"{"), None);
    }

    #[test]
    fn blanks_go_keys_are_sorted_and_numbers_stay() {
        for (json, expected) in [
            (
                r#" { "b" : 1 , "a" : [ 1 , 2.50 , "x" ] } "#,
                r#"{"a":[1,2.50,"x"],"b":1}"#,
            ),
            ("18446744073709551617", "18446744073709551617"),
            ("[0.1e-400, 1E+2, -0, 1.0]", "[0.1e-400,1E+2,-0,1.0]"),
            (
                "[123456789012345678901234567890.000000000000000000001]",
                "[123456789012345678901234567890.000000000000000000001]",
            ),
            ("[]", "[]"),
            ("{ }", "{}"),
            ("[[],{},null,true,false]", "[[],{},null,true,false]"),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#""a\u00e9\"\\ [1, 2]""#, r#""aé\"\\ [1, 2]""#),
            (r#"{"\u0062":{"z":1,"y":2},"a":"}"}"#, r#"{"a":"}","b":{"y":2,"z":1}}"#),
        ] {
            assert_eq!(compact(json.as_bytes()).as_deref(), Some(expected), "{json}");
        }
        for text in ["", "{", "[1,]", "{\"a\" 1}", "01", "a", "\"\\ud800\"", "1 2"] {
            assert_eq!(compact(text.as_bytes()), None, "{text}");
        }
        assert_eq!(compact(b"\"\xff\""), None);
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(!is_too_deep(nested(DEPTH_MAX).as_bytes()));
        assert!(is_too_deep(nested(DEPTH_MAX + 1).as_bytes()));
        assert!(compact(nested(DEPTH_MAX).as_bytes()).is_some());
        assert_eq!(compact(nested(100_000).as_bytes()), None);
        // Brackets inside a string do not count.
        let text = format!("\"{}\\\"{}\"", "[".repeat(2000), "{".repeat(2000));
        assert!(!is_too_deep(text.as_bytes()));
    }

    fn number() -> impl Strategy<Value = String> {
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?"
    }

    fn json() -> impl Strategy<Value = String> {
        let string = any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap());
        let leaf = prop_oneof![
            number(),
            string.clone(),
            Just("null".to_owned()),
            Just("true".to_owned())
        ];
        leaf.prop_recursive(6, 64, 6, move |inner| {
            let members = prop::collection::vec((string.clone(), inner.clone()), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(|items| format!("[ {} ]", items.join(" ,\n"))),
                members.prop_map(|members| {
                    let members: Vec<_> = members.iter().map(|(key, value)| format!("{key}\t: {value}")).collect();
                    format!("{{{} }}", members.join(", "))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_means_the_same_and_is_its_own_compact_form(json in json()) {
            let compacted = compact(json.as_bytes()).unwrap();
            // `Value` cannot hold a number that is too large for a `f64`.
            if let Ok(value) = serde_json::from_str::<serde_json::Value>(&json) {
                prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&compacted).unwrap(), value);
            }
            prop_assert_eq!(compact(compacted.as_bytes()).unwrap(), compacted);
        }

        #[test]
        fn a_number_is_the_same_text(number in number()) {
            prop_assert_eq!(compact(format!(" [{number} ]").as_bytes()).unwrap(), format!("[{number}]"));
        }

        #[test]
        fn of_integers_it_is_what_a_value_prints(value in prop::collection::btree_map(any::<String>(), any::<i64>(), 0..8)) {
            let json = serde_json::to_string_pretty(&value).unwrap();
            let printed = serde_json::from_str::<serde_json::Value>(&json).unwrap().to_string();
            prop_assert_eq!(compact(json.as_bytes()).unwrap(), printed);
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let is_json = serde_json::from_slice::<IgnoredAny>(&bytes).is_ok() && str::from_utf8(&bytes).is_ok();
            prop_assert_eq!(compact(&bytes).is_some(), is_json);
        }
    }

    #[test]
    fn media_types_of_json() {
        for (text, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/cloudevents+json", true),
            ("text/plain", false),
            ("application/jsonl", false),
        ] {
            assert_eq!(is_json(text), expected, "{text}");
        }
    }
}
