//! JSON Schemas of events: the judge reads them, fnd checks data with them.
//!
//! A reference to a file or to another host is an error: whatever decides about an event is in the function's directory.
//! Patterns are regular expressions in linear time, without look-around and back-references.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Largest file of a schema.
pub const SCHEMA_MAX: usize = 256 << 10;
/// Largest data that is checked. The check runs where fnd answers everybody, so it must be short.
pub const DATA_MAX: u64 = 1 << 20;

/// Most checks of one value, with references followed.
const WORK_MAX: u64 = 100_000;
/// Longest chain of references: each step needs room on the stack.
const DEPTH_MAX: u32 = 100;

/// A schema, ready to check data.
#[derive(Debug)]
pub struct EventSchema(Validator);

impl EventSchema {
    /// Returns the schema, ready to check data; it fetches nothing from the network.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let options = jsonschema::options()
            .offline()
            // A short pattern with nested repetitions could need much memory when it is compiled.
            .with_pattern_options(PatternOptions::regex().size_limit(1 << 20));
        let built = options.build(schema);
        built.map(Self).map_err(|error| match error.instance_path().as_str() {
            "" => error.to_string(),
            place => format!("{error} (at `{place}`)"),
        })
    }

    /// Returns nothing if the data matches the schema.
    ///
    /// # Errors
    /// The first place that does not match, and what is wrong there. Values of the data are not in the text.
    pub fn check(&self, data: &Value) -> Result<(), String> {
        self.0.validate(data).map_err(|error| {
            let place = match error.instance_path().as_str() {
                "" => "the data".to_owned(),
                place => format!("`{place}`"),
            };
            // The text may list everything that the schema allows, which can be long.
            let problem: String = error.masked().to_string().chars().take(300).collect();
            format!("{place}: {problem}")
        })
    }
}

/// The number of checks that a schema makes of one value, with references followed. References can double it at each
/// step, so that a short schema would never end.
struct Work<'a> {
    root: &'a Value,
    /// By reference; absent while it is being counted: a cycle ends with the data.
    known: RefCell<HashMap<String, Option<u64>>>,
    /// The references that are being followed.
    depth: Cell<u32>,
}

impl Work<'_> {
    fn of(&self, schema: &Value) -> Result<u64, String> {
        let children: Vec<&Value> = match schema {
            Value::Array(items) => items.iter().collect(),
            Value::Object(entries) => entries.values().collect(),
            _ => return Ok(1),
        };
        let mut sum = 1_u64;
        // serde_json has read at most 128 levels, which bounds this recursion. Whatever lies in an object counts as a
        // schema: too high a count is on the safe side.
        for child in children {
            sum = sum.saturating_add(self.of(child)?);
        }
        for key in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = schema.get(key).and_then(Value::as_str) {
                sum = sum.saturating_add(self.behind(reference)?);
            }
        }
        Ok(sum)
    }

    /// Counts what is behind a reference.
    fn behind(&self, reference: &str) -> Result<u64, String> {
        let known = self.known.borrow().get(reference).copied();
        if let Some(known) = known {
            return Ok(known.unwrap_or(1));
        }
        let target = match reference.strip_prefix('#') {
            Some("") => Some(self.root),
            Some(pointer) if pointer.starts_with('/') => self.root.pointer(&decoded(pointer)),
            _ => None,
        };
        let target = target.ok_or_else(|| {
            format!("the reference `{reference}` is not of the form `#/$defs/NAME`, the only one that fnd follows")
        })?;
        if self.depth.get() >= DEPTH_MAX {
            return Err(format!("a chain of references has more than {DEPTH_MAX} steps"));
        }
        self.known.borrow_mut().insert(reference.to_owned(), None);
        self.depth.set(self.depth.get() + 1);
        let sum = self.of(target)?;
        self.depth.set(self.depth.get() - 1);
        self.known.borrow_mut().insert(reference.to_owned(), Some(sum));
        Ok(sum)
    }
}

