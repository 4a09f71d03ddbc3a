//! The fields of a schema: the properties of its object, and those of the objects in it.

use super::{Field, FieldKind};
use serde_json::Value;
use std::collections::BTreeSet;

/// Objects in objects whose fields are listed one by one; deeper ones are one field. A schema may contain itself.
const DEPTH_MAX: usize = 5;
/// Most fields that are listed.
const FIELDS_MAX: usize = 500;
/// Most properties that are read. Many of them may have one name, so that few are listed.
const PROPERTIES_MAX: usize = 10_000;
/// Most parts of one schema that are read. A reference may lead to itself.
const LAYERS_MAX: usize = 32;

/// Returns the fields of a schema, the required ones first, else by name; none if the schema is not that of an object or
/// names no properties.
#[must_use]
pub fn fields(schema: &Value) -> Vec<Field> {
    let mut reader = Reader {
        root: schema,
        fields: Vec::new(),
        names: BTreeSet::new(),
        read: 0,
    };
    reader.object(schema, &[], true);
    reader.fields.sort_by_key(|field| !field.required);
    reader.fields
}

struct Reader<'a> {
    root: &'a Value,
    fields: Vec<Field>,
    names: BTreeSet<String>,
    /// The properties that were read.
    read: usize,
}

impl<'a> Reader<'a> {
    /// Adds the properties of an object. They are required only where the object itself is.
    fn object(&mut self, schema: &'a Value, above: &[String], needed: bool) {
        let layers = layers(self.root, schema);
        let required = required(&layers);
        let mut seen = BTreeSet::new();
        for (name, property) in layers.iter().flat_map(|layer| properties(layer)) {
            if self.fields.len() < FIELDS_MAX && self.read < PROPERTIES_MAX && seen.insert(name) {
                self.read += 1;
                let path = above.iter().chain([name]).cloned().collect();
                self.property(property, path, needed && required.contains(name.as_str()));
            }
        }
    }

    fn property(&mut self, schema: &'a Value, path: Vec<String>, needed: bool) {
        let layers = layers(self.root, schema);
        let nested = layers.iter().any(|layer| properties(layer).next().is_some());
        if nested && path.len() < DEPTH_MAX {
            return self.object(schema, &path, needed);
        }
        let field = field(&layers, path, needed);
        // The name `a.b` may stand for a property and for a property in a property: the first one has it.
        if self.names.insert(field.name.clone()) {
            self.fields.push(field);
        }
    }
}

/// Returns the parts of a schema that hold together: the schema itself, the target of its reference, each part of
/// `allOf`, and an alternative that is the only one beside `null`.
fn layers<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let mut layers = vec![schema];
    let mut next = 0;
    while next < layers.len() && layers.len() < LAYERS_MAX {
        let below = below(root, layers[next]);
        layers.extend(below);
        next += 1;
    }
    layers
}

fn below<'a>(root: &'a Value, layer: &'a Value) -> Vec<&'a Value> {
    let mut below: Vec<&Value> = referenced(root, layer).into_iter().collect();
    below.extend(list(layer, "allOf"));
    for key in ["anyOf", "oneOf"] {
        let is_null = |part: &&Value| part.get("type").and_then(Value::as_str) == Some("null");
        let mut others = list(layer, key).iter().filter(|part| !is_null(part));
        if let (Some(only), None) = (others.next(), others.next()) {
            below.push(only);
        }
    }
    below
}

fn referenced<'a>(root: &'a Value, layer: &Value) -> Option<&'a Value> {
    let pointer = layer.get("$ref")?.as_str()?.strip_prefix('#')?;
    root.pointer(&percent_encoding::percent_decode_str(pointer).decode_utf8_lossy())
}

fn list<'a>(layer: &'a Value, key: &str) -> &'a [Value] {
    layer.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn properties(layer: &Value) -> impl Iterator<Item = (&String, &Value)> {
    layer.get("properties").and_then(Value::as_object).into_iter().flatten()
}

fn required<'a>(layers: &[&'a Value]) -> BTreeSet<&'a str> {
    let names = layers.iter().flat_map(|layer| list(layer, "required"));
    names.filter_map(Value::as_str).collect()
}

fn field(layers: &[&Value], path: Vec<String>, required: bool) -> Field {
    let first = |key: &str| layers.iter().find_map(|layer| layer.get(key));
    let text = |key: &str| first(key).and_then(Value::as_str).map(str::to_owned);
    let choices = choices(layers);
    Field {
        name: path.join("."),
        path,
        kind: first("type").map_or_else(|| kind_of_choices(&choices), kind),
        required,
        default: first("default").cloned(),
        title: text("title"),
        description: text("description"),
        choices,
        format: text("format"),
    }
}

/// Returns the values of `enum`, `const`, or of alternatives that are all constants. `null` is not offered: it stands for
/// an absent value.
fn choices(layers: &[&Value]) -> Vec<Value> {
    let values: Vec<&Value> = layers.iter().find_map(|layer| values_of(layer)).unwrap_or_default();
    values.into_iter().filter(|value| !value.is_null()).cloned().collect()
}

