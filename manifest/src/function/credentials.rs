//! Secrets and service bindings that a function gets.

use super::resolve::{FunctionProblems, RESERVED};
use super::{Manifest, Mode};
use crate::diagnostic::Diagnostic;
use crate::schema::pick::{FromValue, Pick};
use crate::schema::tree::{TomlPosition, TomlValue};
use fnd_wire::plan::{Credentials, HANDLER_VARIABLES, MAPPED_MAX, Mapped};
use fnd_wire::trust::is_secret;
use serde::{Deserialize, Serialize};

/// The variable in which functions of Keptn expect their secret; it is always a variable.
const SECURE_DATA: &str = "SECURE_DATA";

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

/// Settles secrets and service bindings of a manifest, and reports their problems.
pub(super) fn settle(manifest: &mut Manifest, pick: Pick<'_>, trusted: bool, report: &mut FunctionProblems<'_>) {
    if let Some(mapped) = manifest.secrets.get_mut(SECURE_DATA) {
        mapped.variable = true;
    }
    for (name, mapped) in &manifest.secrets {
        let at = at(pick, &format!("secrets.{name}"));
        if !is_secret(&mapped.secret) {
            report.add(at, bad_name("a secret", &mapped.secret));
        }
        if manifest.env.contains_key(name) {
            let problem = Diagnostic::error("impossible", format!("`{name}` is both in `[env]` and in `secrets`"));
            report.add(at, problem.with_help("remove one of the two"));
        }
        if name != SECURE_DATA && mapped.variable && is_reserved(name, manifest.mode) {
            let problem = Diagnostic::error("reserved", format!("the variable `{name}` is set by fnd itself"));
            report.add(at, problem.with_help("use another name"));
        }
    }
    manifest.bindings.sort();
    manifest.bindings.dedup();
    for name in manifest.bindings.iter().filter(|name| !is_secret(name)) {
        report.add(at(pick, "bindings"), bad_name("a service binding", name));
    }
    for (key, count) in [
        ("secrets", manifest.secrets.len()),
        ("bindings", manifest.bindings.len()),
    ] {
        let at = at(pick, key);
        if count > MAPPED_MAX {
            let message = format!("`{key}` has {count} entries; at most {MAPPED_MAX} are possible");
            report.add(
                at,
                Diagnostic::error("impossible", message).with_help("keep several values in one secret"),
            );
        }
        if count > 0 && !trusted {
            let message = format!("`{key}` is only for functions whose code and manifest belong to root");
            let problem = Diagnostic::error("not-allowed", message);
            report.add(at, problem.with_help("run `chown root` for code and manifest"));
        }
    }
}

fn at<'a>(pick: Pick<'a>, path: &str) -> Option<&'a TomlPosition> {
    pick.written(path).map(|node| &node.at)
}

fn bad_name(what: &str, name: &str) -> Diagnostic {
    let message = format!("`{name}` can't be the name of {what}");
    Diagnostic::error("bad-value", message)
        .with_help("use up to 64 of `A-Z a-z 0-9 . _ -`, and no `.` at the beginning")
}

/// Says whether fnd sets this variable itself in functions of this mode.
pub(super) fn is_reserved(name: &str, mode: Mode) -> bool {
    let of_mode = match mode {
        Mode::Script => false,
        Mode::Handler => HANDLER_VARIABLES.contains(&name),
        Mode::Http | Mode::Service => name == "PORT",
    };
    name.starts_with("FND_") || RESERVED.contains(&name) || of_mode
}
