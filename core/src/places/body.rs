//! Values inside JSON and form bodies. A body is read without keeping it: only the values on one path are kept.

use crate::json::JsonReader;

/// Most values at one place.
const VALUES_MAX: usize = 100;

/// Says whether a media type is that of a form (`application/x-www-form-urlencoded`).
pub(super) fn is_form(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}

/// Returns the values of a name in a form or in a query.
pub(super) fn form(body: &[u8], name: &str) -> Vec<String> {
    let pairs = form_urlencoded::parse(body).filter(|(found, _)| found == name);
    pairs.map(|(_, value)| value.into_owned()).take(VALUES_MAX).collect()
}

/// Returns the values at a path of names in a JSON body, as text; each item of a list there. On the way through a list, a
/// number is one of its items and a name looks into all of them. Objects and null are no values. A body that is not JSON
/// has none.
pub(super) fn json(body: &[u8], path: &[String]) -> Vec<String> {
    let mut values = Vec::new();
    if let Some(mut reader) = JsonReader::of(body) {
        // The text was checked, so nothing in it breaks off.
        let _ = read(&mut reader, (path, false), &mut values);
    }
    values
}

/// Reads the next value on the way to the one that is asked for. `is_item`: it is an item of the list at the end of the path,
/// so lists in it are no values.
fn read(reader: &mut JsonReader<'_>, (path, is_item): (&[String], bool), values: &mut Vec<String>) -> Option<()> {
    let value = match reader.peek()? {
        b'{' => return object(reader, path, values),
        b'[' if is_item && path.is_empty() => return reader.skip(),
        b'[' => return list(reader, path, values),
        b'"' => Some(reader.string()?),
        _ => Some(reader.word()?).filter(|word| *word != "null").map(number),
    };
    values.extend(value.filter(|_| path.is_empty() && values.len() < VALUES_MAX));
    Some(())
}

fn list(reader: &mut JsonReader<'_>, path: &[String], values: &mut Vec<String>) -> Option<()> {
    // A number is the place of one item, from 0; a name looks into each item.
    let index = path.first().and_then(|part| part.parse::<usize>().ok());
    let item = (path.get(usize::from(index.is_some())..)?, path.is_empty());
    let mut number = 0;
    reader.items(|reader| {
        let is_other = index.is_some_and(|index| index != number);
        number += 1;
        if is_other {
            reader.skip()
        } else {
            read(reader, item, values)
        }
    })
}

fn object(reader: &mut JsonReader<'_>, path: &[String], values: &mut Vec<String>) -> Option<()> {
    // By the number of parts of the path that the name takes up.
    let mut found: Vec<(usize, Vec<String>)> = Vec::new();
    reader.members(|reader, name| {
        let Some(parts) = parts_of(path, &name) else {
            return reader.skip();
        };
        let mut values = Vec::new();
        read(reader, (path.get(parts..)?, false), &mut values)?;
        // Of two entries with one name the last one counts, as in other readers of JSON.
        found.retain(|(others, _)| *others != parts);
        found.push((parts, values));
        Some(())
    })?;
    let room = VALUES_MAX.saturating_sub(values.len());
    values.extend(found.into_iter().flat_map(|(_, values)| values).take(room));
    Some(())
}

/// Most digits that a fraction of 64 bits keeps.
const DIGITS_MAX: usize = 15;

/// Returns the text of a number, or of a word: `1.50` is `1.5`. One that a fraction of 64 bits cannot hold stays as it is
/// written: otherwise two keys would be one.
fn number(word: &str) -> String {
    let is_short = word.bytes().filter(u8::is_ascii_digit).count() <= DIGITS_MAX && word.parse::<i128>().is_err();
    // The smallest ones become 0.
    let is_zero = !word.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    let value = word.parse::<f64>().ok().filter(|_| is_short);
    match value.filter(|value| value.is_normal() || is_zero) {
        Some(value) => value.to_string(),
        None => word.to_owned(),
    }
}

