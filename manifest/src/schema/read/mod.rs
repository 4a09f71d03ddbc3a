//! Checks a TOML text against its table of keys and reports all problems.
//!
//! Files:
//! - `advice`: keys of other tools, and values where a table belongs
//! - `values`: checks of single values
//! - `words`: the words of messages about what was found

mod advice;
mod values;
mod words;

pub use words::{escaped, list, nearest};
use words::{fits, hint, syntax, type_name};

use super::source::Source;
use super::tree::{TomlNode, TomlPosition, TomlTable, TomlValue};
use super::{Key, MANIFEST, Schema, TextKind, ValueKind};
use crate::diagnostic::Diagnostic;
use fnd_wire::units;
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Most problems that are reported of one file: more seldom tell anything new, and the report must fit into a frame.
pub const PROBLEMS_MAX: usize = 50;

/// Returns the values of a text and all of its problems, in the order of the text. `number` becomes [`TomlPosition::source`] of
/// every node. Invalid values are not part of the table.
#[must_use]
pub fn read(source: &Source, number: usize, schema: Schema) -> (TomlTable, Vec<Diagnostic>) {
    // This parser goes on after a syntax error, so one report has all problems of the file.
    let (table, errors) = DeTable::parse_recoverable(&source.toml);
    let mut reader = KeyReader {
        source,
        number,
        schema,
        path: Vec::new(),
        problems: Vec::new(),
    };
    let mut broken = BTreeSet::new();
    let mut misleading = false;
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let line = source.line_text(span.start).trim_start();
        // After a broken header, or an open string or bracket, every key would seem to belong to another table.
        misleading |= line.starts_with('[') || !line.contains('=') || error.message().contains("recursion");
        broken.insert(source.place(&span).line);
        reader.problems.push((span.start, syntax(source, &error, span)));
    }
    let result = if misleading {
        TomlTable::new()
    } else {
        let result = reader.table(table.get_ref(), schema.keys);
        // The whole file lacks the key, so the beginning of the file stands for the place.
        reader.missing(&(0..0), &result, table.get_ref(), schema.keys);
        result
    };
    // A line with a syntax error gets no further problems, since those would only follow from the syntax error.
    let is_syntax = |problem: &Diagnostic| problem.code == "syntax" || problem.code == "duplicate-key";
    let on_broken = |problem: &Diagnostic| problem.place.as_ref().is_some_and(|place| broken.contains(&place.line));
    let mut problems = reader.problems;
    problems.retain(|(_, problem)| is_syntax(problem) || !on_broken(problem));
    problems.sort_by_key(|(position, _)| *position);
    let problems = problems.into_iter().map(|(_, problem)| problem).collect();
    (result, at_most(problems, &source.file))
}

/// Returns the first [`PROBLEMS_MAX`] problems of a file, followed by one that counts the others.
#[must_use]
pub fn at_most(mut problems: Vec<Diagnostic>, file: &str) -> Vec<Diagnostic> {
    let more = problems.len().saturating_sub(PROBLEMS_MAX);
    problems.truncate(PROBLEMS_MAX);
    if more > 0 {
        problems.push(Diagnostic::error("more", format!("{more} more problems in this file")).in_file(file));
    }
    problems
}

/// Returns the value of a default, an example or an accepted value.
///
/// # Panics
/// If the text is not a value of this kind: such texts are part of the program, and a test reads all of them.
#[must_use]
pub fn constant(kind: &ValueKind, text: &str) -> TomlValue {
    // A TOML text is always a table, so a single value needs a key.
    let toml = format!("x = {text}");
    let source = Source::of_line("", 1, &toml);
    let (table, errors) = DeTable::parse_recoverable(&source.toml);
    let schema = Schema { keys: &[], what: "" };
    let mut reader = KeyReader {
        source: &source,
        number: 0,
        schema,
        path: Vec::new(),
        problems: Vec::new(),
    };
    let node = table
        .get_ref()
        .iter()
        .next()
        .and_then(|(key, value)| reader.node(key.span(), value, kind));
    let problems = &reader.problems;
    assert!(
        errors.is_empty() && problems.is_empty(),
        "`{text}` of the schema: {errors:?} {problems:?}"
    );
    node.expect("a value without problems").value
}

