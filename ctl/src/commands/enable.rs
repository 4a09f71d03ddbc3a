//! `fndctl enable F` and `fndctl disable F`.

use super::{Context, function_path};
use crate::exit::{Exit, Failure};
use fnd_core::api::Changed;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl disable hello\n  fndctl enable hello")]
pub(crate) struct Args {
    /// Name of the function.
    function: String,
}

/// Enables or disables a function.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args, verb: &str) -> Result<Exit, Failure> {
    let reply = context
        .client
        .post(&format!("{}/{verb}", function_path(&args.function)?))
        .await?;
    context.out.document(&reply.body, |changed: &Changed, out| {
        out.line(&format!("{}: {}", args.function, changed.state))
    })?;
    Ok(Exit::Fine)
}
