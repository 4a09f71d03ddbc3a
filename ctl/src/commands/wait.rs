//! `fndctl wait ID|F...`: waits until runs have ended, and ends as they did.

use crate::common::candidates;
use crate::common::names;
use crate::common::results::{LONGEST, exit_of_failed};
use crate::common::runs::{end_of_id, find, newest};
use crate::common::working::while_working;
use crate::context::{Context, invocation_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{escape, parse};
use crate::text::{between, end_of, optional_span, short, why};
use fnd_core::api::{InvocationList, InvocationView};
use fnd_core::records::outcome::RunState;
use fnd_wire::ids::InvocationId;
use fnd_wire::units::print_duration;
use jiff::Timestamp;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit code is 0 if all runs succeeded; else that of the first one that did not: 1, or 6 for a timeout of the function \
    or of the wait.\n\nExamples:\n  \
    fndctl wait 456789abcdef && echo done\n  \
    fndctl wait hello --timeout 30s          the newest run of a function\n  \
    fndctl wait $(fndctl invoke hello --async) && fndctl result --last hello"
)]
pub(crate) struct Args {
    /// Ids of runs, or their last characters, or functions, of which the newest run is meant.
    #[arg(value_name = "ID|FUNCTION", required = true, add = candidates::functions_and_runs())]
    runs: Vec<String>,

    /// Wait at most this long for all of them, such as `30s` or `5m` [default: no limit].
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
}

/// How long one request waits at most: as long as fnd accepts.
const STEP: Duration = Duration::from_secs(3600);

/// # Errors
/// The wait is over before the runs are, the daemon refuses a request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let longest = optional_span("--timeout", args.timeout.as_deref())?;
    let until = Instant::now() + longest.unwrap_or(LONGEST);
    let mut ids = Vec::new();
    for typed in &args.runs {
        ids.push(named(context, typed).await?);
    }
    let mut ended = Vec::new();
    // The runs go on at the same time, so waiting for one after the other takes no longer.
    for id in &ids {
        let (began, name) = (Instant::now(), end_of(id));
        let about = async || format!("waiting for run {name}: {}s", began.elapsed().as_secs());
        let (body, view) = while_working(context, end(context, id, until), about).await?;
        if let [_] = ids.as_slice() {
            let out = &context.out;
            out.document(&body, |view: &InvocationView, out| out.remark(&line(view)))?;
        } else if !context.out.format.is_document() {
            // Each run is printed as soon as it has ended.
            context.out.remark(&line(&view))?;
        }
        ended.push(view);
    }
    let first = ended.iter().find(|run| run.state != RunState::Succeeded);
    let verdict = first.map_or(Exit::Fine, |run| exit_of_failed(run.reason));
    if ended.len() > 1 {
        let list = InvocationList {
            invocations: ended,
            next: None,
        };
        context.made(&list, |_| Ok(()))?;
    }
    Ok(verdict)
}

/// Returns the whole id of a run: of the newest one of a function that has this name, else of the one with this id.
async fn named(context: &Context, typed: &str) -> Result<String, CommandFailure> {
    if InvocationId::parse(typed).is_some() {
        return Ok(typed.to_owned());
    }
    if names::all(context).await?.iter().any(|name| name == typed) {
        return newest(context, Some(typed)).await;
    }
    if end_of_id(typed).is_ok() {
        return find(context, typed).await;
    }
    // A word that cannot be a name gets the message about names instead.
    crate::context::function_path(typed)?;
    let message = format!("there is no function `{typed}`, and no run has such an id");
    Err(names::unknown(typed, message))
}

/// Waits for the end of a run and returns it, also as the API wrote it.
async fn end(context: &Context, id: &str, until: Instant) -> Result<(Vec<u8>, InvocationView), CommandFailure> {
    let path = invocation_path(id);
    loop {
        let step = until.saturating_duration_since(Instant::now()).min(STEP);
        let path = format!("{path}?wait={}", print_duration(step));
        let reply = context.client.get(&path).await?;
        let view: InvocationView = parse(&reply.body)?;
        if view.state.is_final() {
            return Ok((reply.body.to_vec(), view));
        }
        // A step that is shorter than the longest one ended at `until`.
        if step < STEP {
            let (function, state) = (&view.function, view.state.as_str());
            let message = format!("the time to wait is over, but the run of `{function}` has not ended: it is {state}");
            let id = short(view.id);
            let help = format!("fndctl logs --id {id} shows its output, fndctl cancel {id} ends it");
            return Err(CommandFailure::new(Exit::Timeout, message).help(help));
        }
    }
}

/// Returns how a run ended.
fn line(view: &InvocationView) -> String {
    let lasted = between(view.started_at.as_deref(), view.ended_at.as_deref(), Timestamp::now());
    let after = if lasted.is_empty() { "" } else { " after " };
    let (id, function, state) = (short(view.id), &view.function, view.state.as_str());
    let why = match view.state {
        RunState::Succeeded => String::new(),
        _ => format!(": {}", escape(&why(view.reason, &view.message), false)),
    };
    format!("{id} {function} {state}{after}{lasted}{why}")
}