struct KeyReader<'a> {
    source: &'a Source,
    number: usize,
    schema: Schema,
    /// Names of the enclosing tables.
    path: Vec<String>,
    problems: Vec<(usize, Diagnostic)>,
}

impl KeyReader<'_> {
    fn problem(&mut self, span: &Range<usize>, problem: Diagnostic) {
        self.problems.push((span.start, problem.at(self.source, span.clone())));
    }

    fn table(&mut self, table: &DeTable<'_>, keys: &'static [Key]) -> TomlTable {
        let mut result = TomlTable::new();
        for (name, value) in table {
            let Some(key) = keys.iter().find(|key| key.name == name.get_ref()) else {
                let problem = self.unknown(name.get_ref(), keys);
                self.problem(&name.span(), problem);
                continue;
            };
            self.path.push(key.name.to_owned());
            if let Some(node) = self.node(name.span(), value, &key.kind) {
                self.refuse_not_yet(&node, key);
                result.insert(key.name.to_owned(), node);
            }
            self.path.pop();
        }
        result
    }

    fn refuse_not_yet(&mut self, node: &TomlNode, key: &Key) {
        let Some(accepted) = key.not_yet else { return };
        if accepted.iter().any(|text| constant(&key.kind, text).same(&node.value)) {
            return;
        }
        let name = self.path.join(".");
        // Of a word only this value may be missing and not the whole key, so the value is marked.
        let (span, message) = if let (ValueKind::Word(_), TomlValue::Text(word)) = (&key.kind, &node.value) {
            (
                node.at.value.clone(),
                format!("`{name} = \"{word}\"` is not supported yet"),
            )
        } else {
            (node.at.key.clone(), format!("`{name}` is not supported yet"))
        };
        // For a value that can only be empty, "remove it" is advice enough.
        let help = if accepted.iter().all(|text| matches!(*text, "[]" | "{}")) {
            "remove it".to_owned()
        } else if name == "ui.enabled" {
            "remove it: fnd serves no page; `fndctl web` does, with your rights, and `fndctl open HOST` from a laptop"
                .to_owned()
        } else {
            format!("remove it; for now it can only be {}", super::one_of(accepted))
        };
        self.problem(&span, Diagnostic::error("not-supported-yet", message).with_help(help));
    }

    fn unknown(&self, name: &str, keys: &'static [Key]) -> Diagnostic {
        let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
        let place = match self.path.as_slice() {
            [] => self.schema.what.to_owned(),
            path => format!("`[{}]`", path.join(".")),
        };
        let problem = Diagnostic::error("unknown-key", format!("unknown key `{}` in {place}", escaped(name)));
        let is_manifest = self.path.is_empty() && self.schema.what == MANIFEST;
        if let Some(instead) = advice::of_other_tools(name).filter(|_| is_manifest) {
            return problem.with_help(instead);
        }
        if let Some(near) = nearest(name, &names) {
            return problem.with_help(format!("did you mean `{near}`?"));
        }
        // `timeout` at the top belongs in `[limits]`; `enabled` in `[retry]` belongs at the top.
        let elsewhere = self.schema.keys.iter().find_map(|key| {
            let inside = key.kind.keys().iter().any(|inner| inner.name == name);
            let here = self.path.first().is_some_and(|first| first == key.name);
            if key.name == name {
                Some(format!(
                    "`{name}` belongs to the top of the file, before the first `[table]`"
                ))
            // Arrays of tables are left out: for `[[http]]` the help `[http]` would be wrong, and several arrays have a
            // key `path`.
            } else if inside && !here && matches!(key.kind, ValueKind::Table(_) | ValueKind::Defaults(_)) {
                Some(format!("`{name}` belongs in `[{}]`", key.name))
            } else {
                None
            }
        });
        // In a table, the arrays at the top of the file are far away.
        let arrays = advice::in_arrays(self.schema, name).filter(|_| self.path.is_empty());
        let elsewhere = match (elsewhere, arrays) {
            (Some(table), Some(arrays)) => Some(format!("{table}, or in {arrays}")),
            (table, arrays) => table.or_else(|| arrays.map(|arrays| format!("`{name}` belongs in {arrays}"))),
        };
        match elsewhere {
            Some(help) => problem.with_help(help),
            // The list of all keys is long, so it is the last resort.
            None => problem.with_help(format!("known keys: {}", list(&names))),
        }
    }

    fn node(&mut self, key: Range<usize>, value: &Spanned<DeValue<'_>>, kind: &ValueKind) -> Option<TomlNode> {
        let at = TomlPosition {
            source: self.number,
            key,
            value: value.span(),
        };
        self.value(value, kind).map(|value| TomlNode { at, value })
    }

    /// Returns the value, or reports its problem.
    fn value(&mut self, value: &Spanned<DeValue<'_>>, kind: &ValueKind) -> Option<TomlValue> {
        let span = value.span();
        match (kind, value.get_ref()) {
            (ValueKind::Either(first, second), found) => {
                // A text that is none of the words does not fit: the message names both forms then.
                let fits = |kind: &ValueKind| match (kind, found) {
                    (ValueKind::Word(words), DeValue::String(text)) => words.contains(&text.as_ref()),
                    _ => fits(kind, found),
                };
                match [first, second].into_iter().find(|kind| fits(kind)) {
                    Some(kind) => self.value(value, kind),
                    None => {
                        let expected = format!("{}, or {}", first.expected(), second.expected());
                        if let (ValueKind::Word(words), DeValue::String(text)) = (first, found) {
                            return self.unknown_word(&span, &expected, words, text);
                        }
                        self.wrong_type(&span, found, &expected, hint(first, found))
                    }
                }
            }
            (ValueKind::Bool, DeValue::Boolean(truth)) => Some(TomlValue::Bool(*truth)),
            (ValueKind::Text(form), DeValue::String(text)) => self.text(&span, *form, text),
            (ValueKind::Word(words), DeValue::String(text)) => self.word(&span, words, text),
            (ValueKind::Duration(zero), DeValue::String(text)) => self.duration(&span, *zero, text),
            (ValueKind::DurationOrNone(_), DeValue::String(text)) if text == "none" => Some(TomlValue::Duration(None)),
            (ValueKind::DurationOrNone(zero), DeValue::String(text)) => self.duration(&span, *zero, text),
            (ValueKind::SizeOrNone(_), DeValue::String(text)) if text == "none" => Some(TomlValue::Size(None)),
            (ValueKind::Size(range) | ValueKind::SizeOrNone(range), DeValue::String(text)) => {
                self.size(&span, range, text)
            }
            // A size without a unit is a number of bytes, in quotes or not.
            (ValueKind::Size(range) | ValueKind::SizeOrNone(range), DeValue::Integer(number)) => {
                self.size(&span, range, &number.to_string())
            }
            (ValueKind::Cpu, DeValue::String(text)) => self.cpu(&span, text),
            (ValueKind::Cpu, DeValue::Integer(number)) => self.cpu(&span, &number.to_string()),
            (ValueKind::Cpu, DeValue::Float(number)) => self.cpu(&span, &number.to_string()),
            (ValueKind::ByteRate, DeValue::String(text)) => {
                self.unit(&span, text, units::parse_byte_rate(text).map(TomlValue::ByteRate))
            }
            (ValueKind::Rate, DeValue::String(text)) => {
                let rate = units::parse_rate(text).map(|(count, per)| TomlValue::Rate(count, per));
                self.unit(&span, text, rate)
            }
            (ValueKind::Mode, DeValue::String(text)) => {
                self.unit(&span, text, units::parse_mode(text).map(TomlValue::Mode))
            }
            (ValueKind::Micros(range), DeValue::String(text)) => self.micros(&span, range, text),
            (ValueKind::Whole(range), DeValue::Integer(number)) => self.whole(&span, range, number),
            (ValueKind::Real(range), DeValue::Float(number)) => self.real(&span, range, number.as_str()),
            // TOML distinguishes `2` from `2.0`; a person who writes `factor = 2` means the same number.
            (ValueKind::Real(range), DeValue::Integer(number)) => self.real(&span, range, &number.to_string()),
            (ValueKind::Json, found) => self.json(&span, found).map(TomlValue::Json),
            (ValueKind::JsonTable, found @ DeValue::Table(_)) => {
                self.json_in_order(&span, found).map(TomlValue::JsonTable)
            }
            (ValueKind::List(item), DeValue::Array(items)) => {
                // Collected in two steps: in one step the first bad item would end the loop, and the problems of the
                // others would not be reported.
                let items: Vec<Option<TomlNode>> =
                    items.iter().map(|found| self.node(found.span(), found, item)).collect();
                items
                    .into_iter()
                    .collect::<Option<Vec<TomlNode>>>()
                    .map(TomlValue::List)
            }
            (ValueKind::Map(form, item), DeValue::Table(table)) => Some(TomlValue::Table(self.map(table, *form, item))),
            (ValueKind::Table(keys), DeValue::Table(table)) => {
                let result = self.table(table, keys);
                self.missing(&span, &result, table, keys);
                Some(TomlValue::Table(result))
            }
            (ValueKind::Tables(keys), DeValue::Array(items)) => {
                let mut result = Vec::new();
                for item in items.iter() {
                    let DeValue::Table(table) = item.get_ref() else {
                        self.wrong_type::<()>(&item.span(), item.get_ref(), "a table", None);
                        continue;
                    };
                    let inner = self.table(table, keys);
                    self.missing(&item.span(), &inner, table, keys);
                    let at = TomlPosition {
                        source: self.number,
                        key: item.span(),
                        value: item.span(),
                    };
                    result.push(TomlNode {
                        at,
                        value: TomlValue::Table(inner),
                    });
                }
                Some(TomlValue::List(result))
            }
            // `[schedule]` in place of `[[schedule]]` is a common mistake.
            (ValueKind::Tables(_), DeValue::Table(_)) => {
                let help = format!("write `[[{}]]`", self.path.join("."));
                self.wrong_type(&span, value.get_ref(), &kind.expected(), Some(help))
            }
            (ValueKind::Defaults(inner), DeValue::Table(table)) => {
                // Messages about `[defaults]` name keys and paths as they are in a manifest.
                let outer = std::mem::replace(&mut self.schema, **inner);
                let path = std::mem::take(&mut self.path);
                // Missing keys are not reported: each manifest is merged over `[defaults]`, and may have them.
                let result = self.table(table, self.schema.keys);
                self.schema = outer;
                self.path = path;
                Some(TomlValue::Table(result))
            }
            (_, found) => {
                let help = hint(kind, found).or_else(|| advice::as_table(&self.path.join("."), kind, found));
                self.wrong_type(&span, found, &kind.expected(), help)
            }
        }
    }

    fn wrong_type<T>(
        &mut self,
        span: &Range<usize>,
        found: &DeValue<'_>,
        expected: &str,
        help: Option<String>,
    ) -> Option<T> {
        let message = format!("expected {expected}, found {}", type_name(found));
        let mut problem = Diagnostic::error("wrong-type", self.about(&message));
        problem.help = help;
        self.problem(span, problem);
        None
    }

    /// Returns a message with the path of the current key in front.
    fn about(&self, message: &str) -> String {
        match self.path.as_slice() {
            [] => message.to_owned(),
            path => format!("`{}`: {message}", escaped(&path.join("."))),
        }
    }

    fn map(&mut self, table: &DeTable<'_>, form: TextKind, kind: &ValueKind) -> TomlTable {
        let mut result = TomlTable::new();
        for (name, value) in table {
            if !form.holds(name.get_ref()) {
                let message = format!(
                    "expected {} as the key, found `{}`",
                    form.expected(),
                    escaped(name.get_ref())
                );
                self.bad::<()>(&name.span(), &message, None);
                continue;
            }
            self.path.push(name.get_ref().to_string());
            if let Some(node) = self.node(name.span(), value, kind) {
                result.insert(name.get_ref().to_string(), node);
            }
            self.path.pop();
        }
        result
    }

    fn missing(&mut self, span: &Range<usize>, result: &TomlTable, written: &DeTable<'_>, keys: &'static [Key]) {
        for key in keys.iter().filter(|key| key.required) {
            // A key that is written with a bad value has a problem already.
            let there = result.contains_key(key.name) || written.keys().any(|name| name.get_ref() == key.name);
            if !there {
                let message = self.about(&format!("the key `{}` is missing", key.name));
                let mut help = format!("add `{} = {}`", key.name, key.example);
                if key.name == "auth" && self.path == ["http"] {
                    help.push_str(", or `auth = \"none\"` if everybody may call");
                }
                self.problem(span, Diagnostic::error("missing-key", message).with_help(help));
            }
        }
    }
}
