//! A value of a document, with its path: what converters read. A value of another type than expected is reported as the
//! Kubernetes API server says it.

use super::report::{ConversionReport, Field, Row};
use super::yaml::{Document, Value, YamlNode, YamlPosition};

/// A value with its path and its document.
#[derive(Debug, Clone)]
pub struct Item<'d> {
    document: &'d Document,
    node: &'d YamlNode,
    /// `spec.env[0].name`; empty for a whole object.
    path: String,
}

impl<'d> Item<'d> {
    /// Returns the root of a document.
    #[must_use]
    pub fn root(document: &'d Document) -> Self {
        Self {
            document,
            node: &document.root,
            path: String::new(),
        }
    }

    /// Returns the same value as the root of an object: an item of a `List` is one.
    #[must_use]
    pub fn as_root(mut self) -> Self {
        self.path.clear();
        self
    }

    /// Returns the value, which lives as long as its document.
    #[must_use]
    pub fn value(&self) -> &'d Value {
        &self.node.value
    }

    /// Returns the file of the document, for messages.
    #[must_use]
    pub fn file(&self) -> &'d str {
        &self.document.file
    }

    /// Returns the path from the root of the object, `spec.timeout`; empty: the root itself.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns name and place.
    #[must_use]
    pub fn field(&self) -> Field {
        let YamlPosition(line, column) = self.node.at;
        let index = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        Field {
            file: self.file().to_owned(),
            name: self.path.clone(),
            line,
            column,
            excerpt: self.document.lines.get(index).cloned().unwrap_or_default(),
        }
    }

    /// Returns the value of a path such as `spec.timeout`; absent if there is none, or if it is null.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Self> {
        path.split('.').try_fold(self.clone(), |item, name| item.child(name))
    }

    fn child(&self, name: &str) -> Option<Self> {
        let (_, node) = self.value().entry(name)?;
        // Kubernetes treats a field with null as if it were not there.
        (node.value != Value::Null).then(|| self.below(name, node))
    }

    fn below(&self, name: &str, node: &'d YamlNode) -> Self {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        Self {
            document: self.document,
            node,
            path,
        }
    }

    /// Returns the items of a list; none if it is no list.
    #[must_use]
    pub fn items(&self) -> Vec<Self> {
        let Value::List(items) = self.value() else {
            return Vec::new();
        };
        let item = |(index, node)| Self {
            document: self.document,
            node,
            path: format!("{}[{index}]", self.path),
        };
        items.iter().enumerate().map(item).collect()
    }

    /// Returns the entries of a map; none if it is no map.
    #[must_use]
    pub fn entries(&self) -> Vec<(&'d str, Self)> {
        let Value::Map(entries) = self.value() else {
            return Vec::new();
        };
        let entry = |(name, node): &'d (String, YamlNode)| (name.as_str(), self.below(name, node));
        entries.iter().map(entry).collect()
    }

    /// Returns the items of the list at a path; none if there is no list.
    #[must_use]
    pub fn items_at(&self, path: &str) -> Vec<Self> {
        self.get(path).map(|list| list.items()).unwrap_or_default()
    }

    /// Returns the entries of the map at a path; none if there is no map.
    #[must_use]
    pub fn entries_at(&self, path: &str) -> Vec<(&'d str, Self)> {
        self.get(path).map(|map| map.entries()).unwrap_or_default()
    }

    /// Says whether the value at a path is `true`.
    #[must_use]
    pub fn is_true(&self, path: &str) -> bool {
        self.get(path).is_some_and(|item| *item.value() == Value::Bool(true))
    }

    /// Returns the text at a path; absent if there is something else.
    #[must_use]
    pub fn text_at(&self, path: &str) -> Option<&'d str> {
        match self.get(path)?.value() {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a text; any other type is refused.
    pub fn text(&self, report: &mut ConversionReport) -> Option<&'d str> {
        match self.value() {
            Value::Text(text) => Some(text),
            _ => self.mistyped(report, "string"),
        }
    }

    /// Returns a whole number that is not negative; a text of digits is one, too.
    pub fn whole(&self, report: &mut ConversionReport) -> Option<u64> {
        let found = match self.value() {
            Value::Number(number) => number.as_u64(),
            // Kubeless writes its timeout as text, and Rafay its limits.
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        if found.is_none() {
            return self.mistyped(report, "integer");
        }
        found
    }

    /// Returns `true` or `false`.
    pub fn boolean(&self, report: &mut ConversionReport) -> Option<bool> {
        match self.value() {
            Value::Bool(value) => Some(*value),
            _ => self.mistyped(report, "boolean"),
        }
    }

    /// Returns a text, a number or a truth value as text.
    pub fn scalar(&self, report: &mut ConversionReport) -> Option<String> {
        self.value().scalar().or_else(|| self.mistyped(report, "string"))
    }

    /// Says that the value has another type than it must have.
    fn mistyped<T>(&self, report: &mut ConversionReport, expected: &str) -> Option<T> {
        let found = match self.value() {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            // The schemas of Kubernetes call whole numbers `integer`, and all others `number`.
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::Text(_) => "string",
            Value::List(_) => "array",
            Value::Map(_) => "object",
        };
        let path = &self.path;
        // A negative whole number has the right type. Only its range is wrong.
        let why = if found == expected {
            format!("Invalid value: {path} in body must be a number that is not negative")
        } else {
            format!("Invalid value: \"{found}\": {path} in body must be of type {expected}: \"{found}\"")
        };
        report.refused(&self.field(), &why);
        None
    }

    /// Returns the value as TOML.
    #[must_use]
    pub fn toml(&self) -> toml::Value {
        fn of(value: &Value) -> toml::Value {
            match value {
                // TOML has no null.
                Value::Null => toml::Value::String(String::new()),
                Value::Bool(value) => (*value).into(),
                Value::Number(number) => match number.as_i64() {
                    // TOML has whole numbers of 64 bits with a sign, and a larger one becomes a floating-point number.
                    Some(whole) => whole.into(),
                    None => number.as_f64().unwrap_or_default().into(),
                },
                Value::Text(text) => text.as_str().into(),
                Value::List(items) => toml::Value::Array(items.iter().map(|node| of(&node.value)).collect()),
                Value::Map(entries) => {
                    let entry = |(name, node): &(String, YamlNode)| (name.clone(), of(&node.value));
                    toml::Value::Table(entries.iter().map(entry).collect())
                }
            }
        }
        of(self.value())
    }

    /// Reports each field below that the schema does not have and that no row names. A row about a value around it does not say
    /// that the field is misspelt. `fields` are the paths of the schema; one that ends with `.*` has any fields below it.
    pub fn misspelt(&self, report: &mut ConversionReport, fields: &[&str]) {
        let path = without_indexes(&self.path);
        let is_field = |field: &&str| match field.strip_suffix(".*") {
            Some(open) => path == open || path.strip_prefix(open).is_some_and(|rest| rest.starts_with('.')),
            None => path == *field,
        };
        let below = format!("{path}.");
        if !fields.iter().any(|field| field.starts_with(&below)) {
            let field = self.field();
            let is_named = |row: &Row| row.field == field.name && row.file == field.file && row.line == field.line;
            if !fields.iter().any(is_field) && !report.rows.iter().any(is_named) {
                report.unknown(&field, NO_FIELD);
            }
            return;
        }
        self.parts().for_each(|item| item.misspelt(report, fields));
    }

    /// Returns the values of a map or the items of a list.
    fn parts(&self) -> impl Iterator<Item = Self> {
        let values = self.entries().into_iter().map(|(_, item)| item);
        values.chain(self.items())
    }

    /// Reports each value below that has no row yet; `known` gives the reason of a path that has no effect here.
    pub fn leftover(&self, report: &mut ConversionReport, known: &dyn Fn(&str) -> Option<&'static str>) {
        self.leftover_since(self.node.at.0, report, known);
    }

    /// The same for a part of an object that begins in the line `first`: rows of earlier objects do not count.
    fn leftover_since(&self, first: u32, report: &mut ConversionReport, known: &dyn Fn(&str) -> Option<&'static str>) {
        let is_covered = |report: &ConversionReport, field: &Field| {
            report.rows.iter().any(|row| {
                let rest = field.name.strip_prefix(row.field.as_str());
                row.file == field.file
                    && (first..=field.line).contains(&row.line)
                    && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            })
        };
        let field = self.field();
        if !self.path.is_empty() && is_covered(report, &field) {
            return;
        }
        if let Some(why) = known(&self.path) {
            if !why.is_empty() {
                report.not_here(&field, why);
            }
            return;
        }
        let mut parts = self.parts().peekable();
        if parts.peek().is_none() {
            report.unknown(&field, NO_FIELD);
        }
        parts.for_each(|item| item.leftover_since(first, report, known));
    }
}

const NO_FIELD: &str = "no such field is known; Kubernetes would ignore it, too";

/// Returns a path without the places in lists: `spec.env[0].name` is `spec.env.name`.
fn without_indexes(path: &str) -> String {
    let mut names = String::new();
    for part in path.split('[') {
        names.push_str(part.split_once(']').map_or(part, |(_, rest)| rest));
    }
    names
}
