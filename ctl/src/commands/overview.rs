//! `fndctl overview`: what needs a person, what runs, what comes next; the first page of `fndctl web` shows the same.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Output, TextTable, Tone, escape};
use crate::text::{distance, short};
use fnd_core::api::{Attention, Overview};
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
    context.out.document(&reply.body, |overview: &Overview, out| {
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
    })?;
    Ok(Exit::Fine)
}

fn attention(out: &Output, overview: &Overview, now: Timestamp) -> Result<(), CommandFailure> {
    for problem in &overview.problems {
        out.line(&escape(&format!("problem: {problem}"), true))?;
    }
    if overview.attention.is_empty() {
        out.line("no function needs you")?;
    } else {
        let mut table = TextTable::new(&["NEEDS ATTENTION", "WHY", "SINCE", "MESSAGE"]);
        for one in &overview.attention {
            let tone = if one.why == Attention::Canary {
                Tone::Plain
            } else {
                Tone::Bad
            };
            let since = distance(one.since.as_deref(), now);
            let cells = [
                one.function.to_string(),
                one.why.as_str().to_owned(),
                since,
                one.message.clone(),
            ];
            table.row(tone, cells);
        }
        out.table(&table)?;
    }
    more(out, overview.attention_count, overview.attention.len())?;
    if overview.dead_letters > 0 {
        let letters = counted(overview.dead_letters, "dead letter", "dead letters");
        out.line(&format!("{letters} (fndctl dead-letters)"))?;
    }
    Ok(())
}

fn running(out: &Output, overview: &Overview, now: Timestamp) -> Result<(), CommandFailure> {
    if overview.running.is_empty() {
        return out.line("\nnothing runs");
    }
    out.line("")?;
    let mut table = TextTable::new(&["RUNNING", "FUNCTION", "SINCE"]);
    for run in &overview.running {
        let since = distance(run.started_at.as_deref(), now);
        table.row(Tone::Plain, [short(run.id), run.function.to_string(), since]);
    }
    out.table(&table)?;
    more(out, overview.running_count, overview.running.len())
}

fn next(out: &Output, overview: &Overview, now: Timestamp) -> Result<(), CommandFailure> {
    if overview.next.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut table = TextTable::new(&["NEXT", "FUNCTION"]);
    for run in &overview.next {
        table.row(Tone::Plain, [distance(Some(&run.at), now), run.function.to_string()]);
    }
    out.table(&table)
}

/// Says how many entries are not shown.
fn more(out: &Output, all: u64, shown: usize) -> Result<(), CommandFailure> {
    match all.saturating_sub(shown as u64) {
        0 => Ok(()),
        more => out.line(&format!("and {more} more")),
    }
}
