//! `GET /v1/config`: the effective configuration. Secrets are never part of it.

use crate::control::request::{Call, Query};
use crate::control::response::{Answered, Refusal, json};

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    Query::of(&call, &[])?;
    json(&call.backend.config())
}
