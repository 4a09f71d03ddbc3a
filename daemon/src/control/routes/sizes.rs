//! `GET /v1/sizes`: the presets of limits.

use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal, json};
use fnd_core::api::SizeList;

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    json(&SizeList {
        sizes: call.backend.sizes(),
    })
}
