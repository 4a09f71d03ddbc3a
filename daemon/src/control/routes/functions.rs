//! `GET /v1/functions[?label=k=v]` and `GET /v1/functions/F`, both with `watch=1` as a stream of changes.

use super::deploy::tagged;
use crate::backend::FunctionFilter;
use crate::control::call::ControlCall;
use crate::http::query::wrong;
use crate::http::response::{Answered, Refusal, long_json};
use crate::http::stream::{Framing, lines};
use crate::invoke::refusal::no_function;
use fnd_core::api::FunctionList;
use fnd_core::json::visit_members;
use fnd_manifest::settings::Role;
use serde_json::Value;

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
    let role = call.reach.function(&name);
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
