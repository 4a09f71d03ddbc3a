//! `fndctl dead-letters [list|show|redrive|drop]`: asynchronous runs that failed for good.

use crate::common::answers::fields;
use crate::common::candidates;
use crate::common::filter::{Filter, RunFilter};
use crate::common::results::queued;
use crate::common::runs::{end_of_id, only};
use crate::common::tables::{page, plain, widening};
use crate::context::{Context, invocation_path};
use crate::exit::{CommandFailure, Exit};
use crate::hosts::{HostRows, older};
use crate::output::{Format, Output, TextTable, escape, parse};
use crate::text::{distance, short, size};
use clap::Subcommand;
use fnd_core::api::{DeadLetter, DeadLetterList, InvocationView, LogLine, LogList};
use fnd_wire::ids::InvocationId;
use fnd_wire::units::counted;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "A dead letter is an asynchronous run that ended `failed` or `interrupted` and has no retry left. It stays on the list until it is \
    redriven or dropped, or until its history is deleted. Runs of schedules are none, unless `[[schedule]]` says `dead_letters = true`.\n\nExamples:\n  \
    fndctl dead-letters                                     list them\n  \
    fndctl dead-letters show 456789abcdef                   by the end of its id\n  \
    fndctl dead-letters redrive --last\n  \
    fndctl dead-letters redrive mail --reason timeout       all of `mail` that timed out\n  \
    fndctl dead-letters redrive --all\n  \
    fndctl dead-letters drop mail --until 30d"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<DeadLetterVerb>,
}

#[derive(Debug, Subcommand)]
enum DeadLetterVerb {
    /// List dead letters, newest first.
    #[command(alias = "ls", after_help = "Example:\n  fndctl dead-letters list mail")]
    List(Filter),
    /// Show one dead letter with its payload and its last output.
    #[command(after_help = "Example:\n  fndctl dead-letters show --last")]
    Show(One),
    /// Queue dead letters anew with the same payload, which takes them off the list.
    #[command(
        alias = "retry",
        after_help = "Example:\n  fndctl dead-letters redrive mail --reason timeout"
    )]
    Redrive(DeadLetterChoice),
    /// Take dead letters off the list for good; their records stay in the history.
    #[command(aliases = ["rm", "delete"], after_help = "Example:\n  fndctl dead-letters drop mail --until 30d")]
    Drop(DeadLetterChoice),
}

/// One dead letter.
#[derive(Debug, clap::Args)]
struct One {
    /// Id of the run, or its last characters.
    #[arg(required_unless_present = "last", add = candidates::runs())]
    id: Option<String>,

    /// The newest dead letter, or the newest of this function.
    #[arg(long, value_name = "FUNCTION", num_args = 0..=1, conflicts_with = "id", add = candidates::functions())]
    last: Option<Option<String>>,
}

/// Which dead letters: one, or those of a filter.
#[derive(Debug, clap::Args)]
struct DeadLetterChoice {
    /// Select a dead letter by the id of its run, or several by a function and further filters.
    #[command(flatten)]
    filter: Filter,

    /// Select all dead letters.
    #[arg(long)]
    all: bool,

    /// The newest dead letter, or the newest of this function.
    #[arg(long, value_name = "FUNCTION", num_args = 0..=1, conflicts_with_all = ["all", "function", "state", "reason", "trigger", "version", "text", "since", "until", "limit", "after"], add = candidates::functions())]
    last: Option<Option<String>>,
}

impl Args {
    /// Returns whether nothing is changed.
    pub(crate) fn only_reads(&self) -> bool {
        matches!(
            self.what,
            None | Some(DeadLetterVerb::List(_) | DeadLetterVerb::Show(_))
        )
    }

    /// Returns whether dead letters are listed.
    pub(crate) fn lists(&self) -> bool {
        matches!(self.what, None | Some(DeadLetterVerb::List(_)))
    }
}

/// Lines of the last output that are shown.
const LINES: u32 = 20;
/// Seconds that one redrive waits for room in a full queue.
const PATIENCE: u32 = 60;

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    match args.what.unwrap_or(DeadLetterVerb::List(Filter::default())) {
        DeadLetterVerb::List(filter) => list(context, &filter).await,
        DeadLetterVerb::Show(one) => show(context, &one).await,
        DeadLetterVerb::Redrive(which) => redrive(context, which).await,
        DeadLetterVerb::Drop(which) => discard(context, which).await,
    }
}

async fn find(context: &Context, filter: &Filter, now: Timestamp) -> Result<DeadLetterList, CommandFailure> {
    let mut wanted = RunFilter::new(filter, now)?;
    let found = wanted.all(context, "/v1/dead-letters", |page: DeadLetterList| {
        (page.dead_letters, page.next)
    });
    Ok(DeadLetterList {
        dead_letters: found.await?,
        next: wanted.next,
    })
}

async fn list(context: &Context, filter: &Filter) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let found = find(context, filter, now).await?;
    context.made(&found, |out| {
        page(out, &table(out, &found.dead_letters, now), found.next.as_deref())
    })
}

