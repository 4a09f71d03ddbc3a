//! Checks the environment of a function: variables that fnd sets itself.

use super::subject::{FunctionProblems, ResolvedSubject};
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

/// The variables that fnd sets itself in one function.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReservedVariables {
    mode: Mode,
    /// Whether fnd gives the function a port, in `$PORT`.
    port: bool,
}

impl ReservedVariables {
    /// Returns the variables that fnd sets in a function; `pick` has its manifest and the defaults.
    pub(super) fn of(pick: Pick<'_>, subject: &ResolvedSubject<'_>) -> Self {
        let written = |path: &str| pick.written(path).map(|node| node.value.text());
        let port = match subject.mode {
            Mode::Script | Mode::Handler => false,
            // Only a service with a readiness probe has to know where the probe connects.
            Mode::Service => written("service.ready").is_some_and(|ready| ready != "none"),
            // A program with a Unix socket, or for which fnd starts the server, gets no port.
            Mode::Http => !subject.serves && written("http_server.listen").is_none(),
        };
        Self {
            mode: subject.mode,
            port,
        }
    }

    /// Says whether fnd sets this variable.
    pub(super) fn has(self, name: &str) -> bool {
        let of_mode = self.mode == Mode::Handler && HANDLER_VARIABLES.contains(&name);
        name.starts_with("FND_") || RESERVED.contains(&name) || of_mode || self.port && name == "PORT"
    }
}

/// Reports variables that fnd sets itself.
pub(super) fn check(
    pick: Pick<'_>,
    reserved: ReservedVariables,
    env: &BTreeMap<String, String>,
    report: &mut FunctionProblems<'_>,
) {
    for name in env.keys().filter(|name| reserved.has(name)) {
        // A variable of `env_file` has no place in the manifest, so the key that names the file is shown.
        let node = pick
            .written(&format!("env.{name}"))
            .or_else(|| pick.written("env_file"));
        let problem = Diagnostic::error("reserved", format!("the variable `{name}` is set by fnd itself"));
        report.add(node.map(|node| &node.at), problem.with_help("use another name"));
    }
}
