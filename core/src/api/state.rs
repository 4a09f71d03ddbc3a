//! Bodies about the state, the values that functions share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A value with its version.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StateEntry {
    /// Its scope.
    pub scope: String,
    /// Its key.
    pub key: String,
    /// The value, as it was written.
    #[schemars(with = "serde_json::Value")]
    pub value: Box<RawValue>,
    /// Its version, which grows with each change of the key and is never used again.
    pub version: u64,
    /// When it was written.
    #[schemars(extend("format" = "date-time"))]
    pub changed_at: String,
}

/// A key that was written or deleted, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateWritten {
    /// Its scope.
    pub scope: String,
    /// Its key.
    pub key: String,
    /// Its version; for a key that was deleted the last one.
    pub version: u64,
    /// When this version was written.
    #[schemars(extend("format" = "date-time"))]
    pub changed_at: String,
}

/// A page of the keys of a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateKeys {
    /// Sorted by key.
    pub keys: Vec<StateKeyView>,
    /// The last key of the page (`after=`); null on the last page.
    pub next: Option<String>,
}

/// A key in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateKeyView {
    /// The key.
    pub key: String,
    /// Its version.
    pub version: u64,
    /// Bytes of its scope, its key and its value.
    pub bytes: u64,
    /// When it was written.
    #[schemars(extend("format" = "date-time"))]
    pub changed_at: String,
}

/// The scopes that have keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateScopes {
    /// Sorted by name.
    pub scopes: Vec<StateScope>,
}

/// A scope with keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateScope {
    /// Its name.
    pub scope: String,
    /// How many keys it has.
    pub keys: u64,
    /// Bytes of its keys and values.
    pub bytes: u64,
}
