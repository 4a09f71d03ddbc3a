//! `fndctl cancel ID`: requests the end of a run.

use super::{Context, invocation_path};
use crate::exit::{Exit, Failure};
use fnd_core::api::Changed;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl cancel 01934567-89ab-7def-8123-456789abcdef")]
pub(crate) struct Args {
    /// Id of the run, as `fndctl history` shows it.
    id: String,
}

/// Runs the verb.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, Failure> {
    let reply = context
        .client
        .post(&format!("{}/cancel", invocation_path(&args.id)?))
        .await?;
    context.out.document(&reply.body, |changed: &Changed, out| {
        out.line(&format!("{}: {}", args.id, changed.state))
    })?;
    Ok(Exit::Fine)
}
