//! The value that a text stands for, by the type of its field.

use super::{Field, FieldKind, shown};
use serde_json::{Number, Value};

impl Field {
    /// Returns the value that a text stands for. A text of the wrong type is an error; whether the value fits in other
    /// ways, the schema decides.
    ///
    /// # Errors
    /// The text is none of the field's type; the message names both.
    pub fn value(&self, text: &str) -> Result<Value, String> {
        if let Some(choice) = self.choices.iter().find(|choice| shown(choice) == text) {
            return Ok(choice.clone());
        }
        let value = match self.kind {
            FieldKind::String | FieldKind::Any => Some(Value::from(text)),
            FieldKind::Integer => integer(text).map(Value::Number),
            FieldKind::Number => number(text).map(Value::Number),
            FieldKind::Boolean => text.parse().ok().map(Value::Bool),
            FieldKind::Array => json(text).filter(Value::is_array),
            FieldKind::Object => json(text).filter(Value::is_object),
        };
        value.ok_or_else(|| format!("`{}`: `{text}` is not {}", self.name, self.kind.expected()))
    }
}

impl FieldKind {
    /// Returns the type with its article, and how to write a value of it.
    #[must_use]
    pub fn expected(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Integer => "an integer",
            Self::Number => "a number",
            Self::Boolean => "a boolean (`true` or `false`)",
            Self::Array => "an array, which is written as JSON: `[1, 2]`",
            Self::Object => "an object, which is written as JSON: `{\"a\": 1}`",
            Self::Any => "a value",
        }
    }
}

fn integer(text: &str) -> Option<Number> {
    let small = text.parse::<i64>().ok().map(Number::from);
    small.or_else(|| text.parse::<u64>().ok().map(Number::from))
}

fn number(text: &str) -> Option<Number> {
    integer(text).or_else(|| text.parse::<f64>().ok().and_then(Number::from_f64))
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use crate::input::fields;
    use serde_json::{Value, json};

    /// Reads a text for a field that has the schema.
    fn read(schema: &Value, text: &str) -> Result<Value, String> {
        fields(&json!({"properties": {"x": schema}}))[0].value(text)
    }

    #[test]
    fn a_text_becomes_a_value_of_the_type() {
        for (schema, text, expected) in [
            (json!({"type": "string"}), "3", json!("3")),
            (json!({"type": "integer"}), "-3", json!(-3)),
            (json!({"type": "integer"}), "18446744073709551615", json!(u64::MAX)),
            (json!({"type": "number"}), "1.5", json!(1.5)),
            (json!({"type": "number"}), "2", json!(2)),
            (json!({"type": "boolean"}), "true", json!(true)),
            (json!({"type": "array"}), "[1]", json!([1])),
            (json!({"enum": [1, "a", null]}), "1", json!(1)),
            (json!({}), "text", json!("text")),
        ] {
            assert_eq!(read(&schema, text), Ok(expected), "{schema} {text}");
        }
    }

    #[test]
    fn a_text_of_the_wrong_type_is_an_error_that_names_the_type() {
        for (kind, text, expected) in [
            ("integer", "1.5", "`x`: `1.5` is not an integer"),
            ("integer", "", "`x`: `` is not an integer"),
            ("number", "inf", "`x`: `inf` is not a number"),
            ("boolean", "yes", "`x`: `yes` is not a boolean (`true` or `false`)"),
            (
                "array",
                "a",
                "`x`: `a` is not an array, which is written as JSON: `[1, 2]`",
            ),
            (
                "object",
                "[]",
                "`x`: `[]` is not an object, which is written as JSON: `{\"a\": 1}`",
            ),
        ] {
            assert_eq!(read(&json!({"type": kind}), text), Err(expected.to_owned()));
        }
    }
}
