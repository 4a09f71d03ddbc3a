//! The parts of a function's page: its releases, schedules, routes and limits.

use super::node::plain;
use super::{function_page, schedules};
use crate::parts::actions::{Action, action, command, same, small};
use crate::parts::frame::Visit;
use crate::parts::tables::{empty, table, word};
use crate::parts::text::{amount, dash, duration, number, or_dash, time, time_or_dash, version};
use fnd_core::api::{CanaryView, HoldKind, HoldView, ReleaseList, ReleaseState, ReleaseView, RouteView, ScheduleView};
use fnd_wire::ids::FunctionName;
use maud::{Markup, html};
use serde_json::Value;

/// Returns the table "Releases", with what holds one of them.
pub(super) fn releases(visit: &Visit, name: &FunctionName, list: &ReleaseList) -> Markup {
    let offered = visit.operates(name);
    let serving = list.versions.iter().find(|one| one.state == ReleaseState::Serving);
    let rows: Vec<_> = list
        .versions
        .iter()
        .map(|one| release(visit, name, one, serving))
        .collect();
    let head = ["Release", "State", "Since", "File", "Why", "Difference", "", ""];
    html! {
        @if let Some(hold) = &list.hold { (held(visit, name, hold, offered)) }
        @if let Some(canary) = &list.canary { (canary_of(visit, name, canary, offered)) }
        @if rows.is_empty() { (empty("No release is stored yet.")) } @else { (table("Releases", &head, &rows)) }
        @if list.versions.iter().any(|one| can_serve(visit, name, one)) { p.same { (command(&format!("fndctl rollback {name} RELEASE"))) " and " (command(&format!("fndctl pin {name} RELEASE"))) " do the same as the buttons." } }
        (same(&format!("fndctl releases {name}")))
    }
}

/// Returns whether the page offers to let a release serve again.
fn can_serve(visit: &Visit, name: &FunctionName, one: &ReleaseView) -> bool {
    visit.operates(name) && one.state == ReleaseState::Retired
}

fn release(visit: &Visit, name: &FunctionName, one: &ReleaseView, serving: Option<&ReleaseView>) -> Markup {
    let class = match one.state {
        ReleaseState::Serving => "good",
        ReleaseState::Trying | ReleaseState::Canary | ReleaseState::Waiting => "wait",
        ReleaseState::Retired => "dim",
        ReleaseState::Failed => "bad",
    };
    let why = one.error.as_deref().or(one.why.as_deref()).unwrap_or_default();
    let other = serving.filter(|serving| serving.version != one.version && visit.reads_files(name));
    let can_serve = can_serve(visit, name, one);
    html! {
        tr {
            th scope="row" { code { (version(one.version)) } }
            td { (word(one.state.as_str(), class)) }
            td { (time(&one.since, visit.now)) }
            td { (one.source) }
            td.text { (or_dash(why)) }
            td { @match other {
                Some(serving) => (difference(name, one, serving)),
                None => (dash()),
            } }
            td { @if can_serve { (small(&hold(name, one, "rollback", "Roll back"))) } }
            td { @if can_serve { (small(&hold(name, one, "pin", "Pin"))) } }
        }
    }
}

/// Returns the link to what a release would change, or what has changed since an earlier one.
fn difference(name: &FunctionName, one: &ReleaseView, serving: &ReleaseView) -> Markup {
    let (from, to, label) = if one.state == ReleaseState::Retired {
        (one, serving, "to the one that serves")
    } else {
        (serving, one, "from the one that serves")
    };
    html! {
        a href={ (function_page(name)) "/diff?from=" (from.version.hex()) "&to=" (to.version.hex()) } { (label) }
    }
}

