//! `POST /v1/validate`: checks a file without running or keeping it.

use crate::control::call::Call;
use crate::control::limits::BODY_MAX;
use crate::control::refusal::failed;
use crate::http::response::{Answered, Refusal, internal, json, refuse};
use fnd_core::api::problem::Code;

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let body = call.read_body(BODY_MAX, "the limit of this route").await?;
    let bytes = body
        .bytes()
        .map_err(|error| internal("read a body from the disk", &error))?;
    let request = serde_json::from_slice(&bytes).map_err(|error| {
        refuse(
            Code::BadJson,
            format!("the body is not `{{\"name\": ..., \"content\": ...}}` in JSON: {error}"),
        )
    })?;
    json(&call.backend.validate(request).await.map_err(failed("validate"))?)
}
