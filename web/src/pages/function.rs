//! The page of one function.

use super::function_run::{Known, form, is_kept, known, mistakes, queue};
use super::{function_page, function_parts, function_path};
use crate::api::{Api, Failure};
use crate::http::{Request, Response};
use crate::parts::actions::{Action, action, same};
use crate::parts::chart::{Point, lines};
use crate::parts::fields::Sent;
use crate::parts::frame::{Page, Visit, section, stream_address, with_status};
use crate::parts::tables::{empty, function_state, runs, terms};
use crate::parts::text::{amount, dash, duration, number, or_dash, size, time, time_or_dash, unix_ms, version, why};
use fnd_client::client::encode;
use fnd_core::api::{
    FunctionDetail, FunctionStatus, InvocationList, InvocationView, LastEnd, ReleaseList, RouteList, ScheduleList,
};
use fnd_core::run::FunctionState;
use fnd_wire::ids::FunctionName;
use futures_util::future::try_join5;
use maud::{Markup, html};

/// Runs that the chart shows.
const CHART: usize = 100;
/// Runs that the table shows.
const ROWS: usize = 20;

/// All that the page shows of a function beside itself.
struct More {
    runs: Vec<InvocationView>,
    releases: ReleaseList,
    schedules: ScheduleList,
    routes: RouteList,
}

/// # Errors
/// There is no such function, or fnd does not answer.
pub(super) async fn show(request: &Request, api: &Api, name: &FunctionName) -> Result<Response, Failure> {
    let known = known(api, name).await?;
    whole(request, api, &known, &Sent::default()).await
}

/// Queues a run with what the form "Run" has. Mistakes are shown beside their fields.
///
/// # Errors
/// The caller may not run the function, or fnd does not answer.
pub(super) async fn run(request: &Request, api: &Api, name: &FunctionName) -> Result<Response, Failure> {
    let known = known(api, name).await?;
    let mut sent = Sent {
        values: request.form.clone(),
        ..Sent::default()
    };
    (sent.status, sent.mistakes) = match sent.payload(&known.fields) {
        Ok(payload) => match queue(api, name, payload).await {
            Ok(queued) => return Ok(Response::Redirect(format!("/runs/{}?follow=1", queued.id))),
            // The typed values stay: people can mend them, or send them again when there is room.
            Err(Failure::Refused(problem)) if is_kept(problem.status) => (problem.status, mistakes(&problem)),
            Err(failure) => return Err(failure),
        },
        Err(mistakes) => (422, mistakes),
    };
    whole(request, api, &known, &sent).await
}

/// Shows the page with what the form "Run" has.
///
/// # Errors
/// fnd does not answer.
async fn whole(request: &Request, api: &Api, known: &Known, sent: &Sent) -> Result<Response, Failure> {
    let name = &known.detail.status.function;
    let encoded = encode(name.as_str());
    let (path, of_runs) = (
        function_path(name),
        format!("/v1/invocations?function={encoded}&limit={CHART}&usage=1"),
    );
    let (of_releases, of_schedules) = (format!("{path}/versions"), format!("/v1/schedules?function={encoded}"));
    let (visit, runs, releases, schedules, routes) = try_join5(
        Visit::of(request, api),
        api.get::<InvocationList>(&of_runs),
        api.get::<ReleaseList>(&of_releases),
        api.get::<ScheduleList>(&of_schedules),
        api.get::<RouteList>("/v1/routes"),
    )
    .await?;
    let more = More {
        runs: runs.invocations,
        releases,
        schedules,
        routes,
    };
    Ok(view(&visit, known, &more, sent))
}

