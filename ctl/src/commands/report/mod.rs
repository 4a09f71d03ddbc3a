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
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::hosts::HostRows;
use crate::output::{Format, Output, parse};
use crate::text::since;
use fnd_core::api::NodeStatus;
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

impl Args {
    /// Returns whether a message is wanted.
    pub(crate) fn is_mail(&self) -> bool {
        self.mail
    }
}

/// Most runs that are read: a hundred pages of the API.
const MOST: u32 = 100_000;

/// # Errors
/// The daemon refuses a request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if args.mail && context.out.format != Format::Table {
        let message = "`--mail` prints a message: it has no `-o` and no `--jq`";
        return Err(CommandFailure::usage(message));
    }
    // Whole seconds are enough for people.
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    let since = since("--since", &args.since, now)?;
    let filter = Filter {
        since: Some(since.clone()),
        limit: Some(MOST),
        ..Filter::default()
    };
    // A list of runs has their usage only on request. Otherwise each run would need a request of its own.
    let mut wanted = RunFilter::new(&filter, now)?.with("usage", "1");
    let runs = wanted.runs(context).await?;
    let node: NodeStatus = context.read("/v1/status").await?;
    let mut report = Report::of(&node, &runs, &since, &now.to_string());
    report.is_cut = wanted.next.is_some();
    if args.mail {
        context.out.raw(mail::message(&report, now).as_bytes())?;
        return Ok(Exit::Fine);
    }
    context.made(&report, |out| {
        out.lines(page::lines(&report, out.columns(), |text| out.instant(text)))
    })
}

/// Returns another machine's report as one row, and its failures.
pub(crate) fn rows(_: &Output, body: &[u8], _: Timestamp) -> Result<HostRows, CommandFailure> {
    let report: Report = parse(body)?;
    let failures = report.failures.iter().map(page::failure);
    Ok(HostRows {
        table: page::row(&report),
        lines: page::cut(&report).into_iter().chain(failures).collect(),
    })
}
