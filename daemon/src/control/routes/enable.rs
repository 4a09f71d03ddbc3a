//! `POST /v1/functions/F/enable` and `disable`: the setting is kept across restarts.

use crate::control::call::ControlCall;
use crate::control::refusal::not_changed;
use crate::http::response::{Answered, Refusal, internal, json};
use crate::invoke::answer::wait;
use crate::invoke::refusal::no_function;
use fnd_core::api::Changed;
use fnd_core::supervisor::Answer;

pub(super) async fn enable(call: ControlCall) -> Result<Answered, Refusal> {
    set(call, true).await
}

pub(super) async fn disable(call: ControlCall) -> Result<Answered, Refusal> {
    set(call, false).await
}

async fn set(call: ControlCall, enabled: bool) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let function = call.function()?;
    match wait(call.backend.set_enabled(&function, enabled)).await? {
        Answer::Done => json(&Changed {
            state: if enabled { "enabled" } else { "disabled" }.to_owned(),
        }),
        Answer::NotFound => Err(no_function(&function)),
        Answer::StoreFailed => Err(not_changed()),
        other => Err(internal(
            "enable or disable",
            &format!("the supervisor answered {other:?}"),
        )),
    }
}
