//! The page "Functions".

use crate::api::{Api, Failure};
use crate::http::{Request, Response};
use crate::parts::actions::{quoted, same};
use crate::parts::filters::{Query, choice, field, further, search, word};
use crate::parts::frame::{Page, Visit, page, section};
use crate::parts::tables::{empty, function_link, function_state, run_link, table};
use crate::parts::text::{amount, duration, number, or_dash, size, time, time_or_dash};
use fnd_core::api::{FunctionList, FunctionStatus, LastEnd};
use fnd_core::run::FunctionState;
use futures_util::future::try_join;
use maud::{Markup, html};

/// Most functions of one page.
const ROWS: &str = "200";
/// The filter of the API for functions that need a person, beside the states.
const ATTENTION: &str = "attention";

/// # Errors
/// A filter is wrong, or fnd refuses or does not answer.
pub(super) async fn show(request: &Request, api: &Api) -> Result<Response, Failure> {
    let states: Vec<_> = FunctionState::WORDS.iter().copied().chain([ATTENTION]).collect();
    word(request, "state", &states)?;
    let path = filters(request)
        .of("after", request)
        .with("limit", ROWS)
        .after("/v1/functions");
    let (visit, list) = try_join(Visit::of(request, api), api.get::<FunctionList>(&path)).await?;
    Ok(view(&visit, request, &states, &list))
}

fn filters(request: &Request) -> Query {
    ["state", "label", "q"]
        .into_iter()
        .fold(Query::default(), |query, name| query.of(name, request))
}

fn view(visit: &Visit, request: &Request, states: &[&str], list: &FunctionList) -> Response {
    let next = list.next.as_ref();
    let next = next.map(|next| filters(request).with("after", next).after("/functions"));
    let found = &list.functions;
    // fnd counts no other functions than those of the page.
    let is_whole = next.is_none() && request.query("after").is_none();
    let title = match is_whole {
        true => amount(found.len() as u64, "function", "functions"),
        false => "Functions".to_owned(),
    };
    let rows: Vec<_> = found.iter().map(|one| row(visit, one)).collect();
    let is_filtered = ["q", "state", "label"]
        .into_iter()
        .any(|name| request.query(name).is_some());
    let list = html! {
        @if rows.is_empty() && request.query("after").is_some() {
            (empty("There are no more functions: those of this page are gone."))
        } @else if rows.is_empty() && is_filtered {
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
        (section("list", &title, &list))
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
        let show = |query, next: Option<&str>| {
            let request = Request::new(Method::Get, "/functions", query, b"");
            let list = FunctionList {
                functions: vec![status("f198", "ready"), status("f199", "ready")],
                next: next.map(str::to_owned),
            };
            text(view(&visit(Some(Role::Viewer)), &request, FunctionState::WORDS, &list))
        };
        let first = show("state=ready", Some("f199"));
        assert!(
            first.contains("href=\"/functions?state=ready&amp;after=f199\""),
            "{first}"
        );
        assert!(!first.contains("2 functions"), "{first}");
        let last = show("after=f197", None);
        assert!(
            !last.contains("rel=\"next\"") && !last.contains("2 functions"),
            "{last}"
        );
        assert!(show("", None).contains("2 functions"));
    }

    #[test]
    fn a_page_without_a_function_says_why() {
        for (query, expected) in [
            ("", "There is no function, or none that your role may see."),
            ("q=x", "No function matches."),
            ("after=f199&q=x", "There are no more functions"),
        ] {
            let request = Request::new(Method::Get, "/functions", query, b"");
            let list = FunctionList {
                functions: Vec::new(),
                next: None,
            };
            let html = text(view(&visit(Some(Role::Viewer)), &request, FunctionState::WORDS, &list));
            assert!(html.contains(expected), "{query}: {html}");
        }
    }
}