fn values_of(layer: &Value) -> Option<Vec<&Value>> {
    if let Some(values) = layer.get("enum").and_then(Value::as_array) {
        return Some(values.iter().collect());
    }
    if let Some(value) = layer.get("const") {
        return Some(vec![value]);
    }
    let alternatives = ["oneOf", "anyOf"].into_iter().map(|key| list(layer, key));
    let mut constants = alternatives.filter_map(|parts| parts.iter().map(|part| part.get("const")).collect());
    constants.find(|values: &Vec<&Value>| !values.is_empty())
}

fn kind(types: &Value) -> FieldKind {
    let mut words = match types {
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        word => Vec::from_iter(word.as_str()),
    };
    words.retain(|word| *word != "null");
    match words[..] {
        [word] => FieldKind::parse(word).unwrap_or(FieldKind::Any),
        _ => FieldKind::Any,
    }
}

/// Returns the type that all of the values have.
fn kind_of_choices(choices: &[Value]) -> FieldKind {
    let mut kinds = choices.iter().map(kind_of);
    let first = kinds.next().unwrap_or(FieldKind::Any);
    if kinds.all(|kind| kind == first) {
        first
    } else {
        FieldKind::Any
    }
}

fn kind_of(value: &Value) -> FieldKind {
    match value {
        Value::String(_) => FieldKind::String,
        Value::Bool(_) => FieldKind::Boolean,
        Value::Number(number) if number.is_f64() => FieldKind::Number,
        Value::Number(_) => FieldKind::Integer,
        Value::Array(_) => FieldKind::Array,
        Value::Object(_) => FieldKind::Object,
        Value::Null => FieldKind::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn required_fields_come_first_with_all_that_people_need() {
        let schema = json!({"type": "object", "required": ["name"], "properties": {
            "copies": {"type": "integer", "default": 1, "description": "How many"},
            "name": {"type": "string", "title": "Name", "format": "email"},
            "size": {"enum": ["s", "m"]},
        }});
        let fields = fields(&schema);
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["name", "copies", "size"]);
        assert_eq!((fields[0].kind, fields[0].required), (FieldKind::String, true));
        assert_eq!(fields[0].title.as_deref(), Some("Name"));
        assert_eq!(fields[0].format.as_deref(), Some("email"));
        assert_eq!(
            (fields[1].kind, &fields[1].default),
            (FieldKind::Integer, &Some(json!(1)))
        );
        assert_eq!(fields[1].description.as_deref(), Some("How many"));
        assert_eq!(
            (fields[2].kind, &fields[2].choices),
            (FieldKind::String, &vec![json!("s"), json!("m")])
        );
    }

    #[test]
    fn a_field_has_the_one_type_that_is_not_null() {
        for (schema, expected) in [
            (json!({"type": ["string", "null"]}), FieldKind::String),
            (json!({"type": ["string", "integer"]}), FieldKind::Any),
            (
                json!({"anyOf": [{"type": "number"}, {"type": "null"}]}),
                FieldKind::Number,
            ),
            (json!({"$ref": "#/$defs/flag"}), FieldKind::Boolean),
            (json!({"allOf": [{"$ref": "#/$defs/flag"}]}), FieldKind::Boolean),
            (json!({"oneOf": [{"const": 1}, {"const": 2}]}), FieldKind::Integer),
            (json!({"type": "object"}), FieldKind::Object),
            (json!(true), FieldKind::Any),
        ] {
            let whole = json!({"properties": {"x": schema}, "$defs": {"flag": {"type": "boolean"}}});
            assert_eq!(fields(&whole)[0].kind, expected, "{whole}");
        }
    }

    #[test]
    fn fields_of_objects_have_names_with_dots() {
        let schema = json!({"required": ["to"], "properties": {
            "from": {"$ref": "#/$defs/place"}, "to": {"$ref": "#/$defs/place"}},
            "$defs": {"place": {"required": ["city"], "properties": {"city": {"type": "string"}}}}});
        let fields = fields(&schema);
        let shown: Vec<(&str, bool)> = fields
            .iter()
            .map(|field| (field.name.as_str(), field.required))
            .collect();
        assert_eq!(shown, [("to.city", true), ("from.city", false)]);
        assert_eq!(fields[0].path, ["to", "city"]);
    }

    #[test]
    fn a_schema_that_contains_itself_has_an_end() {
        let tree = json!({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}, "n": {"type": "integer"}}});
        let fields = fields(&tree);
        assert!(fields.len() > 10 && fields.len() <= FIELDS_MAX, "{}", fields.len());
        assert!(super::fields(&json!({"$ref": "#"})).is_empty());
        // The names of their fields are the same few ones.
        let dots = (0..90).map(|count| (".".repeat(count), json!({"$ref": "#"})));
        let dots = json!({"properties": dots.collect::<serde_json::Map<String, Value>>()});
        assert!(super::fields(&dots).len() < FIELDS_MAX);
        assert!(super::fields(&json!({"type": "string"})).is_empty());
    }
}
