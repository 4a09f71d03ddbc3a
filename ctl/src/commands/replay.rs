//! `fndctl replay ID`: runs something again with the same payload.

use super::{Context, invocation_path};
use crate::exit::{Exit, Failure};
use fnd_core::api::Queued;

/// Options.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "It is queued with the trigger `replay`, by the newest version and manifest, and its own id is printed. The payload is \
    kept of asynchronous runs and of those that failed.\n\nExamples:\n  \
    fndctl replay 01934567-89ab-7def-8123-456789abcdef\n  \
    fndctl result --wait 1m \"$(fndctl replay 01934567-89ab-7def-8123-456789abcdef)\""
)]
pub(crate) struct Args {
    /// The run, as `fndctl history` shows it.
    id: String,
}

/// Runs the verb.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, Failure> {
    let path = format!("{}/replay", invocation_path(&args.id)?);
    let reply = context.client.post(&path).await?;
    context
        .out
        .document(&reply.body, |queued: &Queued, out| out.line(&queued.id.to_string()))?;
    Ok(Exit::Fine)
}
