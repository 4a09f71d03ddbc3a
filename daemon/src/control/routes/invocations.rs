//! `GET /v1/invocations` with its filters and `GET /v1/invocations/ID[?wait=30s]`.

use crate::control::call::ControlCall;
use crate::control::limits::{PAGE, WAIT_MAX};
use crate::control::refusal::{failed, no_invocation};
use crate::http::response::{Answered, Refusal, json, long_json};
use fnd_core::records::InvocationFilter;
use fnd_core::records::outcome::{Reason, RunState, Trigger};
use fnd_wire::ids::{FunctionName, InvocationId};

/// Lists a page of invocations, newest first.
pub(super) async fn list(call: ControlCall) -> Result<Answered, Refusal> {
    let listed = call.backend.invocations(filter(&call, &["usage", "parent"])?).await;
    let list = listed.map_err(failed("read the history"))?;
    let items = list.invocations.len();
    long_json(list, items).await
}

/// Returns the filter of a request, which may have these parameters as well.
///
/// # Errors
/// If a parameter is unknown or wrong.
pub(super) fn filter(call: &ControlCall, more: &[&'static str]) -> Result<InvocationFilter, Refusal> {
    let mut known = vec![
        "function", "state", "reason", "trigger", "version", "text", "since", "until", "limit", "after",
    ];
    known.extend(more);
    let query = call.request.query(&known)?;
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    Ok(InvocationFilter {
        function: query.get("function", "the name of a function", |text| {
            FunctionName::new(text).ok()
        })?,
        state: query.get("state", "a state such as `failed`", RunState::parse)?,
        reason: query.get("reason", "a reason such as `timeout` or `exit-1`", Reason::parse)?,
        trigger: query.get("trigger", "a trigger such as `manual`", Trigger::parse)?,
        parent: query.get("parent", "the id of an invocation", InvocationId::parse)?,
        version: query.get("version", VERSION, version)?,
        text: query.get("text", "a part of a message", some)?,
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

/// Shows one invocation, when it has ended or the wait is over.
pub(super) async fn show(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["wait"])?;
    let id = call.invocation()?;
    if let Some(wait) = query.duration("wait", WAIT_MAX)?
        && let Some(ended) = call.backend.ended(id)
    {
        // It has ended, fnd is stopping, or time is up: its state shows which.
        let _ = tokio::time::timeout(wait, ended).await;
    }
    let view = call.backend.invocation(id).await.map_err(failed("read the history"))?;
    json(&view.ok_or_else(|| no_invocation(id))?)
}
