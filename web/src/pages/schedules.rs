//! The page "Schedules": the runs of the next 24 hours.

use super::function_path;
use crate::api::{Api, Failure};
use crate::http::{Request, Response};
use crate::parts::actions::{Action, command, same, small};
use crate::parts::chart::day;
use crate::parts::frame::{Page, Visit, page, section};
use crate::parts::tables::{empty, function_link, run_link, run_state, table, word};
use crate::parts::text::{dash, number, time, time_or_dash, unix_ms};
use fnd_core::api::{Changed, ScheduleList, ScheduleState, ScheduleView};
use fnd_wire::ids::FunctionName;
use futures_util::future::try_join;
use hyper::Method;
use hyper::body::Bytes;
use maud::{Markup, html};

/// Slots of each schedule that are asked for.
const SLOTS: usize = 48;
/// Most schedules of the table.
const ROWS: usize = 500;
/// Most runs of the table of the next 24 hours.
const SOON: usize = 200;
const DAY_MS: i64 = 24 * 3_600_000;

/// # Errors
/// fnd refuses or does not answer.
pub(super) async fn show(request: &Request, api: &Api) -> Result<Response, Failure> {
    let path = format!("/v1/schedules?next={SLOTS}");
    let (visit, list) = try_join(Visit::of(request, api), api.get::<ScheduleList>(&path)).await?;
    Ok(view(&visit, &list.schedules))
}

fn view(visit: &Visit, schedules: &[ScheduleView]) -> Response {
    let is_part = schedules.iter().any(|one| is_cut(visit, one));
    let soon = soon(visit, schedules);
    let line = html! {
        @if schedules.is_empty() {
            (empty("No function has a schedule. A table [[schedule]] in a function's manifest makes one."))
        } @else {
            (day(&minutes(&soon), is_part, visit.now))
            (each(visit, soon))
            @if is_part { p.hint { "Of a schedule that runs more often, the line has the next " (SLOTS) " runs." } }
        }
    };
    let mut sorted: Vec<_> = schedules.iter().collect();
    // Those without a next run come last.
    sorted.sort_by_key(|one| (one.next.is_empty(), one.next.first()));
    let rows: Vec<_> = sorted
        .iter()
        .take(ROWS)
        .map(|one| row(visit, one, "/schedules"))
        .collect();
    let list = html! {
        @if rows.is_empty() { (empty("There are none.")) } @else { (table("Schedules", &["Function", "Schedule", "State", "Next", "Last run", ""], &rows)) }
        @if sorted.len() > ROWS { p { "The first " (number(ROWS as u64)) " of " (number(sorted.len() as u64)) " schedules; “Schedules” on the page of a function has its own." } }
        (commands(visit, sorted.iter().copied()))
    };
    let body = html! {
        (section("day", "Next 24 hours", &line))
        (section("list", "All schedules", &list))
        (same("fndctl schedules"))
    };
    page(visit, &Page::live("Schedules", "/schedules", body))
}

/// Returns whether a schedule has more slots in the next 24 hours than were asked for.
fn is_cut(visit: &Visit, one: &ScheduleView) -> bool {
    let end = visit.now.as_millisecond().saturating_add(DAY_MS);
    let last = one.next.get(SLOTS - 1).and_then(|at| unix_ms(at));
    last.is_some_and(|last| last < end)
}

/// Returns the lines of `fndctl` that do the same as the buttons of schedules, if there are buttons.
pub(super) fn commands<'a>(visit: &Visit, mut all: impl Iterator<Item = &'a ScheduleView>) -> Markup {
    html! {
        @if all.any(|one| action(visit, one, "").is_some()) { p.same { (command("fndctl schedules pause FUNCTION")) " and " (command("fndctl schedules resume FUNCTION")) " do the same as the buttons." } }
    }
}

/// A run to come: milliseconds from now, its instant and its function.
type Slot<'a> = (i64, &'a str, &'a str);

/// Returns the runs of the next 24 hours, in any order.
fn soon<'a>(visit: &Visit, schedules: &'a [ScheduleView]) -> Vec<Slot<'a>> {
    let now = visit.now.as_millisecond();
    let slots = schedules
        .iter()
        .flat_map(|one| one.next.iter().map(|at| (at.as_str(), one.function.as_str())));
    let soon = slots.filter_map(|(at, function)| {
        let from_now = unix_ms(at)?.saturating_sub(now);
        (0..DAY_MS).contains(&from_now).then_some((from_now, at, function))
    });
    soon.collect()
}

/// Returns the minutes from now at which something runs, each with the function.
fn minutes<'a>(soon: &[Slot<'a>]) -> Vec<(i64, &'a str)> {
    let minute = |(from_now, _, function): &Slot<'a>| (from_now / 60_000, *function);
    let mut minutes: Vec<_> = soon.iter().map(minute).collect();
    minutes.sort_unstable();
    minutes.dedup();
    minutes
}

/// Returns the first runs as a table, for those who do not see the line.
fn each(visit: &Visit, mut soon: Vec<Slot<'_>>) -> Markup {
    let all = soon.len();
    if all > SOON {
        // Ten thousand schedules have half a million runs, of which few are shown.
        soon.select_nth_unstable(SOON);
        soon.truncate(SOON);
    }
    soon.sort_unstable();
    let row = |(_, at, function): &Slot<'_>| {
        html! { tr { th scope="row" { (time(at, visit.now)) } td { (function_link(function)) } } }
    };
    let rows: Vec<_> = soon.iter().map(row).collect();
    html! {
        @if !rows.is_empty() {
            details {
                summary { "Each of these runs" }
                (table("Next 24 hours", &["When", "Function"], &rows))
                @if all > rows.len() { p.hint { "The first " (number(rows.len() as u64)) " of " (number(all as u64)) " runs." } }
            }
        }
    }
}

