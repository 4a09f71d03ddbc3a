//! `fndctl show F`: all details of a function; with the id of a run all about that run.
//!
//! Files:
//! - `input`: the fields of its input
//! - `run`: one run on one screen
//! - `tree`: which run called which

mod input;
mod run;
mod tree;

use crate::common::answers::{diagnostics, fields, or_dash};
use crate::common::candidates;
use crate::common::flat::flat;
use crate::common::runs::run_of_word;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::{Format, Output, escape};
use crate::text::{distance, ended_service, size, stopped, why};
use fnd_core::api::{FunctionDetail, FunctionStatus};
use jiff::Timestamp;
use serde_json::Value;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  fndctl show hello\n  fndctl show hello -o wide                 with all defaults\n  fndctl show ops/backup -o json | jq .manifest.limits\n  fndctl show 456789abcdef                  one run: record, attempts, output, result, calls"
)]
pub(crate) struct Args {
    /// Name of the function; or the id of a run, or its last characters, as `fndctl history` shows them.
    #[arg(add = candidates::functions_and_runs())]
    function: String,
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    if let Some(id) = run_of_word(context, &args.function).await? {
        return run::show(context, &id).await;
    }
    let reply = context.client.get(&function_path(&args.function)?).await?;
    let out = &context.out;
    out.answer(&reply.body, |detail: &FunctionDetail, out| print(out, detail))
}

fn print(out: &Output, detail: &FunctionDetail) -> Result<(), CommandFailure> {
    let status = &detail.status;
    let now = Timestamp::now();
    // `what` is empty if no version was ever installed; `more` is empty if the function runs without interpreter.
    let with = |what: &str, more: &str| match (what, more) {
        ("", _) => "-".to_owned(),
        (what, "") => what.to_owned(),
        (what, more) => format!("{what} ({more})"),
    };
    let last = match (&status.started_at, status.reason) {
        (Some(started), Some(_)) => {
            let (when, why) = (distance(Some(started), now), why(status.reason, &status.message));
            format!("{when} {}: {why}", status.status.as_str())
        }
        _ => "-".to_owned(),
    };
    let version = status.version.map(|version| version.to_string());
    let uid = detail.more.uid.map(|uid| uid.to_string());
    let counts = format!("{}, {} failed", status.runs, status.failures);
    let next = distance(status.next_attempt_at.as_deref(), now);
    let lines = [
        ("function", status.function.to_string()),
        (
            "state",
            stopped(status, now).unwrap_or_else(|| status.state.as_str().to_owned()),
        ),
        ("mode", with(&detail.more.mode, &detail.more.mode_reason)),
        ("runtime", with(&status.runtime, &detail.more.interpreter)),
        ("source", detail.more.source.clone()),
        ("version", or_dash(version.unwrap_or_default())),
        ("newer", or_dash(newer(detail, now))),
        ("uid", or_dash(uid.unwrap_or_default())),
        (
            "runs",
            format!("{counts}, {} running, {} waiting", status.running, status.queued),
        ),
        ("memory", or_dash(memory(status))),
        ("disk", or_dash(disk(detail, now))),
        ("packages", or_dash(packages(detail))),
        ("last run", last),
        ("next attempt", or_dash(next)),
        ("error", or_dash(status.error.clone().unwrap_or_default())),
    ];
    let told = status.alert.as_ref().map(|told| {
        let since = distance(Some(&told.since), now);
        ("alert", format!("{} {since}", told.alert.as_str()))
    });
    let waits_for = status.waits_for.as_ref();
    let waits_for = waits_for.map(|waits_for| ("waits for", waits_for.words()));
    let cause = ended_service(status).map(|why| ("cause", why.to_owned()));
    let left_out = left_out(&detail.more.manifest).map(|keys| ("left out", keys));
    let more = cause.into_iter().chain(waits_for).chain(told).chain(left_out);
    fields(out, lines.into_iter().chain(more))?;
    settings(out, &detail.more.manifest)?;
    input::print(out, detail.more.input.as_ref())?;
    out.diagnostics(&diagnostics(detail))
}

