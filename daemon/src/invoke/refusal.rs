//! The refusals of requests to run: they were not accepted, or there is no such function.

use crate::http::response::{AGAIN, Refusal, Refused};
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;
use fnd_core::outcome::Skip;
use fnd_core::supervisor::Rejection;
use fnd_wire::ids::FunctionName;

/// Returns the refusal of a request that was not accepted.
pub(crate) fn rejected(rejection: Rejection, function: &FunctionName) -> Refusal {
    let (code, detail, retry_after) = match rejection {
        Rejection::NoSuchFunction => return no_function(function),
        Rejection::Service => {
            let detail = format!("`{function}` is a service: it runs by itself and cannot be invoked");
            (Code::BadRequest, detail, None)
        }
        Rejection::Invalid { error } => (
            Code::Invalid,
            format!("`{function}` has no version that can run: {error}"),
            None,
        ),
        Rejection::Unavailable { reason } => (Code::Unavailable, reason, Some(AGAIN)),
        Rejection::Skipped { skip, retry_after } => {
            let detail = why(function, skip);
            let code = code_of_skip(skip);
            // An answer with 429 always has a `Retry-After`.
            let retry_after = if code.status() == 429 {
                Some(retry_after.unwrap_or(AGAIN))
            } else {
                None
            };
            (code, detail, retry_after)
        }
    };
    Box::new(Refused {
        problem: Problem::new(code, detail).of(function),
        retry_after: retry_after.map(|after| after.as_secs() + u64::from(after.subsec_nanos() > 0)),
        allow: None,
    })
}

/// Returns why a request to a function was skipped, for people.
pub(crate) fn why(function: &FunctionName, skip: Skip) -> String {
    match skip {
        Skip::QueueFull => format!("the queue of `{function}` is full (queue.max)"),
        Skip::Rate => format!("more requests for `{function}` than its rate allows (queue.rate)"),
        Skip::Overlap => format!("`{function}` is running and refuses overlap (queue.overlap)"),
        Skip::Disabled => format!("`{function}` is disabled: `fndctl enable {function}` enables it"),
        Skip::Expired => "it expired before it could start".to_owned(),
        Skip::Deleted => format!("`{function}` was deleted"),
        Skip::Missed => "its time had passed".to_owned(),
        Skip::Unknown => format!("there is no function `{function}`"),
        Skip::Invalid => format!("`{function}` cannot be called"),
        Skip::Depth => "the chain of hooks is too long".to_owned(),
    }
}

fn code_of_skip(skip: Skip) -> Code {
    match skip {
        Skip::Overlap => Code::Overlap,
        Skip::QueueFull => Code::QueueFull,
        Skip::Rate => Code::Rate,
        Skip::Disabled => Code::Disabled,
        Skip::Expired | Skip::Deleted | Skip::Missed | Skip::Unknown | Skip::Invalid | Skip::Depth => Code::Skipped,
    }
}

/// Returns the refusal for an unknown function.
pub(crate) fn no_function(function: &FunctionName) -> Refusal {
    let detail = format!("there is no function `{function}`: `fndctl list` shows all functions");
    Problem::new(Code::NotFound, detail).of(function).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_waits_while_fnd_stops_learns_when_to_retry() {
        let reason = "fnd is stopping".to_owned();
        let refused = rejected(Rejection::Unavailable { reason }, &FunctionName::new("f").unwrap());
        assert_eq!((refused.problem.status, refused.retry_after), (503, Some(1)));
    }
}
