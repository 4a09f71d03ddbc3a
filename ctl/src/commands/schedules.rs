//! `fndctl schedules`: lists the schedules with their next slots and the outcome of their last run.

use crate::common::candidates;
use crate::common::names::expand;
use crate::common::tables::{bad_if, table, toned};
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Output, TextTable};
use crate::text::{distance, why};
use fnd_core::api::{Changed, InvocationView, ScheduleList, ScheduleState, ScheduleView};
use jiff::Timestamp;

#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
    fndctl schedules                   list the schedules of all functions\n  \
    fndctl schedules backup --next 5   show the next five runs\n  \
    fndctl schedules pause backup      run nothing by schedule until `resume`\n  \
    fndctl schedules resume backup"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<SchedulesVerb>,

    /// Only schedules of this function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: Option<String>,

    /// How many of the next runs to show.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=100))]
    next: u8,
}

#[derive(Debug, clap::Subcommand)]
enum SchedulesVerb {
    /// Run nothing by schedule; runs that pass meanwhile are not made up for.
    #[command(after_help = "Example:\n  fndctl schedules pause nightly")]
    Pause(ScheduledFunctions),
    /// Run by schedule again.
    #[command(after_help = "Example:\n  fndctl schedules resume nightly")]
    Resume(ScheduledFunctions),
}

#[derive(Debug, clap::Args)]
struct ScheduledFunctions {
    /// Names of functions; a name may have `*` and `?`.
    #[arg(value_name = "FUNCTION", required = true, add = candidates::functions())]
    functions: Vec<String>,
}

impl Args {
    /// Says whether the command only reads.
    pub(crate) fn only_reads(&self) -> bool {
        self.action.is_none()
    }
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    match args.action {
        Some(SchedulesVerb::Pause(named)) => return change(context, &named.functions, "pause").await,
        Some(SchedulesVerb::Resume(named)) => return change(context, &named.functions, "resume").await,
        None => {}
    }
    let mut path = format!("/v1/schedules?next={}", args.next);
    if let Some(function) = &args.function {
        // If the function is unknown, this fails. Otherwise the list would only be empty.
        context.client.get(&function_path(function)?).await?;
        path.push_str(&format!("&function={}", crate::client::encode(function)));
    }
    let reply = context.client.get(&path).await?;
    // The time is taken after the answer, so that a run that has ended meanwhile ended in the past.
    let now = Timestamp::now();
    context.out.answer(&reply.body, |list: &ScheduleList, out| {
        if list.schedules.is_empty() {
            return out.line("no schedules; `fndctl explain schedule` shows how to write one");
        }
        match args.next {
            1 => out.table(&one_row_each(&list.schedules, out, now)),
            _ => out.table(&slots(&list.schedules, out, now)),
        }
    })
}

/// Returns the table of schedules.
fn one_row_each(schedules: &[ScheduleView], out: &Output, now: Timestamp) -> TextTable {
    let heads = ["FUNCTION", "SCHEDULE", "ZONE", "NEXT", "AT", "LAST", "STATE"];
    let has_failed = |last: &InvocationView| last.state.is_failure();
    let tone = |schedule: &ScheduleView| bad_if(schedule.last.as_ref().is_some_and(has_failed));
    toned(heads, schedules, tone, |schedule| {
        let next = schedule.next.first().map(String::as_str);
        let last = schedule.last.as_ref().map(|last| {
            let state = || last.state.as_str().to_owned();
            let word = last.reason.map_or_else(state, |reason| why(Some(reason), ""));
            let at = last.ended_at.as_deref().unwrap_or(&last.accepted_at);
            format!("{word} {}", distance(Some(at), now))
        });
        [
            schedule.function.to_string(),
            schedule.schedule.clone(),
            schedule.timezone.clone().unwrap_or_default(),
            distance(next, now),
            next.map(|next| out.instant(next)).unwrap_or_default(),
            last.unwrap_or_default(),
            schedule.state.as_str().to_owned(),
        ]
    })
}

/// Returns the table of the next runs, one row for each run.
fn slots(schedules: &[ScheduleView], out: &Output, now: Timestamp) -> TextTable {
    // A schedule that is paused has no next slots, so the table has no row of it.
    for schedule in schedules.iter().filter(|one| one.state != ScheduleState::Active) {
        out.progress(&format!("{}: {}", schedule.function, schedule.state.as_str()));
    }
    let slots = schedules
        .iter()
        .flat_map(|one| one.next.iter().map(move |next| (one, next)));
    let heads = ["FUNCTION", "SCHEDULE", "ZONE", "NEXT", "AT"];
    table(heads, slots, |(schedule, next)| {
        [
            schedule.function.to_string(),
            schedule.schedule.clone(),
            schedule.timezone.clone().unwrap_or_default(),
            distance(Some(next), now),
            out.instant(next),
        ]
    })
}

/// Pauses or resumes the schedules of functions.
async fn change(context: &Context, typed: &[String], verb: &str) -> Result<Exit, CommandFailure> {
    for function in expand(context, typed).await? {
        let path = format!("{}/schedules/{verb}", function_path(&function)?);
        let reply = context.client.post(&path).await?;
        context.out.document(&reply.body, |changed: &Changed, out| {
            out.remark(&format!("{function}: schedules {}", changed.state))
        })?;
    }
    Ok(Exit::Fine)
}
