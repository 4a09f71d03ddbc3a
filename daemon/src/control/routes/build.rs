//! `POST /v1/functions/F/build`: installs the dependencies of a function again, if they are not there; with `clean=1` in any
//! case.

use super::deploy::tagged;
use crate::control::call::ControlCall;
use crate::http::response::{Answered, Refusal, RefusedResponse};
use crate::invoke::refusal::no_function;
use fnd_core::api::Problem;
use fnd_core::api::problem::Code;

/// Answers with the function once it is installed; the caller may go away before.
pub(super) async fn answer(call: ControlCall) -> Result<Answered, Refusal> {
    let clean = call.request.query(&["clean"])?.switch("clean")?;
    let function = call.function()?;
    let built = call
        .backend
        .build(&function, clean)
        .ok_or_else(|| no_function(&function))?;
    if let Err(why) = built.await {
        let problem = Problem::new(Code::Release, format!("`{function}`: {why}"));
        return Err(Box::new(RefusedResponse {
            problem: problem.of(&function),
            retry_after: None,
            allow: None,
        }));
    }
    tagged(&call.backend.function(&function).ok_or_else(|| no_function(&function))?)
}
