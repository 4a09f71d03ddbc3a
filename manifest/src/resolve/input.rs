//! Checks `[input]` and `mcp`: they are for functions that are called with a payload.

use super::subject::FunctionProblems;
use crate::function::{Manifest, Mode};
use crate::schema::tree::TomlTable;

/// Reports keys that have no effect in the mode of the function. Keys of `[defaults]` are meant for other functions.
pub(super) fn check(manifest: &mut Manifest, own: &TomlTable, mode: Mode, report: &mut FunctionProblems<'_>) {
    let never = "a service, which is kept running and never invoked";
    let (input, mcp) = match mode {
        Mode::Script | Mode::Handler => (None, None),
        Mode::Http => (Some("an HTTP program, which reads its requests itself"), None),
        Mode::Service => (Some(never), Some(never)),
    };
    for (key, wrong) in [("input", input), ("mcp", mcp)] {
        if let (Some(wrong), Some(node)) = (wrong, own.get(key)) {
            report.impossible(Some(&node.at), format!("`{key}` has no effect on {wrong}"), "remove it");
        }
    }
    manifest.mcp &= mcp.is_none();
}
