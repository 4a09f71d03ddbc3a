//! `fndctl drain`: lets fnd refuse new work, and waits until nothing runs any more; `--cancel` lets it work again.

use crate::client::Reply;
use crate::common::working::while_working;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::parse;
use crate::text::optional_span;
use fnd_core::api::{Changed, NodeStatus};
use fnd_wire::units::{counted, print_duration};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl drain\n  \
    fndctl drain --wait 0       start the drain and do not wait\n  \
    fndctl drain --wait 5m\n  \
    fndctl drain --cancel       accept and start work again")]
pub(crate) struct Args {
    /// Wait at most this long, such as `30s` or `5m`; after that the drain continues [default: no limit].
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,

    /// End the drain: accept and start work again, also what waited.
    #[arg(long, conflicts_with = "wait")]
    cancel: bool,
}

/// How long one request waits.
const STEP: Duration = Duration::from_secs(3600);
/// Names of functions in the progress.
const NAMED: usize = 5;

/// # Errors
/// The wait is over before the drain, somebody cancels it, the daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if args.cancel {
        return print(context, &context.delete("/v1/drain").await?);
    }
    let asked = optional_span("--wait", args.wait.as_deref())?;
    // If this question fails, the drain goes on, and only its progress is not shown.
    let about = async || remaining(context).await.unwrap_or_default();
    let reply = while_working(context, wait(context, asked), about).await?;
    print(context, &reply)?;
    let changed: Changed = parse(&reply.body)?;
    if changed.state == "running" {
        let message = "somebody cancelled the drain: fnd accepts and starts work again";
        return Err(CommandFailure::failed(message));
    }
    // `--wait 0` asks for no wait, so work that still runs is no failure.
    if reply.status == 202 && asked.is_none_or(|asked| !asked.is_zero()) {
        let message =
            "the time to wait is over, but work is still running; fnd continues to drain and accepts nothing new";
        let help = "fndctl history --state running lists the running work; fndctl drain --cancel accepts work again";
        return Err(CommandFailure::new(Exit::Timeout, message).help(help));
    }
    Ok(Exit::Fine)
}

fn print(context: &Context, reply: &Reply) -> Result<Exit, CommandFailure> {
    let out = &context.out;
    out.answer(&reply.body, |changed: &Changed, out| out.remark(&changed.state))
}

/// Starts the drain and waits for its end; returns the last answer.
async fn wait(context: &Context, asked: Option<Duration>) -> Result<Reply, CommandFailure> {
    // fnd waits at most an hour for one request, so a longer wait is several requests.
    let mut remaining = asked.unwrap_or(crate::common::results::LONGEST);
    loop {
        let step = remaining.min(STEP);
        let path = format!("/v1/drain?wait={}", print_duration(step));
        let reply = context.client.post(&path).await?;
        remaining -= step;
        if reply.status != 202 || remaining.is_zero() {
            return Ok(reply);
        }
    }
}

/// Returns what still runs.
async fn remaining(context: &Context) -> Result<String, CommandFailure> {
    let node: NodeStatus = context.read("/v1/status").await?;
    let running = node.functions.iter().filter(|function| function.running > 0);
    let names: Vec<&str> = running.map(|function| function.function.as_str()).collect();
    let mut named = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED {
        named += ", ...";
    }
    let runs = counted(node.running, "run has", "runs have");
    Ok(format!(
        "draining: {runs} not ended ({named}); {} stay queued",
        node.queued
    ))
}
