//! `fndctl overview`: what needs a person, what runs, what comes next; the first page of `fndctl web` shows the same.

use crate::common::tables::{bad_if, table, toned};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::hosts::HostRows;
use crate::output::{Output, escape, parse};
use crate::text::{distance, short};
use fnd_core::api::{Attention, AttentionView, Overview};
use fnd_wire::units::counted;
use jiff::Timestamp;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each part has its first entries; `fndctl status --failed`, `fndctl history --state running` and `fndctl schedules` have all.\n\nExamples:\n  \
    fndctl overview\n  \
    fndctl overview -o json | jq .attention"
)]
pub(crate) struct Args {}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, Args {}: Args) -> Result<Exit, CommandFailure> {
    let reply = context.client.get("/v1/overview").await?;
    let now = Timestamp::now();
    context.out.answer(&reply.body, |overview: &Overview, out| {
        attention(out, overview, now)?;
        running(out, overview, now)?;
        next(out, overview, now)?;
        let sum = |of: fn(&fnd_core::hours::HourCount) -> u64| overview.hours.iter().map(of).sum::<u64>();
        if overview.hours.is_empty() {
            return Ok(());
        }
        out.line(&format!(
            "\nlast 24 hours: {} succeeded, {} failed (counted since {})",
            sum(|hour| hour.succeeded),
            sum(|hour| hour.failed),
            distance(Some(&overview.hours_since), now)
        ))
    })
}

/// Returns another machine's overview as one row.
pub(crate) fn rows(_: &Output, body: &[u8], now: Timestamp) -> Result<HostRows, CommandFailure> {
    let overview: Overview = parse(body)?;
    let heads = ["FUNCTIONS", "RUNNING", "NEED YOU", "DEAD LETTERS", "FAILED IN 24H"];
    let failed = overview.hours.iter().map(|hour| hour.failed).sum::<u64>();
    let table = toned(
        heads,
        [&overview],
        |one| bad_if(one.attention_count > 0),
        |one| {
            let numbers = [
                one.functions,
                one.running_count,
                one.attention_count,
                one.dead_letters,
                failed,
            ];
            numbers.map(|number| number.to_string())
        },
    );
    let problems = overview
        .problems
        .iter()
        .map(|problem| format!("problem: {}", problem.text));
    let attention = overview.attention.iter().map(|one| {
        let since = distance(one.since.as_deref(), now);
        format!("{}: {} {since}: {}", one.function, one.why.as_str(), one.message)
    });
    Ok(HostRows {
        table,
        lines: problems.chain(attention).collect(),
    })
}

fn attention(out: &Output, overview: &Overview, now: Timestamp) -> Result<(), CommandFailure> {
    for problem in &overview.problems {
        let since = since(problem.since.as_deref(), now);
        out.line(&escape(&format!("problem{since}: {}", problem.text), true))?;
    }
    if overview.attention.is_empty() {
        out.line("no function needs you")?;
    } else {
        let heads = ["NEEDS ATTENTION", "WHY", "SINCE", "MESSAGE"];
        let tone = |one: &AttentionView| bad_if(one.why != Attention::Canary);
        out.table(&toned(heads, &overview.attention, tone, |one| {
            let (why, since) = (one.why.as_str().to_owned(), distance(one.since.as_deref(), now));
            [one.function.to_string(), why, since, one.message.clone()]
        }))?;
    }
    more(out, overview.attention_count, overview.attention.len())?;
    if overview.dead_letters > 0 {
        let letters = counted(overview.dead_letters, "dead letter", "dead letters");
        let since = since(overview.dead_letters_since.as_deref(), now);
        out.line(&format!("{letters}{since} (fndctl dead-letters)"))?;
    }
    Ok(())
}

fn since(instant: Option<&str>, now: Timestamp) -> String {
    match instant {
        Some(_) => format!(" since {}", distance(instant, now)),
        None => String::new(),
    }
}

fn running(out: &Output, overview: &Overview, now: Timestamp) -> Result<(), CommandFailure> {
    if overview.running.is_empty() {
        return out.line("\nnothing runs");
    }
    out.line("")?;
    out.table(&table(["RUNNING", "FUNCTION", "SINCE"], &overview.running, |run| {
        let since = distance(run.started_at.as_deref(), now);
        [short(run.id), run.function.to_string(), since]
    }))?;
    more(out, overview.running_count, overview.running.len())
}

fn next(out: &Output, overview: &Overview, now: Timestamp) -> Result<(), CommandFailure> {
    if overview.next.is_empty() {
        return Ok(());
    }
    out.line("")?;
    out.table(&table(["NEXT", "FUNCTION"], &overview.next, |run| {
        [distance(Some(&run.at), now), run.function.to_string()]
    }))
}

/// Says how many entries are not shown.
fn more(out: &Output, all: u64, shown: usize) -> Result<(), CommandFailure> {
    match all.saturating_sub(shown as u64) {
        0 => Ok(()),
        more => out.line(&format!("and {more} more")),
    }
}
