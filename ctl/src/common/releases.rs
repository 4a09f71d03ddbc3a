//! The releases of a function, as fnd lists them.

use crate::client::encode;
use crate::context::{Context, function_path};
use crate::exit::CommandFailure;
use fnd_core::api::{ReleaseFiles, ReleaseList};

/// Returns the releases of a function.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn of(context: &Context, function: &str) -> Result<ReleaseList, CommandFailure> {
    context.read(&path(function)?).await
}

/// Returns their path.
///
/// # Errors
/// It is no name.
pub(crate) fn path(function: &str) -> Result<String, CommandFailure> {
    Ok(format!("{}/versions", function_path(function)?))
}

/// Returns the files of a release, for whose name its beginning is enough.
///
/// # Errors
/// As for [`of`], or there is no such release.
pub(crate) async fn files(context: &Context, function: &str, release: &str) -> Result<ReleaseFiles, CommandFailure> {
    let path = format!("{}/{}/files", path(function)?, encode(release));
    context.read(&path).await
}
