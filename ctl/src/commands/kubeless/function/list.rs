//! `kubeless function list` and `describe`.

use super::super::options::{NamedFunction, Namespace};
use crate::common::{candidates, names};
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::{Format, TextTable, Tone};
use fnd_core::api::FunctionDetail;
use fnd_core::run::FunctionState;
use fnd_import::kubeless::object;
use serde_json::Value;

/// Options of `list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kubeless function ls\n  kubeless function ls hello -o yaml")]
pub(in crate::commands::kubeless) struct List {
    /// Names of functions [default: all].
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    functions: Vec<String>,

    #[command(flatten)]
    namespace: Namespace,
}

/// Returns the details of the functions that are named, or of all.
///
/// # Errors
/// A function does not exist, or fnd cannot be reached.
pub(in crate::commands::kubeless) async fn details(
    context: &Context,
    named: &[String],
) -> Result<Vec<FunctionDetail>, CommandFailure> {
    let names = match named {
        [] => names::all(context).await?,
        _ => named.to_vec(),
    };
    let mut details = Vec::new();
    for name in &names {
        details.push(context.detail(name).await?);
    }
    Ok(details)
}

/// # Errors
/// A function does not exist, or fnd cannot be reached.
pub(super) async fn list(context: &Context, args: List) -> Result<Exit, CommandFailure> {
    args.namespace.report(context);
    let details = details(context, &args.functions).await?;
    let objects: Vec<Value> = details.iter().map(of).collect();
    context.made(&objects, |out| {
        let mut header = vec!["NAME", "NAMESPACE", "HANDLER", "RUNTIME", "DEPENDENCIES", "STATUS"];
        let is_wide = out.format == Format::Wide;
        if is_wide {
            header.extend(["MEMORY", "ENV", "LABEL"]);
        }
        // The table keeps all columns at any width, since scripts count them.
        let mut table = TextTable::fixed(&header);
        for detail in &details {
            let manifest = &detail.more.manifest;
            let mut cells = vec![
                detail.status.function.to_string(),
                object::NAMESPACE.to_owned(),
                text(manifest, "handler"),
                // fnd writes `python 3.11` where Kubeless writes `python3.11`.
                detail.status.runtime.replace(' ', ""),
                packages(&detail.more.packages, if is_wide { usize::MAX } else { 3 }),
                status(detail.status.state).to_owned(),
            ];
            if is_wide {
                cells.extend([
                    memory(manifest),
                    pairs(&manifest["env"]),
                    pairs(&object::labels(manifest).into()),
                ]);
            }
            table.row(Tone::Plain, cells);
        }
        out.table(&table)
    })
}

/// # Errors
/// It does not exist, or fnd cannot be reached.
pub(super) async fn describe(context: &Context, args: &NamedFunction) -> Result<Exit, CommandFailure> {
    args.namespace.report(context);
    let detail = context.detail(&args.function).await?;
    let manifest = &detail.more.manifest;
    context.made(&of(&detail), |out| {
        let labels = Value::from(object::labels(manifest)).to_string();
        let rows = [
            ("Name:", args.function.clone()),
            ("Namespace:", object::NAMESPACE.to_owned()),
            ("Handler:", text(manifest, "handler")),
            ("Runtime:", detail.status.runtime.replace(' ', "")),
            ("Label:", labels),
            ("Envvar:", manifest["env"].to_string()),
            ("Memory:", memory(manifest)),
            ("Dependencies:", detail.more.packages.join(", ")),
            ("Status:", status(detail.status.state).to_owned()),
            ("Error:", detail.status.error.clone().unwrap_or_default()),
        ];
        let shown = rows.iter().filter(|(_, value)| !value.is_empty());
        out.lines(shown.map(|(name, value)| format!("{name:14}{}", out.printed(value))))
    })
}

fn of(detail: &FunctionDetail) -> Value {
    let mut object = object::function(detail.status.function.as_str(), &detail.more.manifest);
    // Kubeless has the text of the file with the dependencies there.
    object["spec"]["deps"] = detail.more.packages.join("\n").into();
    object
}

/// Returns the words that Kubeless has for the state of a function: one process group runs it, or none can.
fn status(state: FunctionState) -> &'static str {
    match state {
        FunctionState::Ready | FunctionState::Running => "1/1 READY",
        FunctionState::Building | FunctionState::Disabled | FunctionState::Invalid | FunctionState::CrashLooping => {
            "0/1 NOT READY"
        }
    }
}

/// Returns the first packages, and how many more there are.
fn packages(all: &[String], most: usize) -> String {
    let shown = all.iter().take(most).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn text(manifest: &Value, key: &str) -> String {
    manifest[key].as_str().unwrap_or_default().to_owned()
}

fn memory(manifest: &Value) -> String {
    let memory = manifest["limits"]["memory"].as_str().and_then(object::memory);
    memory.unwrap_or_default()
}

/// Returns the pairs of a table as `a = b, c = d`.
fn pairs(table: &Value) -> String {
    let pairs = table.as_object().into_iter().flatten();
    let pairs = pairs.map(|(name, value)| format!("{name} = {}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn many_packages_are_counted() {
        let all: Vec<String> = ["a 1", "b 2", "c 3", "d 4"].map(str::to_owned).to_vec();
        assert_eq!(super::packages(&all, 3), "a 1, b 2, c 3 and 1 more");
        assert_eq!(super::packages(&all, usize::MAX), "a 1, b 2, c 3, d 4");
        assert_eq!(super::packages(&[], 3), "");
    }
}
