//! `fndctl enable F` and `fndctl disable F`.

use crate::common::candidates;
use crate::common::names::expand;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::Changed;
use serde::{Deserialize, Serialize};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl disable hello\n  fndctl enable hello 'web/*'")]
pub(crate) struct Args {
    /// Names of functions; a name may have `*` and `?`.
    #[arg(value_name = "FUNCTION", required = true, add = candidates::functions())]
    functions: Vec<String>,
}

/// A function that was changed, in the form of `-o json`.
#[derive(Debug, Serialize, Deserialize)]
struct ChangedState {
    function: String,
    state: String,
}

/// Enables or disables functions.
///
/// # Errors
/// The daemon refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args, verb: &str) -> Result<Exit, CommandFailure> {
    let mut done = Vec::new();
    for function in expand(context, &args.functions).await? {
        let path = format!("{}/{verb}", function_path(&function)?);
        let reply = context.client.post(&path).await?;
        // One function has the answer of the API, several have a list.
        if args.functions == [function.as_str()] {
            context.out.document(&reply.body, |changed: &Changed, out| {
                out.remark(&format!("{function}: {}", changed.state))
            })?;
            return Ok(Exit::Fine);
        }
        let changed: Result<Changed, _> = serde_json::from_slice(&reply.body);
        let state = changed.map(|changed| changed.state).unwrap_or_default();
        done.push(ChangedState { function, state });
    }
    let body = serde_json::to_vec(&done).unwrap_or_default(); // texts only
    context.out.answer(&body, |done: &Vec<ChangedState>, out| {
        done.iter()
            .try_for_each(|one| out.remark(&format!("{}: {}", one.function, one.state)))
    })
}
