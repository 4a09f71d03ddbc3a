//! The payload that assignments make: `NAME=TEXT` and `NAME:=JSON`, with dots for objects in objects.

use super::Field;
use serde_json::{Map, Value};

/// A value for one field.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Name of the field, with dots for objects in objects.
    pub name: String,
    /// The value.
    pub value: AssignedValue,
}

/// The value of an assignment.
#[derive(Debug, Clone, PartialEq)]
pub enum AssignedValue {
    /// A text, which becomes a value of the field's type.
    Text(String),
    /// A value as it is.
    Json(Value),
}

impl Assignment {
    /// Returns an assignment of a text, as from a field of a form.
    #[must_use]
    pub fn of_text(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: AssignedValue::Text(text.to_owned()),
        }
    }

    /// Parses `NAME=TEXT` or `NAME:=JSON`.
    ///
    /// # Errors
    /// It has neither form, or no JSON follows `:=`; the message says which.
    pub fn parse(text: &str) -> Result<Self, String> {
        let form = || format!("`{text}`: expected NAME=TEXT or NAME:=JSON");
        let (name, value) = text.split_once('=').ok_or_else(form)?;
        let (name, value) = match name.strip_suffix(':') {
            Some(name) => (name, AssignedValue::Json(json(text, value)?)),
            None => (name, AssignedValue::Text(value.to_owned())),
        };
        if name.is_empty() {
            return Err(form());
        }
        Ok(Self {
            name: name.to_owned(),
            value,
        })
    }
}

fn json(text: &str, value: &str) -> Result<Value, String> {
    serde_json::from_str(value)
        .map_err(|error| format!("`{text}`: JSON must follow `:=`: {error}; `=` takes text as it is"))
}

/// Returns the object that assignments make. Where the schema has fields, a text needs one of their names, so that no
/// misspelled name is sent; JSON may have any name.
///
/// # Errors
/// A name that is unknown or occurs twice, or a text of the wrong type; the message names the field.
pub fn payload(fields: &[Field], assignments: &[Assignment]) -> Result<Value, String> {
    let mut object = Map::new();
    for Assignment { name, value } in assignments {
        let field = fields.iter().find(|field| field.name == *name);
        let value = match (value, field) {
            (AssignedValue::Json(value), _) => value.clone(),
            (AssignedValue::Text(text), Some(field)) => field.value(text)?,
            (AssignedValue::Text(text), None) if fields.is_empty() => Value::from(text.as_str()),
            (AssignedValue::Text(_), None) => return Err(unknown(fields, name)),
        };
        let path = field.map_or_else(
            || name.split('.').map(str::to_owned).collect(),
            |field| field.path.clone(),
        );
        put(&mut object, &path, value).ok_or_else(|| format!("`{name}` has two values, or lies in a value"))?;
    }
    Ok(Value::Object(object))
}

fn unknown(fields: &[Field], name: &str) -> String {
    let names: Vec<String> = fields.iter().map(|field| format!("`{}`", field.name)).collect();
    format!("`{name}` is no field of the input; its fields: {}", names.join(", "))
}

/// Puts a value at a place; nothing if a value is there already, or lies on the way.
fn put(object: &mut Map<String, Value>, path: &[String], value: Value) -> Option<()> {
    let (last, above) = path.split_last()?;
    let mut place = object;
    for step in above {
        let inner = place.entry(step.clone()).or_insert_with(|| Value::Object(Map::new()));
        place = inner.as_object_mut()?;
    }
    place.insert(last.clone(), value).is_none().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::fields;
    use serde_json::json;

    fn made(texts: &[&str]) -> Result<Value, String> {
        let schema = json!({"properties": {"name": {"type": "string"}, "n": {"type": "integer"},
            "to": {"properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}}, "tags": {"type": "array"}}});
        let assignments = texts.iter().map(|text| Assignment::parse(text));
        payload(&fields(&schema), &assignments.collect::<Result<Vec<_>, _>>()?)
    }

    #[test]
    fn assignments_make_an_object() {
        for (texts, expected) in [
            (&["name=Ada"][..], json!({"name": "Ada"})),
            (&["name=a=b", "n=3"], json!({"name": "a=b", "n": 3})),
            (
                &["to.city=Ulm", "to.zip=89073"],
                json!({"to": {"city": "Ulm", "zip": 89073}}),
            ),
            (
                &["tags:=[\"a\"]", "other.x:=1"],
                json!({"tags": ["a"], "other": {"x": 1}}),
            ),
            (&["name="], json!({"name": ""})),
            (&[], json!({})),
        ] {
            assert_eq!(made(texts), Ok(expected), "{texts:?}");
        }
    }

    #[test]
    fn mistakes_name_the_field() {
        for (texts, expected) in [
            (&["name"][..], "expected NAME=TEXT or NAME:=JSON"),
            (&["=x"], "expected NAME=TEXT or NAME:=JSON"),
            (&["n:=x"], "JSON must follow `:=`"),
            (&["n=x"], "`n`: `x` is not an integer"),
            (
                &["nmae=Ada"],
                "`nmae` is no field of the input; its fields: `n`, `name`, `tags`, `to.city`, `to.zip`",
            ),
            (&["name=a", "name=b"], "`name` has two values"),
            (
                &["to:=1", "to.city=Ulm"],
                "`to.city` has two values, or lies in a value",
            ),
        ] {
            let message = made(texts).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn without_fields_every_name_takes_text() {
        let assignments = [Assignment::of_text("a.b", "3")];
        assert_eq!(payload(&[], &assignments), Ok(json!({"a": {"b": "3"}})));
    }
}
