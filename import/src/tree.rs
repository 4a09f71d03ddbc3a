//! A YAML or JSON file of another program, as a tree whose values have fields.

use super::text;
use crate::failure::ImportFailure;
use fnd_manifest::diagnostic::Diagnostic;
use fnd_manifest::foreign::yaml::{Document, Value, YamlNode, YamlPosition, documents, tagged_documents};
use fnd_manifest::foreign::{ConversionReport, Field};
use std::path::Path;

/// Reads the documents of a file.
///
/// # Errors
/// It cannot be read, or is neither YAML nor JSON.
pub(crate) fn read(path: &Path) -> Result<Vec<Document>, ImportFailure> {
    read_json(path, |_| {})
}

/// Reads the documents of a file; `prepare` changes the text of one in JSON before it is parsed.
///
/// # Errors
/// It cannot be read, or is neither YAML nor JSON.
pub(crate) fn read_json(path: &Path, prepare: impl FnOnce(&mut [u8])) -> Result<Vec<Document>, ImportFailure> {
    let mut bytes = text::read(path)?;
    let name = path.display().to_string();
    if path.extension().is_some_and(|end| end == "json") {
        prepare(&mut bytes);
        without_tabs(&mut bytes);
    }
    parse(&name, &bytes)
}

/// Replaces the tabs of a text in JSON: YAML refuses them between values, and a value of JSON has none.
pub(crate) fn without_tabs(json: &mut [u8]) {
    json.iter_mut()
        .filter(|byte| **byte == b'\t')
        .for_each(|byte| *byte = b' ');
}

/// Parses the documents of a text.
///
/// # Errors
/// It is neither YAML nor JSON.
pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<Vec<Document>, ImportFailure> {
    documents(name, bytes).map_err(|problem| unreadable(name, *problem))
}

/// Parses the documents of a text; a value with a tag, such as `!Ref a`, is a map with the tag as its key.
///
/// # Errors
/// As for [`parse`].
pub(crate) fn parse_tagged(name: &str, bytes: &[u8]) -> Result<Vec<Document>, ImportFailure> {
    tagged_documents(name, bytes).map_err(|problem| unreadable(name, *problem))
}

fn unreadable(name: &str, problem: Diagnostic) -> ImportFailure {
    let mut failure = ImportFailure::invalid(format!("`{name}` cannot be read"));
    failure.diagnostics.push(problem);
    failure
}

/// Returns the field of a whole file, under this name.
pub(crate) fn whole(file: &str, name: &str) -> Field {
    text::field(file, name, (1, 1), &[])
}

/// A value with its name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedValue<'a> {
    document: &'a Document,
    /// Its key; empty in a list.
    pub(crate) key: &'a str,
    pub(crate) node: &'a YamlNode,
}

impl<'a> NamedValue<'a> {
    /// Returns the whole document.
    pub(crate) fn root(document: &'a Document) -> Self {
        Self {
            document,
            key: "",
            node: &document.root,
        }
    }

    /// Returns the field of the value, under its own name.
    pub(crate) fn field(&self) -> Field {
        self.named(self.key)
    }

    /// Returns the field of the value under another name.
    pub(crate) fn named(&self, name: &str) -> Field {
        let YamlPosition(line, column) = self.node.at;
        text::field(&self.document.file, name, (line, column), &self.document.lines)
    }

    /// Returns the entries of a map, or the values of a list; nothing of another value.
    pub(crate) fn items(&self) -> Vec<NamedValue<'a>> {
        let item = |key, node| NamedValue {
            document: self.document,
            key,
            node,
        };
        match &self.node.value {
            Value::List(items) => items.iter().map(|node| item("", node)).collect(),
            Value::Map(entries) => entries.iter().map(|(key, node)| item(key.as_str(), node)).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns an entry of a map.
    pub(crate) fn get(&self, key: &str) -> Option<NamedValue<'a>> {
        let (key, node) = self.node.value.entry(key)?;
        Some(NamedValue { key, node, ..*self })
    }

    /// Returns a text, number or truth value as text.
    pub(crate) fn text(&self) -> Option<String> {
        self.node.value.scalar()
    }

    /// Says whether it is a text, number or truth value; reports another one.
    pub(crate) fn is_scalar(&self, report: &mut ConversionReport, field: &Field) -> bool {
        let found = match &self.node.value {
            Value::Null => "nothing",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Text(_) | Value::Number(_) | Value::Bool(_) => return true,
        };
        report.refused(field, &format!("expected a text or a number, and it is {found}"));
        false
    }

    /// Returns the texts of a list; reports another value, and one with other parts.
    pub(crate) fn texts(&self, report: &mut ConversionReport, field: &Field) -> Option<Vec<String>> {
        let texts: Option<Vec<String>> = self.items().iter().map(Self::text).collect();
        let texts = texts.filter(|_| self.is_list());
        if texts.is_none() {
            report.refused(field, "expected a list of texts");
        }
        texts
    }

    /// Returns the truth value; reports another value, and returns `otherwise`.
    pub(crate) fn truth_or(&self, otherwise: bool, report: &mut ConversionReport) -> bool {
        self.truth().unwrap_or_else(|| {
            report.refused(&self.field(), "expected `true` or `false`");
            otherwise
        })
    }

    /// Returns the text of an entry.
    pub(crate) fn text_of(&self, key: &str) -> Option<String> {
        self.get(key)?.text()
    }

    /// Returns a truth value.
    pub(crate) fn truth(&self) -> Option<bool> {
        match &self.node.value {
            Value::Bool(value) => Some(*value),
            Value::Text(text) if text == "true" => Some(true),
            Value::Text(text) if text == "false" => Some(false),
            _ => None,
        }
    }

    /// Says whether it is a map.
    pub(crate) fn is_map(&self) -> bool {
        matches!(self.node.value, Value::Map(_))
    }

    /// Says whether it is a list.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.node.value, Value::List(_))
    }
}
