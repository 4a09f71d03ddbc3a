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
        let fix = match in_group(function, called).filter(&exists) {
            Some(meant) => format!("name it with its group: `{meant}`"),
            None => "add the function, or correct `[hooks]` or `[alert]`".to_owned(),
        };
        let help = format!("{fix}; until then each call is recorded as `skipped-unknown`");
        Diagnostic::warning(Warning::NoSuchFunction, message).with_help(help)
    }));
    warnings
}

/// Returns a name in the group of a function; nothing if the function is in none.
fn in_group(function: &FunctionName, called: &FunctionName) -> Option<FunctionName> {
    let (group, _) = function.as_str().rsplit_once('/')?;
    FunctionName::new(&format!("{group}/{called}")).ok()
}

/// Returns the warning about `[alert] call` of the configuration, which names a function that does not exist.
#[must_use]
pub fn node_to_nobody(called: &FunctionName) -> Diagnostic {
    let message = format!("`[alert]` of fnd.toml calls `{called}`, and there is no such function: nobody is told");
    Diagnostic::warning(Warning::NoSuchFunction, message).with_help("add the function, or correct `[alert]`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_its_group_is_looked_for_in_the_group_of_the_caller() {
        let name = |text: &str| FunctionName::new(text).unwrap();
        for (function, called, expected) in [("shop/dump", "send", Some("shop/send")), ("dump", "send", None)] {
            let found = in_group(&name(function), &name(called));
            assert_eq!(found, expected.map(name), "{function} {called}");
        }
    }
}
