//! `POST /v1/validate`: checks a file without running or keeping it.

use crate::control::call::ControlCall;
use crate::control::refusal::failed;
use crate::http::response::{Answered, Refusal, json};

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let request = call.read_json(r#"{"name": ..., "content": ...}"#).await?;
    json(&call.backend.validate(request).await.map_err(failed("validate"))?)
}
