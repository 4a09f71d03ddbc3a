//! `POST /v1/invocations/ID/cancel`: requests the end of an invocation; the record shows when the end came.

use crate::control::call::ControlCall;
use crate::control::refusal::{failed, no_invocation, not_changed};
use crate::http::response::{Answered, Refusal, internal, json};
use crate::invoke::answer::wait;
use fnd_core::api::problem::Code;
use fnd_core::api::{Changed, Problem};
use fnd_core::supervisor::Answer;

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let id = call.invocation()?;
    match wait(call.backend.cancel(id)).await? {
        Answer::Done => json(&Changed {
            state: "cancelling".to_owned(),
        }),
        Answer::NotFound => {
            let known = call.backend.invocation(id).await.map_err(failed("read the history"))?;
            let view = known.ok_or_else(|| no_invocation(id))?;
            let detail = format!(
                "the invocation has ended ({}): there is nothing to cancel",
                view.state.as_str()
            );
            Err(Problem::new(Code::NotFound, detail)
                .of(&view.function)
                .in_invocation(id, view.reason)
                .into())
        }
        Answer::StoreFailed => Err(not_changed()),
        other => Err(internal("cancel", &format!("the supervisor answered {other:?}"))),
    }
}
