//! Checks `[release]`: where calls cannot be shared, `canary` is refused.

use super::subject::{FunctionProblems, ResolvedSubject};
use crate::function::Mode;
use crate::function::keys::ReleaseRules;
use crate::schema::tree::{TomlTable, find};

/// Refuses a canary of a service, which has no calls, and of programs that need one port, of which only one can run.
pub(super) fn check(
    release: &ReleaseRules,
    own: &TomlTable,
    subject: &ResolvedSubject<'_>,
    report: &mut FunctionProblems<'_>,
) {
    let has_port = subject.mode == Mode::Http && find(own, "http_server.port").is_some();
    let why = match subject.mode {
        Mode::Service => "a service has no calls that could be shared",
        _ if has_port => "only one program can have the port of `http_server.port`, so two releases cannot run at once",
        // All other functions can share their calls between two releases.
        _ => return,
    };
    let Some(node) = find(own, "release.canary").filter(|_| release.canary.is_some()) else {
        return;
    };
    let help = if has_port {
        "remove one of the two; without the port, fnd chooses one"
    } else {
        "remove it"
    };
    report.impossible(Some(&node.at), format!("`canary` is impossible here: {why}"), help);
}
