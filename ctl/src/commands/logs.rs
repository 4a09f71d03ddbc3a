//! `fndctl logs`: kept output, and with `-f` new lines.

use crate::common::answers::mark;
use crate::common::candidates;
use crate::common::releases;
use crate::common::runs::{find, newest, run_of_word};
use crate::context::{Context, Parameters, function_path, invocation_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Format, Output, parse};
use fnd_core::api::{InvocationView, LogLine, LogList};
use fnd_core::records::outcome::Reason;
use jiff::Timestamp;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl logs hello\n  \
    fndctl logs hello -f                 the same as `fndctl tail hello`\n  \
    fndctl logs -f                       follow the output of all functions\n  \
    fndctl logs hello --since 1h\n  \
    fndctl logs hello -o raw             the text only, with its escape sequences\n  \
    fndctl logs 456789abcdef             of one run, by the end of its id\n  \
    fndctl logs --last hello             of the newest run of a function\n  \
    fndctl logs hello --build            of the installation of its packages")]
pub(crate) struct Args {
    /// Print only lines of this function, or of the run with this id.
    #[arg(add = candidates::functions_and_runs())]
    function: Option<String>,

    /// Print new lines as they come, until Ctrl-C; with --id, until the run ends.
    #[arg(short, long)]
    pub(crate) follow: bool,

    /// Print only lines of this run.
    #[arg(long, value_name = "ID", add = candidates::runs())]
    id: Option<String>,

    /// Print only lines of the newest run, or of the newest run of this function.
    #[arg(long, value_name = "FUNCTION", num_args = 0..=1, conflicts_with_all = ["function", "id"], add = candidates::functions())]
    last: Option<Option<String>>,

    /// Print what was printed while its code was fetched, its packages were installed or it was compiled: the last time, or for this release.
    #[arg(long, value_name = "RELEASE", num_args = 0..=1, requires = "function", conflicts_with_all = ["id", "last"], add = candidates::releases())]
    build: Option<Option<String>>,

    /// Print only lines since then: how long ago, such as `1h`; `yesterday` or `09:00`; or an instant such as 2026-11-21T08:00:00Z.
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,

    /// Print only lines before then: how long ago, such as `10m`; `yesterday` or `09:00`; or an instant.
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    until: Option<String>,

    /// Print at most this many of the kept lines: the newest [default: 1000].
    #[arg(short = 'n', long, aliases = ["tail", "lines"], value_name = "LINES")]
    limit: Option<u32>,
}

impl Args {
    /// Returns the options with `--follow`.
    pub(crate) fn following(self) -> Self {
        Self { follow: true, ..self }
    }
}

/// Most lines that fnd sends of the kept ones.
const LINES_MAX: u32 = 100_000;

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    let mut parameters = Parameters::default();
    // fnd would refuse `limit`, which is a name that the person may not have typed.
    if let Some(lines) = args.limit.filter(|lines| !(1..=LINES_MAX).contains(lines)) {
        let message = format!("`-n {lines}`: expected a number of lines from 1 to {LINES_MAX}");
        return Err(CommandFailure::usage(message));
    }
    let run = match (&args.id, &args.last, &args.build) {
        (Some(id), ..) => Some(find(context, id).await?),
        (None, Some(function), _) => Some(newest(context, function.as_deref()).await?),
        (None, None, Some(release)) => {
            let function = args.function.as_deref().unwrap_or_default();
            Some(build_of(context, function, release.as_deref()).await?)
        }
        (None, None, None) => match &args.function {
            Some(word) => run_of_word(context, word).await?,
            None => None,
        },
    };
    // The word was the id of a run, and no function.
    let is_word = run.is_some() && args.id.is_none() && args.build.is_none();
    let function = args.function.as_ref().filter(|_| !is_word);
    // The run of a build belongs to fnd's own function `fnd-build`, so it is not compared.
    if let (Some(run), Some(function), None) = (&run, function, &args.build) {
        check(context, run, function).await?;
    }
    let path = match &run {
        Some(id) => format!("{}/logs", invocation_path(id)),
        None => "/v1/logs".to_owned(),
    };
    if let (None, Some(function)) = (&run, &args.function) {
        // Only checks the name: it goes into a parameter, not into the path.
        function_path(function)?;
        parameters.add("function", Some(function));
    }
    parameters.add_span((args.since.as_deref(), args.until.as_deref()), now)?;
    parameters.add("limit", args.limit.map(|limit| limit.to_string()).as_deref());
    let named = args.function.is_some() || run.is_some();
    if !args.follow {
        let reply = context.client.get(&format!("{path}{}", parameters.0)).await?;
        let is_told = match &run {
            Some(id) => tell_of_load(context, id, &reply.body).await,
            None => false,
        };
        return context.out.answer(&reply.body, |list: &LogList, out| {
            // Only a person needs this sentence. In a pipe, an empty output means that there is nothing.
            if list.lines.is_empty() && out.is_terminal() && !is_told {
                let history = args.function.as_deref().map_or_else(String::new, |function| format!(" {function}"));
                out.aside(&format!(
                    "no output: nothing was printed, or it is not kept any more; `fndctl history{history}` shows the runs"
                ));
            }
            out.lines(list.lines.iter().map(|line| text(out, named, line)))
        });
    }
    parameters.add("follow", Some("1"));
    let out = &context.out;
    let print = |line: &LogLine| out.line(&text(out, named, line));
    context.follow(&format!("{path}{}", parameters.0), print).await
}

