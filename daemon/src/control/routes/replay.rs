//! `POST /v1/invocations/ID/replay`: queues an invocation's payload again. Redriving shares code with it.

use crate::backend::Repeated;
use crate::control::call::ControlCall;
use crate::control::refusal::{failed, no_invocation};
use crate::http::response::{Answered, Refusal};
use crate::invoke::answer::{of_run, wait};
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_core::records::outcome::Trigger;
use fnd_wire::ids::InvocationId;

pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let id = call.invocation()?;
    let repeated = call.backend.repeat(id, Trigger::Replay).await;
    of_repeated(repeated.map_err(failed("read the history"))?, id).await
}

/// Returns the answer for a caller that requested another run.
///
/// # Errors
/// Every result except an acceptance.
pub(super) async fn of_repeated(repeated: Repeated, id: InvocationId) -> Result<Answered, Refusal> {
    let (code, function, detail) = match repeated {
        Repeated::Asked(function, answering) => {
            return of_run(wait(answering).await?, &function, None);
        }
        Repeated::Unknown => return Err(no_invocation(id)),
        Repeated::NotEnded(function, state) => {
            let detail = format!(
                "the invocation is {}: it can be repeated when it has ended",
                state.as_str()
            );
            (Code::NotEnded, function, detail)
        }
        Repeated::NotDead(function, state) => {
            let detail = format!(
                "this invocation ({}) is no dead letter: it ended otherwise, was not asynchronous, or was redriven or dropped \
                 before; `fndctl replay` runs any again",
                state.as_str()
            );
            (Code::NotFound, function, detail)
        }
        Repeated::NotKept(function) => {
            let detail =
                "its payload was not kept, since it was a synchronous call that succeeded; only its record exists";
            (Code::NotKept, function, detail.to_owned())
        }
    };
    Err(Problem::new(code, detail).of(&function).in_invocation(id, None).into())
}
