//! `fndctl status`: the functions and the last run of each; below them the problems of the node.

use crate::common::selection::{Selection, refuse_changes_of_some};
use crate::common::tables::{tone_of_state, widening};
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::health::outdated;
use crate::hosts::HostRows;
use crate::output::{Format, Output, TextTable, Tone, escape, parse};
use crate::text::{brief, distance, ended, ended_service, size, state, stopped, why};
use fnd_core::api::{DiskUse, FunctionDetail, FunctionStatus, LastEnd, NodePlaces, NodeState, NodeStatus};
use fnd_core::lifecycle::release::short;
use fnd_core::records::outcome::Reason;
use fnd_core::run::FunctionState;
use fnd_wire::naming::UPLOADS;
use fnd_wire::units::counted;
use jiff::Timestamp;
use std::path::Path;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "MEMORY is the peak of the last attempt; for a running function, its current use and that peak: `52M/60M`.\n\nExamples:\n  fndctl status\n  fndctl status hello\n  fndctl status 'web/*' hello\n  fndctl status --failed\n  fndctl status -l team=ops --sort memory\n  fndctl status --watch\n  fndctl status --jq '.functions[] | select(.failures > 0).function'"
)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Show only functions whose last run failed, and those that are invalid or crash-looping.
    #[arg(long)]
    failed: bool,

    /// Print the status anew after each change, until Ctrl-C; with `-o json`, print a line for each change.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

impl Args {
    /// Returns the one function that is named, whose answer has more than those of several.
    fn alone(&self) -> Option<&str> {
        self.selection.alone().filter(|_| !self.failed)
    }

    /// Returns whether not all functions are wanted.
    fn selects(&self) -> bool {
        self.failed || self.selection.selects()
    }
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if args.watch {
        watch(context, &args).await
    } else {
        show(context, &args).await
    }
}

/// Shows the status whenever a function changes.
async fn watch(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    let path = match args.alone() {
        Some(name) => function_path(name)?,
        None => {
            if args.selects() {
                refuse_changes_of_some(context.out.format)?;
            }
            "/v1/functions".to_owned()
        }
    };
    let show = async || show(context, args).await;
    crate::common::watch::watch(context, &format!("{path}?watch=1"), show).await
}

async fn show(context: &Context, args: &Args) -> Result<Exit, CommandFailure> {
    if let Some(name) = args.alone() {
        let reply = context.client.get(&function_path(name)?).await?;
        // The time is taken after the answer, so that a run that has ended meanwhile ended in the past.
        let now = Timestamp::now();
        return context.out.answer(&reply.body, |detail: &FunctionDetail, out| {
            print(out, std::slice::from_ref(&detail.status), now)
        });
    }
    let reply = context.client.get("/v1/status").await?;
    let now = Timestamp::now();
    let print_node = |node: &NodeStatus, out: &Output| {
        // After the installation this is the first thing that many people see, so it says where functions go.
        if let (true, false, Some(places)) = (node.functions.is_empty(), args.selects(), &node.places) {
            let directories = for_people(places).join(" or ");
            out.line(&format!(
                "no functions: save a file in {directories}, and it is one a moment later"
            ))?;
            return apart(out, &about_node(out, node), true);
        }
        print(out, &node.functions, now)?;
        if args.selects() || out.format == Format::Name {
            return Ok(());
        }
        apart(out, &about_node(out, node), true)
    };
    // Otherwise the body of fnd is printed as it is, also with fields that this fndctl does not know.
    if args.failed || args.selection.changes() {
        let node = selected(&reply.body, args)?;
        return context.made(&node, |out| print_node(&node, out));
    }
    context.out.answer(&reply.body, print_node)
}

/// Returns the rows of another machine's answer: that of one function, or of the node.
pub(crate) fn rows(out: &Output, body: &[u8], now: Timestamp) -> Result<HostRows, CommandFailure> {
    let (functions, about) = match parse::<FunctionStatus>(body) {
        Ok(function) => (vec![function], Vec::new()),
        Err(_) => {
            let node: NodeStatus = parse(body)?;
            let about = about_node(out, &node);
            (node.functions, about)
        }
    };
    let mut lines = details(&functions, now);
    lines.extend(about);
    Ok(HostRows {
        table: table(out, &functions, now),
        lines,
    })
}

/// Returns a status of the node that has only the selected functions, in their order.
fn selected(body: &[u8], args: &Args) -> Result<NodeStatus, CommandFailure> {
    let mut node: NodeStatus = parse(body)?;
    args.selection.apply(&mut node.functions)?;
    if args.failed {
        let is_bad = |state| matches!(state, FunctionState::Invalid | FunctionState::CrashLooping);
        node.functions.retain(|one| has_failed(one) || is_bad(one.state));
    }
    Ok(node)
}

