//! Routes about functions: lists and details, enabling, builds, usage, schedules.

use super::deploy::tagged;
use super::invoke::SAVED;
use super::{ADMIN, ControlRoute, OPERATOR, VIEWER, changed};
use crate::backend::{ATTENTION, FunctionFilter, ListPart, ListedState};
use crate::control::call::ControlCall;
use crate::control::condition::has_list;
use crate::control::limits::PAGE;
use crate::control::refusal::{failed, not_changed, not_stored};
use crate::http::query::{Query, wrong};
use crate::http::response::{Answered, Refusal, internal, json, long_json, not_modified, refuse, with_weak_tag};
use crate::http::stream::{Framing, lines};
use crate::invoke::answer::wait;
use crate::invoke::refusal::no_function;
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_core::json::visit_members;
use fnd_core::run::{Answer, FunctionState, Rejection};
use fnd_manifest::function::Mode;
use fnd_manifest::settings::Role;
use fnd_wire::ids::FunctionName;
use serde_json::Value;

pub(super) static ROUTES: &[ControlRoute] = &[
    route!(GET "/v1/functions" List VIEWER "list", list, Some(&["label", "state", "q", "limit", "after", "watch"])),
    route!(GET "/v1/functions/{function}" Function VIEWER "show", show, Some(&["watch"])),
    route!(POST "/v1/functions/{function}/enable" Function OPERATOR "enable", set_enabled(true)),
    route!(POST "/v1/functions/{function}/disable" Function OPERATOR "disable", set_enabled(false)),
    route!(POST "/v1/functions/{function}/start" Function OPERATOR "start", set_started(true)),
    route!(POST "/v1/functions/{function}/stop" Function OPERATOR "stop", set_started(false)),
    route!(POST "/v1/functions/{function}/restart" Function OPERATOR "restart", restart),
    route!(POST "/v1/functions/{function}/shell" Function ADMIN "shell", shell),
    route!(POST "/v1/functions/{function}/build" Function OPERATOR "build", build, Some(&["clean"])),
    route!(POST "/v1/functions/{function}/schedules/pause" Function OPERATOR "pause", set_paused(true)),
    route!(POST "/v1/functions/{function}/schedules/resume" Function OPERATOR "resume", set_paused(false)),
    route!(GET "/v1/schedules" List VIEWER "schedules", schedules, Some(&["function", "next"])),
    route!(GET "/v1/usage" List VIEWER "usage", usage),
];

// `GET /v1/functions[?label=k=v&state=S&q=TEXT&limit=N&after=F]` and `GET /v1/functions/F`, both with `watch=1` as a stream of
// changes.

/// Lists functions; a function must have all given labels.
pub(super) async fn list(call: ControlCall) -> Result<Answered, Refusal> {
    let mut filter = FunctionFilter {
        reach: call.reach.clone(),
        ..FunctionFilter::default()
    };
    for label in call.query.all("label") {
        let Some((key, value)) = label.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(wrong("label", "`KEY=VALUE`", label));
        };
        filter.labels.push((key.to_owned(), value.to_owned()));
    }
    let part = part(&call.query)?;
    if call.query.switch("watch")? {
        if part != ListPart::default() {
            let detail = "`watch` follows every function that has the labels: `state`, `q`, `limit` and `after` do not go with it";
            return Err(refuse(Code::BadRequest, detail));
        }
        return Ok(lines(call.backend.watch(filter), Framing::Lines));
    }
    let query = call.request.parts.uri.query().unwrap_or_default();
    let tag = call.backend.list_tag(query, &call.reach, None);
    if has_list(&call, &tag)? {
        return Ok(not_modified(&tag));
    }
    let list = call.backend.functions(filter, part).await;
    Ok(with_weak_tag(long_json(list.functions.len(), list).await?, &tag))
}

/// Returns the part of the list that a request asks for: all of it without `limit`.
fn part(query: &Query) -> Result<ListPart, Refusal> {
    let limit = query.at_most("limit", PAGE.1)?;
    let states = format!("one of {}, {ATTENTION}", FunctionState::WORDS.join(", "));
    Ok(ListPart {
        after: query.function("after")?,
        limit: limit.map(|limit| limit as usize),
        state: query.get("state", &states, ListedState::parse)?,
        text: query.get("q", "a text", |text| Some(text.to_lowercase()))?,
    })
}

pub(super) async fn show(call: ControlCall) -> Result<Answered, Refusal> {
    let name = call.function()?;
    // A caller who has just saved the file waits for it, as with a call. The answer shows what came of it, whether in time or not.
    if call.request.header(&SAVED)?.is_some() {
        call.backend.saved(&name).await;
    }
    let role = call.reach.function(&name);
    // Asked for a watch, too: a watch of an unknown function would be silent for ever.
    let mut detail = call.backend.function(&name).ok_or_else(|| no_function(&name))?;
    if call.query.switch("watch")? {
        let filter = FunctionFilter {
            function: Some(name),
            reach: call.reach.clone(),
            ..FunctionFilter::default()
        };
        return Ok(lines(call.backend.watch(filter), Framing::Lines));
    }
    if role < Some(Role::Admin) {
        hide_values(&mut detail.more.manifest);
    }
    tagged(&detail)
}

/// Removes the values of `[env]` from a manifest or the configuration, and keeps the names: users put passwords there.
pub(super) fn hide_values(value: &mut Value) {
    visit_members(value, &mut |key, member| match member {
        Value::Object(variables) if key == "env" => {
            variables.values_mut().for_each(|value| *value = Value::Null);
            true
        }
        _ => false,
    });
}

