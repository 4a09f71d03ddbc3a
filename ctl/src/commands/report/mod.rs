//! `fndctl report`: what ran since yesterday, what failed and why, what did not run, what used most.
//!
//! Files:
//! - `mail`: the report as a message
//! - `page`: the report as lines for people
//! - `summary`: what the history and the status say, added up

mod mail;
mod page;
mod summary;

use crate::common::filter::{Filter, RunFilter};
use crate::context::{Context, Parameters};
use crate::exit::{CommandFailure, Exit};
use crate::output::Format;
use crate::output::parse;
use crate::text::since;
use fnd_core::api::{InvocationList, NodeStatus};
use jiff::Timestamp;
use summary::Report;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "RUNS counts the runs that were accepted in this time. TIME is how long they took together, CPU and MEMORY are of \
    processes that served no other run.\n\nExamples:\n  \
    fndctl report\n  \
    fndctl report --since 7d\n  \
    fndctl report --mail | sendmail root          every morning, from cron or a function\n  \
    fndctl report --jq '.failures[] | [.function, .reason, .count] | @tsv'"
)]
pub(crate) struct Args {
    /// Since then: how long ago, such as `7d`; `yesterday` or `09:00`; or an instant such as 2026-11-21T08:00:00Z.
    #[arg(long, value_name = "WHEN", default_value = "24h", allow_hyphen_values = true)]
    since: String,

    /// Print a message for sendmail (RFC 5322), with the verdict as its subject.
    #[arg(long)]
    mail: bool,
}

/// Most runs that are read: a hundred pages of the API.
const MOST: u32 = 100_000;

/// # Errors
/// The daemon refuses a request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if args.mail && context.out.format != Format::Table {
        return Err(CommandFailure::usage(
            "`--mail` prints a message: it has no `-o` and no `--jq`",
        ));
    }
    // Whole seconds are enough for people.
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    let since = since(&args.since, now)?;
    let filter = Filter {
        since: Some(since.clone()),
        limit: Some(MOST),
        ..Filter::default()
    };
    // A list of runs has their usage only on request. Otherwise each run would need a request of its own.
    let mut wanted =
        RunFilter::new(&filter, now)?.with(|parameters: &mut Parameters| parameters.add("usage", Some("1")));
    let parts = |page: InvocationList| (page.invocations, page.next);
    let runs = wanted.all(context, "/v1/invocations", parts).await?;
    let node: NodeStatus = parse(&context.client.get("/v1/status").await?.body)?;
    let mut report = Report::of(&node, &runs, &since, &now.to_string());
    report.is_cut = wanted.next.is_some();
    if args.mail {
        context.out.raw(mail::message(&report, now).as_bytes())?;
        return Ok(Exit::Fine);
    }
    let body = serde_json::to_vec(&report).unwrap_or_default(); // numbers and texts
    context.out.answer(&body, |report: &Report, out| {
        let lines = page::lines(report, out.columns(), |text| out.instant(text));
        lines.iter().try_for_each(|line| out.line(line))
    })
}
