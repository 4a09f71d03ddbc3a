//! Values inside JSON and form bodies. A body is read without keeping it: only the values on one path are kept.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

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

/// Returns the value at a path of names in a JSON body, as text; each item of a list there. Objects and null are no
/// values. A body that is not JSON has none.
pub(super) fn json(body: &[u8], path: &[String]) -> Vec<String> {
    let mut values = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let wanted = At {
        path,
        is_item: false,
        values: &mut values,
    };
    let read = wanted.deserialize(&mut deserializer);
    if read.and_then(|()| deserializer.end()).is_err() {
        return Vec::new();
    }
    values
}

/// A value on the way to the one that is asked for.
struct At<'a> {
    path: &'a [String],
    /// Whether the value is an item of the list at the end of the path: lists in it are no values.
    is_item: bool,
    values: &'a mut Vec<String>,
}

impl At<'_> {
    fn keep(self, value: &impl ToString) {
        if self.path.is_empty() && self.values.len() < VALUES_MAX {
            self.values.push(value.to_string());
        }
    }
}

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.keep(&value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.keep(&value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.keep(&value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.keep(&value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.keep(&value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if self.is_item || !self.path.is_empty() {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        loop {
            let item = At {
                path: &[],
                is_item: true,
                values: self.values,
            };
            if items.next_element_seed(item)?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(name) = entries.next_key::<String>()? {
            match self.path.split_first() {
                Some((first, rest)) if *first == name => {
                    // Of two entries with one name the last one counts, as in other readers of JSON.
                    self.values.clear();
                    entries.next_value_seed(At {
                        path: rest,
                        is_item: false,
                        values: self.values,
                    })?;
                }
                _ => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
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
            "user": {"name": "ada", "tags": ["a", "b", 3]}, "x": {"y": {"z": "deep"}}}"#;
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
        ] {
            assert_eq!(at(body, path), expected, "{path}");
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
                prop::collection::hash_map("[a-c]", inner, 0..4).prop_map(|map| map.into_iter().collect()),
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
            (Some((first, rest)), Value::Object(map)) => {
                map.get(first).map_or_else(Vec::new, |value| naive(value, rest))
            }
            _ => Vec::new(),
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
