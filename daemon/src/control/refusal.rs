//! The refusals of the API alone: ids that are unknown, failures of the daemon. `invoke/refusal.rs` has those of requests
//! to run.

use super::backend::Failure;
use crate::http::response::{Refusal, internal};
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_wire::ids::InvocationId;

/// Returns the refusal for an unknown invocation.
pub(super) fn no_invocation(id: InvocationId) -> Refusal {
    let detail = format!("there is no invocation `{id}`: it never existed, or its history was deleted");
    let mut refusal: Refusal = Problem::new(Code::NotFound, detail).into();
    refusal.problem.invocation = Some(id);
    refusal
}

/// Returns the refusal for a failure of the daemon.
pub(super) fn failed(operation: &'static str) -> impl Fn(Failure) -> Refusal {
    move |failure| internal(operation, &crate::telemetry::escape(&failure.0))
}
