//! The page of one run: its attempts, its output, its payload and its result, and what called it.

use super::run_output::{self, Lines};
use super::run_parts;
use crate::api::{Api, Failure};
use crate::http::{Request, Response};
use crate::parts::actions::{command, same};
use crate::parts::filters::count;
use crate::parts::frame::{Page, Visit, page, section, stream_address};
use crate::parts::output;
use crate::parts::tables::{empty, runs};
use crate::parts::text::{number, short};
use fnd_core::api::problem::Code;
use fnd_core::api::{InvocationList, InvocationView, Problem};
use fnd_wire::ids::InvocationId;
use futures_util::future::try_join3;
use hyper::Method;
use hyper::body::Bytes;
use maud::{Markup, html};

/// All that a page shows of a run.
struct Shown {
    run: InvocationView,
    lines: Lines,
    payload: Option<Body>,
    result: Option<Body>,
    /// The runs that it called.
    called: Vec<InvocationView>,
}

struct Body {
    bytes: Bytes,
    content_type: String,
}

/// # Errors
/// There is no such run, or fnd does not answer.
pub(super) async fn show(request: &Request, api: &Api, id: InvocationId) -> Result<Response, Failure> {
    let before = count(request, "before")?;
    let path = format!("/v1/invocations/{id}");
    let (visit, run, lines) = try_join3(
        Visit::of(request, api),
        api.get::<InvocationView>(&path),
        run_output::read(request, api, id, before),
    )
    .await?;
    let payload = body(api, &format!("{path}/payload")).await?;
    let result = if run.state.is_final() {
        body(api, &format!("{path}/result")).await?
    } else {
        None
    };
    let called = if run.children > 0 {
        let path = format!("/v1/invocations?parent={id}&limit=50");
        api.get::<InvocationList>(&path).await?.invocations
    } else {
        Vec::new()
    };
    let shown = Shown {
        run,
        lines,
        payload,
        result,
        called,
    };
    Ok(view(&visit, request, &shown, before))
}

