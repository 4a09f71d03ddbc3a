//! `POST /v1/drain[?wait=30s]`: accepts no new work from now on; answers 200 when nothing runs any more, 202 before
//! that.

use crate::control::call::Call;
use crate::control::limits::WAIT_MAX;
use crate::http::response::{Answered, Refusal, json};
use fnd_core::api::Changed;
use hyper::StatusCode;
use std::time::Duration;

pub(super) async fn answer(call: Call) -> Result<Answered, Refusal> {
    let query = call.request.query(&["wait"])?;
    let wait = query.duration("wait", WAIT_MAX)?.unwrap_or(Duration::ZERO);
    let drained = call.backend.drain();
    // A dropped sender means that the daemon is stopping, which it does when it is drained.
    if tokio::time::timeout(wait, drained).await.is_ok() {
        return json(&Changed {
            state: "drained".to_owned(),
        });
    }
    let mut answer = json(&Changed {
        state: "draining".to_owned(),
    })?;
    *answer.status_mut() = StatusCode::ACCEPTED;
    Ok(answer)
}
