//! `GET /v1/usage`: what functions use now.

use crate::control::call::Call;
use crate::control::refusal::failed;
use crate::http::response::{Answered, Refusal, json};

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    json(
        &call
            .backend
            .usage()
            .await
            .map_err(failed("read the counters of functions"))?,
    )
}
