//! `GET /v1/functions[?label=k=v]` and `GET /v1/functions/F`, both with `watch=1` as a stream of changes.

use crate::control::answer::no_function;
use crate::control::backend::FunctionFilter;
use crate::control::request::{Call, Query, wrong};
use crate::control::response::{Answered, Framing, Refusal, json, lines};
use fnd_core::api::FunctionList;

/// Lists functions; of several labels each must be there.
pub(super) async fn list(call: Call) -> Result<Answered, Refusal> {
    let query = Query::of(&call, &["label", "watch"])?;
    let mut filter = FunctionFilter::default();
    for label in query.all("label") {
        let Some((key, value)) = label.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(wrong("label", "`KEY=VALUE`", label));
        };
        filter.labels.push((key.to_owned(), value.to_owned()));
    }
    if query.switch("watch")? {
        return Ok(lines(call.backend.watch(filter), Framing::Lines));
    }
    let mut functions = call.backend.functions();
    functions.retain(|status| filter.takes(&status.function, Some(status)));
    json(&FunctionList { functions })
}

/// Shows one function.
pub(super) async fn show(call: Call) -> Result<Answered, Refusal> {
    let query = Query::of(&call, &["watch"])?;
    let name = call.function()?;
    let detail = call.backend.function(&name).ok_or_else(|| no_function(&name))?;
    if query.switch("watch")? {
        let filter = FunctionFilter {
            function: Some(name),
            ..FunctionFilter::default()
        };
        return Ok(lines(call.backend.watch(filter), Framing::Lines));
    }
    json(&detail)
}
