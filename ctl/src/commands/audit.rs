//! `fndctl audit`: who did what, newest first.

use crate::common::candidates;
use crate::common::filter::RunFilter;
use crate::common::tables::{bad_if, page, widening};
use crate::context::{Context, Parameters, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Output, TextTable};
use crate::text::{distance, duration, short};
use fnd_core::api::{AuditEntry, AuditList, milliseconds};
use jiff::Timestamp;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Shown are calls that change or run something, and calls that were refused because of a role. N is how many: equal refusals \
    of one user within a minute are counted.\n\nExamples:\n  \
    fndctl audit\n  \
    fndctl audit web/shop --since 24h\n  \
    fndctl audit --by ada --verb disable\n  \
    fndctl audit --refused -o wide\n  \
    journalctl -u fnd FND_AUDIT=1 -f              as it happens"
)]
pub(crate) struct Args {
    /// Select only calls about this function.
    #[arg(add = candidates::functions())]
    function: Option<String>,

    // The option is `--by`, since `--user` already means the user's own fnd.
    /// Select only calls of this user: a name or a uid.
    #[arg(long, value_name = "USER")]
    by: Option<String>,

    /// Select only calls with this verb, such as invoke, disable or reload.
    #[arg(long, value_name = "VERB")]
    verb: Option<String>,

    /// Select only calls that were refused because the role of the caller is too small.
    #[arg(long)]
    refused: bool,

    /// Select only calls since then: how long ago, such as `24h`; `yesterday` or `09:00`; or an instant such as 2026-11-21T08:00:00Z.
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,

    /// Select only calls before then: how long ago, such as `10m`; `yesterday` or `09:00`; or an instant.
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    until: Option<String>,

    /// Select at most this many entries.
    #[arg(short = 'n', long, value_name = "ENTRIES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,

    /// Select only entries after this place in the list, which are older; the previous page prints it.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let now = Timestamp::now();
    if let Some(function) = &args.function {
        // Only checks the name: it goes into a parameter, not into the path.
        function_path(function)?;
    }
    let mut parameters = Parameters::default();
    parameters.add("function", args.function.as_deref());
    parameters.add("user", args.by.as_deref());
    parameters.add("verb", args.verb.as_deref());
    parameters.add("refused", args.refused.then_some("1"));
    parameters.add_span((args.since.as_deref(), args.until.as_deref()), now)?;
    let mut wanted = RunFilter::of(parameters, args.limit, args.after);
    let parts = |page: AuditList| (page.entries, page.next);
    let list = AuditList {
        entries: wanted.all(context, "/v1/audit", parts).await?,
        next: wanted.next,
    };
    if list.entries.is_empty() {
        note(context, ("function", args.function.as_deref()), "about").await?;
        note(context, ("user", args.by.as_deref()), "of").await?;
    }
    context.made(&list, |out| {
        page(out, &table(out, &list.entries, now), list.next.as_deref())
    })
}

/// Notes that the audit has nothing of a user, or about a function, whatever the other options are: the name may be misspelt.
async fn note(
    context: &Context,
    (parameter, name): (&str, Option<&str>),
    relation: &str,
) -> Result<(), CommandFailure> {
    let Some(name) = name else { return Ok(()) };
    let mut parameters = Parameters::default();
    parameters.add(parameter, Some(name));
    parameters.add("limit", Some("1"));
    let list: AuditList = context.read(&format!("/v1/audit{}", parameters.0)).await?;
    if list.entries.is_empty() && list.next.is_none() {
        let text = format!("the audit has no call {relation} the {parameter} `{name}`: is the name right?");
        context.out.aside(&text);
    }
    Ok(())
}

/// Returns the table. Its first column is what `-o name` prints.
fn table(out: &Output, entries: &[AuditEntry], now: Timestamp) -> TextTable {
    let heads: (&[_], &[_]) = (
        &["VERB", "FUNCTION", "USER", "WHEN", "RESULT", "N"],
        &["TIME", "RUN", "UID", "PID", "PROGRAM", "TOOK"],
    );
    let tone = |entry: &AuditEntry| bad_if(entry.refused);
    widening(out, heads, entries, tone, |entry| {
        let result = match (entry.status, &entry.code) {
            (Some(status), Some(code)) => format!("{status} {code}"),
            (Some(status), None) => status.to_string(),
            (None, _) => String::new(),
        };
        let refused = if entry.refused { "refused " } else { "" };
        vec![
            entry.verb.clone(),
            entry.function.as_ref().map(ToString::to_string).unwrap_or_default(),
            entry.user.clone().unwrap_or_else(|| entry.uid.to_string()),
            distance(Some(&entry.time), now),
            format!("{refused}{result}"),
            entry.count.to_string(),
            out.instant(&entry.time),
            entry.invocation.map(short).unwrap_or_default(),
            entry.uid.to_string(),
            entry.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            entry.exe.clone().unwrap_or_default(),
            duration(Some(milliseconds(entry.duration_us))),
        ]
    })
}
