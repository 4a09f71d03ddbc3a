//! `kubeless autoscale`: the smallest and the largest pool of a function. fnd starts workers as calls need them, so a target
//! of CPU or calls is only kept and shown.

use super::code::{upload, uploaded};
use super::function::list::details;
use super::options::{Namespace, ignored};
use super::print_rows;
use crate::common::candidates;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_import::kubeless::manifest::{AUTOSCALE, remove_autoscale, set_autoscale};
use fnd_import::kubeless::object;
use serde_json::Value;

/// The verbs.
#[derive(Debug, clap::Subcommand)]
pub(super) enum AutoscaleVerb {
    /// Set the smallest and the largest number of workers of a function.
    #[command(after_help = "Example:\n  kubeless autoscale create hello --min 1 --max 3")]
    Create(CreateAutoscale),
    /// Set them back to what they were without `create`.
    Delete(NamedAutoscale),
    /// List functions for which they are set.
    #[command(visible_alias = "ls")]
    List(All),
}

/// Options of `create`.
#[derive(Debug, clap::Args)]
pub(super) struct CreateAutoscale {
    /// Name of the function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    /// Workers that are always there.
    #[arg(long, value_name = "N", default_value_t = 1)]
    min: u32,

    /// Most workers at once.
    #[arg(long, value_name = "N", default_value_t = 1)]
    max: u32,

    /// Kept, shown and reported: fnd starts workers as calls need them.
    #[arg(long, value_name = "METRIC", default_value = "cpu", value_parser = ["cpu", "qps"])]
    metric: String,

    /// Kept, shown and reported, likewise.
    #[arg(long, value_name = "VALUE")]
    value: Option<String>,

    #[command(flatten)]
    namespace: Namespace,
}

/// A function.
#[derive(Debug, clap::Args)]
pub(super) struct NamedAutoscale {
    /// Name of the function.
    #[arg(value_name = "FUNCTION", add = candidates::functions())]
    function: String,

    #[command(flatten)]
    namespace: Namespace,
}

/// All functions.
#[derive(Debug, clap::Args)]
pub(super) struct All {
    #[command(flatten)]
    namespace: Namespace,
}

/// # Errors
/// There is no such function, or fnd refuses the change.
pub(super) async fn run(context: &Context, verb: AutoscaleVerb) -> Result<Exit, CommandFailure> {
    match verb {
        AutoscaleVerb::Create(args) => create(context, &args).await?,
        AutoscaleVerb::Delete(args) => {
            args.namespace.report(context);
            let mut code = uploaded(context, &args.function).await?;
            if !remove_autoscale(&mut code.manifest)? {
                let message = format!("`{}` has no autoscale", args.function);
                return Err(
                    CommandFailure::new(Exit::NoSuchThing, message).help("`autoscale list` shows those that there are")
                );
            }
            upload(context, &code, &args.function, false).await?;
            context.out.remark(&format!("Autoscale of {} deleted", args.function))?;
        }
        AutoscaleVerb::List(args) => {
            args.namespace.report(context);
            list(context).await?;
        }
    }
    Ok(Exit::Fine)
}

async fn create(context: &Context, args: &CreateAutoscale) -> Result<(), CommandFailure> {
    args.namespace.report(context);
    if args.min > args.max {
        return Err(CommandFailure::usage(format!(
            "`--min {}` is more than `--max {}`",
            args.min, args.max
        )));
    }
    let value = args.value.clone().unwrap_or_default();
    let target = format!("--metric {} --value {value}", args.metric);
    // Without `--value` the warning names only the option that was typed.
    ignored(context, target.trim_end_matches(" --value "));
    let mut code = uploaded(context, &args.function).await?;
    set_autoscale(
        &mut code.manifest,
        (args.min, args.max),
        &format!("{}:{value}", args.metric),
    )?;
    upload(context, &code, &args.function, false).await?;
    context.out.remark(&format!("Autoscale of {} created", args.function))
}

async fn list(context: &Context) -> Result<(), CommandFailure> {
    let mut rows = Vec::new();
    for detail in details(context, &[]).await? {
        let Some(label) = detail.status.labels.get(AUTOSCALE) else {
            continue;
        };
        rows.push(object::autoscale(
            detail.status.function.as_str(),
            &detail.more.manifest,
            label,
        ));
    }
    let heads = ["NAME", "NAMESPACE", "TARGET", "MIN", "MAX", "METRIC", "VALUE"];
    let keys = ["name", "namespace", "target", "min", "max", "metric", "value"];
    print_rows(context, &Value::from(rows), (&heads, &keys))
}
