//! Typed access to a checked table, with the defaults of its schema.

use super::Key;
use super::read::constant;
use super::tree::{Node, Table, Value, find};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// A checked table and the keys it was checked against.
///
/// # Panics
/// Every method that takes a path panics if the schema has no such key, if the key has another kind, or if a needed
/// default is missing. The paths are constants of this program, and a test resolves an empty file.
#[derive(Debug, Clone, Copy)]
pub struct Pick<'a> {
    /// The values that were written.
    pub table: &'a Table,
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

macro_rules! typed {
    ($($(#[$meta:meta])* $name:ident: $type:ty = $pattern:pat => $result:expr;)*) => {$(
        $(#[$meta])*
        #[must_use]
        pub fn $name(self, path: &str) -> $type {
            match self.value(path) {
                $pattern => $result,
                other => unreachable!("`{path}` is {other:?}, which the schema does not allow"),
            }
        }
    )*};
}

impl<'a> Pick<'a> {
    /// Returns the value of a key with its position; absent if it was not written.
    #[must_use]
    pub fn written(self, path: &str) -> Option<&'a Node> {
        find(self.table, path)
    }

    /// Returns the written value, else the default, if there is one.
    fn any(self, path: &str) -> Option<Value> {
        if let Some(node) = self.written(path) {
            return Some(node.value.clone());
        }
        let key = key_at(self.keys, path).expect("a key of the schema");
        (!key.default.is_empty()).then(|| constant(&key.kind, key.default))
    }

    fn value(self, path: &str) -> Value {
        self.any(path).expect("a key with a default")
    }

    /// Returns the value of a key, else its default, else what the type has for a key without a value.
    #[must_use]
    pub fn get<T: FromValue>(self, path: &str) -> T {
        T::from_value(self.any(path)).unwrap_or_else(|| unreachable!("`{path}` has another type in its table"))
    }

    typed! {
        /// Returns a truth value.
        truth: bool = Value::Bool(truth) => truth;
        /// Returns a text or word.
        text: String = Value::Text(text) => text;
        /// Returns a duration, absent for `"none"`.
        duration_or_none: Option<Duration> = Value::Duration(duration) => duration;
        /// Returns a size, absent for `"none"`.
        size_or_none: Option<u64> = Value::Size(size) => size;
        /// Returns a whole number.
        whole: u64 = Value::Whole(number) => number;
        /// Returns a number.
        real: f64 = Value::Real(number) => number;
        /// Returns permission bits.
        mode: u32 = Value::Mode(mode) => mode;
    }

    /// Returns a duration.
    #[must_use]
    pub fn duration(self, path: &str) -> Duration {
        self.duration_or_none(path).expect("a duration that cannot be `none`")
    }

    /// Returns a size.
    #[must_use]
    pub fn size(self, path: &str) -> u64 {
        self.size_or_none(path).expect("a size that cannot be `none`")
    }

    /// Returns a whole number whose range fits 32 bits.
    #[must_use]
    pub fn small(self, path: &str) -> u32 {
        u32::try_from(self.whole(path)).expect("a range within 32 bits")
    }

    /// Returns a text without a default; absent if it was not written.
    #[must_use]
    pub fn text_if(self, path: &str) -> Option<String> {
        self.any(path).map(|value| value.text())
    }

    /// Returns a size without a default; absent if it was not written.
    #[must_use]
    pub fn size_if(self, path: &str) -> Option<u64> {
        match self.any(path) {
            Some(Value::Size(size)) => size,
            _ => None,
        }
    }

    /// Returns thousandths of a core; absent if they were not written.
    #[must_use]
    pub fn cpu_if(self, path: &str) -> Option<u32> {
        match self.any(path) {
            Some(Value::Cpu(milli)) => Some(milli),
            _ => None,
        }
    }

    /// Returns bytes per second; absent if they were not written.
    #[must_use]
    pub fn byte_rate_if(self, path: &str) -> Option<u64> {
        match self.any(path) {
            Some(Value::ByteRate(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Returns a count per period; absent if it was not written.
    #[must_use]
    pub fn rate_if(self, path: &str) -> Option<(u32, Duration)> {
        match self.any(path) {
            Some(Value::Rate(count, per)) => Some((count, per)),
            _ => None,
        }
    }

    /// Returns any value as JSON; absent if it was not written.
    #[must_use]
    pub fn json_if(self, path: &str) -> Option<serde_json::Value> {
        match self.any(path) {
            Some(Value::Json(json)) => Some(json),
            _ => None,
        }
    }

    /// Returns the items of a list; empty where it was not written and has no default.
    #[must_use]
    pub fn items(self, path: &str) -> Vec<Node> {
        match self.any(path) {
            Some(Value::List(items)) => items,
            _ => Vec::new(),
        }
    }

    /// Returns the texts of a list.
    #[must_use]
    pub fn texts(self, path: &str) -> Vec<String> {
        self.items(path).iter().map(|item| item.value.text()).collect()
    }

    /// Returns the texts of a table with arbitrary names.
    #[must_use]
    pub fn text_map(self, path: &str) -> BTreeMap<String, String> {
        match self.any(path) {
            Some(Value::Table(table)) => table
                .iter()
                .map(|(name, node)| (name.clone(), node.value.text()))
                .collect(),
            _ => BTreeMap::new(),
        }
    }
}

/// A type that values of keys are read into.
pub trait FromValue: Sized {
    /// Returns the value. It is absent where the key was not written and has no default. The result is absent if the
    /// value is of a kind that the type does not have.
    fn from_value(value: Option<Value>) -> Option<Self>;
}

macro_rules! from_value {
    ($($type:ty: $($pattern:pat => $result:expr),+;)*) => {$(
        impl FromValue for $type {
            fn from_value(value: Option<Value>) -> Option<Self> {
                match value? {
                    $($pattern => $result,)+
                    _ => None,
                }
            }
        }
    )*};
}
from_value! {
    bool: Value::Bool(truth) => Some(truth);
    f64: Value::Real(number) => Some(number);
    u8: Value::Whole(number) => number.try_into().ok();
    u16: Value::Whole(number) => number.try_into().ok();
    u32: Value::Whole(number) => number.try_into().ok(), Value::Cpu(number) | Value::Mode(number) => Some(number);
    u64: Value::Whole(number) | Value::ByteRate(number) => Some(number), Value::Size(size) => size;
    Duration: Value::Duration(duration) => duration;
    SocketAddr: Value::Text(text) => text.parse().ok();
    serde_json::Value: Value::Json(json) => Some(json);
}

/// Absent is the empty text.
impl FromValue for String {
    fn from_value(value: Option<Value>) -> Option<Self> {
        Some(value.map(|value| value.text()).unwrap_or_default())
    }
}

/// Absent, or `"none"`.
impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: Option<Value>) -> Option<Self> {
        match value {
            None | Some(Value::Duration(None) | Value::Size(None)) => Some(None),
            value => T::from_value(value).map(Some),
        }
    }
}

/// Absent is the empty list.
impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: Option<Value>) -> Option<Self> {
        match value {
            None => Some(Self::new()),
            Some(Value::List(items)) => items.into_iter().map(|item| T::from_value(Some(item.value))).collect(),
            Some(_) => None,
        }
    }
}

/// Absent is the empty table.
impl<T: FromValue> FromValue for BTreeMap<String, T> {
    fn from_value(value: Option<Value>) -> Option<Self> {
        let table = value.map_or_else(|| Some(Table::new()), Value::into_table)?;
        let entries = table
            .into_iter()
            .map(|(name, node)| Some((name, T::from_value(Some(node.value))?)));
        entries.collect()
    }
}
