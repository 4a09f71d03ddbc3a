//! `GET /v1/stream`: events as server-sent events, or as one JSON object per line for a client that accepts
//! `application/x-ndjson`.
//!
//! `since=SEQ`, or the `Last-Event-ID` that a browser sends when it reconnects, continues after that event.

use crate::control::call::ControlCall;
use crate::control::limits::{EVENTS_MAX, LINES};
use crate::http::query::wrong;
use crate::http::response::{Answered, Refusal};
use crate::http::stream::{Framing, lines};
use crate::stream::{Since, StreamQuery};
use fnd_core::api::stream::{Kind, Seq};
use fnd_wire::ids::FunctionName;

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["since", "function", "kind", "limit", "follow"])?;
    let function = query.get("function", "the name of a function", |text| {
        FunctionName::new(text).ok()
    })?;
    let since = query.get("since", SINCE, since)?;
    let last = call.request.header("last-event-id")?.filter(|text| !text.is_empty());
    // A browser that reconnects sends the same query again, so `since` is where it began and the header where it has come to.
    let from = match (last, since) {
        (Some(last), _) => since_last(last)?,
        (None, Some(from)) => from,
        (None, None) => Since::Kept,
    };
    let mut kinds = Vec::new();
    for text in query.all("kind").flat_map(|list| list.split(',')) {
        kinds.push(Kind::parse(text).ok_or_else(|| wrong("kind", &known(), text))?);
    }
    let limited = query.all("limit").next().is_some();
    let limit = query.count("limit", (LINES.0, EVENTS_MAX))?;
    let follow = query.all("follow").next().is_none() || query.switch("follow")?;
    let events = call.backend.stream(StreamQuery {
        function,
        kinds,
        from,
        limit: limited.then_some(limit),
        follow,
        reach: call.reach.clone(),
    });
    let accepts = call.request.header("accept")?.unwrap_or("");
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

fn since_last(text: &str) -> Result<Since, Refusal> {
    since(text).ok_or_else(|| wrong("Last-Event-ID", SINCE, text))
}

fn known() -> String {
    let words: Vec<&str> = Kind::ALL.into_iter().map(Kind::as_str).collect();
    format!("some of `{}`, with commas between", words.join("`, `"))
}
