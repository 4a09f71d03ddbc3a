//! Builds the command line and the environment of a function's process from its plan, and fills in the values that
//! the judge can't know.

use fnd_wire::form::Bytes;
use fnd_wire::plan::{INSTEAD, Plan, PlanText, WATCHED};
use std::path::Path;

/// The placeholders of a plan's templates (`{code}` and the like), each with its value.
pub type Values = [(&'static str, String)];

/// Command line and environment.
type EnvironmentLines = (Vec<Bytes>, Vec<Bytes>);

/// Returns command line and environment of a version's watcher; nothing if the version watches no files.
pub fn of_watcher(plan: &Plan, helper: &Path) -> Option<EnvironmentLines> {
    let (name, rules) = plan.environment.iter().find(|(name, _)| name == WATCHED)?;
    let argv = [helper.as_os_str().as_encoded_bytes(), b"--watch"].map(|argument| Bytes(argument.to_vec()));
    Some((argv.into(), vec![Bytes(format!("{name}={}", rules.text).into_bytes())]))
}

/// Returns command line and environment of the program that measures a function's home and cache.
pub fn of_measurement([helper, home, cache]: [&Path; 3]) -> EnvironmentLines {
    let argv = [helper, Path::new("--measure"), home, cache];
    (argv.map(|argument| Bytes(argument.as_os_str().as_encoded_bytes().to_vec())).into(), Vec::new())
}

/// Returns command line and environment of an attempt. A variable in `given` replaces the plan's variable of the same name, except for
/// `HTTP_*`: callers choose those, and a caller must not replace what the author has set.
pub fn lines(plan: &Plan, values: &Values, mut given: Vec<(String, Bytes)>) -> EnvironmentLines {
    given.retain(|(name, _)| !name.starts_with("HTTP_") || plan.environment.iter().all(|(own, _)| own != name));
    let filled = |text: &PlanText| Bytes(fill(text, values).into_bytes());
    let entry = PlanText { text: "{entry}".to_owned(), template: true };
    let program = plan.interpreters.first().map_or_else(|| filled(&entry), |path| Bytes(path.clone().into_bytes()));
    let instead = plan.argv.first().is_some_and(|first| first.template && first.text == INSTEAD);
    let all = [program].into_iter().chain(plan.argv.iter().map(filled));
    // The first two are the interpreter and the placeholder itself: the program takes the place of both.
    let argv = all.skip(if instead { 2 } else { 0 }).collect();
    let is_own = |name: &str| name != WATCHED && given.iter().all(|(found, _)| found != name);
    let own = plan.environment.iter().filter(|(name, _)| is_own(name));
    let all: Vec<_> = own.map(|(name, text)| (name.clone(), filled(text))).collect();
    let line = |(name, value): (String, Bytes)| Bytes([name.as_bytes(), b"=", &value.0].concat());
    (argv, all.into_iter().chain(given).map(line).collect())
}

/// Replaces the placeholders one after the other. No value can hold a placeholder, since names are checked.
fn fill(text: &PlanText, values: &Values) -> String {
    let values = if text.template && text.text.contains('{') { values } else { &[] };
    values.iter().fold(text.text.clone(), |filled, (name, value)| filled.replace(name, value))
}

/// Returns the name of the machine's time zone, as `TZ` takes it: from `/etc/localtime`, else `UTC`.
pub fn machine_zone() -> String {
    let target = std::fs::canonicalize("/etc/localtime").unwrap_or_default();
    // On some machines the file is a copy and no link, and then the name of its zone is not known.
    let name = target.to_str().and_then(|path| path.split_once("zoneinfo/")).map(|(_, name)| name);
    name.unwrap_or("UTC").to_owned()
}
