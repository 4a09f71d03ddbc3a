//! The page "Overview": what needs a person, what runs, what comes next.

use crate::api::{Api, Failure};
use crate::http::{Request, Response};
use crate::parts::actions::{command, same, small};
use crate::parts::chart::{Bar, bars};
use crate::parts::frame::{Page, Visit, page, section};
use crate::parts::tables::{can_cancel, cancel, empty, function_link, run_link, table, word};
use crate::parts::text::{between, cut, number, time, time_or_dash};
use fnd_client::client::encode;
use fnd_core::api::{Attention, AttentionView, Overview};
use fnd_wire::units::counted;
use futures_util::future::try_join;
use maud::{Markup, html};

/// Most functions that need a person, problems and runs: with style and script the page has at most 40 kB.
const ATTENTION: usize = 10;
const PROBLEMS: usize = 3;
const RUNNING: usize = 8;
/// Most characters of a message.
const MESSAGE: usize = 160;

/// # Errors
/// fnd refuses or does not answer.
pub(super) async fn show(request: &Request, api: &Api) -> Result<Response, Failure> {
    let overview = api.get::<Overview>("/v1/overview");
    let (visit, overview) = try_join(Visit::of(request, api), overview).await?;
    Ok(view(&visit, &overview))
}

fn view(visit: &Visit, overview: &Overview) -> Response {
    let body = html! {
        @if overview.functions == 0 { (first_steps()) }
        div.columns {
            (section("attention", "Needs attention", &attention(visit, overview)))
            (section("running", "Running now", &running(visit, overview)))
            (section("next", "Next", &next(visit, overview)))
            (section("hours", "Last 24 hours", &hours(visit, overview)))
        }
        (same("fndctl overview"))
    };
    page(visit, &Page::live("Overview", "/", body))
}

fn first_steps() -> Markup {
    html! {
        div.note {
            p { "There is no function yet, or none that your role may see." }
            p { "Save a script in the functions directory, and it is one a moment later. " (command("fndctl new hello --runtime bash")) " writes one that explains itself." }
        }
    }
}

fn attention(visit: &Visit, overview: &Overview) -> Markup {
    let shown = overview.attention.iter().take(ATTENTION);
    let more = overview.attention_count.saturating_sub(shown.len() as u64);
    let more_problems = overview.problems.len().saturating_sub(PROBLEMS);
    let is_empty = overview.attention.is_empty() && overview.problems.is_empty() && overview.dead_letters == 0;
    html! {
        @if is_empty { (empty("Nothing needs you.")) }
        ul.attention {
            @for problem in overview.problems.iter().take(PROBLEMS) {
                li { (word("problem", "bad")) " " a href="/node" { "Node" } (since(problem.since.as_deref(), visit)) p.said { (cut(&problem.text, MESSAGE)) } }
            }
            @if more_problems > 0 { li { a href="/node" { (counted(more_problems, "more problem", "more problems")) } } }
            @for function in shown { li { (one(visit, function)) } }
            @if overview.dead_letters > 0 {
                li { (word("failed for good", "bad")) " " a href="/dead-letters" { (counted(overview.dead_letters, "dead letter", "dead letters")) } (since(overview.dead_letters_since.as_deref(), visit)) " to redrive or drop" }
            }
        }
        @if more > 0 { p { "And " (number(more)) " more: " a href="/functions?state=attention" { "all of them" } "." } }
    }
}

fn one(visit: &Visit, function: &AttentionView) -> Markup {
    let (words, class) = match function.why {
        Attention::Failed => ("failed", "bad"),
        Attention::CrashLooping => ("crash-looping", "bad"),
        Attention::Invalid => ("invalid", "bad"),
        Attention::NotServing => ("new version does not serve", "bad"),
        Attention::Canary => ("canary waits for approval", "wait"),
    };
    html! {
        (word(words, class)) " " (function_link(function.function.as_str()))
        (since(function.since.as_deref(), visit))
        @if let Some(id) = function.invocation { ", run " (run_link(&id.to_string())) }
        @if !function.message.is_empty() { p.said { (cut(&function.message, MESSAGE)) } }
    }
}

fn since(instant: Option<&str>, visit: &Visit) -> Markup {
    html! { @if let Some(instant) = instant { " since " (time(instant, visit.now)) } }
}

fn running(visit: &Visit, overview: &Overview) -> Markup {
    let rows: Vec<_> = overview
        .running
        .iter()
        .take(RUNNING)
        .map(|run| {
            let id = run.id.to_string();
            html! {
                tr {
                    th scope="row" { (run_link(&id)) }
                    td { (function_link(run.function.as_str())) }
                    td { (time_or_dash(run.started_at.as_deref(), visit.now)) }
                    td.number { (between(run.started_at.as_deref(), None, visit.now)) }
                    td { @if can_cancel(run, visit) { (small(&cancel(&id))) } }
                }
            }
        })
        .collect();
    let more = overview.running_count.saturating_sub(rows.len() as u64);
    html! {
        @if rows.is_empty() {
            (empty("Nothing runs. A function runs by its triggers, or by “Run” on its page."))
        } @else {
            (table("Running now", &["Run", "Function", "Since", "#For", ""], &rows))
            @if overview.running.iter().any(|run| can_cancel(run, visit)) { p.same { (command("fndctl cancel ID")) " does the same as “Cancel”." } }
        }
        @if more > 0 { p { "And " (number(more)) " more: " a href="/history?state=running" { "all of them" } "." } }
    }
}

