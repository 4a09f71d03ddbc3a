//! `GET /v1/invocations/ID/result`: the result of an invocation.
//!
//! A stored result is answered with 200, whatever the state of the invocation (`Fnd-State` shows it) and whatever
//! status the function chose (`Fnd-Status` shows it). Of the function's other choices only the media type is used.
//! Without a stored result the answer is the one that the caller of `invoke` would have got.

use crate::control::call::ControlCall;
use crate::control::refusal::{failed, no_invocation};
use crate::http::response::{self, Answered, INVOCATION, Refusal, STATE, STATUS, header};
use crate::invoke::answer::of_end;
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let id = call.invocation()?;
    let view = call.backend.invocation(id).await.map_err(failed("read the history"))?;
    let view = view.ok_or_else(|| no_invocation(id))?;
    if !view.state.is_final() {
        let detail = format!(
            "the invocation is {}: wait for it with `?wait=30s`",
            view.state.as_str()
        );
        return Err(Problem::new(Code::NotEnded, detail)
            .of(&view.function)
            .in_invocation(id, view.reason)
            .into());
    }
    let result = call.backend.result(id).await.map_err(failed("read the result"))?;
    let mut answer = match &result {
        Some(_) => response::result(result.as_ref()),
        None => of_end(&(&view).into(), None)?,
    };
    let headers = answer.headers_mut();
    headers.insert(INVOCATION, header(&id.to_string()));
    headers.insert(STATE, header(view.state.as_str()));
    let chosen = result.as_ref().and_then(|result| result.response.as_deref());
    if let Some(status) = chosen.and_then(|chosen| chosen.status) {
        headers.insert(STATUS, status.into());
    }
    Ok(answer)
}
