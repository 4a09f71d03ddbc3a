//! `config/function.toml` and `config/fnd.toml` contain exactly the keys and defaults of the parser.

use super::*;
use crate::schema::pick::FromValue;
use crate::schema::read::{constant, read};
use crate::schema::source::Source;
use crate::schema::tree::{TomlNode, TomlPosition, TomlTable, TomlValue};
use crate::schema::{Key, ValueKind};
use crate::settings::keys as settings;
use std::collections::BTreeMap;

pub(crate) const FUNCTION: &str = include_str!("../../../../config/function.toml");
pub(crate) const FND: &str = include_str!("../../../../config/fnd.toml");

/// Returns a shipped file in which every commented line that looks like a key is a key.
pub(crate) fn with_examples(text: &str) -> String {
    let mut result = String::new();
    for line in text.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let name = bare.split([' ', '=']).next().unwrap_or_default();
        let key = bare.starts_with('[')
            || (!name.is_empty() && bare.contains(" = ") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        result.push_str(if key || bare.starts_with("KEY") { bare } else { "" });
        result.push('\n');
    }
    result
}

fn only_not_yet(file: &str, text: &str, schema: crate::schema::Schema) -> TomlTable {
    let (table, problems) = read(&Source::whole(file, text.as_bytes()).unwrap(), 0, schema);
    let other: Vec<String> = problems
        .iter()
        .filter(|problem| problem.code != "not-supported-yet")
        .map(Diagnostic::line)
        .collect();
    assert_eq!(other, [""; 0]);
    table
}

#[test]
fn every_key_of_the_shipped_files_is_known() {
    only_not_yet("function.toml", FUNCTION, crate::function::keys::SCHEMA);
    only_not_yet("function.toml", &with_examples(FUNCTION), crate::function::keys::SCHEMA);
    only_not_yet("fnd.toml", FND, settings::SCHEMA);
    only_not_yet("fnd.toml", &with_examples(FND), settings::SCHEMA);
}

