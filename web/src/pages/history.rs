//! The page "History": the runs of a filter, newest first.

use crate::api::{Api, Failure};
use crate::assets;
use crate::http::{Request, Response};
use crate::parts::actions::same;
use crate::parts::filters::{Query, choice, field, function, further, instant, word};
use crate::parts::frame::{Page, Visit, page, section, stream_address};
use crate::parts::tables::{empty, runs};
use fnd_core::api::InvocationList;
use fnd_core::records::outcome::{Reason, RunState, Trigger};
use futures_util::future::try_join;
use maud::html;

/// Runs of one page.
const ROWS: &str = "50";

/// # Errors
/// A filter is wrong, or fnd refuses or does not answer.
pub(super) async fn show(request: &Request, api: &Api) -> Result<Response, Failure> {
    let query = filters(request)?;
    let path = query
        .clone()
        .of("after", request)
        .with("limit", ROWS)
        .after("/v1/invocations");
    let (visit, list) = try_join(Visit::of(request, api), api.get::<InvocationList>(&path)).await?;
    Ok(view(&visit, request, &query, &list))
}

/// Returns the filters of a request, in the form of the API.
fn filters(request: &Request) -> Result<Query, Failure> {
    word(request, "state", RunState::WORDS)?;
    word(request, "trigger", Trigger::WORDS)?;
    if let Some(reason) = request.query("reason").filter(|reason| Reason::parse(reason).is_none()) {
        let words = Reason::words().map(|word| match word {
            "exit" => "exit-1",
            "signal" => "signal-KILL",
            word => word,
        });
        let words = words.collect::<Vec<_>>().join(", ");
        return Err(Failure::bad_request(format!(
            "The filter `reason` has one of these words: {words}; not `{reason}`."
        )));
    }
    function(request)?;
    let of_words = ["function", "state", "reason", "trigger"]
        .into_iter()
        .fold(Query::default(), |query, name| query.of(name, request));
    let since = instant(request, "since")?.unwrap_or_default();
    let until = instant(request, "until")?.unwrap_or_default();
    Ok(of_words.with("since", since).with("until", until))
}

fn view(visit: &Visit, request: &Request, query: &Query, list: &InvocationList) -> Response {
    let older = list
        .next
        .as_ref()
        .map(|next| query.clone().with("after", next).after("/history"));
    let found = html! {
        @if list.invocations.is_empty() && older.is_some() {
            (empty("No run of this part of the history matches: go on with “Older”."))
        } @else if list.invocations.is_empty() {
            (empty("No run matches. Change the filter; “Run” on the page of a function makes one."))
        } @else {
            (runs(&list.invocations, visit))
        }
    };
    // A browser's field takes no zone: it is UTC, until script makes it local time.
    let utc = |name| instant(request, name).ok().flatten()?.get(..16).map(str::to_owned);
    let body = html! {
        form.filters aria-label="Filter" {
            (field("function", "Function", "text", request.query("function")))
            (choice("state", "State", RunState::WORDS, request.query("state")))
            (field("reason", "Reason", "text", request.query("reason")))
            (choice("trigger", "Trigger", Trigger::WORDS, request.query("trigger")))
            (field("since", "Since (UTC)", "datetime-local", utc("since").as_deref()))
            (field("until", "Until (UTC)", "datetime-local", utc("until").as_deref()))
            button type="submit" { "Show" }
        }
        (section("runs", "Runs", &found))
        (further("Older", older))
        (same(&format!("fndctl history{}", query.options())))
        script src=(assets::history()) defer {}
    };
    // Older runs do not change.
    let is_newest = request.query("after").is_none();
    let shown = Page {
        stream: is_newest.then(|| stream_address(None)),
        ..Page::new("History", "/history", body)
    };
    page(visit, &shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Method;
    use crate::parts::frame::tests::{text, visit};
    use crate::parts::tables::tests::run;
    use fnd_manifest::settings::Role;

    fn request(query: &str) -> Request {
        Request::new(Method::Get, "/history", query, b"")
    }

    #[test]
    fn a_wrong_filter_is_refused_with_its_words() {
        for (query, expected) in [
            ("state=broken", "queued, running"),
            ("trigger=x", "load, manual"),
            ("reason=exit", "exit-1"),
            ("function=A+B", "No function can have the name `A B`"),
            ("since=x", "in UTC"),
        ] {
            let refused = filters(&request(query)).unwrap_err();
            assert_eq!(refused.status(), 400, "{query}");
            assert!(format!("{refused:?}").contains(expected), "{refused:?}");
        }
    }

    /// Script sends UTC, so that an address means the same to everybody; a person may type another offset into it.
    #[test]
    fn a_field_shows_the_instant_of_the_address_in_utc() {
        let list = InvocationList {
            invocations: Vec::new(),
            next: None,
        };
        for since in [
            "2026-11-21T07:00",
            "2026-11-21T07:00:00.000Z",
            "2026-11-21T09:00:00%2B02:00",
        ] {
            let request = request(&format!("since={since}"));
            let query = filters(&request).unwrap();
            let html = text(view(&visit(Some(Role::Viewer)), &request, &query, &list));
            let field = "<input name=\"since\" type=\"datetime-local\" value=\"2026-11-21T07:00\"";
            assert!(html.contains("Since (UTC)") && html.contains(field), "{since}: {html}");
            assert!(html.contains("--since 2026-11-21T07:00:00Z"), "{since}: {html}");
        }
    }

    #[test]
    fn the_address_of_older_runs_keeps_the_filters() {
        let request = request("function=web%2Fa&state=failed&since=2026-11-21T07%3A00");
        let query = filters(&request).unwrap();
        let list = InvocationList {
            invocations: vec![run("web/a", "failed", "no host")],
            next: Some("01934567".to_owned()),
        };
        let html = text(view(&visit(Some(Role::Viewer)), &request, &query, &list));
        for expected in [
            "function=web%2Fa&amp;state=failed&amp;since=2026-11-21T07%3A00%3A00Z&amp;after=01934567",
            "<form class=\"filters\" aria-label=\"Filter\">",
            "<option value=\"failed\" selected>",
            "value=\"2026-11-21T07:00\"",
            "<table aria-label=\"Runs\">",
            "fndctl history web/a --state failed --since",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
    }
}
