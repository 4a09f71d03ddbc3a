//! `fndctl history`: runs, newest first; with `--id` one run with its attempts.

use crate::common::candidates;
use crate::common::filter::{Filter, RunFilter};
use crate::common::run_record;
use crate::common::runs::{find, newest, run_of_word};
use crate::common::tables::{page, widening};
use crate::context::{Context, function_path, invocation_path};
use crate::exit::{CommandFailure, Exit};
use crate::hosts::{HostRows, older};
use crate::output::{Format, Output, TextTable, Tone, parse};
use crate::text::{between, distance, short};
use clap::ValueEnum;
use fnd_core::api::{InvocationList, InvocationView};
use fnd_core::records::outcome::RunState;
use jiff::Timestamp;
use std::cmp::Reverse;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl history\n  \
    fndctl history hello --state failed --since 1d\n  \
    fndctl history --reason oom -o wide\n  \
    fndctl history --since 1d --sort duration\n  \
    fndctl history --text 'no such host' --since 7d  search in messages\n  \
    fndctl history hello --version 4f2a --trigger redrive\n  \
    fndctl history 456789abcdef                    one run, by the end of its id\n  \
    fndctl history --last hello                    the newest run of a function")]
pub(crate) struct Args {
    #[command(flatten)]
    filter: Filter,

    /// Put the listed runs in this order.
    #[arg(long, value_name = "KEY", value_enum, conflicts_with_all = ["id", "last"])]
    sort: Option<RunOrder>,

    // An option without effect is an error and is not ignored, so the filters conflict with these two.
    /// Show this run with its attempts.
    #[arg(long, value_name = "ID", conflicts_with_all = ["function", "state", "reason", "trigger", "version", "text", "since", "until", "limit", "after"], add = candidates::runs())]
    id: Option<String>,

    /// Show the newest run, or the newest run of this function, with its attempts.
    #[arg(long, value_name = "FUNCTION", num_args = 0..=1, conflicts_with_all = ["id", "function", "state", "reason", "trigger", "version", "text", "since", "until", "limit", "after"], add = candidates::functions())]
    last: Option<Option<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RunOrder {
    /// By the name of the function.
    Name,
    /// By the time they were accepted, newest first.
    Accepted,
    /// By duration, longest first; running ones last.
    Duration,
    /// By the number of attempts, most first.
    Attempts,
    /// By state.
    State,
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let run = match (&args.id, &args.last) {
        (Some(id), _) => Some(find(context, id).await?),
        (None, Some(function)) => Some(newest(context, function.as_deref()).await?),
        (None, None) => word(context, &args).await?,
    };
    if let Some(id) = run {
        let reply = context.client.get(&invocation_path(&id)).await?;
        return context.out.answer(&reply.body, |view: &InvocationView, out| {
            run_record::print(out, view, now)
        });
    }
    let mut wanted = RunFilter::new(&args.filter, now)?;
    let mut list = InvocationList {
        invocations: wanted
            .all(context, "/v1/invocations", |page: InvocationList| {
                (page.invocations, page.next)
            })
            .await?,
        next: wanted.next,
    };
    if list.invocations.is_empty() {
        let missing = exists(context, args.filter.function.as_deref()).await;
        match missing {
            // A removed function may have runs that the options do not select.
            Err(failure) if failure.exit == Exit::NoSuchThing && args.filter.selects_more() => {
                context.out.aside(&failure.message);
            }
            missing => missing?,
        }
    }
    // The API lists runs by time only, so the runs that were read are put in order here.
    if let Some(key) = args.sort {
        sort(&mut list.invocations, key);
    }
    context.made(&list, |out| {
        page(out, &table(out, &list.invocations, now), list.next.as_deref())
    })
}

/// Returns the rows of another machine's answer: that of one run, or a list.
pub(crate) fn rows(out: &Output, body: &[u8], now: Timestamp) -> Result<HostRows, CommandFailure> {
    let list = match parse::<InvocationView>(body) {
        Ok(run) => InvocationList {
            invocations: vec![run],
            next: None,
        },
        Err(_) => parse(body)?,
    };
    Ok(HostRows {
        table: table(out, &list.invocations, now),
        lines: older(list.next.as_deref()),
    })
}

/// Fails if there is no function of a name, which may be misspelt. A removed function has runs, and `fnd-build` is fnd itself.
async fn exists(context: &Context, name: Option<&str>) -> Result<(), CommandFailure> {
    if let Some(name) = name.filter(|name| !name.contains(['*', '?']) && !name.starts_with("fnd-")) {
        context.client.get(&function_path(name)?).await?;
    }
    Ok(())
}

/// Returns the run that the command line has in the place of a function: `history ID`.
async fn word(context: &Context, args: &Args) -> Result<Option<String>, CommandFailure> {
    let Some(word) = &args.filter.function else {
        return Ok(None);
    };
    let run = run_of_word(context, word).await?;
    if run.is_some() && (args.filter.selects_more() || args.sort.is_some()) {
        let message = format!("`{word}` is one run, so no option can select or sort");
        return Err(CommandFailure::usage(message).help(format!("fndctl history {word}")));
    }
    Ok(run)
}

/// Sorts runs; equal ones stay as they are listed, newest first.
fn sort(runs: &mut [InvocationView], key: RunOrder) {
    let instant = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    match key {
        RunOrder::Name => runs.sort_by(|a, b| a.function.cmp(&b.function)),
        // The API writes all instants in one form, which sorts as text.
        RunOrder::Accepted => runs.sort_by(|a, b| b.accepted_at.cmp(&a.accepted_at)),
        RunOrder::Duration => {
            let lasted = |run: &InvocationView| Some(instant(&run.ended_at)?.duration_since(instant(&run.started_at)?));
            runs.sort_by_key(|run| Reverse(lasted(run)));
        }
        RunOrder::Attempts => runs.sort_by_key(|run| Reverse(run.attempts)),
        RunOrder::State => runs.sort_by_key(|run| run.state.as_str()),
    }
}

/// Returns the table of invocations. The ends of their ids are enough for people.
fn table(out: &Output, invocations: &[InvocationView], now: Timestamp) -> TextTable {
    let instant = |text: &Option<String>| text.as_deref().map(|text| out.instant(text)).unwrap_or_default();
    let heads: (&[_], &[_]) = (
        &["ID", "FUNCTION", "STATE", "REASON", "ACCEPTED", "DURATION"],
        &["TRIGGER", "ATTEMPTS", "POLLS", "STARTED", "ENDED", "NEXT", "MESSAGE"],
    );
    widening(out, heads, invocations, tone, |view| {
        let is_short = out.format == Format::Table;
        vec![
            if is_short { short(view.id) } else { view.id.to_string() },
            view.function.to_string(),
            view.state.as_str().to_owned(),
            view.reason.map(|reason| reason.to_string()).unwrap_or_default(),
            distance(Some(&view.accepted_at), now),
            between(view.started_at.as_deref(), view.ended_at.as_deref(), now),
            view.trigger.as_str().to_owned(),
            view.attempts.to_string(),
            view.polls.to_string(),
            instant(&view.started_at),
            instant(&view.ended_at),
            distance(view.next_attempt_at.as_deref(), now),
            view.message.clone(),
        ]
    })
}

fn tone(view: &InvocationView) -> Tone {
    match view.state {
        RunState::Failed | RunState::Interrupted => Tone::Bad,
        RunState::Cancelled | RunState::Skipped => Tone::Dim,
        RunState::Queued | RunState::Running | RunState::Waiting | RunState::Polling | RunState::Succeeded => {
            Tone::Plain
        }
    }
}
