//! Checks `[hooks]` and `[alert]`: keys that cannot take effect. Whether the called functions exist is not known here.

use super::subject::FunctionProblems;
use crate::function::{AlertOn, Manifest, Mode};
use crate::schema::pick::Pick;
use crate::schema::tree;
use crate::settings::resolve::Configuration;

/// Reports what cannot take effect. A table without keys is none.
pub(super) fn check(
    manifest: &mut Manifest,
    pick: Pick<'_>,
    configuration: &Configuration,
    mode: Mode,
    report: &mut FunctionProblems<'_>,
) {
    if tree::table(pick.table, "alert").is_some_and(|written| written.is_empty()) {
        manifest.alert = None;
    }
    let Some(alert) = &manifest.alert else { return };
    let mut wrong = |path: &str, message: &str, help: &str| {
        let at = pick.at(path).or_else(|| pick.at("alert"));
        report.impossible(at, message, help);
    };
    if alert.call.is_none() && configuration.settings.alert.call.is_none() {
        wrong(
            "alert",
            "`[alert]` names no function to call, and `[alert]` of `fnd.toml` names none either",
            "add `call = \"NAME\"`",
        );
    }
    let on = |word| alert.on.contains(&word);
    if !alert.on.iter().any(|word| *word != AlertOn::Recovered) {
        wrong(
            "alert.on",
            "`alert.on` has no change that makes the function bad, so nothing is ever called",
            "add `failed`, `crash-looping`, `invalid` or `missed`",
        );
    }
    if pick.written("alert.after").is_some() && !on(AlertOn::Failed) {
        wrong(
            "alert.after",
            "`alert.after` counts failures, and `alert.on` does not have `failed`",
            "add `failed` to `on`, or remove `after`",
        );
    }
    if alert.expect_success_every.is_some() {
        if !on(AlertOn::Missed) {
            wrong(
                "alert.expect_success_every",
                "`alert.expect_success_every` has no effect, because `alert.on` does not have `missed`",
                "add `missed` to `on`, or remove `expect_success_every`",
            );
        }
        if mode == Mode::Service {
            wrong(
                "alert.expect_success_every",
                "`alert.expect_success_every` has no effect on a service, which never ends with success",
                "remove it; `crash-looping` and `failed` report a service that dies",
            );
        }
    } else if pick.written("alert.on").is_some() && alert.on == [AlertOn::Missed] {
        wrong(
            "alert.on",
            "`alert.on` has only `missed`, which needs `expect_success_every`",
            "add `expect_success_every = \"26h\"`, the longest time without success",
        );
    }
}
