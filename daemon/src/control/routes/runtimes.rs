//! `GET /v1/runtimes`: the runtimes that fnd knows.

use crate::control::request::{Call, Query};
use crate::http::response::{Answered, Refusal, json};
use fnd_core::api::RuntimeList;

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    Query::of(&call, &[])?;
    json(&RuntimeList {
        runtimes: call.backend.runtimes(),
    })
}
