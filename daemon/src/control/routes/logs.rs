//! `GET /v1/invocations/ID/logs` and `GET /v1/logs`: kept output, and with `follow=1` new output, one JSON object per
//! line.

use crate::backend::LogQuery;
use crate::control::call::ControlCall;
use crate::control::limits::LINES;
use crate::control::refusal::{failed, no_invocation};
use crate::http::query::Query;
use crate::http::response::{Answered, Refusal};
use crate::http::stream::{Framing, lines};
use crate::invoke::refusal::no_function;
use fnd_core::records::InvocationFilter;
use fnd_wire::ids::FunctionName;

/// Returns output of one invocation; following it ends with its end.
pub(super) async fn of_invocation(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["since", "until", "limit", "follow"])?;
    let id = call.invocation()?;
    let view = call.backend.invocation(id).await.map_err(failed("read the history"))?;
    let view = view.ok_or_else(|| no_invocation(id))?;
    send(
        &call,
        LogQuery {
            // Also one that is deleted, or that is fnd's own.
            function: Some(view.function),
            invocation: Some(id),
            ..read(&call, &query)?
        },
    )
    .await
}

/// Returns output of one function or of all.
pub(super) async fn of_all(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["function", "since", "until", "limit", "follow"])?;
    let function = query.get("function", "the name of a function", |text| {
        FunctionName::new(text).ok()
    })?;
    if let Some(name) = &function {
        let known = call.reach.views(name) && (call.backend.function(name).is_some() || has_run(&call, name).await?);
        known.then_some(()).ok_or_else(|| no_function(name))?;
    }
    send(
        &call,
        LogQuery {
            function,
            ..read(&call, &query)?
        },
    )
    .await
}

/// Returns whether the history knows a run of a function, which may be deleted: its output is kept as long.
async fn has_run(call: &ControlCall, function: &FunctionName) -> Result<bool, Refusal> {
    let filter = InvocationFilter {
        function: Some(function.clone()),
        limit: Some(1),
        reach: call.reach.clone(),
        ..InvocationFilter::default()
    };
    let found = call
        .backend
        .invocations(filter)
        .await
        .map_err(failed("read the history"))?;
    Ok(!found.invocations.is_empty())
}

fn read(call: &ControlCall, query: &Query) -> Result<LogQuery, Refusal> {
    Ok(LogQuery {
        function: None,
        invocation: None,
        since_ms: query.instant("since")?,
        until_ms: query.instant("until")?,
        limit: query.count("limit", LINES)?,
        follow: query.switch("follow")?,
        reach: call.reach.clone(),
    })
}

async fn send(call: &ControlCall, query: LogQuery) -> Result<Answered, Refusal> {
    let framing = if query.follow { Framing::Lines } else { Framing::List };
    let found = call.backend.logs(query).await.map_err(failed("read the output"))?;
    Ok(lines(found, framing))
}