fn hold(name: &FunctionName, one: &ReleaseView, verb: &str, label: &'static str) -> Action<'static> {
    Action {
        to: format!("{}/{verb}?version={}", function_page(name), one.version.hex()),
        label,
        command: format!("fndctl {verb} {name} {}", version(one.version)),
    }
}

fn change(name: &FunctionName, verb: &str, label: &'static str, command: String) -> Action<'static> {
    Action {
        to: format!("{}/{verb}", function_page(name)),
        label,
        command,
    }
}

fn held(visit: &Visit, name: &FunctionName, hold: &HoldView, offered: bool) -> Markup {
    let until = match hold.kind {
        HoldKind::Rollback => "until the file changes",
        HoldKind::Pin => "until somebody says “Unpin”",
    };
    html! {
        p { "Release " code { (version(hold.version)) } " is held " (until) ", since " (time(&hold.since, visit.now)) "." }
        @if offered { (action(&change(name, "unpin", "Unpin", format!("fndctl unpin {name}")))) }
    }
}

fn canary_of(visit: &Visit, name: &FunctionName, canary: &CanaryView, offered: bool) -> Markup {
    html! {
        p {
            "Release " code { (version(canary.version)) } " gets " (canary.percent) " % of the calls: "
            (amount(canary.attempts, "attempt", "attempts")) ", " (number(canary.failures)) " failed, at most " (number(canary.max_failures)) " may fail. "
            @match &canary.promote_at {
                Some(at) => { "It serves from " (time(at, visit.now)) " on." },
                None => "It waits for approval.",
            }
        }
        @if offered {
            div.actions {
                (action(&change(name, "promote", "Promote", format!("fndctl canary {name} --promote"))))
                (action(&change(name, "stop-canary", "Stop the canary", format!("fndctl canary {name} --stop"))))
            }
        }
    }
}

/// Returns the table "Schedules".
pub(super) fn scheduled(visit: &Visit, all: &[ScheduleView]) -> Markup {
    let rows: Vec<_> = all.iter().map(|one| schedules::row(visit, one, "/functions")).collect();
    html! {
        @if rows.is_empty() { (empty("It has none. A table [[schedule]] in its manifest makes one.")) }
        @else { (table("Schedules", &["Function", "Schedule", "State", "Next", "Last run", ""], &rows)) }
        (schedules::commands(visit, all.iter()))
    }
}

/// Returns the table "Routes".
pub(super) fn routes<'a>(all: impl Iterator<Item = &'a RouteView>) -> Markup {
    let row = |route: &RouteView| {
        html! {
            tr {
                th scope="row" { code { (route.methods.join(", ")) " " (route.host.as_deref().unwrap_or_default()) (route.path) } }
                td { (route.auth.join(", ")) }
                td { @if route.r#async { "queued, 202" } @else { "with the result" } }
                td.number { (number(route.calls)) }
                td.number { (or_dash(&duration(route.p50_ms))) }
                td.number { (or_dash(&duration(route.p99_ms))) }
                td.number { @match route.last_status { Some(status) => (status), None => (dash()), } }
            }
        }
    };
    let rows: Vec<_> = all.map(row).collect();
    html! {
        @if rows.is_empty() { (empty("It has none. A table [[http]] in its manifest makes one.")) }
        @else { (table("Routes", &["Route", "Credential", "Answer", "#Calls", "#p50", "#p99", "#Last status"], &rows)) }
    }
}

/// Returns the limits as in force, and which of them the function's own manifest sets.
pub(super) fn limits(manifest: &Value) -> Markup {
    let limits = &manifest["limits"];
    let own: Vec<_> = limits["asked"].as_array().into_iter().flatten().map(plain).collect();
    let keys = limits
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| *key != "asked");
    let rows: Vec<_> = keys
        .map(|(key, value)| html! { tr { th scope="row" { code { (key) } } td { (or_dash(&plain(value))) } } })
        .collect();
    html! {
        @if rows.is_empty() { (empty("They are known once a version is installed.")) } @else { (table("Limits", &["Key of [limits]", "In force"], &rows)) }
        @if !own.is_empty() { p.hint { "The manifest of the function sets " (own.join(", ")) "." } }
    }
}

/// Returns when a newer version is tried again, and why it does not serve.
pub(super) fn newer(visit: &Visit, newer: &fnd_core::api::NewerVersion) -> Markup {
    html! {
        @match &newer.error {
            None => "A newer version is being tried.",
            Some(error) => { "A newer version does not serve: " span.said { (error) } },
        }
        @if newer.next_trial_at.is_some() { " Next trial: " (time_or_dash(newer.next_trial_at.as_deref(), visit.now)) "." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::frame::tests::visit;
    use fnd_manifest::settings::Role;
    use fnd_wire::ids::Version;
    use serde_json::json;

    fn list() -> ReleaseList {
        let one = |byte: u8, state| ReleaseView {
            version: Version([byte; 32]),
            state,
            since: "2026-11-21T07:00:00.000Z".to_owned(),
            source: "mail.py".to_owned(),
            why: None,
            error: None,
            build: None,
        };
        ReleaseList {
            versions: vec![
                one(3, ReleaseState::Canary),
                one(2, ReleaseState::Serving),
                one(1, ReleaseState::Retired),
            ],
            hold: None,
            canary: Some(CanaryView {
                version: Version([3; 32]),
                percent: 10,
                since: None,
                attempts: 5,
                failures: 1,
                max_failures: 2,
                promote_at: None,
            }),
        }
    }

    #[test]
    fn an_earlier_release_can_serve_again() {
        let operated = FunctionName::new("web/a").unwrap();
        let html = releases(&visit(Some(Role::Viewer)), &operated, &list()).into_string();
        for expected in [
            "action=\"/functions/web%2Fa/rollback?version=0101",
            "title=\"fndctl pin web/a 010101010101\"",
            "<code class=\"command\">fndctl rollback web/a RELEASE</code> and ",
            "href=\"/functions/web%2Fa/diff?from=0101",
            // A canary is approved for what it adds.
            "href=\"/functions/web%2Fa/diff?from=0202",
            "It waits for approval.",
            "fndctl canary web/a --promote",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        assert_eq!(html.matches("Roll back").count(), 1);
        let other = FunctionName::new("mail").unwrap();
        let html = releases(&visit(Some(Role::Viewer)), &other, &list()).into_string();
        assert!(
            !html.contains("<form") && !html.contains("/diff") && !html.contains("rollback"),
            "{html}"
        );
    }

    #[test]
    fn buttons_of_schedules_have_their_line() {
        let shown = |function: &str| {
            let schedule = json!({"function": function, "schedule": "every 1h", "timezone": null, "state": "paused", "next": [], "last": null});
            scheduled(&visit(Some(Role::Viewer)), &[serde_json::from_value(schedule).unwrap()]).into_string()
        };
        let operated = shown("web/a");
        assert!(
            operated.contains("fndctl schedules resume FUNCTION</code>"),
            "{operated}"
        );
        assert!(!shown("mail").contains("FUNCTION</code>"));
    }

    #[test]
    fn limits_are_those_in_force() {
        let limited = json!({"limits": {"memory": "256M", "deadline": null, "asked": ["memory"]}});
        let html = limits(&limited).into_string();
        assert!(html.contains("<code>memory</code></th><td>256M</td>"), "{html}");
        assert!(html.contains("sets memory.") && !html.contains("asked"), "{html}");
        assert!(
            limits(&Value::Null)
                .into_string()
                .contains("once a version is installed")
        );
    }
}
