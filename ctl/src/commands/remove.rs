//! `fndctl remove F...`: removes uploaded functions.

use crate::common::candidates;
use crate::common::confirm::confirmed;
use crate::common::names::expand;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};
use crate::output::parse;
use fnd_core::api::RemovedFunction;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    fndctl remove hello\n  \
    fndctl remove 'old/*' --yes\n\n\
    A function whose file lies elsewhere, such as in /etc/fnd/functions, is not touched (exit code 5): the message has the command \
    that removes it. Needs the role admin for the function.")]
pub(crate) struct Args {
    /// Names of functions; a name may have `*` and `?`.
    #[arg(value_name = "FUNCTION", required = true, add = candidates::functions())]
    functions: Vec<String>,

    /// Do not ask.
    #[arg(short, long)]
    yes: bool,
}

/// # Errors
/// fnd refuses the request, or it cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let functions = expand(context, &args.functions).await?;
    if !args.yes && !confirmed(&format!("remove {}?", functions.join(", ")))? {
        context.out.aside("nothing was removed");
        return Ok(Exit::FunctionFailed);
    }
    let mut done = Vec::new();
    for function in &functions {
        let reply = context.delete(&function_path(function)?).await?;
        done.push(parse::<RemovedFunction>(&reply.body)?);
    }
    context.made(&done, |out| {
        for removed in &done {
            out.remark(&format!("{}: removed ({})", removed.function, removed.files.join(", ")))?;
            if let Some(serves) = &removed.serves {
                out.aside(&format!("`{serves}` has this name, and goes on"));
            }
            let remains = removed.remains.iter();
            remains.for_each(|what| out.aside(&format!("  stays: {what}")));
        }
        Ok(())
    })
}
