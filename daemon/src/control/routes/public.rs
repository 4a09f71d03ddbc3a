//! `GET /v1/routes`: the routes of the public listener; `POST /v1/routes/test`: what would become of a request.

use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal, json, long_json, refuse};
use fnd_core::api::problem::Code;

pub(super) async fn list(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let mut list = call.backend.route_list();
    list.routes.retain(|route| call.reach.views(&route.function));
    if !call.reach.views_any(None) {
        list.events = None;
    }
    let items = list.routes.len();
    long_json(list, items).await
}

pub(super) async fn test(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let request = call.read_json(r#"{"method": ..., "url": ...}"#).await?;
    let report = call.backend.try_request(request).await;
    json(&report.map_err(|wrong| refuse(Code::BadRequest, wrong))?)
}
