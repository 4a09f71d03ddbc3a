//! The refusals of the API alone: ids that are unknown, failures of the daemon. `invoke/refusal.rs` has those of requests
//! to run.

use crate::backend::{Failure, NotStored};
use crate::http::response::{Refusal, internal, refuse_for_now};
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_wire::ids::InvocationId;

/// Returns the refusal for an unknown invocation.
pub(super) fn no_invocation(id: InvocationId) -> Refusal {
    let detail = format!("there is no invocation `{id}`: it never existed, or its history was deleted");
    Problem::new(Code::NotFound, detail).in_invocation(id, None).into()
}

/// Returns the refusal for a failure of the daemon.
pub(super) fn failed(operation: &'static str) -> impl Fn(Failure) -> Refusal {
    move |failure| internal(operation, &crate::telemetry::escape(&failure.0))
}

/// Returns the refusal of a change that the ledger could not store, so that it was not made.
pub(super) fn not_stored(NotStored(why): &NotStored) -> Refusal {
    let why = crate::telemetry::escape(why);
    let detail = format!("the change could not be stored, so nothing was changed: {why}");
    refuse_for_now(Code::Unavailable, detail)
}

/// Returns the refusal of a change that the supervisor reports as not stored. The journal has the reason.
pub(super) fn not_changed() -> Refusal {
    let detail = "the change could not be stored, so nothing was changed: `fndctl status` says why";
    refuse_for_now(Code::Unavailable, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_private_stays_in_the_journal() {
        let refusal = failed("read the history")(Failure("disk I/O error in /var/lib/fnd/state".to_owned()));
        assert_eq!(
            (refusal.problem.status, refusal.problem.code.as_str()),
            (500, "internal")
        );
        assert!(!format!("{:?}", refusal.problem).contains("/var/lib"));
    }
}
