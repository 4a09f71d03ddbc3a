//! Routes about invocations: the history, results, dead letters; to cancel and to run again.

use super::{ControlRoute, OPERATOR, VIEWER, changed};
use crate::backend::Repeated;
use crate::control::call::ControlCall;
use crate::control::limits::{PAGE, WAIT_MAX};
use crate::control::refusal::{failed, no_invocation, not_changed, not_stored};
use crate::http::response;
use crate::http::response::{Answered, Refusal, STATUS, internal, json, long_json, name_run};
use crate::invoke::answer::{of_end, of_run, wait};
use crate::invoke::refusal::about_run;
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_core::records::InvocationFilter;
use fnd_core::records::outcome::{Reason, RunState, Trigger};
use fnd_core::run::Answer;
use fnd_wire::ids::InvocationId;
use hyper::header::{CONTENT_TYPE, HeaderValue};

pub(super) static ROUTES: &[ControlRoute] = &[
    route!(GET "/v1/invocations" List VIEWER "history", list, Some(FILTER)),
    route!(GET "/v1/invocations/{id}" Invocation VIEWER "show-run", show, Some(&["wait"])),
    route!(GET "/v1/invocations/{id}/result" Invocation VIEWER "result", result),
    route!(GET "/v1/invocations/{id}/payload" Invocation VIEWER "payload", payload),
    route!(POST "/v1/invocations/{id}/cancel" Invocation OPERATOR "cancel", cancel),
    route!(POST "/v1/invocations/{id}/replay" Invocation OPERATOR "replay", repeat(Trigger::Replay)),
    route!(GET "/v1/dead-letters" List VIEWER "dead-letters", dead_letters, Some(DEAD_FILTER)),
    route!(GET "/v1/dead-letters/{id}" Invocation VIEWER "dead-letter", dead_letter),
    route!(POST "/v1/dead-letters/{id}/redrive" Invocation OPERATOR "redrive", repeat(Trigger::Redrive)),
    route!(DELETE "/v1/dead-letters/{id}" Invocation OPERATOR "drop", discard),
];

const FILTER: &[&str] = &[
    "function", "state", "reason", "trigger", "version", "text", "since", "until", "limit", "after", "usage", "parent",
];
/// Dead letters are filtered by all of these but the last two.
const DEAD_FILTER: &[&str] = FILTER.split_at(10).0;

const READ: &str = "read the history";

// `GET /v1/invocations` with its filters and `GET /v1/invocations/ID[?wait=30s]`.

/// Lists a page of invocations, newest first.
pub(super) async fn list(call: ControlCall) -> Result<Answered, Refusal> {
    let listed = call.backend.invocations(filter(&call)?).await;
    let list = listed.map_err(failed(READ))?;
    long_json(list.invocations.len(), list).await
}

/// Returns the filter of a request.
///
/// # Errors
/// If a parameter is wrong.
fn filter(call: &ControlCall) -> Result<InvocationFilter, Refusal> {
    let query = &call.query;
    Ok(InvocationFilter {
        function: query.function("function")?,
        state: query.get("state", "a state such as `failed`", RunState::parse)?,
        reason: query.get("reason", "a reason such as `timeout` or `exit-1`", Reason::parse)?,
        trigger: query.get("trigger", "a trigger such as `manual`", Trigger::parse)?,
        parent: query.get("parent", "the id of an invocation", InvocationId::parse)?,
        version: query.get("version", VERSION, version)?,
        text: query.text("text", "a part of a message")?,
        since_ms: query.instant("since")?,
        until_ms: query.instant("until")?,
        limit: Some(query.count("limit", PAGE)?),
        dead: false,
        after: query.get("after", "the cursor `next` of the page before", InvocationId::parse)?,
        usage: query.switch("usage")?,
        reach: call.reach.clone(),
    })
}

const VERSION: &str = "a version or its first digits, such as `sha256:4f2a`";

/// Returns the beginning of a version's hexadecimal form, in lower case; nothing if the text is none.
fn version(text: &str) -> Option<String> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text).to_ascii_lowercase();
    let fits = (1..=64).contains(&hex.len()) && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    fits.then_some(hex)
}

/// Shows one invocation: with `wait` when it has ended, or when the wait is over.
pub(super) async fn show(call: ControlCall) -> Result<Answered, Refusal> {
    let id = call.invocation()?;
    if let Some(wait) = call.query.duration("wait", WAIT_MAX)?
        && let Some(ended) = call.backend.ended(id)
    {
        // It has ended, fnd is stopping, or time is up: its state shows which.
        let _ = tokio::time::timeout(wait, ended).await;
    }
    json(&call.known_invocation(id).await?)
}

/// `GET /v1/invocations/ID/result`: the result of an invocation.
///
/// A stored result is answered with 200, whatever the state of the invocation (`Fnd-State` shows it) and whatever
/// status the function chose (`Fnd-Status` shows it). Of the function's other choices only the media type is used.
/// Without a stored result the answer is the one that the caller of `invoke` would have got.
pub(super) async fn result(call: ControlCall) -> Result<Answered, Refusal> {
    let id = call.invocation()?;
    let view = call.known_invocation(id).await?;
    if !view.state.is_final() {
        let detail = format!(
            "the invocation is {}: wait for it with `?wait=30s`",
            view.state.as_str()
        );
        return Err(about_run(Code::NotEnded, detail, (&view.function, id), view.reason));
    }
    let result = call.backend.result(id).await.map_err(failed("read the result"))?;
    let mut answer = match &result {
        Some(_) => response::result(result.as_ref()),
        None => of_end(&(&view).into(), None)?,
    };
    let headers = answer.headers_mut();
    name_run(headers, id, view.state);
    let chosen = result.as_ref().and_then(|result| result.response.as_deref());
    if let Some(status) = chosen.and_then(|chosen| chosen.status) {
        headers.insert(STATUS, status.into());
    }
    Ok(answer)
}

