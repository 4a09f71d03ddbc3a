//! `fndctl history`: runs, newest first; with `--id` one run with its attempts.

use crate::common::candidates;
use crate::common::filter::{Filter, RunFilter};
use crate::common::runs::{find, newest};
use crate::context::{Context, invocation_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::Format;
use crate::output::{Output, TextTable, Tone, escape};
use crate::text::short;
use crate::text::{between, distance, duration, size};
use clap::ValueEnum;
use fnd_core::api::{InvocationList, InvocationView};
use fnd_core::records::cause::Cause;
use fnd_core::records::outcome::RunState;
use fnd_wire::units::counted;
use jiff::Timestamp;
use std::cmp::Reverse;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl history\n  \
    fndctl history hello --state failed --since 1d\n  \
    fndctl history --reason oom -o wide\n  \
    fndctl history --since 1d --sort duration\n  \
    fndctl history --text 'no such host' --since 7d  search in messages\n  \
    fndctl history hello --version 4f2a --trigger redrive\n  \
    fndctl history --id 456789abcdef               one run, by the end of its id\n  \
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

/// Orders of runs.
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

/// Runs the verb.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let run = match (&args.id, &args.last) {
        (Some(id), _) => Some(find(context, id).await?),
        (None, Some(function)) => Some(newest(context, function.as_deref()).await?),
        (None, None) => None,
    };
    if let Some(id) = run {
        let reply = context.client.get(&invocation_path(&id)).await?;
        context
            .out
            .document(&reply.body, |view: &InvocationView, out| one(out, view, now))?;
        return Ok(Exit::Fine);
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
    // The API lists runs by time only, so the runs that were read are put in order here.
    if let Some(key) = args.sort {
        sort(&mut list.invocations, key);
    }
    let body = serde_json::to_vec(&list).unwrap_or_default(); // as it was read
    context.out.document(&body, |list: &InvocationList, out| {
        out.table(&table(out, &list.invocations, now))?;
        if let Some(next) = &list.next {
            // The cursor goes to standard error: standard output has the runs, and nothing else.
            out.progress(&format!("for older ones: --after {next}"));
        }
        Ok(())
    })?;
    Ok(Exit::Fine)
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
    let wide = out.format == Format::Wide;
    let instant = |text: &Option<String>| text.as_deref().map(|text| out.instant(text)).unwrap_or_default();
    let mut header = vec!["ID", "FUNCTION", "STATE", "REASON", "ACCEPTED", "DURATION"];
    if wide {
        header.extend(["TRIGGER", "ATTEMPTS", "POLLS", "STARTED", "ENDED", "NEXT", "MESSAGE"]);
    }
    let mut table = TextTable::new(&header);
    for view in invocations {
        let mut cells = vec![
            if out.format == Format::Table {
                short(view.id)
            } else {
                view.id.to_string()
            },
            view.function.to_string(),
            view.state.as_str().to_owned(),
            view.reason.map(|reason| reason.to_string()).unwrap_or_default(),
            distance(Some(&view.accepted_at), now),
            between(view.started_at.as_deref(), view.ended_at.as_deref(), now),
        ];
        if wide {
            cells.extend([
                view.trigger.as_str().to_owned(),
                view.attempts.to_string(),
                view.polls.to_string(),
                instant(&view.started_at),
                instant(&view.ended_at),
                distance(view.next_attempt_at.as_deref(), now),
                view.message.clone(),
            ]);
        }
        table.row(tone(view.state), cells);
    }
    table
}

fn tone(state: RunState) -> Tone {
    match state {
        RunState::Failed | RunState::Interrupted => Tone::Bad,
        RunState::Cancelled | RunState::Skipped => Tone::Dim,
        RunState::Queued | RunState::Running | RunState::Waiting | RunState::Polling | RunState::Succeeded => {
            Tone::Plain
        }
    }
}

