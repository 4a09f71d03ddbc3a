//! The page "Dead letters": asynchronous work that failed for good.

use super::function_page;
use crate::api::{Api, Failure};
use crate::http::{Request, Response};
use crate::parts::actions::{Action, command, question, same, small};
use crate::parts::filters::{Query, function, further};
use crate::parts::frame::{Page, Visit, page, section};
use crate::parts::tables::{empty, function_link, run_link, table};
use crate::parts::text::{cut, or_dash, size, time_or_dash, why};
use fnd_core::api::{Changed, DeadLetter, DeadLetterList, Queued};
use fnd_wire::ids::InvocationId;
use futures_util::future::try_join;
use hyper::Method;
use hyper::body::Bytes;
use maud::{Markup, html};

/// Dead letters of one page.
const ROWS: &str = "50";

/// # Errors
/// A filter is wrong, or fnd refuses or does not answer.
pub(super) async fn show(request: &Request, api: &Api) -> Result<Response, Failure> {
    let query = Query::default().with("function", function(request)?.unwrap_or_default());
    let path = query
        .clone()
        .of("after", request)
        .with("limit", ROWS)
        .after("/v1/dead-letters");
    let (visit, list) = try_join(Visit::of(request, api), api.get::<DeadLetterList>(&path)).await?;
    Ok(view(&visit, &query, &list))
}

fn view(visit: &Visit, query: &Query, list: &DeadLetterList) -> Response {
    let rows: Vec<_> = list.dead_letters.iter().map(|letter| row(visit, letter)).collect();
    let head = [
        "Run",
        "Function",
        "Reason",
        "Trigger",
        "Ended",
        "#Attempts",
        "Payload",
        "",
        "",
    ];
    let older = list.next.as_ref();
    let older = older.map(|next| query.clone().with("after", next).after("/dead-letters"));
    let found = html! {
        @if rows.is_empty() && older.is_some() {
            (empty("None is in this part of the history: go on with “Older”."))
        } @else if rows.is_empty() {
            (empty("There are none. Work of a queue, an event or a file that fails for good comes here, to be redriven or dropped."))
        } @else {
            (table("Dead letters", &head, &rows))
            @if list.dead_letters.iter().any(|letter| visit.operates(&letter.invocation.function)) { p.same { (command("fndctl dead-letters redrive ID")) " and " (command("fndctl dead-letters drop ID")) " do the same as the buttons." } }
        }
    };
    let body = html! {
        (section("letters", "Work that failed for good", &found))
        (further("Older", older))
        (same(&format!("fndctl dead-letters list{}", query.options())))
    };
    page(visit, &Page::live("Dead letters", "/dead-letters", body))
}

fn row(visit: &Visit, letter: &DeadLetter) -> Markup {
    let run = &letter.invocation;
    let id = run.id.to_string();
    let redrive = change_of(&id, "redrive", "Redrive");
    let offered = visit.operates(&run.function);
    html! {
        tr {
            th scope="row" { (run_link(&id)) }
            td { (function_link(run.function.as_str())) }
            td.text { (cut(&why(run.reason, &run.message), 120)) }
            td { (run.trigger.as_str()) }
            td { (time_or_dash(run.ended_at.as_deref(), visit.now)) }
            td.number { (run.attempts) }
            td.text { (payload(letter)) }
            td { @if offered { (small(&redrive)) } }
            td { @if offered { a.button.small href={ "/dead-letters/" (id) "/drop" } title={ "fndctl dead-letters drop " (id) } { "Drop" } } }
        }
    }
}

