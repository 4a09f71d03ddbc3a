//! The fields of a function's input, which its JSON Schema describes, and the payload that values for them make.
//!
//! `fndctl`, forms and tools for agents use the same list. It describes; only the schema itself decides whether a payload
//! matches ([`InputSchema`]).
//!
//! Files:
//! - `assignments`: the payload that `NAME=TEXT` and `NAME:=JSON` make
//! - `check`: whether a payload matches the schema
//! - `fields`: the fields of a schema
//! - `value`: the value that a text stands for

mod assignments;
mod check;
mod fields;
mod value;

pub use assignments::{AssignedValue, Assignment, payload};
pub use check::InputSchema;
pub use fields::fields;

use fnd_manifest::words;
use serde_json::Value;

words! {
    /// The type of a field's values, with the words of JSON Schema.
    pub enum FieldKind {
        /// Text.
        String = "string",
        /// A number without a fraction.
        Integer = "integer",
        /// A number.
        Number = "number",
        /// `true` or `false`.
        Boolean = "boolean",
        /// A list of values.
        Array = "array",
        /// An object whose fields the schema does not name, or which lie too deep.
        Object = "object",
        /// The schema allows several types, or any.
        Any = "any",
    }
}

/// One field of an input.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The names that lead to the field; more than one for a field of an object in the input.
    pub path: Vec<String>,
    /// The same names with dots between them: `address.city`. No other field has this name.
    pub name: String,
    /// The type of its values.
    pub kind: FieldKind,
    /// The input must have the field.
    pub required: bool,
    /// The value that the function takes where the field is absent. fnd does not add it to the payload.
    pub default: Option<Value>,
    /// A short name for people (`title`).
    pub title: Option<String>,
    /// The meaning, for people.
    pub description: Option<String>,
    /// The only values that are allowed; empty if there is no such list.
    pub choices: Vec<Value>,
    /// The form of a text, such as `date` or `email`.
    pub format: Option<String>,
}

/// Returns a value as people write it in a field: a text without its quotation marks, all else as JSON.
#[must_use]
pub fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
