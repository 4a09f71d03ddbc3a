//! `kubeless function`: deploys, changes, calls and shows functions.
//!
//! Files:
//! - `deploy`: `deploy` and `update`
//! - `settings`: their options, as files and keys of the manifest
//! - `call`: one request to a function
//! - `list`: `list` and `describe`
//! - `logs`: what a function printed
//! - `top`: how often functions were called

mod call;
mod deploy;
pub(super) mod list;
mod logs;
mod settings;
mod top;

use super::options::NamedFunction;
use crate::context::{Context, function_path};
use crate::exit::{CommandFailure, Exit};

/// The verbs.
#[derive(Debug, clap::Subcommand)]
pub(super) enum KubelessFunctionVerb {
    /// Deploy a new function, and wait until fnd has taken it.
    Deploy(deploy::Deploy),
    /// Change a function that was deployed.
    Update(deploy::UpdateFunction),
    /// Delete a function, with its triggers.
    Delete(NamedFunction),
    /// List functions.
    #[command(visible_alias = "ls")]
    List(list::List),
    /// Call a function and print its answer.
    Call(call::Args),
    /// Print what a function printed.
    Logs(logs::Args),
    /// Show a function.
    #[command(after_help = "Example:\n  kubeless function describe hello")]
    Describe(NamedFunction),
    /// Show how often functions were called, and how long they took.
    #[command(visible_alias = "stats")]
    Top(top::Args),
}

impl KubelessFunctionVerb {
    /// Returns whether the command prints a table.
    pub(super) fn prints_table(&self) -> bool {
        matches!(self, Self::List(_) | Self::Top(_))
    }

    /// Returns whether the command prints a text that people read from its beginning to its end.
    pub(super) fn only_reads(&self) -> bool {
        matches!(self, Self::List(_) | Self::Describe(_) | Self::Top(_))
    }
}

/// # Errors
/// An option is wrong, or fnd refuses the request, or it cannot be reached.
pub(super) async fn run(context: &Context, verb: KubelessFunctionVerb) -> Result<Exit, CommandFailure> {
    match verb {
        KubelessFunctionVerb::Deploy(args) => deploy::deploy(context, args).await,
        KubelessFunctionVerb::Update(args) => deploy::update(context, args).await,
        KubelessFunctionVerb::Delete(args) => delete(context, &args).await,
        KubelessFunctionVerb::List(args) => list::list(context, args).await,
        KubelessFunctionVerb::Call(args) => call::run(context, args).await,
        KubelessFunctionVerb::Logs(args) => logs::run(context, args).await,
        KubelessFunctionVerb::Describe(args) => list::describe(context, &args).await,
        KubelessFunctionVerb::Top(args) => top::run(context, args).await,
    }
}

/// Deletes a function; its triggers are in its manifest.
async fn delete(context: &Context, args: &NamedFunction) -> Result<Exit, CommandFailure> {
    args.namespace.report(context);
    context.delete(&function_path(&args.function)?).await?;
    context.out.remark(&format!("Function {} deleted", args.function))?;
    Ok(Exit::Fine)
}
