//! Typed access to a checked table, with the defaults of its schema.

use super::Key;
use super::read::constant;
use super::tree::{TomlNode, TomlPosition, TomlTable, TomlValue, find};
use crate::json_text::JsonText;
use crate::words::WordEnum;
use fnd_wire::ids::FunctionName;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

/// A checked table and the keys it was checked against.
#[derive(Debug, Clone, Copy)]
pub struct Pick<'a> {
    /// The values that were written.
    pub table: &'a TomlTable,
    /// The keys that may be written.
    pub keys: &'static [Key],
}

/// Returns the key at a path of tables.
#[must_use]
pub fn key_at(keys: &'static [Key], path: &str) -> Option<&'static Key> {
    let (first, rest) = path
        .split_once('.')
        .map_or((path, None), |(first, rest)| (first, Some(rest)));
    let key = keys.iter().find(|key| key.name == first)?;
    match rest {
        None => Some(key),
        Some(rest) => key_at(key.kind.keys(), rest),
    }
}

thread_local! {
    // Each thread has defaults of its own, so that no reader waits for another one.
    /// The defaults that were asked for, by the address of their table of keys, which is a constant, and by their path.
    static DEFAULTS: RefCell<HashMap<*const Key, HashMap<String, Option<TomlValue>>>> = RefCell::default();
}

/// Returns the default of a key, if it has one. It is found and parsed once: most keys of most manifests are not written,
/// and parsing more than a hundred constants would take longer than all else that is done for a manifest.
fn default_at(keys: &'static [Key], path: &str) -> Option<TomlValue> {
    DEFAULTS.with_borrow_mut(|tables| {
        let known = tables.entry(keys.as_ptr()).or_default();
        if let Some(known) = known.get(path) {
            return known.clone();
        }
        let key = key_at(keys, path).expect("a key of the schema");
        let parsed = (!key.default.is_empty()).then(|| constant(&key.kind, key.default));
        known.insert(path.to_owned(), parsed.clone());
        parsed
    })
}

impl<'a> Pick<'a> {
    /// Returns where the value of a key is written; absent if it was not.
    #[must_use]
    pub fn at(self, path: &str) -> Option<&'a TomlPosition> {
        self.written(path).map(|node| &node.at)
    }

    /// Returns the value of a key with its position; absent if it was not written.
    #[must_use]
    pub fn written(self, path: &str) -> Option<&'a TomlNode> {
        find(self.table, path)
    }

    /// Returns the written value, else the default, if there is one.
    fn any(self, path: &str) -> Option<TomlValue> {
        match self.written(path) {
            Some(node) => Some(node.value.clone()),
            None => default_at(self.keys, path),
        }
    }

    /// Returns the value of a key, else its default, else what the type has for a key without a value.
    ///
    /// # Panics
    /// If the schema has no such key, or the type does not hold its values. The paths are constants of this program, and
    /// a test resolves an empty file.
    #[must_use]
    pub fn get<T: FromValue>(self, path: &str) -> T {
        T::from_value(self.any(path)).unwrap_or_else(|| unreachable!("`{path}` has another type in its table"))
    }
}

/// A type that values of keys are read into.
pub trait FromValue: Sized {
    /// Returns the value. It is absent where the key was not written and has no default. The result is absent if the
    /// value is of a kind that the type does not have.
    fn from_value(value: Option<TomlValue>) -> Option<Self>;
}

macro_rules! from_value {
    ($($type:ty: $($pattern:pat => $result:expr),+;)*) => {$(
        impl FromValue for $type {
            fn from_value(value: Option<TomlValue>) -> Option<Self> {
                match value? {
                    $($pattern => $result,)+
                    _ => None,
                }
            }
        }
    )*};
}
from_value! {
    bool: TomlValue::Bool(truth) => Some(truth);
    f64: TomlValue::Real(number) => Some(number);
    u8: TomlValue::Whole(number) => number.try_into().ok();
    u16: TomlValue::Whole(number) => number.try_into().ok();
    u32: TomlValue::Whole(number) => number.try_into().ok(), TomlValue::Cpu(number) | TomlValue::Mode(number) | TomlValue::Micros(number) => Some(number);
    u64: TomlValue::Whole(number) | TomlValue::ByteRate(number) => Some(number), TomlValue::Size(size) => size;
    Duration: TomlValue::Duration(duration) => duration;
    SocketAddr: TomlValue::Text(text) => text.parse().ok();
    serde_json::Value: TomlValue::Json(json) => Some(json);
    JsonText: TomlValue::JsonTable(json) => Some(json);
    FunctionName: TomlValue::Text(text) => FunctionName::new(&text).ok();
}

/// One of the words; the schema has checked it.
impl<T: WordEnum> FromValue for T {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        Self::of_word(&value?.text())
    }
}

/// Absent is the empty text.
impl FromValue for String {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        Some(value.map(|value| value.text()).unwrap_or_default())
    }
}

/// Absent, or `"none"`.
impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        match value {
            None | Some(TomlValue::Duration(None) | TomlValue::Size(None)) => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// Absent is the empty list.
impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        match value {
            None => Some(Self::new()),
            Some(TomlValue::List(items)) => items.into_iter().map(|item| T::from_value(Some(item.value))).collect(),
            Some(_) => None,
        }
    }
}

/// Absent is the empty table.
impl<T: FromValue> FromValue for BTreeMap<String, T> {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        let table = value.map_or_else(|| Some(TomlTable::new()), TomlValue::into_table)?;
        let entries = table
            .into_iter()
            .map(|(name, node)| Some((name, T::from_value(Some(node.value))?)));
        entries.collect()
    }
}