fn view(visit: &Visit, known: &Known, more: &More, sent: &Sent) -> Response {
    let (status, detail) = (&known.detail.status, &known.detail.more);
    let name = &status.function;
    let of_function = more.routes.routes.iter().filter(|route| route.function == *name);
    let offers = visit.operates(name);
    // No version of an invalid function serves, and requests go to a service by its own address.
    let can_run = status.state != FunctionState::Invalid && detail.mode != "service";
    let body = html! {
        (section("state", "State", &state(visit, &known.detail)))
        @if offers { div #changes .actions data-live { (switch(status)) } }
        @if offers && can_run { (form(known, sent)) }
        (section("runs-part", "Runs", &newest(visit, name, &more.runs)))
        (section("releases", "Releases", &function_parts::releases(visit, name, &more.releases)))
        (section("chart", "Last 100 runs", &chart(visit, &more.runs)))
        (section("schedules", "Schedules", &function_parts::scheduled(visit, &more.schedules.schedules)))
        (section("routes", "Routes", &function_parts::routes(of_function)))
        (section("limits", "Limits", &function_parts::limits(&detail.manifest)))
        (same(&format!("fndctl show {name}")))
    };
    let code = if sent.mistakes.is_empty() { 200 } else { sent.status };
    let shown = Page {
        // The address of a form with mistakes shows no page to read again.
        stream: sent.mistakes.is_empty().then(|| stream_address(Some(name))),
        ..Page::new(name.as_str(), "/functions", body)
    };
    with_status(visit, code, &shown)
}

fn state(visit: &Visit, detail: &FunctionDetail) -> Markup {
    let (status, more) = (&detail.status, &detail.more);
    let mode = if more.mode_reason.is_empty() {
        more.mode.clone()
    } else {
        format!("{} ({})", more.mode, more.mode_reason)
    };
    let mut all = vec![("State", html! { (function_state(status.state)) })];
    let stopped = status.stopped.iter();
    all.extend(stopped.map(|stop| {
        let by = html! { "by the user " (stop.uid) " since " (time(&stop.since, visit.now)) "; an edit does not start it, “Enable” does" };
        ("Stopped", by)
    }));
    let said = |text: &str| html! { span.said { (text) } };
    // The line below has the same error.
    let error_of_newer = more.newer.as_ref().and_then(|newer| newer.error.as_ref());
    let error = status.error.iter().filter(|error| error_of_newer != Some(*error));
    all.extend(error.map(|error| ("Problem", said(error))));
    let newer = more.newer.iter().map(|newer| function_parts::newer(visit, newer));
    all.extend(newer.map(|newer| ("Newer version", newer)));
    let warnings = status.warning.iter().flat_map(|text| text.lines());
    all.extend(warnings.map(|warning| ("Warning", said(warning))));
    if status.status == LastEnd::Failed {
        all.push(("Last failure", said(&why(status.reason, &status.message))));
    }
    let waits = status.waits_for.iter().map(|waits| html! { (waits.words()) });
    all.extend(waits.map(|waits| ("Waits for", waits)));
    all.extend(status.up_since.iter().map(|up| ("Up since", time(up, visit.now))));
    let counts = format!(
        "{}, {} failed, {} running, {} waiting",
        amount(status.runs, "run", "runs"),
        number(status.failures),
        status.running,
        status.queued
    );
    all.extend([
        ("Runs", html! { (counts) }),
        (
            "Next run",
            time_or_dash(
                status.next_attempt_at.as_deref().or(status.next_run_at.as_deref()),
                visit.now,
            ),
        ),
        (
            "Duration",
            match status.p50_ms {
                Some(median) => {
                    html! { "median " (duration(Some(median))) ", 99 % below " (or_dash(&duration(status.p99_ms))) }
                }
                None => dash(),
            },
        ),
        (
            "Memory",
            or_dash(&size(status.memory_bytes.or(status.memory_peak_bytes))),
        ),
        ("Mode", or_dash(&mode)),
        ("Runtime", or_dash(&status.runtime)),
        ("File", html! { code { (more.source) } }),
        ("Version", or_dash(&status.version.map(version).unwrap_or_default())),
    ]);
    if let Some(description) = more.manifest["description"].as_str() {
        all.insert(0, ("What it does", html! { (description) }));
    }
    terms(&all)
}

/// Returns the button "Enable" or "Disable".
fn switch(status: &FunctionStatus) -> Markup {
    let (label, verb) = match status.state {
        FunctionState::Disabled => ("Enable", "enable"),
        FunctionState::Building
        | FunctionState::Ready
        | FunctionState::Running
        | FunctionState::Invalid
        | FunctionState::CrashLooping => ("Disable", "disable"),
    };
    action(&Action {
        to: format!("{}/{verb}", function_page(&status.function)),
        label,
        command: format!("fndctl {verb} {}", status.function),
    })
}

fn newest(visit: &Visit, name: &FunctionName, all: &[InvocationView]) -> Markup {
    let shown = all.get(..ROWS).unwrap_or(all);
    html! {
        @if shown.is_empty() { (empty("It has not run yet.")) } @else { (runs(shown, visit)) }
        p { a href={ "/history?function=" (encode(name.as_str())) } { "All runs" } }
    }
}

fn chart(visit: &Visit, all: &[InvocationView]) -> Markup {
    let points: Vec<_> = all.iter().rev().filter_map(point).collect();
    if points.is_empty() {
        empty("The chart begins with the first run that has ended.")
    } else {
        lines(&points, visit.now)
    }
}

/// Returns the point of a run that has begun and ended.
fn point(run: &InvocationView) -> Option<Point> {
    let (start, end) = (run.started_at.as_deref()?, run.ended_at.as_deref()?);
    let took = unix_ms(end)?.saturating_sub(unix_ms(start)?).max(0);
    Some(Point {
        id: run.id.to_string(),
        at: start.to_owned(),
        duration_ms: u32::try_from(took).ok().map(f64::from),
        memory_bytes: run.memory_peak_bytes,
        failed: run.state.is_failure(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::fields::Mistake;
    use crate::parts::frame::tests::{text, visit};
    use crate::parts::tables::tests::run as one_run;
    use fnd_core::api::ServiceStop;
    use fnd_core::input::fields;
    use fnd_manifest::settings::Role;
    use serde_json::json;

    fn known(name: &str, state: &str) -> Known {
        let status = super::super::functions::tests::status(name, state);
        let mut document = serde_json::to_value(&status).unwrap();
        let more = json!({
            "mode": "script", "mode_reason": "no handler found", "source": "/etc/fnd/functions/a.sh", "interpreter": "/bin/bash",
            "manifest": {"description": "Sends <mail>", "limits": {"memory": "256M"}}, "uid": 70000, "diagnostics": [],
        });
        document
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        Known {
            detail: serde_json::from_value(document).unwrap(),
            fields: fields(&json!({"required": ["name"], "properties": {"name": {"type": "string"}}})),
        }
    }

    fn more() -> More {
        More {
            runs: vec![one_run("web/a", "failed", "no host")],
            releases: ReleaseList {
                versions: Vec::new(),
                hold: None,
                canary: None,
            },
            schedules: ScheduleList { schedules: Vec::new() },
            routes: RouteList {
                listen: Vec::new(),
                routes: Vec::new(),
                events: None,
            },
        }
    }

    #[test]
    fn an_operator_gets_the_form_and_the_buttons() {
        let html = text(view(
            &visit(Some(Role::Viewer)),
            &known("web/a", "ready"),
            &more(),
            &Sent::default(),
        ));
        for expected in [
            "<form class=\"run\" method=\"post\" action=\"/functions/web%2Fa/run\" aria-label=\"Run\">",
            "name=\"in.name\"",
            "<button type=\"submit\">Disable</button>",
            "fndctl disable web/a",
            "Sends &lt;mail&gt;",
            "exit-1: no host",
            "<table aria-label=\"Limits\">",
            "Duration, at most 1.5 s",
            "function=web%2Fa",
        ] {
            assert!(html.contains(expected), "{expected}: {html}");
        }
        let html = text(view(
            &visit(Some(Role::Viewer)),
            &known("mail", "disabled"),
            &more(),
            &Sent::default(),
        ));
        assert!(!html.contains("<form"), "{html}");
    }

    #[test]
    fn a_stopped_service_says_by_whom_and_since_when() {
        let mut known = known("web/a", "disabled");
        known.detail.status.stopped = Some(ServiceStop {
            uid: 1000,
            since: "2026-11-21T07:00:00.000Z".to_owned(),
        });
        let html = text(view(&visit(None), &known, &more(), &Sent::default()));
        let expected = "by the user 1000 since <time datetime=\"2026-11-21T07:00:00.000Z\">";
        assert!(html.contains(expected), "{html}");
    }

    #[test]
    fn a_form_with_mistakes_is_shown_again() {
        let mistake = Mistake {
            pointer: String::new(),
            text: "wrong".to_owned(),
        };
        let sent = Sent {
            values: vec![("in.name".to_owned(), "Ada".to_owned())],
            mistakes: vec![mistake],
            status: 429,
        };
        let response = view(&visit(Some(Role::Admin)), &known("web/a", "ready"), &more(), &sent);
        assert!(matches!(response, Response::Page { status: 429, .. }));
        let html = text(response);
        assert!(
            html.contains("role=\"alert\">wrong</p>") && html.contains("value=\"Ada\""),
            "{html}"
        );
        assert!(!html.contains("data-stream"), "{html}");
    }
}