/// Prints functions: the table, and below it the details that have no room in it. Of names only the first column is printed.
fn print(out: &Output, functions: &[FunctionStatus], now: Timestamp) -> Result<(), CommandFailure> {
    out.table(&table(out, functions, now))?;
    match out.format {
        Format::Name => Ok(()),
        _ => apart(out, &details(functions, now), false),
    }
}

fn table(out: &Output, functions: &[FunctionStatus], now: Timestamp) -> TextTable {
    let heads: (&[_], &[_]) = (
        &[
            "FUNCTION", "RUNTIME", "STATE", "LAST", "NEXT", "RUNS", "FAILED", "P50", "P99", "MEMORY",
        ],
        &["STARTED", "CPU", "RUNNING", "QUEUED", "VERSION"],
    );
    // A person reads first what a function is doing, and where it listens.
    const GIVING_WAY: &[&str] = &["P50", "P99", "MEMORY", "RUNTIME", "RUNS", "NEXT", "FAILED"];
    let table = widening(out, heads, functions, tone, |function| {
        let next = function.next_attempt_at.as_deref().or(function.next_run_at.as_deref());
        vec![
            function.function.to_string(),
            function.runtime.clone(),
            state(function).to_owned(),
            last(function, now),
            distance(next, now),
            // A retry and a poll are no runs of their own, and a cancelled run is no failure.
            function.runs.to_string(),
            function.failures.to_string(),
            brief(function.p50_ms),
            brief(function.p99_ms),
            memory(function),
            distance(function.started_at.as_deref(), now),
            brief(function.cpu_ms),
            function.running.to_string(),
            function.queued.to_string(),
            function.version.map(short).unwrap_or_default(),
        ]
    });
    table.giving_way(GIVING_WAY)
}

/// Returns how the last attempt ended, and when: `ok 2m ago`; for a service that runs, since when, and where it listens:
/// `up 3h, 2 restarts, :4711`.
fn last(function: &FunctionStatus, now: Timestamp) -> String {
    if let Some(up) = &function.up_since {
        let up = distance(Some(up), now);
        // The run that goes on is not counted yet, so each counted run was followed by a restart.
        let restarts = match function.runs {
            0 => String::new(),
            runs => format!(", {}", counted(runs, "restart", "restarts")),
        };
        let ports: String = function.ports.iter().map(|port| format!(", :{port}")).collect();
        return format!("up {}{restarts}{ports}", up.trim_end_matches(" ago"));
    }
    let Some(reason) = function.reason else {
        return String::new();
    };
    let ended = ended(function.started_at.as_deref(), function.duration_ms);
    format!("{reason} {}", distance(ended.as_deref(), now))
}

/// Returns the memory that a running function uses now, and the peak of its last attempt.
fn memory(function: &FunctionStatus) -> String {
    let peak = size(function.memory_peak_bytes);
    match function.memory_bytes {
        None => peak,
        Some(_) if peak.is_empty() => format!("{}/-", size(function.memory_bytes)),
        Some(_) => format!("{}/{peak}", size(function.memory_bytes)),
    }
}

/// Says whether the last attempt failed. One that was cancelled, or ended as its function was replaced, did not.
fn has_failed(function: &FunctionStatus) -> bool {
    function.status == LastEnd::Failed && function.reason != Some(Reason::Cancelled)
}

fn tone(function: &FunctionStatus) -> Tone {
    match tone_of_state(function.state) {
        Tone::Plain if has_failed(function) => Tone::Bad,
        tone => tone,
    }
}

/// Returns the details that have no room in the table: why a function last failed, and the problem of its file.
fn details(functions: &[FunctionStatus], now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    for function in functions {
        lines.extend(stopped(function, now).map(|by| format!("{}: {by}", function.function)));
        if let Some(error) = &function.error {
            lines.push(format!("{}: {error}", function.function));
        }
        if let Some(told) = &function.alert {
            let (alert, since) = (told.alert.as_str(), distance(Some(&told.since), now));
            let undelivered = told.not_delivered.as_ref();
            let undelivered = undelivered.map(|why| format!("; not delivered: {why}"));
            let undelivered = undelivered.unwrap_or_default();
            lines.push(format!("{}: alert `{alert}`, {since}{undelivered}", function.function));
        }
        // The warnings of a function are one text, each on a line of its own.
        let warnings = function.warning.iter().flat_map(|text| text.lines());
        lines.extend(warnings.map(|warning| format!("{}: {warning}", function.function)));
        if let Some(waits_for) = &function.waits_for {
            lines.push(format!("{}: waits for {}", function.function, waits_for.words()));
        }
        let again = distance(function.next_attempt_at.as_deref(), now);
        if has_failed(function) {
            let again = match again.as_str() {
                "" => String::new(),
                again => format!("; next attempt {again}"),
            };
            let why = why(function.reason, &function.message);
            lines.push(format!("{}: {why}{again}", function.function));
        } else if function.reason == Some(Reason::Ok) && function.queued == 0 && !again.is_empty() {
            // Otherwise a service that has ended would look as if it waited for calls.
            lines.push(format!("{}: it has ended; next attempt {again}", function.function));
        }
        lines.extend(ended_service(function).map(|why| format!("{}: {why}", function.function)));
    }
    lines
}

