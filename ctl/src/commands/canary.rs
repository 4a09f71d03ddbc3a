//! `fndctl canary F`: a release that gets a share of the calls.

use crate::common::candidates;
use crate::common::releases;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::Output;
use crate::text::distance;
use fnd_core::api::{CanaryView, ReleaseChanged};
use fnd_core::lifecycle::release::{ReleaseState, short};
use jiff::Timestamp;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without an option it shows the canary. `--percent` needs a release that waits: pin the one that serves (`fndctl pin F`), then
change the file; or write `canary = \"10%\"` into `[release]` of the manifest, and every new release begins as a canary.

Examples:
  fndctl canary hello
  fndctl canary hello --percent 10
  fndctl canary hello --promote
  fndctl canary hello --stop")]
pub(crate) struct Args {
    /// Name of a function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    /// Give the release that waits this share of the calls, or change the share of the canary.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), conflicts_with_all = ["promote", "stop"])]
    percent: Option<u32>,

    /// Let the canary serve.
    #[arg(long, conflicts_with = "stop")]
    promote: bool,

    /// Take the calls from the canary.
    #[arg(long)]
    stop: bool,
}

/// Shows or changes the canary of a function.
///
/// # Errors
/// There is no canary, none can be, or the daemon cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let Args { function, .. } = &args;
    let path = function_path(function)?;
    let reply = if let Some(percent) = args.percent {
        context.out.progress("waiting until the release gets calls");
        context.client.post(&format!("{path}/canary?percent={percent}")).await?
    } else if args.promote {
        context.out.progress("waiting until the release serves");
        context.client.post(&format!("{path}/promote")).await?
    } else if args.stop {
        context.delete(&format!("{path}/canary")).await?
    } else {
        return show(context, function).await;
    };
    context.out.answer(&reply.body, |changed: &ReleaseChanged, out| {
        let release = changed.version.map(short).unwrap_or_default();
        let percent = args.percent.unwrap_or_default();
        out.remark(&match changed.state {
            ReleaseState::Canary => format!("{function}: release {release} gets {percent} % of the calls"),
            ReleaseState::Serving => format!("{function}: release {release} serves"),
            ReleaseState::Waiting if args.stop => format!("{function}: release {release} gets no more calls"),
            state => format!("{function}: release {release} is {}", state.as_str()),
        })
    })
}

async fn show(context: &Context, function: &str) -> Result<Exit, CommandFailure> {
    let list = releases::of(context, function).await?;
    context.made(&list.canary, |out| match &list.canary {
        None => out.remark(&format!("{function}: none of its releases is a canary")),
        Some(canary) => print(function, canary, out),
    })
}

fn print(function: &str, canary: &CanaryView, out: &Output) -> Result<(), CommandFailure> {
    let now = Timestamp::now();
    let (name, percent) = (short(canary.version), canary.percent);
    let since = match &canary.since {
        Some(since) => format!("since {}", distance(Some(since), now)),
        None => "as soon as it can be loaded".to_owned(),
    };
    let end = match &canary.promote_at {
        Some(at) => format!("promoted {}", distance(Some(at), now)),
        None => format!("promoted by `fndctl canary {function} --promote`"),
    };
    let (attempts, failures, most) = (canary.attempts, canary.failures, canary.max_failures);
    out.line(&format!(
        "{function}: release {name} gets {percent} % of the calls, {since}"
    ))?;
    out.line(&format!(
        "  runs {attempts}, failed {failures}; with more than {most} failures it is rolled back; {end}"
    ))
}
