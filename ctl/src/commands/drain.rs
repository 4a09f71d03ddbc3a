//! `fndctl drain`: lets fnd refuse new work, and waits until nothing runs any more.

use super::Context;
use super::text::span;
use crate::exit::{Exit, Failure};
use fnd_core::api::Changed;
use fnd_wire::units::print_duration;
use std::time::Duration;

/// Options.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  fndctl drain\n  fndctl drain --wait 0       start the drain and do not wait\n  fndctl drain --wait 5m"
)]
pub(crate) struct Args {
    /// Wait at most this long, such as `30s` or `5m`; after that the drain continues [default: no limit].
    #[arg(long, value_name = "DURATION")]
    wait: Option<String>,
}

/// How long one request waits.
const STEP: Duration = Duration::from_secs(3600);

/// Runs the verb.
///
/// # Errors
/// The wait is over before the drain, the daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, Failure> {
    let asked = args.wait.as_deref().map(span).transpose()?;
    let mut remaining = asked.unwrap_or(super::result::LONGEST);
    context
        .out
        .progress("draining: waiting until running work has finished ...");
    loop {
        let step = remaining.min(STEP);
        let reply = context
            .client
            .post(&format!("/v1/drain?wait={}", print_duration(step)))
            .await?;
        remaining -= step;
        if reply.status == 202 && !remaining.is_zero() {
            continue;
        }
        context
            .out
            .document(&reply.body, |changed: &Changed, out| out.remark(&changed.state))?;
        if reply.status == 202 && asked.is_none_or(|asked| !asked.is_zero()) {
            return Err(Failure::new(
                Exit::Timeout,
                "the time to wait is over, but work is still running; fnd continues to drain and accepts nothing new",
            )
            .help("fndctl history --state running lists the running work"));
        }
        return Ok(Exit::Fine);
    }
}
