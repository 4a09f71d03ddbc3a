//! `fndctl list`: the names of functions, with a few details of each.

use super::{Context, Parameters};
use crate::cli::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Table, Tone};
use fnd_core::api::FunctionList;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl list\n  fndctl list -l team=ops -l tier=1\n  fndctl list --watch")]
pub(crate) struct Args {
    /// Show only functions with this label; may be repeated, then a function must have all of them.
    #[arg(short, long = "label", value_name = "KEY=VALUE")]
    labels: Vec<String>,

    /// Print the list anew after each change, until Ctrl-C; with `-o json`, print a line for each change.
    #[arg(short, long)]
    watch: bool,
}

/// Runs the verb.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, Failure> {
    let mut parameters = Parameters::default();
    for label in &args.labels {
        parameters.add("label", Some(label));
    }
    if args.watch {
        let plain = format!("/v1/functions{}", parameters.0);
        parameters.add("watch", Some("1"));
        let path = format!("/v1/functions{}", parameters.0);
        super::watch::watch(context, &path, async || show(context, &plain).await).await?;
    } else {
        show(context, &format!("/v1/functions{}", parameters.0)).await?;
    }
    Ok(Exit::Fine)
}

async fn show(context: &Context, path: &str) -> Result<(), Failure> {
    let reply = context.client.get(path).await?;
    context.out.document(&reply.body, |list: &FunctionList, out| {
        let mut header = vec!["FUNCTION", "RUNTIME", "STATE", "LABELS"];
        if out.format == Format::Wide {
            header.extend(["VERSION", "ERROR"]);
        }
        let mut table = Table::new(&header);
        for function in &list.functions {
            let labels: Vec<String> = function
                .labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            let mut cells = vec![
                function.function.to_string(),
                function.runtime.clone(),
                function.state.as_str().to_owned(),
                labels.join(","),
            ];
            if out.format == Format::Wide {
                cells.push(
                    function
                        .version
                        .map(|version| version.hex()[..12].to_owned())
                        .unwrap_or_default(),
                );
                cells.push(function.error.clone().unwrap_or_default());
            }
            table.row(Tone::Plain, cells);
        }
        out.table(&table)
    })
}
