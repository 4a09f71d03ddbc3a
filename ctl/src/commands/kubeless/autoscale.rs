//! `kubeless autoscale`: the smallest and the largest pool of a function. fnd starts workers as calls need them, so a target
//! of CPU or calls is only kept and shown.

use super::code::{upload, uploaded};
use super::function::list::details;
use super::options::{NamedFunction, Namespace, ignored};
use super::print_rows;
use crate::common::candidates;
use crate::context::Context;
use crate::exit::{CommandFailure, Exit};
use fnd_import::kubeless::manifest::{AUTOSCALE, remove_autoscale, set_autoscale};
use fnd_import::kubeless::object;

/// The verbs.
#[derive(Debug, clap::Subcommand)]
pub(super) enum AutoscaleVerb {
    /// Set the smallest and the largest number of workers of a function.
    #[command(after_help = "Example:\n  kubeless autoscale create hello --min 1 --max 3")]
    Create(CreateAutoscale),
    /// Set them back to what they were without `create`.
    Delete(NamedFunction),
    /// List functions for which they are set.
    #[command(visible_alias = "ls")]
    List(Namespace),
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
                let help = "`autoscale list` shows those that there are";
                return Err(CommandFailure::new(Exit::NoSuchThing, message).help(help));
            }
            upload(context, &code, &args.function, false).await?;
            context.out.remark(&format!("Autoscale of {} deleted", args.function))?;
        }
        AutoscaleVerb::List(namespace) => {
            namespace.report(context);
            return list(context).await;
        }
    }
    Ok(Exit::Fine)
}

async fn create(context: &Context, args: &CreateAutoscale) -> Result<(), CommandFailure> {
    args.namespace.report(context);
    let (min, max) = (args.min, args.max);
    if min > max {
        let message = format!("`--min {min}` is more than `--max {max}`");
        return Err(CommandFailure::usage(message));
    }
    let value = args.value.clone().unwrap_or_default();
    let target = format!("--metric {} --value {value}", args.metric);
    // Without `--value` the warning names only the option that was typed.
    ignored(context, target.trim_end_matches(" --value "));
    let mut code = uploaded(context, &args.function).await?;
    set_autoscale(&mut code.manifest, (min, max), &format!("{}:{value}", args.metric))?;
    upload(context, &code, &args.function, false).await?;
    context.out.remark(&format!("Autoscale of {} created", args.function))
}

async fn list(context: &Context) -> Result<Exit, CommandFailure> {
    let details = details(context, &[]).await?;
    let rows = details.iter().filter_map(|detail| {
        let (status, label) = (&detail.status, detail.status.labels.get(AUTOSCALE)?);
        Some(object::autoscale(
            status.function.as_str(),
            &detail.more.manifest,
            label,
        ))
    });
    let heads = ["NAME", "NAMESPACE", "TARGET", "MIN", "MAX", "METRIC", "VALUE"];
    let keys = ["name", "namespace", "target", "min", "max", "metric", "value"];
    print_rows(context, &rows.collect::<Vec<_>>(), (&heads, &keys))
}
