//! The refusals of requests to run: they were not accepted, or there is no such function.

use crate::http::response::{AGAIN, Refusal, retried_after};
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_core::records::outcome::Reason;
use fnd_core::run::Rejection;
use fnd_wire::ids::{FunctionName, InvocationId};

/// Returns the refusal of a request that was not accepted.
pub(crate) fn rejected(rejection: &Rejection, function: &FunctionName) -> Refusal {
    let problem = Problem::of_refusal(rejection, function);
    let retry_after = match rejection {
        Rejection::Unavailable { .. } => Some(AGAIN),
        // An answer with 429 always has a `Retry-After`.
        Rejection::Skipped { retry_after, .. } => (problem.status == 429).then(|| retry_after.unwrap_or(AGAIN)),
        Rejection::NoSuchFunction
        | Rejection::Service
        | Rejection::Invalid { .. }
        | Rejection::Quota { .. }
        | Rejection::KeyReused
        | Rejection::Chain(_)
        | Rejection::Input(_) => None,
    };
    match retry_after {
        Some(time) => retried_after(problem.into(), time),
        None => problem.into(),
    }
}

/// Returns a refusal about a run, with the reason of its end.
pub(crate) fn about_run(
    code: Code,
    detail: impl Into<String>,
    (function, id): (&FunctionName, InvocationId),
    reason: Option<Reason>,
) -> Refusal {
    let problem = Problem::new(code, detail).of(function);
    problem.in_invocation(id, reason).into()
}

/// Returns the refusal for an unknown function.
pub(crate) fn no_function(function: &FunctionName) -> Refusal {
    rejected(&Rejection::NoSuchFunction, function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_waits_while_fnd_stops_learns_when_to_retry() {
        let reason = "fnd is stopping".to_owned();
        let refused = rejected(&Rejection::Unavailable { reason }, &FunctionName::new("f").unwrap());
        assert_eq!((refused.problem.status, refused.retry_after), (503, Some(1)));
    }
}
