//! The parts of a run's page: its summary, its buttons, its attempts, its output.

use super::LINES_MAX;
use super::run_output::Lines;
use crate::http::Request;
use crate::parts::actions::{Action, action, command};
use crate::parts::filters::{Query, search};
use crate::parts::frame::Visit;
use crate::parts::output;
use crate::parts::tables::{cancel, empty, function_link, next_attempt, run_link, run_state, table, terms};
use crate::parts::text::{between, dash, duration, number, or_dash, size, time, time_or_dash, version, why};
use fnd_core::api::{AttemptView, InvocationView};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::Reason;
use fnd_wire::units::counted;
use maud::{Markup, html};

/// Returns the state of a run, and how it came to it.
pub(super) fn summary(visit: &Visit, run: &InvocationView) -> Markup {
    let took = between(run.started_at.as_deref(), run.ended_at.as_deref(), visit.now);
    let why = if run.message.is_empty() && run.reason.is_none() {
        String::new()
    } else {
        why(run.reason, &run.message)
    };
    let exhausted = run
        .exhausted
        .map(|limit| format!("{} ran out", limit.as_str()))
        .unwrap_or_default();
    let mut all = vec![
        ("State", html! { (run_state(run.state)) }),
        ("Reason", html! { span.said { (or_dash(&why)) } }),
        ("Function", function_link(run.function.as_str())),
        ("Trigger", html! { (run.trigger.as_str()) (cause(run)) }),
        ("Accepted", time(&run.accepted_at, visit.now)),
        ("Began", time_or_dash(run.started_at.as_deref(), visit.now)),
        ("Ended", time_or_dash(run.ended_at.as_deref(), visit.now)),
        ("Duration", or_dash(&took)),
    ];
    if run.next_attempt_at.is_some() {
        all.push(("Next attempt", next_attempt(run, visit)));
    }
    if !exhausted.is_empty() {
        all.push(("Given up", html! { (exhausted) }));
    }
    all.extend(run.replay_of.map(|of| ("Repeats", run_link(&of.to_string()))));
    all.extend(run.parent.map(|parent| ("Called by", run_link(&parent.to_string()))));
    let node = run.superseded_by.iter().map(|node| html! { (node) });
    all.extend(node.map(|node| ("Counts on", node)));
    all.push((
        "Version",
        run.version.map_or_else(dash, |of| html! { code { (version(of)) } }),
    ));
    terms(&all)
}

/// Returns what made the trigger run the function.
fn cause(run: &InvocationView) -> Markup {
    let text = match &run.cause {
        None => String::new(),
        Some(Cause::Schedule(slots)) => format!(", the slot of {}", slots.scheduled_at),
        Some(Cause::Event(event)) => format!(", {} of {}", event.attributes.kind, event.attributes.source),
        Some(Cause::File(file)) => format!(", {}", file.path),
        Some(Cause::Nats(message)) => format!(", a message to {}", message.subject),
        Some(Cause::Alert(alert)) => format!(", {}", alert.alert.as_str()),
        Some(Cause::Hook(hook)) => {
            return html! { " after " (run_link(&hook.invocation.to_string())) " of " (function_link(hook.function.as_str())) };
        }
        Some(Cause::Call(call)) => return html! { " by " (function_link(call.function.as_str())) },
    };
    html! { (text) }
}

/// Returns the buttons of a run.
pub(super) fn changes(run: &InvocationView, id: &str) -> Markup {
    let again = Action {
        to: format!("/runs/{id}/replay"),
        label: "Run again",
        command: format!("fndctl replay {id}"),
    };
    html! {
        div #changes .actions data-live {
            @if run.state.is_final() { (action(&again)) } @else { (action(&cancel(id))) }
        }
    }
}