/// `POST /v1/functions/F/enable` and `disable`: the setting is kept across restarts.
async fn set_enabled(call: ControlCall, enabled: bool) -> Result<Answered, Refusal> {
    set(call, enabled, if enabled { "enabled" } else { "disabled" }).await
}

/// `POST /v1/functions/F/start` and `stop`: the same setting, in the words of services.
async fn set_started(call: ControlCall, started: bool) -> Result<Answered, Refusal> {
    let (instead, state) = if started {
        ("enable", "started")
    } else {
        ("disable", "stopped")
    };
    let function = call.function()?;
    // Without a version that can run, nobody knows the mode, and the setting waits for a version.
    if let Some(bounds) = call
        .backend
        .bounds(&function)
        .filter(|bounds| bounds.mode != Mode::Service)
    {
        let mode = bounds.mode.as_str();
        let detail = format!(
            "only services are started and stopped, and the mode of `{function}` is `{mode}`: `fndctl {instead} {function}`"
        );
        return Err(Problem::new(Code::BadRequest, detail).of(&function).into());
    }
    set(call, started, state).await
}

/// `POST /v1/functions/F/restart`: new processes, with the same version. Nothing of it outlives fnd.
async fn restart(call: ControlCall) -> Result<Answered, Refusal> {
    let function = call.function()?;
    possible(call.backend.restart(&function), &function)?;
    changed("restarting")
}

/// `POST /v1/functions/F/shell`: says where `fndctl shell` finds its processes. fnd opens no shell: it is a POST for the entry that it
/// makes in the audit.
async fn shell(call: ControlCall) -> Result<Answered, Refusal> {
    let function = call.function()?;
    json(&possible(call.backend.shell_target(&function), &function)?)
}

/// Returns what can be done with a function; refuses where nothing is known of the function, or where it is not possible.
fn possible<T>(found: Option<Result<T, String>>, function: &FunctionName) -> Result<T, Refusal> {
    let possible = found.ok_or_else(|| no_function(function))?;
    possible.map_err(|why| Problem::new(Code::BadRequest, why).of(function).into())
}

async fn set(call: ControlCall, enabled: bool, state: &str) -> Result<Answered, Refusal> {
    let function = call.function()?;
    match wait(call.backend.set_enabled(&function, enabled, call.caller.uid)).await? {
        Answer::Done => changed(state),
        Answer::NotFound => Err(no_function(&function)),
        Answer::StoreFailed => Err(not_changed()),
        // Its manifest keeps it disabled, whatever a person says.
        Answer::Rejected(Rejection::Invalid { error }) => {
            let problem = Problem::new(Code::Disabled, format!("`{function}` stays disabled: {error}"));
            Err(problem.of(&function).into())
        }
        other => Err(internal(
            "enable or disable",
            &format!("the supervisor answered {other:?}"),
        )),
    }
}

// `POST /v1/functions/F/build`: installs the dependencies of a function again, if they are not there; with `clean=1` in any
// case.

/// Answers with the function once it is installed. The caller may leave earlier.
pub(super) async fn build(call: ControlCall) -> Result<Answered, Refusal> {
    let clean = call.query.switch("clean")?;
    let function = call.function()?;
    let built = call
        .backend
        .build(&function, clean)
        .ok_or_else(|| no_function(&function))?;
    if let Err(why) = built.await {
        let problem = Problem::new(Code::Release, format!("`{function}`: {why}"));
        return Err(problem.of(&function).into());
    }
    tagged(&call.backend.function(&function).ok_or_else(|| no_function(&function))?)
}

/// `GET /v1/usage`: what functions use now.
pub(super) async fn usage(call: ControlCall) -> Result<Answered, Refusal> {
    let usage = call.backend.usage().await;
    let mut list = usage.map_err(failed("read the counters of functions"))?;
    list.functions.retain(|usage| call.reach.views(&usage.function));
    long_json(list.functions.len(), list).await
}

// `GET /v1/schedules[?function=F&next=N]`; `POST /v1/functions/F/schedules/pause` and `resume`.

/// Slots of a schedule in one answer: the default, and the most.
const NEXT: (u32, u32) = (1, 100);

pub(super) async fn schedules(call: ControlCall) -> Result<Answered, Refusal> {
    let function = call.query.function("function")?;
    let next = call.query.count("next", NEXT)?;
    let schedules = call.backend.schedules(function, next as usize).await;
    let mut list = schedules.map_err(failed("read the last scheduled runs"))?;
    list.schedules.retain(|schedule| call.reach.views(&schedule.function));
    long_json(list.schedules.len(), list).await
}

async fn set_paused(call: ControlCall, paused: bool) -> Result<Answered, Refusal> {
    let function = call.function()?;
    let has_any = call.backend.pause_schedules(&function, paused).await;
    match has_any.map_err(|why| not_stored(&why))? {
        None => Err(no_function(&function)),
        Some(false) => Err(refuse(Code::BadRequest, format!("`{function}` has no schedule"))),
        Some(true) => changed(if paused { "paused" } else { "active" }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn of_an_environment_only_the_names_stay() {
        let mut value = json!({
            "env": {"PASSWORD": "hunter2"},
            "limits": {"memory": "256M"},
            "defaults": [{"env": {"A": "x", "env": "y"}}, {"env": "not a table"}],
        });
        super::hide_values(&mut value);
        let expected = json!({
            "env": {"PASSWORD": null},
            "limits": {"memory": "256M"},
            "defaults": [{"env": {"A": null, "env": null}}, {"env": "not a table"}],
        });
        assert_eq!(value, expected);
    }
}
