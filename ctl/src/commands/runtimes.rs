//! `fndctl runtimes`: the runtimes of functions.

use super::Context;
use crate::cli::Format;
use crate::exit::{Exit, Failure};
use crate::output::{Table, Tone};
use fnd_core::api::RuntimeList;

/// Options.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl runtimes\n  fndctl runtimes -o wide")]
pub(crate) struct Args {}

/// Runs the verb.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, Args {}: Args) -> Result<Exit, Failure> {
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
