//! The versions of the client, the daemon and the spawner.

use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::NodeStatus;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl version")]
pub(crate) struct VersionArgs {}

/// Prints the versions; it is no failure if no daemon answers.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) async fn print(context: &Context) -> Result<Exit, CommandFailure> {
    let node = context.read::<NodeStatus>("/v1/status").await.ok();
    let client = env!("CARGO_PKG_VERSION");
    let (daemon, spawner) = node.map(|node| (node.version, node.spawner_version)).unzip();
    let document = serde_json::json!({"fndctl": client, "fnd": daemon, "fnd_spawner": spawner});
    context.made(&document, |out| {
        let absent = || format!("no answer on {}", context.client.path().display());
        out.line(&format!("fndctl      {client}"))?;
        out.line(&format!("fnd         {}", daemon.clone().unwrap_or_else(absent)))?;
        out.line(&format!("fnd-spawner {}", spawner.as_deref().unwrap_or("-")))
    })
}
