//! `--watch`: prints a table anew whenever a function changes, until Ctrl-C.

use crate::common::answers::streamed;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long changes are gathered before they are shown: a person cannot read faster.
const GATHER: Duration = Duration::from_millis(100);

/// Reads the changes of a path of the API. In JSON and YAML each change is printed; otherwise `show` is called, once
/// for all changes that come within a moment.
///
/// # Errors
/// The daemon refuses the request, it cannot be reached, or `show` fails.
pub(crate) async fn watch(
    context: &Context,
    path: &str,
    mut show: impl AsyncFnMut() -> Result<Exit, CommandFailure>,
) -> Result<Exit, CommandFailure> {
    let mut changes = context.client.stream(path).await?;
    while let Some(change) = changes.line().await? {
        if context.out.format.is_document() {
            streamed(&context.out, &change)?;
            continue;
        }
        let until = Instant::now() + GATHER;
        // Cancel-safe: a part of a line that was read is kept for the next call, which also sees the end of the stream.
        while let Ok(Some(_)) = timeout_at(until, changes.line()).await.unwrap_or(Ok(None)) {}
        context.out.clear()?;
        show().await?;
    }
    Ok(Exit::Fine)
}
