//! Finds calls of `[hooks]` and `[alert]` that reach nobody. Whether functions exist is known only where all of them are:
//! in the daemon, and when a whole directory is checked.

use super::Manifest;
use crate::diagnostic::Diagnostic;
use crate::warning::Warning;
use fnd_wire::ids::FunctionName;

/// Returns the warnings about the functions that a function calls: the function itself, and those that do not exist.
#[must_use]
pub fn to_nobody(
    function: &FunctionName,
    manifest: &Manifest,
    exists: impl Fn(&FunctionName) -> bool,
) -> Vec<Diagnostic> {
    let mut warnings = Vec::new();
    let alert = manifest.alert.as_ref().and_then(|alert| alert.call.as_ref());
    if alert == Some(function) {
        let message = format!("`alert.call` of `{function}` names the function itself, so nobody is told");
        warnings.push(Diagnostic::warning(Warning::AlertItself, message).with_help("name another function"));
    }
    let hooks = manifest.hooks.all().map(|item| &item.call);
    let mut missing: Vec<_> = hooks.chain(alert).filter(|called| !exists(called)).collect();
    missing.sort_unstable();
    missing.dedup();
    warnings.extend(missing.into_iter().map(|called| {
        let message = format!("`{function}` calls `{called}`, and there is no such function");
        let help = "add the function, or correct `[hooks]` or `[alert]`; until then each call is recorded as `skipped-unknown`";
        Diagnostic::warning(Warning::NoSuchFunction, message).with_help(help)
    }));
    warnings
}

/// Returns the warning about `[alert] call` of the configuration, which names a function that does not exist.
#[must_use]
pub fn node_to_nobody(called: &FunctionName) -> Diagnostic {
    let message = format!("`[alert]` of fnd.toml calls `{called}`, and there is no such function: nobody is told");
    Diagnostic::warning(Warning::NoSuchFunction, message).with_help("add the function, or correct `[alert]`")
}
