//! `PUT /v1/functions/F[?dry_run=1]` and `DELETE /v1/functions/F`: uploads a function, and removes an uploaded one.

use super::ADMIN;
use crate::backend::{Deployed, NotDone, Upload, UploadCondition};
use crate::control::call::ControlCall;
use crate::control::condition::condition;
use crate::control::limits::UPLOAD_MAX;
use crate::http::response::{Answered, Refusal, header, internal, json, refuse, refuse_for_now, with_status, with_tag};
use crate::invoke::refusal::no_function;
use crate::uploads::form::UploadForm;
use fnd_core::api::problem::Code;
use fnd_core::api::{FunctionDetail, Problem, ValidateReport};
use fnd_manifest::diagnostic::Diagnostic;
use fnd_wire::ids::{FunctionName, Version};
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, LOCATION};

pub(super) static ROUTES: &[super::ControlRoute] = &[
    route!(PUT "/v1/functions/{function}" Function ADMIN "deploy", put, Some(&["dry_run"])),
    route!(DELETE "/v1/functions/{function}" Function ADMIN "remove", delete),
];

pub(super) async fn put(call: ControlCall) -> Result<Answered, Refusal> {
    let dry_run = call.query.switch("dry_run")?;
    let function = named(&call)?;
    let condition = condition(&call, Version::parse, CONDITION)?;
    let form = UploadForm::of(call.request.header(&CONTENT_TYPE)?).map_err(|what| refuse(Code::BadRequest, what))?;
    // Read after the headers were checked: a mistake there costs no transfer of 64 MiB.
    let body = call.read_body(UPLOAD_MAX, "the largest upload").await?;
    let upload = Upload {
        function: function.clone(),
        uploader: call.caller.uid,
        form,
        body,
        condition,
        dry_run,
    };
    match call
        .backend
        .deploy(upload)
        .await
        .map_err(|why| refused(why, &function))?
    {
        Deployed::Created(detail) => {
            let mut answer = with_status(tagged(&detail)?, StatusCode::CREATED);
            // The name of a function in a group has a slash, which would begin another segment of the path.
            let location = format!("/v1/functions/{}", function.as_str().replace('/', "%2F"));
            answer.headers_mut().insert(LOCATION, header(&location));
            Ok(answer)
        }
        Deployed::Replaced(detail) => tagged(&detail),
        Deployed::Judged(diagnostics) => json(&ValidateReport {
            valid: true,
            diagnostics,
        }),
    }
}

/// Removes an uploaded function.
pub(super) async fn delete(call: ControlCall) -> Result<Answered, Refusal> {
    let function = named(&call)?;
    let condition = condition(&call, Version::parse, CONDITION)?;
    if condition == UploadCondition::New {
        let detail = "`If-None-Match` has no meaning for DELETE: `If-Match: \"VERSION\"` removes only that version";
        return Err(refuse(Code::BadRequest, detail));
    }
    let removed = call.backend.remove(function.clone(), condition).await;
    json(&removed.map_err(|why| refused(why, &function))?)
}

/// Returns the function in the path.
fn named(call: &ControlCall) -> Result<FunctionName, Refusal> {
    // A PUT makes a function, so an invalid name is the caller's mistake and not a function that is missing.
    FunctionName::new(call.place(0)).map_err(|error| refuse(Code::BadRequest, error.to_string()))
}

/// Returns a function with the version that serves in `ETag`.
pub(super) fn tagged(detail: &FunctionDetail) -> Result<Answered, Refusal> {
    let answer = json(detail)?;
    Ok(match detail.status.version {
        Some(version) => with_tag(answer, &version),
        None => answer,
    })
}

/// The words about conditions on the function.
const CONDITION: (&str, &str) = ("uploads a function only if there is none of that name", "sha256:...");

fn refused(why: NotDone, function: &FunctionName) -> Refusal {
    let about = |code: Code, detail: String| Problem::new(code, detail).of(function);
    match why {
        NotDone::Wrong(what) => about(Code::BadRequest, what).into(),
        NotDone::NoFunction => no_function(function),
        NotDone::NotUploaded(what) => about(Code::NotUploaded, what).into(),
        NotDone::Conflict(what) => about(Code::Conflict, what).into(),
        NotDone::Unavailable(what) => {
            let mut refusal = refuse_for_now(Code::Unavailable, what);
            refusal.problem.function = Some(function.clone());
            refusal
        }
        NotDone::Refused(diagnostics) => {
            let errors = diagnostics.iter().filter(|problem| problem.is_error());
            let first = errors.clone().next().map(Diagnostic::text).unwrap_or_default();
            let more = match errors.count().saturating_sub(1) {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            let mut problem = about(Code::InvalidManifest, format!("{first}{more}"));
            problem.diagnostics = diagnostics;
            problem.into()
        }
        NotDone::Failed(failure) => internal("store an upload", &crate::telemetry::escape(&failure.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_a_status_and_a_code() {
        let function = FunctionName::new("f").unwrap();
        let problems = vec![
            Diagnostic::error("unknown-key", "unknown key `a`"),
            Diagnostic::error("unknown-key", "unknown key `b`"),
        ];
        for (why, status, code) in [
            (NotDone::Wrong("no file".to_owned()), 400, "bad-request"),
            (NotDone::NoFunction, 404, "not-found"),
            (NotDone::NotUploaded("a file".to_owned()), 409, "not-uploaded"),
            (NotDone::Conflict("another version".to_owned()), 409, "conflict"),
            (NotDone::Refused(problems.clone()), 422, "invalid-manifest"),
            (NotDone::Unavailable("a full disk".to_owned()), 503, "unavailable"),
            (
                NotDone::Failed(crate::backend::Failure("no disk".to_owned())),
                500,
                "internal",
            ),
        ] {
            let refusal = refused(why, &function);
            assert_eq!((refusal.problem.status, refusal.problem.code.as_str()), (status, code));
            assert_eq!(refusal.retry_after.is_some(), status == 503);
        }
        let problem = refused(NotDone::Refused(problems), &function).problem;
        assert!(
            problem.detail.contains("unknown key `a`") && problem.detail.ends_with("(and 1 more)"),
            "{problem:?}"
        );
        assert_eq!(problem.diagnostics.len(), 2);
    }
}