/// Returns a payload or a result; nothing if there is none, or if it was not kept.
async fn body(api: &Api, path: &str) -> Result<Option<Body>, Failure> {
    match api.send(Method::GET, path, &[], Bytes::new()).await {
        Ok(reply) => {
            let content_type = reply.headers.get("content-type").and_then(|value| value.to_str().ok());
            Ok(Some(Body {
                content_type: content_type.unwrap_or_default().to_owned(),
                bytes: reply.body,
            }))
        }
        Err(Failure::Refused(problem)) if is_absent(&problem) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns whether a refusal says that there is no such body. The result of a run that failed is its reason.
fn is_absent(problem: &Problem) -> bool {
    let absent = [Code::NotKept, Code::NotFound].map(Code::as_str);
    problem.reason.is_some() || absent.contains(&problem.code.as_str())
}

/// Returns the bytes behind the links "Raw".
///
/// # Errors
/// There is no such run or part of it, or fnd does not answer.
pub(super) async fn raw(api: &Api, id: InvocationId, what: &str) -> Result<Response, Failure> {
    let (body, extension) = match what {
        "raw" => (run_output::raw(api, id).await?.into(), "log"),
        "payload" | "result" => {
            let path = format!("/v1/invocations/{id}/{what}");
            (api.send(Method::GET, &path, &[], Bytes::new()).await?.body, "txt")
        }
        _ => return Err(Failure::no_page()),
    };
    Ok(Response::Raw {
        content_type: "text/plain; charset=utf-8",
        file_name: Some(format!("{id}-{what}.{extension}")),
        body,
    })
}

fn view(visit: &Visit, request: &Request, shown: &Shown, before: usize) -> Response {
    let run = &shown.run;
    let id = run.id.to_string();
    let kept = |body: Option<&Body>, what: &str, none: &str| match body {
        Some(body) if !body.bytes.is_empty() => {
            output::body(&body.bytes, &body.content_type, &format!("/runs/{id}/{what}"))
        }
        Some(_) | None => empty(none),
    };
    let payload = kept(
        shown.payload.as_ref(),
        "payload",
        "There is none, or it was not kept: a call that succeeded at once leaves none.",
    );
    let result = kept(shown.result.as_ref(), "result", "There is no result.");
    let body = html! {
        (section("summary", "Summary", &run_parts::summary(visit, run)))
        @if visit.operates(&run.function) { (run_parts::changes(run, &id)) }
        (run_parts::printed(request, run, &shown.lines, before))
        (section("attempts-part", "Attempts", &run_parts::attempts(visit, run)))
        (section("payload", "Payload", &payload))
        (section("result", "Result", &result))
        @if !shown.called.is_empty() { (section("called", "What it called", &called(visit, run, &shown.called))) }
        (same(&format!("fndctl show {id}")))
    };
    let title = format!("Run {} of {}", short(&id), run.function);
    let shown = Page {
        stream: (!run.state.is_final()).then(|| stream_address(Some(&run.function))),
        // The output is followed, not read again: a search of a long one would go on all the time.
        again: Some(format!("/runs/{id}")),
        ..Page::new(&title, "/history", body)
    };
    page(visit, &shown)
}

/// Returns the runs that a run called, and whether there are more.
fn called(visit: &Visit, run: &InvocationView, shown: &[InvocationView]) -> Markup {
    let is_part = run.children > shown.len() as u64;
    html! {
        (runs(shown, visit))
        @if is_part {
            p.hint { "These are the newest " (shown.len()) " of " (number(run.children)) " calls. " (command(&format!("fndctl show {}", run.id))) " shows the tree of calls." }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http;
    use crate::parts::frame::tests::{text, visit};
    use crate::parts::tables::tests::run;
    use fnd_core::records::outcome::Reason;
    use fnd_manifest::settings::Role;
    use serde_json::json;

    fn shown(state: &str, lines: usize) -> Shown {
        let line = |place: usize| {
            serde_json::from_value(json!({
                "time": "2026-11-21T08:00:00.123Z", "function": "web/a", "attempt": 1, "stream": "stdout",
                "text": format!("line {place}."), "invocation": "01934567-89ab-7def-8123-456789abcdef",
            }))
            .unwrap()
        };
        Shown {
            run: run("web/a", state, "<no host>"),
            lines: Lines {
                all: (0..lines).map(line).collect(),
                earlier: None,
            },
            payload: Some(Body {
                bytes: Bytes::from_static(b"{\"a\": \"<b>\"}"),
                content_type: "application/json".to_owned(),
            }),
            result: None,
            called: Vec::new(),
        }
    }

    fn page_of(query: &str, shown: &Shown, before: usize) -> String {
        let request = http::Request::new(http::Method::Get, "/runs/1", query, b"");
        text(view(&visit(Some(Role::Viewer)), &request, shown, before))
    }

    #[test]
    fn an_ended_run_can_be_run_again() {
        let html = page_of("", &shown("failed", 3), 0);
        for expected in [
            "<h1>Run 89abcdef of web/a</h1>",
            "exit-1: &lt;no host&gt;",
            "action=\"/runs/01934567-89ab-7def-8123-456789abcdef/replay\"",
            "line 2.",
            "{&quot;a&quot;: &quot;&lt;b&gt;&quot;}",
            "There is no result.",
            "fndctl logs --id 01934567",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        assert!(!html.contains("Follow") && !html.contains("Earlier") && !html.contains("data-stream"));
    }

    #[test]
    fn a_run_that_runs_can_be_followed_and_cancelled() {
        let html = page_of("follow=1", &shown("running", 0), 0);
        let follow = "<button id=\"follow\" type=\"button\" aria-pressed=\"false\" hidden data-follow=\"/runs/01934567-89ab-7def-8123-456789abcdef/follow\" data-auto>";
        for expected in [follow, "/cancel\"", "It has printed nothing", "function=web%2Fa"] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        assert!(!html.contains("Run again"));
    }

    #[test]
    fn output_that_is_not_all_of_it_says_so() {
        let cut = page_of("", &shown("failed", 1500), 0);
        assert!(
            cut.contains("“Raw” has at most the newest 100\u{2009}000 lines"),
            "{cut}"
        );
        assert!(!page_of("", &shown("failed", 1000), 0).contains("“Raw” has"));
        let mut part = shown("running", 3);
        part.lines.earlier = "2026-11-21T08:00:00.124Z".parse().ok();
        let part = page_of("q=line&until=2026-11-21T09:00:00Z", &part, 0);
        for expected in [
            "?q=line&amp;until=2026-11-21T08%3A00%3A00.124Z&amp;before=0\">Earlier</a>",
            "lines before <code>2026-11-21T09:00:00Z</code>",
            ">Newest lines</a>",
        ] {
            assert!(part.contains(expected), "{expected}: {part}");
        }
        assert!(!part.contains("Follow"), "{part}");
        let again = "data-again=\"/runs/01934567-89ab-7def-8123-456789abcdef\"";
        assert!(part.contains(again), "{part}");
        let past = page_of("before=1000", &shown("failed", 1000), 1000);
        assert!(
            past.contains("This part has no lines") && !past.contains("printed nothing"),
            "{past}"
        );
    }

    #[test]
    fn output_has_parts_and_a_search() {
        let shown = shown("failed", 1500);
        let newest = page_of("", &shown, 0);
        assert!(newest.contains(">line 500.<") && !newest.contains(">line 499.<"));
        assert!(newest.contains("?before=1000\">Earlier</a>"), "{newest}");
        let earlier = page_of("before=1000", &shown, 1000);
        assert!(earlier.contains(">line 499.<") && !earlier.contains(">line 500.<") && earlier.contains("Later"));
        let found = page_of("q=LINE+77.", &self::shown("failed", 1), 0);
        assert!(found.contains("1 line has") && found.contains("“LINE 77.”"), "{found}");
    }

    #[test]
    fn calls_that_are_not_shown_are_counted() {
        let run = |children| InvocationView {
            children,
            ..run("web/a", "failed", "")
        };
        let shown = |children| called(&visit(None), &run(children), &[run(0)]).into_string();
        assert!(
            shown(1234).contains("the newest 1 of 1\u{2009}234 calls"),
            "{}",
            shown(1234)
        );
        assert!(!shown(1).contains("calls"));
    }

    #[test]
    fn only_an_absent_body_is_none() {
        let absent = |code, reason| {
            is_absent(&Problem {
                reason,
                ..Problem::new(code, "")
            })
        };
        assert!(absent(Code::NotKept, None) && absent(Code::FunctionFailed, Some(Reason::Oom)));
        assert!(!absent(Code::NotAllowed, None) && !absent(Code::TooManyConnections, None));
    }
}
