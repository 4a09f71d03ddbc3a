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
            Self::List(_) => self.texts().join(", "),
            Self::Table(table) => {
                let entries: Vec<String> = table
                    .iter()
                    .map(|(name, node)| format!("{name} = {}", node.value.text()))
                    .collect();
                entries.join(", ")
            }
        }
    }

    /// Returns the text of the value, or the texts of a list.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::List(items) => items.iter().map(|item| item.value.text()).collect(),
            value => vec![value.text()],
        }
    }

    /// Returns the items of a list; none if the value is no list.
    #[must_use]
    pub fn items(&self) -> &[TomlNode] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the table that this value is; absent if it is none.
    #[must_use]
    pub fn as_table(&self) -> Option<&TomlTable> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
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
        let same = |one: &TomlNode, two: &TomlNode| one.value.same(&two.value);
        match (self, other) {
            // `==` would compare the positions in it, too.
            (Self::List(one), Self::List(two)) => {
                one.len() == two.len() && one.iter().zip(two).all(|(one, two)| same(one, two))
            }
            (Self::Table(one), Self::Table(two)) => {
                let mut pairs = one.iter().zip(two);
                one.len() == two.len() && pairs.all(|((n, one), (m, two))| n == m && same(one, two))
            }
            _ => self == other,
        }
    }
}

/// Merges one table over another: tables are merged, arrays and values are replaced.
pub fn merge(base: &mut TomlTable, over: TomlTable) {
    for (name, node) in over {
        let below = base.get_mut(&name).map(|node| &mut node.value);
        if let (Some(TomlValue::Table(below)), TomlValue::Table(_)) = (below, &node.value) {
            merge(below, node.value.into_table().unwrap_or_default());
        } else {
            base.insert(name, node);
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
    match rest {
        None => Some(node),
        Some(rest) => find(node.value.as_table()?, rest),
    }
}

/// Returns the table at a path of tables; absent if it was not written.
#[must_use]
pub fn table<'a>(table: &'a TomlTable, path: &str) -> Option<&'a TomlTable> {
    find(table, path)?.value.as_table()
}

/// Returns the entries of a list of tables, as they are written.
#[must_use]
pub fn entries<'a>(table: &'a TomlTable, list: &str) -> &'a [TomlNode] {
    table.get(list).map(|node| node.value.items()).unwrap_or_default()
}

/// Returns where a key of an entry is written; the entry itself where the key is not.
#[must_use]
pub fn place<'a>(entry: Option<&'a TomlNode>, key: &str) -> Option<&'a TomlPosition> {
    let found = entry?.value.as_table().and_then(|table| table.get(key));
    Some(&found.or(entry)?.at)
}
