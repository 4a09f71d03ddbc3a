//! `fndctl enable F` and `fndctl disable F`; for services `start`, `stop` and `restart`.

use crate::common::candidates;
use crate::common::names::expand;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::parse;
use fnd_core::api::Changed;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl disable hello\n  fndctl enable hello 'web/*'")]
pub(crate) struct Args {
    /// Names of functions; a name may have `*` and `?`.
    #[arg(value_name = "FUNCTION", required = true, add = candidates::functions())]
    functions: Vec<String>,
}

/// Enables or disables functions, or starts, stops or restarts services: `verb` is that of the API.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args, verb: &str) -> Result<Exit, CommandFailure> {
    let (mut done, mut failed) = (Vec::new(), None);
    for function in expand(context, &args.functions).await? {
        let path = format!("{}/{verb}", function_path(&function)?);
        let reply = match context.client.post(&path).await.map_err(CommandFailure::from) {
            Ok(reply) => reply,
            // The others are still to be changed, as the person wants it of all.
            Err(failure) if args.functions != [function.as_str()] => {
                context.out.aside(&format!("{function}: {}", failure.message));
                failed = Some(failure);
                continue;
            }
            Err(failure) => return Err(failure),
        };
        // One function has the answer of the API, several have a list.
        if args.functions == [function.as_str()] {
            return context.out.answer(&reply.body, |changed: &Changed, out| {
                out.remark(&words(&function, &changed.state))
            });
        }
        // It is done, and the other functions must not stay because one answer cannot be read.
        let state = parse::<Changed>(&reply.body).map(|changed| changed.state);
        done.push((function, state.unwrap_or_default()));
    }
    let fine = context.became("function", &done)?;
    failed.map_or(Ok(fine), Err)
}

fn words(function: &str, state: &str) -> String {
    match state {
        "stopped" => format!("{function}: stopped; an edit does not start it, `fndctl start {function}` does"),
        _ => format!("{function}: {state}"),
    }
}
