//! Settles secrets and service bindings: their names, and the variables that they are in.

use super::environment::ReservedVariables;
use super::subject::FunctionProblems;
use crate::diagnostic::Diagnostic;
use crate::function::Manifest;
use crate::schema::pick::Pick;
use crate::schema::tree::TomlPosition;
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
        let at = at(pick, &format!("secrets.{name}"));
        if !is_secret(&mapped.secret) {
            report.add(at, bad_name("a secret", &mapped.secret));
        }
        if manifest.env.contains_key(name) {
            let problem = Diagnostic::error("impossible", format!("`{name}` is both in `[env]` and in `secrets`"));
            report.add(at, problem.with_help("remove one of the two"));
        }
        // `[env]` must not set `SECURE_DATA`, because fnd does; fnd sets it to this very secret.
        if name != SECURE_DATA && mapped.variable && reserved.has(name) {
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
        // Otherwise everybody who may save or upload a function could read every secret.
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
