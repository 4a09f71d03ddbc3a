//! `GET /v1/status`: the node and its functions.

use crate::control::request::{Call, Query};
use crate::http::response::{Answered, Refusal, json};

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    Query::of(&call, &[])?;
    json(&call.backend.node_status())
}
