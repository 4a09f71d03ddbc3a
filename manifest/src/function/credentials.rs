//! Secrets and service bindings that a function gets.

use super::Manifest;
use crate::schema::pick::FromValue;
use crate::schema::tree::TomlValue;
use fnd_wire::plan::{Credentials, Mapped};
use serde::{Deserialize, Serialize};

/// The secret that a function knows by a name of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedSecret {
    /// Name of the secret.
    pub secret: String,
    /// Whether the function has it as a variable, too.
    pub variable: bool,
}

impl FromValue for MappedSecret {
    fn from_value(value: Option<TomlValue>) -> Option<Self> {
        match value? {
            TomlValue::Table(table) => Some(Self {
                // Without a name it is refused; it is read all the same.
                secret: table.get("secret").map(|node| node.value.text()).unwrap_or_default(),
                variable: table.get("as").is_some_and(|node| node.value.text() == "env"),
            }),
            name => Some(Self {
                secret: name.text(),
                variable: false,
            }),
        }
    }
}

/// Returns the secrets and service bindings of a manifest for the spawner.
#[must_use]
pub fn of(manifest: &Manifest) -> Credentials {
    let mapped = manifest.secrets.iter().map(|(name, mapped)| Mapped {
        name: name.clone(),
        secret: mapped.secret.clone(),
        variable: mapped.variable,
    });
    Credentials {
        secrets: mapped.collect(),
        bindings: manifest.bindings.clone(),
    }
}

/// Returns the names of the secrets that are variables.
pub fn variables(manifest: &Manifest) -> impl Iterator<Item = &str> {
    let found = manifest.secrets.iter().filter(|(_, mapped)| mapped.variable);
    found.map(|(name, _)| name.as_str())
}