/// In the part of its table, or of the table that contains it.
#[test]
fn every_key_of_the_tables_is_named_in_the_shipped_files() {
    for (file, text) in [("function.toml", FUNCTION), ("fnd.toml", FND)] {
        let mut parts = BTreeMap::from([("", String::new())]);
        let mut part = "";
        for line in text.lines() {
            let bare = line.strip_prefix("# ").unwrap_or(line);
            if bare.starts_with('[') {
                part = bare.trim_start_matches('[').split(']').next().unwrap();
            }
            parts.entry(part).or_default().extend([line, "\n"]);
        }
        for key in crate::explain::keys().iter().filter(|key| key.file == file) {
            let mut table = key.path.as_str();
            while !parts.contains_key(table) {
                table = table.rsplit_once('.').map_or("", |(table, _)| table);
            }
            let name = key.path.rsplit('.').next().unwrap();
            let mut words = parts[table].split(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            assert!(words.any(|word| word == name), "{file}: {}", key.path);
        }
    }
}

#[test]
fn the_shipped_configuration_is_the_default() {
    let ours = configuration([("fnd.toml", FND.as_bytes())]).unwrap_or_else(|problems| panic!("{problems:?}"));
    let mut settings = ours.settings;
    assert_eq!(
        settings.functions_dirs.take(),
        Some(vec!["/etc/fnd/functions".to_owned()])
    );
    assert_eq!(settings, configuration([]).unwrap().settings);
}

/// All values outside of comments in the shipped files are defaults of the table, and all defaults of the table are
/// there.
#[test]
fn values_outside_comments_are_the_defaults() {
    fn leaves(keys: &'static [Key], table: &TomlTable, path: &str, written: &mut BTreeMap<String, (String, String)>) {
        for key in keys {
            let path = format!("{path}{}", key.name);
            match (&key.kind, table.get(key.name).map(|node| &node.value)) {
                (ValueKind::Table(keys), Some(TomlValue::Table(inner))) => {
                    leaves(keys, inner, &format!("{path}."), written);
                }
                // Entries of lists and of [sizes] are examples.
                (ValueKind::Tables(_) | ValueKind::Map(..) | ValueKind::Defaults(_), _) => {}
                (ValueKind::Table(keys), None)
                    if !["service", "http_server", "events.nats"].contains(&path.as_str()) =>
                {
                    leaves(keys, &TomlTable::new(), &format!("{path}."), written);
                }
                (kind, found) => {
                    let default = if key.default.is_empty() {
                        String::new()
                    } else {
                        constant(kind, key.default).text()
                    };
                    written.insert(path, (found.map(TomlValue::text).unwrap_or_default(), default));
                }
            }
        }
    }
    for (text, schema) in [(FUNCTION, crate::function::keys::SCHEMA), (FND, settings::SCHEMA)] {
        let table = only_not_yet("shipped", text, schema);
        let mut written = BTreeMap::new();
        leaves(schema.keys, &table, "", &mut written);
        for (path, (written, default)) in written {
            // Defaults that are false or empty are shown as comments with an example.
            // A table `[alert]` with a key must name a function to call, for which there is no default.
            if path == "http.public" || path.starts_with("alert.") {
                continue;
            }
            assert_eq!(written, default, "{path}");
        }
    }
}

#[test]
fn every_text_of_the_tables_reads_as_what_it_is_for() {
    fn check(keys: &'static [Key]) {
        for key in keys {
            for text in [key.default, key.example].into_iter().filter(|text| !text.is_empty()) {
                let _ = constant(&key.kind, text);
                assert!(!text.contains('\n'), "{}: `built_in` is for long texts", key.name);
            }
            assert!(!key.meaning.is_empty(), "{}", key.name);
            check(key.kind.keys());
        }
    }
    check(crate::function::Manifest::KEYS);
    check(crate::settings::Settings::KEYS);
    check(crate::runtime::keys::Description::KEYS);
}

/// A field of a type that cannot hold the values of its key would end the judge.
#[test]
fn every_field_holds_the_values_of_its_key() {
    fn examples(keys: &'static [Key]) -> TomlValue {
        let at = TomlPosition {
            source: 0,
            key: 0..0,
            value: 0..0,
        };
        let node = |value| TomlNode { at: at.clone(), value };
        let example = |key: &'static Key| match &key.kind {
            ValueKind::Map(_, ValueKind::Table(keys)) if key.name != "sizes" => {
                TomlValue::Table(TomlTable::from([("x".to_owned(), node(examples(keys)))]))
            }
            kind @ (ValueKind::Table(_) | ValueKind::Defaults(_)) => examples(kind.keys()),
            ValueKind::Tables(keys) => TomlValue::List(vec![node(examples(keys))]),
            kind if key.example.is_empty() => constant(kind, "{}"),
            kind => constant(kind, key.example),
        };
        TomlValue::Table(
            keys.iter()
                .map(|key| (key.name.to_owned(), node(example(key))))
                .collect(),
        )
    }
    let manifest = crate::function::Manifest::from_value(Some(examples(crate::function::Manifest::KEYS))).unwrap();
    assert_eq!((manifest.limits.pids, manifest.service.unwrap().replicas), (128, 2));
    let settings = crate::settings::Settings::from_value(Some(examples(crate::settings::Settings::KEYS))).unwrap();
    assert_eq!((settings.users.range, settings.access.len()), ((300_000, 309_999), 1));
    let keys = crate::runtime::keys::Description::KEYS;
    let runtime = crate::runtime::keys::Description::from_value(Some(examples(keys))).unwrap();
    assert_eq!((runtime.floors.pids, runtime.versions.len()), (8, 1));
}

#[test]
fn values_of_keys_that_are_not_built_are_of_their_kind() {
    fn check(keys: &'static [Key]) -> usize {
        let count = |key: &'static Key| {
            for text in key.not_yet.unwrap_or_default() {
                let _ = constant(&key.kind, text);
            }
            usize::from(key.not_yet.is_some()) + check(key.kind.keys())
        };
        keys.iter().map(count).sum()
    }
    assert!(check(crate::function::Manifest::KEYS) + check(crate::settings::Settings::KEYS) > 0);
}
