//! Finds the dependencies that JavaScript and TypeScript name in their imports, and those in `deno.json`.
//!
//! It reads the text of the files and follows no import: which versions there are, and what they import in turn, is found
//! when they are installed. An edit that imports the same as before leaves the dependencies as they are.

use super::dependencies::{Dependencies, add_beside};
use super::entry::find;
use crate::diagnostic::Diagnostic;
use crate::function::detect;
use crate::resolve::FunctionProblems;
use crate::runtime::Runtime;
use fnd_wire::plan::{JudgeFunction, JudgedFile};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Most imports of a function that are installed.
const IMPORTS_MAX: usize = 1000;

/// Files with code; `.d.ts` has types alone.
const SUFFIXES: [&str; 8] = ["ts", "mts", "cts", "js", "mjs", "cjs", "tsx", "jsx"];

/// Returns the dependencies of a function: those that its manifest names, those of its `deno.json`, and those of its code.
/// Nothing if there are none.
pub(super) fn of(
    function: &JudgeFunction,
    runtime: &Runtime,
    named: Dependencies,
    report: &mut FunctionProblems<'_>,
) -> Option<Dependencies> {
    let own = &runtime.dependencies;
    let is_remote = |text: &str| own.imports.iter().any(|beginning| text.starts_with(beginning.as_str()));
    let there = |name: &String| function.form.is_tree() && find(function, name).is_some();
    let file = named
        .file
        .or_else(|| own.files.iter().find(|name| there(name)).cloned());
    let listed = file.as_ref().and_then(|name| find(function, name));
    let listed = listed.map(mapping).unwrap_or_default();
    // Sorted and without doubles: the list is part of the tree's name, so another order of imports makes no other tree.
    let mut list: BTreeSet<String> = named.list.into_iter().collect();
    // A name that ends in `/` stands for many files: only those that the code imports can be installed.
    let whole = listed
        .iter()
        .filter(|(name, target)| !name.ends_with('/') && is_remote(target));
    list.extend(whole.map(|(name, _)| name.clone()));
    let code = function.files.iter().filter(|file| is_code(file));
    for import in code.flat_map(|file| detect::script_imports(&file.bytes.0)) {
        let target = target(&listed, &import).unwrap_or(&import);
        if is_remote(target) && !import.contains(['\n', '\r', '\0']) {
            list.insert(import);
        }
    }
    if list.len() > IMPORTS_MAX {
        let count = list.len();
        let message = format!("it has {count} remote imports, and at most {IMPORTS_MAX} are installed");
        report.add(None, Diagnostic::error("too-many-files", message));
    }
    let mut inputs: Vec<String> = file.iter().cloned().collect();
    if file.is_some() {
        add_beside(&mut inputs, function, runtime);
    }
    (!list.is_empty()).then(|| Dependencies {
        list: list.into_iter().collect(),
        file,
        inputs,
        ..Dependencies::default()
    })
}

fn is_code(file: &JudgedFile) -> bool {
    let suffix = file.path.rsplit_once('.').map(|(_, suffix)| suffix);
    let has_suffix = suffix.is_some_and(|suffix| SUFFIXES.contains(&suffix)) && !file.path.ends_with(".d.ts");
    // A file that names its interpreter needs no suffix.
    has_suffix || file.bytes.0.starts_with(b"#!")
}

/// Returns the names in `imports` of `deno.json`, and what each stands for. A file that cannot be read has none: its
/// function is refused when the code is loaded.
fn mapping(file: &JudgedFile) -> BTreeMap<String, String> {
    let text = detect::plain_json(&String::from_utf8_lossy(&file.bytes.0));
    let Ok(Value::Object(mut whole)) = serde_json::from_str(&text) else {
        return BTreeMap::new();
    };
    let Some(Value::Object(imports)) = whole.remove("imports") else {
        return BTreeMap::new();
    };
    let text = |(name, target): (String, Value)| Some((name, target.as_str()?.to_owned()));
    imports.into_iter().filter_map(text).collect()
}

/// Returns what stands for an import: the longest name that is the import or begins it.
fn target<'m>(mapping: &'m BTreeMap<String, String>, import: &str) -> Option<&'m String> {
    let begins = |name: &str| {
        let rest = import.strip_prefix(name);
        // deno lets a name of a package stand for its paths, too: `lib` for `lib/part`.
        rest.is_some_and(|rest| rest.is_empty() || name.ends_with('/') || rest.starts_with('/'))
    };
    let fitting = mapping.iter().filter(|(name, _)| begins(name));
    fitting.max_by_key(|(name, _)| name.len()).map(|(_, target)| target)
}
