//! `GET /v1/status`: the node and its functions.

use crate::control::call::Call;
use crate::http::response::{Answered, Refusal, json};

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    json(&call.backend.node_status())
}