/// Returns the table "Attempts".
pub(super) fn attempts(visit: &Visit, run: &InvocationView) -> Markup {
    let row = |one: &AttemptView| {
        let code = one
            .exit_code
            .map(|code| code.to_string())
            .or_else(|| one.signal.clone())
            .unwrap_or_default();
        let dropped = one.dropped_bytes;
        html! {
            tr {
                th.number scope="row" { (one.attempt) }
                td { (time(&one.started_at, visit.now)) }
                td.number { (duration(Some(one.duration_ms))) }
                td.text { (why(Some(one.reason), &one.message)) }
                td.number { (or_dash(&code)) }
                td.number { (or_dash(&duration(one.cpu_ms))) }
                td.number { (or_dash(&size(one.memory_peak_bytes))) }
                td { @if one.cold { "cold" } @else { "warm" } }
                td.number { (size(Some(one.stdout_bytes.saturating_add(one.stderr_bytes)))) @if dropped > 0 { ", " (size(Some(dropped))) " not kept" } }
            }
        }
    };
    let rows: Vec<_> = run.attempt_records.iter().map(row).collect();
    let head = [
        "#Attempt",
        "Began",
        "#Duration",
        "Reason",
        "#Code",
        "#CPU",
        "#Memory",
        "Start",
        "#Output",
    ];
    html! {
        @if rows.is_empty() { (empty("No attempt has ended.")) } @else { (table("Attempts", &head, &rows)) }
    }
}

/// Returns the region "Output". Script adds to its lines while it follows.
pub(super) fn printed(request: &Request, run: &InvocationView, lines: &Lines, before: usize) -> Markup {
    let (wanted, until, id) = (request.query("q"), request.query("until"), run.id.to_string());
    let (part, is_cut) = output::part(&lines.all, before);
    let here = |until: &str, before: usize| {
        Query::default()
            .of("q", request)
            .with("until", until)
            .with("before", before.to_string())
            .after(&format!("/runs/{id}"))
    };
    let until_now = until.unwrap_or_default();
    let earlier = match lines.earlier {
        _ if is_cut => Some(here(until_now, before.saturating_add(output::PART))),
        earlier => earlier.map(|earlier| here(&earlier.to_string(), 0)),
    };
    let runs = !run.state.is_final();
    let follows = runs && wanted.is_none() && until.is_none() && before == 0;
    // A process is loaded for many runs, so what it printed meanwhile belongs to none.
    let is_load = run.reason == Some(Reason::Load) && lines.all.is_empty();
    let shell = if is_load {
        format!("fndctl logs {}", run.function)
    } else {
        format!("fndctl logs{} --id {id}", if runs { " -f" } else { "" })
    };
    let none = match wanted {
        // The oldest instant of as many lines as fnd gives at once is left to the part before.
        _ if !lines.all.is_empty() => "This part has no lines, “Earlier” and “Later” lead to others.",
        Some(_) => "No line has this text.",
        None if is_load => "Its code could not be loaded: what it printed meanwhile is in the output of the function.",
        None => "It has printed nothing that is kept.",
    };
    html! {
        section #output aria-labelledby="output-heading" {
            h2 #output-heading { "Output" }
            div.filters {
                form.filters role="search" aria-label="Search the output" { (search(wanted)) button type="submit" { "Find" } }
                div.actions {
                    @if follows {
                        button #follow type="button" aria-pressed="false" hidden data-follow={ "/runs/" (id) "/follow" } data-auto[request.query("follow").is_some()] { "Follow" }
                    }
                    a.button href={ "/runs/" (id) "/raw" } download { "Raw" }
                    (command(&shell))
                }
            }
            @if let Some(text) = wanted { p { (counted(lines.all.len(), "line has", "lines have")) " “" (text) "”. " a href={ "/runs/" (id) } { "All lines" } } }
            @if let Some(until) = until { p { "These are lines before " code { (until) } ". " a href={ "/runs/" (id) } { "Newest lines" } } }
            @if let Some(address) = earlier {
                p.hint { "“Raw” has at most the newest " (number(LINES_MAX as u64)) " lines, and says so at its end." }
                p { a.button href=(address) { "Earlier" } }
            }
            @if part.is_empty() { (empty(none)) }
            div #lines .output role="log" aria-live="off" aria-label="Lines" tabindex="0" { (output::lines(part)) }
            @if before > 0 { p { a.button href=(here(until_now, before.saturating_sub(output::PART))) { "Later" } } }
        }
    }
}
