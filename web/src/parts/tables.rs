//! Tables, terms, and the states in them. A state is a word; its colour only helps to find it.

use super::actions::{Action, command, small};
use super::frame::Visit;
use super::text::{between, cut, or_dash, short, time, time_or_dash, why};
use fnd_client::client::encode;
use fnd_core::api::InvocationView;
use fnd_core::records::outcome::RunState;
use fnd_core::run::FunctionState;
use maud::{Markup, html};

/// Returns the state of a function.
pub(crate) fn function_state(state: FunctionState) -> Markup {
    let class = match state {
        FunctionState::Invalid | FunctionState::CrashLooping => "bad",
        FunctionState::Disabled => "dim",
        FunctionState::Running => "busy",
        FunctionState::Building => "wait",
        FunctionState::Ready => "good",
    };
    word(state.as_str(), class)
}

/// Returns the state of a run.
pub(crate) fn run_state(state: RunState) -> Markup {
    let class = match state {
        RunState::Succeeded => "good",
        RunState::Failed | RunState::Interrupted => "bad",
        RunState::Running => "busy",
        RunState::Queued | RunState::Waiting | RunState::Polling => "wait",
        RunState::Cancelled | RunState::Skipped => "dim",
    };
    word(state.as_str(), class)
}

/// Returns a word with the class of its meaning.
pub(crate) fn word(word: &str, class: &str) -> Markup {
    html! { span class={ "state " (class) } { (word) } }
}

/// Returns a link to a function.
pub(crate) fn function_link(name: &str) -> Markup {
    html! { a href={ "/functions/" (encode(name)) } { (name) } }
}

/// Returns a link to a run, by the end of its id.
pub(crate) fn run_link(id: &str) -> Markup {
    html! { a.id href={ "/runs/" (id) } { (short(id)) } }
}

/// Returns a table with a name; it scrolls sideways where it is wider than the window.
pub(crate) fn table(name: &str, head: &[&str], rows: &[Markup]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label={ (name) ", as a table" } {
            table aria-label=(name) {
                thead { tr { @for column in head { (heading(column)) } } }
                tbody { @for row in rows { (row) } }
            }
        }
    }
}

/// Returns the heading of a column; one that begins with `#` is of numbers, an empty one is of buttons.
fn heading(column: &str) -> Markup {
    match column.strip_prefix('#') {
        Some(column) => html! { th.number scope="col" { (column) } },
        None if column.is_empty() => html! { th scope="col" { span.hidden { "Actions" } } },
        None => html! { th scope="col" { (column) } },
    }
}

/// Returns names and values.
pub(crate) fn terms(terms: &[(&str, Markup)]) -> Markup {
    html! {
        dl.terms { @for (name, value) in terms { div { dt { (name) } dd { (value) } } } }
    }
}

/// Returns the sentence of a part that has nothing, with what to do.
pub(crate) fn empty(sentence: &str) -> Markup {
    html! { p.empty { (sentence) } }
}

/// Returns the action that ends a run.
pub(crate) fn cancel(id: &str) -> Action<'static> {
    Action {
        to: format!("/runs/{id}/cancel"),
        label: "Cancel",
        command: format!("fndctl cancel {id}"),
    }
}

/// Returns whether a page offers to end a run.
pub(crate) fn can_cancel(run: &InvocationView, visit: &Visit) -> bool {
    !run.state.is_final() && visit.operates(&run.function)
}

/// Returns the table "Runs", with the line of `fndctl` for its buttons.
pub(crate) fn runs(runs: &[InvocationView], visit: &Visit) -> Markup {
    let row = |run: &InvocationView| {
        let id = run.id.to_string();
        html! {
            tr {
                th scope="row" { (run_link(&id)) }
                td { (function_link(run.function.as_str())) }
                td { (run_state(run.state)) }
                td.text { (or_dash(&reason(run))) }
                td { (run.trigger.as_str()) }
                td { (time(&run.accepted_at, visit.now)) }
                td.number { (or_dash(&between(run.started_at.as_deref(), run.ended_at.as_deref(), visit.now))) }
                td.number { (run.attempts) }
                td { @if can_cancel(run, visit) { (small(&cancel(&id))) } }
            }
        }
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let head = [
        "Run",
        "Function",
        "State",
        "Reason",
        "Trigger",
        "Accepted",
        "#Duration",
        "#Attempts",
        "",
    ];
    html! {
        (table("Runs", &head, &rows))
        @if runs.iter().any(|run| can_cancel(run, visit)) { p.same { (command("fndctl cancel ID")) " does the same as “Cancel”." } }
    }
}

/// Returns why a run ended, or when it goes on.
fn reason(run: &InvocationView) -> String {
    match run.state {
        RunState::Succeeded => String::new(),
        _ => cut(&why(run.reason, &run.message), 120),
    }
}

/// Returns when the next attempt of a run begins, if one follows.
pub(crate) fn next_attempt(run: &InvocationView, visit: &Visit) -> Markup {
    time_or_dash(run.next_attempt_at.as_deref(), visit.now)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::frame::tests::visit;
    use super::*;
    use fnd_manifest::settings::Role;
    use serde_json::json;

    /// Returns a run of a function in a state.
    pub(crate) fn run(function: &str, state: &str, message: &str) -> InvocationView {
        serde_json::from_value(json!({
            "id": "01934567-89ab-7def-8123-456789abcdef", "function": function, "trigger": "manual", "state": state,
            "reason": (state == "failed").then_some("exit-1"), "message": message, "exhausted": null,
            "accepted_at": "2026-11-21T07:59:00.000Z", "started_at": "2026-11-21T07:59:01.000Z",
            "ended_at": (state == "failed").then_some("2026-11-21T07:59:02.500Z"), "next_attempt_at": null,
            "attempts": 1, "polls": 0,
        }))
        .unwrap()
    }

    #[test]
    fn a_run_can_be_cancelled_by_an_operator_while_it_runs() {
        let viewer = visit(Some(Role::Viewer));
        let shown = |run: InvocationView| runs(&[run], &viewer).into_string();
        let running = shown(run("web/a", "running", ""));
        for expected in [
            "action=\"/runs/01934567-89ab-7def-8123-456789abcdef/cancel\"",
            "<code class=\"command\">fndctl cancel ID</code>",
        ] {
            assert!(running.contains(expected), "{expected}: {running}");
        }
        assert!(!shown(run("mail", "running", "")).contains("<form"));
        assert!(!shown(run("web/a", "failed", "")).contains("<form"));
    }

    #[test]
    fn what_a_function_says_is_text() {
        let shown = runs(&[run("web/a", "failed", "<script>")], &visit(None)).into_string();
        assert!(shown.contains("exit-1: &lt;script&gt;"), "{shown}");
        assert!(shown.contains("<a href=\"/functions/web%2Fa\">web/a</a>"), "{shown}");
        assert!(shown.contains("<td class=\"number\">1 s</td>"), "{shown}");
    }
}
