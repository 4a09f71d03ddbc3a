//! `fndctl replay ID`: repeats a run with the same payload.

use crate::common::runs::ListedRun;
use crate::context::{Context, invocation_path};
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::Queued;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The new run is queued with the trigger `replay`, uses the newest version and manifest, and has its own id, which is printed. fnd keeps \
    the payload of asynchronous runs and of runs that failed; others cannot be replayed.\n\nExamples:\n  \
    fndctl replay 456789abcdef\n  \
    fndctl replay --last hello\n  \
    fndctl result --wait 1m \"$(fndctl replay 01934567-89ab-7def-8123-456789abcdef)\""
)]
pub(crate) struct Args {
    #[command(flatten)]
    run: ListedRun,
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let path = format!("{}/replay", invocation_path(&args.run.id(context).await?));
    let reply = context.client.post(&path).await?;
    let out = &context.out;
    out.answer(&reply.body, |queued: &Queued, out| out.line(&queued.id.to_string()))
}
