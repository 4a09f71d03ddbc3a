//! `fndctl runtimes`: the runtimes of functions.

use super::{Context, interpreters};
use crate::cli::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Table, Tone};
use fnd_core::api::RuntimeList;

/// Options.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  fndctl runtimes\n  fndctl runtimes -o wide\n  sudo fndctl runtimes install deno"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<interpreters::Verb>,
}

/// Runs the verb.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, Args { verb }: Args) -> Result<Exit, Failure> {
    if let Some(verb) = verb {
        return interpreters::run(context, verb).await;
    }
    let reply = context.client.get("/v1/runtimes").await?;
    context.out.document(&reply.body, |list: &RuntimeList, out| {
        let mut header = vec!["RUNTIME", "SUFFIXES", "VERSIONS"];
        if out.format == Format::Wide {
            header.extend(["DESCRIPTION", "ALIASES", "INTERPRETERS"]);
        }
        let mut table = Table::new(&header);
        for runtime in &list.runtimes {
            let versions: Vec<&str> = runtime.versions.iter().map(|version| version.name.as_str()).collect();
            let mut cells = vec![
                runtime.id.clone(),
                runtime.suffixes.join(" "),
                if runtime.enabled {
                    versions.join(" ")
                } else {
                    "disabled".to_owned()
                },
            ];
            if out.format == Format::Wide {
                let interpreters: Vec<&str> = runtime
                    .versions
                    .iter()
                    .map(|version| version.interpreter.as_str())
                    .collect();
                cells.extend([
                    runtime.description.clone(),
                    runtime.aliases.join(" "),
                    interpreters.join(" "),
                ]);
            }
            table.row(if runtime.enabled { Tone::Plain } else { Tone::Dim }, cells);
        }
        out.table(&table)
    })?;
    Ok(Exit::Fine)
}