fn table(out: &Output, letters: &[DeadLetter], now: Timestamp) -> TextTable {
    let heads: (&[_], &[_]) = (
        &["ID", "FUNCTION", "REASON", "ENDED", "TRIES", "PAYLOAD"],
        &["TRIGGER", "MESSAGE"],
    );
    widening(out, heads, letters, plain, |letter| {
        let run = &letter.invocation;
        let is_short = out.format == Format::Table;
        vec![
            if is_short { short(run.id) } else { run.id.to_string() },
            run.function.to_string(),
            run.reason.map(|reason| reason.to_string()).unwrap_or_default(),
            distance(run.ended_at.as_deref(), now),
            run.attempts.to_string(),
            payload(letter, 40),
            run.trigger.as_str().to_owned(),
            run.message.clone(),
        ]
    })
}

/// Returns the rows of another machine's list.
pub(crate) fn rows(out: &Output, body: &[u8], now: Timestamp) -> Result<HostRows, CommandFailure> {
    let found: DeadLetterList = parse(body)?;
    Ok(HostRows {
        table: table(out, &found.dead_letters, now),
        lines: older(found.next.as_deref()),
    })
}

/// Returns a short form of a payload.
fn payload(letter: &DeadLetter, most: usize) -> String {
    match (&letter.payload, letter.payload_bytes) {
        (_, None) => "-".to_owned(),
        (Some(text), Some(bytes)) => {
            let short: String = text.chars().take(most).collect();
            // The API shows only the beginning of a long payload, so the size decides.
            let whole = short.len() as u64 == bytes;
            format!("{}{}", escape(&short, false), if whole { "" } else { " ..." })
        }
        (None, bytes) => format!(
            "{} of {}",
            size(bytes),
            letter.content_type.as_deref().unwrap_or("bytes")
        ),
    }
}

/// A dead letter with its last output, in the form of `-o json`.
#[derive(Debug, Serialize)]
struct ShownDeadLetter {
    #[serde(flatten)]
    letter: DeadLetter,
    output: Vec<LogLine>,
}

async fn show(context: &Context, typed: &One) -> Result<Exit, CommandFailure> {
    let id = match (&typed.id, &typed.last) {
        // A whole id needs no list of all dead letters.
        (Some(id), _) => match InvocationId::parse(id) {
            Some(id) => id.to_string(),
            None => choose(id, &all(context).await?)?,
        },
        (None, last) => newest(context, last.as_ref().and_then(Option::as_deref)).await?,
    };
    let letter = context.read(&letter_path(&id)).await?;
    let path = format!("{}/logs?limit={LINES}", invocation_path(&id));
    let LogList { lines: output } = context.read(&path).await?;
    let shown = ShownDeadLetter { letter, output };
    context.made(&shown, |out| one(&shown, out))
}

fn one(shown: &ShownDeadLetter, out: &Output) -> Result<(), CommandFailure> {
    let run = &shown.letter.invocation;
    let reason = run.reason.map_or("-".to_owned(), |reason| reason.to_string());
    let ended = run.ended_at.as_deref().map(|text| out.instant(text));
    let lines = [
        ("id", run.id.to_string()),
        ("function", run.function.to_string()),
        ("reason", reason),
        ("message", run.message.clone()),
        ("trigger", run.trigger.as_str().to_owned()),
        ("attempts", run.attempts.to_string()),
        ("accepted", out.instant(&run.accepted_at)),
        ("ended", ended.unwrap_or_default()),
        ("type", shown.letter.content_type.clone().unwrap_or("-".to_owned())),
        ("payload", payload(&shown.letter, usize::MAX)),
    ];
    fields(out, lines)?;
    if shown.output.is_empty() {
        return Ok(());
    }
    out.line("")?;
    out.lines(shown.output.iter().map(|line| escape(&line.text, false)))
}

fn letter_path(id: &str) -> String {
    format!("/v1/dead-letters/{id}")
}

/// Returns all dead letters, newest first.
async fn all(context: &Context) -> Result<Vec<DeadLetter>, CommandFailure> {
    let everything = Filter {
        limit: Some(u32::MAX),
        ..Filter::default()
    };
    Ok(find(context, &everything, Timestamp::now()).await?.dead_letters)
}

/// Returns the whole id of the only dead letter whose id ends as typed.
fn choose(typed: &str, letters: &[DeadLetter]) -> Result<String, CommandFailure> {
    let runs: Vec<&InvocationView> = letters.iter().map(|letter| &letter.invocation).collect();
    only(&end_of_id(typed)?, &runs, "the dead letters", Timestamp::now())
}

/// Returns the id of the newest dead letter: of all, or of a function.
async fn newest(context: &Context, function: Option<&str>) -> Result<String, CommandFailure> {
    let newest = Filter {
        function: function.map(str::to_owned),
        limit: Some(1),
        ..Filter::default()
    };
    let found = find(context, &newest, Timestamp::now()).await?.dead_letters;
    let id = found.first().map(|letter| letter.invocation.id.to_string());
    id.ok_or_else(|| {
        let message = match function {
            Some(function) => format!("there is no dead letter of a function `{function}`"),
            None => "there are no dead letters".to_owned(),
        };
        CommandFailure::new(Exit::NoSuchThing, message)
    })
}