/// `GET /v1/invocations/ID/payload`: the payload of an invocation, byte for byte, with the media type that its caller stated.
pub(super) async fn payload(call: ControlCall) -> Result<Answered, Refusal> {
    let id = call.invocation()?;
    if let Some((media_type, bytes)) = call.backend.payload(id).await.map_err(failed("read the payload"))? {
        let mut answer = response::whole("application/octet-stream", bytes);
        // A media type that cannot be sent is left out.
        if let Some(media_type) = media_type.and_then(|text| HeaderValue::from_str(&text).ok()) {
            answer.headers_mut().insert(CONTENT_TYPE, media_type);
        }
        return Ok(answer);
    }
    let known = call.backend.function_of(id).await.map_err(failed(READ))?;
    let function = known.ok_or_else(|| no_invocation(id))?;
    let detail = "it has no payload that is stored: fnd keeps those of asynchronous runs and of runs that failed";
    Err(about_run(Code::NotKept, detail, (&function, id), None))
}

/// `POST /v1/invocations/ID/cancel`: requests the end of an invocation; the record shows when the end came.
pub(super) async fn cancel(call: ControlCall) -> Result<Answered, Refusal> {
    let id = call.invocation()?;
    match wait(call.backend.cancel(id)).await? {
        Answer::Done => changed("cancelling"),
        Answer::NotFound => {
            // The supervisor knows only invocations that have not ended; the history tells an ended one from an unknown
            // one.
            let view = call.known_invocation(id).await?;
            let detail = format!(
                "the invocation has ended ({}): there is nothing to cancel",
                view.state.as_str()
            );
            Err(about_run(Code::NotFound, detail, (&view.function, id), view.reason))
        }
        Answer::StoreFailed => Err(not_changed()),
        other => Err(internal("cancel", &format!("the supervisor answered {other:?}"))),
    }
}

/// `POST /v1/invocations/ID/replay` and `POST /v1/dead-letters/ID/redrive`: queues an invocation's payload again. A dead letter
/// leaves the list when the new invocation is on disk.
async fn repeat(call: ControlCall, trigger: Trigger) -> Result<Answered, Refusal> {
    let id = call.invocation()?;
    let repeated = call.backend.repeat(id, trigger).await;
    let (code, function, detail) = match repeated.map_err(failed(READ))? {
        Repeated::Asked(function, answering) => {
            return of_run(wait(answering).await?, &function, None);
        }
        Repeated::Unknown => return Err(no_invocation(id)),
        Repeated::NotEnded(function, state) => {
            let detail = format!(
                "the invocation is {}: it can be repeated when it has ended",
                state.as_str()
            );
            (Code::NotEnded, function, detail)
        }
        Repeated::NotDead(function, state) => {
            let detail = format!(
                "this invocation ({}) is no dead letter: it ended otherwise, was not asynchronous, or was redriven or dropped \
                 before; `fndctl replay` runs any again",
                state.as_str()
            );
            (Code::NotFound, function, detail)
        }
        Repeated::Superseded(function, node) => {
            let detail = format!(
                "`{node}` has the record of this work, and redrives it if it failed; `fndctl replay` runs it here"
            );
            (Code::Conflict, function, detail)
        }
        Repeated::NotKept(function) => {
            let detail =
                "its payload was not kept, since it was a synchronous call that succeeded; only its record exists";
            (Code::NotKept, function, detail.to_owned())
        }
    };
    Err(about_run(code, detail, (&function, id), None))
}

// `GET /v1/dead-letters[/ID]`, `DELETE /v1/dead-letters/ID`.

/// Lists a page of dead letters, newest first.
pub(super) async fn dead_letters(call: ControlCall) -> Result<Answered, Refusal> {
    let listed = call.backend.dead_letters(filter(&call)?).await;
    let list = listed.map_err(failed(READ))?;
    long_json(list.dead_letters.len(), list).await
}

/// Shows one dead letter with its payload.
pub(super) async fn dead_letter(call: ControlCall) -> Result<Answered, Refusal> {
    let id = call.invocation()?;
    let found = call.backend.dead_letter(id).await.map_err(failed(READ))?;
    json(&found.ok_or_else(|| no_dead_letter(id))?)
}

/// Removes a dead letter permanently.
pub(super) async fn discard(call: ControlCall) -> Result<Answered, Refusal> {
    let id = call.invocation()?;
    let was_there = call.backend.drop_dead_letter(id).await;
    let was_there = was_there.map_err(failed(READ))?;
    if !was_there.map_err(|why| not_stored(&why))? {
        return Err(no_dead_letter(id));
    }
    changed("dropped")
}

fn no_dead_letter(id: InvocationId) -> Refusal {
    let detail = format!(
        "there is no dead letter `{id}`: it never existed, was redriven or dropped, or its history was deleted"
    );
    Problem::new(Code::NotFound, detail).in_invocation(id, None).into()
}
