//! The refusals of requests to run: they were not accepted, or there is no such function.

use crate::http::response::{AGAIN, Refusal, RefusedResponse};
use fnd_core::api::Problem;
use fnd_core::run::Rejection;
use fnd_wire::ids::FunctionName;

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
    Box::new(RefusedResponse {
        problem,
        // Rounded up: a caller that came back earlier would be refused again.
        retry_after: retry_after.map(|after| after.as_secs() + u64::from(after.subsec_nanos() > 0)),
        allow: None,
    })
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