/// Returns the ids of the selected dead letters. The command line may have an id, or the end of one, in the place of the
/// function: a dead letter's function is meant first.
async fn ids(context: &Context, which: DeadLetterChoice) -> Result<Vec<String>, CommandFailure> {
    if let Some(last) = &which.last {
        return Ok(vec![newest(context, last.as_deref()).await?]);
    }
    if let Some(typed) = &which.filter.function {
        if let Some(id) = InvocationId::parse(typed) {
            return Ok(vec![id.to_string()]);
        }
        if end_of_id(typed).is_ok() {
            let letters = all(context).await?;
            let is_function = |letter: &DeadLetter| letter.invocation.function.as_str() == typed;
            if !letters.iter().any(is_function) {
                return Ok(vec![choose(typed, &letters)?]);
            }
        }
    }
    let filter = which.filter;
    // A limit alone is no selection: nobody knows which dead letters it would take.
    let narrowed = filter.function.is_some() || filter.narrows();
    // Exactly one of the two: without a filter, a person must say `--all`, so that nobody means all by mistake.
    if which.all == narrowed {
        let what = if which.all {
            "either `--all` or a filter"
        } else {
            "an id, a function or another filter, or `--all`"
        };
        return Err(CommandFailure::usage(format!("which dead letters? expected {what}")));
    }
    // The default limit is for lists that people read. Here a filter means every dead letter that it matches.
    let everything = Filter {
        limit: Some(filter.limit.unwrap_or(u32::MAX)),
        ..filter
    };
    let found = find(context, &everything, Timestamp::now()).await?;
    // Oldest first: in the order in which they were accepted.
    let letters = found.dead_letters.iter().rev();
    Ok(letters.map(|letter| letter.invocation.id.to_string()).collect())
}

async fn redrive(context: &Context, which: DeadLetterChoice) -> Result<Exit, CommandFailure> {
    let ids = ids(context, which).await?;
    let alone = ids.len() == 1;
    let mut done = Vec::new();
    // A function that is gone does not keep the other dead letters from being redriven.
    let mut left = Vec::new();
    for id in ids {
        match redrive_one(context, &id).await {
            Ok(run) => done.push((id, run)),
            // Its function is gone.
            Err(failure) if failure.unknown.is_some() && !alone => left.push(failure),
            // Another client has redriven or dropped it already.
            Err(failure) if failure.exit == Exit::NoSuchThing && !alone => {}
            Err(failure) if alone => return Err(failure),
            Err(failure) => return Err(stopped(failure, done.len(), "redriven")),
        }
    }
    let document = |(id, run): &(String, String)| json!({"id": id, "redriven_as": run});
    let documents: Vec<Value> = done.iter().map(document).collect();
    context.made(&documents, |out| {
        for (id, run) in &done {
            // With `-q` only the id of the new run is printed.
            match out.format {
                Format::Name => out.line(run)?,
                _ => out.line(&format!("{id}  redriven as {run}"))?,
            }
        }
        if !alone {
            out.progress(&format!("{} redriven", done.len()));
        }
        Ok(())
    })?;
    let count = left.len();
    let Some(mut failure) = left.into_iter().next() else {
        return Ok(Exit::Fine);
    };
    let letters = counted(count, "dead letter", "dead letters");
    failure.message = format!("{}; {letters} stay", failure.message);
    Err(failure)
}

/// Returns the failure of one of several dead letters, which says how many were done before.
fn stopped(mut failure: CommandFailure, done: usize, what: &str) -> CommandFailure {
    failure.message = format!("{} (after {done} were {what})", failure.message);
    failure
}

/// Redrives one dead letter. If there are more dead letters than the queue of the function has room for, this waits for
/// room.
async fn redrive_one(context: &Context, id: &str) -> Result<String, CommandFailure> {
    let path = format!("{}/redrive", letter_path(id));
    let mut waited = 0;
    loop {
        match context.client.post(&path).await.map_err(CommandFailure::from) {
            Ok(reply) => return queued(&reply.body),
            Err(failure) if failure.exit == Exit::Busy && waited < PATIENCE => {
                waited += 1;
                context.out.progress(&format!("waiting for room: {}", failure.message));
                // fnd sends no event when a queue has room; its answer is to try again after a second.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            Err(failure) => return Err(failure),
        }
    }
}

async fn discard(context: &Context, which: DeadLetterChoice) -> Result<Exit, CommandFailure> {
    let ids = ids(context, which).await?;
    let alone = ids.len() == 1;
    let mut done = 0_usize;
    for id in ids {
        match context.delete(&letter_path(&id)).await {
            Ok(_) => done += 1,
            // Another client has redriven or dropped it already.
            Err(failure) if failure.exit == Exit::NoSuchThing && !alone => {}
            Err(failure) if alone => return Err(failure),
            Err(failure) => return Err(stopped(failure, done, "dropped")),
        }
    }
    context.changed(format!("dropped {done}"))
}