/// Says where the output is of a run whose function could not be loaded, and whether it did: a process is loaded for many runs, so
/// what it printed meanwhile belongs to none.
async fn tell_of_load(context: &Context, run: &str, body: &[u8]) -> bool {
    if !parse::<LogList>(body).is_ok_and(|list| list.lines.is_empty()) {
        return false;
    }
    let view = context.read::<InvocationView>(&invocation_path(run)).await;
    let Some(view) = view.ok().filter(|view| view.reason == Some(Reason::Load)) else {
        return false;
    };
    let function = &view.function;
    context.out.aside(&format!(
        "`{function}` could not be loaded for this run: `fndctl logs {function}` shows what it printed meanwhile"
    ));
    true
}

/// Returns the run of fnd's own function that built a function, or a release of it.
async fn build_of(context: &Context, function: &str, release: Option<&str>) -> Result<String, CommandFailure> {
    let Some(release) = release else {
        let build = context.detail(function).await?.more.build;
        let none = || {
            let message = format!("nothing was built for `{function}` since fnd started");
            CommandFailure::new(Exit::NoSuchThing, message)
                .help("`fndctl logs fnd-build` shows all builds that are kept")
        };
        return build.map(|id| id.to_string()).ok_or_else(none);
    };
    let list = releases::of(context, function).await?;
    // A release is shown with and without `sha256:` in front, so both are accepted.
    let wanted = release.strip_prefix("sha256:").unwrap_or(release);
    let mut found = list.versions.iter().filter(|one| one.version.hex().starts_with(wanted));
    let missing = |message| CommandFailure::new(Exit::NoSuchThing, message).help(format!("fndctl releases {function}"));
    let (found, other) = (found.next(), found.next());
    if other.is_some() {
        let message = format!("several releases of `{function}` begin with `{release}`");
        return Err(missing(message));
    }
    let found = found.ok_or_else(|| missing(format!("`{function}` has no release `{release}`")))?;
    let none = || missing(format!("nothing was built for release `{release}` of `{function}`"));
    Ok(found.build.ok_or_else(none)?.to_string())
}

/// Refuses a run that is not of the function.
async fn check(context: &Context, run: &str, function: &str) -> Result<(), CommandFailure> {
    function_path(function)?;
    let view: InvocationView = context.read(&invocation_path(run)).await?;
    if view.function.as_str() == function {
        return Ok(());
    }
    let message = format!("the run `{run}` is one of `{}`, not of `{function}`", view.function);
    Err(CommandFailure::usage(message).help(format!("fndctl logs --id {run} shows its output")))
}

/// Returns a line for people: the instant, the function unless one was named, a mark for the stream, and the text. In
/// raw form it is the text only.
fn text(out: &Output, named: bool, line: &LogLine) -> String {
    let printed = out.printed(&line.text);
    if out.format == Format::Raw {
        return printed;
    }
    let mut shown = out.instant(&line.time);
    if !named || out.format == Format::Wide {
        shown.push_str(&format!(" {}", line.function));
    }
    if out.format == Format::Wide {
        shown.push_str(&format!(" {} {}", line.invocation, line.attempt));
    }
    format!("{shown} {} {printed}", mark(line.stream))
}