/// Returns how many parts of a path a name takes up: a name with a dot is several, since the path was split at dots.
fn parts_of(path: &[String], name: &str) -> Option<usize> {
    let mut rest = name;
    for (before, part) in path.iter().enumerate() {
        rest = rest.strip_prefix(part.as_str())?;
        if rest.is_empty() {
            return Some(before + 1);
        }
        rest = rest.strip_prefix('.')?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn at(body: &str, path: &str) -> Vec<String> {
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        json(body.as_bytes(), &path)
    }

    #[test]
    fn values_are_texts_on_a_path_of_names() {
        let body = r#"{"ref": "refs/heads/main", "n": 3, "big": 12345678901234567890, "f": 1.5, "draft": false, "none": null,
            "user": {"name": "ada", "tags": ["a", "b", 3]}, "x": {"y": {"z": "deep"}, "app.io": {"z": "dotted"}},
            "commits": [{"author": "ada"}, {"author": "eve"}], "app.kubernetes.io/name": "shop"}"#;
        for (path, expected) in [
            ("ref", &["refs/heads/main"][..]),
            ("n", &["3"]),
            ("big", &["12345678901234567890"]),
            ("f", &["1.5"]),
            ("draft", &["false"]),
            ("none", &[]),
            ("user.name", &["ada"]),
            ("user.tags", &["a", "b", "3"]),
            ("user", &[]),
            ("x.y.z", &["deep"]),
            ("x.y", &[]),
            ("missing", &[]),
            ("ref.more", &[]),
            ("user.tags.a", &[]),
            ("user.tags.0", &["a"]),
            ("user.tags.3", &[]),
            ("commits.1.author", &["eve"]),
            ("commits.author", &["ada", "eve"]),
            ("app.kubernetes.io/name", &["shop"]),
            ("x.app.io.z", &["dotted"]),
        ] {
            assert_eq!(at(body, path), expected, "{path}");
        }
    }

    /// Two orders with such numbers must not have one idempotency key, and one such number must not hide the others.
    #[test]
    fn a_number_that_64_bits_cannot_hold_stays_as_it_is_written() {
        for text in [
            "1e400",
            "-1E+400",
            "123456789012345678901",
            "123456789012345678901234567890123456789012345",
            "0.12345678901234567",
            "1e-400",
        ] {
            assert_eq!(at(&format!("{{\"a\": 1e400, \"b\": [{text}]}}"), "b"), [text]);
        }
        for (text, expected) in [
            ("1.50", "1.5"),
            ("1e2", "100"),
            ("1.0", "1"),
            ("-0", "-0"),
            ("0.0", "0"),
            ("-7", "-7"),
        ] {
            assert_eq!(at(&format!("[{text}]"), "0"), [expected]);
        }
    }

    #[test]
    fn what_is_not_json_has_no_values() {
        for body in ["", "{", "{\"a\": 1} x", "[1]", "\"a\"", "{\"a\": 1, \"a\"}"] {
            assert_eq!(at(body, "a"), [""; 0], "{body}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(at(&deep, "a"), [""; 0]);
        assert_eq!(at(&format!("{{\"a\": {deep}"), "a"), [""; 0]);
        assert_eq!(at("{\"a\": 1, \"a\": 2}", "a"), ["2"]);
    }

    #[test]
    fn forms_have_values_by_name() {
        assert!(is_form("application/x-www-form-urlencoded; charset=utf-8") && !is_form("application/json"));
        assert_eq!(form(b"a=1&b=x+y&a=%C3%A4&c", "a"), ["1", "\u{e4}"]);
        assert_eq!(form(b"a=1&b=x+y&a=2&c", "b"), ["x y"]);
        assert_eq!(form(b"a=1&c", "c"), [""]);
        assert_eq!(form(b"\xff\xfe=1", "a"), [""; 0]);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map("[a-c](\\.[a-c])?", inner, 0..4).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    fn naive(value: &Value, path: &[String]) -> Vec<String> {
        let scalar = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
            other => Some(other.to_string()),
        };
        match (path.split_first(), value) {
            (None, Value::Array(items)) => items.iter().filter_map(scalar).collect(),
            (None, value) => scalar(value).into_iter().collect(),
            (Some(_), Value::Object(map)) => {
                let names = (1..=path.len()).map(|parts| (path[..parts].join("."), &path[parts..]));
                let at = |(name, rest): (String, &[String])| Some(naive(map.get(&name)?, rest));
                names.filter_map(at).flatten().collect()
            }
            (Some((first, rest)), Value::Array(items)) => match first.parse::<usize>() {
                Ok(index) => items.get(index).map_or_else(Vec::new, |item| naive(item, rest)),
                Err(_) => items.iter().flat_map(|item| naive(item, path)).collect(),
            },
            (Some(_), _) => Vec::new(),
        }
    }

    proptest! {
        #[test]
        fn it_finds_what_a_whole_reader_finds(value in any_json(), path in prop::collection::vec("[a-c]", 1..4)) {
            prop_assert_eq!(json(value.to_string().as_bytes(), &path), naive(&value, &path));
        }

        #[test]
        fn any_bytes_are_read(body in prop::collection::vec(any::<u8>(), 0..200), path in prop::collection::vec("[a-c]", 1..3)) {
            json(&body, &path);
            form(&body, "a");
        }
    }
}
