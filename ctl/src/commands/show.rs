//! `fndctl show F`: all details of a function.

use super::config::flat;
use super::text::{distance, size, why};
use super::{Context, function_path};
use crate::candidates;
use crate::exit::{Exit, Failure};
use crate::output::{Output, escape};
use fnd_core::api::{FunctionDetail, FunctionStatus};
use fnd_manifest::diagnostic::Diagnostic;
use jiff::Timestamp;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl show hello\n  fndctl show ops/backup -o json | jq .manifest.limits")]
pub(crate) struct Args {
    /// Name of the function.
    #[arg(add = candidates::functions())]
    function: String,
}

/// Runs the verb.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, Failure> {
    let reply = context.client.get(&function_path(&args.function)?).await?;
    context
        .out
        .document(&reply.body, |detail: &FunctionDetail, out| print(out, detail))?;
    Ok(Exit::Fine)
}

fn print(out: &Output, detail: &FunctionDetail) -> Result<(), Failure> {
    let status = &detail.status;
    let now = Timestamp::now();
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    // `what` is empty if no version was ever installed; `more` is empty if the function runs without interpreter.
    let with = |what: &str, more: &str| match (what, more) {
        ("", _) => "-".to_owned(),
        (what, "") => what.to_owned(),
        (what, more) => format!("{what} ({more})"),
    };
    let last = match (&status.started_at, status.reason) {
        (Some(_), Some(_)) => {
            let (when, why) = (
                distance(status.started_at.as_deref(), now),
                why(status.reason, &status.message),
            );
            format!("{when} {}: {why}", status.status.as_str())
        }
        _ => "-".to_owned(),
    };
    let lines = [
        ("function", status.function.to_string()),
        ("state", status.state.as_str().to_owned()),
        ("mode", with(&detail.more.mode, &detail.more.mode_reason)),
        ("runtime", with(&status.runtime, &detail.more.interpreter)),
        ("source", detail.more.source.clone()),
        (
            "version",
            or_dash(status.version.map(|version| version.to_string()).unwrap_or_default()),
        ),
        ("newer", or_dash(newer(detail, now))),
        (
            "uid",
            or_dash(detail.more.uid.map(|uid| uid.to_string()).unwrap_or_default()),
        ),
        (
            "runs",
            format!(
                "{}, {} failed, {} running, {} waiting",
                status.runs, status.failures, status.running, status.queued
            ),
        ),
        ("memory", or_dash(memory(status))),
        ("last run", last),
        (
            "next attempt",
            or_dash(distance(status.next_attempt_at.as_deref(), now)),
        ),
        ("error", or_dash(status.error.clone().unwrap_or_default())),
    ];
    for (name, value) in lines {
        out.line(&format!("{name:13} {}", escape(&value, false)))?;
    }
    out.line("\nmanifest:")?;
    for line in flat(&detail.more.manifest) {
        out.line(&format!("  {}", escape(&line, false)))?;
    }
    // fnd gives the values to admins only.
    let env = detail.more.manifest.get("env").and_then(serde_json::Value::as_object);
    if let Some(hidden) = env.filter(|env| env.values().any(serde_json::Value::is_null)) {
        let names: Vec<&str> = hidden.keys().map(String::as_str).collect();
        out.line(&format!(
            "  env = {} (an admin sees the values)",
            escape(&names.join(", "), false)
        ))?;
    }
    let problems = detail
        .more
        .diagnostics
        .iter()
        .filter_map(|value| serde_json::from_value::<Diagnostic>(value.clone()).ok());
    out.diagnostics(&problems.collect::<Vec<_>>())
}

/// Returns why newer content does not serve, and what happens next.
fn newer(detail: &FunctionDetail, now: Timestamp) -> String {
    let Some(newer) = &detail.more.newer else {
        return String::new();
    };
    let what = newer
        .version
        .map_or("the newest version".to_owned(), |version| version.to_string());
    let trials = match (newer.failed_trials, &newer.next_trial_at) {
        (0, _) => String::new(),
        (failed, None) => format!(", tried {failed} times"),
        (failed, at) => format!(", tried {failed} times, next try {}", distance(at.as_deref(), now)),
    };
    match &newer.error {
        None => format!("{what} is being tried before it serves"),
        Some(_) => format!("{what} does not serve{trials}: see the error"),
    }
}

/// Returns the memory that a running function uses now, and the peak of its last attempt.
fn memory(status: &FunctionStatus) -> String {
    let now = status
        .memory_bytes
        .map(|_| format!("{} now", size(status.memory_bytes)));
    let peak = status
        .memory_peak_bytes
        .map(|_| format!("{} at the peak of the last attempt", size(status.memory_peak_bytes)));
    now.into_iter().chain(peak).collect::<Vec<_>>().join(", ")
}
