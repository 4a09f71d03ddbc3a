//! `GET /v1/status`: the node and its functions; for a caller without a role for the node only the functions that it may
//! view.

use crate::control::call::Call;
use crate::http::response::{Answered, Refusal, json};

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    json(&call.backend.node_status().reduced(&call.reach))
}
