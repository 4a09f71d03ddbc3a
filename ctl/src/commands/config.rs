//! `fndctl config`: the effective configuration, one key on each line.

use crate::common::flat::flat;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::escape;
use serde_json::Value;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl config\n  fndctl config -o yaml\n  fndctl explain node.max_workers")]
pub(crate) struct Args {}

/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, Args {}: Args) -> Result<Exit, CommandFailure> {
    let reply = context.client.get("/v1/config").await?;
    context.out.answer(&reply.body, |config: &Value, out| {
        out.lines(flat(config).iter().map(|line| escape(line, false)))
    })
}
