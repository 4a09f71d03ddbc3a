//! `fndctl list`: the names of functions, with a few details of each.

use crate::common::selection::{Selection, refuse_changes_of_some};
use crate::context::{Context, Parameters};
use crate::exit::{CommandFailure, Exit};
use crate::output::Format;
use crate::output::{TextTable, Tone, parse};
use fnd_core::api::FunctionList;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  fndctl list\n  fndctl list -l team=ops -l tier=1\n  fndctl list 'web/*' --sort state\n  fndctl list --watch"
)]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,

    /// Print the list anew after each change, until Ctrl-C; with `-o json`, print a line for each change.
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let mut parameters = Parameters::default();
    args.selection.add_labels(&mut parameters);
    let path = format!("/v1/functions{}", parameters.0);
    if args.watch {
        if args.selection.has_names() {
            refuse_changes_of_some(context.out.format)?;
        }
        parameters.add("watch", Some("1"));
        let changes = format!("/v1/functions{}", parameters.0);
        crate::common::watch::watch(context, &changes, async || show(context, &args, &path).await).await?;
    } else {
        show(context, &args, &path).await?;
    }
    Ok(Exit::Fine)
}

async fn show(context: &Context, args: &Args, path: &str) -> Result<(), CommandFailure> {
    let mut body = context.client.get(path).await?.body;
    // Otherwise the body of fnd is printed as it is, also with fields that this fndctl does not know.
    if args.selection.changes() {
        let mut list: FunctionList = parse(&body)?;
        args.selection.apply(&mut list.functions)?;
        body = serde_json::to_vec(&list).unwrap_or_default().into(); // as it was read
    }
    context.out.document(&body, |list: &FunctionList, out| {
        let mut header = vec!["FUNCTION", "RUNTIME", "STATE", "LABELS"];
        if out.format == Format::Wide {
            header.extend(["VERSION", "ERROR"]);
        }
        let mut table = TextTable::new(&header);
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
