//! `fndctl build F`.

use super::{Context, Parameters, function_path};
use crate::candidates;
use crate::client::Reply;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::{FunctionDetail, LogLine};
use jiff::Timestamp;

/// Options of `build`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl build hello\n  fndctl logs hello --build    what it printed")]
pub(crate) struct Args {
    /// Name of a function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    /// Build its packages or its program anew, although they are there. The version before serves until that is done.
    #[arg(long)]
    clean: bool,
}

/// Shows what builds print, until there is no more.
async fn watch(context: &Context) {
    let mut parameters = Parameters::default();
    parameters.add("function", Some("fnd-build"));
    parameters.add("since", Some(&Timestamp::now().to_string()));
    parameters.add("follow", Some("1"));
    let Ok(mut lines) = context.client.stream(&format!("/v1/logs{}", parameters.0)).await else {
        return;
    };
    while let Ok(Some(line)) = lines.line().await {
        if let Ok(line) = serde_json::from_slice::<LogLine>(&line) {
            context.out.progress(&context.out.printed(&line.text));
        }
    }
}

/// Waits until the dependencies of a function are installed, and returns fnd's answer.
///
/// # Errors
/// They cannot be installed, there is no such function, or the daemon cannot be reached.
pub(super) async fn built(context: &Context, function: &str, clean: bool) -> Result<Reply, CommandFailure> {
    let clean = if clean { "?clean=1" } else { "" };
    let path = format!("{}/build{clean}", function_path(function)?);
    watched(context, context.client.post(&path)).await
}

/// Waits for an answer of fnd, and shows meanwhile what builds print.
pub(super) async fn watched<T>(context: &Context, answer: impl Future<Output = T>) -> T {
    tokio::pin!(answer);
    // Nothing is said about how it goes if its output cannot be had.
    tokio::select! {
        answer = &mut answer => answer,
        () = watch(context) => answer.await,
    }
}

/// Installs a function again, with its dependencies, and waits until that is done.
///
/// # Errors
/// Its dependencies cannot be installed, there is no such function, or the daemon cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let reply = built(context, &args.function, args.clean).await?;
    context.out.document(&reply.body, |detail: &FunctionDetail, out| {
        let function = &detail.status.function;
        let packages = match detail.more.packages.as_slice() {
            [] => "it has no dependencies".to_owned(),
            packages => packages.join(", "),
        };
        out.remark(&format!("{function}: installed: {packages}"))
    })?;
    Ok(Exit::Fine)
}
