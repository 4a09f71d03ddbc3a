//! `GET /v1/runtimes`: the runtimes that fnd knows.

use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal, json};
use fnd_core::api::RuntimeList;

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    json(&RuntimeList {
        runtimes: call.backend.runtimes(),
    })
}
