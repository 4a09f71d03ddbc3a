//! `fndctl build F`.

use super::{Context, function_path};
use crate::candidates;
use crate::exit::{Exit, Failure};
use fnd_core::api::FunctionDetail;

/// Options of `build`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  fndctl build hello\n  fndctl logs fnd-build -f    what the installation prints")]
pub(crate) struct Args {
    /// Name of a function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,
}

/// Installs a function again, with its dependencies, and waits until that is done.
///
/// # Errors
/// Its dependencies cannot be installed, there is no such function, or the daemon cannot be reached.
pub(crate) async fn run(context: &Context, args: Args) -> Result<Exit, Failure> {
    let path = format!("{}/build", function_path(&args.function)?);
    context
        .out
        .progress("building it; `fndctl logs fnd-build -f` shows what this prints");
    let reply = context.client.post(&path).await?;
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
