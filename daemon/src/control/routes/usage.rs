//! `GET /v1/usage`: what functions use now.

use crate::control::call::ControlCall;
use crate::control::refusal::failed;
use crate::http::response::{Answered, Refusal, long_json};

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let usage = call.backend.usage().await;
    let mut list = usage.map_err(failed("read the counters of functions"))?;
    list.functions.retain(|usage| call.reach.views(&usage.function));
    let items = list.functions.len();
    long_json(list, items).await
}
