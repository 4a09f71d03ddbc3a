//! The result of checking a file: typed values, each with its position.

use crate::json_text::JsonText;
use fnd_wire::units;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// A table: values by name.
pub type TomlTable = BTreeMap<String, TomlNode>;

/// A value with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct TomlNode {
    /// The position of the value, for diagnostics.
    pub at: TomlPosition,
    /// The value, with its type in TOML.
    pub value: TomlValue,
}

/// A position in one of several sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TomlPosition {
    /// Number of the source; the caller of the reader chooses it.
    pub source: usize,
    /// Range of the key.
    pub key: Range<usize>,
    /// Range of the value.
    pub value: Range<usize>,
}

/// A value of one of the kinds.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "each variant is the kind of the same name")]
pub enum TomlValue {
    Bool(bool),
    Text(String),
    /// A duration; absent for `"none"`.
    Duration(Option<Duration>),
    /// A size; absent for `"none"`.
    Size(Option<u64>),
    Cpu(u32),
    ByteRate(u64),
    Rate(u32, Duration),
    Mode(u32),
    Micros(u32),
    Whole(u64),
    Real(f64),
    Json(serde_json::Value),
    JsonTable(JsonText),
    List(Vec<TomlNode>),
    Table(TomlTable),
}

/// Returns the paths of all values in a table, such as `limits.timeout`, sorted by their parts.
#[must_use]
pub fn paths(table: &TomlTable) -> Vec<String> {
    let of = |(name, node): (&String, &TomlNode)| match &node.value {
        // An empty table has no values, but it was written, so its own path is returned.
        TomlValue::Table(below) if !below.is_empty() => {
            paths(below).into_iter().map(|path| format!("{name}.{path}")).collect()
        }
        _ => vec![name.clone()],
    };
    table.iter().flat_map(of).collect()
}

impl TomlValue {
    /// Returns the value as it is written in a file, without quotes around text.
    #[must_use]
    pub fn text(&self) -> String {
        let none = || "none".to_owned();
        match self {
            Self::Bool(value) => value.to_string(),
            Self::Text(text) => text.clone(),
            Self::Duration(value) => value.map_or_else(none, units::print_duration),
            Self::Size(value) => value.map_or_else(none, units::print_size),
            Self::Cpu(milli) => units::print_cpu(*milli),
            Self::ByteRate(bytes) => units::print_byte_rate(*bytes),
            Self::Rate(count, per) => units::print_rate(*count, *per),
            Self::Mode(mode) => units::print_mode(*mode),
            Self::Micros(micros) => units::print_micros(*micros),
            Self::Whole(number) => number.to_string(),
            Self::Real(number) => format!("{number:?}"),
            Self::Json(json) => json.to_string(),
            Self::JsonTable(json) => json.get().to_owned(),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(|item| item.value.text()).collect();
                items.join(", ")
            }
            Self::Table(table) => {
                let entries: Vec<String> = table
                    .iter()
                    .map(|(name, node)| format!("{name} = {}", node.value.text()))
                    .collect();
                entries.join(", ")
            }
        }
    }

    /// Returns the table that this value is; absent if it is none.
    #[must_use]
    pub fn into_table(self) -> Option<TomlTable> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
        }
    }

    /// Says whether two values are equal, whatever their positions.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            // `==` would compare the positions in it, too.
            (Self::List(one), Self::List(two)) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.value.same(&two.value))
            }
            (Self::Table(one), Self::Table(two)) => {
                one.len() == two.len()
                    && one
                        .iter()
                        .zip(two)
                        .all(|((n, one), (m, two))| n == m && one.value.same(&two.value))
            }
            _ => self == other,
        }
    }
}

/// Merges one table over another: tables are merged, arrays and values are replaced.
pub fn merge(base: &mut TomlTable, over: TomlTable) {
    for (name, node) in over {
        match (base.get_mut(&name), node) {
            (
                Some(TomlNode {
                    value: TomlValue::Table(below),
                    ..
                }),
                TomlNode {
                    value: TomlValue::Table(above),
                    ..
                },
            ) => {
                merge(below, above);
            }
            (_, node) => {
                base.insert(name, node);
            }
        }
    }
}

/// Returns the node at a path of tables; absent if it was not written.
#[must_use]
pub fn find<'a>(table: &'a TomlTable, path: &str) -> Option<&'a TomlNode> {
    let (first, rest) = path
        .split_once('.')
        .map_or((path, None), |(first, rest)| (first, Some(rest)));
    let node = table.get(first)?;
    match (rest, &node.value) {
        (None, _) => Some(node),
        (Some(rest), TomlValue::Table(inner)) => find(inner, rest),
        (Some(_), _) => None,
    }
}