fn change_of(id: &str, verb: &str, label: &'static str) -> Action<'static> {
    Action {
        to: format!("/dead-letters/{id}/{verb}"),
        label,
        command: format!("fndctl dead-letters {verb} {id}"),
    }
}

fn payload(letter: &DeadLetter) -> Markup {
    match &letter.payload {
        Some(text) => html! { code { (cut(text, 60)) } },
        None => or_dash(&size(letter.payload_bytes)),
    }
}

/// Asks before a dead letter is dropped.
///
/// # Errors
/// There is no such dead letter, or fnd does not answer.
pub(super) async fn ask(request: &Request, api: &Api, id: InvocationId) -> Result<Response, Failure> {
    let path = format!("/v1/dead-letters/{id}");
    let (visit, letter) = try_join(Visit::of(request, api), api.get::<DeadLetter>(&path)).await?;
    Ok(asked(&visit, &letter))
}

fn asked(visit: &Visit, letter: &DeadLetter) -> Response {
    let run = &letter.invocation;
    let id = run.id.to_string();
    let action = change_of(&id, "drop", "Drop");
    let text = "The dead letter leaves the list for good, and its work is not done. Its record stays in the history.";
    let body = html! {
        p { (run_link(&id)) " of " a href=(function_page(&run.function)) { (run.function.as_str()) } ": " (cut(&why(run.reason, &run.message), 300)) }
        @if let Some(payload) = &letter.payload { pre tabindex="0" { (cut(payload, 2000)) } }
        @if visit.operates(&run.function) { (question(text, &action, "/dead-letters")) } @else { p { "You may not drop it here." } }
    };
    page(visit, &Page::new("Drop this dead letter?", "/dead-letters", body))
}

/// Does what a button of a dead letter says.
///
/// # Errors
/// There is no such button, or fnd refuses or does not answer.
pub(super) async fn change(api: &Api, id: InvocationId, verb: &str) -> Result<Response, Failure> {
    match verb {
        "redrive" => {
            let path = format!("/v1/dead-letters/{id}/redrive");
            let queued: Queued = api.call(Method::POST, &path, Bytes::new()).await?;
            Ok(Response::Redirect(format!("/runs/{}", queued.id)))
        }
        "drop" => {
            let path = format!("/v1/dead-letters/{id}");
            let _: Changed = api.call(Method::DELETE, &path, Bytes::new()).await?;
            Ok(Response::Redirect("/dead-letters".to_owned()))
        }
        _ => Err(Failure::no_page()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::frame::tests::{text, visit};
    use crate::parts::tables::tests::run;
    use fnd_manifest::settings::Role;

    fn list(function: &str) -> DeadLetterList {
        DeadLetterList {
            dead_letters: vec![DeadLetter {
                invocation: run(function, "failed", "no host"),
                payload: Some("{\"to\": \"<ada>\"}".to_owned()),
                payload_bytes: Some(15),
                content_type: None,
            }],
            next: Some("0193".to_owned()),
        }
    }

    #[test]
    fn a_dead_letter_is_redriven_at_once_and_dropped_after_a_question() {
        let viewer = visit(Some(Role::Viewer));
        let html = text(view(&viewer, &Query::default(), &list("web/a")));
        for expected in [
            "<table aria-label=\"Dead letters\">",
            "action=\"/dead-letters/01934567-89ab-7def-8123-456789abcdef/redrive\"",
            "href=\"/dead-letters/01934567-89ab-7def-8123-456789abcdef/drop\"",
            "&lt;ada&gt;",
            "href=\"/dead-letters?after=0193\"",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        let html = text(view(&viewer, &Query::default(), &list("mail")));
        assert!(!html.contains("<form") && !html.contains("/drop"), "{html}");
    }

    #[test]
    fn only_those_who_may_drop_are_asked() {
        let asked = |function| text(asked(&visit(Some(Role::Viewer)), &list(function).dead_letters[0]));
        assert!(asked("web/a").contains(">Keep</a>"));
        assert!(!asked("mail").contains("<form"));
    }

    #[test]
    fn a_part_of_the_history_without_dead_letters_leads_to_the_older_ones() {
        let show = |next: Option<&str>| {
            let list = DeadLetterList {
                dead_letters: Vec::new(),
                next: next.map(str::to_owned),
            };
            text(view(&visit(Some(Role::Viewer)), &Query::default(), &list))
        };
        let more = show(Some("0193"));
        assert!(more.contains("href=\"/dead-letters?after=0193\""), "{more}");
        assert!(!more.contains("There are none") && show(None).contains("There are none"));
    }
}
