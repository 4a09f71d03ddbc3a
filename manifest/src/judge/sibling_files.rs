//! Reads the files of a directory that a manifest names: variables, and schemas of events and inputs.

use super::Judge;
use super::entry::{find, shown};
use crate::diagnostic::Diagnostic;
use crate::function::payload_schema::{EVENT_MAX, INPUT_MAX, read};
use crate::function::{Manifest, env_file};
use crate::resolve::FunctionProblems;
use crate::schema::tree::{TomlNode, TomlPosition, TomlTable, TomlValue, entries, place};
use fnd_wire::plan::JudgeFunction;
use std::collections::BTreeMap;

impl Judge {
    /// Returns the variables of the `env_file`. Only the directory form has one: a file beside a single-file function
    /// is neither watched nor part of its version.
    pub(super) fn env_file(
        &self,
        function: &JudgeFunction,
        own: &TomlTable,
        report: &mut FunctionProblems<'_>,
    ) -> BTreeMap<String, String> {
        let defaults = &self.configuration.defaults;
        let Some(node) = own.get("env_file").or_else(|| defaults.get("env_file")) else {
            return BTreeMap::new();
        };
        let name = node.value.text();
        if !function.form.is_tree() {
            let message = "`env_file` is only for the directory form (`NAME/function.toml`)";
            let help = "move the variables to `[env]`, or make the function a directory";
            report.impossible(Some(&node.at), message, help);
            return BTreeMap::new();
        }
        let Some(file) = find(function, &name) else {
            let message = format!("`env_file`: there is no file `{name}` in the {}", function.form.word());
            report.add(Some(&node.at), Diagnostic::error("no-env-file", message));
            return BTreeMap::new();
        };
        env_file::read(&shown(function, file), &file.bytes.0).unwrap_or_else(|problems| {
            report.problems.extend(problems);
            BTreeMap::new()
        })
    }
}

/// Reads the JSON Schemas of events. Only the directory form has them, as with `env_file`.
pub(super) fn read_schemas(
    manifest: &mut Manifest,
    function: &JudgeFunction,
    own: &TomlTable,
    report: &mut FunctionProblems<'_>,
) {
    for (number, subscription) in manifest.event.iter_mut().enumerate() {
        let Some(name) = &subscription.schema else { continue };
        let at = place(entries(own, "event").get(number), "schema");
        // fnd checks the data and opens no file of a function, so the manifest carries the schema.
        subscription.json_schema = schema_file(function, (name.as_str(), EVENT_MAX), at, report);
    }
}

/// Returns the schema of the function's input: that of its file, or the one that the manifest contains.
pub(super) fn input_schema(
    function: &JudgeFunction,
    node: &TomlNode,
    report: &mut FunctionProblems<'_>,
) -> Option<serde_json::Value> {
    match &node.value {
        TomlValue::JsonTable(schema) => match read(schema.get().as_bytes(), INPUT_MAX) {
            Ok(schema) => Some(schema),
            Err(why) => {
                let message = format!("`[input.schema]` is no JSON Schema that fnd can use: {why}");
                report.add(Some(&node.at), Diagnostic::error("bad-schema", message));
                None
            }
        },
        file => schema_file(function, (file.text().as_str(), INPUT_MAX), Some(&node.at), report),
    }
}

/// Reads the file of a schema, which has at most `max` bytes; `at` is where the manifest names it.
fn schema_file(
    function: &JudgeFunction,
    (name, max): (&str, usize),
    at: Option<&TomlPosition>,
    report: &mut FunctionProblems<'_>,
) -> Option<serde_json::Value> {
    if !function.form.is_tree() {
        let message = "`schema` is only for the directory form (`NAME/function.toml`)";
        let help = "make the function a directory, with the schema beside its code";
        report.impossible(at, message, help);
        return None;
    }
    let Some(file) = find(function, name) else {
        let message = format!("`schema`: there is no file `{name}` in the {}", function.form.word());
        report.add(at, Diagnostic::error("no-schema", message));
        return None;
    };
    let read = read(&file.bytes.0, max);
    read.map_err(|why| {
        let message = format!("`{name}` is no JSON Schema that fnd can use: {why}");
        report.add(at, Diagnostic::error("bad-schema", message));
    })
    .ok()
}
