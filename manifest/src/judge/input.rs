//! Reads the schema of a function's input, and checks the payloads in its manifest against it: a run with another payload would
//! never be accepted.

use super::sibling_files::input_schema;
use crate::diagnostic::Diagnostic;
use crate::function::payload_schema::{PayloadSchema, words};
use crate::function::{Manifest, Mode};
use crate::resolve::FunctionProblems;
use crate::schema::tree::{TomlPosition, TomlTable, entries, find, place};
use fnd_wire::plan::JudgeFunction;
use serde_json::Value;

/// Gives a manifest the schema of its payloads, and checks those that it has itself. A key that `own` does not have comes from
/// `defaults`.
pub(super) fn read_input(
    manifest: &mut Manifest,
    function: &JudgeFunction,
    (own, defaults): (&TomlTable, &TomlTable),
    report: &mut FunctionProblems<'_>,
) {
    let find = |path: &str| find(own, path).or_else(|| find(defaults, path));
    // Other modes have no payloads, so that the key is refused or meant for other functions.
    let has_payloads = matches!(manifest.mode, Mode::Script | Mode::Handler);
    let Some(node) = find("input.schema").filter(|_| has_payloads) else {
        return;
    };
    let Some(schema) = input_schema(function, node, report) else {
        return;
    };
    if let Ok(compiled) = PayloadSchema::new(&schema) {
        let at = |path: &str| find(path).map(|node| &node.at);
        let places = (at("data"), at("on_load").unwrap_or(&node.at));
        check_payloads(manifest, &compiled, (places, own), report);
    }
    manifest.input_schema = Some(schema);
}

/// Where `data` of the function is, and where it is said that it runs by itself.
type Places<'a> = (Option<&'a TomlPosition>, &'a TomlPosition);

fn check_payloads(
    manifest: &Manifest,
    schema: &PayloadSchema,
    ((data_at, load_at), own): (Places<'_>, &TomlTable),
    report: &mut FunctionProblems<'_>,
) {
    let data = manifest.data.as_ref();
    let wrong = |payload: Option<&Value>| {
        let payload = payload.unwrap_or(&Value::Null);
        let size = payload.to_string().len() as u64;
        Some(words(&schema.mistakes(payload, size))).filter(|mistakes| !mistakes.is_empty())
    };
    if let (Some(_), Some(mistakes)) = (data, wrong(data)) {
        let message = format!("`data` does not match the `[input]` schema: {mistakes}");
        // The runs that have it have no mistake of their own.
        return report.add(data_at, Diagnostic::error("bad-data", message));
    }
    let missing = wrong(data).map(|_| "it has no `data`, and the `[input]` schema asks for a payload");
    if let (true, Some(missing)) = (manifest.on_load, missing) {
        let message = format!("`on_load` runs the function, but {missing}");
        report.error(Some(load_at), "bad-data", message, HELP);
    }
    for (number, schedule) in manifest.schedule.iter().enumerate() {
        let entry = entries(own, "schedule").get(number);
        if let Some(mistakes) = schedule.data.as_ref().and_then(|data| wrong(Some(data))) {
            let message = format!("`data` of the schedule does not match the `[input]` schema: {mistakes}");
            report.add(place(entry, "data"), Diagnostic::error("bad-data", message));
        } else if let (None, Some(missing)) = (&schedule.data, missing) {
            let message = format!("the schedule runs the function, but {missing}");
            report.error(entry.map(|node| &node.at), "bad-data", message, HELP);
        }
    }
}

const HELP: &str = "write `data = { ... }`: at the top for each run without a payload, or in `[[schedule]]`";
