//! Settles secrets and service bindings: their names, and the variables that they are in.

use super::environment::ReservedVariables;
use super::subject::FunctionProblems;
use crate::diagnostic::Diagnostic;
use crate::function::Manifest;
use crate::schema::pick::Pick;
use crate::settings::resolve::reserved_variable;
use fnd_wire::plan::MAPPED_MAX;
use fnd_wire::trust::is_secret;

/// The variable in which functions of Keptn expect their secret; it is always a variable.
const SECURE_DATA: &str = "SECURE_DATA";

/// Settles secrets and service bindings of a manifest, and reports their problems.
pub(super) fn settle(
    manifest: &mut Manifest,
    (pick, reserved): (Pick<'_>, ReservedVariables),
    trusted: bool,
    report: &mut FunctionProblems<'_>,
) {
    if let Some(mapped) = manifest.secrets.get_mut(SECURE_DATA) {
        mapped.variable = true;
    }
    for (name, mapped) in &manifest.secrets {
        let at = pick.at(&format!("secrets.{name}"));
        if !is_secret(&mapped.secret) {
            report.add(at, bad_name("a secret", &mapped.secret));
        }
        if manifest.env.contains_key(name) {
            let message = format!("`{name}` is both in `[env]` and in `secrets`");
            report.impossible(at, message, "remove one of the two");
        }
        // `[env]` must not set `SECURE_DATA`, because fnd does; fnd sets it to this very secret.
        if name != SECURE_DATA && mapped.variable && reserved.has(name) {
            report.add(at, reserved_variable(name));
        }
    }
    manifest.bindings.sort();
    manifest.bindings.dedup();
    for name in manifest.bindings.iter().filter(|name| !is_secret(name)) {
        report.add(pick.at("bindings"), bad_name("a service binding", name));
    }
    for (key, count) in [
        ("secrets", manifest.secrets.len()),
        ("bindings", manifest.bindings.len()),
    ] {
        let at = pick.at(key);
        if count > MAPPED_MAX {
            let message = format!("`{key}` has {count} entries; at most {MAPPED_MAX} are possible");
            report.impossible(at, message, "keep several values in one secret");
        }
        // Otherwise everybody who may save or upload a function could read every secret.
        if count > 0 && !trusted {
            let message = format!("`{key}` is only for functions whose code and manifest belong to root");
            report.error(
                at,
                "not-allowed",
                message,
                "run `chown root` for code and manifest; for an upload, ask root",
            );
        }
    }
}

fn bad_name(what: &str, name: &str) -> Diagnostic {
    let message = format!("`{name}` can't be the name of {what}");
    Diagnostic::error("bad-value", message)
        .with_help("use up to 64 of `A-Z a-z 0-9 . _ -`, and no `.` at the beginning")
}
