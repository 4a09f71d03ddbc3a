//! `--watch`: shows something again whenever a function changes, until Ctrl-C.

use super::Context;
use crate::cli::Format;
use crate::exit::Failure;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Longest time changes are gathered before they are shown: more often nobody can read.
const GATHER: Duration = Duration::from_millis(100);

/// Reads the changes of a path of the API: in JSON and YAML each is printed, otherwise `show` is called for some of them.
///
/// # Errors
/// What the daemon refuses, where it cannot be reached, and what `show` fails with.
pub(crate) async fn watch(
    context: &Context,
    path: &str,
    mut show: impl AsyncFnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut changes = context.client.stream(path).await?;
    while let Some(change) = changes.line().await? {
        match context.out.format {
            Format::Json => context
                .out
                .line(&context.out.untrusted(&String::from_utf8_lossy(&change)))?,
            Format::Yaml => {
                context.out.line("---")?;
                context.out.yaml(&change)?;
            }
            Format::Table | Format::Wide | Format::Raw => {
                let until = Instant::now() + GATHER;
                // Cancel-safe: what was read of a line is kept for the next call. The end is seen by that, too.
                while let Ok(Some(_)) = timeout_at(until, changes.line()).await.unwrap_or(Ok(None)) {}
                context.out.clear()?;
                show().await?;
            }
        }
    }
    Ok(())
}
