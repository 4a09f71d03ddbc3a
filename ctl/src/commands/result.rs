//! `fndctl result ID`: the result of a run.

use crate::common::results::print;
use crate::common::runs::ListedRun;
use crate::context::{Context, invocation_path};
use crate::exit::{CommandFailure, Exit};
use crate::text::optional_span;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl result 456789abcdef               by the end of its id, at least 4\n  \
    fndctl result --last hello\n  \
    fndctl result --payload 456789abcdef\n  \
    fndctl result --wait 5m \"$(fndctl invoke backup --async)\"")]
pub(crate) struct Args {
    #[command(flatten)]
    run: ListedRun,

    /// Wait for the end of the run, at most this long, such as `30s` or `5m`.
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,

    /// Print the payload that the run got instead, as far as fnd keeps it.
    #[arg(long, conflicts_with = "wait")]
    payload: bool,
}

/// # Errors
/// The run did not succeed or has not ended, the daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let wait = optional_span("--wait", args.wait.as_deref())?;
    let wait = wait.unwrap_or(Duration::ZERO);
    let path = invocation_path(&args.run.id(context).await?);
    if args.payload {
        let reply = context.client.get(&format!("{path}/payload")).await?;
        context.out.result(&reply.body)?;
        return Ok(Exit::Fine);
    }
    print(context, &path, wait, None).await
}