/// Returns the row of a schedule; `base` is the page to which its button leads back, `/schedules` or `/functions`.
pub(super) fn row(visit: &Visit, one: &ScheduleView, base: &str) -> Markup {
    let zone = one.timezone.as_deref().unwrap_or_default();
    html! {
        tr {
            th scope="row" { (function_link(one.function.as_str())) }
            td { code { (one.schedule) } @if !zone.is_empty() { " " (zone) } }
            td { (state(one.state)) }
            td { (time_or_dash(one.next.first().map(String::as_str), visit.now)) }
            td { @match &one.last {
                Some(run) => { (run_state(run.state)) " " (run_link(&run.id.to_string())) },
                None => (dash()),
            } }
            td { @if let Some(action) = action(visit, one, base) { (small(&action)) } }
        }
    }
}

fn state(state: ScheduleState) -> Markup {
    match state {
        ScheduleState::Active => word("active", "good"),
        ScheduleState::Paused => word("paused", "wait"),
        ScheduleState::Disabled => word("disabled", "dim"),
    }
}

fn action(visit: &Visit, one: &ScheduleView, base: &str) -> Option<Action<'static>> {
    let (label, verb) = match one.state {
        ScheduleState::Active => ("Pause", "pause"),
        ScheduleState::Paused => ("Resume", "resume"),
        ScheduleState::Disabled => return None,
    };
    let name = one.function.as_str();
    visit.operates(&one.function).then(|| Action {
        to: format!("{base}/{}/{verb}", fnd_client::client::encode(name)),
        label,
        command: format!("fndctl schedules {verb} {name}"),
    })
}

/// Does what a button of a schedule says.
///
/// # Errors
/// There is no such button, or fnd refuses or does not answer.
pub(super) async fn change(api: &Api, name: &FunctionName, verb: &str) -> Result<Response, Failure> {
    if !matches!(verb, "pause" | "resume") {
        return Err(Failure::no_page());
    }
    let path = format!("{}/schedules/{verb}", function_path(name));
    let _: Changed = api.call(Method::POST, &path, Bytes::new()).await?;
    Ok(Response::Redirect("/schedules".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::frame::tests::{text, visit};
    use fnd_manifest::settings::Role;
    use serde_json::json;

    fn schedule(function: &str, state: &str, next: &[&str]) -> ScheduleView {
        serde_json::from_value(json!({
            "function": function, "schedule": "every 1h", "timezone": null, "state": state, "next": next, "last": null,
        }))
        .unwrap()
    }

    #[test]
    fn the_next_run_comes_first_and_a_paused_schedule_can_be_resumed() {
        let all = [
            schedule(
                "mail",
                "active",
                &["2026-11-21T09:00:00.000Z", "2026-11-23T09:00:00.000Z"],
            ),
            schedule("web/a", "paused", &[]),
            schedule("web/b", "active", &["2026-11-21T08:30:30.000Z"]),
        ];
        let visit = visit(Some(Role::Viewer));
        assert_eq!(minutes(&soon(&visit, &all)), [(30, "web/b"), (60, "mail")]);
        let html = text(view(&visit, &all));
        let row =
            "<time datetime=\"2026-11-21T08:30:30.000Z\">08:30:30 UTC</time></th><td><a href=\"/functions/web%2Fb\">";
        assert!(
            html.contains("<table aria-label=\"Next 24 hours\">") && html.contains(row),
            "{html}"
        );
        let place = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text}: {html}"));
        assert!(place(">web/b</a>") < place(">mail</a>") && place(">mail</a>") < place(">web/a</a>"));
        assert!(
            html.contains("action=\"/schedules/web%2Fa/resume\"")
                && html.contains("action=\"/schedules/web%2Fb/pause\"")
        );
        assert!(!html.contains("action=\"/schedules/mail"));
        assert!(!html.contains("At least"), "{html}");
    }

    #[test]
    fn a_schedule_that_runs_often_is_shown_in_part_and_the_page_says_so() {
        let slots: Vec<String> = (0..48)
            .map(|minute| format!("2026-11-21T09:{minute:02}:00.000Z"))
            .collect();
        let slots: Vec<&str> = slots.iter().map(String::as_str).collect();
        let html = text(view(&visit(Some(Role::Viewer)), &[schedule("mail", "active", &slots)]));
        assert!(
            html.contains("At least 48 runs") && html.contains("the next 48 runs"),
            "{html}"
        );
    }

    #[test]
    fn the_table_has_the_first_runs_of_many() {
        let at = |number: usize| format!("2026-11-21T{:02}:{:02}:00.000Z", 9 + number / 60, number % 60);
        let times: Vec<String> = (0..250).rev().map(at).collect();
        let slots = times.iter().map(|at| (unix_ms(at).unwrap(), at.as_str(), "mail"));
        let html = each(&visit(Some(Role::Viewer)), slots.collect()).into_string();
        assert!(html.contains("The first 200 of 250 runs."), "{html}");
        assert!(html.contains(&at(0)) && html.contains(&at(199)) && !html.contains(&at(200)));
    }
}
