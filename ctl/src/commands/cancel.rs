//! `fndctl cancel ID`: requests the end of runs.

use crate::common::candidates;
use crate::common::filter::{Filter, RunFilter};
use crate::common::names::expand;
use crate::common::runs::{find, newest};
use crate::context::{Context, function_path, invocation_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::parse;
use fnd_core::api::Changed;
use fnd_core::records::outcome::RunState;
use jiff::Timestamp;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A cancelled run of a service starts the service anew; `fndctl stop F` ends it.\n\nExamples:\n  \
    fndctl cancel 456789abcdef\n  \
    fndctl cancel --last hello\n  \
    fndctl cancel --all hello 'web/*'        their waiting and running runs"
)]
pub(crate) struct Args {
    /// Ids of runs, or their last characters, as `fndctl history` shows them.
    #[arg(value_name = "ID", required_unless_present_any = ["all", "last"], add = candidates::runs())]
    ids: Vec<String>,

    /// Cancel the newest run, or the newest run of this function.
    #[arg(long, value_name = "FUNCTION", num_args = 0..=1, conflicts_with_all = ["ids", "all"], add = candidates::functions())]
    last: Option<Option<String>>,

    /// Cancel all waiting and running runs of these functions; a name may have `*` and `?`.
    #[arg(long, value_name = "FUNCTION", num_args = 1.., conflicts_with = "ids", add = candidates::functions())]
    all: Vec<String>,
}

/// The states of runs that have not ended. Waiting runs come first: else one starts when a running one ends.
const UNFINISHED: [RunState; 4] = [
    RunState::Queued,
    RunState::Waiting,
    RunState::Polling,
    RunState::Running,
];

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let ids = ids(context, &args).await?;
    // One run has the answer of the API, several have a list.
    if let ([id], true) = (ids.as_slice(), args.all.is_empty()) {
        let reply = context.client.post(&format!("{}/cancel", invocation_path(id))).await?;
        return context.out.answer(&reply.body, |changed: &Changed, out| {
            out.remark(&format!("{id}: {}", changed.state))
        });
    }
    let mut done = Vec::new();
    for id in ids {
        let reply = context.client.post(&format!("{}/cancel", invocation_path(&id))).await;
        match reply.map_err(CommandFailure::from) {
            Ok(reply) => {
                // It is done, and the other runs must not stay because one answer cannot be read.
                let state = parse::<Changed>(&reply.body).map(|changed| changed.state);
                done.push((id, state.unwrap_or_default()));
            }
            // It has ended since it was listed.
            Err(failure) if failure.exit == Exit::NoSuchThing && !args.all.is_empty() => {}
            Err(failure) => return Err(failure),
        }
    }
    context.became("id", &done)
}

/// Returns the whole ids of the runs that the command line names.
async fn ids(context: &Context, args: &Args) -> Result<Vec<String>, CommandFailure> {
    if let Some(function) = &args.last {
        return Ok(vec![newest(context, function.as_deref()).await?]);
    }
    let mut ids = unfinished(context, &args.all).await?;
    for typed in &args.ids {
        ids.push(find(context, typed).await?);
    }
    Ok(ids)
}

/// Returns the ids of all runs of functions that have not ended.
async fn unfinished(context: &Context, typed: &[String]) -> Result<Vec<String>, CommandFailure> {
    let now = Timestamp::now();
    let mut ids = Vec::new();
    for function in expand(context, typed).await? {
        let before = ids.len();
        for state in UNFINISHED {
            let filter = Filter {
                function: Some(function.clone()),
                state: Some(state.as_str().to_owned()),
                limit: Some(u32::MAX),
                ..Filter::default()
            };
            let runs = RunFilter::new(&filter, now)?.runs(context).await?;
            ids.extend(runs.iter().map(|run| run.id.to_string()));
        }
        // A function that was deleted may still have runs. One that never was has none.
        if ids.len() == before {
            context.client.get(&function_path(&function)?).await?;
        }
    }
    Ok(ids)
}
