//! The releases of a function, as fnd lists them.

use crate::client::Reply;
use crate::context::{Context, function_path};
use crate::exit::CommandFailure;
use fnd_core::api::ReleaseList;

/// Returns the releases of a function.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn of(context: &Context, function: &str) -> Result<ReleaseList, CommandFailure> {
    crate::output::parse(&asked(context, function).await?.body)
}

pub(crate) async fn asked(context: &Context, function: &str) -> Result<Reply, CommandFailure> {
    let path = format!("{}/versions", function_path(function)?);
    context.client.get(&path).await
}
