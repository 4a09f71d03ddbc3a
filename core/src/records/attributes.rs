//! The attributes of an event, as they are stored with the invocation that it starts. `triggers/event` has the rules that
//! their names and values keep.

use crate::json::is_json;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of `CloudEvents` that functions see, whatever form the event came in.
const VERSION: &str = "1.0";

/// The attributes of an event as text. The version is always 1.0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attributes {
    /// Identifies the event together with `source`.
    pub id: String,
    /// Where the event comes from, a URI reference.
    pub source: String,
    /// The kind of event.
    #[serde(rename = "type")]
    pub kind: String,
    /// What the event is about, within `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When the event happened, RFC 3339, as the sender wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Media type of the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacontenttype: Option<String>,
    /// The schema of the data, a URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataschema: Option<String>,
    /// Further attributes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extensions: BTreeMap<String, String>,
}

impl Attributes {
    /// The names of the attributes that are no extensions.
    pub(crate) const NAMES: [&str; 8] = [
        "specversion",
        "id",
        "source",
        "type",
        "subject",
        "time",
        "datacontenttype",
        "dataschema",
    ];

    /// Returns an attribute by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        match name {
            "specversion" => Some(VERSION),
            "id" => Some(&self.id),
            "source" => Some(&self.source),
            "type" => Some(&self.kind),
            "subject" => self.subject.as_deref(),
            "time" => self.time.as_deref(),
            "datacontenttype" => self.datacontenttype.as_deref(),
            "dataschema" => self.dataschema.as_deref(),
            name => self.extensions.get(name).map(String::as_str),
        }
    }

    /// Returns every attribute that the event has, the version included.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let named = Self::NAMES.into_iter().filter_map(|name| Some((name, self.get(name)?)));
        let more = self
            .extensions
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        named.chain(more)
    }

    /// Returns the version of the type, as Kyma sends it.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.get("eventtypeversion")
    }

    /// Says whether the data is JSON: also where no media type says what it is.
    #[must_use]
    pub fn has_json(&self) -> bool {
        self.datacontenttype.as_deref().is_none_or(is_json)
    }
}
