//! `POST /v1/drain[?wait=30s]`: accepts no new work from now on; answers 200 when nothing runs any more, 202 before
//! that. `DELETE /v1/drain`: accepts work again.

use crate::control::call::ControlCall;
use crate::control::limits::WAIT_MAX;
use crate::http::response::{Answered, Refusal, json, refuse};
use fnd_core::api::Changed;
use fnd_core::api::problem::Code;
use hyper::StatusCode;
use std::time::Duration;

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    let query = call.request.query(&["wait"])?;
    let wait = query.duration("wait", WAIT_MAX)?.unwrap_or(Duration::ZERO);
    let drained = call.backend.drain();
    match tokio::time::timeout(wait, drained).await {
        Ok(Ok(false)) => state("running"),
        // A dropped sender means that the drain is over, or that the daemon is stopping, which it does when it is
        // drained.
        Ok(Ok(true) | Err(_)) => state("drained"),
        Err(_) => {
            let mut answer = state("draining")?;
            *answer.status_mut() = StatusCode::ACCEPTED;
            Ok(answer)
        }
    }
}

/// Cancels a drain; nothing changes if there is none.
pub(super) async fn cancel(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    if call.backend.cancel_drain() {
        state("running")
    } else {
        let why = "fnd is stopping: this drain cannot be cancelled";
        Err(refuse(Code::Unavailable, why))
    }
}

fn state(state: &str) -> Result<Answered, Refusal> {
    json(&Changed {
        state: state.to_owned(),
    })
}
