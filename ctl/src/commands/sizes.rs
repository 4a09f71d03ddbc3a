//! `fndctl sizes`: the presets of limits.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::{TextTable, Tone};
use fnd_core::api::SizeList;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl sizes\n  fndctl explain size")]
pub(crate) struct Args {}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, Args {}: Args) -> Result<Exit, CommandFailure> {
    let reply = context.client.get("/v1/sizes").await?;
    context.out.answer(&reply.body, |list: &SizeList, out| {
        let mut table = TextTable::new(&["SIZE", "CPU", "MEMORY", "OTHER LIMITS"]);
        for size in &list.sizes {
            let limit = |key: &str| size.limits.get(key).cloned().unwrap_or_default();
            let others = size
                .limits
                .iter()
                .filter(|(key, _)| !["cpu", "memory"].contains(&key.as_str()));
            let others: Vec<String> = others.map(|(key, value)| format!("{key}={value}")).collect();
            table.row(
                Tone::Plain,
                [size.name.clone(), limit("cpu"), limit("memory"), others.join(" ")],
            );
        }
        out.table(&table)
    })
}
