//! Checks the environment of a function: variables that fnd sets itself.

use super::subject::{FunctionProblems, ResolvedSubject};
use crate::function::Mode;
use crate::schema::pick::Pick;
use crate::settings::resolve::{OWN_PREFIX, reserved_variable};
use fnd_wire::plan::HANDLER_VARIABLES;
use std::collections::BTreeMap;

/// Names of the variables that functions get (docs/writing-functions.md). deno reads variables only by permission,
/// and reading one of these must not fail.
pub(crate) const GIVEN: [&str; 36] = [
    "FND_FILE",
    "FND_FUNCTION",
    "FND_INVOCATION",
    "FND_ATTEMPT",
    "FND_POLL",
    "FND_RUNTIME",
    "FND_TRIGGER",
    "FND_DEADLINE",
    "FND_RESULT",
    "FND_PREVIOUS",
    "RUNTIME",
    "TRACEPARENT",
    "TRACESTATE",
    "B3",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "LANG",
    "TZ",
    "PATH",
    "STATE_DIRECTORY",
    "CACHE_DIRECTORY",
    "CREDENTIALS_DIRECTORY",
    "SERVICE_BINDING_ROOT",
    "DATA",
    "SECURE_DATA",
    "KEPTN_CONTEXT",
    "CONTEXT",
    "SCRIPT",
    "CMD_ARGS",
    "PORT",
    "FND_SOCKET",
    "FND_SOCKET_PATH",
    "FND_WORKER_KEY",
];

/// Variables among [`GIVEN`] that a manifest may set to another value.
const REPLACEABLE: [&str; 8] = ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "PATH", "PORT"];

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
        let is_given = GIVEN.contains(&name) && !REPLACEABLE.contains(&name);
        name.starts_with(OWN_PREFIX) || is_given || of_mode || self.port && name == "PORT"
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
        let at = pick.at(&format!("env.{name}")).or_else(|| pick.at("env_file"));
        report.add(at, reserved_variable(name));
    }
}

/// Reports variables of the installation that fnd sets itself.
pub(super) fn check_build(pick: Pick<'_>, env: &BTreeMap<String, String>, report: &mut FunctionProblems<'_>) {
    for name in env.keys().filter(|name| name.starts_with(OWN_PREFIX)) {
        report.add(pick.at(&format!("build.env.{name}")), reserved_variable(name));
    }
}
