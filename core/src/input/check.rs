//! Whether the payload of a run matches the schema of its function.

use crate::json::is_json;
use crate::records::Payload;
use fnd_manifest::function::payload_schema::{DATA_MAX, PayloadMistake, PayloadSchema};
use serde_json::Value;
use std::borrow::Cow;

/// The schema of a function's payloads (`[input] schema`), compiled once for each version of the function.
#[derive(Debug)]
pub struct InputSchema {
    schema: Value,
    compiled: Result<PayloadSchema, String>,
}

/// Schemas with the same text check the same.
impl PartialEq for InputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
    }
}

impl InputSchema {
    /// Returns the schema, compiled. If that fails, no payload matches; the judge has compiled it before.
    #[must_use]
    pub fn new(schema: &Value) -> Self {
        Self {
            schema: schema.clone(),
            compiled: PayloadSchema::new(schema),
        }
    }

    /// Returns the mistakes of a payload; none if it matches. An absent payload is `null`, a payload that is no JSON a text.
    #[must_use]
    pub fn mistakes(&self, payload: &Payload) -> Vec<PayloadMistake> {
        let whole = |expected: String| {
            let pointer = String::new();
            vec![PayloadMistake { pointer, expected }]
        };
        let schema = match &self.compiled {
            Ok(schema) => schema,
            Err(why) => return whole(format!("the schema is unusable: {why}")),
        };
        let Some(data) = &payload.data else {
            let fits = schema.mistakes(&Value::Null, 0).is_empty();
            return if fits {
                Vec::new()
            } else {
                whole("it is missing".to_owned())
            };
        };
        // The size comes first: data above the limit is never read.
        if data.size() > DATA_MAX {
            return whole(format!(
                "{} bytes are more than the {DATA_MAX} that are checked",
                data.size()
            ));
        }
        let value = match data.bytes() {
            Ok(bytes) => value(bytes, payload.content_type.as_deref()),
            Err(error) => Err(format!("it cannot be read from the disk: {error}")),
        };
        match value {
            Ok(value) => schema.mistakes(&value, data.size()),
            Err(why) => whole(why),
        }
    }
}

/// Returns the value that a payload is. Without a media type it is JSON, if it parses.
fn value(bytes: Cow<'_, [u8]>, media_type: Option<&str>) -> Result<Value, String> {
    if media_type.is_none_or(is_json) {
        match serde_json::from_slice(&bytes) {
            Err(error) if media_type.is_some() => return Err(format!("it is not JSON: {error}")),
            Err(_) => {}
            Ok(value) => return Ok(value),
        }
    }
    let text = String::from_utf8(bytes.into_owned());
    text.map(Value::String)
        .map_err(|_| "it is neither JSON nor text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;
    use fnd_manifest::function::payload_schema::words;
    use serde_json::json;

    fn check(schema: &Value, media_type: Option<&str>, data: Option<&str>) -> String {
        let payload = Payload {
            data: data.map(|data| Data::from(data.as_bytes())),
            content_type: media_type.map(Into::into),
            ..Payload::default()
        };
        words(&InputSchema::new(schema).mistakes(&payload))
    }

    #[test]
    fn a_payload_is_json_or_text() {
        let object = json!({"type": "object", "required": ["n"]});
        let json = Some("application/json");
        assert_eq!(check(&object, json, Some("{\"n\": 1}")), "");
        assert_eq!(check(&object, None, Some("{\"n\": 1}")), "");
        assert_eq!(check(&json!({"type": "string"}), Some("text/plain"), Some("3")), "");
        assert_eq!(check(&json!({"type": "string"}), None, Some("hello")), "");
        for (media_type, data, expected) in [
            (json, "{}", "\"n\" is a required property"),
            (json, "{", "the payload: it is not JSON"),
            (Some("text/plain"), "{\"n\": 1}", "the value is not of type \"object\""),
        ] {
            let wrong = check(&object, media_type, Some(data));
            assert!(
                wrong.starts_with("the payload: ") && wrong.contains(expected),
                "{wrong}"
            );
        }
        let large = "1".repeat(usize::try_from(DATA_MAX).unwrap() + 1);
        assert!(check(&json!({}), json, Some(&large)).contains("more than the 1048576"));
    }

    #[test]
    fn an_absent_payload_matches_a_schema_that_allows_null() {
        assert_eq!(
            check(&json!({"type": "object"}), None, None),
            "the payload: it is missing"
        );
        assert_eq!(check(&json!({"type": ["object", "null"]}), None, None), "");
        assert_eq!(check(&json!({}), None, None), "");
    }
}