/// Returns a pointer in a reference without its percent-encoding.
fn decoded(pointer: &str) -> String {
    percent_encoding::percent_decode_str(pointer)
        .decode_utf8_lossy()
        .into_owned()
}

/// Reads the file of a schema.
///
/// # Errors
/// Why it is no schema, in words.
pub(crate) fn read(bytes: &[u8]) -> Result<Value, String> {
    if bytes.len() > SCHEMA_MAX {
        return Err(format!("it is larger than {} KiB", SCHEMA_MAX >> 10));
    }
    let schema: Value = serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    if !schema.is_object() {
        return Err("it is not an object".to_owned());
    }
    EventSchema::new(&schema)?;
    let work = Work {
        root: &schema,
        known: RefCell::default(),
        depth: Cell::new(0),
    };
    if work.of(&schema)? > WORK_MAX {
        return Err(format!(
            "its references lead to more than {WORK_MAX} checks of one value: use fewer references, or `$ref` in fewer places"
        ));
    }
    Ok(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ORDER: &[u8] = br##"{"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}}},
        "$defs": {"line": {"type": "object", "required": ["sku"]}}}"##;

    #[test]
    fn data_that_does_not_match_is_named_by_its_place() {
        let schema = EventSchema::new(&read(ORDER).unwrap()).unwrap();
        assert_eq!(schema.check(&json!({"id": 7, "lines": [{"sku": "a"}]})), Ok(()));
        let wrong = schema
            .check(&json!({"id": 7, "lines": [{"sku": "a"}, {"secret": "x"}]}))
            .unwrap_err();
        assert!(
            wrong.starts_with("`/lines/1`: ") && wrong.contains("sku") && !wrong.contains("secret"),
            "{wrong}"
        );
        let wrong = schema.check(&json!({"id": "hidden"})).unwrap_err();
        assert!(wrong.starts_with("`/id`: ") && !wrong.contains("hidden"), "{wrong}");
        assert!(schema.check(&json!([])).unwrap_err().starts_with("the data: "));
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for (text, expected) in [
            ("{", "not JSON"),
            ("[]", "not an object"),
            (r#"{"type": "objekt"}"#, "at `/type`"),
            (r#"{"$ref": "file:///etc/passwd"}"#, "file:///etc/passwd"),
            (
                r#"{"$ref": "https://example.com/a.json"}"#,
                "https://example.com/a.json",
            ),
            (r#"{"$ref": "other.json"}"#, "other.json"),
            (r##"{"$ref": "#/$defs/missing"}"##, "missing"),
            (r#"{"pattern": "(a)\\1"}"#, "a"),
        ] {
            let why = read(text.as_bytes()).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        }
        assert!(read(&vec![b' '; SCHEMA_MAX + 1]).unwrap_err().contains("256 KiB"));
    }

    #[test]
    fn references_that_double_the_work_at_each_step_are_refused() {
        let steps = |count: usize| {
            let mut defs = serde_json::Map::new();
            for step in 0..count {
                let next = format!("#/$defs/a{}", step + 1);
                defs.insert(format!("a{step}"), json!({"allOf": [{"$ref": next}, {"$ref": next}]}));
            }
            defs.insert(format!("a{count}"), json!({"type": "object"}));
            json!({"$ref": "#/$defs/a0", "$defs": defs}).to_string()
        };
        assert!(read(steps(8).as_bytes()).is_ok());
        let refused = read(steps(40).as_bytes()).unwrap_err();
        assert!(refused.contains("more than 100000 checks"), "{refused}");
        // A schema that contains itself ends with the data.
        let tree = br##"{"type": "object", "properties": {"child": {"$ref": "#"}}}"##;
        assert!(read(tree).is_ok());
        let other = br##"{"$ref": "#name", "$defs": {"x": {"$anchor": "name"}}}"##;
        let refused = read(other).unwrap_err();
        assert!(refused.contains("`#name`"), "{refused}");
    }
}
