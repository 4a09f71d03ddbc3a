//! Builds: waits for their end, and shows meanwhile what they print.

use crate::client::Reply;
use crate::common::answers::next;
use crate::context::{Context, Parameters, function_path};
use crate::exit::CommandFailure;
use fnd_core::api::LogLine;
use jiff::Timestamp;

/// Shows what builds print, until there is no more.
async fn watch(context: &Context) {
    let mut parameters = Parameters::default();
    parameters.add("function", Some("fnd-build"));
    // Output of earlier builds is no news.
    parameters.add("since", Some(&Timestamp::now().to_string()));
    parameters.add("follow", Some("1"));
    let Ok(mut lines) = context.client.stream(&format!("/v1/logs{}", parameters.0)).await else {
        return;
    };
    while let Ok(Some(line)) = next::<LogLine>(&mut lines).await {
        context.out.progress(&context.out.printed(&line.text));
    }
}

/// Waits until the dependencies of a function are installed, and returns fnd's answer.
///
/// # Errors
/// They cannot be installed, there is no such function, or the daemon cannot be reached.
pub(crate) async fn built(context: &Context, function: &str, clean: bool) -> Result<Reply, CommandFailure> {
    let clean = if clean { "?clean=1" } else { "" };
    let path = format!("{}/build{clean}", function_path(function)?);
    Ok(watched(context, context.client.post(&path)).await?)
}

/// Waits for an answer of fnd, and shows meanwhile what builds print.
pub(crate) async fn watched<T>(context: &Context, answer: impl Future<Output = T>) -> T {
    tokio::pin!(answer);
    // If the output of builds cannot be read, only the answer is waited for.
    tokio::select! {
        answer = &mut answer => answer,
        () = watch(context) => answer.await,
    }
}
