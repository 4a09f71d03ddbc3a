//! Routes about functions: lists and details, enabling, builds, usage, schedules.

use super::deploy::tagged;
use super::{ControlRoute, OPERATOR, VIEWER};
use crate::backend::FunctionFilter;
use crate::control::call::ControlCall;
use crate::control::refusal::{failed, not_changed, not_stored};
use crate::http::query::wrong;
use crate::http::response::{Answered, Refusal, RefusedResponse, internal, json, long_json, refuse};
use crate::http::stream::{Framing, lines};
use crate::invoke::answer::wait;
use crate::invoke::refusal::no_function;
use fnd_core::api::problem::Code;
use fnd_core::api::{Changed, FunctionList, Problem};
use fnd_core::json::visit_members;
use fnd_core::run::{Answer, Rejection};
use fnd_manifest::settings::Role;
use fnd_wire::ids::FunctionName;
use serde_json::Value;

pub(super) static ROUTES: &[ControlRoute] = &[
    route!(GET "/v1/functions" List VIEWER "list", list),
    route!(GET "/v1/functions/{function}" Function VIEWER "show", show),
    route!(POST "/v1/functions/{function}/enable" Function OPERATOR "enable", enable),
    route!(POST "/v1/functions/{function}/disable" Function OPERATOR "disable", disable),
    route!(POST "/v1/functions/{function}/build" Function OPERATOR "build", build),
    route!(POST "/v1/functions/{function}/schedules/pause" Function OPERATOR "pause", pause_schedules),
    route!(POST "/v1/functions/{function}/schedules/resume" Function OPERATOR "resume", resume_schedules),
    route!(GET "/v1/schedules" List VIEWER "schedules", schedules),
    route!(GET "/v1/usage" List VIEWER "usage", usage),
];

// `GET /v1/functions[?label=k=v]` and `GET /v1/functions/F`, both with `watch=1` as a stream of changes.

/// Lists functions; a function must have all given labels.
pub(super) async fn list(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["label", "watch"])?;
    let mut filter = FunctionFilter {
        reach: call.reach.clone(),
        ..FunctionFilter::default()
    };
    for label in query.all("label") {
        let Some((key, value)) = label.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(wrong("label", "`KEY=VALUE`", label));
        };
        filter.labels.push((key.to_owned(), value.to_owned()));
    }
    if query.switch("watch")? {
        return Ok(lines(call.backend.watch(filter), Framing::Lines));
    }
    let functions = call.backend.functions(filter).await;
    let items = functions.len();
    long_json(FunctionList { functions }, items).await
}

pub(super) async fn show(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["watch"])?;
    let name = call.function()?;
    // A caller who has just saved the file waits for it, as with a call. The answer shows what came of it, whether in time or not.
    if call.request.header("fnd-saved")?.is_some() {
        call.backend.saved(&name).await;
    }
    let role = call.reach.function(&name);
    // Asked for a watch, too: a watch of an unknown function would be silent for ever.
    let mut detail = call.backend.function(&name).ok_or_else(|| no_function(&name))?;
    if query.switch("watch")? {
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
pub(super) async fn enable(call: ControlCall) -> Result<Answered, Refusal> {
    set_enabled(call, true).await
}

pub(super) async fn disable(call: ControlCall) -> Result<Answered, Refusal> {
    set_enabled(call, false).await
}

async fn set_enabled(call: ControlCall, enabled: bool) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let function = call.function()?;
    match wait(call.backend.set_enabled(&function, enabled)).await? {
        Answer::Done => json(&Changed {
            state: if enabled { "enabled" } else { "disabled" }.to_owned(),
        }),
        Answer::NotFound => Err(no_function(&function)),
        Answer::StoreFailed => Err(not_changed()),
        // Its manifest keeps it disabled, whatever a person says.
        Answer::Rejected(Rejection::Invalid { error }) => {
            let problem = Problem::new(Code::Disabled, format!("`{function}` stays disabled: {error}"));
            Err(Box::new(RefusedResponse {
                problem: problem.of(&function),
                retry_after: None,
                allow: None,
            }))
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
    let clean = call.request.query(&["clean"])?.switch("clean")?;
    let function = call.function()?;
    let built = call
        .backend
        .build(&function, clean)
        .ok_or_else(|| no_function(&function))?;
    if let Err(why) = built.await {
        let problem = Problem::new(Code::Release, format!("`{function}`: {why}"));
        return Err(Box::new(RefusedResponse {
            problem: problem.of(&function),
            retry_after: None,
            allow: None,
        }));
    }
    tagged(&call.backend.function(&function).ok_or_else(|| no_function(&function))?)
}

/// `GET /v1/usage`: what functions use now.
pub(super) async fn usage(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let usage = call.backend.usage().await;
    let mut list = usage.map_err(failed("read the counters of functions"))?;
    list.functions.retain(|usage| call.reach.views(&usage.function));
    let items = list.functions.len();
    long_json(list, items).await
}

// `GET /v1/schedules[?function=F&next=N]`; `POST /v1/functions/F/schedules/pause` and `resume`.

/// Most slots of a schedule in one answer.
const NEXT_MAX: usize = 100;

pub(super) async fn schedules(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["function", "next"])?;
    let function = query.get("function", "the name of a function", |text| {
        FunctionName::new(text).ok()
    })?;
    let count = |text: &str| text.parse().ok().filter(|count| (1..=NEXT_MAX).contains(count));
    let next = query.get("next", "a number from 1 to 100", count)?.unwrap_or(1);
    let schedules = call.backend.schedules(function, next).await;
    let mut list = schedules.map_err(failed("read the last scheduled runs"))?;
    list.schedules.retain(|schedule| call.reach.views(&schedule.function));
    let items = list.schedules.len();
    long_json(list, items).await
}

pub(super) async fn pause_schedules(call: ControlCall) -> Result<Answered, Refusal> {
    set_paused(call, true).await
}

pub(super) async fn resume_schedules(call: ControlCall) -> Result<Answered, Refusal> {
    set_paused(call, false).await
}

async fn set_paused(call: ControlCall, paused: bool) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let function = call.function()?;
    let changed = call.backend.pause_schedules(&function, paused).await;
    match changed.map_err(|why| not_stored(&why))? {
        None => Err(no_function(&function)),
        Some(false) => Err(refuse(Code::BadRequest, format!("`{function}` has no schedule"))),
        Some(true) => json(&Changed {
            state: if paused { "paused" } else { "active" }.to_owned(),
        }),
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
