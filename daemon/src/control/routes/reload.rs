//! `POST /v1/reload`: reads configuration and functions again; answers when every difference is applied or refused.

use crate::control::answer::failed;
use crate::control::request::{Call, Query};
use crate::control::response::{Answered, Refusal, json};

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    Query::of(&call, &[])?;
    json(&call.backend.reload().await.map_err(failed("reload"))?)
}
