//! `fndctl events`: the last events, and with `-f` new ones.

use super::{Context, Parameters, function_path};
use crate::candidates;
use crate::cli::Format;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Output, escape};
use fnd_core::api::stream::{Kind, Seq, StreamEvent};
use fnd_core::records::outcome::Reason;
use fnd_wire::units::counted;

/// Options.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "fnd keeps a limited number of events, in memory only; `fndctl history` lists every run.\n\nExamples:\n  \
    fndctl events                            the events that fnd keeps\n  \
    fndctl events -f --since now             only new ones\n  \
    fndctl events -f --function hello        only of one function\n  \
    fndctl events -f --kind refused,gave-up  only of these kinds\n  \
    fndctl events -f --since 1795248000000-42 -o json"
)]
pub(crate) struct Args {
    /// Print new events as they happen, until Ctrl-C.
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Print only events of this function.
    #[arg(long, value_name = "F", add = candidates::functions())]
    function: Option<String>,

    /// Print only events of these kinds, separated by commas: loaded, refused, removed, state, accepted, started, ended,
    /// retried, polled, gave-up, scaled, dropped, request, problem, solved.
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', add = candidates::kinds())]
    kinds: Vec<String>,

    /// Print only events after this one (its `seq`, as `-o json` shows it), or `now` for new ones only.
    #[arg(long, value_name = "SEQ")]
    since: Option<String>,

    /// Print at most this many of the kept events: the newest.
    #[arg(short = 'n', long, value_name = "LINES")]
    limit: Option<u32>,
}

/// Runs the verb.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let mut parameters = Parameters::default();
    if let Some(function) = &args.function {
        function_path(function)?;
        parameters.add("function", Some(function));
    }
    if let Some(kind) = args.kinds.iter().find(|kind| Kind::parse(kind).is_none()) {
        let known: Vec<&str> = Kind::ALL.into_iter().map(Kind::as_str).collect();
        let message = format!("`{kind}` is not a kind of event: expected some of {}", known.join(", "));
        return Err(CommandFailure::usage(message));
    }
    if let Some(since) = args.since.as_deref().filter(|since| *since != "now" && *since != "0")
        && Seq::parse(since).is_none()
    {
        return Err(CommandFailure::usage(format!(
            "`--since {since}`: expected the `seq` of an event as `-o json` shows it, or `now`"
        )));
    }
    let kinds = (!args.kinds.is_empty()).then(|| args.kinds.join(","));
    parameters.add("kind", kinds.as_deref());
    parameters.add("since", args.since.as_deref());
    parameters.add("limit", args.limit.map(|limit| limit.to_string()).as_deref());
    parameters.add("follow", Some(if args.follow { "1" } else { "0" }));
    let path = format!("/v1/stream{}", parameters.0);
    let mut events = context.client.stream(&path).await?;
    while let Some(line) = events.line().await? {
        show(context, &line)?;
    }
    Ok(Exit::Fine)
}

fn show(context: &Context, line: &[u8]) -> Result<(), CommandFailure> {
    let out = &context.out;
    match out.format {
        Format::Json => out.json(line),
        Format::Yaml => {
            // Each event is a YAML document of its own.
            out.line("---")?;
            out.yaml(line)
        }
        Format::Table | Format::Wide | Format::Name | Format::Raw => {
            let event: StreamEvent = serde_json::from_slice(line).map_err(|error| {
                CommandFailure::new(Exit::NotReachable, format!("failed to read a line from fnd: {error}"))
                    .help("fnd and fndctl may be of different versions: `fndctl version` shows both")
            })?;
            out.wrapped(&escape(&text(out, &event), false), INDENT)?;
            // Each problem of a refused file, with the line it points at.
            out.diagnostics(&event.diagnostics)
        }
    }
}

/// Indentation of the further lines of a long event.
const INDENT: usize = 4;

/// Returns an event as a line for people.
fn text(out: &Output, event: &StreamEvent) -> String {
    let function = event.function.as_ref().map_or("-", |function| function.as_str());
    let mut line = format!("{} {:<8} {function}", out.instant(&event.time), event.kind.as_str());
    let words = words(out, event);
    if !words.is_empty() {
        line.push_str(&format!("  {words}"));
    }
    if out.format == Format::Wide {
        let invocation = event.invocation.map(|id| format!("  {id}")).unwrap_or_default();
        line.push_str(&format!("{invocation}  {}", event.seq));
    }
    line
}

pub(super) fn words(out: &Output, event: &StreamEvent) -> String {
    let reason = event.reason.map(|reason| reason.to_string()).unwrap_or_default();
    let message = event.message.as_deref().unwrap_or_default();
    let attempt = event
        .attempt
        .map(|attempt| format!("attempt {attempt}"))
        .unwrap_or_default();
    let trigger = event.trigger.map_or("", |trigger| trigger.as_str());
    match event.kind {
        Kind::Loaded => {
            let version = event.version.map(|version| version.hex()).unwrap_or_default();
            format!("version {}", version.get(..12).unwrap_or(""))
        }
        // The diagnostics are printed below this line.
        Kind::Refused if !event.diagnostics.is_empty() => String::new(),
        Kind::Refused => message.to_owned(),
        Kind::Removed => String::new(),
        Kind::State => event
            .states
            .map(|(from, to)| format!("{}, was {}", to.as_str(), from.as_str()))
            .unwrap_or_default(),
        Kind::Accepted => trigger.to_owned(),
        Kind::Started => {
            let worker = event.worker.map(|worker| format!(" as w{worker}")).unwrap_or_default();
            format!("{attempt}{worker} ({trigger})")
        }
        Kind::Ended => {
            let took = event
                .duration_ms
                .map(|ms| format!(" after {ms:.0} ms"))
                .unwrap_or_default();
            let why = match event.reason {
                Some(Reason::Ok) | None => String::new(),
                Some(_) if message.is_empty() => format!(" ({reason})"),
                Some(_) => format!(" ({reason}: {message})"),
            };
            let what = match (&event.state, event.attempt) {
                (_, Some(_)) if event.reason == Some(Reason::Ok) => format!("{attempt} succeeded"),
                (_, Some(_)) => format!("{attempt} ended"),
                (Some(state), None) => state.as_str().to_owned(),
                (None, None) => String::new(),
            };
            format!("{what}{took}{why}")
        }
        Kind::Retried | Kind::Polled => {
            let at = out.instant(event.next_attempt_at.as_deref().unwrap_or_default());
            format!("{attempt} at {at} ({reason})")
        }
        Kind::GaveUp => {
            let exhausted = event.exhausted.map(|exhausted| match exhausted {
                fnd_core::records::outcome::Exhausted::Retries => "no retries are left",
                fnd_core::records::outcome::Exhausted::Poll => "the time for polls is over",
                fnd_core::records::outcome::Exhausted::Deadline => "the deadline is over",
            });
            format!("{} ({reason})", exhausted.unwrap_or_default())
        }
        Kind::Scaled => event
            .workers
            .map(|(from, to)| format!("workers: {to}, were {from}"))
            .unwrap_or_default(),
        Kind::Dropped => format!("{reason} ({trigger})"),
        Kind::Request => {
            let took = event.duration_ms.map(|ms| format!(", {ms:.1} ms")).unwrap_or_default();
            format!("{message}{took}")
        }
        Kind::Problem | Kind::Solved => message.to_owned(),
        Kind::Missed => match event.missed {
            Some(missed) => format!("{}: {message}", counted(missed, "event", "events")),
            None => message.to_owned(),
        },
    }
}