/// Returns what made a trigger run the function, as lines of a name and a text.
fn of_cause(cause: &Cause, out: &Output) -> Vec<(&'static str, String)> {
    match cause {
        Cause::Schedule(slots) => {
            let first = slots
                .first
                .as_deref()
                .map(|first| format!(", from {}", out.instant(first)));
            let count = counted(slots.slots, "slot", "slots");
            let at = out.instant(&slots.scheduled_at);
            vec![("scheduled", format!("{at} ({count}{})", first.unwrap_or_default()))]
        }
        Cause::Event(event) => {
            let attributes = &event.attributes;
            let mut lines = vec![
                ("event", format!("{} {}", attributes.kind, attributes.id)),
                ("source", attributes.source.clone()),
            ];
            lines.extend(attributes.subject.clone().map(|subject| ("subject", subject)));
            lines
        }
        Cause::File(file) => {
            let more = file
                .files
                .filter(|files| *files > 1)
                .map(|files| format!(" and {} more", files - 1));
            let text = format!("{} ({}){}", file.path, file.event.as_str(), more.unwrap_or_default());
            vec![("file", text)]
        }
        Cause::Nats(message) => {
            let place = match (&message.stream, message.sequence) {
                (Some(stream), Some(sequence)) => format!("{stream} {sequence}"),
                _ => "a request".to_owned(),
            };
            vec![("nats", place), ("subject", message.subject.clone())]
        }
        Cause::Hook(hook) => vec![("hook of", format!("{} {}", hook.function, hook.invocation))],
        Cause::Call(call) => {
            let id = call.invocation.map(|id| format!(" {id}")).unwrap_or_default();
            vec![("called by", format!("{}{id}", call.function))]
        }
        Cause::Alert(told) => {
            let about = told.function.as_ref().map_or("the node", |function| function.as_str());
            vec![("alert", format!("{about}: {}", told.alert.as_str()))]
        }
    }
}

/// Prints all about a run.
fn one(out: &Output, view: &InvocationView, now: Timestamp) -> Result<(), CommandFailure> {
    let text = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), |text| out.instant(text));
    let exhausted = view
        .exhausted
        .map(|what| format!(" ({} exhausted)", format!("{what:?}").to_lowercase()));
    let hook = view.hook.map(|hook| format!(" (a hook {})", hook.as_str()));
    // Two nodes have a record of one message then, and people look for the one that counts.
    let superseded = view.superseded_by.as_ref().map(|node| {
        let text =
            format!("by {node}, which has taken the message over: its record counts, and this one is no dead letter");
        ("superseded", text)
    });
    let lines = [
        ("id", view.id.to_string()),
        ("function", view.function.to_string()),
        ("trigger", view.trigger.as_str().to_owned()),
        (
            "state",
            format!(
                "{}{}{}",
                view.state.as_str(),
                exhausted.unwrap_or_default(),
                hook.unwrap_or_default()
            ),
        ),
        (
            "reason",
            view.reason.map_or("-".to_owned(), |reason| reason.to_string()),
        ),
        (
            "message",
            if view.message.is_empty() {
                "-".to_owned()
            } else {
                view.message.clone()
            },
        ),
        ("accepted", out.instant(&view.accepted_at)),
        ("started", text(&view.started_at)),
        ("ended", text(&view.ended_at)),
        (
            "duration",
            match between(view.started_at.as_deref(), view.ended_at.as_deref(), now) {
                none if none.is_empty() => "-".to_owned(),
                duration => duration,
            },
        ),
        ("next attempt", text(&view.next_attempt_at)),
        (
            "version",
            view.version.map_or("-".to_owned(), |version| version.to_string()),
        ),
    ];
    // The message may be text of the function. A line end in it would look like the beginning of another field.
    for (name, value) in lines.into_iter().chain(superseded) {
        out.line(&format!("{name:13} {}", escape(&value, false)))?;
    }
    for (name, value) in view
        .cause
        .as_ref()
        .map(|cause| of_cause(cause, out))
        .unwrap_or_default()
    {
        out.line(&format!("{name:13} {}", escape(&value, false)))?;
    }
    if view.attempt_records.is_empty() {
        return Ok(());
    }
    out.line("")?;
    let mut header = vec!["TRY", "STARTED", "DURATION", "REASON", "CPU", "MEMORY", "OUTPUT"];
    if out.format == Format::Wide {
        header.extend(["POLL", "WORKER", "EXIT", "SIGNAL", "THROTTLED", "DROPPED", "MESSAGE"]);
    }
    let mut table = TextTable::new(&header);
    for attempt in &view.attempt_records {
        let mut cells = vec![
            attempt.attempt.to_string(),
            distance(Some(&attempt.started_at), now),
            duration(Some(attempt.duration_ms)),
            attempt.reason.to_string(),
            duration(attempt.cpu_ms),
            size(attempt.memory_peak_bytes),
            size(Some(attempt.stdout_bytes.saturating_add(attempt.stderr_bytes))),
        ];
        if out.format == Format::Wide {
            cells.extend([
                attempt.poll.to_string(),
                if attempt.cold { "cold" } else { "warm" }.to_owned(),
                attempt.exit_code.map(|code| code.to_string()).unwrap_or_default(),
                attempt.signal.clone().unwrap_or_default(),
                duration(attempt.throttled_ms),
                size(Some(attempt.dropped_bytes)),
                attempt.message.clone(),
            ]);
        }
        let bad = attempt.reason != fnd_core::records::outcome::Reason::Ok;
        table.row(if bad { Tone::Bad } else { Tone::Plain }, cells);
    }
    out.table(&table)
}
