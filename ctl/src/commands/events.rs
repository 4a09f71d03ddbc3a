//! `fndctl events`: the last events, and with `-f` new ones.

use crate::common::candidates;
use crate::common::event_words::words;
use crate::context::{Context, Parameters, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Format, Output, escape};
use fnd_core::api::stream::{Kind, Seq, StreamEvent};

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

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let mut parameters = Parameters::default();
    if let Some(function) = &args.function {
        // Only checks the name: it goes into a parameter, not into the path.
        function_path(function)?;
        parameters.add("function", Some(function));
    }
    if let Some(kind) = args.kinds.iter().find(|kind| Kind::parse(kind).is_none()) {
        let known = Kind::WORDS.join(", ");
        let message = format!("`{kind}` is not a kind of event: expected some of {known}");
        return Err(CommandFailure::usage(message));
    }
    // `0` stands for everything that fnd keeps.
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
    let (path, out) = (format!("/v1/stream{}", parameters.0), &context.out);
    let print = |event: &StreamEvent| {
        out.wrapped(&escape(&text(out, event), false), INDENT)?;
        // Each problem of a refused file, with the line it points at.
        out.diagnostics(&event.diagnostics)
    };
    context.follow(&path, print).await
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
