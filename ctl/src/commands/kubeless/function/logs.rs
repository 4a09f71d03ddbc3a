//! `kubeless function logs`: what a function printed, the text only.

use super::super::options::Namespace;
use crate::common::candidates;
use crate::context::{Context, Parameters, function_path};
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::{LogLine, LogList};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubeless function logs hello -f\n\n`fndctl logs` has more: instants, runs, --since."
)]
pub(in crate::commands::kubeless) struct Args {
    /// Name of the function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    /// Print new lines as they come.
    #[arg(short, long)]
    follow: bool,

    #[command(flatten)]
    namespace: Namespace,
}

/// # Errors
/// The function does not exist, or fnd cannot be reached.
pub(super) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    args.namespace.report(context);
    // If the function is unknown, this fails. Otherwise the list would only be empty.
    context.client.get(&function_path(&args.function)?).await?;
    let mut parameters = Parameters::default();
    parameters.add("function", Some(&args.function));
    parameters.add("follow", args.follow.then_some("1"));
    let path = format!("/v1/logs{}", parameters.0);
    if !args.follow {
        let reply = context.client.get(&path).await?;
        return context.out.answer(&reply.body, |list: &LogList, out| {
            out.lines(list.lines.iter().map(|line| out.printed(&line.text)))
        });
    }
    let mut lines = context.client.stream(&path).await?;
    while let Some(line) = lines.line().await? {
        let line: LogLine = crate::output::parse(&line)?;
        context.out.line(&context.out.printed(&line.text))?;
    }
    Ok(Exit::Fine)
}
