//! JSON Schemas of events: the judge reads them, fnd checks data with them.
//!
//! A reference to a file or to another host is an error: whatever decides about an event is in the function's directory.
//! Patterns are regular expressions in linear time, without look-around and back-references.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// Largest file of a schema.
pub const SCHEMA_MAX: usize = 256 << 10;
/// Largest data that is checked. The check runs where fnd answers everybody, so it must be short.
pub const DATA_MAX: u64 = 1 << 20;

/// A schema, ready to check data.
#[derive(Debug)]
pub struct EventSchema(Validator);

impl EventSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let options = jsonschema::options()
            .offline()
            .with_pattern_options(PatternOptions::regex().size_limit(1 << 20));
        let built = options.build(schema);
        built.map(Self).map_err(|error| match error.instance_path().as_str() {
            "" => error.to_string(),
            place => format!("{error} (at `{place}`)"),
        })
    }

    /// Checks data.
    ///
    /// # Errors
    /// The first place that does not match, and what is wrong there. Values of the data are not in the text.
    pub fn check(&self, data: &Value) -> Result<(), String> {
        self.0.validate(data).map_err(|error| {
            let place = match error.instance_path().as_str() {
                "" => "the data".to_owned(),
                place => format!("`{place}`"),
            };
            let problem: String = error.masked().to_string().chars().take(300).collect();
            format!("{place}: {problem}")
        })
    }
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
}
