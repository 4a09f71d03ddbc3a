//! `fndctl build F`.

use crate::common::builds::built;
use crate::common::candidates;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_core::api::FunctionDetail;

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

/// Installs a function again, with its dependencies, and waits until that is done.
///
/// # Errors
/// Its dependencies cannot be installed, there is no such function, or the daemon cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, CommandFailure> {
    let reply = built(context, &args.function, args.clean).await?;
    context.out.answer(&reply.body, |detail: &FunctionDetail, out| {
        let function = &detail.status.function;
        let packages = match detail.more.packages.as_slice() {
            [] => "it has no dependencies".to_owned(),
            packages => packages.join(", "),
        };
        out.remark(&format!("{function}: installed: {packages}"))
    })
}