fn next(visit: &Visit, overview: &Overview) -> Markup {
    html! {
        @if overview.next.is_empty() {
            (empty("No schedule is due. A table [[schedule]] in a function's manifest makes one."))
        }
        ol.next {
            @for run in &overview.next { li { (time(&run.at, visit.now)) " " (function_link(run.function.as_str())) } }
        }
        @if !overview.next.is_empty() { p { a href="/schedules" { "All schedules" } } }
    }
}

fn hours(visit: &Visit, overview: &Overview) -> Markup {
    if overview.hours.is_empty() {
        return empty(
            "These counts are of all functions: they need a role for the node. “History” has the runs that you may see.",
        );
    }
    let sum = |of: fn(&fnd_core::hours::HourCount) -> u64| overview.hours.iter().map(of).sum::<u64>();
    let (succeeded, failed) = (sum(|hour| hour.succeeded), sum(|hour| hour.failed));
    let hour = |hour: &fnd_core::hours::HourCount| Bar {
        start: hour.start.clone(),
        succeeded: hour.succeeded,
        failed: hour.failed,
    };
    let all: Vec<_> = overview.hours.iter().map(hour).collect();
    let since = overview.hours.first().map_or("", |hour| hour.start.as_str());
    let is_younger = since < overview.hours_since.as_str();
    html! {
        p.counts {
            span { strong { (number(succeeded)) } " succeeded" } " "
            a href={ "/history?state=failed&since=" (encode(since)) } { strong { (number(failed)) } " failed" }
        }
        (bars(&all, visit.now))
        @if is_younger { p.hint { "Counted since " (time(&overview.hours_since, visit.now)) ", when fnd started." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assets;
    use crate::parts::frame::tests::{text, visit};
    use crate::parts::tables::tests::run;
    use fnd_core::api::NodeProblemView;
    use fnd_core::hours::HourCount;
    use fnd_manifest::settings::Role;
    use serde_json::json;

    fn overview() -> Overview {
        serde_json::from_value(json!({
            "at": "2026-11-21T08:00:00.000Z", "attention_count": 60,
            "problems": [{"text": "the disk is full", "since": "2026-11-21T05:00:00.000Z"}],
            "dead_letters": 2, "dead_letters_since": "2026-11-20T08:00:00.000Z",
            "attention": [{"function": "mail", "why": "failed", "since": "2026-11-21T07:00:00.000Z",
                "message": "<no host>", "invocation": "01934567-89ab-7def-8123-456789abcdef"}],
            "running": [run("web/a", "running", "")], "running_count": 1, "functions": 9,
            "next": [{"at": "2026-11-21T09:00:00.000Z", "function": "mail"}], "hours": [],
            "hours_since": "2026-11-21T06:00:00.000Z",
        }))
        .unwrap()
    }

    #[test]
    fn what_needs_a_person_is_a_link_with_its_last_line() {
        let html = text(view(&visit(Some(Role::Viewer)), &overview()));
        for expected in [
            "<section id=\"attention\" aria-labelledby=\"attention-heading\" data-live>",
            "<h2 id=\"attention-heading\">Needs attention</h2>",
            "<a href=\"/functions/mail\">mail</a> since <time",
            "<p class=\"said\">&lt;no host&gt;</p>",
            "<a href=\"/node\">Node</a> since <time datetime=\"2026-11-21T05:00:00.000Z\">",
            "the disk is full",
            "2 dead letters</a> since <time datetime=\"2026-11-20T08:00:00.000Z\">",
            "And 59 more",
            "action=\"/runs/01934567-89ab-7def-8123-456789abcdef/cancel\"",
            "fndctl overview",
            "need a role for the node",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }

    #[test]
    fn an_empty_node_says_what_to_do() {
        let hour = |start: &str, failed| HourCount {
            start: start.to_owned(),
            succeeded: 1,
            failed,
        };
        let empty = Overview {
            attention: Vec::new(),
            attention_count: 0,
            problems: Vec::new(),
            dead_letters: 0,
            dead_letters_since: None,
            running: Vec::new(),
            running_count: 0,
            functions: 0,
            next: Vec::new(),
            hours: vec![hour("2026-11-21T05:00:00.000Z", 2), hour("2026-11-21T06:00:00.000Z", 0)],
            ..overview()
        };
        let html = text(view(&visit(None), &empty));
        for expected in [
            "fndctl new hello",
            "Nothing needs you.",
            "Nothing runs.",
            "href=\"/history?state=failed&amp;since=2026-11-21T05%3A00%3A00.000Z\"><strong>2</strong> failed",
            "Counted since",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }

    #[test]
    fn a_full_page_with_style_and_script_has_at_most_40_kb() {
        let name = "group-name/function-name";
        let attention = AttentionView {
            message: "x".repeat(4096),
            function: fnd_wire::ids::FunctionName::new(name).unwrap(),
            ..overview().attention.remove(0)
        };
        let hour = HourCount {
            start: "2026-11-21T05:00:00.000Z".to_owned(),
            succeeded: 1234,
            failed: 12,
        };
        let problem = NodeProblemView {
            text: "x".repeat(1000),
            ..overview().problems.remove(0)
        };
        let next = overview().next.remove(0);
        let full = Overview {
            attention: vec![attention; 20],
            problems: vec![problem; 10],
            running: vec![run("web/function-name", "running", ""); 10],
            running_count: 1000,
            next: vec![next; 10],
            hours: vec![hour; 24],
            ..overview()
        };
        let html = text(view(&visit(Some(Role::Operator)), &full));
        let length = |address: &str| match assets::answer(address) {
            Some(Response::Raw { body, .. }) => body.len(),
            _ => panic!("{address} is no file"),
        };
        let bytes = html.len() + length(assets::style()) + length(assets::script());
        assert!(bytes <= 40_000, "{bytes}");
    }
}
