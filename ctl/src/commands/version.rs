//! `fndctl version`: the versions of the client, and of the daemon if one answers.

use crate::common::versions;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};

pub(crate) use crate::common::versions::VersionArgs as Args;

/// Prints the versions; it is no failure if no daemon answers.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) async fn run(context: &Context, Args {}: Args) -> Result<Exit, CommandFailure> {
    versions::print(context).await
}
