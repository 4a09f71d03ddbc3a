//! `GET /v1/functions[?label=k=v]` and `GET /v1/functions/F`.

use crate::control::answer::no_function;
use crate::control::request::{Call, Query, wrong};
use crate::control::response::{Answered, Refusal, json};
use fnd_core::api::FunctionList;

/// Lists functions; of several labels each must be there.
pub(super) async fn list(call: Call) -> Result<Answered, Refusal> {
    let query = Query::of(&call, &["label"])?;
    let mut functions = call.backend.functions();
    for label in query.all("label") {
        let Some((key, value)) = label.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(wrong("label", "`KEY=VALUE`", label));
        };
        functions.retain(|function| function.labels.get(key).is_some_and(|found| found == value));
    }
    json(&FunctionList { functions })
}

/// Shows one function.
pub(super) async fn show(call: Call) -> Result<Answered, Refusal> {
    Query::of(&call, &[])?;
    let name = call.function()?;
    let detail = call.backend.function(&name).ok_or_else(|| no_function(&name))?;
    json(&detail)
}
