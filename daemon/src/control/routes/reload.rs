//! `POST /v1/reload`: reads configuration and functions again; answers when every difference is applied or refused.
//! With `?accept-empty=1` an empty functions directory is accepted as empty.

use crate::control::call::ControlCall;
use crate::control::refusal::failed;
use crate::http::response::{Answered, Refusal, json};

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    let accept_empty = call.request.query(&["accept-empty"])?.switch("accept-empty")?;
    json(&call.backend.reload(accept_empty).await.map_err(failed("reload"))?)
}
