//! `fndctl log-level`: the filter of fnd's own messages.

use crate::context::{Context, Parameters};
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::LogLevel;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The level decides which of its own messages fnd logs (`journalctl -u fnd`); it does not concern the output of functions. Without \
    LEVEL, the current level is shown. fnd starts with the level in its environment variable `FND_LOG`, else with `info`.\n\nExamples:\n  \
    fndctl log-level\n  \
    sudo fndctl log-level debug --for 10m       the level before is back by itself\n  \
    sudo fndctl log-level info,fnd_daemon::functions::catalog=debug"
)]
pub(crate) struct Args {
    /// The new level: error, warn, info, debug or trace; or several TARGET=LEVEL, separated by commas.
    level: Option<String>,

    /// Keep the new level for this time, such as `10m`, at most `7d` [default: until the next change or start of fnd].
    #[arg(long = "for", value_name = "DURATION", requires = "level")]
    time: Option<String>,
}

/// Shows or changes the level.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let reply = if args.level.is_some() {
        let mut parameters = Parameters::default();
        parameters.add("level", args.level.as_deref());
        parameters.add("for", args.time.as_deref());
        context.client.post(&format!("/v1/log-level{}", parameters.0)).await?
    } else {
        context.client.get("/v1/log-level").await?
    };
    context.out.answer(&reply.body, |now: &LogLevel, out| {
        let until = now.until.as_ref().map(|until| format!(" until {}", out.instant(until)));
        out.line(&format!("{}{}", now.level, until.unwrap_or_default()))
    })
}
