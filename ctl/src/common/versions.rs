//! The versions of the client, the daemon and the spawner.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use crate::output::Format;
use fnd_core::api::NodeStatus;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl version")]
pub(crate) struct VersionArgs {}

/// Prints the versions; it is no failure if no daemon answers.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) async fn print(context: &Context) -> Result<Exit, CommandFailure> {
    let node = match context.client.get("/v1/status").await {
        Ok(reply) => serde_json::from_slice::<NodeStatus>(&reply.body).ok(),
        Err(_) => None,
    };
    let client = env!("CARGO_PKG_VERSION");
    let (daemon, spawner) = match &node {
        Some(node) => (Some(node.version.as_str()), Some(node.spawner_version.as_str())),
        None => (None, None),
    };
    let body = serde_json::json!({"fndctl": client, "fnd": daemon, "fnd_spawner": spawner}).to_string();
    match context.out.format {
        Format::Json => context.out.json(body.as_bytes())?,
        Format::Yaml => context.out.yaml(body.as_bytes())?,
        Format::Table | Format::Wide | Format::Name | Format::Raw => {
            let absent = format!("no answer on {}", context.client.path().display());
            context.out.line(&format!("fndctl      {client}"))?;
            context
                .out
                .line(&format!("fnd         {}", daemon.unwrap_or(&absent)))?;
            context.out.line(&format!("fnd-spawner {}", spawner.unwrap_or("-")))?;
        }
    }
    Ok(Exit::Fine)
}
