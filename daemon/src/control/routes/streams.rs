//! Routes for data that is still arriving: output and events.

use super::{ControlRoute, VIEWER};
use crate::backend::LogQuery;
use crate::control::call::ControlCall;
use crate::control::limits::{EVENTS_MAX, LINES};
use crate::control::refusal::failed;
use crate::http::query::wrong;
use crate::http::response::{Answered, Refusal};
use crate::http::stream::{Framing, lines};
use crate::invoke::refusal::no_function;
use crate::stream::{Since, StreamQuery};
use fnd_core::api::stream::{Kind, Seq};
use fnd_core::records::InvocationFilter;
use fnd_wire::ids::FunctionName;
use hyper::header::{ACCEPT, HeaderName};

pub(super) static ROUTES: &[ControlRoute] = &[
    route!(GET "/v1/invocations/{id}/logs" Invocation VIEWER "logs", logs_of_invocation, Some(&["since", "until", "limit", "follow"])),
    route!(GET "/v1/logs" List VIEWER "logs", logs, Some(&["function", "since", "until", "limit", "follow"])),
    route!(GET "/v1/stream" List VIEWER "events", stream, Some(&["since", "function", "kind", "limit", "follow"])),
];

// `GET /v1/invocations/ID/logs` and `GET /v1/logs`: kept output, and with `follow=1` new output, one JSON object per
// line.

/// Returns output of one invocation. With `follow=1` the answer ends when the invocation ends.
pub(super) async fn logs_of_invocation(call: ControlCall) -> Result<Answered, Refusal> {
    let id = call.invocation()?;
    let view = call.known_invocation(id).await?;
    send_logs(
        &call,
        LogQuery {
            // The function may be deleted, or be one of fnd's own.
            function: Some(view.function),
            invocation: Some(id),
            ..log_query(&call)?
        },
    )
    .await
}

/// Returns output of one function or of all.
pub(super) async fn logs(call: ControlCall) -> Result<Answered, Refusal> {
    let function = call.query.function("function")?;
    if let Some(name) = &function {
        // A function that the caller may not view gets the answer of one that never existed.
        let known = call.reach.views(name) && (call.backend.function(name).is_some() || has_run(&call, name).await?);
        known.then_some(()).ok_or_else(|| no_function(name))?;
    }
    send_logs(
        &call,
        LogQuery {
            function,
            ..log_query(&call)?
        },
    )
    .await
}

/// Returns whether the history knows a run of a function. The function may be deleted: its output is kept as long as its history.
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

fn log_query(call: &ControlCall) -> Result<LogQuery, Refusal> {
    let query = &call.query;
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

async fn send_logs(call: &ControlCall, query: LogQuery) -> Result<Answered, Refusal> {
    let framing = if query.follow { Framing::Lines } else { Framing::List };
    let found = call.backend.logs(query).await.map_err(failed("read the output"))?;
    Ok(lines(found, framing))
}

/// `GET /v1/stream`: events as server-sent events, or as one JSON object per line for a client that accepts
/// `application/x-ndjson`.
///
/// `since=SEQ`, or the `Last-Event-ID` that a browser sends when it reconnects, continues after that event.
pub(super) async fn stream(call: ControlCall) -> Result<Answered, Refusal> {
    let query = &call.query;
    let function = query.function("function")?;
    let since = query.get("since", SINCE, since)?;
    let last = call
        .request
        .header(&HeaderName::from_static("last-event-id"))?
        .filter(|text| !text.is_empty());
    // A browser that reconnects sends the same query again. So `since` is where it began, and the header says how far it has
    // come.
    let from = match (last, since) {
        (Some(last), _) => self::since(last).ok_or_else(|| wrong("Last-Event-ID", SINCE, last))?,
        (None, Some(from)) => from,
        (None, None) => Since::Kept,
    };
    let mut kinds = Vec::new();
    for text in query.all("kind").flat_map(|list| list.split(',')) {
        kinds.push(Kind::parse(text).ok_or_else(|| wrong("kind", &known(), text))?);
    }
    let limit = query.at_most("limit", EVENTS_MAX)?;
    let follow = query.switch_or("follow", true)?;
    let events = call.backend.stream(StreamQuery {
        function,
        kinds,
        from,
        // Without a limit in the query all kept events are sent, however many there are.
        limit,
        follow,
        reach: call.reach.clone(),
    });
    let accepts = call.request.header(&ACCEPT)?.unwrap_or("");
    let framing = if accepts.contains("application/x-ndjson") {
        Framing::Lines
    } else {
        Framing::Events
    };
    Ok(lines(events, framing))
}

const SINCE: &str = "the `seq` of an event, `now`, or `0` for everything that is kept";

fn since(text: &str) -> Option<Since> {
    match text {
        "now" => Some(Since::Now),
        "0" => Some(Since::Kept),
        _ => Seq::parse(text).map(Since::After),
    }
}

fn known() -> String {
    let words: Vec<&str> = Kind::ALL.into_iter().map(Kind::as_str).collect();
    format!("some of `{}`, with commas between", words.join("`, `"))
}
