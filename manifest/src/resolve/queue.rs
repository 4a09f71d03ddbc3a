//! Checks `[queue]`: the group must be one of `fnd.toml`, and `per_key` needs `key`.

use super::subject::FunctionProblems;
use crate::function::QueueKeys;
use crate::schema::pick::Pick;
use crate::schema::tree::{TomlTable, find};
use crate::settings::resolve::{Configuration, unknown_group};

/// Reports what cannot take effect.
pub(super) fn check(
    queue: &QueueKeys,
    (pick, own): (Pick<'_>, &TomlTable),
    configuration: &Configuration,
    report: &mut FunctionProblems<'_>,
) {
    let groups: Vec<&str> = configuration.settings.groups.keys().map(String::as_str).collect();
    // A stored version may have served until this start of fnd, and goes on as it does after a reload: with one attempt of the
    // unknown group at once. Its status says so.
    if !report.is_stored
        && let Some(group) = &queue.group
        && let Some(problem) = unknown_group(group, &groups)
    {
        let goes_on = "a release that serves goes on, with one attempt of the group at once";
        report.add(pick.at("queue.group"), problem.with_note(goes_on));
    }
    // In `[defaults]` it is for the functions that have a key.
    if let (None, Some(node)) = (&queue.key, find(own, "queue.per_key")) {
        let message = "`queue.per_key` counts the runs with the same value of `queue.key`, and there is no `key`";
        let help = "add `key = \"body.NAME\"`, or remove `per_key`; `[pool] max` bounds all runs of the function";
        report.impossible(Some(&node.at), message, help);
    }
}
