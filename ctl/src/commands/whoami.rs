//! `fndctl whoami`: what the caller may do.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::{TextTable, Tone};
use fnd_core::api::CallerView;

#[derive(Debug, clap::Args)]
#[command(after_help = "Roles come from [[access]] of fnd.toml. Root is admin.\n\nExample:\n  fndctl whoami")]
pub(crate) struct Args {}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, Args {}: Args) -> Result<Exit, CommandFailure> {
    let reply = context.client.get("/v1/access").await?;
    context.out.answer(&reply.body, |caller: &CallerView, out| {
        let mut table = TextTable::new(&["ROLE", "FOR"]);
        if let Some(role) = caller.role {
            let all = format!("the node `{}` and every function", caller.node);
            table.row(Tone::Plain, [role.as_str().to_owned(), all]);
        }
        for entry in &caller.functions {
            let cells = [entry.role.as_str().to_owned(), entry.functions.join(", ")];
            table.row(Tone::Plain, cells);
        }
        out.table(&table)
    })
}