/// Prints lines, and an empty line before them.
fn apart(out: &Output, lines: &[String], keep_lines: bool) -> Result<(), CommandFailure> {
    if !lines.is_empty() {
        out.line("")?;
    }
    out.lines(lines.iter().map(|line| escape(line, keep_lines)))
}

/// Returns how much of its disk the state uses.
fn disk_use(disk: &DiskUse) -> String {
    let size = |bytes| size(Some(bytes));
    let inodes = disk.free_inodes.map(|inodes| format!(", {inodes} inodes"));
    format!(
        "disk: history {} of {}, output {} of {}, packages {}, free {}{}",
        size(disk.history_bytes),
        size(disk.history_keep_bytes),
        size(disk.logs_bytes),
        size(disk.logs_keep_bytes),
        size(disk.packages_bytes),
        disk.free_bytes.map_or_else(|| "unknown".to_owned(), size),
        inodes.unwrap_or_default()
    )
}

/// Returns the directories in which people save files: all but that of uploads, which `fndctl deploy` fills.
fn for_people(places: &NodePlaces) -> Vec<&str> {
    let uploads = Path::new(&places.state).join(UPLOADS);
    let all = places.functions.iter().map(String::as_str);
    all.filter(|directory| Path::new(directory) != uploads).collect()
}

/// Returns how many files are no functions, with the first of them.
fn unclaimed(node: &NodeStatus) -> String {
    const SHOWN: usize = 5;
    let names: Vec<&str> = node.unclaimed.iter().take(SHOWN).map(String::as_str).collect();
    let mut names = names.join(", ");
    if node.unclaimed_count > u64::try_from(SHOWN).unwrap_or(u64::MAX) {
        names += ", ...";
    }
    let count = counted(node.unclaimed_count, "file is no function", "files are no functions");
    format!("{count}: {names} (`fndctl doctor` says what to do)")
}

fn about_node(out: &Output, node: &NodeStatus) -> Vec<String> {
    let mut lines = Vec::new();
    if node.state != NodeState::Running {
        lines.push(format!("fnd is {}", node.state.as_str()));
    }
    if let Some(outdated) = outdated(node) {
        lines.push(format!("{outdated} (`fndctl doctor` says what to do)"));
    }
    if out.format == Format::Wide {
        let each = node.not_enforced.iter();
        lines.extend(each.map(|(limit, why)| format!("not enforced here: {limit}: {why}")));
    } else {
        // Kernels before Linux 6.12 lack what this layer needs. People cannot change that, so only `-o wide` shows it.
        let names = node.not_enforced.keys().map(String::as_str);
        let names: Vec<&str> = names.filter(|name| *name != "landlock").collect();
        if !names.is_empty() {
            lines.push(format!("not enforced here (why: -o wide): {}", names.join(", ")));
        }
    }
    if node.dead_letters > 0 {
        lines.push(format!("dead letters: {} (fndctl dead-letters)", node.dead_letters));
    }
    if node.unclaimed_count > 0 {
        lines.push(unclaimed(node));
    }
    // fnd removes no home, since homes have data of people. That is no problem, so only `-o wide` names them.
    if !node.left_behind.is_empty() && out.format == Format::Wide {
        let (count, names) = (node.left_behind.len(), node.left_behind.join(", "));
        let below = "in /var/lib/fnd/home and /var/lib/fnd/cache, or below the state directory";
        let (one, several) = ("deleted function still has files", "deleted functions still have files");
        let have = counted(count, one, several);
        lines.push(format!("{have}: {names} ({below}; remove those that you do not need)"));
    }
    if let Some(disk) = node.disk.as_ref().filter(|_| out.format == Format::Wide) {
        lines.push(disk_use(disk));
    }
    lines.extend(node.problems.iter().map(|problem| format!("problem: {problem}")));
    lines
}
