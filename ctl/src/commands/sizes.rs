//! `fndctl sizes`: the presets of limits.

use crate::common::tables::table;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::SizeList;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl sizes\n  fndctl explain size")]
pub(crate) struct Args {}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, Args {}: Args) -> Result<Exit, CommandFailure> {
    let reply = context.client.get("/v1/sizes").await?;
    context.out.answer(&reply.body, |list: &SizeList, out| {
        let heads = ["SIZE", "CPU", "MEMORY", "OTHER LIMITS"];
        out.table(&table(heads, &list.sizes, |size| {
            let limit = |key: &str| size.limits.get(key).cloned().unwrap_or_default();
            let others = size.limits.iter();
            let others = others.filter(|(key, _)| !["cpu", "memory"].contains(&key.as_str()));
            let others: Vec<String> = others.map(|(key, value)| format!("{key}={value}")).collect();
            [size.name.clone(), limit("cpu"), limit("memory"), others.join(" ")]
        }))
    })
}
