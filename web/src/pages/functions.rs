//! The page "Functions".

use crate::api::{Api, Failure};
use crate::http::{Request, Response};
use crate::parts::actions::{quoted, same};
use crate::parts::filters::{Query, choice, field, further, search, word};
use crate::parts::frame::{Page, Visit, page, section};
use crate::parts::tables::{empty, function_link, function_state, run_link, table};
use crate::parts::text::{amount, duration, number, or_dash, size, time, time_or_dash};
use fnd_core::api::{FunctionList, FunctionStatus, LastEnd};
use fnd_core::records::outcome::Reason;
use fnd_core::run::FunctionState;
use futures_util::future::try_join;
use maud::{Markup, html};

/// Most functions of one page.
const ROWS: usize = 200;
/// The filter for what needs a person, beside the states.
const ATTENTION: &str = "attention";

/// # Errors
/// A filter is wrong, or fnd refuses or does not answer.
pub(super) async fn show(request: &Request, api: &Api) -> Result<Response, Failure> {
    let states: Vec<_> = FunctionState::WORDS.iter().copied().chain([ATTENTION]).collect();
    let state = word(request, "state", &states)?;
    let path = Query::default().of("label", request).after("/v1/functions");
    let (visit, list) = try_join(Visit::of(request, api), api.get::<FunctionList>(&path)).await?;
    let wanted = |one: &&FunctionStatus| {
        state.is_none_or(|state| has_state(one, state)) && request.query("q").is_none_or(|text| has_text(one, text))
    };
    let found: Vec<_> = list.functions.iter().filter(wanted).collect();
    Ok(view(&visit, request, &states, &found))
}

fn has_state(function: &FunctionStatus, state: &str) -> bool {
    if state != ATTENTION {
        return function.state.as_str() == state;
    }
    let is_bad = matches!(function.state, FunctionState::Invalid | FunctionState::CrashLooping);
    // Somebody has disabled it, or cancelled its last run, on purpose.
    let is_off = function.state == FunctionState::Disabled;
    let has_failed = function.status == LastEnd::Failed && function.reason != Some(Reason::Cancelled);
    is_bad || (!is_off && (has_failed || function.error.is_some()))
}

/// Returns whether a function has a text in its name, its runtime or its labels.
fn has_text(function: &FunctionStatus, text: &str) -> bool {
    let text = text.to_lowercase();
    let has = |part: &str| part.to_lowercase().contains(&text);
    let mut labels = function.labels.iter();
    has(function.function.as_str())
        || has(&function.runtime)
        || labels.any(|(key, value)| has(&format!("{key}={value}")))
}

fn view(visit: &Visit, request: &Request, states: &[&str], found: &[&FunctionStatus]) -> Response {
    let after = request.query("after").unwrap_or_default();
    let mut rest = found.iter().skip_while(|one| one.function.as_str() <= after);
    let shown: Vec<_> = rest.by_ref().take(ROWS).collect();
    let more = rest.next().and(shown.last());
    let query = Query::default()
        .of("state", request)
        .of("label", request)
        .of("q", request);
    let next = more.map(|last| query.clone().with("after", last.function.as_str()).after("/functions"));
    let rows: Vec<_> = shown.iter().map(|one| row(visit, one)).collect();
    let is_filtered = ["q", "state", "label"]
        .into_iter()
        .any(|name| request.query(name).is_some());
    let list = html! {
        @if rows.is_empty() && is_filtered {
            (empty("No function matches. Change the filter."))
        } @else if rows.is_empty() {
            (empty("There is no function, or none that your role may see. Save a file in the functions directory, and it is one a moment later."))
        } @else {
            (table("Functions", &HEAD, &rows))
        }
    };
    let body = html! {
        form.filters role="search" aria-label="Filter" {
            (search(request.query("q")))
            (choice("state", "State", states, request.query("state")))
            (field("label", "Label", "text", request.query("label")))
            button type="submit" { "Show" }
        }
        (section("list", &amount(found.len() as u64, "function", "functions"), &list))
        (further("More", next))
        @if let Some(line) = terminal(request) { (same(&line)) }
    };
    page(visit, &Page::live("Functions", "/functions", body))
}

const HEAD: [&str; 10] = [
    "Name", "Runtime", "State", "Last run", "Next", "#Runs", "#Failed", "#p50", "#p99", "#Memory",
];

fn row(visit: &Visit, one: &FunctionStatus) -> Markup {
    let next = one.next_attempt_at.as_deref().or(one.next_run_at.as_deref());
    html! {
        tr {
            th scope="row" { (function_link(one.function.as_str())) }
            td { (or_dash(&one.runtime)) }
            td { (function_state(one.state)) }
            td { (last(visit, one)) }
            td { (time_or_dash(next, visit.now)) }
            td.number { (number(one.runs)) }
            td.number { (number(one.failures)) }
            td.number { (or_dash(&duration(one.p50_ms))) }
            td.number { (or_dash(&duration(one.p99_ms))) }
            td.number { (or_dash(&size(one.memory_bytes.or(one.memory_peak_bytes)))) }
        }
    }
}

