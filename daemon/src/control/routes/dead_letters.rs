//! `GET /v1/dead-letters[/ID]`, `POST /v1/dead-letters/ID/redrive`, `DELETE /v1/dead-letters/ID`.

use super::invocations::filter;
use super::replay::of_repeated;
use crate::control::call::ControlCall;
use crate::control::refusal::{failed, not_stored};
use crate::http::response::{Answered, Refusal, json, refuse};
use fnd_core::api::Changed;
use fnd_core::api::problem::Code;
use fnd_core::records::outcome::Trigger;
use fnd_wire::ids::InvocationId;

const READ: &str = "read the history";

/// Lists a page of dead letters, newest first.
pub(super) async fn list(call: ControlCall) -> Result<Answered, Refusal> {
    let listed = call.backend.dead_letters(filter(&call, &[])?).await;
    json(&listed.map_err(failed(READ))?)
}

/// Shows one dead letter with its payload.
pub(super) async fn show(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let id = call.invocation()?;
    let found = call.backend.dead_letter(id).await.map_err(failed(READ))?;
    json(&found.ok_or_else(|| none(id))?)
}

/// Queues a dead letter again; it leaves the list when the new invocation is on disk.
pub(super) async fn redrive(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let id = call.invocation()?;
    let repeated = call.backend.repeat(id, Trigger::Redrive).await;
    of_repeated(repeated.map_err(failed(READ))?, id).await
}

/// Removes a dead letter permanently.
pub(super) async fn discard(call: ControlCall) -> Result<Answered, Refusal> {
    call.request.query(&[])?;
    let id = call.invocation()?;
    let was_there = call.backend.drop_dead_letter(id).await;
    let was_there = was_there.map_err(failed(READ))?;
    if !was_there.map_err(|why| not_stored(&why))? {
        return Err(none(id));
    }
    json(&Changed {
        state: "dropped".to_owned(),
    })
}

fn none(id: InvocationId) -> Refusal {
    let detail = format!(
        "there is no dead letter `{id}`: it never existed, was redriven or dropped, or its history was deleted"
    );
    let mut refusal = refuse(Code::NotFound, detail);
    refusal.problem.invocation = Some(id);
    refusal
}