/// Prints the settings of a manifest: the function's own; with `-o wide` the defaults, too.
fn settings(out: &Output, manifest: &Value) -> Result<(), CommandFailure> {
    let print = |line: &String| out.line(&format!("  {}", escape(line, false)));
    let all = flat(manifest)
        .into_iter()
        // These two lines say how the manifest came about. `is_own` and `left_out` read them.
        .filter(|line| !line.starts_with("written = ") && !line.starts_with("left_out = "));
    let (mut own, defaults): (Vec<_>, Vec<_>) = all.partition(|line| is_own(line, manifest));
    // fnd gives the values to admins only.
    let env = manifest.get("env").and_then(Value::as_object);
    if let Some(hidden) = env.filter(|env| env.values().any(Value::is_null)) {
        let names: Vec<&str> = hidden.keys().map(String::as_str).collect();
        own.push(format!("env = {} (an admin sees the values)", names.join(", ")));
    }
    match (own.is_empty(), defaults.is_empty()) {
        // No version was ever installed.
        (true, true) => return Ok(()),
        (true, false) => out.line("\nsettings: all are defaults (-o wide shows them)")?,
        (false, _) => out.line("\nsettings (-o wide shows the defaults, too):")?,
    }
    own.iter().try_for_each(print)?;
    if out.format == Format::Wide {
        out.line("\ndefaults:")?;
        defaults.iter().try_for_each(print)?;
    }
    Ok(())
}

/// Returns the keys of `[defaults]` that the function does without, since its files do not belong to root.
fn left_out(manifest: &Value) -> Option<String> {
    let keys = manifest["left_out"].as_array()?.iter().filter_map(Value::as_str);
    let keys: Vec<&str> = keys.collect();
    let why = "in [defaults] of fnd.toml: only for functions whose code and manifest belong to root";
    Some(format!("{} ({why})", keys.join(", ")))
}

/// Returns whether a setting of a manifest is the function's own: it stands in its manifest.
fn is_own(line: &str, manifest: &Value) -> bool {
    let path = line.split_once(" = ").map_or(line, |(path, _)| path);
    let written = manifest["written"].as_array().into_iter().flatten();
    // A value below a written one belongs to it: `data` is one value of the manifest and several lines here.
    written.filter_map(Value::as_str).any(|written| {
        let below = path.strip_prefix(written);
        below.is_some_and(|below| below.is_empty() || below.starts_with('.'))
    })
}

/// Returns why newer content does not serve, and what happens next.
fn newer(detail: &FunctionDetail, now: Timestamp) -> String {
    let Some(newer) = &detail.more.newer else {
        return String::new();
    };
    let what = newer.version.map(|version| version.to_string());
    let what = what.unwrap_or_else(|| "the newest version".to_owned());
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
    let now = status.memory_bytes;
    let now = now.map(|_| format!("{} now", size(now)));
    let peak = status.memory_peak_bytes;
    let peak = peak.map(|_| format!("{} at the peak of the last attempt", size(peak)));
    now.into_iter().chain(peak).collect::<Vec<_>>().join(", ")
}

/// Returns the size of home and cache beside their quotas, and how old these figures are.
fn disk(detail: &FunctionDetail, now: Timestamp) -> String {
    let Some(storage) = &detail.more.storage else {
        return String::new();
    };
    let part = |name: &str, bytes: Option<u64>| {
        let quota = detail.more.manifest["limits"][name].as_str();
        let quota = quota.filter(|quota| *quota != "none");
        let quota = quota.map(|quota| format!(" of {quota}")).unwrap_or_default();
        bytes.map(|_| format!("{name} {}{quota}", size(bytes)))
    };
    let measured = storage.measured_at.as_deref().filter(|_| storage.home_bytes.is_some());
    let parts = [
        part("home", storage.home_bytes),
        part("cache", storage.cache_bytes),
        measured.map(|at| format!("measured {}", distance(Some(at), now))),
        storage.problem.clone(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the packages of a function, and how much they have.
fn packages(detail: &FunctionDetail) -> String {
    let listed = detail.more.packages.join(", ");
    match detail.more.tree_bytes {
        Some(bytes) if listed.is_empty() => size(Some(bytes)),
        Some(bytes) => format!("{listed} ({})", size(Some(bytes))),
        None => listed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_settings_stand_in_the_functions_manifest() {
        let written = ["data", "env.TOKEN", "limits.timeout", "pool.max", "schedule"];
        let manifest = serde_json::json!({ "written": written });
        for (line, own) in [
            ("limits.timeout = \"180s\"", true),
            ("limits.memory = \"512M\"", false),
            ("pool.max = 4", true),
            ("pool.max_age = \"1d\"", false),
            ("data.url = \"https://example.com\"", true),
            ("env.TOKEN = \"x\"", true),
            ("env.OTHER = \"of [defaults]\"", false),
            ("schedule = [{ every = \"30s\" }]", true),
        ] {
            assert_eq!(is_own(line, &manifest), own, "{line}");
        }
    }
}