/// Returns how the last run ended, and when it began; since when a service is up.
fn last(visit: &Visit, one: &FunctionStatus) -> Markup {
    if let Some(up) = &one.up_since {
        return html! { "up since " (time(up, visit.now)) };
    }
    let class = if one.status == LastEnd::Failed { "bad" } else { "plain" };
    html! {
        @match (one.reason, one.invocation) {
            (Some(reason), Some(id)) => { span class=(class) { (reason.to_string()) } " " (time_or_dash(one.started_at.as_deref(), visit.now)) " " (run_link(&id.to_string())) },
            _ => (or_dash("")),
        }
    }
}

/// Returns the line of `fndctl` with the same filters; `fndctl` has no search like that of the page.
fn terminal(request: &Request) -> Option<String> {
    let label = request.query("label").map(|label| format!(" -l {}", quoted(label)));
    let state = request.query("state").map(|state| match state {
        ATTENTION => " --failed".to_owned(),
        state => format!(" --jq '.functions[] | select(.state == \"{state}\").function'"),
    });
    let filters = [label, state].into_iter().flatten().collect::<String>();
    request.query("q").is_none().then(|| format!("fndctl status{filters}"))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::http::Method;
    use crate::parts::frame::tests::{text, visit};
    use fnd_manifest::settings::Role;
    use serde_json::json;

    /// Returns the status of a function that has failed once.
    pub(in crate::pages) fn status(name: &str, state: &str) -> FunctionStatus {
        serde_json::from_value(json!({
            "status": "failed", "message": "no host", "timestamp": "2026-11-21T08:00:00.000Z", "function": name,
            "state": state, "trigger": "manual", "attempt": 1, "poll": 0, "reason": "exit-1", "exit_code": 1,
            "invocation": "01934567-89ab-7def-8123-456789abcdef", "started_at": "2026-11-21T07:00:00.000Z",
            "duration_ms": 12.0, "cpu_ms": 1.0, "memory_peak_bytes": 1 << 20, "next_attempt_at": null,
            "next_run_at": null, "result": null, "runs": 12_345, "failures": 1, "error": null,
            "runtime": "bash", "labels": {"team": "web"}, "p50_ms": 12.0, "p99_ms": 99.0,
        }))
        .unwrap()
    }

    #[test]
    fn a_row_has_the_numbers_of_its_function() {
        let html = row(&visit(None), &status("web/a", "ready")).into_string();
        for expected in [
            "<th scope=\"row\"><a href=\"/functions/web%2Fa\">web/a</a></th>",
            "<span class=\"state good\">ready</span>",
            "<span class=\"bad\">exit-1</span>",
            "<td class=\"number\">12\u{2009}345</td>",
            "<td class=\"number\">1.0 MiB</td>",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }

    #[test]
    fn a_filter_finds_names_runtimes_and_labels() {
        let one = status("web/a", "ready");
        for (text, expected) in [("WEB/", true), ("bash", true), ("team=web", true), ("python", false)] {
            assert_eq!(has_text(&one, text), expected, "{text}");
        }
        assert!(has_state(&one, "ready") && has_state(&one, ATTENTION) && !has_state(&one, "invalid"));
    }

    #[test]
    fn the_line_of_fndctl_has_the_filters() {
        for (query, expected) in [
            ("", Some("fndctl status")),
            (
                "label=team%3Da+b&state=attention",
                Some("fndctl status -l 'team=a b' --failed"),
            ),
            (
                "state=ready",
                Some("fndctl status --jq '.functions[] | select(.state == \"ready\").function'"),
            ),
            ("q=web", None),
        ] {
            let request = Request::new(Method::Get, "/functions", query, b"");
            assert_eq!(terminal(&request).as_deref(), expected, "{query}");
        }
    }

    #[test]
    fn a_long_list_has_parts() {
        let all: Vec<_> = (0..450).map(|place| status(&format!("f{place:03}"), "ready")).collect();
        let all: Vec<_> = all.iter().collect();
        let show = |query| {
            let request = Request::new(Method::Get, "/functions", query, b"");
            text(view(&visit(Some(Role::Viewer)), &request, FunctionState::WORDS, &all))
        };
        let first = show("state=ready");
        assert_eq!(first.matches("<tr>").count(), 201);
        assert!(
            first.contains("href=\"/functions?state=ready&amp;after=f199\""),
            "{first}"
        );
        let last = show("after=f399");
        assert!(last.matches("<tr>").count() == 51 && !last.contains("rel=\"next\""));
    }
}
