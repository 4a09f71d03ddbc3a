//! Which keys of `[defaults]` a function gets whose files do not belong to root.
//!
//! `[defaults]` stands in a file of root, and some of its keys give a function what only files of root may ask for. They are
//! meant for the functions that may have them. The others do without these keys, as if `[defaults]` did not name them:
//! otherwise one such line would refuse every upload.

use crate::schema::tree::{TomlNode, TomlTable, TomlValue, find};
use crate::settings::resolve::Configuration;

use crate::function::sandbox::{Processes, Profile};

/// Keys that only functions of root may have, whatever their values are. An empty value gives nothing.
const FOR_ROOT: [&str; 10] = [
    "access",
    "bindings",
    "build.secrets",
    "sandbox.capabilities",
    "sandbox.devices",
    "sandbox.groups",
    "sandbox.read_only",
    "sandbox.read_write",
    "sandbox.user",
    "secrets",
];

/// Returns `[defaults]` without the keys that only functions of root may have, and the paths of these keys, sorted.
pub(super) fn for_others(configuration: &Configuration) -> (TomlTable, Vec<String>) {
    let mut defaults = configuration.defaults.clone();
    let mut left_out: Vec<String> = Vec::new();
    for path in FOR_ROOT.into_iter().chain(wider_words(configuration)) {
        if let Some(node) = remove(&mut defaults, path)
            && !is_empty(&node.value)
        {
            left_out.push(path.to_owned());
        }
    }
    left_out.sort_unstable();
    (defaults, left_out)
}

/// Returns the keys with a word that opens more than the configured profile does. The profile of `[defaults]` itself counts as
/// configured: it says how all functions are isolated.
fn wider_words(configuration: &Configuration) -> Vec<&'static str> {
    let profile = configuration.profile();
    let written = |path| find(&configuration.defaults, path).map(|node| node.value.text());
    let calls = written("sandbox.syscalls").and_then(|word| Profile::parse(&word));
    let processes = written("sandbox.proc").and_then(|word| Processes::parse(&word));
    [
        ("sandbox.syscalls", calls.is_some_and(|calls| calls > profile)),
        (
            "sandbox.proc",
            processes == Some(Processes::Full) && profile != Profile::Off,
        ),
    ]
    .into_iter()
    .filter_map(|(path, wider)| wider.then_some(path))
    .collect()
}

/// Takes the value at a path of tables out of a table.
fn remove(table: &mut TomlTable, path: &str) -> Option<TomlNode> {
    match path.split_once('.') {
        None => table.remove(path),
        Some((first, rest)) => match &mut table.get_mut(first)?.value {
            TomlValue::Table(inner) => remove(inner, rest),
            _ => None,
        },
    }
}

fn is_empty(value: &TomlValue) -> bool {
    match value {
        TomlValue::List(items) => items.is_empty(),
        TomlValue::Table(table) => table.values().all(|node| is_empty(&node.value)),
        _ => false,
    }
}
