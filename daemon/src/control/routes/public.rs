//! `GET /v1/routes`: the routes of the public listener; `POST /v1/routes/test`: what would become of a request.

use crate::control::call::Call;
use crate::control::limits::BODY_MAX;
use crate::http::response::{Answered, Refusal, internal, json, refuse};
use fnd_core::api::problem::Code;

pub(super) async fn list(call: Call) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    json(&call.backend.route_list())
}

pub(super) async fn test(call: Call) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let body = call.read_body(BODY_MAX, "the limit of this route").await?;
    let bytes = body
        .bytes()
        .map_err(|error| internal("read a body from the disk", &error))?;
    let request = serde_json::from_slice(&bytes).map_err(|error| {
        let detail = format!("the body is not `{{\"method\": ..., \"url\": ...}}` in JSON: {error}");
        refuse(Code::BadJson, detail)
    })?;
    let report = call.backend.try_request(request).await;
    json(&report.map_err(|wrong| refuse(Code::BadRequest, wrong))?)
}
