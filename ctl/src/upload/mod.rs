//! Uploads of functions: the files, the manifest with the options of the command line, and the request. `deploy` and
//! `kubeless` use it.
//!
//! Files:
//! - `manifest`: options of the command line that change the manifest
//! - `pack`: the files of a function, as one request

mod manifest;
mod pack;

pub(crate) use manifest::ManifestOptions;
pub(crate) use pack::Packed;

use crate::client::{Reply, request};
use crate::context::{Context, function_path};
use crate::exit::CommandFailure;
use crate::text;
use hyper::Method;
use hyper::body::Bytes;

/// From this size on, progress is reported before the upload.
const LARGE: usize = 4 << 20;

/// Uploads a function and returns fnd's answer. `headers` are conditions on the function.
///
/// # Errors
/// fnd refuses the upload, or it cannot be reached.
pub(crate) async fn send(
    context: &Context,
    packed: &Packed,
    mut headers: Vec<(String, String)>,
    dry_run: bool,
) -> Result<Reply, CommandFailure> {
    let path = function_path(&packed.name)?;
    let (boundary, body) = packed.form();
    headers.push((
        "content-type".to_owned(),
        format!("multipart/form-data; boundary={boundary}"),
    ));
    if body.len() >= LARGE {
        let size = text::size(u64::try_from(body.len()).ok());
        context.out.progress(&format!("uploading {size}"));
    }
    let query = if dry_run { "?dry_run=1" } else { "" };
    let request = request(Method::PUT, &format!("{path}{query}"), &headers, Bytes::from(body))?;
    let mut sent = context.client.send(request).await;
    // The caller knows its own files, and not those in the state directory of fnd.
    if let Err(failure) = &mut sent {
        for problem in &mut failure.diagnostics {
            packed.localize(problem);
        }
    }
    sent
}

/// Says whether fnd refuses something that only functions of root may have.
pub(crate) fn is_only_for_root(failure: &CommandFailure) -> bool {
    let codes = ["not-allowed", "not-trusted"];
    let mut problems = failure.diagnostics.iter();
    problems.any(|problem| codes.contains(&problem.code.as_str()))
}
