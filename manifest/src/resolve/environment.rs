//! Checks the environment of a function: variables that fnd sets itself.

use super::subject::FunctionProblems;
use crate::diagnostic::Diagnostic;
use crate::function::Mode;
use crate::schema::pick::Pick;
use fnd_wire::plan::HANDLER_VARIABLES;
use std::collections::BTreeMap;

/// Variables that fnd sets itself; a manifest's value would have no effect.
const RESERVED: [&str; 15] = [
    "DATA",
    "SECURE_DATA",
    "KEPTN_CONTEXT",
    "CONTEXT",
    "SCRIPT",
    "CMD_ARGS",
    "RUNTIME",
    "TRACEPARENT",
    "TRACESTATE",
    "B3",
    "TMPDIR",
    "STATE_DIRECTORY",
    "CACHE_DIRECTORY",
    "CREDENTIALS_DIRECTORY",
    "SERVICE_BINDING_ROOT",
];

/// Reports variables that fnd sets itself.
pub(super) fn check(pick: Pick<'_>, mode: Mode, env: &BTreeMap<String, String>, report: &mut FunctionProblems<'_>) {
    let reserved = |name: &&String| is_reserved(name, mode);
    for name in env.keys().filter(reserved) {
        // A variable of `env_file` has no place in the manifest, so the key that names the file is shown.
        let node = pick
            .written(&format!("env.{name}"))
            .or_else(|| pick.written("env_file"));
        let problem = Diagnostic::error("reserved", format!("the variable `{name}` is set by fnd itself"));
        report.add(node.map(|node| &node.at), problem.with_help("use another name"));
    }
}

/// Says whether fnd sets this variable itself in functions of this mode.
pub(super) fn is_reserved(name: &str, mode: Mode) -> bool {
    let of_mode = match mode {
        Mode::Script => false,
        Mode::Handler => HANDLER_VARIABLES.contains(&name),
        Mode::Http | Mode::Service => name == "PORT",
    };
    name.starts_with("FND_") || RESERVED.contains(&name) || of_mode
}
