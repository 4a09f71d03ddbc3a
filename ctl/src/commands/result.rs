//! `fndctl result ID`: the result of a run.

use super::runs::ListedRun;
use super::text::span;
use super::{Context, invocation_path};
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::InvocationView;
use fnd_core::records::outcome::Reason;
use fnd_wire::units::print_duration;
use std::time::Duration;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl result 456789abcdef               by the end of its id, at least 4\n  \
    fndctl result --last hello\n  \
    fndctl result --wait 5m \"$(fndctl invoke backup --async)\"")]
pub(crate) struct Args {
    #[command(flatten)]
    run: ListedRun,

    /// Wait for the end of the run, at most this long, such as `30s` or `5m`.
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,
}

/// A duration that is longer than any useful wait.
pub(super) const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

/// How long one request waits; a longer wait takes several requests, since the daemon bounds each.
const WAIT_STEP: Duration = Duration::from_secs(3600);

/// Runs the verb.
///
/// # Errors
/// The run did not succeed or has not ended, the daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let wait = args.wait.as_deref().map(span).transpose()?.unwrap_or(Duration::ZERO);
    let path = invocation_path(&args.run.id(context).await?);
    print(context, &path, wait, None).await
}

/// Waits for the end of an invocation and prints its result, unless that was shown already.
pub(super) async fn print(
    context: &Context,
    path: &str,
    mut wait: Duration,
    shown: Option<&str>,
) -> Result<Exit, CommandFailure> {
    while !wait.is_zero() {
        let step = wait.min(WAIT_STEP);
        let reply = context
            .client
            .get(&format!("{path}?wait={}", print_duration(step)))
            .await?;
        let ended = serde_json::from_slice::<InvocationView>(&reply.body).is_ok_and(|view| view.state.is_final());
        wait = if ended { Duration::ZERO } else { wait - step };
    }
    let reply = context.client.get(&format!("{path}/result")).await?;
    if shown.is_none_or(|shown| shown.trim_end().as_bytes() != reply.body.trim_ascii_end()) {
        context.out.result(&reply.body)?;
    }
    let header = |name| reply.headers.get(name).and_then(|value| value.to_str().ok());
    print_status(context, header("fnd-status").and_then(|status| status.parse().ok()));
    let state = header("fnd-state").unwrap_or("succeeded");
    if state == "succeeded" {
        return Ok(Exit::Fine);
    }
    let id = path.rsplit('/').next().unwrap_or_default();
    let view: InvocationView = crate::output::parse(&context.client.get(path).await?.body)?;
    let exit = match view.reason {
        Some(Reason::Timeout | Reason::Deadline) => Exit::Timeout,
        _ => Exit::FunctionFailed,
    };
    let why = match view.reason {
        Some(reason) => format!("`{}` ended with `{reason}`: {}", view.function, view.message),
        None => format!("the run ended as `{state}`"),
    };
    Err(
        CommandFailure::new(exit, format!("{why}; the result is that of its last attempt"))
            .help(format!("fndctl history --id {id} shows how it ended")),
    )
}

/// Prints the status that a function chose for its answer, if it is an error status: the run succeeded all the same.
pub(super) fn print_status(context: &Context, status: Option<u16>) {
    if let Some(status) = status.filter(|status| *status >= 400) {
        context
            .out
            .aside(&format!("the function answered with status {status}"));
    }
}
